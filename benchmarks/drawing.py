"""What a picture costs: the parts of drawing a decoder with twelve blocks, and a training step in a program that draws too."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from tinygrad_tf.models.decoder import Decoder, DecoderConfig

from .ours import Training


class Parts:
    """One call of `once` draws the loss of twelve blocks and returns the seconds of each part, and how many nodes there are.

    fused=False: every fused op is opened, which gives three times as many.
    """

    def __init__(self, fused: bool = True):
        self.fused = fused
        model = Decoder(DecoderConfig(65, block_size=16, n_layer=12, n_head=4, n_embd=32), np.random.default_rng(0))
        ids = np.random.default_rng(0).integers(0, 65, (2, 16))
        self.loss = model.loss(ids, ids)

    def once(self) -> dict[str, float]:
        import viz
        from viz import layout
        from viz.collapse import view
        from viz.dot import to_dot
        from viz.style import Options

        seconds: dict[str, float] = {}

        def timed(name: str, part: Callable) -> object:
            start = perf_counter()
            made = part()
            seconds[name] = perf_counter() - start
            return made

        graph: object = timed("trace", lambda: viz.trace(self.loss, fused=self.fused))
        dot = timed("dot, all ops", lambda: to_dot(graph, Options()))  # type: ignore[arg-type]
        folded = timed("fold", lambda: view(graph, "blocks"))  # type: ignore[arg-type]
        timed("dot, folded", lambda: to_dot(folded, Options()))  # type: ignore[arg-type]
        seconds["all without layout"] = sum(seconds.values())
        timed("layout, all ops", lambda: layout.run(str(dot), "svg"))
        return {**seconds, "nodes": len(graph.nodes)}  # type: ignore[attr-defined]


class TrainingBeside(Training):
    """The training step in a program that has drawn its model, and recorded a step, before."""

    def __init__(self, size: str):
        super().__init__(size)
        import viz

        with viz.record():
            loss = self.model.loss(*next(self.batches))
        loss.backward()
        viz.draw(loss, view="modules").dot  # noqa: B018  for what it leaves behind
        self.optimizer.zero_grad()
