"""`python -m lessons` writes the table of README.md anew; with --check it only says whether it is as it should be."""

import sys
from pathlib import Path

from .catalogue import FOLDER, lessons, table

README = FOLDER / "README.md"
START, END = "<!-- the table: python -m lessons -->\n", "\n<!-- end of the table -->"


def renewed(text: str) -> str:
    """The text of README.md with the table of the lessons as they are."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return before + START + table(lessons()) + END + after


def main(path: Path = README) -> int:
    text = path.read_text(encoding="utf-8")
    new = renewed(text)
    if new == text:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{path.name} does not show the lessons as they are: python -m lessons writes its table anew")
        return 1
    path.write_text(new, encoding="utf-8", newline="\n")
    print(f"{path.name} is written anew")
    return 0


if __name__ == "__main__":
    sys.exit(main())
