"""The loss of a small model as one op: the same bits as op by op, and every change of the module is noticed."""

import gc
import weakref

import numpy as np
import pytest

from tests.nn import decoders
from tinygrad_tf import Tensor, composed, nn, no_grad, optim, replaying
from tinygrad_tf.engine import history, state
from tinygrad_tf.models import Decoder, DecoderConfig

CONFIGS = {
    **decoders.CONFIGS,
    "parallel, relu2": {**decoders.SMALL, "ffn": "relu2", "parallel": True},
    "a window": {**decoders.SMALL, "window": 5},
}
IDS = np.random.default_rng(3).integers(0, 23, (6, 2, 12))


def built(name="gpt2", **changes):
    return Decoder(DecoderConfig(**{**CONFIGS[name], **changes}), np.random.default_rng(1))


def ops_of(loss):
    return [node.op.name for node in history(loss.node)]


def trained(model, steps=4):
    """What is trained, and the ops and bits of each step."""
    optimizer, seen = optim.AdamW(model.parameters(), lr=1e-2), []
    for ids in IDS[:steps]:
        loss = model.loss(ids, ids[:, ::-1])
        names = ops_of(loss)
        loss.backward()
        bits = [loss.array.tobytes(), *(p.grad.array.tobytes() for p in model.parameters())]
        optimizer.step()
        optimizer.zero_grad()
        seen.append((names, bits))
    return seen


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_bits_in_fewer_nodes(name):
    plain = trained(built(name))
    with replaying():
        short = trained(built(name))
    assert [bits for _, bits in short] == [bits for _, bits in plain]
    assert short[0][0] == plain[0][0]
    assert all(names == ["replay"] for names, _ in short[1:])


def test_constants_among_the_inputs_might_be_others_at_the_next_step():
    with replaying():
        assert not any("replay" in names for names, _ in trained(Decoder(DecoderConfig(**decoders.SMALL, attention="linear"))))


def test_only_inside_the_block():
    model = built()
    with replaying():
        trained(model)
    assert "replay" not in ops_of(model.loss(IDS[0], IDS[0]))


def gradients_both_ways(step):
    """What three steps add up in each parameter, op by op and replayed."""
    grads = []
    for switch in (no_switch, replaying):
        model = built()
        with switch():
            for ids in IDS[:3]:
                step(model, ids)
        grads.append([p.grad.array for p in model.parameters()])
    return zip(*grads, strict=True)


def test_gradients_accumulate_over_graphs():
    def step(model, ids):
        model.loss(ids, ids).backward()
        model.loss(ids[:, ::-1], ids).backward()

    assert all(one.tobytes() == other.tobytes() for one, other in gradients_both_ways(step))


def test_two_losses_in_one_graph():
    """A weight that is used at both ends gets its gradients in another order: the bits may differ."""
    for one, other in gradients_both_ways(lambda m, ids: (m.loss(ids, ids) + m.loss(ids[:, ::-1], ids)).backward()):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_ids_and_targets_are_those_of_the_step():
    """Whatever their memory was when it was recorded: one array as both, views, another layout, another integer type."""
    plain, model = built(), built()
    with replaying():
        model.loss(IDS[0], IDS[0])
        for ids, targets in [(IDS[1], IDS[2]), (IDS[2], IDS[2]), (IDS[3, ::-1], IDS[4][:, ::-1]), (IDS[0].T.copy().T, IDS[1]),
                             (IDS[1].tolist(), Tensor(IDS[2]))]:  # fmt: skip
            loss = model.loss(ids, targets)
            assert ops_of(loss) == ["replay"]
            assert loss.item() == plain.loss(ids, targets).item()
        small = IDS[1].astype(np.uint8)
        assert model.loss(small, IDS[2]).item() == plain.loss(small, IDS[2]).item()


@pytest.mark.parametrize(("ids", "targets"), [(23, 0), (-1, 0), (0, 23), (0, -1)])
def test_ids_out_of_bounds_are_refused_at_every_step(ids, targets):
    model = built()
    with replaying():
        for _ in range(3):
            model.loss(IDS[0], IDS[1])
        with pytest.raises(IndexError, match="table of 23 rows|none of 23 classes"):
            model.loss(np.full((2, 12), ids), np.full((2, 12), targets))


@pytest.mark.parametrize("head", [nn.Linear(16, 3), nn.Linear(16, 40), nn.Sequential(nn.Linear(16, 3))], ids=repr)
def test_a_head_of_another_size_or_kind(head):
    model, plain = built(), built()
    model.lm_head = plain.lm_head = head
    with replaying():
        losses = [model.loss(IDS[0], IDS[1] % 3).item() for _ in range(3)]
    assert losses == [plain.loss(IDS[0], IDS[1] % 3).item()] * 3


def test_angles_have_the_dtype_of_the_weights():
    plain, model = built("modern"), built("modern")
    with replaying():
        for _ in range(2):
            model.loss(IDS[0], IDS[1])
        assert model.double().loss(IDS[0], IDS[1]).item() == plain.double().loss(IDS[0], IDS[1]).item()


def test_targets_that_do_not_count():
    targets = np.where(IDS[1] > 11, -100, IDS[1])
    plain, model = built(), built()
    with replaying():
        for _ in range(3):
            assert model.loss(IDS[0], targets).item() == plain.loss(IDS[0], targets).item()


def test_losses_with_two_sides_keep_every_op():
    """What a decoder reads beside the tokens is no part of what was recorded."""
    model = Decoder(DecoderConfig(**CONFIGS["gpt2"]), np.random.default_rng(1), cross=True)
    memory = Tensor(np.random.default_rng(5).standard_normal((2, 4, 16)).astype(np.float32))
    with replaying():
        for _ in range(3):
            assert "replay" not in ops_of(model.loss(IDS[0], IDS[1], memory))


class no_switch:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def change_of_a_layer(model):
    model.blocks[1].ffn.up = nn.Linear(16, 64, generator=np.random.default_rng(8))


def change_of_a_weight(model):
    model.blocks[0].attn.q_proj.weight = nn.Parameter(np.ones((16, 16), np.float32))


def change_of_a_bias(model):
    model.lm_head.bias = nn.Parameter(np.arange(23, dtype=np.float32))


def change_of_a_setting(model):
    model.norm.eps = 0.5


def frozen(model):
    model.blocks[0].requires_grad_(False)


def with_a_hook(model):
    model.blocks[0].register_forward_hook(lambda module, args, out: out * 2)


def with_a_forward_of_its_own(model):
    model.blocks[1].ffn.down.forward = lambda x: Tensor(np.zeros((*x.shape[:-1], 16), np.float32)) + x.mean()


def with_dropout(model):
    for block in model.blocks:
        block.attn.attn_dropout.p = 1.0


@pytest.mark.parametrize("change", [change_of_a_layer, change_of_a_weight, change_of_a_bias, change_of_a_setting, frozen,
                                    with_a_hook, with_a_forward_of_its_own, with_dropout])  # fmt: skip
def test_a_change_counts_at_once(change):
    found = []
    for switch in (no_switch, replaying):
        model, losses = built(), []
        with switch():
            for step in range(5):
                if step == 2:
                    change(model)
                loss = model.loss(IDS[0], IDS[1])
                loss.backward()
                losses.append(loss.item())
        found.append((losses, [None if p.grad is None else p.grad.array.tobytes() for p in model.parameters()]))
        assert losses[1] == losses[0] and (change is frozen or losses[2] != losses[1])
    assert found[0] == found[1]


def test_hooks_are_called_at_every_step():
    model, calls = built(), []
    with replaying():
        trained(model, 2)
        handle = model.blocks[0].ffn.register_forward_hook(lambda *_: calls.append(1))
        trained(model, 3)
        assert len(calls) == 3
        handle.remove()
        trained(model, 2)
    assert len(calls) == 3


def test_dropout_draws_at_every_step():
    model = built(dropout=0.3)
    with replaying():
        assert len({bits[0] for _, bits in [*trained(model, 1), *trained(built(dropout=0.3), 1)]}) == 2
        assert not any("replay" in names for names, _ in trained(model))
        model.eval()
        assert "replay" in trained(model)[-1][0]
        model.train()
        assert "replay" not in trained(model)[-1][0]


def test_a_class_of_the_readers_own_runs_op_by_op():
    class Louder(nn.FeedForward):
        def forward(self, x):
            self.louder = 1 + len(calls)
            calls.append(1)
            return super().forward(x) * self.louder

    model, calls = built(), []
    model.blocks[0].ffn = Louder(16, 64)
    with replaying():
        assert not any("replay" in names for names, _ in trained(model))
    assert len(calls) == 4


def test_who_looks_sees_every_op():
    model, seen = built(), []
    with replaying():
        trained(model)
        with composed():
            assert "replay" not in ops_of(model.loss(IDS[0], IDS[0]))
        state.observer = lambda node, value: seen.append(node.op.name)
        try:
            model.loss(IDS[0], IDS[0])
        finally:
            state.observer = None
        with no_grad():
            assert model.loss(IDS[0], IDS[0]).node is None
    assert "replay" not in seen and seen.count("attention") == 2


def test_another_length_is_recorded_anew():
    model, plain = built(), built()
    with replaying():
        for length in (12, 5, 5, 12, 12):
            ids = IDS[0][:, :length]
            assert model.loss(ids, ids).item() == plain.loss(ids, ids).item()


def test_a_weight_changed_between_forward_and_backward_is_noticed():
    model = built()
    with replaying():
        trained(model)
        loss = model.loss(IDS[0], IDS[0])
        with no_grad():
            model.blocks[0].attn.q_proj.weight.mul_(2)
        with pytest.raises(RuntimeError, match=r"<replay .*changed in place afterwards, at .*test_replay\.py:\d+"):
            loss.backward()


def test_nothing_is_kept_of_a_step_nor_of_a_model():
    model = built()
    with replaying():
        trained(model)
        loss = model.loss(IDS[0], IDS[0])
        kept = [weakref.ref(array) for node in history(loss.node) if node.op.name == "replay" for array in node.kept()
                if array.dtype.kind == "f" and all(array is not p.array for p in model.parameters())]  # fmt: skip
        assert kept
        loss.backward()
        del loss
        assert not any(array() is not None for array in kept)
    block = weakref.ref(model.blocks[0])
    del model
    gc.collect()
    assert block() is None


def test_rows_brought_to_a_largest_norm_are_so_at_every_step():
    models = built(), built()
    for model in models:
        model.token_embedding.weight.array[...] *= 100
        model.token_embedding.max_norm = 0.5
    for seed in range(4):
        ids = np.random.default_rng(seed).integers(0, 23, (2, 1, 4))
        with replaying():
            found = models[0].loss(*ids).item()
        assert found == models[1].loss(*ids).item()


def test_another_forward_of_a_class_counts(monkeypatch):
    model, plain = built(), built()
    with replaying():
        trained(model)
        plain.load_state_dict(model.state_dict())
        real = nn.FeedForward.forward
        monkeypatch.setattr(nn.FeedForward, "forward", lambda self, x: real(self, x) * 0.5)
        for _ in range(3):
            assert model.loss(IDS[0], IDS[0]).item() == pytest.approx(plain.loss(IDS[0], IDS[0]).item(), rel=1e-6)
