"""Reading a model: what each part of it wrote to the residual stream, and what that says about a token.

    reading = read(model, ids)                            one run, in evaluation mode; the model stays as it was
    reading.updates["blocks.0.attn"]                      (B, T, d); with "embedding" first they add up to reading.stream
    reading.heads("blocks.0.attn")                        the same update in parts, one a head
    reading.maps("blocks.0.attn")                         (B, H, T, S), where each head looked
    reading.attribution(token)                            what each update adds to the logit of a token
    reading.lens()                                        what the model would say after each block

Post-norm models cannot be read so: Norm(x + F(x)) rescales all that was written before, by a scale that depends on all of it,
so the final stream is no sum of updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import nn
from .engine import no_grad
from .nn.functional import check_ids
from .tensor import Tensor, as_array
from .writes import Attention, Run, Write, watch


@dataclass(frozen=True, eq=False)
class Reading:
    """One run of a pre-norm model, taken apart. Weights are read from the model when asked for: change none in between."""

    updates: dict[str, np.ndarray]  # name -> (B, T, d), in the order of writing: embedding, blocks.0.attn, blocks.0.ffn, ...
    stream: np.ndarray  # (B, T, d), the sum of the updates: the final stream, before the last norm
    out: np.ndarray  # what the model returned: logits (B, T, V)
    run: Run

    def partial_sums(self) -> dict[str, np.ndarray]:
        """The stream after the embedding and after each block, by the name of the block."""
        total = self.updates["embedding"]
        sums = {"embedding": total}
        for write in self.run.writes:
            total = total + write.update
            sums[write.block or write.name] = total
        return sums

    # ---------------------------------------------------------------------------------------- heads

    def heads(self, name: str) -> dict[str, np.ndarray]:
        """The update of an attention layer in parts (B, T, d) that add up to it: name.heads.0, ..., and name.bias if any.

        Head r writes H_r W_O^(r), its mixture times its rows of the output projection. A scale or norm between the layer and
        the stream is held as it was in this run.
        """
        write, attention = self._attention(name)
        layer = attention.layer
        b, t, width = attention.joined.shape
        joined = attention.joined.reshape(b, t, layer.n_head, width // layer.n_head)
        rows = layer.out_proj.weight.array.reshape(-1, layer.n_head, width // layer.n_head)  # W_O^T, (d, H, E)
        parts = {f"{name}.heads.{r}": joined[:, :, r] @ rows[:, r].T for r in range(layer.n_head)}
        bias = layer.out_proj.bias
        constant = np.zeros(rows.shape[0], joined.dtype) if bias is None else bias.array
        for call in write.after:
            parts = {key: held(call.module, call.read, part) for key, part in parts.items()}
            constant = held(call.module, call.read, constant) + _bias(call.module)
        if np.any(constant):
            parts[f"{name}.bias"] = np.broadcast_to(constant, (b, t, rows.shape[0]))
        if not _equal(sum(parts.values()), write.update):
            raise ValueError(f"what {name} returned in this run is not what its heads wrote: an edit or a hook changed it")
        return parts

    def maps(self, name: str) -> np.ndarray:
        """(B, H, T, S)   the weights of each head of an attention layer, from the queries, keys and mask of this run.

        Its mixing rule is run again with one-hot values, one a position: what a head then reads are its weights.
        """
        return self._attention(name)[1].weights()

    def _attention(self, name: str) -> tuple[Write, Attention]:
        found = {write.name: (write, write.attention) for write in self.run.writes if write.attention is not None}
        if name not in found:
            raise ValueError(f"{name!r} is no attention layer of this run; there are: {', '.join(found) or 'none'}")
        return found[name]

    # ---------------------------------------------------------------------------------------- logits

    def attribution(self, tokens: Any, heads: bool = False) -> dict[str, np.ndarray]:
        """What each update adds to the logit of a token: name -> (B, T), adding up to the logits of this run.

        tokens: one id, or one for each position, (T,) or (B, T). heads: attention layers in parts, as `heads` gives them.

        The logit is norm(stream) . u, with u the token's row of the last linear map. The norm divides by a scale that all
        updates make together; here that scale is held as it was in this run, and then the norm is linear: an update z adds
        (gain * (z - mean z) / scale) . u, without the mean for RMSNorm. The bias of the norm and of the last map come last.
        """
        norm, head = self._tail()
        ids = np.broadcast_to(check_ids(tokens, head.weight.shape[0]), self.stream.shape[:2])
        u = head.weight.array[ids]  # (B, T, d)
        parts = {"embedding": self.updates["embedding"]}
        for write in self.run.writes:
            parts |= self.heads(write.name) if heads and write.attention is not None else {write.name: write.update}
        if norm is not None:
            parts = {name: held(norm, self.stream, part) for name, part in parts.items()}
            if np.any(_bias(norm)):
                parts["norm.bias"] = np.broadcast_to(_bias(norm), u.shape)
        logits = {name: np.vecdot(part, u) for name, part in parts.items()}
        if head.bias is not None:
            logits["head.bias"] = head.bias.array[ids]
        return logits

    def lens(self) -> dict[str, np.ndarray]:
        """Name -> (B, T, V), the model's own last norm and map on the stream after the embedding and after each block.

        Probabilities. Here the norm takes the scale of what it gets (nostalgebraist 2020). The last ones are the model's own.
        """
        norm, head = self._tail()

        def said(stream: np.ndarray) -> np.ndarray:
            x = Tensor(stream)
            return head.forward(x if norm is None else norm.forward(x)).softmax(-1).array  # past any hooks

        with no_grad():
            return {name: said(stream) for name, stream in self.partial_sums().items()}

    def _tail(self) -> tuple[Any, nn.Linear]:
        """The last norm, if any, and the map to the vocabulary. ValueError if there is more to the logits than these two."""
        modules = [call.module for call in self.run.tail]
        norm = modules[0] if modules and isinstance(modules[0], (nn.LayerNorm, nn.RMSNorm)) else None
        rest = modules[norm is not None :]
        if len(rest) != 1 or not isinstance(rest[0], nn.Linear) or self.run.tail[-1].out is not self.out:
            raise ValueError("what comes after the last sum is not a norm and one linear map: the logits cannot be taken apart")
        with no_grad():
            x = Tensor(self.stream)
            if not _equal(rest[0].forward(x if norm is None else norm.forward(x)).array, self.out):
                raise ValueError("the logits of this run are not what norm and head make of the stream: an edit or a hook "
                                 "changed them, so they cannot be taken apart")  # fmt: skip
        return norm, rest[0]


def read(model: Any, *inputs: Any) -> Reading:
    """Run `model(*inputs)` once and take apart what it wrote. As `reading` says; ValueError for a post-norm model."""
    run = watch(model, *inputs)
    updates = {"embedding": run.embedding} | {write.name: write.update for write in run.writes}
    return Reading(updates, run.stream, run.out, run)


def held(module: Any, x: np.ndarray, part: np.ndarray) -> np.ndarray:
    """What a norm or LayerScale makes of a part of its input, with the scale that it has for the whole input x; no bias.

    With the scale held these are linear, so the parts of x go to parts of the output.
    """
    if isinstance(module, nn.LayerScale):
        return part * module.weight.array
    if isinstance(module, nn.LayerNorm):
        part = part - part.mean(-1, keepdims=True)
        square = x.var(-1, keepdims=True)
    else:
        square = np.square(x).mean(-1, keepdims=True)
    eps = module.eps if module.eps is not None else np.finfo(x.dtype).eps
    out = part / np.sqrt(square + eps).astype(x.dtype)
    return out if module.weight is None else out * module.weight.array


def _equal(a: Any, b: np.ndarray) -> bool:
    """Equal but for rounding."""
    return bool(np.allclose(a, b, rtol=0, atol=1e-3 * np.abs(b).max(initial=1e-6)))


def _bias(module: Any) -> Any:
    bias = getattr(module, "bias", None)
    return 0 if bias is None else as_array(bias)
