"""Memory does not grow with the number of steps: neither that of the work itself, nor, but for the metrics, that of a run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinygrad_tf.memory import PAGE

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is not known on this system"),
]
RESIDENT = """
import json, os, sys

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
"""
WORK = """
from benchmarks.ours import Training

training, seen = Training("tiny"), {}
for step in range(1, 2001):
    training.once()
    if step in (500, 2000):
        seen[step] = resident()
print(json.dumps(seen))
"""
RUN = """
from tinygrad_tf.report import Progress
from tinygrad_tf.settings import PRESETS
from tinygrad_tf.train import train

class Watched(Progress):
    seen = {}

    def step(self, step, metrics):
        super().step(step, metrics)
        if step in (500, 2000):
            self.seen[step] = resident()

display = Watched()
train(PRESETS["tiny"].changed(steps=2000), sys.argv[1], display)
print(json.dumps(display.seen))
"""


def growth(program, *arguments):
    """Bytes by which a fresh process grows from its 500th step to its 2,000th."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RESIDENT + program, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    return seen["2000"] - seen["500"]


def test_the_memory_of_training_steps_is_flat():
    """Nothing is kept of a step. The few pages that are allowed are what Python's and C's allocators leave between what they
    hand out; a graph that stayed would take more in the first step."""
    assert growth(WORK) < 300_000


def test_a_run_grows_by_its_metrics_alone(tmp_path):
    """A run keeps a line of metrics for each step, for the curves and the checkpoint: loss, learning rate, length of the
    gradient. Python holds it in a third of a kilobyte, and the same again as text while a checkpoint is written. Two kilobytes
    a step are allowed, a sixth of what one batch of token numbers would take, and two of the heap's large pages begun."""
    assert growth(RUN, tmp_path / "run") < 1500 * 2_000 + 2 * PAGE
