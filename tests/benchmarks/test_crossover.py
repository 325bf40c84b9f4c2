"""The length from which on linear attention is faster: that the measurement runs, and how the meeting point is found."""

import pytest

from benchmarks import crossover


@pytest.mark.parametrize("backward", [False, True])
def test_a_short_text(backward, monkeypatch):
    monkeypatch.setattr(crossover, "TURN", 0)
    row = crossover.measure(16, backward, rounds=2)
    assert row["length"] == 16
    assert min(row["softmax"], row["linear"], row["ratio"]) > 0


@pytest.mark.parametrize(
    "ratios, length",
    [
        ([0.5, 2.0], 200),  # between 100 and 400, half way on a logarithmic scale
        ([0.5, 1.0, 3.0], 400),
        ([0.5, 1.1, 0.9, 1.8], None),  # up, down and up again: the last time counts
        ([2.0, 3.0], "never"),
        ([0.2, 0.9], "never"),
    ],
)
def test_where_the_times_meet(ratios, length):
    met = crossover.meeting([{"length": 100 * 4**i, "ratio": ratio} for i, ratio in enumerate(ratios)])
    if length == "never":
        assert met is None
    elif length is None:
        assert 1600 < met < 6400
    else:
        assert met == pytest.approx(length)


def test_the_table(monkeypatch, capsys):
    row = {"softmax": 1.0, "linear": 1.0}
    monkeypatch.setattr(crossover, "measure", lambda length, backward: {"length": length, **row, "ratio": length / 512})
    crossover.main()
    written = capsys.readouterr().out
    assert written.count("linear is faster from T = 512 on") == 2
