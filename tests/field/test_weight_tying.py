"""WT: one matrix under two names."""

import copy

import numpy as np
import pytest

from tinygrad_tf import nn, optim
from tinygrad_tf.checkpoint import CheckpointError, pack_model, unpack_model
from tinygrad_tf.models import Decoder, DecoderConfig


class Tied(nn.Module):
    def __init__(self):
        self.embedding = nn.Embedding(65, 16)
        self.head = nn.Linear(16, 65, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids))


def test_WT_01_a_tied_matrix_counts_once_and_gets_both_gradients():
    model = Tied()
    assert sum(p.numel() for p in model.parameters()) == 1040
    assert [n for n, _ in model.named_parameters()] == ["embedding.weight"]

    ids, g = np.array([[1, 1, 4]]), np.random.default_rng(0).standard_normal((1, 3, 65)).astype(np.float32)
    model(ids).backward(g)
    untied = copy.deepcopy(model)
    untied.head.weight = nn.Parameter(model.head.weight.array.copy())
    untied.zero_grad()
    untied(ids).backward(g)
    parts = untied.embedding.weight.grad.array, untied.head.weight.grad.array
    np.testing.assert_allclose(model.embedding.weight.grad.array, parts[0] + parts[1], rtol=1e-5, atol=1e-6)


def test_WT_01_a_weight_used_twice_is_stepped_once():
    w = nn.Parameter(3.0)
    optimizer = optim.SGD([w], lr=0.1)
    (w * w).backward()
    assert w.grad.item() == 6.0
    optimizer.step()
    assert w.item() == pytest.approx(2.4)
    for duplicated in ([w, w], [{"params": [w]}, {"params": [w]}]):
        with pytest.raises(ValueError, match="twice"):
            optim.SGD(duplicated, lr=0.1)
    with pytest.raises(ValueError, match="twice"):
        optim.Together(optim.SGD([w]), optim.AdamW([w]))


def test_WT_03_a_copy_is_tied_inside_and_not_to_the_original():
    model = Tied()
    other = copy.deepcopy(model)
    assert other.head.weight is other.embedding.weight
    assert other.head.weight is not model.head.weight
    other.head.weight.array[...] += 1
    assert not np.allclose(other.head.weight.array, model.head.weight.array)


def test_WT_03_casting_and_loading_keep_the_tie():
    model = Tied().double()
    assert model.head.weight is model.embedding.weight
    assert model.float().head.weight.dtype == np.float32
    model.load_state_dict(Tied().state_dict())
    assert model.head.weight is model.embedding.weight


def test_WT_03_two_different_matrices_for_one_weight_are_refused_by_both_names():
    model = Tied()
    before = model.head.weight.array.copy()
    state = {name: t.array.copy() for name, t in model.state_dict().items()}
    state["head.weight"] += 1
    with pytest.raises(ValueError, match=r"embedding\.weight.*head\.weight|head\.weight.*embedding\.weight"):
        model.load_state_dict(state)
    np.testing.assert_array_equal(model.head.weight.array, before)

    decoder = Decoder(DecoderConfig(5, 4, 1, 1, n_embd=4))
    arrays = {name: t.array.copy() for name, t in decoder.state_dict().items()}
    arrays["lm_head.weight"] = arrays["token_embedding.weight"] + 1
    with pytest.raises(CheckpointError, match=r"token_embedding\.weight and lm_head\.weight differ"):
        unpack_model(decoder, arrays)
    unpack_model(decoder, pack_model(decoder))
    assert decoder.lm_head.weight is decoder.token_embedding.weight
