"""Layers. Names and arguments are torch.nn's where it has them."""

from ..recompute import checkpoint
from . import functional, init, utils
from .activations import GELU, Flatten, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Softplus, Tanh
from .attention import LayerCache, MultiHeadAttention
from .batchnorm import BatchNorm1d
from .conv import Conv1d
from .feedforward import FeedForward
from .lazy import LazyBatchNorm1d, LazyLinear
from .linear import Dropout, Embedding, Linear
from .linear_attention import LinearAttention, LinearCache
from .losses import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, KLDivLoss, MSELoss, NLLLoss
from .module import Identity, Module, ModuleDict, ModuleList, Parameter, Sequential
from .multihead import MultiheadAttention
from .norm import LayerNorm, RMSNorm
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
    "GELU", "GRU", "LSTM", "RNN", "ALiBi", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "Block", "Conv1d", "CrossEntropyLoss",
    "Dropout", "Embedding", "FeedForward", "Flatten", "Identity", "KLDivLoss", "LayerCache", "LayerNorm", "LayerScale",
    "LazyBatchNorm1d", "LazyLinear", "LearnedPositions", "Linear", "LinearAttention", "LinearCache", "LogSoftmax",
    "MSELoss", "Module", "ModuleDict", "ModuleList", "MultiHeadAttention", "MultiheadAttention", "NLLLoss", "Parameter",
    "Positions", "RMSNorm", "ReLU", "Residual", "Rotary", "Sequential", "SiLU", "Sigmoid", "SinusoidalPositions", "Softmax",
    "Softplus", "T5Bias", "Tanh", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer", "both_norms", "checkpoint", "functional", "init", "post_norm", "pre_norm", "residual", "utils",
]  # fmt: skip
