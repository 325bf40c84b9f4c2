"""DT: dtypes and NumPy's arithmetic."""

import re

import numpy as np
import pytest

from tinygrad_tf import Tensor, arange, full, optim, tensor
from tinygrad_tf.data import get_batch
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.text import TextError, Vocabulary

FLOAT32 = np.dtype(np.float32)


def test_DT_02_numpys_numbers_and_arrays_do_not_widen_a_float32_tensor():
    for make in (
        lambda t: t / np.sqrt(16),
        lambda t: t * np.float64(0.5),
        lambda t: t * np.array(2.0),
        lambda t: t * np.array([1, 2]),
    ):
        t = tensor([1.0, 1.0], requires_grad=True)
        y = make(t)
        assert y.dtype == FLOAT32
        y.sum().backward()
        assert t.grad.dtype == FLOAT32


def test_DT_02_after_a_training_step_everything_is_float32():
    model = Decoder(DecoderConfig(7, 6, 1, 2, n_embd=8, dropout=0.1), np.random.default_rng(0))
    optimizer = optim.AdamW(model.parameters(), lr=np.float64(1e-3))
    loss = model.loss(np.array([[1, 2, 3]]), np.array([[2, 3, 4]])) * np.float64(0.5)
    loss.backward()
    optimizer.step()
    moments = [v for s in optimizer.state_dict()["state"].values() for k, v in s.items() if k != "step"]
    everything = [loss, *model.parameters(), *(p.grad for p in model.parameters()), *moments]
    assert {x.dtype for x in everything} == {FLOAT32}


TOO_SMALL = [(70000, np.uint16), (65536, np.uint16), (40000, np.int16), (-1, np.uint8), (2**63, np.int64)]


@pytest.mark.parametrize("value, dtype", TOO_SMALL)
def test_DT_04_a_number_that_a_dtype_cannot_hold_is_refused_by_every_door(value, dtype):
    wide = np.array([1, value], np.uint64 if value > 2**62 else np.int64)
    narrow = Tensor(np.zeros(2, dtype))
    doors = [
        lambda: tensor([1, value], dtype=dtype), lambda: tensor(wide, dtype=dtype), lambda: Tensor(wide).to(dtype),
        lambda: Tensor(wide.astype(np.float64)).to(dtype), lambda: narrow.__setitem__(0, value),
        lambda: narrow.__setitem__(slice(None), wide), lambda: narrow.__setitem__(0, wide[1]),
        lambda: narrow.__setitem__(0, Tensor(wide)[1]), lambda: narrow.fill_(value), lambda: narrow + wide,
        lambda: full((2,), value, dtype=dtype), lambda: arange(value, value + 2, dtype=dtype),
        lambda: setattr(narrow, "data", wide),
    ]  # fmt: skip
    for door in doors:
        with pytest.raises(OverflowError, match=r"out of bounds for|too large"):
            door()
    assert narrow.tolist() == [0, 0]


def test_DT_04_what_is_not_finite_is_no_integer():
    for bad in (np.nan, np.inf, -1e30):
        with pytest.raises(OverflowError, match=re.escape(f"{bad} out of bounds for int64")):
            tensor([0.0, bad], dtype=np.float64).long()
    assert tensor([-0.9, 127.9]).to(np.int8).tolist() == [0, 127]  # a fraction is cut off


def test_DT_04_ids_are_stored_in_a_type_that_holds_them_and_lengths_never_underflow():
    vocabulary = Vocabulary("".join(map(chr, range(0x10000, 0x10000 + 70_001))))
    for i in 70_000, 65_536, 40_000:
        assert vocabulary.encode(chr(0x10000 + i)).tolist() == [i]
    with pytest.raises(TextError, match="too short: 3 characters, at least 6 are needed"):
        get_batch(np.arange(3, dtype=np.uint32), 5, 1, np.random.default_rng(0))
    assert (Tensor(np.array([3], np.uint32)).sum() - 5).item() == -2
