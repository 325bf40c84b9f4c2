"""Files from strangers: whatever is in them, nothing is run, nothing absurd is allocated, nothing outside is touched.

Each parser gets what it reads with something else in some place. It takes it, or raises its own error, in one line.
"""

import copy
import io
import json
import os
import pickle
import re
import shutil
import struct
import sys
import tracemalloc
import zipfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tinygrad_tf.torch as door
import viz
from lessons import catalogue, index, progress
from tinygrad_tf import Tensor, checkpoint, nn, report
from tinygrad_tf import train as training
from tinygrad_tf.checkpoint import CheckpointError
from tinygrad_tf.cli import run_command
from tinygrad_tf.errors import LONGEST, one_line
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.pretrained import PretrainedError, load_pretrained
from tinygrad_tf.pretrained.exporting import export
from tinygrad_tf.run import Run
from tinygrad_tf.runfolder import CHECKPOINT, LOCK
from tinygrad_tf.settings import SettingError, TrainConfig
from tinygrad_tf.text import TextError, Vocabulary, read_text

WORST = "a\n\x1b[2J\u2028<img src=x onerror=alert(1)>\"'];x->y[</script>"
TEXTS = ["", "x", "../../x", "/etc/x", WORST, "\ud800", "9" * 500, "__class__", "None"]
NUMBERS = [0, 1, 2, -1, 2**31, 2**63, 10**30, 0.5, -1e-300, 1e308, True, None]
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.sampled_from(NUMBERS + TEXTS) | st.integers() | FLOATS | st.text(max_size=5)
JSON = st.recursive(
    SCALARS, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.sampled_from(TEXTS), x, max_size=3), max_leaves=6
)
DEEP = "[" * 100_000


def changed(data, tree):
    """The tree with another value somewhere, or one less, or one more."""
    tree = at = copy.deepcopy(tree)
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not (isinstance(at[key], (dict, list)) and at[key] and data.draw(st.integers(0, 3))):
            break
        at = at[key]
    match data.draw(st.sampled_from(["replace", "replace", "remove", "add"])):
        case "replace":
            at[key] = data.draw(JSON)
        case "remove":
            del at[key]
        case "add" if isinstance(at, dict):
            at[data.draw(st.sampled_from(TEXTS))] = data.draw(JSON)
        case "add":
            at.append(data.draw(JSON))
    return tree


def damaged(data, whole):
    """The bytes with some others in one or two places."""
    whole = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(0, len(whole)))
        whole[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    return bytes(whole)


# ------------------------------------------------------------------------------------------------ who watches

WATCHED = ("exec", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "ctypes.dlopen")
FILES = ("open", "os.remove", "os.rename")
INSTALLED = (sys.prefix, sys.base_prefix, str(Path(viz.__file__).parents[1]))  # a module may be imported late
heard: list[list] = []  # what the blocks that are open have seen, the innermost last


def watch(event, args):
    if heard and (event in WATCHED or (event in FILES and isinstance(args[0], str))):
        name = args[0] if event in FILES else getattr(args[0], "co_filename", args[0])
        if not (event in ("exec", "open") and str(name).startswith(INSTALLED) and str(name).endswith((".py", ".pyc"))):
            heard[-1].append((event, name))


sys.addaudithook(watch)  # for good: Python has no way to take one off


@contextmanager
def harmless(error, folder="", most=1 << 24):
    """Inside, only this error comes up, in one line; nothing is run, no file outside the folder opened, little memory taken."""
    tracemalloc.start()
    heard.append([])
    told = ""
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a late import leaves a file beside the module
    try:
        yield
    except error as refused:
        told = str(refused)
    finally:
        sys.dont_write_bytecode = writes
        events = heard.pop()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert len(told.splitlines()) <= 1 and len(told) < 2 * LONGEST, told
    assert not re.search("[\x00-\x1f\x7f-\x9f]", told), repr(told)
    inside = [e for e in events if e[0] in FILES and folder and os.path.abspath(e[1]).startswith(str(folder))]
    assert [e for e in events if e not in inside] == []
    assert peak < most


def test_the_watch_sees(tmp_path):
    for act in (lambda: exec("1"), lambda: os.system(""), lambda: open(os.devnull).close()):
        with pytest.raises(AssertionError), harmless(ValueError, tmp_path):
            act()
    with pytest.raises(AssertionError), harmless(ValueError):
        bytearray(1 << 25)
    with pytest.raises(AssertionError), harmless(ValueError):
        raise ValueError("a\nb")
    with pytest.raises(KeyError), harmless(ValueError):
        raise KeyError


def test_a_message_is_one_line_and_moves_no_cursor():
    assert one_line("a\n\x1b[2J\u2028é 漢") == r"a\n\x1b[2J\u2028é 漢"
    assert one_line("x" * 10**6 + "the end").endswith("the end") and len(one_line("x" * 10**6)) < 2 * LONGEST
    for error in (CheckpointError, PretrainedError, SettingError, TextError):
        assert str(error("a\nb")) == r"a\nb"


# ------------------------------------------------------------------------------------------------ runs and checkpoints


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two steps, in a folder that tests copy."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "text.txt").write_text("the cat sat on the mat\n" * 20, encoding="utf-8")
    c = TrainConfig(text=str(folder / "text.txt"), n_layer=1, n_head=2, n_embd=8, block_size=8, batch_size=2, steps=2,
                    eval_batches=1, sample_tokens=2, optimizer="adamw", positions="learned")  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "draw_curves", lambda *args: None)
        training.train(c, folder / "run", report.Progress())
    Run.load(folder / "run")  # so that all that reading needs is imported
    return folder / "run"


@pytest.fixture
def quiet(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "draw_curves", lambda *args: None)


@given(st.data())
def test_a_checkpoint_whose_bytes_are_others(run, tmp_path_factory, data):
    file = tmp_path_factory.getbasetemp() / "bytes.safetensors"
    file.write_bytes(damaged(data, (run / CHECKPOINT).read_bytes()))
    with harmless(CheckpointError, file.parent):
        Run.load(file)


@given(st.data())
def test_a_checkpoint_that_says_something_else_under_a_right_checksum(run, tmp_path_factory, data):
    file = tmp_path_factory.getbasetemp() / "state.safetensors"
    arrays, state = checkpoint.load(run / CHECKPOINT)
    if data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(arrays)))
        arrays[name] = np.zeros(data.draw(st.sampled_from([(), (0,), (3,), (0, 9), (2, 2, 2), arrays[name].shape])),
                                data.draw(st.sampled_from(["f4", "f8", "i8", "?", "u1"])))  # fmt: skip
    else:
        state = changed(data, state)
    checkpoint.save(file, arrays, state)
    with harmless(CheckpointError, file.parent):
        Run.load(file)


@pytest.mark.parametrize("settings", [
    {"n_layer": 600, "n_embd": 1, "n_head": 1, "n_hidden": 1}, {"block_size": 2**40}, {"n_hidden": 2**40}])  # fmt: skip
def test_a_model_that_its_file_does_not_hold_is_not_made(run, tmp_path, settings):
    """Each block costs more than its numbers: a file of a few thousand could ask for thousands of blocks of width 1."""
    arrays, state = checkpoint.load(run / CHECKPOINT)
    state["config"].update(settings)
    checkpoint.save(tmp_path / "c", arrays, state)
    with harmless(CheckpointError, tmp_path, 1 << 21), pytest.raises(CheckpointError, match="describes a model of more than"):
        Run.load(tmp_path / "c")


@pytest.mark.usefixtures("quiet")
def test_a_context_without_end_is_one_line(run, tmp_path, capsys):
    arrays, state = checkpoint.load(run / CHECKPOINT)
    state["config"].update(positions="rotary", block_size=2**50)
    checkpoint.save(tmp_path / "c", {name: a for name, a in arrays.items() if "position" not in name}, {
        **state, "optimizer": {name: entry for name, entry in state["optimizer"].items() if "position" not in name}})
    assert run_command(["sample", "c", "--tokens", "3"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: out of memory") and told.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on this system")
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", [LOCK, f"{CHECKPOINT}.tmp", "config.json", "config.json.tmp", "metrics.jsonl", "sample.txt"])
def test_a_link_out_of_a_run_folder_changes_nothing_there(run, tmp_path, name, capsys):
    """A folder that came in an archive may hold links; what they lead to is neither emptied nor written."""
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "run" / name).unlink(missing_ok=True)
    (tmp_path / "run" / name).symlink_to(tmp_path / "precious")
    status = run_command(["train", "--resume", "run", "--steps", "3", "--progress", "none"])
    assert (tmp_path / "precious").read_text() == "precious"
    assert status == (2 if name == LOCK else 0), capsys.readouterr().err
    if name == LOCK:
        assert re.fullmatch(f"error: run/{re.escape(LOCK)}: .*symbolic links.*\n", capsys.readouterr().err)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name on this system")
@pytest.mark.usefixtures("quiet")
def test_a_pipe_in_place_of_a_checkpoint_is_not_waited_for(tmp_path, capsys):
    os.mkfifo(tmp_path / "c")
    assert run_command(["sample", "c"]) == 2
    assert "c is no regular file" in capsys.readouterr().err


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("text", [DEEP, "[]", '{"steps": [', "\ud800", '{"steps": "' + "x" * 10**6 + '"}'])
def test_a_configuration_beside_the_checkpoint_is_not_trusted(run, tmp_path, text):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert run_command(["train", "--resume", "run", "--steps", "3", "--progress", "none"]) == 0


@pytest.mark.usefixtures("quiet")
def test_what_a_stranger_called_a_setting_moves_no_cursor(run, tmp_path, capsys):
    arrays, state = checkpoint.load(run / CHECKPOINT)
    state["config"][WORST] = 1
    checkpoint.save(tmp_path / "c", arrays, state)
    assert run_command(["sample", "c"]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1 and "\x1b" not in told and r"a\n\x1b[2J\u2028<img" in told


# ------------------------------------------------------------------------------------------------ settings, texts


@given(st.data())
def test_settings(data):
    for value in (data.draw(JSON), changed(data, TrainConfig().to_json())):
        with harmless(SettingError):
            TrainConfig.from_json(value)


@given(st.data())
def test_vocabularies(data):
    for value in (data.draw(JSON), changed(data, ["a", "b", "c"])):
        with harmless(TextError):
            words = Vocabulary.from_json(value)
            assert words.decode(words.encode(words.default_start())) == words.default_start()


@given(st.binary() | st.text().map(str.encode), st.sampled_from([b"", b"\xef\xbb\xbf", b"\xff\xfe"]))
def test_texts(tmp_path_factory, content, start):
    file = tmp_path_factory.getbasetemp() / "text"
    file.write_bytes(start + content)
    with harmless(TextError, file.parent):
        assert read_text(file).text


# ------------------------------------------------------------------------------------------------ public weights


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """A small Llama and a small GPT-2, as folders in the public layouts."""
    folder = tmp_path_factory.mktemp("public")
    llama = DecoderConfig(5, 4, 1, 1, n_embd=4, norm="rms", ffn="swiglu", positions="rotary", tied=False)
    export(Decoder(llama), folder / "llama", "llama")
    export(Decoder(DecoderConfig(5, 4, 1, 1, n_embd=4, bias=True, ffn="gelu_tanh")), folder / "gpt2", "gpt2")
    for layout in ("llama", "gpt2"):
        load_pretrained(folder / layout)
    return folder


def header_of(file):
    whole = file.read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


@pytest.mark.parametrize("layout", ["llama", "gpt2"])
@given(st.data())
def test_public_folders(public, layout, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("folder") / layout
    shutil.copytree(public / layout, folder)
    config, weights = folder / "config.json", folder / "model.safetensors"
    match data.draw(st.sampled_from(["config", "header", "index", "bytes", "config bytes"])):
        case "config":
            config.write_text(json.dumps(changed(data, json.loads(config.read_text()))))
        case "header":
            header, rest = header_of(weights)
            text = json.dumps(changed(data, header)).encode()
            weights.write_bytes(struct.pack("<Q", len(text)) + text + rest)
        case "index":
            names = {name: "model.safetensors" for name in header_of(weights)[0] if name != "__metadata__"}
            tree = changed(data, {"metadata": {"total_size": 1}, "weight_map": names})
            (folder / "model.safetensors.index.json").write_text(json.dumps(tree))
        case "bytes":
            weights.write_bytes(damaged(data, weights.read_bytes()))
        case "config bytes":
            others = [DEEP.encode(), b"\xff\xfe", b"1", damaged(data, config.read_bytes())]
            config.write_bytes(data.draw(st.sampled_from(others)))
    with harmless(PretrainedError, folder):
        load_pretrained(folder)


@pytest.mark.parametrize("shape", [[0, 2**62, 4], [1] * 40, [0] * 10**5, [2**62] * 10**4])
def test_shapes_that_no_array_has(public, tmp_path, shape):
    folder = shutil.copytree(public / "llama", tmp_path / "llama")
    text = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    with harmless(PretrainedError, folder), pytest.raises(PretrainedError, match=r"x has \d+ axes of up to"):
        load_pretrained(folder)


def test_narrow_blocks_without_end_are_not_made(public, tmp_path):
    folder = shutil.copytree(public / "gpt2", tmp_path / "gpt2")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_layer": 30, "n_embd": 1, "n_inner": 1}))
    with harmless(PretrainedError, folder, 1 << 21), pytest.raises(PretrainedError, match="describes a model of"):
        load_pretrained(folder)


# ------------------------------------------------------------------------------------------------ graphs


@pytest.fixture(scope="module")
def graph():
    loss = nn.Residual(nn.Linear(2, 2))(Tensor([[1.0, 2.0]])).exp().sum()
    loss.backward(retain_graph=True)
    return json.loads(viz.trace(loss).to_json())


@given(st.data())
def test_graphs(graph, data):
    text = json.dumps(changed(data, graph))
    with harmless(ValueError):
        found = viz.Graph.from_json(text)
        assert viz.Graph.from_json(found.to_json()) == found


@given(st.text() | st.just(DEEP) | st.sampled_from(["NaN", "[1", '{"format": 1}']))
def test_what_is_no_graph(text):
    with harmless(ValueError), pytest.raises(ValueError, match="this is no graph"):
        viz.Graph.from_json(text)


def test_the_words_of_a_graph_are_no_markup_and_no_dot(graph):
    """Every text in the file is an attack; the picture has the same nodes and edges, and shows it as text."""

    shown = ("label", "name", "line", "title", "dtype", "path", "op")

    def evil(key, value):
        return value + WORST if isinstance(value, str) and key in shown else value

    def all_evil(tree):
        if isinstance(tree, list):
            return [all_evil(x) for x in tree]
        return {k: all_evil(evil(k, v)) for k, v in tree.items()} if isinstance(tree, dict) else tree

    trees = (graph, {**all_evil(graph), "notes": [WORST]})
    plain, attacked = (viz.draw(viz.Graph.from_json(json.dumps(tree))) for tree in trees)
    for pattern in (r"^ *\S+ -> \S+", r"^ *\S+ \[", r"[{}]$"):
        assert len(re.findall(pattern, attacked.dot, re.M)) == len(re.findall(pattern, plain.dot, re.M))
    svg, page = attacked.svg(), attacked.html()
    assert "<img" not in svg and "<img" not in page
    assert page.count("<script") == plain.html().count("<script") and page.count("</script") == plain.html().count("</script")


# ------------------------------------------------------------------------------------------------ lessons


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TINYGRAD_TF_CACHE", str(tmp_path))
    return tmp_path / "lessons.json"


LESSON = "05_one_head_reads"
ENTRY = {"date": "2027-03-01", "passes": True, "answer": "def", "file": "def", "check": "x"}
KEPT = {"version": 1, "last": 5, "lessons": {LESSON: {"attention": ENTRY}}}


@given(st.data())
def test_the_record_of_the_exercises(tmp_path_factory, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINYGRAD_TF_CACHE", str(tmp_path_factory.mktemp("cache")))
        content = json.dumps(changed(data, KEPT))
        progress.place().write_text(data.draw(st.sampled_from([content, content, content, DEEP, content[:-9]])))
        with harmless((), progress.place().parent):
            progress.read(), progress.last()
            progress.opened(7)
        assert progress.last() == 7


def test_the_record_of_the_exercises_is_no_markup(cache):
    evil = {"date": WORST, "answer": WORST, "file": WORST}
    lessons = {each.name: dict.fromkeys(each.exercises, evil) for each in catalogue.lessons()}
    cache.write_text(json.dumps({"version": 1, "last": 1, "lessons": lessons}))
    page = index.page()
    assert "<img" not in page and "title='passed on a\n\x1b[2J\u2028&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;]" in page


# ------------------------------------------------------------------------------------------------ files of torch.save


def zipped(compression=zipfile.ZIP_STORED, **entries):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def saved():
    file = io.BytesIO()
    door.save({"w": door.ones(2, 3), "step": 3, "betas": (0.9, 0.95), "set": {1}, "b": b"x", 1: door.float32}, file)
    return file.getvalue()


SAVED = {name: zipfile.ZipFile(io.BytesIO(saved())).read(name) for name in ("tinygrad_tf.json", "0.npy")}
REFUSED = (ValueError, pickle.UnpicklingError)


@given(st.data())
def test_files_of_torch_save(data):
    entries = dict(SAVED)
    match data.draw(st.sampled_from(["bytes", "tree", "json", "array"])):
        case "tree":
            entries["tinygrad_tf.json"] = json.dumps(changed(data, json.loads(entries["tinygrad_tf.json"])))
        case "json":
            entries["tinygrad_tf.json"] = data.draw(JSON.map(json.dumps) | st.sampled_from([DEEP, "[" * 500 + "]" * 500]))
        case "array":
            entries["0.npy"] = damaged(data, entries["0.npy"])
    whole = zipped(**entries)
    if data.draw(st.booleans()):
        whole = damaged(data, whole)
    with harmless(REFUSED):
        door.load(io.BytesIO(whole))


OPCODES = [
    b"ctorch\nfloat32\n", b"ctorch\nFloatStorage\n", b"ccollections\nCounter\n", b"ccollections\nOrderedDict\n",
    b"c__builtin__\nset\n", b"ctorch\ndevice\n", b"ctorch\nSize\n", b"c_codecs\nencode\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n", b"cos\nsystem\n", b"X\x01\x00\x00\x00a", b"K\x03", b"J\xff\xff\xff\x7f",
    *(bytes([code]) for code in b"()}]NRbtsuae02Q\x81\x85\x86\x93"), b"q\x00", b"h\x00", b"r\xff\xff\xff\x7f",
    b"\x8e" + struct.pack("<Q", 2**40), b"T\xff\xff\xff\x7f", b"p99999999999\n",
]  # fmt: skip


@given(st.lists(st.sampled_from(OPCODES), max_size=12))
@example([b"ccollections\nCounter\n", b"N", b"}", b"X\x01\x00\x00\x00a", b"K\x03", b"s", b"\x86", b"b"])  # sets Counter.a
@example([b"ctorch\nFloatStorage\n", b"}", b"X\x01\x00\x00\x00a", b"K\x03", b"s", b"b"])
@example([b"N", b"r\xff\xff\xff\x7f"])  # a memo of 32 GB
@example([b"\x8e" + struct.pack("<Q", 2**40)])
def test_pickles_in_files_of_torch_save(opcodes):
    whole = zipped(**{"x/data.pkl": b"\x80\x02" + b"".join(opcodes) + b".", "x/byteorder": "little"})
    with harmless(REFUSED):
        door.load(io.BytesIO(whole))
    assert not hasattr(Counter, "a")
    again = io.BytesIO(saved())
    assert door.load(again)["w"].tolist() == [[1, 1, 1], [1, 1, 1]]


def test_nothing_grows_beyond_its_file():
    bomb = zipped(zipfile.ZIP_DEFLATED, **{"tinygrad_tf.json": "[" + "1," * 10**7 + "1]"})
    assert len(bomb) < 10**5
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (2**33,)})
    array = zipped(**{"tinygrad_tf.json": '{"$": "ndarray", "array": 0}', "0.npy": header.getvalue()})
    for whole in (bomb, array):
        with harmless(REFUSED, most=1 << 20), pytest.raises(ValueError, match="torch.save"):
            door.load(io.BytesIO(whole))
