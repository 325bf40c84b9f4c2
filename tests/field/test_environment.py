"""EN: logs, pipes, and cells that are run again."""

import os
import sys

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn, optim, report


def hundred_steps(display):
    display.start(0, 100, 100)
    for step in range(1, 101):
        display.step(step, {"step": step, "loss": 4 / step})
    display.stop()


def test_EN_01_a_log_has_few_plain_lines_and_the_last_step(tmp_path, monkeypatch):
    monkeypatch.delenv(report.VARIABLE, raising=False)
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        hundred_steps(report.progress(stream=log))
    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert not set("\r\x1b") & set(text)
    assert len(text.splitlines()) <= 20
    assert "100/100" in text.splitlines()[-1]


def test_EN_01_a_closed_pipe_ends_the_output_and_nothing_else():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as stream:
        display = report.Lines(stream)
        hundred_steps(display)
        assert display.closed


def test_EN_01_a_notebook_is_told_apart_and_flag_and_variable_override(monkeypatch, tmp_path):
    monkeypatch.delenv(report.VARIABLE, raising=False)
    with open(tmp_path / "log", "w", encoding="utf-8") as stream:
        monkeypatch.setenv(report.VARIABLE, "none")
        assert type(report.progress(stream=stream)) is report.Progress
        assert type(report.progress("plain", stream)) is report.Lines
        monkeypatch.setenv(report.VARIABLE, "auto")
        monkeypatch.setitem(sys.modules, "ipykernel", sys)
        assert type(report.progress(stream=stream)) is report.Bar


@pytest.mark.parametrize("make", [optim.SGD, optim.AdamW, optim.Muon])
def test_EN_03_the_optimizer_of_a_model_that_was_built_again_warns(make):
    """Every lesson's cells are run twice by test_it_prints_the_numbers_of_the_page_and_the_same_when_cells_run_twice, in
    tests/lessons/test_numbers.py."""

    def build():
        return nn.Linear(2, 2, bias=False, generator=np.random.default_rng(0))

    def step(model):
        optimizer.zero_grad()
        model(Tensor([[1.0, 2.0]])).sum().backward()
        optimizer.step()

    model = build()
    optimizer = make(model.parameters(), lr=0.1)
    step(model)
    model = build()  # the cell above was run again, the one with the optimizer was not
    before = model.weight.array.copy()
    with pytest.warns(UserWarning, match="no parameter has a gradient.*built again"):
        step(model)
    np.testing.assert_array_equal(model.weight.array, before)
