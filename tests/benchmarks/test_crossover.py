"""What the length of a text costs: that the measurement runs, and how the meeting point and the powers are found."""

import pytest

from benchmarks import crossover


@pytest.mark.parametrize("backward", [False, True])
def test_a_short_text(backward, monkeypatch):
    monkeypatch.setattr(crossover, "TURN", 0)
    row = crossover.measure(16, backward, rounds=2)
    assert row["length"] == 16
    assert min(row.values()) > 0
    assert set(row) == {"length", "ratio", *crossover.LAYERS, *crossover.PARTS}


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


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0])
def test_a_power_is_found_again(p):
    assert crossover.power([64, 128, 512, 4096], [3 * n**p for n in (64, 128, 512, 4096)]) == pytest.approx(p, abs=1e-12)


def test_the_table(monkeypatch, capsys):
    """Short texts, where calls cost more than numbers, are left out of the fit."""

    def measured(length, backward, rounds):
        powers = dict(zip(crossover.PARTS, (2, 1, 1, 1), strict=True))
        parts = {part: length**p if length >= crossover.LONG else 7.0 for part, p in powers.items()}
        return {"length": length, "softmax": 1.0, "linear": 1.0, **parts, "ratio": length / 512}

    monkeypatch.setattr(crossover, "measure", measured)
    crossover.show(list(crossover.measurements()))
    written = capsys.readouterr().out
    assert written.count("linear is faster from T = 512 on") == 2
    assert [line.rsplit(maxsplit=1)[1] for line in written.splitlines() if "T^" in line] == ["T^2.00", *["T^1.00"] * 3] * 2
