"""The command `tinygrad-tf`, but in one rank something happens in the middle of a step: `KIND RANK STEP`, or an empty word.

`missing RANK,... MODULE` is a module that these ranks cannot import.
"""

import os
import signal
import sys

from tinygrad_tf import cli, train
from tinygrad_tf.process import launched

fault = sys.argv.pop(1).split()
train.draw_curves = lambda *arguments: None  # takes longer than all else in a small run
add_gradients, steps = train.add_gradients, [0]


def happens(*arguments):
    steps[0] += 1
    kind, rank, step = fault[0], *map(int, fault[1:])
    if launched()[0] == rank and steps[0] == step:
        match kind:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "interrupt":
                signal.raise_signal(signal.SIGINT)
            case "divide":
                1 / 0  # noqa: B018
    return add_gradients(*arguments)


if fault[:1] == ["missing"]:
    if str(launched()[0]) in fault[1].split(","):
        package, _, name = fault[2].rpartition(".")
        vars(sys.modules.get(package)).pop(name, None) if package in sys.modules else None
        sys.modules[fault[2]] = None
elif fault:
    train.add_gradients = happens
cli.main()
