"""Each trick is two ways to the same result."""

import pytest

from benchmarks import tricks
from benchmarks.measure import Plan

SMALL = [pytest.param(trick, marks=[pytest.mark.slow] * ("baby" in trick.size), id=trick.name) for trick in tricks.TRICKS
         if not trick.what.startswith("product") or "tiny" in trick.size]  # fmt: skip


def test_the_names_are_different():
    names = [trick.name for trick in [tricks.KEPT, *tricks.TRICKS]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("trick", SMALL)
def test_both_ways_agree(trick):
    before, after = trick.make()
    assert tricks.apart(before(), after()) <= trick.tolerance


def test_adamw_goes_the_same_way_for_every_parameter():
    one_by_one, flat = tricks.flat_adamw("tiny")
    for _ in range(3):
        last = one_by_one(), flat()
    assert tricks.apart(*last) < 1e-6


def test_a_difference_is_found():
    assert tricks.apart((1.0, [1.0, 2.0]), (1.0, [1.0, 4.0])) == 0.5
    assert tricks.apart(float("nan"), 1.0) != 0


def test_ways_that_disagree_are_not_timed(monkeypatch):
    wrong = tricks.Trick("sum", "small", "1", "2", lambda: (lambda: 1.0, lambda: 2.0))
    monkeypatch.setattr(tricks, "TRICKS", [wrong])
    with pytest.raises(ArithmeticError, match="sum, small: the two ways differ"):
        tricks.Pair("sum, small", keep=False).measure(1)


def test_a_trick_is_measured_shown_and_written(capsys):
    chosen = [trick for trick in tricks.TRICKS if trick.name in ("x³, 768 × 512", "AdamW, tiny")]
    rows = list(tricks.measurements(Plan(threads=1, pairs=2), chosen))
    assert [row["trick"] for row in rows] == ["x³", "AdamW"]
    assert all(row["ratio"]["median"] > 0 for row in rows)
    tricks.show(rows)
    assert "one flat array" in capsys.readouterr().out
    table = tricks.markdown(rows).splitlines()
    assert len(table) == 4
    assert {line.count("|") for line in table} == {8}
    assert "| x³ | 768 × 512 |" in table[2]
