"""Memory does not grow with the number of steps: neither that of the work itself, nor, but for the metrics, that of a run.

The run is the default one, so what that promises is seen here as well.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygrad_tf import grammar
from tinygrad_tf.generate import generate
from tinygrad_tf.memory import PAGE
from tinygrad_tf.run import Run
from tinygrad_tf.settings import PRESETS

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
        if step in (500, 1800):
            self.seen[step] = resident()

display = Watched()
train(PRESETS["tiny"], sys.argv[1], display)
print(json.dumps(display.seen))
"""


def growth(program, *arguments):
    """Bytes by which a fresh process grows from its 500th step to the last one at which it looks."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RESIDENT + program, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    first, last = seen.values()
    return last - first


def test_the_memory_of_training_steps_is_flat():
    """Nothing is kept of a step. The few pages that are allowed are what Python's and C's allocators leave between what they
    hand out; a graph that stayed would take more in the first step."""
    assert growth(WORK) < 300_000


def test_the_default_run_grows_by_its_metrics_alone_ends_near_the_entropy_and_writes_stories(tmp_path):
    """A run keeps a line of metrics for each step, for the curves and the checkpoint: loss, learning rate, length of the
    gradient. Python holds it in a third of a kilobyte, and the same again as text while a checkpoint is written. Two kilobytes
    a step are allowed, a sixth of what one batch of token numbers would take, and two of the heap's large pages begun."""
    assert PRESETS["tiny"].steps == 1800
    assert growth(RUN, tmp_path / "run") < 1300 * 2_000 + 2 * PAGE

    run = Run.load(tmp_path / "run")
    floor = grammar.entropy_per_character()
    assert floor * 0.99 < run.history[-1]["final_val_loss"] < floor * 1.08  # as far as seeds and machines scatter: README

    run.model.eval()
    start = run.vocabulary.encode("\n\n")
    text = run.vocabulary.decode(list(generate(run.model, start, 2000, temperature=0.5, generator=np.random.default_rng(0))))
    stories = text.split("\n\n")[:-1]  # the last one is cut off
    right = [np.isfinite(grammar.log_probability(story + "\n\n")) for story in stories]
    assert len(stories) >= 5
    assert np.mean(right) > 0.5, [story for story, fine in zip(stories, right, strict=True) if not fine]
