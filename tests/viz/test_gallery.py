"""The pictures in viz/gallery are those that the engine draws today."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_gallery_is_up_to_date():
    command = [sys.executable, "-m", "viz.gallery", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_gallery_is_small():
    pictures = [path for path in (ROOT / "viz" / "gallery").iterdir() if path.suffix in (".svg", ".html")]
    sizes = {path.name: path.stat().st_size for path in pictures}
    assert len(sizes) >= 16
    assert max(sizes.values()) < 500_000
