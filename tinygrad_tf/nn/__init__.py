"""Layers. Names and arguments are torch.nn's where it has them."""

from . import functional, init, utils
from .activations import GELU, ReLU, Sigmoid, SiLU, Softmax, Tanh
from .attention import LayerCache, MultiHeadAttention
from .conv import Conv1d
from .feedforward import FeedForward
from .linear import Dropout, Embedding, Linear
from .linear_attention import LinearAttention, LinearCache
from .module import Identity, Module, ModuleDict, ModuleList, Parameter, Sequential
from .norm import LayerNorm, RMSNorm
from .positions import ALiBi, LearnedPositions, Positions, Rotary, SinusoidalPositions, T5Bias
from .residual import LayerScale, Residual, residual
from .transformer import Block, both_norms, post_norm, pre_norm

__all__ = [
    "GELU", "ALiBi", "Block", "Conv1d", "Dropout", "Embedding", "FeedForward", "Identity", "LayerCache", "LayerNorm",
    "LayerScale", "LearnedPositions", "Linear", "LinearAttention", "LinearCache", "Module", "ModuleDict", "ModuleList",
    "MultiHeadAttention", "Parameter", "Positions", "RMSNorm", "ReLU", "Residual", "Rotary", "Sequential", "SiLU",
    "Sigmoid", "SinusoidalPositions", "Softmax", "T5Bias", "Tanh", "both_norms", "functional", "init", "post_norm",
    "pre_norm", "residual", "utils",
]  # fmt: skip
