"""The page in a real Chromium, opened from disk: no request, no message of the console, every key, every number."""

import re
from pathlib import Path

import numpy as np
import pytest

import viz
from tinygrad_tf import Tensor
from tinygrad_tf.models.decoder import Decoder, DecoderConfig
from tinygrad_tf.ops import residual
from viz import dot, explain, html, layout, svg
from viz.collapse import view
from viz.graph import Graph
from viz.style import Options

EVIL = "</script><img src=x onerror=document.title='broken'>"


SEEN = """() => {
    const all = (name) => [...document.querySelectorAll(name)], texts = (name) => all(name).map((each) => each.textContent);
    return [texts(".viz-count")[0], texts(".viz-text p:not(.shapes)"), all("[aria-current=step]")[0].dataset.id,
        all(".viz-mark .ring").length, all(".viz-mark .flag").length];
}"""


def level(graph: Graph, name: str, prefix: str) -> html.Level:
    drawn = layout.run(dot.to_dot(graph, Options()), "svg").decode("utf-8")
    return html.Level(name, graph, svg.finish(drawn, graph, prefix))


@pytest.fixture(scope="module")
def scalar():
    a, b = Tensor(2.0, requires_grad=True), Tensor(-3.0, requires_grad=True)
    with viz.record():
        y = residual(a, (a * b * 0.1).tanh())
        loss = y * y
    loss.backward()
    graph = viz.trace(loss)
    return graph, [level(graph, "ops", "p0")]


@pytest.fixture(scope="module")
def decoder():
    model = Decoder(DecoderConfig(11, block_size=4, n_layer=1, n_head=2, n_embd=8))
    ids = np.arange(8).reshape(2, 4)
    with viz.record():
        loss = model.loss(ids, ids)
    loss.backward()
    graph = viz.trace(loss)
    return graph, [level(view(graph, name), name, f"p{i}") for i, name in enumerate(("ops", "modules", "blocks"))]


def count(page) -> str:
    return page.locator(".viz-count").inner_text()


def text(page) -> list[str]:
    return page.locator(".viz-text p:not(.shapes)").all_text_contents()


@pytest.mark.parametrize("which", ["scalar", "decoder"])
def test_every_step_by_the_keyboard_tells_the_numbers_of_the_engine(opened, which, request):
    graph, levels = request.getfixturevalue(which)
    page, steps = opened(html.page(levels, graph, "t")), html.steps(graph)
    assert count(page) == f"0 / {len(steps)}, start"
    for i, step in enumerate(steps, 1):
        page.keyboard.press("ArrowRight")
        node = graph.nodes[step["node"]]
        told = (explain.forward if step["phase"] == "forward" else explain.backward)(node, graph)
        assert page.evaluate(SEEN) == [f"{i} / {len(steps)}, {step['phase']}", told.split("\n"), node.id, 1, 1]
    page.keyboard.press("ArrowRight")
    assert count(page).startswith(f"{len(steps)} /")
    page.keyboard.press("ArrowLeft")
    assert count(page) == f"{len(steps) - 1} / {len(steps)}, backward"
    page.keyboard.press("Home")
    assert count(page).startswith("0 /")
    page.keyboard.press("End")
    assert count(page).startswith(f"{len(steps)} /")


def test_the_skip_source_shows_both_shares_on_its_edges(opened, scalar):
    graph, levels = scalar
    page = opened(html.page(levels, graph, "t"))
    page.keyboard.press("End")
    signs = page.locator(".viz-mark text:not(.on)").all_text_contents()
    shares = [explain.short(edge.grad) for edge in graph.outgoing["input/a"]]
    assert sorted(signs) == sorted(shares) and len(signs) == 2
    assert "g + Jᵀg: " in page.locator(".viz-text .first").inner_text()


def test_buttons_and_the_slider_do_what_the_keys_do(opened, scalar):
    graph, levels = scalar
    page = opened(html.page(levels, graph, "t"))
    last = len(html.steps(graph))
    page.get_by_role("button", name="step forward").click()
    assert count(page).startswith("1 /")
    page.get_by_role("button", name="to the end").click()
    assert count(page).startswith(f"{last} /") and page.get_by_role("button", name="step forward").is_disabled()
    page.get_by_role("slider").fill("2")
    assert count(page) == f"2 / {last}, forward"
    page.get_by_role("slider").press("ArrowRight")
    assert count(page) == f"3 / {last}, forward"
    assert page.get_by_role("slider").get_attribute("aria-valuetext").startswith(f"3 / {last}, forward: ")
    page.get_by_role("button", name="to the start").click()
    assert count(page).startswith("0 /")


def test_every_control_is_reached_by_tab_in_the_order_of_the_page(opened, decoder):
    graph, levels = decoder
    page = opened(html.page(levels, graph, "t"))
    names = []
    for _ in range(14):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"))
    depths, zoom = ["1ops", "2modules", "3blocks"], ["zoom in", "zoom out", "show all"]
    order = [*depths, "light or dark", *zoom, "play", "step forward", "to the end", "step"]
    places = [names.index(name) for name in order]
    assert places == sorted(places)


def test_play_runs_and_space_stops_it(opened, scalar):
    graph, levels = scalar
    page = opened(html.page(levels, graph, "t"))
    page.keyboard.press("Space")
    page.locator(".viz-count", has_text=re.compile("^3 /")).wait_for()
    assert page.get_by_role("button", name="pause").count() == 1
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="play").count() == 1
    before = count(page)
    page.wait_for_timeout(1300)
    assert count(page) == before


def test_nothing_moves_for_a_reader_who_asked_for_no_motion(opened, decoder):
    graph, levels = decoder
    page = opened(html.page(levels, graph, "t"), reduced_motion="reduce")
    page.keyboard.press("Space")
    assert count(page).startswith("1 /")
    assert page.evaluate("document.getAnimations().length") == 0
    page.wait_for_timeout(1300)  # longer than a step takes
    assert count(page).startswith("1 /")  # one step, and nothing runs on by itself


def test_a_click_shows_the_line_that_made_the_node_and_so_does_enter(opened, scalar):
    graph, levels = scalar
    page = opened(html.page(levels, graph, "t"))
    page.locator('g[data-id="tanh"]').click()
    assert graph["tanh"].line and page.locator(".viz-about dd", has_text=graph["tanh"].line).count() == 1
    assert page.locator(".viz-mark .picked").count() == 1 and count(page).startswith("0 /")
    page.locator('g[data-id="mul"]').focus()
    page.keyboard.press("Enter")
    assert page.locator(".viz-about h3").inner_text() == "Details of mul"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.id") not in (None, "mul")
    page.get_by_role("button", name="forward step 1").click()
    assert count(page).startswith("1 /")


def test_a_drag_moves_the_picture_and_chooses_nothing(opened, scalar):
    graph, levels = scalar
    page = opened(html.page(levels, graph, "t"))
    canvas, box = page.locator(".viz-canvas"), page.locator('g[data-id="tanh"]').bounding_box()
    before = canvas.get_attribute("style")
    page.mouse.move(box["x"] + 5, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 95, box["y"] + 60, steps=4)
    page.mouse.up()
    moved = page.locator('g[data-id="tanh"]').bounding_box()
    assert canvas.get_attribute("style") != before and moved["x"] == pytest.approx(box["x"] + 90, abs=8)
    assert page.locator(".viz-mark .picked").count() == 0


def test_zoom_by_keys_wheel_and_back_to_all(opened, scalar):
    graph, levels = scalar
    page = opened(html.page(levels, graph, "t"))

    def zoom():
        return float(re.search(r"scale\(([\d.]+)\)", page.locator(".viz-canvas").get_attribute("style"))[1])

    whole = zoom()
    page.keyboard.press("+")
    assert zoom() == pytest.approx(whole * 1.25, rel=1e-4)
    page.keyboard.press("-")
    page.keyboard.press("-")
    assert zoom() == pytest.approx(whole * 0.8, rel=1e-4)
    page.keyboard.press("0")
    assert zoom() == pytest.approx(whole, rel=1e-4)
    page.mouse.move(300, 300)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -50)
    page.keyboard.up("Control")
    page.locator(f'.viz-canvas:not([style*="scale({whole})"])').wait_for()
    assert zoom() > whole
    before = page.locator(".viz-canvas").get_attribute("style")
    page.keyboard.press("Shift+ArrowRight")
    assert page.locator(".viz-canvas").get_attribute("style") != before and count(page).startswith("0 /")


def test_the_depths_keep_the_step_and_show_where_it_is(opened, decoder):
    graph, levels = decoder
    page = opened(html.page(levels, graph, "t"))
    number = next(i for i, s in enumerate(html.steps(graph), 1) if graph.nodes[s["node"]].id == "blocks.0.ffn/gelu")
    page.get_by_role("slider").fill(str(number))
    before = count(page), text(page)
    for key, name in (("2", "modules"), ("3", "blocks"), ("1", "ops")):
        page.keyboard.press(key)
        assert (count(page), text(page)) == before
        assert page.get_by_role("button", pressed=True).inner_text().endswith(name)
        shown = next(each for each in levels if each.name == name)
        holder = html.inside(shown.graph, graph)["blocks.0.ffn/gelu"]
        assert page.locator('.viz-level:not([hidden]) [aria-current="step"]').get_attribute("data-id") == holder
        assert page.locator(".viz-level:not([hidden])").count() == 1


def test_a_collapsed_module_shows_its_details(opened, decoder):
    graph, levels = decoder
    page = opened(html.page(levels[2:], graph, "t"))
    node = next(node for node in levels[2].graph.nodes if node.kind == "module" and node.badge)
    page.locator(f'g[data-id="{node.id}"]').click()
    assert f"{node.parameters:,}" in page.locator(".viz-about dd").all_text_contents()


def test_two_figures_in_one_page_do_not_disturb_each_other(opened, scalar, decoder):
    figures = [html.fragment(levels, graph, name) for name, (graph, levels) in (("one", scalar), ("two", decoder))]
    page = opened("<!DOCTYPE html><meta charset=utf-8><link rel=icon href=data:,><h1>cell</h1>" + "".join(figures))
    one, two = (page.frame_locator(f'iframe[title="{name}"]') for name in ("one", "two"))
    one.locator(".viz-stage").click(position={"x": 5, "y": 5})
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert one.locator(".viz-count").inner_text().startswith("2 /") and two.locator(".viz-count").inner_text().startswith("0 /")
    two.locator("[data-do=last]").click()
    assert one.locator(".viz-count").inner_text().startswith("2 /")
    assert two.locator(".viz-count").inner_text().endswith("backward")
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).fontFamily").find("Helvetica") == -1


def test_evil_names_are_harmless(opened):
    a = Tensor(2.0, requires_grad=True)
    loss = a * 3.0
    graph = viz.trace(loss, names={EVIL: a, "loss": loss})
    page = opened(html.page([level(graph, EVIL, "p")], graph, EVIL, EVIL))
    page.keyboard.press("End")
    page.locator("g[data-id]").first.click()
    assert page.title() == EVIL and page.locator("img").count() == 0 and page.locator("h1").inner_text() == EVIL


@pytest.mark.parametrize("width,height", [(1280, 800), (375, 812)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_desktop_and_phone_light_and_dark(opened, decoder, width, height, scheme, tmp_path):
    graph, levels = decoder
    viewport = {"width": width, "height": height}
    page = opened(html.page(levels[1:], graph, "A decoder"), viewport=viewport, color_scheme=scheme)
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("main.viz").get_attribute("data-theme") == scheme
    paper, ink = (page.evaluate(f"getComputedStyle(document.querySelector('{name}')).{what}") for name, what in
                  ((".viz-stage", "backgroundColor"), (".viz-level:not([hidden]) g.op text", "fill")))  # fmt: skip
    brightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) / 3 for colour in (paper, ink)]
    assert abs(brightness[0] - brightness[1]) > 150
    page.screenshot(path=tmp_path / f"{width}-{scheme}.png")
    assert Path(tmp_path / f"{width}-{scheme}.png").stat().st_size > 10_000
    page.get_by_role("button", name="light or dark").click()
    assert page.locator("main.viz").get_attribute("data-theme") != scheme
