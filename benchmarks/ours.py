"""The work that is measured, done with tinygrad_tf."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

import numpy as np

from tinygrad_tf import Tensor, optim
from tinygrad_tf.generate import generate
from tinygrad_tf.memory import keep_freed_memory
from tinygrad_tf.models.decoder import Decoder, DecoderConfig
from tinygrad_tf.nn.utils import clip_grad_norm_
from tinygrad_tf.threads import VARIABLES, threads_for

from . import memory
from .sizes import BETAS, CLIP, LR, SIZES, VOCABULARY, WEIGHT_DECAY, Size, batches
from .statements import BARE, TENSOR, operands, seconds


def decoder(size: Size) -> Decoder:
    """The decoder of this size as nanoGPT has it: LayerNorm before each branch, GELU, learned positions, no bias, tied head."""
    config = DecoderConfig(VOCABULARY, size.block_size, size.n_layer, size.n_head, n_embd=size.n_embd)
    return Decoder(config, np.random.default_rng(0))


class Training:
    """One call of `once` is one step: data, forward, backward, clipping, AdamW, and the loss read as a number."""

    def __init__(self, size: str, prepared: bool = True):
        z = SIZES[size]
        keep_freed_memory()  # this and the threads as the trainer does
        # BLAS has its number of threads from these variables by now. Left in place they would also tell threads_for() that the
        # reader had decided; in the trainer, with none of them set, it decides by size, as PyTorch does for itself.
        given = {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
        self.threads = ExitStack()  # open as long as the process lives
        self.threads.enter_context(threads_for(2 * z.tokens * z.n_embd * 4 * z.n_embd))
        os.environ.update(given)
        self.model = decoder(z)
        self.batches = batches(SIZES[size])
        if prepared:
            self.prepare()

    def prepare(self) -> None:
        """Make the optimizer: matrices decay, gains do not."""
        parameters = list(self.model.parameters())
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.parameters, self.optimizer = parameters, optim.AdamW(groups, lr=LR, betas=BETAS)

    def once(self) -> float:
        ids, targets = next(self.batches)
        loss = self.model.loss(ids, targets)
        loss.backward()
        clip_grad_norm_(self.parameters, CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def memory(self, steps: int) -> dict[str, Any]:
        return memory.of_training(self, steps)


class Generation:
    """One call of `once` writes block_size tokens after a prompt of one, each from the cache and one new position."""

    def __init__(self, size: str, temperature: float):
        self.model, self.count, self.temperature = decoder(SIZES[size]), SIZES[size].block_size, temperature
        self.generator = np.random.default_rng(0)

    def once(self) -> list[int]:
        new = generate(self.model, [0], self.count, temperature=self.temperature, generator=self.generator)
        return [int(token) for token in new]


class SmallOps:
    """The statements of `statements.py` on tensors that require a gradient, so that each op is recorded."""

    def __init__(self) -> None:
        self.names = {name: Tensor(array, requires_grad=True) for name, array in operands().items()}

    def seconds(self, op: str, number: int) -> dict[str, float]:
        return seconds(TENSOR[op], number, self.names)


class BareNumpy:
    """The same statements on NumPy arrays, with no tape."""

    def seconds(self, op: str, number: int) -> dict[str, float]:
        return seconds(BARE[op], number, operands())
