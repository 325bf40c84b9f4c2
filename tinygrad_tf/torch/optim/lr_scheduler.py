"""torch.optim.lr_scheduler: the schedules of `tinygrad_tf.lr_scheduler` and `tinygrad_tf.lr_phases`."""

from ... import lr_phases as _phases
from ... import lr_scheduler as _schedules
from ..unsupported import lookup as _lookup

for _module in (_schedules, _phases):
    globals().update({name: c for name, c in vars(_module).items() if isinstance(c, type) and c.__module__ == _module.__name__})
_LRScheduler = _schedules.LRScheduler  # its name before PyTorch 2.0
__getattr__ = _lookup("torch.optim.lr_scheduler")
