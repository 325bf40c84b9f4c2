"""Reads a graph that `tinygrad_tf` recorded and draws it, every residual path as a thick straight line.

    viz.draw(loss)                                    a picture, shown by a notebook
    viz.draw(model, inputs=x, view="modules")         of a model; .save("model.svg") .html .png .pdf .dot .json
    viz.trace(loss)                                   the graph as plain data
    with viz.record(): ...                            keep values, gradients and lines for the drawing
    viz.what_if(model, x, zero="blocks.0.attn")       with and without one branch, side by side

`viz` imports `tinygrad_tf`; `tinygrad_tf` never imports `viz`.
"""

from .collapse import GraphTooLarge
from .draw import Drawing, draw
from .graph import Graph
from .layout import EngineError, EngineNotFound, EngineTimeout
from .ledger import ledger
from .record import record
from .trace import trace
from .whatif import what_if
