"""What several processes are worth: the model of the all-reduce, and that the page is made from the numbers beside it."""

import json

import pytest

from benchmarks import parallel
from benchmarks.parallel_page import draw, page

FIT = {"size": "x", "batch": 8, "bytes": 1_000_000, "t0": 0.01, "t1": 0.02}
FREE, LINE = (0.0, 1e30), (1e-4, 1e8)


def simulated(algorithm, ranks, size, alpha, beta, gamma):
    """Round by round, what one rank does."""
    seconds, rounds = 0.0, ranks.bit_length() - 1
    for i in range(rounds):
        match algorithm:
            case "tree":
                seconds += 2 * (alpha + size * beta) + size * gamma
            case "doubling":
                seconds += alpha + size * (beta + gamma)
            case "halving":
                part = size / 2 ** (i + 1)
                seconds += alpha + part * (beta + gamma) + alpha + part * beta
    for _ in range(ranks - 1 if algorithm == "ring" else 0):
        seconds += alpha + size / ranks * (beta + gamma) + alpha + size / ranks * beta
    return seconds


@pytest.mark.parametrize("ranks", [1, 2, 8, 1024])
def test_the_formulas_are_the_sum_of_the_rounds(ranks):
    for algorithm, seconds in parallel.all_reduce(ranks, 4096, 1e-5, 1e-9, 1e-10).items():
        assert seconds == pytest.approx(simulated(algorithm, ranks, 4096, 1e-5, 1e-9, 1e-10), abs=1e-15), algorithm


def test_one_rank_and_a_free_network_cost_nothing():
    assert parallel.communication(1, 10**6, LINE, 1e-9) == 0
    assert parallel.growing(FIT, 1024, FREE, 0.0) == pytest.approx(1)
    assert parallel.dividing(FIT, 8, FREE, 0.0) == pytest.approx(0.17 / 0.03)


def test_on_a_real_network_more_ranks_are_less_efficient():
    shares = [parallel.growing(FIT, n, LINE, 1e-10) for n in parallel.RANKS]
    assert shares == sorted(shares, reverse=True)
    assert 0 < shares[-1] < shares[0] == 1


def test_the_page_and_the_figure_are_those_of_the_numbers(tmp_path):
    numbers = json.loads(parallel.NUMBERS.read_text(encoding="utf-8"))
    assert parallel.PAGE.read_text(encoding="utf-8") == page(numbers), "python -m benchmarks.parallel writes it anew"
    draw(numbers, tmp_path / "figure.svg")
    assert parallel.FIGURE.is_file()
    assert "efficiency" in parallel.PAGE.read_text(encoding="utf-8")


def test_a_step_of_the_measurement_is_one_of_training():
    work = parallel.Work("tiny", 2)
    before = work.parameters[0].array.copy()
    assert min(work.times(1)) >= 0
    assert (work.parameters[0].array != before).any()
    assert work.bytes == 4 * sum(p.numel() for p in work.parameters)
