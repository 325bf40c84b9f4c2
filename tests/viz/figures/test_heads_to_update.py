"""F2: what S8 says of two heads, and S7 of one weight, computed here by hand."""

import numpy as np
import pytest

from viz.figures import heads_to_update
from viz.figures.heads_to_update import OUTPUTS
from viz.figures.replace_or_add import short


def test_S08_two_heads_of_one_number_each():
    data = heads_to_update().data
    assert data["weights"] == {"A": [3 / 4, 1 / 4], "B": [1 / 4, 3 / 4]}
    assert data["joined"] == [3 / 2, 3 / 4]
    assert data["output"] == [[1, 0], [-1, 1]]
    assert data["update"] == [3 / 4, 3 / 4]
    assert data["result"] == [3 / 4, 7 / 4]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("shared", [False, True])
def test_every_state(output, shared):
    w_o = OUTPUTS[output]
    for settings in heads_to_update.grid():
        if (settings["output"], settings["shared"]) != (output, shared):
            continue
        frame = heads_to_update(**settings)
        a, b = settings["a"], settings["a"] if shared else settings["b"]
        joined = np.array([2 * a, 1 - b])
        assert frame.data["joined"] == pytest.approx(joined.tolist())
        assert frame.data["update"] == pytest.approx((joined @ w_o).tolist())
        assert frame.data["result"] == pytest.approx((joined @ w_o + [0, 1]).tolist())
        parts = frame.data["parts"]
        assert np.add(parts["A"], parts["B"]) == pytest.approx(frame.data["update"])
        for said in (parts["A"], parts["B"], frame.data["update"], frame.data["result"], frame.data["joined"]):
            assert short(said) in frame.drawing
        assert short(frame.data["update"]) in frame.words
        assert short(frame.data["result"]) in frame.words
        assert ("the segment" in frame.words) is shared


def test_S07_one_weight_stays_on_the_segment():
    for a in heads_to_update.controls[0].grid:
        first, second = heads_to_update(a=a, shared=True).data["joined"]
        assert first / 2 + second == pytest.approx(1)
