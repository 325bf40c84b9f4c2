"""The work that is measured, done with tinygrad_tf."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

import numpy as np

from tinygrad_tf import Tensor, fused, grad, no_grad, optim
from tinygrad_tf.generate import generate
from tinygrad_tf.gradients import add_gradients, helped
from tinygrad_tf.memory import keep_freed_memory
from tinygrad_tf.models.decoder import Decoder, DecoderConfig
from tinygrad_tf.nn.utils import clip_grad_norm_
from tinygrad_tf.replay import replaying
from tinygrad_tf.threads import VARIABLES, threads_for

from . import memory
from .sizes import BETAS, CLIP, LR, SIZES, VOCABULARY, WEIGHT_DECAY, Size, batches, decaying, parts_of_attention, sized
from .statements import BARE, TENSOR, operands, seconds


def decoder(size: Size) -> Decoder:
    """The decoder of this size as nanoGPT has it: LayerNorm before each branch, GELU, learned positions, no bias, tied head."""
    config = DecoderConfig(VOCABULARY, size.block_size, size.n_layer, size.n_head, n_embd=size.n_embd)
    return Decoder(config, np.random.default_rng(0))


def as_the_trainer(z: Size, step: tuple[Any, Any] | None = None) -> ExitStack:
    """Use as many threads as the trainer would, until this is closed; for the steps of this model and optimizer, processes too.

    BLAS has its number of threads from the environment by now. Left in place the variables would also say that the reader had
    decided; in the trainer, with none of them set, it decides by size, as PyTorch does for itself.
    """
    given = {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
    opened, operations = ExitStack(), 2 * z.tokens * z.n_embd * 4 * z.n_embd
    opened.enter_context(helped(*step, z.batch_size, operations) if step else threads_for(operations))
    os.environ.update(given)
    return opened


class Training:
    """One call of `once` is one step: data, forward, backward, clipping, AdamW, and the loss read as a number."""

    def __init__(self, size: str | dict[str, Any], prepared: bool = True, keep: bool = True):
        z = sized(size)
        if keep:
            keep_freed_memory()  # as the trainer does
        self.size, self.model, self.batches = z, decoder(z), batches(z)
        if prepared:
            self.prepare()

    def prepare(self) -> None:
        """Make the optimizer, and have the step divided as the trainer does."""
        self.parameters = list(self.model.parameters())
        self.optimizer = optim.AdamW(decaying(self.parameters, WEIGHT_DECAY), lr=LR, betas=BETAS)
        self.threads = as_the_trainer(self.size, (self.model, self.optimizer))

    def once(self) -> float:
        ids, targets = next(self.batches)
        with replaying():
            loss = add_gradients(self.model, ids, targets, 1)
        clip_grad_norm_(self.optimizer.rows(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def memory(self, steps: int) -> dict[str, Any]:
        return memory.of_training(self, steps)

    def close(self) -> None:
        """Give back the threads and the processes, before a training of another size."""
        self.threads.close()


class Attention:
    """One call of `once` is causal softmax attention, alone, over the texts that `set` has made."""

    def __init__(self) -> None:
        keep_freed_memory()
        self.threads = ExitStack()

    def set(self, batch: int, heads: int, length: int, head_dim: int, backward: bool) -> None:
        """Texts of this length; with `backward` a call brings the gradients of queries, keys and values too."""
        self.threads.close()
        self.threads = as_the_trainer(Size(1, heads, heads * head_dim, length, batch))
        arrays = parts_of_attention(batch, heads, length, head_dim)
        self.qkv, self.g, self.backward = [Tensor(x, requires_grad=True) for x in arrays[:3]], arrays[3], backward

    def once(self) -> None:
        if self.backward:
            grad(fused.attention(*self.qkv, causal=0), self.qkv, self.g)
        else:
            with no_grad():
                fused.attention(*self.qkv, causal=0)

    def read(self) -> list[Any]:
        """What was computed: the output, then the gradients; for comparisons."""
        out = fused.attention(*self.qkv, causal=0)
        return [x.numpy().tolist() for x in (out.detach(), *grad(out, self.qkv, self.g))]


class Generation:
    """One call of `once` writes block_size tokens after a prompt of one, each from the cache and one new position."""

    def __init__(self, size: str, temperature: float):
        keep_freed_memory()  # as `tinygrad-tf sample` does
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
