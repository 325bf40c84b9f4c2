"""Finding and running the layout engine: the real one, and small programs that behave badly."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from viz import layout
from viz.layout import Engine, EngineError, EngineNotFound, EngineTimeout

ROOT = Path(__file__).parents[2]
DOT = 'digraph { a [label="♂ é 漢"]; a -> b }'
posix = pytest.mark.skipif(os.name == "nt", reason="fake engines not run (they are scripts with a #! line)")


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    monkeypatch.delenv(layout.VARIABLE, raising=False)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Write a program in Python and make it the engine."""

    def make(body, name="engine"):
        path = tmp_path / "Program Files" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!{sys.executable}\nimport os, signal, sys, time\n{textwrap.dedent(body)}", encoding="utf-8")
        path.chmod(0o755)
        monkeypatch.setenv(layout.VARIABLE, str(path))
        return path

    return make


@pytest.fixture
def no_engine(monkeypatch, tmp_path):
    """Neither beside this Python nor on PATH."""
    monkeypatch.setattr(layout, "_beside", lambda name: [(str(tmp_path), str(tmp_path / name))])
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def one_line(error, *words):
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


# ------------------------------------------------------------------------------------------- the real engine


def test_it_is_found_beside_this_python_without_an_activated_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = layout.engine()
    assert found.kind == "graphviz-pure"
    assert Path(found.path).is_absolute()
    assert found.version.startswith("0.2.")


def test_svg_png_json_and_dot():
    svg = layout.run(DOT, "svg").decode("utf-8")
    assert "<svg" in svg and "♂ é 漢" in svg
    assert layout.run(DOT, "png").startswith(b"\x89PNG")
    assert b'"objects"' in layout.run(DOT, "json")
    assert "♂ é 漢" in layout.run(DOT, "dot").decode("utf-8")


def test_GV_06_the_same_bytes_under_a_c_locale():
    code = f"import sys; from viz import layout; sys.stdout.buffer.write(layout.run({DOT!a}, 'svg'))"
    env = {**{k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))},
           "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, check=True)
    assert done.stdout == layout.run(DOT, "svg")


def test_a_syntax_error_is_told_in_the_words_of_the_engine():
    with pytest.raises(EngineError) as error:
        layout.run("digraph { a ->", "svg")
    one_line(error, "exit status 1", "syntax error", "save the drawing as .dot")


def test_an_unknown_format_is_told_with_those_that_exist():
    with pytest.raises(EngineError) as error:
        layout.run(DOT, "bmp3")
    one_line(error, '"bmp3"', "svg")


def test_many_threads_and_no_changed_setting():
    folder, variables = os.getcwd(), dict(os.environ)
    texts = [f"digraph {{ n{i} -> m{i} }}" for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda text: layout.run(text, "svg"), texts))
    assert [f"n{i}".encode() in svg and f"n{i + 1}".encode() not in svg for i, svg in enumerate(drawn)] == [True] * 8
    assert (os.getcwd(), dict(os.environ)) == (folder, variables)


# ------------------------------------------------------------------------------------------------- the search


def test_the_variable_comes_first_and_is_named_when_it_leads_nowhere(monkeypatch, tmp_path):
    for wish in ("no-such-program", str(tmp_path / "none"), str(tmp_path)):
        monkeypatch.setenv(layout.VARIABLE, wish)
        for format in ("svg", "pdf"):
            with pytest.raises(EngineNotFound) as error:
                layout.engine("graphviz-pure", format)
            one_line(error, layout.VARIABLE, wish, "unset")


@posix
def test_a_program_that_is_not_executable(fake):
    fake("").chmod(0o644)
    with pytest.raises(EngineNotFound) as error:
        layout.run(DOT, "svg")
    one_line(error, layout.VARIABLE, "not executable")


@posix
def test_the_order_of_the_search(no_engine, monkeypatch):
    def program(name):
        path = no_engine / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return str(path)

    monkeypatch.setenv("PATH", str(no_engine / "path"))
    found = []
    for name in ("path/dot", "path/graphviz-pure", "graphviz-pure"):
        path = program(name)
        assert layout.engine() == Engine(path)
        found.append(path)
    assert layout.engine("dot") == Engine(found[0])
    assert layout.engine("graphviz-pure") == Engine(found[2])
    monkeypatch.setenv(layout.VARIABLE, "dot")
    assert layout.engine("graphviz-pure") == Engine(found[0])
    monkeypatch.delenv(layout.VARIABLE)
    assert layout.engine(format="pdf") == Engine(found[0])
    with pytest.raises(EngineNotFound, match="asked for, neato: not found"):
        layout.engine("neato")
    os.chmod(found[2], 0o644)
    assert layout.engine() == Engine(found[1])
    assert [place.path or place.lack for place in layout.places()] == ["not set", "not executable", found[1], found[0]]


def test_with_no_engine_the_install_command_is_named(no_engine):
    with pytest.raises(EngineNotFound) as error:
        layout.run(DOT, "svg")
    one_line(error, "pip install graphviz-pure", ".dot and .json")


@pytest.mark.parametrize("format", ["pdf", "ps"])
def test_pdf_without_a_system_graphviz_says_what_to_install(monkeypatch, tmp_path, format):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineNotFound) as error:
        layout.run(DOT, format)
    one_line(error, format.upper(), "apt install graphviz", "brew install graphviz", ".svg")


@posix
def test_pdf_goes_to_the_system_dot_whatever_is_preferred(fake, monkeypatch):
    path = fake("sys.stdout.write(' '.join(sys.argv[1:]) + sys.stdin.read())", "dot")
    monkeypatch.setenv("PATH", str(path.parent))
    monkeypatch.setenv(layout.VARIABLE, layout._beside("graphviz-pure")[0][1])
    assert layout.run("digraph {}", "pdf") == b"-Kdot -Tpdfdigraph {}"
    assert b"<svg" in layout.run("digraph {}", "svg")


def test_the_kind_is_told_by_the_name():
    for path in ("/x/graphviz-pure", "Graphviz-Pure.exe"):
        assert Engine(path).kind == "graphviz-pure"
    for path in ("/x/dot", "dot.exe", "/graphviz-pure/dot"):
        assert Engine(path).kind == "dot"


# ----------------------------------------------------------------------------------------- engines that misbehave


@posix
def test_a_path_with_spaces_and_signs_is_one_word(fake):
    fake("sys.stdout.buffer.write(sys.stdin.buffer.read() + repr(sys.argv[1:]).encode())", "do't $HOME; 漢 &")
    assert layout.run("digraph {}", "svg") == b"digraph {}['-Kdot', '-Tsvg']"


@posix
def test_a_version_that_cannot_be_told(fake):
    path = str(fake("print('dot - graphviz version 9.1.0 (2026)', file=sys.stderr)"))
    assert Engine(path).version == "9.1.0"
    fake("sys.exit(1)")
    assert Engine(path).version == "unknown"
    assert Engine(path + "-none").version == "unknown"


@posix
def test_a_layout_that_takes_too_long_is_stopped_with_all_that_it_started(fake, tmp_path):
    path = fake("")
    path.write_text(f"#!/bin/sh\nsleep 600 &\necho $$ $! > '{tmp_path}/pids'\nwait\n")
    with pytest.raises(EngineTimeout) as error:
        layout.run(DOT, "svg", timeout=2)
    one_line(error, "engine was stopped after 2 s", 'view="modules"', "collapse=", "max_nodes", ".dot")
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def gone(pid, patience=10.0):
    """Whether the process ends; a child of a dead parent is a zombie until something collects it."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.01)
    return False


@posix
def test_ctrl_c_ends_the_engine_too(fake, tmp_path):
    fake(f"""
        open({str(tmp_path / "pid.part")!r}, "w").write(str(os.getpid()))
        os.rename({str(tmp_path / "pid.part")!r}, {str(tmp_path / "pid")!r})
        time.sleep(600)
    """)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt():
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            layout.run(DOT, "svg")
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert gone(int((tmp_path / "pid").read_text()))


@posix
@pytest.mark.parametrize(("body", "words"), [
    ("print('\\n  bad\\x1b[31m thing\\nmore', file=sys.stderr); sys.exit(3)", ["exit status 3", "bad[31m thing;"]),
    ("sys.exit(1)", ["exit status 1", "it said nothing"]),
    ("os.kill(os.getpid(), signal.SIGSEGV)", ["SIGSEGV", "it said nothing"]),
    ("os.kill(os.getpid(), signal.SIGKILL)", ["SIGKILL"]),
    ("sys.stderr.buffer.write(bytes(range(256)) * 1000); sys.exit(1)", ["exit status 1"]),
    ("sys.stderr.write('x' * 100_000); sys.exit(1)", ["exit status 1): xxx"]),
    ("pass", ["it made nothing"]),
    ("print('warning: no fonts', file=sys.stderr)", ["warning: no fonts"]),
])  # fmt: skip
def test_a_failure_is_told_in_one_line(fake, body, words):
    fake(body)
    with pytest.raises(EngineError) as error:
        layout.run(DOT, "svg")
    one_line(error, *words, "save the drawing as .dot", layout.VARIABLE)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 600


@posix
def test_messages_beside_a_drawing_are_no_failure(fake):
    fake("sys.stderr.write('warning'); sys.stdout.write('<svg/>')")
    assert layout.run(DOT, "svg") == b"<svg/>"


@posix
def test_an_engine_that_reads_nothing(fake):
    fake("sys.stdout.write('<svg/>')")
    assert layout.run("digraph {" + "a;" * 1_000_000 + "}", "svg") == b"<svg/>"


@posix
def test_a_file_that_is_no_program(fake):
    path = fake("")
    path.write_bytes(b"\x7fELF nothing")
    with pytest.raises(EngineError) as error:
        layout.run(DOT, "svg")
    one_line(error, str(path), "cannot be run", layout.VARIABLE)


def test_half_characters_in_a_label_do_not_stop_the_drawing():
    assert "a?b" in layout.run('digraph { n [label="a\ud800b"] }', "svg").decode("utf-8")
