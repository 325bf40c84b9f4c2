"""Imports only point up the list in README.md, and `import tinygrad_tf` loads NumPy and no other package."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ["tinygrad_tf", "viz", "lessons", "tests"]  # each may import the ones before it
EXTRAS = {"figures": "lessons", "kernels": "fast"}  # a folder or file -> the extra whose packages it may import too
FILES = sorted((ROOT / "tinygrad_tf").rglob("*.py"))


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(file): file for file in FILES}


def imported(file: Path) -> set[str]:
    """Every module that the file imports anywhere, functions included, by its absolute name."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = parts[: -node.level] if node.level else ()
            base = ".".join([*package, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in MODULES else base)
    return found


def reading_order() -> list[str]:
    """The modules of the table in README.md. A folder's `__init__.py` that is not listed stands after its files."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.split("## Read the engine in this order")[1].split("\n## ")[0]
    first_cells = "".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
    paths = re.findall(r"`([\w/]+)\.py`", first_cells)
    order = [f"tinygrad_tf/{path}".removesuffix("/__init__").replace("/", ".") for path in paths]
    for package in [name for name, file in MODULES.items() if file.name == "__init__.py" and name not in order]:
        inside = [place for place, name in enumerate(order) if name.startswith(package + ".")]
        order.insert(max(inside, default=len(order)) + 1, package)
    return order


def test_the_list_in_the_readme_names_every_file_once():
    order = reading_order()
    assert len(order) == len(set(order))
    assert set(order) - set(MODULES) == set(), "listed, but no such file"
    assert set(MODULES) - set(order) == set(), "not listed"


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_up_the_list(name):
    order = reading_order()
    above = set(order[: order.index(name)])
    down = {other for other in imported(MODULES[name]) if other.split(".")[0] == "tinygrad_tf"} - above
    assert not down, f"{name} imports {sorted(down)}, which stand below it in README.md"


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_imports_a_later_one(room):
    later = set(ROOMS[ROOMS.index(room) + 1 :])
    for file in (ROOT / room).rglob("*.py"):
        assert not {name.split(".")[0] for name in imported(file)} & later, file.relative_to(ROOT)


@pytest.mark.parametrize("room", ["tinygrad_tf", "viz"])
def test_every_package_that_is_imported_is_declared(room):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = lambda requirements: {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}
    declared = names(project["dependencies"])
    extras = {folder: names(project["optional-dependencies"][extra]) for folder, extra in EXTRAS.items()}
    for file in (ROOT / room).rglob("*.py"):
        roots = {name.split(".")[0] for name in imported(file)}
        more = set().union(*[extras[part] for part in file.relative_to(ROOT).with_suffix("").parts if part in extras])
        assert roots - sys.stdlib_module_names - set(ROOMS) <= declared | more, file.relative_to(ROOT)


def test_importing_the_package_loads_numpy_alone():
    code = "import sys, numpy.random; before = {*sys.modules}; import tinygrad_tf; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    roots = {name.split(".")[0] for name in done.stdout.split()}
    assert roots - sys.stdlib_module_names - {"numpy"} == {"tinygrad_tf"}
