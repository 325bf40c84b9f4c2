"""Layers. Names and arguments are torch.nn's where it has them."""

from ..recompute import checkpoint
from . import functional, init, utils
from .activations import GELU, Flatten, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Softplus, Tanh, Unflatten
from .attention import LayerCache, MultiHeadAttention
from .batchnorm import BatchNorm1d, BatchNorm2d
from .cells import GRUCell, LSTMCell, RNNCell
from .conv import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    Conv1d,
    Conv2d,
    MaxPool1d,
    MaxPool2d,
)
from .distances import (
    CosineEmbeddingLoss,
    CosineSimilarity,
    HuberLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    PairwiseDistance,
    SmoothL1Loss,
    TripletMarginLoss,
)
from .embedding_bag import EmbeddingBag
from .feedforward import FeedForward
from .lazy import LazyBatchNorm1d, LazyLinear
from .linear import Dropout, Embedding, Linear
from .linear_attention import LinearAttention, LinearCache
from .losses import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, KLDivLoss, NLLLoss
from .module import Identity, Module, ModuleDict, ModuleList, Parameter, Sequential
from .multihead import MultiheadAttention
from .norm import GroupNorm, LayerNorm, RMSNorm
from .parameter_lists import ParameterDict, ParameterList
from .pointwise import ELU, GLU, SELU, Hardtanh, LeakyReLU, LogSigmoid, Mish, PReLU, ReLU6, Softsign
from .positions import ALiBi, LearnedPositions, Positions, Rotary, SinusoidalPositions, T5Bias
from .recurrent import GRU, LSTM, RNN
from .residual import LayerScale, Residual, residual
from .torch_transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .transformer import Block, both_norms, post_norm, pre_norm

__all__ = [
    "ELU", "GELU", "GLU", "GRU", "LSTM", "RNN", "SELU", "ALiBi", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AvgPool1d",
    "AvgPool2d", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "Block", "Conv1d", "Conv2d",
    "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss", "Dropout", "Embedding", "EmbeddingBag", "FeedForward",
    "Flatten", "GRUCell", "GroupNorm", "Hardtanh", "HuberLoss", "Identity", "KLDivLoss", "L1Loss", "LSTMCell", "LayerCache",
    "LayerNorm", "LayerScale", "LazyBatchNorm1d", "LazyLinear", "LeakyReLU", "LearnedPositions", "Linear",
    "LinearAttention", "LinearCache", "LogSigmoid", "LogSoftmax", "MSELoss", "MarginRankingLoss", "MaxPool1d", "MaxPool2d",
    "Mish", "Module", "ModuleDict", "ModuleList", "MultiHeadAttention", "MultiheadAttention", "NLLLoss", "PReLU",
    "PairwiseDistance", "Parameter", "ParameterDict", "ParameterList", "Positions", "RMSNorm", "RNNCell", "ReLU", "ReLU6",
    "Residual", "Rotary", "Sequential", "SiLU", "Sigmoid", "SinusoidalPositions", "SmoothL1Loss", "Softmax", "Softplus",
    "Softsign", "T5Bias", "Tanh", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer", "TripletMarginLoss", "Unflatten", "both_norms", "checkpoint", "functional", "init",
    "post_norm", "pre_norm", "residual", "utils",
]  # fmt: skip
