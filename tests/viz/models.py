"""Small models in raw code, in float64, for the tests of graphs and drawings.

`MODELS` has a function for each, which takes how a residual sum is written and returns the model and its inputs:
`lambda x, branch: x + branch` (`plain`, to be found) or `residual` (`marked`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf import Tensor, cat, nn
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn.residual import residual

B, T, D = 2, 3, 4
Sum = Callable[[Tensor, Tensor], Tensor]
MODELS: dict[str, Callable[[Sum], tuple[nn.Module, tuple]]] = {}

marked: Sum = residual


def plain(x: Tensor, branch: Tensor) -> Tensor:
    return x + branch


def swapped(x: Tensor, branch: Tensor) -> Tensor:
    return branch + x


class Model(nn.Module):
    """Parts with names, and the function that takes an input through them."""

    def __init__(self, body: Callable, **parts: nn.Module):
        self.body = body
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Any) -> Tensor:
        return self.body(self, *inputs)


def numbers(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(1).standard_normal(shape), requires_grad=True)


def run(name: str, plus: Sum = plain) -> Tensor:
    """A number made of all that the model returns."""
    model, inputs = MODELS[name](plus)
    y = model(*inputs)
    return (y * y).sum()


def linear(inputs: int = D, outputs: int = D) -> nn.Module:
    return nn.Linear(inputs, outputs).double()


def model(body: Callable, **parts: nn.Module) -> nn.Module:
    return Model(body, **parts).double()


def add(function: Callable[[Sum], tuple[nn.Module, tuple]]) -> Callable[[Sum], tuple[nn.Module, tuple]]:
    MODELS[function.__name__] = function
    return function


def attention() -> nn.Module:
    return nn.MultiHeadAttention(D, 2)


def feed_forward() -> nn.Module:
    return Model(lambda m, x: m.down(m.up(x).tanh()), up=linear(D, 8), down=linear(8, D))


# ------------------------------------------------------------------------------------------------ the table


@add
def mlp(plus: Sum) -> Any:
    return model(lambda m, x: m.c(m.b(m.a(x).tanh()).tanh()), a=linear(), b=linear(), c=linear()), (numbers(B, D),)


def block(plus: Sum, norm: Callable[[], nn.Module]) -> nn.Module:
    def body(m: Any, x: Tensor) -> Tensor:
        x = plus(x, m.attn(m.n1(x)))
        return plus(x, m.ffn(m.n2(x)))

    return model(body, n1=norm(), attn=attention(), n2=norm(), ffn=feed_forward())


@add
def pre_norm(plus: Sum) -> Any:
    return block(plus, lambda: nn.LayerNorm(D)), (numbers(B, T, D),)


def written_norm() -> nn.Module:
    def body(m: Any, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / ((centred * centred).mean(-1, keepdim=True) + 1e-5).sqrt() * m.weight + m.bias

    norm = Model(body)
    norm.weight, norm.bias = nn.Parameter(np.ones(D)), nn.Parameter(np.zeros(D))
    return norm


@add
def norm_written_out(plus: Sum) -> Any:
    return block(plus, written_norm), (numbers(B, T, D),)


def gelu_written(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + (0.7978845608 * (x + 0.044715 * x**3)).tanh())


@add
def twelve_blocks(plus: Sum) -> Any:
    def body(m: Any, ids: np.ndarray) -> Tensor:
        x = m.tokens(ids) + m.places(np.arange(T))
        for layer in m.blocks:
            x = layer(x)
        return m.head(m.norm(x))

    def layer() -> nn.Module:
        def inside(m: Any, x: Tensor) -> Tensor:
            x = plus(x, m.attn(m.n1(x)))
            return plus(x, m.down(gelu_written(m.up(m.n2(x)))))

        return Model(inside, n1=nn.LayerNorm(D), attn=attention(), n2=nn.LayerNorm(D), up=linear(D, 8), down=linear(8, D))

    parts = {"tokens": nn.Embedding(7, D), "places": nn.Embedding(T, D), "norm": nn.LayerNorm(D), "head": linear(D, 7)}
    blocks = nn.ModuleList(layer() for _ in range(12))
    return model(body, **parts, blocks=blocks), (np.array([[1, 2, 3], [4, 5, 6]]),)


@add
def post_norm(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        x = m.n1(plus(x, m.attn(x)))
        return m.n2(plus(x, m.ffn(x)))

    return model(body, n1=nn.LayerNorm(D), attn=attention(), n2=nn.LayerNorm(D), ffn=feed_forward()), (numbers(B, T, D),)


@add
def parallel(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        h = m.norm(x)
        return plus(x, m.attn(h) + m.ffn(h))

    return model(body, norm=nn.LayerNorm(D), attn=attention(), ffn=feed_forward()), (numbers(B, T, D),)


@add
def parallel_one_by_one(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        h = m.norm(x)
        return x + m.attn(h) + m.ffn(h)

    return model(body, norm=nn.LayerNorm(D), attn=attention(), ffn=feed_forward()), (numbers(B, T, D),)


@add
def dropout_on_the_branch(plus: Sum) -> Any:
    return model(lambda m, x: plus(x, m.drop(m.a(x))), drop=nn.Dropout(0.5), a=linear()), (numbers(B, D),)


@add
def dropout_on_the_skip(plus: Sum) -> Any:
    return model(lambda m, x: plus(m.drop(x), m.a(x)), drop=nn.Dropout(0.5), a=linear()), (numbers(B, D),)


@add
def reshaped_on_the_skip(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        return plus(x.reshape(B * T, D).reshape(B, T, D), m.a(x))

    return model(body, a=linear()), (numbers(B, T, D),)


@add
def other_shape(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        rows = x.reshape(B * T, D)
        return plus(rows, m.a(x).reshape(B * T, D))

    return model(body, a=linear()), (numbers(B, T, D),)


@add
def cross_attention(plus: Sum) -> Any:
    def body(m: Any, x: Tensor, context: Tensor) -> Tensor:
        return plus(x, m.attn(m.norm(x), m.encoder(context)))

    return model(body, norm=nn.LayerNorm(D), attn=attention(), encoder=linear()), (numbers(B, T, D), numbers(B, 5, D))


@add
def twice_itself(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        y = m.a(x)
        return m.b(y + y)

    return model(body, a=linear(), b=linear()), (numbers(B, D),)


@add
def token_and_position(plus: Sum) -> Any:
    def body(m: Any, ids: np.ndarray) -> Tensor:
        return m.a(m.tokens(ids) + m.places(np.arange(T)))

    return model(body, tokens=nn.Embedding(7, D), places=nn.Embedding(T, D), a=linear()), (np.array([[1, 2, 3], [4, 5, 6]]),)


@add
def heads(plus: Sum) -> Any:
    return model(lambda m, x: m.a(x).tanh() + m.b(x).tanh() + m.c(x), a=linear(), b=linear(), c=linear()), (numbers(B, D),)


@add
def heads_and_skip(plus: Sum) -> Any:
    return model(lambda m, x: plus(x, m.a(x).tanh() + m.b(x) + m.c(x)), a=linear(), b=linear(), c=linear()), (numbers(B, D),)


@add
def rotary(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        q = m.a(x)
        angle = np.arange(T)[:, None] * np.array([1.0, 0.1])
        cos, sin = (np.tile(f(angle), 2) for f in (np.cos, np.sin))
        return q * cos + cat([-q[..., D // 2 :], q[..., : D // 2]], -1) * sin

    return model(body, a=linear()), (numbers(B, T, D),)


@add
def tied_weights(plus: Sum) -> Any:
    def body(m: Any, ids: np.ndarray) -> Tensor:
        x = m.tokens(ids)
        return plus(x, m.a(x).tanh()) @ m.tokens.weight.T

    return model(body, tokens=nn.Embedding(7, D), a=linear()), (np.array([[1, 2, 3], [4, 5, 6]]),)


@add
def one_layer_twice(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        x = plus(x, m.a(x).tanh())
        return plus(x, m.a(x).tanh())

    return model(body, a=linear()), (numbers(B, D),)


@add
def recurrent(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        h, total = m.enter(x[:, 0]).tanh(), 0.0
        for t in range(1, T):
            h = (m.enter(x[:, t]) + m.stay(h)).tanh()
            total = h + total
        return total

    return model(body, enter=linear(), stay=linear()), (numbers(B, T, D),)


@add
def projection(plus: Sum) -> Any:
    return model(lambda m, x: plus(m.short(x), m.a(x).tanh()), short=linear(), a=linear()), (numbers(B, D),)


@add
def scaled(plus: Sum) -> Any:
    return model(lambda m, x: plus(x * 0.5, m.a(x).tanh()), a=linear()), (numbers(B, D),)


@add
def concatenation(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        return plus(cat([x, Tensor(np.zeros((B, D)))], -1), m.a(x))

    return model(body, a=linear(D, 2 * D)), (numbers(B, D),)


@add
def scalars(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        for _ in range(4):
            x = plus(x, (x * 0.5).tanh())
        return x

    return model(body), (numbers(),)


@add
def nested(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        h = m.a(x)
        h = plus(h, m.b(h).tanh())
        return plus(x, plus(h, m.c(h).tanh()))

    return model(body, a=linear(), b=linear(), c=linear()), (numbers(B, D),)


@add
def across_modules(plus: Sum) -> Any:
    def body(m: Any, x: Tensor) -> Tensor:
        h = m.first(x)
        return m.second(h, m.branch(h))

    second = Model(lambda m, x, y: plus(x, y))
    return model(body, first=linear(), branch=feed_forward(), second=second), (numbers(B, D),)


@add
def encoder_decoder(plus: Sum) -> Any:
    """Two blocks that read the source; two that write, and look at what was read."""

    def reader() -> nn.Module:
        return Model(lambda m, x: plus(x, m.attn(m.norm(x))), norm=nn.LayerNorm(D), attn=attention())

    def writer() -> nn.Module:
        def inside(m: Any, y: Tensor, read: Tensor) -> Tensor:
            y = plus(y, m.attn(m.n1(y)))
            return plus(y, m.cross(m.n2(y), read))

        return Model(inside, n1=nn.LayerNorm(D), attn=attention(), n2=nn.LayerNorm(D), cross=attention())

    def body(m: Any, source: np.ndarray, ids: np.ndarray) -> Tensor:
        x = m.source_tokens(source)
        for layer in m.readers:
            x = layer(x)
        x, y = m.read(x), m.tokens(ids)
        for layer in m.writers:
            y = layer(y, x)
        return m.head(m.norm(y))

    readers, writers = nn.ModuleList(reader() for _ in range(2)), nn.ModuleList(writer() for _ in range(2))
    parts = {
        "source_tokens": nn.Embedding(7, D),
        "tokens": nn.Embedding(7, D),
        "read": nn.LayerNorm(D),
        "norm": nn.LayerNorm(D),
    }
    given = np.array([[1, 2, 3, 4, 5], [6, 5, 4, 3, 2]]), np.array([[1, 2, 3], [4, 5, 6]])
    return model(body, **parts, readers=readers, writers=writers, head=linear(D, 7)), given


def decoder_loss(layers: int = 2, **settings: Any) -> Tensor:
    """The loss of the package's own decoder, whose sums are all marked."""
    config = DecoderConfig(11, block_size=T, n_layer=layers, n_head=2, n_embd=D, **settings)
    ids = np.array([[1, 2, 3], [4, 5, 6]])
    return Decoder(config).loss(ids, ids[:, ::-1])
