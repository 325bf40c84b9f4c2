"""The model that is measured beside ours is the same model: same loss, same gradients, same tokens."""

import numpy as np
import pytest

from benchmarks import ours
from benchmarks.sizes import SIZES, batches
from benchmarks.statements import BARE, TENSOR, operands


@pytest.fixture
def theirs(oracle):
    from benchmarks import theirs

    return theirs


@pytest.mark.parametrize("size", ["tiny", "laptop"])
def test_loss_and_gradients_are_equal(oracle, theirs, size):
    model, twin = ours.decoder(SIZES[size]), theirs.decoder(SIZES[size])
    ids, targets = next(batches(SIZES[size]))
    loss, their_loss = model.loss(ids, targets), twin.loss(oracle.from_numpy(ids), oracle.from_numpy(targets))
    assert loss.item() == pytest.approx(their_loss.item(), rel=1e-6)
    loss.backward()
    their_loss.backward()
    state = {name: parameter.grad for name, parameter in model.named_parameters()}
    same = dict(twin.named_parameters())
    pairs = {
        "token_embedding.weight": "wte.weight", "position_embedding.weight": "wpe.weight", "norm.weight": "ln_f.weight",
        "blocks.1.attn.out_proj.weight": "h.1.attn.c_proj.weight", "blocks.0.attn_norm.weight": "h.0.ln_1.weight",
        "blocks.1.ffn_norm.weight": "h.1.ln_2.weight", "blocks.0.ffn.up.weight": "h.0.mlp.c_fc.weight",
        "blocks.1.ffn.down.weight": "h.1.mlp.c_proj.weight",
    }  # fmt: skip
    for name, their_name in pairs.items():
        np.testing.assert_allclose(state[name].numpy(), same[their_name].grad.numpy(), rtol=1e-3, atol=2e-6, err_msg=name)
    joined = np.concatenate([state[f"blocks.0.attn.{part}_proj.weight"].numpy() for part in "qkv"])
    np.testing.assert_allclose(joined, same["h.0.attn.c_attn.weight"].grad.numpy(), rtol=1e-3, atol=2e-6)


def test_the_steps_are_equal(theirs):
    one, other = ours.Training("tiny"), theirs.Training("tiny")
    assert [one.once() for _ in range(20)] == pytest.approx([other.once() for _ in range(20)], rel=1e-5)


def test_it_writes_the_same_tokens(theirs):
    assert ours.Generation("tiny", 0.0).once() == theirs.Generation("tiny", 0.0).once()


def test_the_cache_changes_nothing(oracle, theirs):
    twin = theirs.decoder(SIZES["tiny"])
    ids = oracle.tensor([[3, 1, 4, 1, 5]])
    cache = twin.new_cache()
    parts = [twin(ids[:, :2], cache)] + [twin(ids[:, i : i + 1], cache) for i in range(2, 5)]
    oracle.testing.assert_close(oracle.cat(parts, 1), twin(ids))


def test_a_weight_without_a_place_is_an_error(theirs):
    twin = theirs.Twin(SIZES["tiny"])
    state = {name: tensor.numpy() for name, tensor in ours.decoder(SIZES["tiny"]).state_dict().items()}
    with pytest.raises(KeyError, match=r"extra\.bias"):
        twin.load({**state, "extra.bias": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match="does not fit"):
        twin.load({**state, "norm.weight": np.zeros(3, np.float32)})


@pytest.mark.parametrize("op", TENSOR)
def test_a_small_op_is_the_same_in_all_three(theirs, op):
    if op == "forward + backward":
        tensors, arrays, torches = ours.SmallOps().names, operands(), theirs.SmallOps().names
        without_clearing = TENSOR[op].split(";")[0]
        exec(without_clearing, tensors)
        exec(without_clearing, torches)
        exec(BARE[op], {"np": np}, arrays)
        for name in "abc":
            np.testing.assert_allclose(tensors[name].grad.numpy(), arrays[f"d{name}"], rtol=1e-5)
            np.testing.assert_allclose(torches[name].grad.numpy(), arrays[f"d{name}"], rtol=1e-5)
    else:
        found = eval(BARE[op], {"np": np, **operands()})
        np.testing.assert_allclose(eval(TENSOR[op], ours.SmallOps().names).detach().numpy(), found, rtol=1e-5)
        np.testing.assert_allclose(eval(TENSOR[op], theirs.SmallOps().names).detach().numpy(), found, rtol=1e-5)
