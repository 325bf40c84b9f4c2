"""Reads a graph that `tinygrad_tf` recorded and draws it.

Everything about pictures belongs here: the graph as plain data, the drawings of it with every residual path
marked, and the figures of the lessons. `viz` imports `tinygrad_tf`; `tinygrad_tf` never imports `viz`.
"""

from .graph import Graph
from .record import record
from .trace import trace
