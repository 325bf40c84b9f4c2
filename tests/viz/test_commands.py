"""`tinygrad-tf draw` and `tinygrad-tf doctor`: what they name, write, say, and refuse."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import pytest

from tinygrad_tf import kernels
from tinygrad_tf.cli import app, run_command
from tinygrad_tf.data import load_corpus
from tinygrad_tf.grammar import STORIES
from tinygrad_tf.run import Run
from tinygrad_tf.settings import PRESETS, TrainConfig
from tinygrad_tf.text import Vocabulary
from viz import commands, doctor, layout, subject
from viz.draw import draw as drawn
from viz.graph import Edge, Graph, Node

ROOT = Path(__file__).parents[2]
PROGRAM = '''
from tinygrad_tf import Tensor, manual_seed, nn
import neighbour

manual_seed(0)
x = Tensor([[1.0, 2.0]], requires_grad=True)
model = nn.Residual(nn.Linear(2, 2))
loss = model(x).square().mean()
number = 3

def step():
    return model(x).square().mean()  # line 12

def wrong():
    h = model(x)
    return h @ Tensor([[1.0, 2.0, 3.0]])  # line 16

def early():
    raise KeyError("nothing")

def leaf():
    return Tensor([1.0])

if __name__ == "__main__":
    guarded = loss * 2
    raise SystemExit("run as a program")
'''


@pytest.fixture(autouse=True)
def room(tmp_path, monkeypatch):
    """An empty folder, the engine that the project brings, and the two commands beside `train`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(layout.VARIABLE, raising=False)
    monkeypatch.setattr(app, "registered_commands", list(app.registered_commands))
    commands.add(app)
    return tmp_path


@pytest.fixture
def inside(capsys):
    """Run `tinygrad-tf` in this process."""

    def run(*arguments):
        capsys.readouterr()
        status = run_command([str(argument) for argument in arguments])
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    return run


@pytest.fixture
def draw(inside):
    """Draw, and return the one line that is said."""

    def run(*arguments):
        done = inside("draw", *arguments)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert re.fullmatch(r".+: [\d,]+ nodes?, [\d,]+ skips?, in .+\n", done.stdout)
        return done.stdout.rstrip("\n")

    return run


@pytest.fixture
def refused(inside, tmp_path):
    """Draw what cannot be drawn: one line, exit status 2, and no file written."""

    def run(*arguments):
        before = sorted(tmp_path.rglob("*"))
        done = inside("draw", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert re.fullmatch(r"error: .+\n", done.stderr), done.stderr
        assert [p for p in sorted(tmp_path.rglob("*")) if "__pycache__" not in p.parts] == before
        return done.stderr

    return run


@pytest.fixture
def trained(tmp_path):
    """The folder of a run with two blocks."""
    config = TrainConfig(text="x", n_layer=2, n_head=2, n_embd=8, block_size=8, steps=3)
    folder = tmp_path / "runs" / "small-1"
    folder.mkdir(parents=True)
    Run.new(config, Vocabulary("the cat sat.\n"), "0" * 64, "the cat sat.\n").save(folder)
    return "runs/small-1"


@pytest.fixture
def program(tmp_path):
    (tmp_path / "net.py").write_text(PROGRAM)
    (tmp_path / "neighbour.py").write_text("")
    return "net.py"


# ------------------------------------------------------------------------------------------------ what is drawn


def test_a_preset(draw):
    assert draw("--preset", "tiny", "--view", "blocks").startswith("tiny, untrained: ")
    assert "<svg" in Path("tiny.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_two_skips_a_block_and_the_parameters_of_the_readme(draw, name):
    said = draw("--preset", name, "-o", "x.json")
    assert f", {2 * PRESETS[name].n_layer} skips, " in said
    graph = Graph.load("x.json")
    count = sum(node.parameters for node in graph.nodes if node.kind == "parameter")
    assert count == {"tiny": 103_616, "laptop": 808_320}.get(name, count)


def test_the_characters_of_a_preset_are_those_of_its_text():
    assert Vocabulary(STORIES.text(30_000, 0)) == load_corpus("stories").vocabulary


def test_a_run_and_its_checkpoint_file(draw, trained):
    assert draw(trained).endswith("small-1.svg")
    draw(trained, "-o", "folder.dot")
    draw(f"{trained}/checkpoint.safetensors", "-o", "file.dot")
    assert Path("folder.dot").read_bytes() == Path("file.dot").read_bytes()


def test_the_prompt_is_what_the_model_reads(draw, trained):
    draw(trained, "--prompt", "cat", "-o", "x.json")
    shapes = {node.shape for node in Graph.load("x.json").nodes if node.kind == "output"}
    assert [shape[:2] for shape in shapes] == [(1, 3)]


def test_gradients_come_from_the_loss_of_the_next_character(draw, trained):
    draw(trained, "--prompt", "the", "--grads", "labels", "-o", "x.json")
    graph = Graph.load("x.json")
    assert [node.shape for node in graph.nodes if node.loss] == [()]
    parameters = [node for node in graph.nodes if node.kind == "parameter"]
    assert parameters and all(node.grad is not None for node in parameters)


def test_the_numbers_are_those_of_the_model(draw, trained):
    draw(trained, "--prompt", "the", "--grads", "labels", "-o", "x.json")
    run = Run.load(Path(trained) / "checkpoint.safetensors")
    ids = run.vocabulary.encode("the").astype("int64")[None]
    loss = run.model.eval().loss(ids[:, :-1], ids[:, 1:]).item()
    assert next(node for node in Graph.load("x.json").nodes if node.loss).value.item == pytest.approx(loss, rel=1e-5)


def test_a_saved_graph_is_drawn_again(draw, refused, trained):
    draw(trained, "-o", "x.json")
    draw(trained, "-o", "direct.dot", "--view", "modules")
    assert draw("x.json", "-o", "again.dot", "--view", "modules").startswith("x.json: ")
    assert Path("again.dot").read_text() == Path("direct.dot").read_text()
    assert "x.json is what is to be drawn" in refused("x.json", "-o", "x.json")


@pytest.mark.parametrize("name", ["loss", "step"])
def test_a_name_in_a_file_of_the_reader(draw, program, name):
    assert draw(f"{program}:{name}") == f"net.py: {name}: 9 nodes, 1 skip, in net-{name}.svg"
    assert str(Path.cwd()) not in sys.path
    assert "net" not in sys.modules


def test_the_lines_of_a_function_are_the_readers_and_those_of_a_run_are_nobodys(draw, program, trained):
    draw(f"{program}:step", "-o", "x.json")
    lines = {node.line for node in Graph.load("x.json").nodes if node.kind == "op"}
    assert {line.rpartition("/")[2] for line in lines} == {"net.py:12"}
    for grads in ("auto", "labels"):
        draw(trained, "--grads", grads, "-o", "x.json")
        assert {node.line for node in Graph.load("x.json").nodes} == {""}


def test_a_function_is_run_backward_for_its_gradients(draw, program):
    draw(f"{program}:step", "--grads", "edges", "-o", "x.json")
    graph = Graph.load("x.json")
    assert all(edge.grad is not None for edge in graph.edges if graph[edge.source].kind == "parameter")


def test_a_function_that_fails_is_drawn_up_to_there(inside, program):
    done = inside("draw", f"{program}:wrong", "-o", "x.svg")
    assert done.returncode == 1 and done.stdout.endswith(", in x.svg\n")
    assert "exit status is 1" in re.sub(r"\s+", " ", inside("draw", "--help").stdout)
    assert re.fullmatch(r"drawn up to the op that failed: net\.py:16: ValueError: matmul.+\n", done.stderr)
    assert "matmul" in Path("x.svg").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------ where it goes


@pytest.mark.parametrize(("suffix", "start"), [
    (".svg", b"<svg"), (".png", b"\x89PNG"), (".html", b"<!doctype html"), (".dot", b"digraph"), (".json", b"{"),
    (".SVG", b"<svg"),
])  # fmt: skip
def test_the_ending_chooses_the_format(draw, program, suffix, start):
    draw(f"{program}:loss", "-o", f"x{suffix}")
    assert Path(f"x{suffix}").read_bytes().lower().startswith(start.lower())


def test_a_name_that_nobody_gave_replaces_no_file(draw, refused, program):
    Path("net-loss.svg").write_text("mine")
    assert "already there" in refused(f"{program}:loss")
    assert Path("net-loss.svg").read_text() == "mine"
    draw(f"{program}:loss", "-o", "net-loss.svg")
    assert "<svg" in Path("net-loss.svg").read_text(encoding="utf-8")


def test_the_options_mean_what_they_mean_in_draw(draw, trained):
    draw(trained, "--values", "full", "--grads", "labels", "-o", "x.json")
    graph = Graph.load("x.json")
    plain = drawn(graph).dot
    for words, options in [
        ("--no-skips", {"skips": False}), ("--no-shapes", {"shapes": False}), ("--no-params", {"params": False}),
        ("--no-legend", {"legend": False}), ("--values stats", {"values": "stats"}),
        ("--direction left", {"direction": "left"}),
        ("--theme dark", {"theme": "dark"}), ("--title ♂é漢", {"title": "♂é漢"}),
        ("--view modules", {"view": "modules"}),
        ("--depth 1", {"depth": 1}), ("--grads none", {"grads": "none"}), ("--max-nodes 30", {"max_nodes": 30}),
        ("--fold 2", {"fold": 2}),
        ("--collapse *.ffn --collapse *.attn", {"collapse": ("*.ffn", "*.attn")}),
    ]:  # fmt: skip
        draw("x.json", "-o", "x.dot", *words.split())
        made = Path("x.dot").read_text(encoding="utf-8")
        assert made == drawn(graph, **options).dot, words
        assert made != plain, words
    draw("x.json", "-o", "x.svg", "--desc", "what is seen")
    assert "what is seen" in Path("x.svg").read_text(encoding="utf-8")


def test_fused_ops_can_be_opened(draw, program):
    whole, opened = (draw(f"{program}:loss", "-o", "x.json", option) for option in ("--fused", "--opened"))
    assert ": 9 nodes, 1 skip" in whole and ": 9 nodes" not in opened and ", 1 skip" in opened


def test_every_option_of_draw_is_an_option():
    assert set(signature(drawn).parameters) - {"inputs", "names"} <= set(signature(commands.draw).parameters)
    for name, option in signature(commands.draw).parameters.items():
        if name in signature(drawn).parameters and name not in ("what", "collapse"):
            assert option.default == signature(drawn).parameters[name].default, name


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(("arguments", "words"), [
    ("", ["runs/tiny-1", "graph.json", "net.py:loss", "--preset"]),
    ("net.py:loss --preset tiny", ["one thing"]),
    ("--preset huge", ["huge", "tiny, laptop"]),
    ("--preset tiny --prompt a", ["--prompt"]),
    ("tiny", ["--preset tiny"]),
    ("none", ["none", "runs/tiny-1"]),
    ("none.json", ["none.json"]),
    ("empty.json", ["empty.json", "no graph"]),
    ("deep.json", ["deep.json"]),
    ("binary.json", ["binary.json"]),
    (".", ["no checkpoint"]),
    ("net.py", ["net.py:loss"]),
    ("net.py:", ["error: net.py: name", "net.py:loss"]),
    ("net.py:guarded", ["'guarded'", "only under `if __name__", "function"]),
    ("model.svg", ["model.svg: a file of this kind", "runs/tiny-1", "graph.json"]),
    ("cycle.json", ["cycle.json", "damaged", "a → b → a"]),
    ("none.py:loss", ["none.py", "no such file"]),
    ("net.py:nothing", ["net.py", "'nothing'"]),
    ("net.py:model", ["model", "function"]),
    ("net.py:number", ["int", "tensor"]),
    ("net.py:early", ["net.py:19", "KeyError"]),
    ("net.py:leaf", ["no graph"]),
    ("net.py:loss --prompt a", ["--prompt"]),
    ("syntax.py:x", ["syntax.py:2", "SyntaxError"]),
    ("exits.py:x", ["exits.py:1", "SystemExit"]),
    ("net.py:loss -o x.txt", ["x.txt", ".svg .html"]),
    ("net.py:loss -o x", [".svg .html"]),
    ("net.py:loss -o none/x.svg", ["none"]),
    ("net.py:loss -o x.pdf", ["PDF", "apt install graphviz", ".svg"]),
    ("net.py:loss -o folder.svg", ["folder.svg"]),
    ("net.py:loss --view tree", ["tree", "modules"]),
    ("net.py:loss --theme blue", ["blue", "dark"]),
    ("net.py:loss --values all", ["all", "stats"]),
    ("net.py:loss --grads all", ["all", "edges"]),
    ("net.py:loss --direction north", ["north", "up"]),
    ("net.py:loss --fold some", ["fold", "some"]),
    ("net.py:loss --depth -1", ["--depth"]),
    ("net.py:loss --max-nodes 0", ["--max-nodes"]),
    ("net.py:loss --collapse none.*", ["none.*"]),
])  # fmt: skip
def test_bad_input_is_one_line_and_status_2(refused, program, tmp_path, monkeypatch, arguments, words):
    monkeypatch.setenv("PATH", str(tmp_path))  # no system Graphviz
    Path("empty.json").write_text("{}")
    Path("deep.json").write_text("[" * 200_000)
    Path("binary.json").write_bytes(b"\xff\xfe")
    Path("syntax.py").write_text("x = 1\ndef f(:\n")
    Path("exits.py").write_text("raise SystemExit(3)\n")
    Path("folder.svg").mkdir()
    Path("model.svg").write_text("<svg/>")
    nodes = tuple(Node(id, "op", id, op="neg") for id in "ab")
    Path("cycle.json").write_text(Graph(nodes, (Edge("a", "b"), Edge("b", "a"))).to_json())
    error = refused(*arguments.split())
    for word in words:
        assert word in error


def test_a_prompt_that_the_model_cannot_read(refused, trained):
    assert '"z" (U+007A)' in refused(trained, "--prompt", "zé")
    assert "block_size=8" in refused(trained, "--prompt", "the cat sat.")
    assert "two characters" in refused(trained, "--prompt", "t", "--grads", "edges")


def test_a_layout_that_takes_too_long_names_the_options(refused, program, monkeypatch):
    def slow(dot, format, timeout=60):
        raise layout.EngineTimeout("dot was stopped after 60 s", "…")

    monkeypatch.setattr(layout, "run", slow)
    error = refused(f"{program}:loss")
    for word in ("after 60 s", "--view modules", "--collapse", "--max-nodes", "-o NAME.dot"):
        assert word in error


# ------------------------------------------------------------------------------------------------------- doctor


def test_doctor_where_all_is_well(inside):
    done = inside("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("Python", "NumPy", "thread", "matplotlib", "safetensors", "marimo", "numba",
                 "layout engine: graphviz-pure 0.2.", "<- used", "SVG: made", "PNG: made", "drawings can be made"):  # fmt: skip
        assert word in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stdout.count("<- used") == 1


@pytest.mark.parametrize("word, shown", [("numpy", "NumPy's (TINYGRAD_TF_KERNELS)"), ("", "NumPy's; numba is not installed")])
def test_doctor_says_why_ops_run_in_numpy(inside, monkeypatch, word, shown):
    monkeypatch.setenv(kernels.VARIABLE, word)
    monkeypatch.setattr(kernels, "IN_USE", "numpy")
    assert f"\nkernels      {shown}\n" in inside("doctor").stdout


@pytest.mark.usefixtures("numba")
def test_doctor_says_where_kernels_are_kept_or_why_they_cannot_be_used(inside, monkeypatch):
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    monkeypatch.setattr(kernels, "IN_USE", "numba")
    line = re.search("^kernels +(.*)$", inside("doctor").stdout, re.MULTILINE)[1]
    start = "numba's, compiled at their first use and kept in "
    assert line.startswith(start), line
    assert Path(line.removeprefix(start)).is_absolute()
    monkeypatch.setattr(kernels, "lacking", lambda: "no folder")
    assert "\nkernels      NumPy's; numba cannot be used here: no folder\n" in inside("doctor").stdout


def test_doctor_names_the_mpi_library_and_its_mpirun(inside, monkeypatch):
    monkeypatch.setattr(doctor, "_installed", lambda name: "")
    assert "\nMPI          none; mpi4py is not installed\n" in inside("doctor").stdout
    monkeypatch.setattr(doctor, "_installed", lambda name: "1")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/mpirun")
    rc = SimpleNamespace(initialize=True)
    modules = {"mpi4py": SimpleNamespace(rc=rc), "mpi4py.MPI": SimpleNamespace(get_vendor=lambda: ("MPICH", (5, 0, 2)))}
    monkeypatch.setattr(doctor, "import_module", modules.get)
    assert doctor._mpi() == "MPICH 5.0.2, /usr/bin/mpirun"
    assert rc.initialize is False  # nothing is begun that would have to be ended
    monkeypatch.setattr(doctor, "import_module", raises(RuntimeError("cannot load MPI library")))
    assert doctor._mpi() == "no library that mpi4py could use (cannot load MPI library): pip install mpich"


def raises(error):
    def call(*arguments):
        raise error

    return call


def test_doctor_without_an_engine(inside, monkeypatch, tmp_path):
    monkeypatch.setattr(layout, "_beside", lambda name: [("scripts", str(tmp_path / name))])
    monkeypatch.setenv("PATH", str(tmp_path))
    done = inside("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    for word in ("layout engine: none", "pip install graphviz-pure", "in scripts: not there", "on PATH: not found",
                 "SVG: cannot be made", "drawings cannot be made"):  # fmt: skip
        assert word in done.stdout


def test_doctor_with_a_variable_that_leads_nowhere(inside, monkeypatch):
    monkeypatch.setenv(layout.VARIABLE, "none-such")
    done = inside("doctor")
    assert done.returncode == 1
    assert "TINYGRAD_TF_DOT=none-such: not found" in done.stdout


def test_doctor_names_what_to_install(inside, monkeypatch):
    monkeypatch.setattr(doctor, "PACKAGES", {"no-such-package": "a test"})
    assert "missing (a test): pip install no-such-package" in inside("doctor").stdout


# -------------------------------------------------------------------------------------------- the way into tinygrad-tf


def python(cwd, code, path=(), **env):
    line = [sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *map(str, path)]), **env}
    return subprocess.run(line, cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8", check=False)


def metadata(folder):
    """As an installation would lay it out, whether or not there is one."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["tinygrad_tf.commands"]
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: project\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(
        "[tinygrad_tf.commands]\n" + "".join(f"{name} = {place}\n" for name, place in points.items()))


def test_the_entry_point_of_the_project_gives_both_commands(tmp_path):
    folder = tmp_path / "site" / "project-1.dist-info"
    metadata(folder)
    code = "import sys; from tinygrad_tf.cli import run_command; sys.exit(run_command(sys.argv[1:] or ['doctor']))"
    done = python(tmp_path, code, [folder.parent])
    assert (done.returncode, done.stderr) == (0, "")
    shown = python(tmp_path, code.replace("'doctor'", "'--help'"), [folder.parent]).stdout
    assert [word for word in ("train", "sample", "draw", "doctor") if re.search(rf"^  {word} ", shown, re.M)] == [
        "train", "sample", "draw", "doctor"]  # fmt: skip


@pytest.mark.parametrize(("word", "reason"), [("numba", "numba, which is not installed"), ("cuda", "'cuda': it can be numpy")])
def test_doctor_runs_where_every_other_command_refuses(tmp_path, word, reason):
    """A line of its report, and status 1; what TINYGRAD_TF_KERNELS asks for without numba, or that is no kernels."""
    metadata(tmp_path / "project-1.dist-info")
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['numba'] = None\n")
    clean = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), kernels.VARIABLE: word}
    refused, done = (subprocess.run([sys.executable, "-m", "tinygrad_tf", command], env=clean, capture_output=True, text=True,
                                    encoding="utf-8", check=False) for command in ("models", "doctor"))  # fmt: skip
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"error: {kernels.VARIABLE} is {reason}")
    assert (done.returncode, done.stderr) == (1, "")
    assert f"\nkernels      none: {kernels.VARIABLE} is {reason}" in done.stdout
    assert done.stdout.endswith(
        f"\ndrawings can be made\nno op runs in another command while {kernels.VARIABLE} is {word}\n")  # fmt: skip


def test_training_does_not_wait_for_the_entry_points(inside, monkeypatch):
    asked = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **choice: asked.append(choice.get("group")) or ())
    monkeypatch.setattr(app, "registered_commands", app.registered_commands[:2])
    assert inside("train", "--help").returncode == inside("sample", "--help").returncode == 0
    assert "tinygrad_tf.commands" not in asked
    assert inside("draw").returncode == 2
    assert "tinygrad_tf.commands" in asked


def test_adding_the_commands_loads_nothing_that_draws(tmp_path):
    code = "import sys, typer, viz.commands; print(sorted({n.split('.')[0] for n in sys.modules} & {'graphviz', 'matplotlib'}))"
    assert python(tmp_path, code).stdout == "[]\n"


@pytest.mark.parametrize("utf8", ["0", "1"])
def test_GV_06_names_that_are_not_ascii_under_a_c_locale(tmp_path, program, utf8):
    (tmp_path / "tmp dir").mkdir()
    code = ("from tinygrad_tf.cli import app, run_command; from viz.commands import add; add(app); "
            "words = ['draw', 'net.py:loss', '-o', 'tmp dir/\\xe5 b.svg', '--title', '\\u2642 \\xe9 \\u6f22']; "
            "raise SystemExit(run_command(words))")
    clean = {"LC_ALL": "C", "PYTHONUTF8": utf8, "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    if utf8 == "0":  # then the name itself cannot be ours to choose
        code = code.replace("\\xe5 b", "a b")
    done = python(tmp_path, code, **clean)
    assert (done.returncode, done.stderr) == (0, "")
    (drawn,) = (tmp_path / "tmp dir").iterdir()
    assert drawn.name == ("a b.svg" if utf8 == "0" else "å b.svg")
    assert "♂ é 漢" in drawn.read_text(encoding="utf-8")


def test_no_subject_of_the_help_is_missing():
    for example in ("runs/tiny-1", "graph.json", "net.py:loss", "--preset tiny"):
        assert example in subject.EXAMPLES
