"""What `tinygrad-tf doctor` says: what is installed and used, where a layout engine was looked for, whether it draws."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tinygrad_tf
from tinygrad_tf import kernels
from tinygrad_tf.threads import VARIABLES

from . import layout

PACKAGES = {  # name -> what it is for
    "matplotlib": "loss curves", "safetensors": "checkpoints", "marimo": "the lessons", "anywidget": "their figures",
    "tokenizers": "the tokenizers of public checkpoints", "numba": "faster kernels", "mpi4py": "training on several processes",
}  # fmt: skip


def report() -> tuple[list[str], bool]:
    """The lines, and whether drawings can be made and ops run in what the environment asks for."""
    loops, (made, healthy) = _kernels(), _drawings()
    if loops.startswith("none"):
        healthy = False
        made.append(f"no op runs in another command while {kernels.VARIABLE} is {os.environ[kernels.VARIABLE]}")
    return [*_programs(loops), "", *_engines(), "", *made], healthy


def _programs(loops: str) -> list[str]:
    rows = [("tinygrad_tf", tinygrad_tf.__version__), ("Python", f"{platform.python_version()} {sys.executable}"),
            ("system", f"{platform.system()} {platform.machine()}"), ("NumPy", f"{_installed('numpy')}{_blas()}")]  # fmt: skip
    for name, use in PACKAGES.items():
        rows.append((name, _installed(name) or f"missing ({use}): pip install {name}"))
    rows += [("kernels", loops), ("MPI", _mpi())]
    return [f"{name:<12} {what}" for name, what in rows]


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _blas() -> str:
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "; threads of its matrix products unknown: pip install threadpoolctl"
    set_by = [f"{name}={os.environ[name]}" for name in VARIABLES if os.environ.get(name)]
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    found = [f", {pool['internal_api']} {pool['version'] or ''}, threads: {pool['num_threads']}" for pool in pools]
    return "".join(found) + (f" ({', '.join(set_by)})" if set_by else "")


def _kernels() -> str:
    """Which loops run inside ops, why, and where those that numba compiles are kept."""
    try:
        kernels.chosen()
    except (ValueError, ImportError) as error:  # all other commands end with this
        return f"none: {error}"
    why = f" ({kernels.VARIABLE})" if kernels.asked() else ""
    if kernels.IN_USE == "numpy":
        return f"NumPy's{why}" if why else "NumPy's; numba is not installed"
    with warnings.catch_warnings(action="ignore"):
        try:
            lacking = kernels.lacking()
        except ImportError as error:
            return f"none: {error}"
    if lacking:
        return f"NumPy's; numba cannot be used here: {lacking}"
    kept = import_module("tinygrad_tf.kernels.loops").exp.stats.cache_path
    return f"numba's{why}, compiled at their first use and kept in {kept}"


def _mpi() -> str:
    """The library that mpi4py uses, not begun, and the program that starts processes."""
    if not _installed("mpi4py"):
        return "none; mpi4py is not installed"
    beside = Path(sys.executable).with_name("mpirun")
    program = shutil.which("mpirun") or (str(beside) if beside.exists() else "")
    try:
        import_module("mpi4py").rc.initialize = False
        vendor, number = import_module("mpi4py.MPI").get_vendor()
    except (ImportError, RuntimeError) as error:
        return f"no library that mpi4py could use ({' '.join(str(error).split())}): pip install mpich"
    return f"{vendor} {'.'.join(map(str, number))}, {program or 'but no mpirun on the PATH'}"


def _engines() -> list[str]:
    try:
        used = layout.engine()
        lines = [f"layout engine: {used.kind} {used.version}, {used.path}"]
    except layout.EngineNotFound as error:
        used, lines = None, [f"layout engine: none; {error}"]
    lines.append("looked for, in this order:")
    for place in layout.places():
        here = used is not None and place.path == used.path
        lines.append(f"  {place.where}: {place.path or place.lack}{'  <- used' if here else ''}")
        used = None if here else used
    return lines


def _drawings() -> tuple[list[str], bool]:
    """A residual sum, drawn in each format that needs an engine; healthy if the first, SVG, could be made."""
    lines, healthy = ["a small drawing:"], False
    for format in ("svg", "png", "pdf"):
        try:
            size = len(_small(format))
        except (layout.EngineError, ImportError) as error:
            lines.append(f"  {format.upper()}: cannot be made: {error}")
        else:
            healthy = healthy or format == "svg"
            lines.append(f"  {format.upper()}: made, {size:,} bytes")
    return [*lines, "", "drawings can be made" if healthy else "drawings cannot be made (.dot and .json can be saved)"], healthy


def _small(format: str) -> bytes:
    from tinygrad_tf import Tensor, nn

    from .draw import draw

    x = Tensor([[1.0, 2.0]], requires_grad=True)
    drawing = draw(nn.Residual(nn.Linear(2, 2))(x), title="x + W x")
    return drawing.svg().encode("utf-8") if format == "svg" else layout.run(drawing.dot, format)
