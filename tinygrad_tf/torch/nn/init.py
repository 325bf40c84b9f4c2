"""torch.nn.init: `tinygrad_tf.nn.init`, and the older names without a trailing underscore."""

from ...nn import init as _init
from ...nn.init import *  # noqa: F403
from ..unsupported import lookup as _lookup

_calculate_fan_in_and_fan_out = _init._calculate_fan_in_and_fan_out

uniform, normal, constant = _init.uniform_, _init.normal_, _init.constant_
xavier_uniform, xavier_normal = _init.xavier_uniform_, _init.xavier_normal_
kaiming_uniform, kaiming_normal = _init.kaiming_uniform_, _init.kaiming_normal_
orthogonal, eye = _init.orthogonal_, _init.eye_

__getattr__ = _lookup("torch.nn.init")
