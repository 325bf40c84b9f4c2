"""RNNCell, LSTMCell, GRUCell: one position of the layers of recurrent.py, for programs that write the loop themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import tensors
from ..tensor import Tensor
from . import init
from .module import Module, of_its_own
from .parameter import blank
from .recurrent import GRU, LSTM, RNN, State, checked


class Cell(Module):
    """(B, in), state (B, H) -> state (B, H), or without the axis B

    The parameters are weight_ih (gates H, in), weight_hh (gates H, H), bias_ih and bias_hh, and start as those of the layer.
    """

    layer: Any = RNN  # what this is one position of
    nonlinearity = "tanh"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.gates, self.states = self.layer.gates, self.layer.states
        for name, inner in {"weight_ih": (input_size,), "weight_hh": (hidden_size,), "bias_ih": (), "bias_hh": ()}.items():
            made = blank(self.gates * hidden_size, *inner, dtype=dtype, device=device) if inner or bias else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for p in self.parameters():
            init.uniform_(p, -(self.hidden_size**-0.5), self.hidden_size**-0.5)

    def cell(self, now: Tensor, own: Tensor, state: State) -> State:
        return self.layer.cell(self, now, own, state)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The next state: h, for the LSTM (h, c)."""
        tensors(input=input)
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ValueError(f"{type(self).__name__} takes inputs of shape (B, {self.input_size}), not {input.shape}")
        shape = (*input.shape[:-1], self.hidden_size)
        if hx is None:
            start = tuple(Tensor(np.zeros(shape, input.dtype)) for _ in range(self.states))
            hx = start if self.states > 1 else start[0]
        state = checked(type(self).__name__, hx, self.states, shape)
        steps = self.layer._run(self, input.reshape(1, -1, self.input_size), tuple(s.reshape(-1, shape[-1]) for s in state), "")
        after = tuple(s.reshape(shape) for s in steps)
        return after if self.states > 1 else after[0]


class RNNCell(Cell):
    """One position of an RNN; see `Cell`"""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
                 dtype: Any = None):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f'nonlinearity is "tanh" or "relu", not {nonlinearity!r}')
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, bias, device, dtype)


@of_its_own
class LSTMCell(Cell):
    """One position of an LSTM: the state is (h, c); see `Cell`"""

    layer = LSTM


@of_its_own
class GRUCell(Cell):
    """One position of a GRU; see `Cell`"""

    layer = GRU
