"""RNN, LSTM and GRU: a state that is carried from position to position, through the same weights at each.

Arguments, parameter names and results are PyTorch's. Everything that does not need the state, the product with the inputs, is
computed for all positions at once; the rest is a loop over them, for the LSTM inside one op.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..errors import real, shown, whole
from ..functions import stack
from ..ops import cat
from ..recurrence import lstm
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module, of_its_own
from .packed import PackedSequence
from .parameter import blank

State = tuple[Tensor, ...]  # what one position hands to the next: h (B, H), for the LSTM also c (B, H)


def checked(name: str, hx: Any, states: int, shape: tuple[int, ...]) -> State:
    """The state that a layer of this name was given, as a tuple: for the LSTM it has to be one, (h, c)."""
    if isinstance(hx, (tuple, list)) != (states > 1):
        wanted = f"a tuple (h, c) of shape {shape} each" if states > 1 else f"a tensor h of shape {shape}"
        raise TypeError(f"{name} takes as its state {wanted}, not a {type(hx).__name__}")
    given = tuple(hx) if states > 1 else (hx,)
    if len(given) != states or any(not isinstance(s, Tensor) or s.shape != shape for s in given):
        kind: Any = ValueError if all(isinstance(s, Tensor) for s in given) else TypeError
        found = ", ".join(str(s.shape) if isinstance(s, Tensor) else shown(s) for s in given)
        raise kind(f"{name} takes as its state {'h and c' if states > 1 else 'h'} of shape {shape}, not "
                   f"{'of ' if kind is ValueError else ''}{found or 'nothing'}{' alone' if len(given) < states else ''}")
    if any(s.dtype != given[0].dtype or s.dtype.kind != "f" for s in given):
        dtypes = " and ".join(str(s.dtype) for s in given)
        raise TypeError(f"{name} takes a state of the dtype of its weights, not of {dtypes}: .to(dtype) converts")
    return given


class Recurrent(Module):
    """What the three share: (T, B, in), h (L D, B, H) -> (T, B, D H), h (L D, B, H) for L layers in D = 1 or 2 directions

    Inputs are (B, T, in) if `batch_first`; without a batch the B axes are left out. h starts at zero if it is not given.
    `dropout` acts between the layers. Weights of layer k are weight_ih_lk (gates H, in), weight_hh_lk (gates H, H) and two
    biases; those of the direction from the end have "_reverse" after their names. All start uniform on +-1 / sqrt(H).
    """

    gates, states = 1, 1  # H-wide parts of a weight; tensors in a state

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None):
        if proj_size:
            raise NotImplementedError("proj_size is not here: take a smaller hidden_size, and a Linear after the layer")
        whole("input_size", input_size, 0), whole("hidden_size", hidden_size), whole("num_layers", num_layers)
        if hidden_size < 1 or num_layers < 1 or not 0 <= real("dropout", dropout, -math.inf) <= 1:
            raise ValueError(f"hidden_size and num_layers are positive and dropout is a probability, not {hidden_size}, "
                             f"{num_layers}, {dropout}")  # fmt: skip
        if dropout and num_layers == 1:
            warnings.warn(f"dropout={dropout} acts between layers, and there is only one", stacklevel=3)
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        for layer in range(num_layers):
            for end in self._directions():
                width = input_size if layer == 0 else hidden_size * len(self._directions())
                shapes = {"weight_ih": (width,), "weight_hh": (hidden_size,)} | ({"bias_ih": (), "bias_hh": ()} if bias else {})
                for name, inner in shapes.items():
                    p = blank(self.gates * hidden_size, *inner, dtype=dtype, device=device)
                    self.register_parameter(f"{name}_l{layer}{end}", p)
        self.reset_parameters()

    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.hidden_size)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def flatten_parameters(self) -> None:
        """PyTorch's way to lay weights side by side for a GPU: here there is nothing to do."""

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The outputs of the last layer at all positions, and every layer's state after its last one.

        Of a packed sequence the outputs are packed too, and each text's state is that at its own end.
        """
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        if not isinstance(input, Tensor):
            raise TypeError(f"{type(self).__name__} takes a tensor, not a {type(input).__name__}: pad texts to one length")
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            wanted = f"({'B, T' if self.batch_first else 'T, B'}, {self.input_size})"
            raise ValueError(f"{type(self).__name__} takes inputs of shape {wanted}, not {input.shape}")
        alone = input.ndim == 2
        x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
        if not x.shape[0]:
            raise ValueError(f"{type(self).__name__} needs at least one position, not an input of shape {input.shape}")
        x, last = self._layers(x, self._start(hx, x, alone), None)
        last = tuple(s.squeeze(1) for s in last) if alone else last
        y = x.squeeze(1) if alone else x.transpose(0, 1) if self.batch_first else x
        return y, last if self.states > 1 else last[0]

    def _packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """The padding is computed too, and left out: no number of a text depends on it."""
        x = input.padded()
        if input.data.ndim != 2 or x.shape[-1] != self.input_size:
            raise ValueError(f"{type(self).__name__} takes {self.input_size} numbers a position, not {input.data.shape[1:]}")
        start = self._start(hx, x, alone=False)
        if input.sorted_indices is not None and hx is not None:
            start = tuple(s[:, input.sorted_indices] for s in start)
        x, last = self._layers(x, start, input.lengths())
        if input.unsorted_indices is not None:
            last = tuple(s[:, input.unsorted_indices] for s in last)
        return input.holding(x), last if self.states > 1 else last[0]

    def _layers(self, x: Tensor, start: State, lengths: np.ndarray | None) -> tuple[Tensor, State]:
        """(T, B, in), (L D, B, H) -> (T, B, D H), (L D, B, H)   lengths (B,): of the texts, if not all of them have T positions

        The direction from the end then reads each text turned round by itself, and what it says is turned back.
        """
        ends: list[State] = []
        turned: Any = slice(None, None, -1)
        final: Any = -1
        if lengths is not None:
            position, row = np.arange(x.shape[0])[:, None], np.arange(x.shape[1])
            turned = (np.where(position < lengths, lengths - 1 - position, position), row)
            final = (lengths - 1, row)
        for layer in range(self.num_layers):
            if layer:
                x = F.dropout(x, self.dropout, self.training)
            sides = []
            for end in self._directions():
                steps = self._run(x[turned] if end else x, tuple(s[len(ends)] for s in start), f"_l{layer}{end}")
                sides.append(steps[0][turned] if end else steps[0])
                ends.append(tuple(s[final] for s in steps))
            x = sides[0] if len(sides) == 1 else cat(*sides, dim=-1)
        return x, tuple(stack(parts) for parts in zip(*ends, strict=True))

    def _start(self, hx: Any, x: Tensor, alone: bool) -> State:
        """The state (L D, B, H) before the first position."""
        shape = (self.num_layers * len(self._directions()), x.shape[1], self.hidden_size)
        if hx is None:
            return tuple(Tensor(np.zeros(shape, x.dtype)) for _ in range(self.states))
        given = checked(type(self).__name__, hx, self.states, (shape[0], shape[2]) if alone else shape)
        return tuple(s.unsqueeze(1) for s in given) if alone else given

    def _run(self, x: Tensor, state: State, end: str) -> State:
        """One layer in one direction: (T, B, in), state (B, H) -> the state after each position (T, B, H)"""
        w_in, w_own = getattr(self, f"weight_ih{end}"), getattr(self, f"weight_hh{end}")
        b_in, b_own = (getattr(self, f"bias_ih{end}"), getattr(self, f"bias_hh{end}")) if self.bias else (None, None)
        outs = []
        for now in _one_by_one(F.linear(x, w_in, b_in)):
            state = self.cell(now, F.linear(state[0], w_own, b_own), state)
            outs.append(state[0])
        return (stack(outs),)

    def cell(self, now: Tensor, own: Tensor, state: State) -> State:
        """One position: what it reads (B, gates H), what the state says (B, gates H), the state -> the next state"""
        raise NotImplementedError(f"{type(self).__name__} defines no cell")

    def extra_repr(self) -> str:
        return ", ".join(filter(None, [f"{self.num_layers} layers", "batch first" * self.batch_first,
                                       "both directions" * self.bidirectional]))  # fmt: skip


def _one_by_one(x: Tensor) -> list[Tensor]:
    """(T, ...) -> T of (...)   by halves: the gradient of each slice is as large as what it is cut from, and T cuts from the
    whole would cost T^2"""
    if x.shape[0] == 1:
        return [x[0]]
    half = x.shape[0] // 2
    return _one_by_one(x[:half]) + _one_by_one(x[half:])


class RNN(Recurrent):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh) (Elman 1990), or with relu; see `Recurrent`"""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Any = None,
                 dtype: Any = None):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f'nonlinearity is "tanh" or "relu", not {nonlinearity!r}')
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)

    def cell(self, now: Tensor, own: Tensor, state: State) -> State:
        h = now + own
        return (h.tanh() if self.nonlinearity == "tanh" else h.relu(),)


@of_its_own
class LSTM(Recurrent):
    """c' = f c + i g;  h' = o tanh(c'), gates i, f, o = sigmoid and g = tanh of their parts of W_ih x + b_ih + W_hh h + b_hh
    (Hochreiter and Schmidhuber 1997; Gers et al. 2000). The state is (h, c); see `Recurrent`
    """

    gates, states = 4, 2

    def _run(self, x: Tensor, state: State, end: str) -> State:
        bias = getattr(self, f"bias_ih{end}") + getattr(self, f"bias_hh{end}") if self.bias else None
        read = F.linear(x, getattr(self, f"weight_ih{end}"), bias)
        both, H = lstm(read, getattr(self, f"weight_hh{end}"), *state), self.hidden_size
        return both[..., :H], both[..., H:]


@of_its_own
class GRU(Recurrent):
    """h' = (1 - z) n + z h with n = tanh(W_in x + b_in + r (W_hn h + b_hn)), gates r, z = sigmoid of their parts of W_ih x +
    b_ih + W_hh h + b_hh (Cho et al. 2014); see `Recurrent`
    """

    gates = 3

    def cell(self, now: Tensor, own: Tensor, state: State) -> State:
        (r, z, n), (own_r, own_z, own_n) = now.chunk(3, -1), own.chunk(3, -1)
        r, z = (r + own_r).sigmoid(), (z + own_z).sigmoid()
        n = (n + r * own_n).tanh()
        return (n + z * (state[0] - n),)
