"""`python -m viz.figures FOLDER`: every figure as one HTML file that opens from disk."""

from __future__ import annotations

import sys
from pathlib import Path

from . import FIGURES


def main() -> int:
    """Write the pages, and say what was written."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print("python -m viz.figures FOLDER: name the folder in which the pages are written", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for id, figure in FIGURES.items():
            path = folder / f"{id.lower()}_{figure.name}.html"
            figure.save(path)
            print(f"{id:4} {path}  {path.stat().st_size:,} bytes")
    except OSError as error:
        print(f"{error.filename or folder}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
