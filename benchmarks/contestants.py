"""Our contestant: what `tinygrad-tf train` does in a step, with the same functions."""

from __future__ import annotations

import math
from contextlib import ExitStack

import numpy as np

from tinygrad_tf.generate import evaluating
from tinygrad_tf.gradients import add_gradients
from tinygrad_tf.nn.utils import clip_grad_norm_
from tinygrad_tf.replay import replaying

from .ours import as_the_trainer
from .race import Contestant
from .sizes import Size


class Ours(Contestant):
    def __init__(self, preset: str, text: str, seed: int):
        super().__init__(preset, text, seed)
        self.threads = ExitStack()

    def start(self) -> None:
        run, c = self.fresh(), self.config
        self.threads.close()
        self.model, self.optimizer, self.batches = run.model, run.optimizer, run.streams["batches"]
        size = Size(c.n_layer, c.n_head, c.n_embd, c.block_size, c.batch_size)
        self.threads = as_the_trainer(size, (self.model, self.optimizer))

    def step(self, share: float) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = share * group["peak"]
        with replaying():
            loss = add_gradients(self.model, *self.batch(), self.config.grad_accum)
        clip_grad_norm_(self.optimizer.rows(), self.config.clip or math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def loss(self, x: np.ndarray, y: np.ndarray) -> float:
        with evaluating(self.model):
            return self.model.loss(x, y).item()
