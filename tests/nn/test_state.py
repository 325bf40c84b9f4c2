"""Ties, state dicts, copies and casts: what a module keeps when its values go somewhere else."""

import copy

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn
from tinygrad_tf.models import Decoder, DecoderConfig


class Tied(nn.Module):
    def __init__(self):
        self.embedding = nn.Embedding(65, 16)
        self.head = nn.Linear(16, 65, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids))


def small(**options):
    return Decoder(DecoderConfig(**{"vocab_size": 11, "block_size": 8, "n_layer": 2, "n_head": 2, "n_embd": 8, **options}))


# ------------------------------------------------------------------------------------------------ ties


def test_WT03_a_copy_is_tied_inside_and_not_to_the_original():
    model = Tied()
    other = copy.deepcopy(model)
    assert other.head.weight is other.embedding.weight
    assert other.head.weight is not model.head.weight
    assert type(other.head.weight) is nn.Parameter
    other.head.weight.array[...] += 1
    assert not np.allclose(other.head.weight.array, model.head.weight.array)
    np.testing.assert_array_equal(other(np.array([[3]])).array, other.head(other.embedding(np.array([[3]]))).array)


def test_WT03_casting_keeps_the_tie():
    model = Tied().double()
    assert model.head.weight is model.embedding.weight
    assert model.head.weight.dtype == np.float64
    assert model(np.array([[3]])).dtype == np.float64
    assert model.float().head.weight.dtype == np.float32


def test_WT03_loading_keeps_the_tie():
    model, other = Tied(), Tied()
    model.load_state_dict(other.state_dict())
    assert model.head.weight is model.embedding.weight
    np.testing.assert_array_equal(model.head.weight.array, other.embedding.weight.array)


def test_a_module_that_is_held_under_two_names_is_saved_under_both(oracle):
    def model(nn):
        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Linear(2, 2)
                self.second = self.first

        return Twice()

    ours, theirs = model(nn), model(oracle.nn)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert (
        [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()] == ["first.weight", "first.bias"]
    )
    ours.load_state_dict({name: np.full(tuple(t.shape), 2.0) for name, t in theirs.state_dict().items()})
    assert ours.second.bias.tolist() == [2, 2]


# ------------------------------------------------------------------------------------------------ state


def test_state_dict_shares_memory_and_loading_copies():
    model, other = small(), small()
    state = model.state_dict()
    assert all(
        np.shares_memory(t.array, dict(model.named_parameters())[n].array) for n, t in state.items() if n != "lm_head.weight"
    )
    held = dict(other.named_parameters())
    other.load_state_dict(state)
    for name, p in other.named_parameters():
        assert p is held[name]
        np.testing.assert_array_equal(p.array, state[name].array)
        assert not np.shares_memory(p.array, state[name].array)
    ids = np.array([[1, 2, 3]])
    assert model(ids).equal(other(ids))


def test_every_problem_is_in_one_message_and_nothing_was_written():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    model.register_buffer("steps", Tensor(np.zeros(2, np.int64)))
    before = {name: t.array.copy() for name, t in model.state_dict().items()}
    state = {name: a + 1 for name, a in before.items()}
    del state["0.bias"]
    state["1.weight"] = np.zeros((3, 2))
    state["1.bias"] = np.zeros((2, 1))
    state["extra"] = np.zeros(1)
    state["steps"] = np.array([0.5, 1.5])
    with pytest.raises(ValueError, match="Sequential") as caught:
        model.load_state_dict(state)
    message = str(caught.value)
    assert "\n" not in message
    for what in (
        "missing 0.bias",
        "unexpected extra",
        "1.weight has shape (3, 2), here it is (2, 3)",
        "1.bias",
        "steps",
        "float64",
    ):
        assert what in message
    for name, t in model.state_dict().items():
        np.testing.assert_array_equal(t.array, before[name])
    with pytest.raises(ValueError, match="shape") as caught:
        model.load_state_dict(state, strict=False)
    assert "missing" not in str(caught.value)


def test_loading_loosely_takes_what_fits_by_name():
    model = nn.Linear(2, 2)
    before = model.bias.array.copy()
    model.load_state_dict({"weight": np.ones((2, 2)), "other": np.ones(1)}, strict=False)
    assert model.weight.tolist() == [[1, 1], [1, 1]]
    assert model.weight.dtype == np.float32
    np.testing.assert_array_equal(model.bias.array, before)


@pytest.mark.parametrize("bad", [np.array([["a", "b"]]), np.array([[1j, 2j]]), "text"])
def test_what_is_no_array_of_numbers_is_refused_by_name_before_the_first_write(bad):
    model = nn.Linear(2, 1)
    before = model.bias.array.copy()
    with pytest.raises((ValueError, TypeError), match="weight"):
        model.load_state_dict({"bias": before + 1, "weight": bad})
    np.testing.assert_array_equal(model.bias.array, before)
