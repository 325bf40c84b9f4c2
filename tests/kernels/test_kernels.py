"""Every kernel leaves the numbers that its function in NumPy leaves."""

import os
import subprocess
import sys
from functools import partial
from itertools import product

import numpy as np
import pytest

import tinygrad_tf.optim  # noqa: F401
from tinygrad_tf import fused, kernels, threads
from tinygrad_tf.engine import registry

needs_numba = pytest.mark.usefixtures("numba")

rng = np.random.default_rng(0)
NUMBERS = np.concatenate([rng.normal(0, 3, 1000), *[[x, -x] for x in (0, 1e-30, 20, 90, 1e4, 1e19)]]).astype("f4")
START = rng.bit_generator.state
SHAPES = [(0, 4), (1, 1), (3, 5), (7, 32), (130, 65)]


def normal(*shape):
    return rng.normal(size=shape).astype("f4")


def blank(*shape):
    return np.full(shape, 7, "f4")  # not NaN: what is left unwritten is a difference only if the two write differently


def of_numbers(given, made, numbers=NUMBERS):
    """Cases of a function of single numbers: `given` inputs, `made` arrays to fill."""
    for x in (numbers, numbers[:1], numbers[:0], np.array([np.nan, 1], "f4")):
        yield *[x if i == given - 1 else rng.permutation(x) for i in range(given)], *[blank(x.size) for _ in range(made)]


def activations(given, slopes=1):
    """With arrays for the slopes, and where none are asked for."""
    for case in of_numbers(given, slopes + 1):
        yield case
        yield *case[:given], *[slope[:0] for slope in case[given:-1]], case[-1]


def losses():
    for (n, v), smoothing in product([(1, 1), (5, 3), (130, 65), (4, 1000), (0, 7)], (0.0, 0.1)):
        for spread in (1, 30):
            logits = normal(n, v) * spread
            yield smoothing, rng.integers(0, v, n), logits, blank(n, v), blank(n), blank(n)
    yield 0.0, np.array([1, 0]), np.array([[0, -np.inf, 1], [-np.inf, 0, 0]], "f4"), blank(2, 3), blank(2), blank(2)


def slopes_of_losses():
    for smoothing, target, logits, p, total, each in losses():
        kernels.marked["fused.cross_entropy_value"].numpy(smoothing, target, logits, p, total, each)
        yield smoothing, target, normal(len(p)), p, total, blank(*p.shape)


def norms(count):
    """Cases of a norm: settings and `count` vectors or none of them, then x, n, r, y."""
    for (rows, d), there in product(SHAPES, range(count + 1)):
        vectors = [normal(d) if i < there else None for i in range(count)]
        for x in (normal(rows, d), normal(rows, d) * 1e4 + 1e5, np.full((rows, d), 3, "f4")):
            n = blank(rows, d)
            yield 1e-5, *vectors, x, n, blank(rows, 1), blank(rows, d) if there else n


def slopes():
    for rows, d in SHAPES:
        for gain in (None, normal(d)):
            yield gain, normal(rows, d), normal(rows, d), normal(rows, 1), blank(rows, d)


def turns():
    for (n, t, h, d), interleaved in product([(1, 1, 1, 2), (2, 5, 3, 8), (3, 0, 1, 4), (4, 7, 1, 64)], (False, True)):
        angles = normal(t, d // 2)
        yield interleaved, np.cos(angles), np.sin(angles), normal(n, t, h, d), blank(n, t, h, d)


def blocks():
    """(lowest, highest, scores (m, keys, n)): no band, causal, a window, queries that see nothing, masked scores."""
    far = 1 << 40
    for m, keys, n in [(1, 1, 1), (3, 64, 64), (2, 9, 5), (2, 5, 9), (2, 0, 3), (0, 3, 2)]:
        for lowest, highest in [(-far, far), (-far, 0), (-2, 0), (-far, -3), (4, far), (-100, keys - n)]:
            for hidden in (0.0, 0.5, 1.0):
                scores = normal(m, keys, n) * 5
                scores[rng.random(scores.shape) < hidden] = -np.inf
                yield lowest, highest, scores


def weights():
    for lowest, highest, scores in blocks():
        yield lowest, highest, blank(len(scores), 1, scores.shape[2]), scores


def weights_again():
    for lowest, highest, scores in blocks():
        logs = blank(len(scores), 1, scores.shape[2])
        kernels.marked["attention.weigh"].numpy(lowest, highest, logs, scores.copy())
        yield lowest, highest, logs, scores


def slopes_of_scores():
    for _, _, scores in blocks():
        yield normal(len(scores), 1, scores.shape[2]), normal(*scores.shape), normal(*scores.shape)


def steps_of_adam():
    for size, shrink, decay in product((0, 1, 1000), (1.0, 0.9), (0.0, 0.1)):
        yield shrink, decay, 0.9, 0.99, 1e-8, 1e-2, normal(size), normal(size), normal(size) ** 2, normal(size)


CASES = {
    "activations.gelu_value": partial(activations, 1),
    "activations.gelu_tanh_value": partial(activations, 1),
    "activations.silu_value": partial(activations, 1),
    "activations.swiglu_value": partial(activations, 2, 2),
    "fused.cross_entropy_value": losses,
    "fused.cross_entropy_slope": slopes_of_losses,
    "fused.layer_norm_value": partial(norms, 2),
    "fused.layer_norm_slope": slopes,
    "fused.rms_norm_value": partial(norms, 1),
    "fused.rms_norm_slope": slopes,
    "fused.products_over_rows": lambda: ((normal(rows, d), normal(rows, d), blank(d)) for rows, d in SHAPES),
    "fused.turn": turns,
    "attention.weigh": weights,
    "attention.weigh_again": weights_again,
    "attention.slope": slopes_of_scores,
    "optim.adam": steps_of_adam,
}
OVERWRITTEN = {"optim.adam": [6]}  # arguments that a function may use as it likes


def test_every_kernel_has_cases():
    assert sorted(CASES) == sorted(kernels.marked)


@needs_numba
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_leaves_the_same_numbers(name):
    function = kernels.marked[name]
    rng.bit_generator.state = START
    for case in CASES[name]():
        ours, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in case] for _ in range(2))
        _share(case, ours), _share(case, theirs)
        with np.errstate(all="ignore"):
            function.numpy(*ours)
            function.kernel()(*theirs)
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if isinstance(a, np.ndarray) and i not in OVERWRITTEN.get(name, ()):
                largest = np.max(np.abs(a), where=np.isfinite(a), initial=1) if "rows" in name else 1
                where = f"argument {i} of {name}, shapes {_shapes(case)}"
                np.testing.assert_allclose(b, a, rtol=2e-6, atol=1e-6 * largest, err_msg=where)


def _share(case, copies):
    """Two arguments that are one array stay one."""
    for i, j in product(range(len(case)), repeat=2):
        if i < j and isinstance(case[i], np.ndarray) and case[i] is case[j]:
            copies[j] = copies[i]


def _shapes(case):
    return [getattr(a, "shape", a) for a in case]


@needs_numba
@pytest.mark.parametrize("target", [3, -1])
def test_a_target_that_is_no_class_is_refused_before_memory_is_read(target):
    with pytest.raises(IndexError, match="out of bounds"):
        kernels.marked["fused.cross_entropy_value"].kernel()(0.0, np.array([target]), *[blank(1, 3)] * 2, *[blank(1)] * 2)


@pytest.mark.parametrize("call", [
    lambda x: fused.layer_norm.raw(x, blank(3)),
    lambda x: fused.rms_norm.raw(x, blank(1)),
    lambda x: fused.rotary.raw(x, cos=blank(1, 2), sin=blank(1, 2)),
    lambda x: fused.rotary.raw(x, cos=blank(5, 1), sin=blank(5, 1)),
])  # fmt: skip
def test_an_op_refuses_arrays_that_a_kernel_would_read_beyond(call):
    with pytest.raises(ValueError, match="does not fit|do not fit"):
        call(blank(5, 4))


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu"])
def test_a_rule_takes_one_gradient_for_all(name):
    value, (rule,) = registry[name].raw(NUMBERS[:10])
    np.testing.assert_array_equal(rule(np.float32(2)), rule(np.full(value.shape, 2, "f4")))


@needs_numba
def test_a_row_of_equal_numbers_is_normalised_to_zero():
    x, n = np.full((3, 100), 123456.7, "f4"), blank(3, 100)
    kernels.marked["fused.layer_norm_value"].kernel()(1e-5, None, None, x, n, blank(3, 1), n)
    assert not n.any()


@needs_numba
def test_parts_on_threads_leave_the_same_bits():
    x = normal(1 << 12, 64)
    n, r = [blank(*x.shape) for _ in range(2)], blank(len(x), 1)
    kernel = partial(kernels.marked["fused.rms_norm_value"].kernel(), 1e-5, None)
    kernel(x, n[0], r, n[0])
    with threads.parts():
        threads.in_parts(kernel, x, n[1], r, n[1], numbers=x.size)
    np.testing.assert_array_equal(n[0], n[1])


PROGRAM = """
import numpy as np
from tinygrad_tf import kernels, tensor
from tinygrad_tf.nn import functional as F
loud = tensor(np.linspace(-3, 3, 7, dtype="f4"))
print(kernels.IN_USE, F.gelu(loud).sum().item(), "numba" in __import__("sys").modules, F.gelu(loud.double()).dtype)
"""


def run(program, **environment):
    clean = {name: value for name, value in os.environ.items() if name != kernels.VARIABLE}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=clean | environment)


def test_numpy_can_be_forced():
    used, total, loaded, dtype = run(PROGRAM, TINYGRAD_TF_KERNELS="numpy").stdout.split()
    assert (used, loaded, dtype) == ("numpy", "False", "float64")
    assert float(total) == pytest.approx(4.6, abs=1)


@needs_numba
def test_numba_is_used_where_it_is_installed():
    used, total, loaded, dtype = run(PROGRAM).stdout.split()
    assert (used, loaded, dtype) == ("numba", "True", "float64")
    assert float(total) == pytest.approx(float(run(PROGRAM, TINYGRAD_TF_KERNELS="numpy").stdout.split()[1]), rel=1e-6)


def test_another_word_is_refused():
    lines = run("import tinygrad_tf", TINYGRAD_TF_KERNELS="fortran").stderr.splitlines()
    assert lines[-1] == "ValueError: TINYGRAD_TF_KERNELS is 'fortran': it can be numpy or numba, or unset"
    assert len(lines) <= 12  # before other modules stand between the import and the mistake


@pytest.mark.parametrize("word", [" NumPy", "NUMPY\t", "numpy"])
def test_capitals_and_spaces_do_not_matter(word):
    assert run("from tinygrad_tf import kernels; print(kernels.IN_USE)", TINYGRAD_TF_KERNELS=word).stdout == "numpy\n"


COMMAND = [sys.executable, "-m", "tinygrad_tf"]


@pytest.mark.parametrize("arguments", [["--version"], ["train", "--help"], ["models"], ["no such command"]])
def test_the_command_says_it_in_one_line(arguments):
    done = subprocess.run([*COMMAND, *arguments], check=False, capture_output=True, text=True,
                          env={**os.environ, kernels.VARIABLE: "cuda"})  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: TINYGRAD_TF_KERNELS is 'cuda': it can be numpy or numba, or unset\n"


HIDDEN = "import sys; sys.modules['numba'] = None\n"


def test_without_numba_forcing_it_says_what_to_install():
    message = run(HIDDEN + "import tinygrad_tf", TINYGRAD_TF_KERNELS="numba").stderr
    assert message.splitlines()[-1] == (
        "ModuleNotFoundError: TINYGRAD_TF_KERNELS is numba, which is not installed: pip install numba, or pip install -e "
        "'.[fast]' in a clone; or unset TINYGRAD_TF_KERNELS")


def test_without_numba_everything_is_numpy():
    assert run(HIDDEN + PROGRAM).stdout.split()[0] == "numpy"


BROKEN = """
import importlib.abc, sys
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith("numba."):
            raise ImportError("Numba needs another NumPy")
sys.meta_path.insert(0, Broken())
"""


@needs_numba
def test_a_numba_that_cannot_be_loaded_is_said_once_and_numpy_goes_on():
    result = run(BROKEN + PROGRAM)
    assert result.stdout.split()[0] == "numba"
    assert result.stderr.count("numba cannot be used here (Numba needs another NumPy): ops go on in NumPy") == 1
    forced = run(BROKEN + PROGRAM, TINYGRAD_TF_KERNELS="numba")
    assert "Numba needs another NumPy" in forced.stderr.splitlines()[-1]


HOMELESS = """
import tempfile
real = tempfile.TemporaryFile
def refuse(*args, **settings):  # as numba tries out a folder; not by rights: root may write anywhere
    raise PermissionError(13, "Permission denied")
tempfile.TemporaryFile = refuse
"""
NO_ROOM = """
import builtins
real = builtins.open
def refuse(path, mode="r", *args, **settings):
    if "w" in mode and ".nbc" in str(path):
        raise OSError(28, "No space left on device")
    return real(path, mode, *args, **settings)
builtins.open = refuse
"""
TWICE = """
F.gelu(loud), F.silu(loud), F.rms_norm(loud, (7,)), F.gelu(loud)
print(kernels.marked["activations.silu_value"].in_use(loud.array))
"""


@needs_numba
def test_without_a_folder_for_what_is_compiled_numpy_goes_on_and_says_so_once(tmp_path):
    result = run(HOMELESS + PROGRAM + TWICE, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert result.returncode == 0, result.stderr
    plain = run(PROGRAM, TINYGRAD_TF_KERNELS="numpy")
    assert result.stdout.split()[1] == plain.stdout.split()[1]  # to the last bit: NumPy's
    assert result.stdout.splitlines()[-1] == "False"
    reason = "(it finds no folder to keep what it compiles; NUMBA_CACHE_DIR can name one)"
    assert result.stderr.count(f"numba cannot be used here {reason}: ops go on in NumPy") == 1
    assert result.stderr.count("UserWarning") == 1
    forced = run(HOMELESS + PROGRAM, NUMBA_CACHE_DIR=str(tmp_path / "cache"), TINYGRAD_TF_KERNELS="Numba")
    assert forced.stderr.splitlines()[-1] == (
        f"ImportError: TINYGRAD_TF_KERNELS is numba, which cannot be used here {reason}; unset it, or mend that")


@needs_numba
@pytest.mark.parametrize("word", ["", "numba"])
def test_without_room_for_what_is_compiled_kernels_run_and_it_is_said_once(tmp_path, word):
    result = run(NO_ROOM + PROGRAM + TWICE, NUMBA_CACHE_DIR=str(tmp_path / "cache"), TINYGRAD_TF_KERNELS=word)
    assert result.returncode == 0, result.stderr
    kept = run(PROGRAM)
    assert result.stdout.split()[1] == kept.stdout.split()[1]
    assert result.stdout.splitlines()[-1] == "True"
    said = "what numba compiles cannot be kept (No space left on device): every program compiles it again"
    assert (result.stderr.count(said), result.stderr.count("UserWarning")) == (1, 1)
    assert not list(tmp_path.rglob("*.nbc"))


@needs_numba
def test_a_command_that_cannot_use_what_it_is_to_use_says_so_in_one_line(tmp_path):
    start = "import sys; from tinygrad_tf.cli import run_command\nsys.exit(run_command(sys.argv[1:]))"
    command = [sys.executable, "-c", HOMELESS + start, "train", "--steps", "1", "--run", str(tmp_path / "run")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={
        **os.environ, kernels.VARIABLE: "numba", "NUMBA_CACHE_DIR": str(tmp_path / "cache")})  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: TINYGRAD_TF_KERNELS is numba, which cannot be used here (it finds no folder")
    assert done.stderr.count("\n") == 1


GENERATION = """
import numpy as np
from tinygrad_tf.generate import generate
from tinygrad_tf.models import Decoder, DecoderConfig
model = Decoder(DecoderConfig(vocab_size=5, block_size=8, n_layer=1, n_head=1, n_embd=4), np.random.default_rng(0))
print(*generate(model, [1, 2], 4, temperature=0))
"""


@needs_numba
def test_damaged_files_of_what_is_compiled_are_made_anew(tmp_path):
    """As a crash, or a disk that was full, leaves them."""
    damage = [lambda data: b"", lambda data: b"garbage\n" * 9, lambda data: data[: len(data) // 2]]
    there = {"NUMBA_CACHE_DIR": str(tmp_path)}
    wanted = run(GENERATION, **there)
    assert (wanted.returncode, wanted.stderr) == (0, "")
    for ending in ("nbi", "nbc"):
        kept = sorted(tmp_path.rglob(f"*.{ending}"))
        assert len(kept) > 5
        for i, path in enumerate(kept):
            path.write_bytes(damage[i % 3](path.read_bytes()))
        for program in (GENERATION, PROGRAM):
            result = run(program, **there)
            assert (result.returncode, result.stderr) == (0, "")
            assert result.stdout == wanted.stdout or program is PROGRAM


@needs_numba
def test_generation_without_room_for_what_is_compiled_goes_on(tmp_path):
    result = run(NO_ROOM + GENERATION, NUMBA_CACHE_DIR=str(tmp_path))
    assert (result.returncode, result.stdout) == (0, run(GENERATION).stdout)
    assert result.stderr.count("what numba compiles cannot be kept (No space left on device)") == 1


@needs_numba
def test_numba_that_compiles_nothing_is_not_used():
    result = run(PROGRAM + GENERATION, NUMBA_DISABLE_JIT="1")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("numba cannot be used here (NUMBA_DISABLE_JIT is set): ops go on in NumPy") == 1
    assert result.stdout.splitlines()[-1] == run(GENERATION).stdout.strip()
    forced = run(PROGRAM, NUMBA_DISABLE_JIT="1", TINYGRAD_TF_KERNELS="numba")
    assert forced.stderr.splitlines()[-1].startswith("ImportError: TINYGRAD_TF_KERNELS is numba, which cannot be used here")


@needs_numba
@pytest.mark.parametrize("row", [[1e20, 1, -2], [np.inf, 1, 2], [1e20, 1e20, 1e20], [np.nan, 1, 2]], ids=str)
@pytest.mark.parametrize("name", ["rms_norm_value", "layer_norm_value"])
def test_norms_of_huge_numbers_are_those_of_numpy(row, name):
    call, x = kernels.marked[f"fused.{name}"], np.array([row, [1, 2, 3]], np.float32)
    found = []
    with np.errstate(all="ignore"):
        for function in (call.numpy, call.kernel()):
            n, r, y = np.empty_like(x), np.empty((2, 1), np.float32), np.empty_like(x)
            function(1e-6, np.ones(3, np.float32), *([None] if name.startswith("layer") else []), x, n, r, y)
            found.append((n, r, y))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
