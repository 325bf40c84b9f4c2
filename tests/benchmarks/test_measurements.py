"""Attention alone, growth, imports: that they run, measure the same work in every column, and are shown."""

import numpy as np
import pytest

from benchmarks import floor, growth, imports, lengths, measure, ours
from benchmarks.sizes import parts_of_attention, sized

ALONE = measure.Plan(threads=1, pairs=2)


@pytest.fixture
def alone(monkeypatch):
    """Without PyTorch, in short turns."""
    monkeypatch.setattr(measure, "installed", lambda package: None)
    monkeypatch.setattr(lengths, "TURN", 0)
    monkeypatch.setattr(growth, "TURN", 0)


def test_attention_of_every_length(alone, monkeypatch, capsys):
    """A text longer than all texts together should be is one text."""
    monkeypatch.setattr(lengths, "TOKENS", 512)
    found = list(lengths.measurements(ALONE, (64, 1024)))
    assert [(r["pass"], r["batch"], r["length"]) for r in found] == [
        (name, batch, length) for name in lengths.PASSES for batch, length in ((8, 64), (1, 1024))]  # fmt: skip
    assert all(set(r["milliseconds"]) == {"ours", "products"} for r in found)
    lengths.show(found)
    shown = capsys.readouterr().out
    assert "forward and backward" in shown
    assert "1024" in shown


SMALL = {"batch": 2, "heads": 2, "length": 80, "head_dim": 8, "backward": True}


def test_attention_is_the_same_work(oracle):
    from benchmarks import theirs

    one, other = ours.Attention(), theirs.Attention()
    for task in (one, other):
        task.set(**SMALL)
        task.once()
    for mine, its in zip(one.read(), other.read(), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("length,heads", [(64, 3), (600, 1)])
def test_the_products_of_attention_are_those_of_half_the_matrix(length, heads):
    """Some queries at a time, each with T / 2 keys; the last chunk of queries is a short one."""
    products = floor.AttentionProducts()
    products.set(1, heads, length, 8, backward=True)
    q, k, v = products.q, products.k, products.v
    w, d = q @ k.swapaxes(1, 2), q @ v.swapaxes(1, 2)
    assert w.shape == (heads, length, length // 2)
    products.once()
    np.testing.assert_allclose(products.out, w @ v, rtol=1e-3, atol=1e-3)
    last = slice(length // products.rows * products.rows if length % products.rows else length - products.rows, None)
    np.testing.assert_allclose(products.dk, d[:, last].swapaxes(1, 2) @ q[:, last], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(products.dv, w[:, last].swapaxes(1, 2) @ q[:, last], rtol=1e-3, atol=1e-3)


def test_growth_changes_one_number_and_fits_its_power(alone, capsys):
    series = {"context": ("block_size", (2, 4)), "layers": ("n_layer", (1, 2))}
    found = list(growth.measurements(ALONE, series))
    laptop = vars(sized("laptop"))
    changed = [{name for name, value in r["size"].items() if value != laptop[name]} for r in found]
    assert changed == [{"block_size"}] * 2 + [{"n_layer"}] * 2
    growth.show(found)
    assert "grow as layers to the power of: ours" in " ".join(capsys.readouterr().out.split())
    rows = [{"value": n, "milliseconds": {"ours": {"median": 5 * n**1.5 if n > 1 else 100}}} for n in (1, 2, 4, 8)]
    assert growth.exponent(rows, "ours") == pytest.approx(1.5)  # the first point is not one of the last three
    assert growth.exponent(rows[:1], "ours") is None


def test_one_size_after_the_other_in_one_process():
    growing = growth.Growing("ours")
    for layers in (1, 2):
        growing.set({**vars(sized("tiny")), "n_layer": layers})
        assert growing.once() > 0
        assert growing.training.model.config.n_layer == layers


def test_imports_are_timed_in_fresh_processes(alone, capsys):
    found = imports.measure(ALONE)
    assert set(found["milliseconds"]) == {"ours", "numpy", "python"}
    assert found["milliseconds"]["ours"]["median"] > 0
    assert set(found["milliseconds_on_top"]) == {"ours", "numpy"}
    imports.show([found])
    assert "Python alone" in capsys.readouterr().out


def test_both_kernels_stand_beside_each_other(monkeypatch):
    """Whatever kernels there are: two columns, and a ratio to each."""
    monkeypatch.setattr(measure, "installed", lambda package: None)
    monkeypatch.setattr(measure, "OURS", {"numpy": "ours", "numpy ": "ours, numba"})  # the same kernels twice
    plan = measure.Plan(threads=1, pairs=1, kernels=("numpy", "numpy "))
    monkeypatch.setattr(measure, "Worker", lambda task, threads, kernels, **o: _Worker(task, threads, kernels.strip(), **o))
    found = measure.step("tiny", plan)
    assert list(found["milliseconds"]) == ["ours", "ours, numba", "products"]
    assert list(found["ratios"]) == ["ours", "ours, numba"]
    assert found["losses"]["ours"] == found["losses"]["ours, numba"]


def _Worker(task, threads, kernels, **options):
    from benchmarks.processes import Worker

    return Worker(task, threads, kernels=kernels, **options)


def test_arrays_of_attention_are_the_same_for_everybody():
    assert all((a == b).all() for a, b in zip(parts_of_attention(1, 2, 8, 4), parts_of_attention(1, 2, 8, 4)))
