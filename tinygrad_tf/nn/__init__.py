"""Layers. Names and arguments are torch.nn's where it has them."""

from . import functional, init, utils
from .activations import GELU, ReLU, Sigmoid, SiLU, Softmax, Tanh
from .attention import LayerCache, MultiHeadAttention
from .feedforward import FeedForward
from .linear import Dropout, Embedding, Linear
from .module import Identity, Module, ModuleDict, ModuleList, Parameter, Sequential
from .norm import LayerNorm, RMSNorm
from .positions import Rotary
from .residual import LayerScale, Residual, residual
from .transformer import Block

__all__ = [
    "GELU", "Block", "Dropout", "Embedding", "FeedForward", "Identity", "LayerCache", "LayerNorm", "LayerScale", "Linear",
    "Module", "ModuleDict", "ModuleList", "MultiHeadAttention", "Parameter", "RMSNorm", "ReLU", "Residual", "Rotary",
    "Sequential", "SiLU", "Sigmoid", "Softmax", "Tanh", "functional", "init", "residual", "utils",
]  # fmt: skip
