"""Results as a file: the machine, then one result a line, numbers to four figures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"

FORMAT = 2  # raised when the entries change, so that an old file is told from a damaged one


class UnreadableResults(ValueError):
    """A file that this command did not write; one line."""


@dataclass
class Run:
    """What one file holds."""

    machine: dict[str, Any]
    results: list[dict[str, Any]]

    def of(self, what: str) -> list[dict[str, Any]]:
        return [r for r in self.results if r["what"] == what]


def write(path: Path, machine: dict[str, Any], results: list[dict[str, Any]]) -> None:
    lines = ",\n".join(json.dumps(_short(result), separators=(",", ":")) for result in results)
    path.write_text(f'{{"format": {FORMAT}, "machine": {json.dumps(machine)},\n"results": [\n{lines}\n]}}\n', encoding="utf-8")


def _short(x: Any) -> Any:
    """The same with four figures for each fraction: more than any time repeats."""
    if isinstance(x, float):
        return float(f"{x:.4g}")
    if isinstance(x, dict):
        return {name: _short(value) for name, value in x.items()}
    return [_short(value) for value in x] if isinstance(x, list | tuple) else x


def read(path: Path) -> Run:
    """Raises UnreadableResults for anything but a file of results."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] == FORMAT:
            return Run(found["machine"], found["results"])
    except OSError as error:
        raise UnreadableResults(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        pass
    raise UnreadableResults(f"{path} is no file that today's python -m benchmarks --json has written")


def kept() -> list[Path]:
    """The files in benchmarks/results, oldest first by name."""
    return sorted(FOLDER.glob("*.json"))
