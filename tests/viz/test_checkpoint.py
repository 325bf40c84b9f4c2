"""A checkpointed block is drawn as what it computes, and its ledger says what is kept of it: what went in."""

import numpy as np
import pytest

import viz
from tinygrad_tf.models import Decoder, DecoderConfig

IDS = np.random.default_rng(3).integers(0, 19, (2, 8))


def model(recompute):
    config = DecoderConfig(19, 12, n_layer=3, n_head=2, n_embd=16, recompute=recompute, dropout=0.2)
    return Decoder(config, np.random.default_rng(0))


def shape(graph):
    return [(n.id, n.kind, n.shape, n.module) for n in graph.nodes], [(e.source, e.target, e.slot) for e in graph.edges]


def test_the_picture_is_that_of_the_plain_call():
    plain, again = (viz.trace(model(r).loss(IDS, IDS)) for r in (False, True))
    assert shape(plain) == shape(again)
    assert plain.skips == again.skips
    assert len(viz.trace(model(True).loss(IDS, IDS), fused=False).nodes) > len(plain.nodes)


def test_drawing_changes_no_gradient():
    found = []
    for draw in (False, True):
        m = model(True)
        for i, module in enumerate(m.modules()):
            if hasattr(module, "generator"):
                module.generator = np.random.default_rng(i)
        loss = m.loss(IDS, IDS)
        if draw:
            assert "blocks.2" in viz.draw(loss, view="modules").dot
        loss.backward()
        found.append({name: p.grad.array.tobytes() for name, p in m.named_parameters()})
    assert found[0] == found[1]


@pytest.mark.parametrize("recorded", [False, True])
def test_the_ledger_counts_what_goes_into_each_block(recorded):
    m = model(True)
    if recorded:
        with viz.record():
            loss = m.loss(IDS, IDS)
    else:
        loss = m.loss(IDS, IDS)
    blocks = [row.kept for row in viz.ledger(loss).rows if row.kind == "Block"]
    assert blocks == [2 * 8 * 16 * 4] * 3
    if recorded:
        loss.backward()
        graph = viz.trace(loss)
        assert all(n.grad is not None for n in graph.nodes if n.kind == "op")


def test_after_backward_there_is_a_picture_without_numbers_and_it_says_why():
    loss = model(True).loss(IDS, IDS)
    loss.backward()
    graph = viz.trace(loss)
    assert shape(graph) == shape(viz.trace(model(False).loss(IDS, IDS)))
    assert "backward() has let go of what a checkpoint kept" in graph.notes[0]
    with pytest.raises(RuntimeError, match="ask before that"):
        viz.trace(loss, fused=False)
