"""torch.nn: the layers of `tinygrad_tf.nn`, those of them that PyTorch has too."""

from ... import nn as _layers
from ..unsupported import lookup as _lookup
from . import functional, init, parallel, utils

_NAMES = """
    BCELoss BCEWithLogitsLoss BatchNorm1d Conv1d CrossEntropyLoss Dropout Embedding Flatten GELU GRU Identity KLDivLoss LSTM
    LayerNorm LazyBatchNorm1d LazyLinear Linear LogSoftmax MSELoss Module ModuleDict ModuleList MultiheadAttention NLLLoss
    Parameter RMSNorm RNN ReLU Sequential SiLU Sigmoid Softmax Softplus Tanh Transformer TransformerDecoder
    TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer
""".split()  # noqa: SIM905
globals().update({name: getattr(_layers, name) for name in _NAMES if hasattr(_layers, name)})
__all__ = [*_NAMES, "functional", "init", "parallel", "utils"]  # noqa: PLE0604
__getattr__ = _lookup("torch.nn")
