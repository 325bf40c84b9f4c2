"""torch.optim.lr_scheduler: the schedules of `tinygrad_tf.lr_scheduler`."""

from ... import lr_scheduler as _schedules
from ..unsupported import lookup as _lookup

_CLASSES = {name: value for name, value in vars(_schedules).items() if isinstance(value, type)}
globals().update({name: value for name, value in _CLASSES.items() if value.__module__ == _schedules.__name__})
__getattr__ = _lookup("torch.optim.lr_scheduler")
