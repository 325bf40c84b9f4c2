"""F6: the rows and the rotation of S20, computed here with math alone."""

import math
import re

import numpy as np
import pytest

from viz.figures import sinusoidal_map
from viz.figures.paint import vector


def row(position, width):
    found = []
    for i in range(width // 2):
        angle = position / 10000 ** (2 * i / width)
        found += [math.sin(angle), math.cos(angle)]
    return found


def test_S20_the_table_of_width_four():
    table = [sinusoidal_map(width=4, position=p, shift=0).data["row"] for p in range(4)]
    printed = [[0, 1, 0, 1], [0.8415, 0.5403, 0.0100, 1.0000],
               [0.9093, -0.4161, 0.0200, 0.9998], [0.1411, -0.9900, 0.0300, 0.9996]]  # fmt: skip
    np.testing.assert_allclose(table, printed, atol=5e-5)


@pytest.mark.parametrize("width", sinusoidal_map.controls[0].grid)
def test_every_state(width):
    for settings in sinusoidal_map.grid():
        if settings["width"] != width:
            continue
        made, p, k = sinusoidal_map(**settings), settings["position"], settings["shift"]
        data = made.data
        np.testing.assert_allclose(data["row"], row(p, width), atol=1e-12)
        np.testing.assert_allclose(data["shifted"], row(p + k, width), atol=1e-12)
        np.testing.assert_allclose(data["turned"], data["shifted"], atol=1e-12)  # the shift is the rotation
        assert data["angles"] == pytest.approx([math.degrees(k * 10000 ** (-2 * i / width)) for i in data["pairs"]])
        assert data["pairs"][0] == 0
        assert data["pairs"][-1] == width // 2 - 1
        assert vector(data["row"][:4]) in made.words
        assert f"by {data['angles'][0]:.1f}°" in made.words
        assert vector(data["shifted"][:4])[:-1] in made.drawing


def test_the_map_shows_every_cell_in_its_shade():
    made = sinusoidal_map(width=8)
    shades = np.zeros((48, 8))
    for kind, opacity, d in re.findall(r'class="heat (\w+)" fill-opacity="([\d.]+)" d="([^"]+)"', made.drawing):
        for x, y, tall in re.findall(r"M([\d.]+) (\d+)h[\d.]+v(\d+)h", d):
            column, top = round((float(x) - 50) / 50), (int(y) - 44) // 6
            shades[top : top + int(tall) // 6, column] = float(opacity) * (1 if kind == "warmest" else -1)
    np.testing.assert_allclose(shades, [row(p, 8) for p in range(48)], atol=1 / 24 + 0.006)
