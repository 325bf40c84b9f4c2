"""F11: the shapes of a whole block (S25), each computed by hand from n, d = 768, 12 heads and d_ff 3072."""

import re

import pytest

from tinygrad_tf.nn.transformer import block_of_gpt2
from viz.figures import block_explorer
from viz.figures.block_explorer import STAGES


@pytest.mark.parametrize("n", [1, 10, 100])
def test_S25_every_shape(n):
    frames = block_explorer.frames(tokens=n)
    by = {frame.data["stage"]: frame.data for frame in frames}
    assert list(by) == ["Stream x", "Norm 1", "Attention", "Sum 1", "Norm 2", "Feed-forward", "Sum 2"]
    for name, data in by.items():
        assert data["out"] == [n, 768]
        assert data["in"] == [[n, 768]] * (2 if name.startswith("Sum") else 1)
    assert by["Attention"]["inner"] == {
        "Q": [12, n, 64], "K": [12, n, 64], "V": [12, n, 64], "scores Q Kᵀ/√D": [12, n, n], "softmax: A": [12, n, n],
        "mixtures A V": [12, n, 64], "heads joined": [n, 768],
    }  # fmt: skip
    assert by["Feed-forward"]["inner"] == {"widened by W_1": [n, 3072], "after GELU": [n, 3072]}


def test_S26_the_parameters_of_each_stage():
    counted = {frame.data["stage"]: frame.data["parameters"] for frame in block_explorer.frames()}
    assert counted == {"Stream x": 0, "Norm 1": 1536, "Attention": 2_362_368, "Sum 1": 0, "Norm 2": 1536,
                       "Feed-forward": 4_722_432, "Sum 2": 0}  # fmt: skip
    assert sum(counted.values()) == sum(p.numel() for p in block_of_gpt2(768, 12).parameters()) == 7_087_872


def test_every_stage_is_drawn_said_and_clicked():
    for n in block_explorer.controls[0].grid:
        for i, frame in enumerate(block_explorer.frames(tokens=n)):
            texts = [re.sub("<[^>]*>|&#8203;", "", t) for t in re.findall(r"<text[^>]*>.*?</text>", frame.drawing)]
            for name, shape in [("out", frame.data["out"]), *frame.data["inner"].items()]:
                said = " × ".join(map(str, shape))
                assert said in frame.words
                assert texts[texts.index(name.replace("_", "")) + 1] == said
            assert set(re.findall(r'data-step="(\d+)"', frame.drawing)) == set("0123456")
            assert STAGES[i].says in frame.words
            assert frame.data["parameters"] == 0 or f"{frame.data['parameters']:,} parameters" in frame.words
