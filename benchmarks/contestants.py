"""Our contestant: what `tinygrad-tf train` does in a step, with the same functions."""

from __future__ import annotations

import math

import numpy as np

from tinygrad_tf.generate import evaluating
from tinygrad_tf.gradients import add_gradients
from tinygrad_tf.nn.utils import clip_grad_norm_

from .ours import threads_of_the_trainer
from .race import Contestant
from .sizes import Size


class Ours(Contestant):
    def __init__(self, preset: str, text: str, seed: int):
        super().__init__(preset, text, seed)
        c = self.config
        self.threads = threads_of_the_trainer(Size(c.n_layer, c.n_head, c.n_embd, c.block_size, c.batch_size), by_batch=True)

    def start(self) -> None:
        run = self.fresh()
        self.model, self.optimizer, self.batches = run.model, run.optimizer, run.streams["batches"]
        self.parameters = list(self.model.parameters())

    def step(self, share: float) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = share * group["peak"]
        loss = add_gradients(self.model, *self.batch(), self.config.grad_accum)
        clip_grad_norm_(self.parameters, self.config.clip or math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def loss(self, x: np.ndarray, y: np.ndarray) -> float:
        with evaluating(self.model):
            return self.model.loss(x, y).item()
