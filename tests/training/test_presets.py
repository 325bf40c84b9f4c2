"""What the presets promise, trained to the end. Slow: minutes each."""

import numpy as np
import pytest

from tinygrad_tf import grammar
from tinygrad_tf.generate import generate
from tinygrad_tf.report import progress
from tinygrad_tf.settings import PRESETS
from tinygrad_tf.train import train

pytestmark = pytest.mark.slow


def trained(preset, folder, **changes):
    run = train(PRESETS[preset].changed(eval_every=0, sample_every=0, checkpoint_every=0, **changes), folder, progress("none"))
    return run, run.history[-1]["final_val_loss"]


def test_the_default_run_ends_within_5_percent_of_the_entropy_and_writes_stories(tmp_path):
    run, loss = trained("tiny", tmp_path / "run")
    floor = grammar.entropy_per_character()
    assert floor * 0.99 < loss < floor * 1.05
    start = run.vocabulary.encode("\n\n")
    text = run.vocabulary.decode(list(generate(run.model, start, 2000, temperature=0.5, generator=np.random.default_rng(0))))
    stories = text.split("\n\n")[:-1]  # the last one is cut off
    right = [np.isfinite(grammar.log_probability(story + "\n\n")) for story in stories]
    assert len(stories) >= 5
    assert np.mean(right) > 0.5, [story for story, fine in zip(stories, right, strict=True) if not fine]


@pytest.mark.slow(minutes=5)
def test_laptop_is_below_1_60_on_all_of_the_held_out_text(tmp_path, data_folder):
    assert trained("laptop", tmp_path / "run", text=str(data_folder / "tinyshakespeare" / "input.txt"))[1] < 1.60


@pytest.mark.slow(minutes=4)
def test_nanogpt_char_cpu_is_where_nanogpt_is(tmp_path, data_folder):
    """1.88 is published; it is 1.880 here with seed 0, and seeds scatter by 0.005."""
    assert trained("nanogpt-char-cpu", tmp_path / "run", text=str(data_folder / "tinyshakespeare" / "input.txt"))[1] < 1.89
