"""The memory ledger: it adds up, and what it adds up to is what the engine holds."""

import csv
import gc
import io
import json
import tracemalloc
from contextlib import nullcontext

import numpy as np
import pytest

import viz
from tinygrad_tf import Tensor, composed, nn
from tinygrad_tf.engine import Traced, history
from tinygrad_tf.models import Decoder, DecoderConfig
from viz.ledger import ledger, size

IDS = np.random.default_rng(0).integers(0, 13, (4, 16))


def decoder(**more):
    config = {"vocab_size": 13, "block_size": 16, "n_layer": 2, "n_head": 2, "n_embd": 16, **more}
    return Decoder(DecoderConfig(**config), np.random.default_rng(0))


def owner(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def held(loss):
    """Bytes of all buffers that the rules behind `loss` close over, leaves left out: read from the engine alone."""
    calls = history(loss.node)
    leaves = {id(owner(x.array)) for call in calls for x in call.inputs if isinstance(x, Traced)}
    owners = {id(owner(a)): owner(a) for call in calls for a in call.kept()}
    return sum(a.nbytes for key, a in owners.items() if key not in leaves)


@pytest.mark.parametrize("mode", [nullcontext, composed])
@pytest.mark.parametrize("more", [
    {}, {"ffn": "swiglu", "norm": "rms", "positions": "rotary", "n_kv_head": 1},
    {"tied": False, "bias": True, "norm_order": "post"},
])  # fmt: skip
def test_the_total_is_what_the_engine_holds(mode, more):
    model = decoder(**more)
    with mode():
        loss = model.loss(IDS, IDS)
        account = ledger(loss)
    assert account.kept == held(loss) > 0


def test_memory_in_use_grows_by_about_the_total():
    model = decoder(n_embd=64)
    model.loss(IDS, IDS)  # what is made once
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        loss = model.loss(IDS, IDS)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    kept = ledger(loss).kept
    assert kept <= grown <= 1.2 * kept + 50_000  # the nodes themselves, and views


def test_rows_add_up():
    model = decoder()
    loss = model.loss(IDS, IDS)
    loss.backward()
    account = ledger(viz.trace(loss))
    rows = {row.module: row for row in account.rows}
    assert sum(row.kept_own for row in account.rows) == account.kept == sum(op.kept for op in account.ops)
    assert rows["Decoder"].kept + rows[""].kept == account.kept
    block = [row for row in account.rows if row.module.startswith("blocks.0")]
    assert rows["blocks.0"].kept == sum(row.kept_own for row in block)
    assert rows["blocks.0"].ops + rows["blocks.1"].ops < rows["Decoder"].ops
    assert sum(op.calls for op in account.ops) == rows["Decoder"].ops + rows[""].ops
    assert sum(n for _, _, n in account.shares) == account.kept


def test_modules_stand_in_order_each_before_those_inside_it():
    account = ledger(decoder(), inputs=IDS)
    ids = [row.module for row in account.rows]
    assert ids[:4] == ["Decoder", "token_embedding", "position_embedding", "blocks.0"]
    assert ids.index("blocks.0") < ids.index("blocks.0.attn") < ids.index("blocks.0.attn.q_proj") < ids.index("blocks.1")
    depths = {row.module: row.depth for row in account.rows}
    assert (depths["Decoder"], depths["blocks.0"], depths["blocks.0.attn.q_proj"]) == (0, 1, 3)


def test_parameters_and_gradients_in_bytes():
    model = decoder()
    total = sum(p.array.nbytes for p in model.parameters())
    loss = model.loss(IDS, IDS)
    before = ledger(loss)
    assert (before.parameters, before.gradients) == (total, 0)
    loss.backward()
    assert ledger(loss).gradients == total  # the tied weight once
    doubled = decoder().double()
    assert ledger(doubled, inputs=IDS).parameters == 2 * total


@pytest.mark.parametrize("depth,rows", [(0, 2), (1, 8)])
def test_a_row_at_the_depth_takes_in_what_is_deeper(depth, rows):
    model = decoder()
    loss = model.loss(IDS, IDS)
    whole, account = ledger(loss), ledger(loss, depth=depth)
    assert len(account.rows) == rows
    assert sum(row.kept_own for row in account.rows) == whole.kept == account.kept
    last = next(row for row in account.rows if row.depth == depth and row.module)
    assert last.kept_own == last.kept


def test_a_fused_op_keeps_less_than_its_twin():
    model = decoder()
    fused = ledger(model, inputs=IDS)
    with composed():
        twin = ledger(model, inputs=IDS)
    assert fused.kept < twin.kept == sum(op.kept for op in twin.ops)
    assert fused.parameters == twin.parameters


def test_a_freed_graph_still_has_a_ledger():
    x = Tensor(np.ones(1000, np.float32), requires_grad=True)
    loss = (x.exp() * x).sum()
    before = ledger(viz.trace(loss)).kept
    loss.backward()
    assert before == ledger(viz.trace(loss)).kept == 4000


def test_ops_outside_of_modules_have_a_row():
    x = Tensor(np.ones(10, np.float32), requires_grad=True)
    account = ledger(x.exp().sum(), title="one op")
    assert [(row.module, row.kept) for row in account.rows] == [("", 40)]
    assert str(account) == (
        "one op\n\n"
        "module                class  ops      kept       own  parameters  gradients\n"
        "(outside of modules)           2  40 bytes  40 bytes     0 bytes    0 bytes\n"
        "total                          2  40 bytes               0 bytes    0 bytes\n\n"
        "op   calls      kept\n"
        "exp      1  40 bytes\n"
        "sum      1   0 bytes"
    )


def test_a_module_called_twice_has_two_rows_and_its_parameters_once():
    class Twice(nn.Module):
        def __init__(self):
            self.f = nn.Linear(4, 4, False)

        def forward(self, x):
            return self.f(self.f(x))

    account = ledger(Twice(), inputs=np.ones((2, 4), np.float32))
    assert [(row.module, row.parameters) for row in account.rows] == [("Twice", 64), ("f", 64), ("f#2", 0)]


def test_csv_and_json_hold_whole_bytes():
    account = ledger(decoder(), inputs=IDS, title="a, \"b\" 漢")
    rows = list(csv.DictReader(io.StringIO(account.to_csv())))
    assert [(row["module"], int(row["kept"])) for row in rows] == [(row.module, row.kept) for row in account.rows]
    data = json.loads(account.to_json())
    assert (data["title"], data["kept"], len(data["modules"])) == (account.title, account.kept, len(account.rows))
    assert data["ops"][0] == {"op": account.ops[0].op, "calls": account.ops[0].calls, "kept": account.ops[0].kept}


@pytest.mark.parametrize("nbytes,words", [
    (0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.00 KiB"), (10 * 1024, "10.0 KiB"), (200 * 1024, "200 KiB"),
    (1024**2 - 1, "1024 KiB"), (1024**2, "1.00 MiB"), (5 * 1024**3, "5.00 GiB"), (2048 * 1024**4, "2048 TiB"),
])  # fmt: skip
def test_sizes_name_their_unit(nbytes, words):
    assert size(nbytes) == words


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_the_chart_is_the_same_each_time(tmp_path, suffix):
    account = ledger(decoder(), inputs=IDS, title="$a_b$ <&> 'x'")
    paths = [tmp_path / f"one.{suffix}", tmp_path / f"two.{suffix}"]
    for path in paths:
        account.chart(path)
    one, two = (path.read_bytes() for path in paths)
    assert one == two and len(one) > 2000
    if suffix == "svg":
        text = one.decode("utf-8")
        assert "blocks.0.attn" in text and "attention" in text and size(account.kept) in text
        assert "$a_b$ &lt;&amp;&gt; 'x'" in text


def test_a_chart_of_nothing_kept(tmp_path):
    x = Tensor([1.0], requires_grad=True)
    ledger((x + 1).sum()).chart(tmp_path / "empty.svg")
    assert "0 bytes in all" in (tmp_path / "empty.svg").read_text(encoding="utf-8")


def test_what_cannot_be(tmp_path):
    x = Tensor([1.0], requires_grad=True)
    account = ledger(x.exp())
    with pytest.raises(ValueError, match=r"\.svg, \.png or \.pdf, not as '\.jpg'"):
        account.chart(tmp_path / "a.jpg")
    with pytest.raises(ValueError, match="depth=-1"):
        ledger(x.exp(), depth=-1)
    with pytest.raises(TypeError, match="takes a Tensor"):
        ledger(3)
    assert list(tmp_path.iterdir()) == []


def test_what_was_recorded_counts_after_backward_too():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = np.ones((5, 3), np.float32)
    before = viz.ledger(model(Tensor(x)).sum()).kept
    with viz.record():
        loss = model(Tensor(x)).sum()
    loss.backward()
    assert viz.ledger(loss).kept == before > 0


def test_a_graph_that_backward_freed_says_so():
    loss = (Tensor([1.0], requires_grad=True).exp() * 2).sum()
    loss.backward()
    assert str(viz.ledger(loss)).endswith("take the ledger before it, or run the model inside viz.record()")


def test_a_graph_with_collapsed_modules_is_refused():
    """Its boxes hold parameters that other nodes may hold too, and ops of which the kind is not known."""
    graph = viz.trace(decoder(n_layer=4).loss(IDS, IDS))
    for view in ("modules", "blocks"):
        closed = viz.Graph.from_json(viz.draw(graph, view=view).json())
        with pytest.raises(ValueError, match=r'is collapsed in this graph: .*view="ops"'):
            ledger(closed)
    assert ledger(viz.Graph.from_json(graph.to_json())).kept == ledger(graph).kept
