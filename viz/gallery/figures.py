"""The figures of the gallery: each function builds something small in float64 and returns its drawing.

This file is run by its path, not imported from the package: so it counts as a reader's own code, whose variables and lines
appear in the pictures.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import viz
from tinygrad_tf import Tensor, nn
from tinygrad_tf.models import Decoder, DecoderConfig, EncoderDecoder, TransformerConfig


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def linear(n_in: int, n_out: int, seed: int) -> nn.Linear:
    return nn.Linear(n_in, n_out, generator=np.random.default_rng(seed))


def decoder(n_layer: int, **settings: Any) -> Decoder:
    config = DecoderConfig(vocab_size=11, block_size=6, n_layer=n_layer, n_head=2, n_embd=8, **settings)
    return Decoder(config, np.random.default_rng(0)).double()


def block(order: str) -> nn.Block:
    return decoder(1, norm_order=order, norm="rms", ffn="relu").blocks[0]


def scalar_expression() -> viz.Drawing:
    a, b = Tensor(2.0, requires_grad=True), Tensor(-3.0, requires_grad=True)
    c = a * b
    d = c + 7.0
    L = (d * d).tanh() * a  # d * d: two edges from one value
    L.backward()
    return viz.draw(L, view="scalars", title="L = tanh(d · d) · a with d = a · b + 7")


def one_head() -> viz.Drawing:
    x = Tensor(numbers(4, 6), requires_grad=True)
    w_q, w_k, w_v = (nn.Parameter(numbers(6, 3, seed=seed) / 6**0.5) for seed in (1, 2, 3))
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    scores = q @ k.T / 3**0.5
    weights = scores.softmax(-1)
    y = weights @ v
    return viz.draw(y, title="One attention head: y = softmax(q kᵀ / √3) v")


class Branch(nn.Module):
    """What both halves of `residual_or_replaced` compute."""

    def __init__(self) -> None:
        self.up, self.down = linear(6, 12, 1), linear(12, 6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).relu())


def residual_or_replaced() -> viz.Drawing:
    x = Tensor(numbers(2, 6), requires_grad=True)
    f, h = Branch().double(), Branch().double()
    replaced = f(x)
    added = nn.residual(x, h(x))
    return viz.draw([replaced, added], title="Left the branch replaces x, right it writes to x: y = f(x) and y = x + f(x)")


def pre_norm_block() -> viz.Drawing:
    return viz.draw(block("pre"), inputs=numbers(1, 4, 8), title="Pre-norm block: the skip path goes through nothing at all")


def post_norm_block() -> viz.Drawing:
    return viz.draw(block("post"), inputs=numbers(1, 4, 8), title="Post-norm block: each sum is normalised")


class Stack(nn.Module):
    """Eight tanh layers with small weights, each adding to the stream or replacing it."""

    def __init__(self, residual: bool) -> None:
        self.residual = residual
        self.layers = nn.ModuleList(linear(8, 8, seed) for seed in range(8))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            update = layer(x).tanh()
            x = nn.residual(x, update) if self.residual else update
        return (x * x).mean()


def plain_stack_gradients() -> viz.Drawing:
    return viz.draw(Stack(residual=False).double(), inputs=numbers(2, 8), view="modules", fold="off", grads="edges",
                    title="Eight layers, each replacing x: the gradient thins out on its way back")  # fmt: skip


def residual_stack_gradients() -> viz.Drawing:
    return viz.draw(Stack(residual=True).double(), inputs=numbers(2, 8), view="modules", fold="off", grads="edges",
                    title="Eight layers, each adding to x: the gradient arrives whole")  # fmt: skip


def decoder_by_modules() -> viz.Drawing:
    ids = np.array([[3, 1, 4, 1, 5, 9]])
    return viz.draw(decoder(2), inputs=ids, view="modules", title="A decoder with two blocks, by modules")


def gpt_folded() -> viz.Drawing:
    ids = np.array([[3, 1, 4, 1, 5, 9]])
    return viz.draw(decoder(12), inputs=ids, view="blocks", title="A decoder with twelve equal blocks, folded")


def encoder_decoder() -> viz.Drawing:
    config = TransformerConfig(11, block_size=6, n_layer=1, n_head=2, n_embd=8, norm_order="pre", arrangement="encoder-decoder")
    model = EncoderDecoder(config, np.random.default_rng(0)).double()
    source, ids = np.array([[3, 1, 4, 1, 5]]), np.array([[2, 7, 1]])
    return viz.draw(model, inputs=(source, ids), view="modules",
                    title="Encoder and decoder: two streams, and one block that reads both")  # fmt: skip


FIGURES = [scalar_expression, one_head, residual_or_replaced, pre_norm_block, post_norm_block, plain_stack_gradients,
           residual_stack_gradients, decoder_by_modules, gpt_folded, encoder_decoder]  # fmt: skip
