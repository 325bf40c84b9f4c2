"""The interactive figures of the lessons, F1 to F12: each a pure function of its settings that returns numbers and a drawing.

    from viz.figures import mixture
    mixture(negate=True).data["result"]         numbers, computed by the engine
    mixture.save("mixture.html")                a page that opens from disk, every state in it
    settings = controls(mixture)                in a marimo notebook: its controls …
    mixture(**settings.value)                   … and the figure that follows them
    walk(gradient_walk, depth=8)                a figure that is walked through step by step
"""

from .block_by_hand import block_by_hand
from .block_explorer import block_explorer
from .figure import FIGURES, Control, Figure, Interactive, figure, slider, steps, switch
from .gradient_walk import gradient_walk
from .graph_walk import graph_walk
from .heads_to_update import heads_to_update
from .live import controls, walk
from .mixture import mixture
from .one_head import one_weight, who_reads
from .parameters import parameters
from .replace_or_add import replace_or_add
from .rotary_arrows import rotary_arrows
from .sinusoidal_map import sinusoidal_map
from .token_trip import token_trip
from .widen_narrow import widen_narrow
