"""What the presets promise on real text. Slow: minutes each. The default run is in test_memory.py."""

import pytest

from tinygrad_tf.report import progress
from tinygrad_tf.settings import PRESETS
from tinygrad_tf.train import train

pytestmark = pytest.mark.slow


def trained(preset, folder, **changes):
    changes = {"eval_every": 0, "sample_every": 0, "checkpoint_every": 0, **changes}
    return train(PRESETS[preset].changed(**changes), folder, progress("none")).history[-1]["final_val_loss"]


@pytest.mark.slow(minutes=1)
def test_laptop_learns_in_300_steps_what_its_search_found(tmp_path, data_folder):
    """1.675 with seed 0 and 1.686 with seed 1, where the recipe before it ended at 1.777: benchmarks/laptop.md. That its
    1,300 steps end at 1.515 takes minutes to see, and is no test."""
    assert trained("laptop", tmp_path / "run", text=str(data_folder / "tinyshakespeare" / "input.txt"), steps=300) < 1.70


@pytest.mark.slow(minutes=4)
def test_nanogpt_char_cpu_is_where_nanogpt_is(tmp_path, data_folder):
    """1.88 is published; it is 1.880 here with seed 0, and seeds scatter by 0.005."""
    assert trained("nanogpt-char-cpu", tmp_path / "run", text=str(data_folder / "tinyshakespeare" / "input.txt")) < 1.89
