"""The runner of code written for PyTorch: it redirects imports, edits no file, and names what is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.py")
PROGRAM = """
import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import DataLoader as Same
import sys
assert DataLoader is Same
assert torch.nn is nn and sys.modules["torch.nn.functional"] is F
torch.manual_seed(1)
model = nn.Linear(2, 1)
loss = F.mse_loss(model(torch.ones(3, 2)), torch.zeros(3, 1))
loss.backward()
print(type(loss).__module__, sys.argv[1:], __name__, __file__.endswith("program.py"))
"""
MISSING = """
import torch
from torch import nn, no_such_function
import torch.nn.functional as F
x = torch.ones(2).quantile(0.5)
y = torch.view_as_complex(x), nn.Hardswish(), F.grid_sample, torch.nn.Linear(1, 1), nn.Linear.from_nowhere
z = {}.items(), torch.distributed.init_process_group
"""


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, str(RUN), *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_a_program_runs_with_its_imports_redirected(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run("program.py", "--steps=3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["tinygrad_tf.tensor", "['--steps=3']", "__main__", "True"]
    assert (tmp_path / "program.py").read_text() == PROGRAM


def test_a_folder_is_listed_by_what_it_lacks(tmp_path, oracle):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "good.py").write_text(PROGRAM)
    (tmp_path / "short.py").write_text(MISSING)
    (tmp_path / "plain.py").write_text("print(1)")
    done = run(tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    good, short = done.stdout.splitlines()
    assert good == str(Path("inner", "good.py")) + ": all there"
    names = [
        "torch.nn.Hardswish",
        "torch.nn.functional.grid_sample",
        "torch.no_such_function",
        "torch.view_as_complex",
        "Tensor.quantile",
    ]
    assert short == "short.py: missing " + ", ".join(f"{name} (1)" for name in names)


@pytest.mark.parametrize(
    "text,words",
    [
        ("import torch\ntorch.polar(1, 2)", "torch.polar is not supported: complex numbers"),
        ("from torch.nn.attention import sdpa_kernel", "use torch.nn.functional.scaled_dot_product_attention"),
        ("from torch import Tensor, polar", "cos and sin"),
        ("import torch.onnx", "runs as it is"),
    ],
)
def test_a_program_that_needs_what_is_missing_ends_with_its_name(tmp_path, text, words):
    (tmp_path / "program.py").write_text(text)
    done = run(tmp_path / "program.py", cwd=tmp_path)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_path_it_says_how(tmp_path):
    done = run(cwd=tmp_path)
    assert done.returncode == 2
    assert "FOLDER" in done.stderr


def test_help_is_no_mistake(tmp_path):
    done = run("--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "FOLDER" in done.stdout


def test_a_path_that_is_not_there_is_named(tmp_path):
    done = run("none/program.py", "--steps=3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {Path('none', 'program.py')} is not there; name a program for PyTorch, or a folder of them\n"


def test_kernels_that_are_none_end_it_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("TINYGRAD_TF_KERNELS", "fortran")
    (tmp_path / "program.py").write_text(PROGRAM)
    for what in ("program.py", "."):
        done = run(what, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr == "error: TINYGRAD_TF_KERNELS is 'fortran': it can be numpy or numba, or unset\n"
