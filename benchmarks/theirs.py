"""The work that is measured, done with PyTorch eager. The classes have the names, and do the work, of those in `ours.py`."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from tinygrad_tf.memory import keep_freed_memory

from . import memory, ours
from .sizes import BETAS, CLIP, LR, SIZES, WEIGHT_DECAY, Size, batches, decaying, parts_of_attention, sized
from .statements import TENSOR, operands, seconds
from .torch_twin import Twin

if "OMP_NUM_THREADS" in os.environ:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def decoder(size: Size) -> Twin:
    """The twin with the weights of our decoder."""
    twin = Twin(size)
    twin.load({name: tensor.numpy() for name, tensor in ours.decoder(size).state_dict().items()})
    return twin


class Training:
    """One call of `once` is one step: data, forward, backward, clipping, AdamW, and the loss read as a number."""

    def __init__(self, size: str | dict[str, Any], prepared: bool = True, keep: bool = False):
        z = sized(size)
        if keep:
            keep_freed_memory()  # what our trainer does helps PyTorch too, though it does not do it by itself
        # Where memory is measured, our decoder must not have been in this process.
        self.model = decoder(z) if prepared else Twin(z)
        self.batches = batches(z)
        if prepared:
            self.prepare()

    def prepare(self) -> None:
        """Make the optimizer."""
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(decaying(self.parameters, WEIGHT_DECAY), lr=LR, betas=BETAS, fused=True)

    def once(self) -> float:
        ids, targets = map(torch.from_numpy, next(self.batches))
        loss = self.model.loss(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def memory(self, steps: int) -> dict[str, Any]:
        return memory.of_training(self, steps)

    def close(self) -> None:
        """Nothing to give back."""


class Attention:
    """One call of `once` is causal softmax attention, alone, over the texts that `set` has made."""

    def __init__(self, keep: bool = False):
        if keep:
            keep_freed_memory()

    def set(self, batch: int, heads: int, length: int, head_dim: int, backward: bool) -> None:
        """Texts of this length; with `backward` a call brings the gradients of queries, keys and values too."""
        arrays = [torch.from_numpy(x) for x in parts_of_attention(batch, heads, length, head_dim)]
        self.qkv, self.g, self.backward = [x.requires_grad_() for x in arrays[:3]], arrays[3], backward

    def once(self) -> None:
        if self.backward:
            torch.autograd.grad(scaled_dot_product_attention(*self.qkv, is_causal=True), self.qkv, self.g)
        else:
            with torch.no_grad():
                scaled_dot_product_attention(*self.qkv, is_causal=True)

    def read(self) -> list[Any]:
        """What was computed: the output, then the gradients; for comparisons."""
        out = scaled_dot_product_attention(*self.qkv, is_causal=True)
        return [x.tolist() for x in (out.detach(), *torch.autograd.grad(out, self.qkv, self.g))]


class Generation:
    """One call of `once` writes block_size tokens after a prompt of one, each from the cache and one new position."""

    def __init__(self, size: str, temperature: float):
        self.model, self.count, self.temperature = decoder(SIZES[size]).eval(), SIZES[size].block_size, temperature
        self.generator = torch.Generator().manual_seed(0)

    @torch.inference_mode()
    def once(self) -> list[int]:
        cache, token, tokens = self.model.new_cache(), torch.zeros(1, 1, dtype=torch.int64), []
        for _ in range(self.count):
            logits = self.model(token, cache)[:, -1]
            if self.temperature:
                token = torch.multinomial(torch.softmax(logits / self.temperature, -1), 1, generator=self.generator)
            else:
                token = logits.argmax(-1, keepdim=True)
            tokens.append(int(token))
        return tokens


class SmallOps:
    """The statements of `statements.py` on tensors that require a gradient, so that each op is recorded."""

    def __init__(self) -> None:
        self.names = {name: torch.from_numpy(array).requires_grad_() for name, array in operands().items()}

    def seconds(self, op: str, number: int) -> dict[str, float]:
        return seconds(TENSOR[op], number, self.names)
