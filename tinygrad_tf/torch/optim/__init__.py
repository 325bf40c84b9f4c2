"""torch.optim: the optimizers of `tinygrad_tf.optim` and `tinygrad_tf.adaptive`."""

from ... import adaptive as _adaptive
from ... import optim as _optim
from ..unsupported import lookup as _lookup
from . import lr_scheduler

_NAMES = """
    Adadelta Adagrad Adam AdamW Adamax Muon Optimizer RAdam RMSprop SGD
""".split()  # noqa: SIM905
globals().update({name: getattr(_optim if hasattr(_optim, name) else _adaptive, name) for name in _NAMES})
__all__ = [*_NAMES, "lr_scheduler"]  # noqa: PLE0604
__getattr__ = _lookup("torch.optim")
