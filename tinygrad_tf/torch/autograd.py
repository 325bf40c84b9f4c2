"""torch.autograd: gradients of single tensors, and the switches."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import higher
from ..engine import enable_grad, no_grad, state
from ..nonfinite import detect_anomaly
from ..tensor import Tensor
from .unsupported import lookup, refusal, refused_class, unsupported

__all__ = ["Function", "Variable", "detect_anomaly", "enable_grad", "grad", "inference_mode", "no_grad", "set_grad_enabled"]

_FUNCTION = "torch.autograd.Function", "write an op: @op of tinygrad_tf.engine returns a value and its rule"
Function: Any = refused_class(*_FUNCTION)
Function.apply = staticmethod(refusal(*_FUNCTION))


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
         only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False,
         materialize_grads: bool = False) -> tuple:
    """tinygrad_tf.grad with PyTorch's further arguments: only_inputs has no effect, materialize_grads gives zeros for None."""
    if is_grads_batched:
        raise unsupported("is_grads_batched=True", "call grad() once for each of the gradients")
    found = higher.grad(outputs, inputs, grad_outputs, retain_graph, create_graph, bool(allow_unused or materialize_grads))
    if not materialize_grads:
        return found
    inputs = [inputs] if isinstance(inputs, Tensor) else inputs
    return tuple(Tensor(np.zeros_like(x.array)) if g is None else g for x, g in zip(inputs, found, strict=True))


def Variable(data: Any, requires_grad: bool = False) -> Tensor:
    """The older name for a tensor that may require a gradient: the same memory."""
    return Tensor(data, requires_grad)


def inference_mode(mode: Any = True) -> Any:
    """As no_grad, a context manager and a decorator. `inference_mode(False)` records again."""
    if callable(mode):
        return no_grad()(mode)
    return no_grad() if mode else enable_grad()


class set_grad_enabled(no_grad):
    """Record or not, from here on; as a context manager or decorator, inside alone."""

    def __new__(cls, mode: bool) -> Any:
        return super().__new__(cls)

    def __init__(self, mode: bool):
        super().__init__()
        self.value = bool(mode)
        self.before.append(state.recording)
        state.recording = self.value

    def __call__(self, function: Any) -> Any:
        state.recording = self.before.pop()
        return super().__call__(function)

    def __enter__(self) -> Any:
        state.recording = self.value  # what was before is noted already
        return self

    def _recreate_cm(self) -> Any:
        return type(self)(self.value)


__getattr__ = lookup("torch.autograd")
__path__: list[str] = []  # modules below it, as torch.autograd.functional, say what to do instead
