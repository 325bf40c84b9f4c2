"""F9: the formulas of S26, in Python and in the saved page's script, against models that are really built and counted."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_tf.models import TransformerConfig, build
from tinygrad_tf.models import ledger as real
from tinygrad_tf.models.presets import named
from viz.figures import parameters
from viz.figures.page import page
from viz.figures.parameters import count

SIGNS = ("token_embedding", "position_embedding", ".attn.", ".ffn.", "norm.")


def config(layers, width, heads, vocabulary, context):
    return TransformerConfig(vocabulary, context, layers, heads, n_embd=width, bias=True)


@given(st.integers(1, 3), st.integers(1, 6), st.sampled_from([1, 2, 3, 4]), st.integers(1, 60), st.integers(1, 40))
def test_S26_the_formula_counts_what_a_real_model_has(layers, each, heads, vocabulary, context):
    model = build(config(layers, each * heads, heads, vocabulary, context), np.random.default_rng(0))
    owned = {name: p.numel() for name, p in model.named_parameters()}
    counted = count(layers, each * heads, vocabulary, context)
    assert counted == {part: sum(n for name, n in owned.items() if sign in name) for part, sign in zip(counted, SIGNS)}
    assert sum(counted.values()) == sum(owned.values())


@given(st.integers(1, 96), st.integers(64, 4096), st.integers(64, 256_000), st.integers(64, 16_384))
def test_S26_at_sizes_that_are_not_built_it_is_the_ledger(layers, width, vocabulary, context):
    assert sum(count(layers, width, vocabulary, context).values()) == real.count(config(layers, width, 1, vocabulary, context))


def test_S26_the_page_s_numbers_and_the_four_sizes():
    data = parameters().data
    assert data["parts"]["attention"] == 12 * 2_362_368
    assert data["parts"]["ffn"] == 12 * 4_722_432
    assert (data["block"], data["blocks"], data["total"]) == (7_087_872, 85_054_464, 124_439_808)
    for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"):
        c = named(name).config
        assert sum(count(c.n_layer, c.n_embd, c.vocab_size, c.block_size).values()) == named(name).published


def test_S26_the_number_of_heads_changes_nothing():
    (heads,) = [control for control in parameters.controls if control.name == "heads"]
    shown = [parameters(heads=h) for h in heads.grid]
    assert all(figure.data == shown[0].data for figure in shown)
    assert "12 heads of 64" in parameters().words
    assert "25 heads do not divide 768, so no such model can be built" in parameters(heads=25).words


def test_the_bars_are_as_long_as_their_shares():
    shown = parameters(vocabulary=256000, layers=2)
    for name, part in shown.data["parts"].items():
        whole, bar = re.findall(r'width="([\d.]+)"', re.search(f'<g data-part="{name}">.*?</g>', shown.drawing)[0])
        np.testing.assert_allclose(float(bar) / float(whole), part / shown.data["total"], atol=1e-4)
        assert f">{part:,}<" in shown.drawing
    assert f"{shown.data['total']:,} parameters" in shown.words


# ------------------------------------------------------------------------------------------------ the saved page


def read(tab):
    """What the page says and shows."""
    return tab.evaluate(
        """() => ({
            words: document.querySelector(".tf-words").textContent,
            texts: [...document.querySelectorAll("svg text")].map((text) => text.textContent),
            bars: [...document.querySelectorAll("svg rect")].map((rect) => Number(rect.getAttribute("width"))),
        })"""
    )


def test_S26_the_script_of_the_page_computes_the_same_as_python(opened):
    """Any whole numbers between the ends of the sliders, written into the fields, against the figure that Python draws."""
    tab = opened(page(parameters))
    rng = np.random.default_rng(0)
    ends = {control.name: (control.grid[0], control.grid[-1]) for control in parameters.controls}
    for trial in range(30):
        settings = {name: int(np.exp(rng.uniform(np.log(low), np.log(high)))) for name, (low, high) in ends.items()}
        if trial < 2:  # both corners of the grid
            settings = {name: both[trial] for name, both in ends.items()}
        for name, value in settings.items():
            tab.locator(f'input[type=number][data-name="{name}"]').fill(str(value))
        theirs, mine = read(tab), parameters.function(**settings)
        assert theirs["words"] == mine.words
        texts = [t.replace("&#8203;", "") for t in re.findall(r"<text[^>]*>(.*?)</text>", mine.drawing)]
        assert theirs["texts"] == texts
        bars = [float(w) for w in re.findall(r'<rect[^>]* width="([\d.]+)"', mine.drawing)]
        np.testing.assert_allclose(theirs["bars"], bars, atol=0.011)
        c = config(settings["layers"], settings["width"], 1, settings["vocabulary"], settings["context"])
        assert f"{real.count(c):,} parameters" in theirs["words"]


def test_slider_and_field_move_together_and_nonsense_is_ignored(opened):
    tab = opened(page(parameters))
    slider, field = (tab.locator(f'input[type={kind}][data-name="layers"]') for kind in ("range", "number"))
    slider.focus()
    tab.keyboard.press("ArrowRight")
    assert field.input_value() == "13"
    assert read(tab)["words"] == parameters.function(layers=13).words
    for wrong in ("", "0", "1000"):
        field.fill(wrong)
        assert read(tab)["words"] == parameters.function(layers=13).words
    field.fill("24")
    assert slider.input_value() == "24"
