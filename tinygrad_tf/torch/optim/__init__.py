"""torch.optim: the optimizers of `tinygrad_tf.optim`."""

from ... import optim as _optim
from ..unsupported import lookup as _lookup
from . import lr_scheduler

_NAMES = """
    Adagrad Adam AdamW Muon Optimizer RMSprop SGD
""".split()  # noqa: SIM905
globals().update({name: getattr(_optim, name) for name in _NAMES if hasattr(_optim, name)})
__all__ = [*_NAMES, "lr_scheduler"]  # noqa: PLE0604
__getattr__ = _lookup("torch.optim")
