"""The contestants in PyTorch eager: nanoGPT's own recipe, and our recipe, both as one would sensibly write them.

As in `theirs.py`: `scaled_dot_product_attention`, fused AdamW, gradients set to None. Both start from the weights that our
trainer would start the same preset from, and see the same batches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np
import torch

from . import theirs  # noqa: F401  # sets the number of threads
from .modern_twin import Modern
from .race import Contestant
from .sizes import Size, decaying
from .torch_twin import Twin


class InTorch(Contestant):
    @abstractmethod
    def build(self) -> torch.nn.Module:
        """The model, with the weights of a fresh run of ours."""

    @abstractmethod
    def optimizers_for(self, model: torch.nn.Module) -> list[torch.optim.Optimizer]: ...

    def adamw(self, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.AdamW:
        c = self.config
        return torch.optim.AdamW(decaying(parameters, c.weight_decay), lr=c.lr, betas=(c.beta1, c.beta2), fused=True)

    def weights(self) -> dict[str, np.ndarray]:
        run = self.fresh()
        self.batches = run.streams["batches"]
        return {name: tensor.numpy() for name, tensor in run.model.state_dict().items()}

    def start(self) -> None:
        self.model = self.build()
        self.parameters = list(self.model.parameters())
        self.optimizers = self.optimizers_for(self.model)
        self.groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        for group in self.groups:
            group["peak"] = group["lr"]

    def step(self, share: float) -> float:
        for group in self.groups:
            group["lr"] = share * group["peak"]
        loss = self.mean_loss(*self.batch())
        loss.backward()
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    def mean_loss(self, x: np.ndarray, y: np.ndarray) -> torch.Tensor:
        logits = self.model(torch.from_numpy(x))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(y).flatten())

    @torch.inference_mode()
    def loss(self, x: np.ndarray, y: np.ndarray) -> float:
        return self.mean_loss(x, y).item()


class NanoGPT(InTorch):
    """nanoGPT's settings for a CPU: the preset `nanogpt-char-cpu`."""

    def build(self) -> torch.nn.Module:
        c = self.config
        size = Size(c.n_layer, c.n_head, c.n_embd, c.block_size, c.batch_size)
        twin = Twin(size, len(self.corpus.vocabulary))
        twin.load(self.weights())
        return twin

    def optimizers_for(self, model: torch.nn.Module) -> list[torch.optim.Optimizer]:
        return [self.adamw(model.parameters())]


class OurRecipe(InTorch):
    """The preset `laptop`, number for number, in PyTorch: what is left between this and ours is the speed."""

    def build(self) -> torch.nn.Module:
        model = Modern(self.config, len(self.corpus.vocabulary))
        model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in self.weights().items()})
        return model

    def optimizers_for(self, model: torch.nn.Module) -> list[torch.optim.Optimizer]:
        c = self.config
        if c.optimizer == "adamw":
            return [self.adamw(model.parameters())]
        inner = [p for name, p in model.named_parameters() if name.startswith("blocks.") and p.ndim == 2]
        rest = [p for name, p in model.named_parameters() if not (name.startswith("blocks.") and p.ndim == 2)]
        muon = torch.optim.Muon(inner, c.muon_lr, c.weight_decay, c.muon_momentum, adjust_lr_fn="match_rms_adamw")
        return [muon, self.adamw(rest)]
