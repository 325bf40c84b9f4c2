"""Pictures of a model that was read: what is written on them, and that the same numbers give the same bytes."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygrad_tf.edits import head_effects
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.reading import read
from tinygrad_tf.writes import attention_maps
from viz.reading import contributions, lens, maps, shown

ROOT = Path(__file__).parents[2]
VOCABULARY = list("abcdefgh \n$&<")
IDS = np.array([[0, 8, 9, 10, 11, 12], [3, 4, 5, 6, 7, 8]])
LABELS = [VOCABULARY[i] for i in IDS[0]]


@pytest.fixture(scope="module")
def model():
    config = DecoderConfig(len(VOCABULARY), block_size=8, n_layer=2, n_head=3, n_embd=12, init_std=0.5)
    return Decoder(config, np.random.default_rng(0))


@pytest.fixture(scope="module")
def reading(model):
    return read(model, IDS)


@pytest.fixture(scope="module")
def plots(model, reading):
    effects = head_effects(model, IDS, np.roll(IDS, -1, 1))
    return {
        "maps": maps(reading, "blocks.1.attn", LABELS, effects=effects),
        "maps without labels": maps(reading, "blocks.1.attn", text=1),
        "lens": lens(reading, LABELS, VOCABULARY),
        "contributions": contributions(reading.attribution(10, heads=True), title="the logit of $"),
    }


def texts(plot):
    """Every text of the picture, in the order of drawing."""
    words = re.findall(r"<text[^>]*>([^<]*)</text>", plot.render().decode())
    return [word.replace("&lt;", "<").replace("&amp;", "&") for word in words]


@pytest.mark.parametrize("name", ["maps", "maps without labels", "lens", "contributions"])
def test_the_same_numbers_give_the_same_bytes(plots, name, tmp_path):
    plot = plots[name]
    for ending in (".svg", ".png"):
        path = plot.save(tmp_path / f"plot{ending}")
        assert path.read_bytes() == plot.render(ending)
    assert (tmp_path / "plot.svg").read_text(encoding="utf-8") == plot._repr_svg_()
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"\.svg, \.png or \.pdf, not as \.gif"):
        plot.save(tmp_path / "plot.gif")


def test_a_map_says_which_head_and_what_the_loss_does_without_it(model, plots, reading):
    written = texts(plots["maps"])
    assert [w for w in written if w.startswith("head ")] == ["head 0", "head 1", "head 2"]
    effects = head_effects(model, IDS, np.roll(IDS, -1, 1))
    changes = [f"loss {h.change:+.3f} without it".replace("-", "−") for h in effects.heads if h.path.startswith("blocks.1.")]
    assert [w for w in written if w.startswith("loss ")] == changes
    assert {"a", "␣", "↵", "$", "&", "<", "blocks.1.attn", "weight"} <= set(written)
    assert not [w for w in texts(plots["maps without labels"]) if w.startswith("loss")]
    same = maps(attention_maps(model, IDS), "blocks.1.attn", text=1)  # for a model that has no stream to read
    assert same.render() == plots["maps without labels"].render()
    with pytest.raises(ValueError, match="no attention layer"):
        maps(reading, "blocks.1.ffn")


def test_the_lens_writes_the_likeliest_token_and_its_probability(plots, reading):
    written = texts(plots["lens"])
    for p in reading.lens().values():
        for row in p[0]:
            assert shown(VOCABULARY[int(row.argmax())]) in written
            assert f"{row.max():.2f}" in written
    assert {"embedding", "after blocks.0", "after blocks.1"} <= set(written)
    assert lens(reading, LABELS, VOCABULARY.__getitem__).render() == plots["lens"].render()  # a function does as well


def test_the_bars_come_in_the_order_of_writing_and_end_with_the_logit(plots, reading):
    written = texts(plots["contributions"])
    parts = reading.attribution(10, heads=True)
    values = [float(part[0, -1]) for part in parts.values()]
    names = [*parts, "sum: the logit"]
    assert [w for w in written if w in names] == names
    numbers = [f"{v:+.3f}".replace("-", "−") for v in [*values, sum(values)]]
    assert [w for w in written if re.fullmatch(r"[+−]\d+\.\d{3}", w)] == numbers
    assert sum(values) == pytest.approx(reading.out[0, -1, 10], rel=1e-4)
    assert "the logit of $" in written  # a dollar sign is no mathematics


def test_tokens_as_they_are_printed():
    assert [shown(x) for x in (" ", "\n", "a b", "\t", "\x00", 7)] == ["␣", "↵", "a␣b", "⇥", "�", "7"]


def test_importing_it_loads_no_matplotlib():
    code = "import sys, viz.reading; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_long_labels_stand_and_a_wrong_number_of_them_is_told(reading):
    from viz.reading import _height

    long = ["electromagnetic"] * 6
    assert _height(LABELS, 0.16) == 0.0
    assert lens(reading, long, VOCABULARY).size[1] > lens(reading, LABELS, VOCABULARY).size[1]
    assert "rotate(-90)" in lens(reading, long, VOCABULARY).render().decode()
    for plot in (lambda labels: lens(reading, labels, VOCABULARY), lambda labels: maps(reading, "blocks.0.attn", labels)):
        with pytest.raises(ValueError, match="5 labels for 6 positions"):
            plot(LABELS[:5])
    with pytest.raises(ValueError, match="'blocks.7.attn' is no attention layer here; there are: blocks.0.attn"):
        maps({"blocks.0.attn": reading.maps("blocks.0.attn")}, "blocks.7.attn")
