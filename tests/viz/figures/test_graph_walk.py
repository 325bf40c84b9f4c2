"""F12, the computation graph: its numbers against NumPy and against backward(), its skip path, its naive order, its words."""

import itertools
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from viz.figures import graph_walk
from viz.figures.graph_models import MODELS, W1, W2, walked
from viz.figures.graph_picture import Picture
from viz.figures.graph_walk import MOST

EACH = pytest.mark.parametrize("model", MODELS)
BOTH = pytest.mark.parametrize("order", ["newest first", "at once"])


def last(model, order="newest first"):
    return graph_walk.frames(model=model, order=order)[-1]


def near(mine, theirs):
    np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("model, kept", [("two layers that add", 1.0), ("two layers that replace", 0.0)])
def test_two_layers_agree_with_numpy(model, kept):
    """x.grad = J1ᵀ J2ᵀ 1, where J = kept · I + diag(1 − tanh²) W."""
    x = np.array([1.0, -0.5])
    v = np.tanh(W1 @ x)
    h = kept * x + v
    t = np.tanh(W2 @ h)
    y = kept * h + t
    data = last(model).data
    near(data["values"]["y"], y)
    near(data["values"]["L"], y.sum())
    at_h = kept * np.ones(2) + W2.T @ (1 - t**2)
    near(data["gradients"]["h"], at_h)
    near(data["gradients"]["x"], kept * at_h + W1.T @ (at_h * (1 - v**2)))
    near(data["gradients"]["W₂"], np.outer(1 - t**2, h))
    assert data["skips"] == 2 * kept


@EACH
def test_the_newest_first_gives_the_gradients_of_backward(model):
    made = MODELS[model]()
    made.loss.backward()
    data = last(model).data
    for name, leaf in made.leaves.items():
        grad = leaf.grad.array
        near(data["gradients"][name], grad[0] if grad.ndim == 3 else grad)
        assert data["correct"][name] == data["gradients"][name]


def test_the_block_is_the_engine_s_pre_norm_block():
    """Its two sums are x + attention(norm(x)) and h + feed_forward(norm(h)); what the branches are is tested with the block."""
    values = last("a pre-norm block").data["values"]
    near(values["h"], np.add(values["x"], values["a"]))
    near(values["y"], np.add(values["h"], values["f"]))
    x = np.array(values["x"])
    near(values["n"], x / np.sqrt((x**2).mean(-1, keepdims=True)))


@pytest.mark.parametrize("model", ["two layers that add", "a pre-norm block"])
def test_along_a_skip_goes_exactly_the_gradient_of_the_sum(model):
    w = walked(model)
    for skip in w.graph.skips:
        g = np.random.default_rng(0).standard_normal(w.graph[skip.target].shape)
        shares = {edge.source: share for edge, share in w.sent(skip.target, g)}
        assert np.array_equal(shares[skip.source], g)


@pytest.mark.parametrize("model", ["two layers that add", "a pre-norm block"])
def test_the_ways_to_x_add_up_to_its_gradient_and_the_straight_one_is_untouched(model):
    data = last(model).data
    assert list(data["ways"]) == ["along the skips", "through the first branch", "through the second branch", "through both"]
    assert data["ways"]["along the skips"] == data["gradients"]["y"]
    near(sum(map(np.array, data["ways"].values())), data["gradients"]["x"])


def test_the_ways_are_the_terms_of_the_product():
    """(I + J1ᵀ)(I + J2ᵀ) g = g + J1ᵀ g + J2ᵀ g + J1ᵀ J2ᵀ g."""
    x, g = np.array([1.0, -0.5]), np.ones(2)
    v = np.tanh(W1 @ x)
    first = np.diag(1 - v**2) @ W1
    second = np.diag(1 - np.tanh(W2 @ (x + v)) ** 2) @ W2
    ways = last("two layers that add").data["ways"]
    near(ways["through the first branch"], first.T @ g)
    near(ways["through the second branch"], second.T @ g)
    near(ways["through both"], first.T @ second.T @ g)


def test_at_once_is_wrong_where_a_sum_is_used_twice():
    """c = 4a: the derivative is 4. Sending at once: 2 after the first arrival at b, and 2 · 2 more after the second."""
    data = last("a sum used twice", "at once").data
    assert data["gradients"]["a"] == 6.0 and data["correct"]["a"] == 4.0
    assert "Wrong: a.grad = 6, and the derivative is 4." in last("a sum used twice", "at once").words


def test_at_once_is_wrong_behind_the_first_skip_and_right_without_one():
    added, replaced = (last(model, "at once").data for model in ("two layers that add", "two layers that replace"))
    assert not np.allclose(added["gradients"]["x"], added["correct"]["x"], rtol=0.1)
    near(replaced["gradients"]["x"], replaced["correct"]["x"])
    assert "which is right" in last("an expression", "at once").words


@EACH
@BOTH
def test_what_is_sent_adds_up_to_what_is_there(model, order):
    total: dict = {}
    for frame in graph_walk.frames(model=model, order=order):
        for name, shares in frame.data["sent"].items():
            to = name.partition(" ← ")[0]
            for share in shares:
                total[to] = total.get(to, 0) + np.array(share)
        for to, sum_ in total.items():
            near(frame.data["gradients"][to], sum_)


@EACH
@BOTH
def test_every_step_is_there_and_each_box_is_computed_after_what_it_needs(model, order):
    frames = graph_walk.frames(model=model, order=order)
    assert len(frames) == frames[0].data["steps"] <= MOST
    phases = [phase for phase, _ in itertools.groupby(frame.data["phase"] for frame in frames)]
    assert phases == ["start", "forward", "backward", "end"]
    w = walked(model)
    known = set(w.leaves)
    for id_ in w.ops:
        assert {edge.source for edge in w.edges(id_)} <= known
        known.add(id_)
    assert list(frames[-1].data["values"]) and set(frames[-1].data["gradients"]) == set(w.names.values())


@pytest.mark.parametrize("model, skips", [("two layers that add", 2), ("a pre-norm block", 2), ("two layers that replace", 0)])
def test_each_skip_is_a_straight_line_thicker_than_any_other_in_every_state(model, skips):
    for frame in graph_walk.frames(model=model):
        drawn = ElementTree.fromstring(frame.drawing)
        thick = [mark for mark in drawn.iter() if mark.get("class") == "stream" and float(mark.get("stroke-width") or 0) > 10]
        assert len(thick) == skips
        assert all(re.fullmatch(r"M[\d.]+ [\d.]+ V[\d.]+", mark.get("d")) for mark in thick)
        others = [float(mark.get("stroke-width")) for mark in drawn.iter() if mark.get("stroke-width") and mark not in thick]
        assert not skips or max(others) < 11


@EACH
def test_no_box_covers_another_and_all_are_inside(model):
    picture = Picture(walked(model))
    boxes = list(picture.boxes.values())
    assert len(boxes) == len(walked(model).values)
    for box in boxes:
        assert box.x - box.width / 2 >= 0 and box.x + box.width / 2 <= 460 and box.top >= 0 and box.bottom <= picture.height
    for a, b in itertools.combinations(boxes, 2):
        assert abs(a.x - b.x) >= (a.width + b.width) / 2 or a.bottom <= b.top or b.bottom <= a.top


@EACH
def test_a_click_on_a_box_goes_to_its_own_step(model):
    frames, w = graph_walk.frames(model=model), walked(model)
    boxes = re.findall(r'<text[^>]*data-step="(\d+)">([^<]*)</text>', frames[0].drawing)
    for step, title in boxes:
        assert title in (*w.titles.values(), "+")
        if title != "+":
            assert title.partition(" = ")[0] in frames[int(step)].data["values"]
            assert title.partition(" = ")[0] not in frames[int(step) - 1].data["values"]


def test_the_words_say_the_numbers():
    words = [frame.words for frame in graph_walk.frames(model="an expression")]
    assert words[1] == "Forward: d = a · b = 2 · (−3) = −6."
    assert "d has g = 2. a gets g · b = 2 · (−3) = −6; b gets g · a = 2 · 2 = 4." in words[7]
    assert words[7].endswith("Now all shares of a are there: −6 from d + 4 from L = −2.")
    end = last("two layers that add")
    x = end.data["gradients"]["x"]
    assert f"x.grad = ({x[0]:.2f}, {x[1]:.2f})" in end.words
    assert "Of that, (1.00, 1.00) came along the orange line as it was; then" in end.words
    assert f"({end.data['ways']['through both'][0]:.2f}, " in end.words
