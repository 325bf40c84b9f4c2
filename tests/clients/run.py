"""Run code that was written for PyTorch on this engine, with its imports redirected and no file edited.

python tests/clients/run.py FOLDER                  for each file, what it asks of PyTorch that is not here, by name
python tests/clients/run.py FILE.py [ARGUMENTS]     run that program in the current folder
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections import Counter
from pathlib import Path

DOOR = "tinygrad_tf.torch"


class Redirect(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """`import torch.x` gives tinygrad_tf.torch.x."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] == "torch":
            return importlib.machinery.ModuleSpec(fullname, self)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        real = DOOR + module.__name__.removeprefix("torch")
        sys.modules[module.__name__] = importlib.import_module(real)  # what the import statement then returns
        for name in [name for name in sys.modules if name.startswith(f"{DOOR}.")]:
            sys.modules.setdefault("torch" + name.removeprefix(DOOR), sys.modules[name])


def install():
    """Redirect every later import of torch."""
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        del sys.modules[name]
    sys.meta_path.insert(0, Redirect())


# ------------------------------------------------------------------------------------------------ what a file asks for


def asked(source: str) -> Counter:
    """The dotted names under `torch` that a file uses, with how often: `torch.nn.Linear`; of aliases, the whole name."""
    tree = ast.parse(source)
    aliases: dict[str, str] = {}
    found: Counter = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    aliases[alias.asname or "torch"] = alias.name if alias.asname else "torch"
                    found[alias.name] += 1
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "torch":
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                found[f"{node.module}.{alias.name}"] += 1

    def dotted(node):
        if isinstance(node, ast.Name):
            return aliases.get(node.id)
        if isinstance(node, ast.Attribute) and (base := dotted(node.value)):
            return f"{base}.{node.attr}"
        return None

    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner and (name := dotted(node)):
            found[name] += 1
    return found


def methods(source: str) -> Counter:
    """The names that a file calls as methods of anything but a module of its own, `x.cumsum(...)`, with how often."""
    tree = ast.parse(source)
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    return Counter(f.attr for f in called if not (isinstance(f.value, ast.Name) and f.value.id in imported))


def is_there(name: str) -> bool:
    """Whether the door has this dotted name; what follows a class or a value is not asked about."""
    value = importlib.import_module(DOOR)
    for part in name.split(".")[1:]:
        if isinstance(value, type) or not hasattr(value, part):
            try:
                value = importlib.import_module(f"{value.__name__}.{part}")
                continue
            except (ImportError, AttributeError):
                return isinstance(value, type)
        value = getattr(value, part)
    return True


def of_their_tensor() -> set[str]:
    """The methods that a tensor of PyTorch has and one of this engine has not, where PyTorch is installed."""
    from tinygrad_tf import Tensor

    if importlib.util.find_spec("torch") is None:
        return set()
    import torch

    common = {name for kind in (list, dict, str, set) for name in dir(kind)}  # more likely called on one of these
    return {name for name in dir(torch.Tensor) if not name.startswith("_")} - set(dir(Tensor)) - common


def report(folder: Path) -> int:
    """Print what is missing in each file; return how many files miss something."""
    lacking, short = of_their_tensor(), 0
    files = sorted(path for path in folder.rglob("*.py")) if folder.is_dir() else [folder]
    for path in files:
        try:
            source = path.read_text(encoding="utf-8")
            names, calls = asked(source), methods(source)
        except (SyntaxError, UnicodeDecodeError) as error:
            print(f"{path}: cannot be read: {error}")
            continue
        if not names:
            continue
        missing = [f"{name} ({n})" for name, n in sorted(names.items()) if not is_there(name)]
        missing += [f"Tensor.{name} ({n})" for name, n in sorted(calls.items()) if name in lacking]
        short += bool(missing)
        name = path.relative_to(folder) if folder.is_dir() else path
        print(f"{name}: " + ("missing " + ", ".join(missing) if missing else "all there"))
    return short


def main(arguments: list[str]) -> int:
    if arguments[:1] in ([], ["-h"], ["--help"]):
        print(__doc__, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    path = Path(arguments[0])
    if not path.exists():
        print(f"error: {path} is not there; name a program for PyTorch, or a folder of them", file=sys.stderr)
        return 2
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    try:
        importlib.import_module(DOOR)
    except (ValueError, ImportError) as error:  # TINYGRAD_TF_KERNELS says what cannot be, or NumPy is missing
        print(f"error: {error}", file=sys.stderr)
        return 2
    if path.is_dir():
        report(path)
        return 0
    install()
    sys.argv = arguments
    sys.path.insert(0, str(path.resolve().parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except NotImplementedError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
