"""The contest against the clock, with budgets of a second and a small text; no time is asserted."""

import json
import math
import xml.etree.ElementTree as ET
from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks import contest, contest_report, race
from tinygrad_tf.data import windows
from tinygrad_tf.grammar import STORIES
from tinygrad_tf.settings import PRESETS
from tinygrad_tf.train import SCHEDULES


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "stories.txt"
    path.write_text(STORIES.text(6_000, 0), encoding="utf-8")
    return str(path)


# ------------------------------------------------------------------------------------------------ the rules of the race


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup, floor", [(0, 0.0), (3, 0.1), (10, 0.0)])
def test_with_steps_of_equal_length_the_schedule_is_the_trainers(warmup, floor, schedule):
    steps = 10
    for step in range(steps):
        found = race.share_of_peak(step, (step + 1) / steps, warmup / steps, warmup=warmup, floor=floor, schedule=schedule)
        assert found == pytest.approx(SCHEDULES[schedule](step, lr=1.0, min_lr=floor, warmup=warmup, total=steps))


class Counting(race.Contestant):
    """A step takes `length` seconds of a clock of its own; nothing is learned."""

    def __init__(self, text, length, clock):
        super().__init__("tiny", text, 0)
        self.config = self.config.changed(warmup=2)
        self.length, self.clock, self.shares, self.starts = length, clock, [], 0

    def start(self):
        self.starts += 1
        self.batches, self.shares = np.random.default_rng(0), []

    def step(self, share):
        self.shares.append(share)
        self.clock[0] += self.length
        return 1.0

    def loss(self, x, y):
        self.clock[0] += 1000  # the evaluation is not on the clock
        return float(y.mean())


def test_a_race_ends_in_time_and_its_rate_at_the_bottom(text, monkeypatch):
    clock = [5.0]
    monkeypatch.setattr(race, "perf_counter", lambda: clock[0])
    one = Counting(text, 0.25, clock)
    result = one.race(10)
    assert result["steps"] == 40 == len(result["curve"])
    assert result["trained"] == 10
    assert one.starts == 2  # once to warm up; what was learned then is thrown away
    assert one.shares[:2] == [0.5, 1.0]
    assert one.shares[-1] == pytest.approx(0, abs=1e-9)
    assert one.shares[2:] == sorted(one.shares[2:], reverse=True)
    assert result["tokens"] == 40 * 8 * 96
    assert [seconds for seconds, _ in result["curve"][:2]] == [0.25, 0.5]


def test_a_step_that_would_not_end_in_time_is_not_begun(text, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(race, "perf_counter", lambda: clock[0])
    assert Counting(text, 0.4, clock).race(1)["steps"] == 2
    assert Counting(text, 4.0, clock).race(1)["steps"] == 1  # there is always one


def test_every_held_out_character_counts_once(text):
    one = Counting(text, 1, [0.0])
    held_out = one.corpus.val
    assert sum(y.size for _, y in windows(held_out, 96, race.TOGETHER)) == len(held_out) - 1
    assert one.validation() == pytest.approx(held_out[1:].mean())


# ------------------------------------------------------------------------------------------------ the contestants


def test_ours_steps_as_the_trainer_does(text, tmp_path):
    """The first steps are in the warm-up of both, where the rate does not depend on the time."""
    from benchmarks.contestants import Ours
    from tinygrad_tf.report import progress
    from tinygrad_tf.train import train

    config = PRESETS["laptop"].changed(text=text, steps=3, warmup=3, eval_every=0, sample_tokens=0, n_layer=1, batch_size=2)
    history = train(config, tmp_path / "run", progress("none")).history
    ours = Ours("laptop", text, 0)
    ours.threads.close()
    ours.config = config
    ours.start()
    found = [ours.step((i + 1) / 3) for i in range(3)]
    assert found == pytest.approx([line["loss"] for line in history[:3]], rel=1e-6)
    assert ours.validation() == pytest.approx(history[-1]["final_val_loss"], rel=1e-5)


@pytest.mark.parametrize("kind, changes", [("NanoGPT", {}), ("OurRecipe", {}), ("OurRecipe", {"ffn": "relu2", "tied": True}),
                                           ("OurRecipe", {"optimizer": "adamw", "n_head": 2})])  # fmt: skip
def test_in_pytorch_it_is_the_same_recipe(oracle, text, kind, changes):
    """Same losses as ours with the same preset, step by step, and the same loss on held-out text."""
    from benchmarks import contestants, contestants_torch

    preset = contest.ENTRIES["nanogpt" if kind == "NanoGPT" else "modern"].preset
    both = contestants.Ours(preset, text, 3), getattr(contestants_torch, kind)(preset, text, 3)
    both[0].threads.close()
    small = both[0].config.changed(n_layer=2, batch_size=3, init_std=0.2, zero_init=False, **changes)
    losses = []
    for each in both:
        each.config = small
        each.start()
        losses.append([each.step(0.1) for _ in range(4)] + [each.validation()])
    tolerance = 1e-2 if small.optimizer == "muon" else 1e-4  # PyTorch's Muon computes in bfloat16
    assert losses[1][0] == pytest.approx(losses[0][0], rel=1e-5)
    assert losses[1] == pytest.approx(losses[0], rel=tolerance)


def test_a_preset_that_the_twin_does_not_know_is_named(oracle):
    from benchmarks.modern_twin import Modern

    with pytest.raises(ValueError, match="norm_order, window of the preset 'laptop'"):
        Modern(PRESETS["laptop"].changed(norm_order="post", window=5), 65)


# ------------------------------------------------------------------------------------------------ the command


def test_a_contest_from_end_to_end(text, tmp_path, capsys):
    only = "ours,nanogpt,modern" if find_spec("torch") else "ours"
    out = tmp_path / "made" / "here"
    assert contest.run(["--seconds", "1,1.5", "--only", only, "--threads", "1", "--text", text, "--out", str(out)]) == 0
    names = only.split(",")
    curves = {f"{name}-{seconds}.jsonl" for name in names for seconds in ("1", "1.5")}
    assert {path.name for path in out.iterdir()} == curves | {"contest.json", "contest.svg"}
    written = json.loads((out / "contest.json").read_text(encoding="utf-8"))
    assert {"cpu", "numpy", "torch"} <= set(written["machine"])
    assert [(r["seconds"], r["contestant"]) for r in written["results"]] == [(s, name) for s in (1, 1.5) for name in names]
    for r in written["results"]:
        lines = [json.loads(line) for line in (out / f"{r['contestant']}-{r['seconds']}.jsonl").read_text().splitlines()]
        *steps, end = lines
        assert [line["step"] for line in steps] == list(range(1, r["steps"] + 1))
        assert end == {"step": r["steps"], "seconds": r["trained"], "val_loss": r["val_loss"]}
        assert 0 < r["val_loss"] < math.log(65) + 1
        assert r["target"] is None  # another text
    ET.parse(out / "contest.svg")
    shown = capsys.readouterr().out
    assert "tokens/s" in shown
    assert all(contest.ENTRIES[name].label in shown for name in names)


BAD = {
    "--seconds 0": "--seconds", "--seconds 60,x": "'60,x'", "--seconds nan": "--seconds", "--only ours,theirs": "theirs",
    "--only=": "--only", "--seed -1": "--seed", "--threads 0": "--threads", "--text no/such/file": "no/such/file",
    "--text {short}": "10 characters", "--nothing": "--nothing", "--text {text} --out {text}": "stories.txt",
}  # fmt: skip


@pytest.mark.parametrize("arguments, named", BAD.items())
def test_bad_input_is_one_line_and_status_2(arguments, named, text, tmp_path, capsys):
    short = tmp_path / "short.txt"
    short.write_text("to be or not to be, " * 5)
    assert contest.run(arguments.format(short=short, text=text).split()) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1
    assert error.startswith("error: ")


def test_without_pytorch_ours_runs_alone_unless_others_are_asked_for(monkeypatch, capsys):
    monkeypatch.setattr(contest.machine, "installed", lambda package: None)
    assert list(contest._entries("ours,nanogpt", asked=False)) == ["ours"]
    assert contest.run(["--only", "nanogpt"]) == 2
    assert "oracle" in capsys.readouterr().err


def test_the_text_is_found_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv(contest.DATA, str(tmp_path))
    assert contest._shakespeare() == "tinyshakespeare"
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / "tinyshakespeare" / "input.txt").write_text("x")
    assert contest._shakespeare() == str(tmp_path / "tinyshakespeare" / "input.txt")


@pytest.mark.parametrize("loss, target, says", [(1.8, 1.8, "reached"), (1.81, 1.8, "falls short"), (1.0, None, "")])
def test_a_target_is_reached_or_not(loss, target, says):
    assert contest_report.verdict({"val_loss": loss, "target": target}).endswith(says)
    assert bool(contest_report.verdict({"val_loss": loss, "target": target})) == bool(says)


def test_a_curve_is_drawn_with_few_points():
    curve = [(i / 10, float(i % 2)) for i in range(1000)]
    seconds, losses = contest_report.smooth(curve)
    assert len(seconds) == contest_report.POINTS
    assert losses == [0.5] * contest_report.POINTS
    assert contest_report.smooth(curve[:3]) == ([0.0, 0.1, 0.2], [0.0, 1.0, 0.0])
