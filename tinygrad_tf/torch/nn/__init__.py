"""torch.nn: the layers of `tinygrad_tf.nn`, those of them that PyTorch has too."""

from ... import nn as _layers
from ..unsupported import lookup as _lookup
from . import functional, init, parallel, utils

_NAMES = """
    AdaptiveAvgPool1d AdaptiveAvgPool2d AvgPool1d AvgPool2d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d Conv1d Conv2d
    CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss Dropout ELU Embedding EmbeddingBag Flatten GELU GLU GRU GRUCell
    GroupNorm Hardtanh HuberLoss Identity KLDivLoss L1Loss LSTM LSTMCell LayerNorm LazyBatchNorm1d LazyLinear LeakyReLU
    Linear LogSigmoid LogSoftmax MSELoss MarginRankingLoss MaxPool1d MaxPool2d Mish Module ModuleDict ModuleList
    MultiheadAttention NLLLoss PReLU PairwiseDistance Parameter ParameterDict ParameterList RMSNorm RNN RNNCell ReLU ReLU6
    SELU Sequential SiLU Sigmoid SmoothL1Loss Softmax Softplus Softsign Tanh Transformer TransformerDecoder
    TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss Unflatten
""".split()  # noqa: SIM905
globals().update({name: getattr(_layers, name) for name in _NAMES if hasattr(_layers, name)})
__all__ = [*_NAMES, "functional", "init", "parallel", "utils"]  # noqa: PLE0604
__getattr__ = _lookup("torch.nn")
