"""IX: indexing and embeddings."""

import numpy as np
import pytest

from tinygrad_tf import nn, ones, tensor
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F


def test_IX_02_the_gradient_is_the_scatter_into_the_very_same_index():
    z = tensor(np.zeros((2, 3)), requires_grad=True)
    ((z[0::2] * np.array([1.0, 2, 3])).sum() + (z[1::2] * np.array([100.0, 101, 102])).sum()).backward()
    assert z.grad.tolist() == [[1, 2, 3], [100, 101, 102]]
    for index, weights, wanted in [
        (slice(None, None, -1), [1, 10, 100, 1000], [1000, 100, 10, 1]),
        (slice(2, None, -2), [1, 10], [10, 0, 1, 0]),
        (slice(3, 3, 2), [], [0, 0, 0, 0]),
    ]:
        x = tensor(np.zeros(4), requires_grad=True)
        (x[index] * np.array(weights, dtype=float)).sum().backward()
        assert x.grad.tolist() == wanted


@pytest.mark.parametrize("tied", [True, False])
def test_IX_04_a_bad_id_is_named_with_its_place_and_the_size_of_the_vocabulary(tied):
    model = Decoder(DecoderConfig(5, 4, 1, 1, n_embd=4, tied=tied))
    for use in (model, nn.Embedding(5, 2), lambda ids: F.embedding(ids, ones(5, 2)), lambda ids: F.one_hot(ids, 5)):
        with pytest.raises(IndexError, match=r"5 at position \(0, 1\).*5 rows"):
            use(np.array([[0, 5]]))
        with pytest.raises(IndexError, match=r"-1 at position \(1, 0\).*5 rows"):
            use(np.array([[0], [-1]]))
        with pytest.raises(TypeError, match=r"integers.*float"):
            use(np.array([[0.0, 1.0]]))
        with pytest.raises(TypeError, match=r"integers.*bool"):
            use(np.array([[True]]))


def test_IX_04_a_bad_target_too_among_ignored_ones():
    with pytest.raises(IndexError, match=r"7 at position"):
        Decoder(DecoderConfig(5, 4, 1, 1, n_embd=4)).loss(np.array([[0, 1]]), np.array([[1, 7]]))
    for loss in (F.cross_entropy, F.nll_loss):
        with pytest.raises(IndexError, match=r"target 3 at position \(2,\) is none of 3 classes"):
            loss(ones(3, 3), tensor([-100, 0, 3]))
        with pytest.raises(IndexError, match=r"7 at position \(1, 0\)"):
            loss(ones(2, 3, 2), tensor([[0, -100], [7, 0]]))
        with pytest.raises(TypeError, match="ids of classes"):
            loss(ones(1, 3), np.array([1.0]))
