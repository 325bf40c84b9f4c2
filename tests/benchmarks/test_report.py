"""Targets, files of results, the tables made from them, and the figures."""

import json
import xml.etree.ElementTree as ET

import pytest

from benchmarks import figures, growth, lengths, report, results, targets
from benchmarks.results import Run, UnreadableResults

MACHINE = {"cpu": "a processor", "cores": 2, "system": "Linux 6 x86_64", "python": "3.11.7", "numpy": "2.4.0", "blas": "blas 1",
           "torch": "2.13.0", "numba": None, "date": "2026-01-01 12:00 +0000"}  # fmt: skip


def spread(median):
    return {"min": 0.8 * median, "lower": 0.9 * median, "median": median, "upper": 1.1 * median, "max": 1.2 * median}


def step(size="tiny", ratio=2.0, threads=2, numba=None):
    ratios = {"ours": {"torch": spread(ratio), "torch, kept": spread(ratio / 2)}}
    if numba:
        ratios["ours, numba"] = {"torch": spread(numba), "ours": spread(1.3)}
    return {"what": "step", "size": size, "threads": threads, "pairs": 7, "ratios": ratios, "others": spread(0.1),
            "milliseconds": {"ours": spread(3.0), "torch": spread(3 * ratio), "products": spread(0.5)}}  # fmt: skip


def memory(size="laptop", ratio=1.25):
    return {"what": "memory", "size": size, "threads": 2, "pairs": 7, "turns": 3, "ratios": {"ours": {"torch": spread(ratio)}},
            "added": {"ours": spread(40 * 2**20), "torch": spread(40 * ratio * 2**20)},
            "peak": {"ours": spread(100 * 2**20), "torch": spread(400 * 2**20)}}  # fmt: skip


def attention():
    both = {"ours": spread(2.0), "products": spread(1.0)}
    return [{"what": "attention", "pass": name, "length": n, "threads": 2, "milliseconds": both}
            for name in lengths.PASSES for n in (64, 128)]  # fmt: skip


def grown():
    times = {n: {"ours": spread(n), "torch": spread(2 * n)} for n in (1, 2, 4)}
    return [{"what": "growth", "series": name, "value": n, "threads": 1, "milliseconds": times[n]}
            for name in growth.SERIES for n in (1, 2, 4)]  # fmt: skip


@pytest.mark.parametrize("ratio,reached", [(1.69, False), (1.694, False), (1.6951, True), (1.7, True), (3.0, True)])
def test_a_target_is_reached_by_the_median_as_it_is_shown(ratio, reached):
    (row,) = targets.judged([step(ratio=ratio)])
    assert row["reached"] == reached
    assert row["runs"] == 7
    assert row["kept"]["median"] == ratio / 2


def test_targets_are_for_two_threads_and_for_each_of_our_kernels(capsys):
    assert list(targets.judged([step(threads=1)])) == []
    rows = list(targets.judged([step("laptop", 1.0, numba=1.0), memory()]))
    assert [(r["target"].label, r["reached"], r["runs"]) for r in rows] == [
        ("training step, laptop, NumPy", True, 7), ("training step, laptop, numba", False, 7),
        ("peak memory, laptop, NumPy", True, 3)]  # fmt: skip
    targets.show([step("laptop", 1.0, numba=1.0)])
    shown = capsys.readouterr().out
    assert "reached" in shown
    assert "falls short" in shown
    targets.show([step(threads=1)])
    assert capsys.readouterr().out == ""


def test_generation_counts_with_the_most_probable_token():
    rows = [{"what": "generation", "size": "laptop", "temperature": t, "threads": 2, "pairs": 5,
             "ratios": {"ours": {"torch": spread(4 - t)}}} for t in (0.0, 0.8)]  # fmt: skip
    (row,) = targets.judged(rows)
    assert row["ratio"]["median"] == 4


def test_results_are_small_and_come_back(tmp_path):
    path = tmp_path / "run.json"
    results.write(path, MACHINE, [{"what": "step", "x": 1 / 3, "list": [2 / 3], "n": 123456, "within": {"y": 1e-9 / 3}}])
    run = results.read(path)
    assert run.machine == MACHINE
    assert run.results == [{"what": "step", "x": 0.3333, "list": [0.6667], "n": 123456, "within": {"y": 3.333e-10}}]


OLD = '{"format": 1, "machine": {}, "results": []}'


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"machine": 1, "results": []}', OLD])
def test_another_file_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UnreadableResults, match=r"x\.json is no file"):
        results.read(tmp_path / "x.json")
    with pytest.raises(UnreadableResults, match=r"y\.json cannot be read"):
        results.read(tmp_path / "y.json")


def test_each_run_is_a_column():
    later = {**MACHINE, "date": "2026-01-02 18:00 +0000"}
    runs = [Run(MACHINE, [step(ratio=2.0), step(ratio=1.5, threads=1), memory()]), Run(later, [step(ratio=1.0)]),
            Run({**MACHINE, "cpu": "another"}, [{"what": "growth"}, {"what": "trick"}])]  # which no table shows
    table = report.readme(runs)
    lines = table.splitlines()
    assert lines[0] == "| PyTorch over ours | target | 2026-01-01 12:00 | 2026-01-02 18:00 |  | freed memory kept |"
    assert "| training step, tiny, NumPy | 1.7 | 2.00 [1.80, 2.20] | 1.00 [0.90, 1.10] | in 1 of 2 | 1.00, 0.50 |" in lines
    assert "| peak memory, laptop, NumPy | 1 | 1.25 [1.12, 1.38] | – | reached | –, – |" in lines
    assert "| step, `tiny`, NumPy | 1.50 [1.35, 1.65] | – |" in lines
    assert any("ours 3.00, PyTorch 6.00, products alone 0.500 ms" in line for line in lines)
    assert any("ours 40.0, PyTorch 50.0 MiB" in line for line in lines)
    assert any("held before it, `laptop` | ours 100, PyTorch 400 MiB" in line for line in lines)
    assert lines[-1].startswith("a processor, 2 cores, Linux; Python 3.11.7")
    assert {line.count("|") for line in table.split("\n\n")[0].splitlines()} == {7}


def test_a_page_is_written_anew_between_its_marks():
    page = f"above\n{report.START}old\n{report.END}\nbelow\n"
    new = report.renewed(page, "| table |")
    assert new == f"above\n{report.START}\n| table |\n\n{report.END}\nbelow\n"
    assert report.renewed(new, "| table |") == new
    with pytest.raises(UnreadableResults, match="no place for the table"):
        report.renewed("no marks", "| table |")


def test_a_figure_is_that_of_the_last_run_that_measured_it(tmp_path):
    """What is kept beside the runs may end with a file that has nothing to draw, as that of the tricks."""
    files = [tmp_path / "1.json", tmp_path / "2.json"]
    for file, row in zip(files, (step(ratio=2.0), step(threads=1)), strict=True):
        results.write(file, MACHINE, [row])
    report.main(files, check=True, figures=tmp_path)
    assert [path.name for path in tmp_path.glob("*.svg")] == ["targets.svg"]


def test_the_pages_show_the_runs_that_are_kept():
    """`python -m benchmarks report --check`, which says how to mend it."""
    assert report.main([], check=True) == 0


def test_check_writes_nothing_and_report_does(tmp_path, monkeypatch, capsys):
    run = tmp_path / "run.json"
    results.write(run, MACHINE, [step()])
    pages = {name: tmp_path / f"{name}.md" for name in ("README", "NOTES")}
    for name, page in pages.items():
        page.write_text(f"{report.START}{report.END}\n")
        monkeypatch.setattr(report, name, page)
    assert report.main([run], check=True) == 1
    assert "training step" not in pages["README"].read_text()
    assert report.main([run]) == 0
    assert "training step, tiny, NumPy" in pages["README"].read_text()
    assert pages["NOTES"].read_text() == f"{report.START}{report.END}\n"  # these files hold nothing for it
    assert "README.md is written anew" in capsys.readouterr().out
    assert report.main([run], check=True) == 0
    assert capsys.readouterr().out == "README.md shows these results\nNOTES.md shows these results\n"
    assert report.notes([]).startswith("Nothing is measured yet")


def test_the_runs_that_are_kept_are_small():
    for path in results.kept():
        assert path.stat().st_size < 200_000, path.name


def test_a_figure_for_each_kind(tmp_path):
    everything = [step(numba=1.8), memory(), *attention(), *grown()]
    written = figures.write(everything, tmp_path)
    assert [path.name for path in written] == ["targets.svg", "attention.svg", "growth.svg", "memory.svg"]
    for path in written:
        assert ET.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    first = written[0].read_bytes()
    assert figures.write(everything, tmp_path)[0].read_bytes() == first
    assert figures.write([step(threads=1)], tmp_path) == []
    tiny = memory("tiny")
    tiny["added"] = {"ours": spread(1.0), "torch": spread(1.0)}
    assert figures.write([tiny], tmp_path) == []


def test_the_json_of_a_run_names_date_machine_and_versions():
    from benchmarks.machine import describe

    assert {"cpu", "cores", "date", "numpy", "blas", "python", "torch", "numba"} <= json.loads(json.dumps(describe())).keys()
