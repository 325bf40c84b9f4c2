"""F1: what S1 and S2 say, computed here by hand."""

import numpy as np
import pytest

from viz.figures import replace_or_add
from viz.figures.replace_or_add import OWN, READ, SCALES, plain, short

X = np.array([[2.0, 0.0], [0.0, 1.0]])
READS = np.array([[2.0, 0.0], [1.0, 0.5]])  # position 1 reads itself, position 2 half of each


def test_S01_replaced_and_added():
    data = replace_or_add().data
    assert data["branch"] == data["replaced"] == [1, 1 / 2]
    assert data["added"] == [1, 3 / 2]


def test_S02_the_branch_is_zero_and_the_branch_cancels():
    for branch in (READ, OWN):
        data = replace_or_add(scale=0.0, branch=branch).data
        assert data["replaced"] == [0, 0]
        assert data["added"] == data["input"] == [0, 1]
    assert replace_or_add(scale=-1.0, branch=OWN).data["added"] == [0, 0]


@pytest.mark.parametrize("branch", [READ, OWN])
@pytest.mark.parametrize("scale", SCALES)
def test_every_state(scale, branch):
    frame = replace_or_add(scale=scale, branch=branch)
    update = scale * (READS if branch == READ else X)
    for name, y in (("replaced", update), ("added", X + update)):
        assert frame.data[name] == pytest.approx(y[1].tolist())
        assert f"y = {short(frame.data[name])}" in frame.drawing
        assert f">{short(frame.data[name])}<" in frame.drawing  # what the next layer gets
    assert f"× {plain(scale)}" in frame.drawing
    assert short(frame.data["branch"]) in frame.words
    assert short(frame.data["added"]) in frame.words


def test_the_sentence_of_zero_and_of_cancelling():
    assert "nothing is left" in replace_or_add(scale=0.0).words
    assert "takes exactly the input away" in replace_or_add(scale=-1.0, branch=OWN).words
    assert "takes exactly" not in replace_or_add(scale=-1.0).words


def test_numbers_without_zeros_at_their_end():
    assert [plain(v) for v in (1.0, 0.5, -0.1875, 0.0, -0.0, 10.0)] == ["1", "0.5", "−0.188", "0", "0", "10"]
