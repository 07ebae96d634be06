"""The page of ``graphad view`` in a browser: what it shows, and what it does when it is clicked, typed and scrolled at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

import graphad as ga
from graphad.rewriting import Pass, Step, observing
from graphad.viewing import page as writing
from graphad.viewing import record
from tests.shares import one_in
from tests.viewing.browser import Window, launched
from tests.viewing.programs import PROGRAMS, fan_out, loop, training

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

FEEDS: dict[str, dict[str, object]] = {
    "training": {"x": np.full((2, 6), 0.5, "float32"), "label": np.zeros((2, 1), "int64")},
    "loop": {"x": np.linspace(-1, 1, 24, dtype="float32").reshape(3, 2, 4)},
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of the programs, by name."""
    folder, paths = tmp_path_factory.mktemp("pages"), {}
    for name, made in PROGRAMS.items():
        program, pipeline = made()
        paths[name] = folder / f"{name}.html"
        ga.view(program, pipeline, paths[name], title=name, feed=FEEDS.get(name))
    return paths


@pytest.fixture(scope="module")
def shared(browser: Browser) -> Iterator[Window]:
    found = Window(browser)
    yield found
    found.close()


@pytest.fixture
def window(shared: Window) -> Iterator[Window]:
    """A window in which nothing went wrong so far, and nothing may go wrong."""
    shared.errors.clear()
    shared.requests.clear()
    yield shared
    assert shared.errors == []


@pytest.fixture
def page(window: Window, pages: dict[str, Path]) -> Page:
    """The page of the training program."""
    return window.open(pages["training"])


def graph(page: Page) -> Locator:
    return page.get_by_label("graph", exact=True)


def details(page: Page) -> Locator:
    return page.get_by_label("details", exact=True)


def shape(page: Page, title: str) -> Locator:
    """The first box with a title."""
    return graph(page).locator("g.shape", has=page.locator(f"xpath=./*[local-name()='text' and text()='{title}']")).first


def options(page: Page) -> Locator:
    return page.get_by_role("listbox").get_by_role("option")


def selected(page: Page) -> str:
    return page.locator('[role="option"][aria-selected="true"] b').inner_text()


def go_to(page: Page, name: str) -> None:
    options(page).filter(has=page.locator(f"b:text-is('{name}')")).click()


def scale(page: Page) -> float:
    transform = graph(page).locator("svg.canvas > g").get_attribute("transform") or ""
    return float(re.findall(r"scale\(([\d.]+)\)", transform)[0])


def lines(page: Page) -> list[str]:
    """The program as the text pane shows it, without what was removed."""
    shown = page.locator(".line:not(.old)").all_inner_texts()
    return [line[1:].rstrip() for line in shown]


# -- the file --------------------------------------------------------------------------------------


def test_the_page_is_one_file_and_asks_for_nothing(window: Window, pages: dict[str, Path]) -> None:
    window.open(pages["training"])
    window.settled()
    assert window.requests == ["about:blank", pages["training"].as_uri()][-len(window.requests) :]
    assert window.page.locator("canvas").count() == 0
    text = pages["training"].read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(["']?https?:""", text)


def test_a_large_page_is_compressed_and_shows_the_same(
    window: Window, pages: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(path: Path) -> tuple[list[str], str]:
        page = window.open(path, "#pass=2")
        return lines(page), page.locator("svg.canvas").text_content() or ""

    monkeypatch.setattr(writing, "LARGE", 0)
    program, pipeline = loop()
    path = ga.view(program, pipeline, tmp_path / "page.html", title="loop", feed=FEEDS["loop"]).path
    assert path is not None
    assert "data-deflated" in path.read_text(encoding="utf-8")
    assert path.stat().st_size < pages["loop"].stat().st_size
    assert shown(path) == shown(pages["loop"])


# -- passes ----------------------------------------------------------------------------------------


def test_all_passes_are_listed_with_time_and_counts(page: Page) -> None:
    names = options(page).locator("b").all_inner_texts()
    assert names[0] == "before"
    assert [name.split("{")[0] for name in names[1:]] == [
        *("simplify", "find-op-path", "create-grad-ops", "prune-no-grad", "accumulate-grads", "create-grad-vars"),
        *("cse", "dead-code"),
    ]
    first, *notes = options(page).locator(".note").all_inner_texts()
    assert first == "as it was given · 9 operators, 16 values"
    assert all(re.match(r"[\d.]+ m?s · (\d+ → )?\d+ operators, (\d+ → )?\d+ values( · changed nothing)?$", note) for note in notes)
    assert notes[2].endswith(" ms · 9 → 19 operators, 16 → 32 values")
    assert selected(page) == "before"


def test_passes_that_changed_nothing_are_grey_and_can_be_left_out(page: Page) -> None:
    unchanged = options(page).filter(has_text="changed nothing")
    assert {name.split("{")[0] for name in unchanged.locator("b").all_inner_texts()} >= {"find-op-path", "dead-code"}
    assert float(unchanged.first.evaluate("(e) => getComputedStyle(e).opacity")) < 0.8
    page.get_by_label("only what changed the graph").check()
    assert not unchanged.first.is_visible()
    assert options(page).filter(has_text="create-grad-ops").is_visible()


def test_the_list_of_passes_is_moved_in_as_any_list(page: Page) -> None:
    page.get_by_role("listbox").focus()
    page.keyboard.press("End")
    assert selected(page) == "dead-code"
    page.keyboard.press("Home")
    assert selected(page) == "before"
    page.get_by_role("checkbox", name="only what changed the graph").check()
    page.get_by_role("listbox").focus()
    for name in ("simplify", "create-grad-ops"):  # what lies between is left out
        page.keyboard.press("ArrowDown")
        assert selected(page) == name


def test_arrow_keys_go_from_pass_to_pass(page: Page) -> None:
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert selected(page).startswith("find-op-path")
    page.keyboard.press("ArrowLeft")
    assert selected(page) == "simplify"
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    assert selected(page) == "before"


@pytest.mark.parametrize("name", one_in(2, PROGRAMS))
def test_the_text_is_the_graph_after_every_pass(name: str, window: Window, pages: dict[str, Path]) -> None:
    program, pipeline = PROGRAMS[name]()
    lowered = ga.lower(program)
    texts = [str(lowered)]

    def observe(each: Pass, graph: ga.Graph, step: Step) -> None:
        if graph is lowered and not each.combines:
            texts.append(str(graph))

    with observing(observe):
        ga.Pipeline.parse(pipeline).run(lowered)
    page = window.open(pages[name])
    assert options(page).count() == len(texts)
    for text in texts:
        indented = [re.sub(r"^ +", lambda spaces: spaces[0], line) for line in text.splitlines()]
        assert [line.strip() for line in lines(page)] == [line.strip() for line in indented]
        page.keyboard.press("ArrowRight")


# -- rewrites --------------------------------------------------------------------------------------


def test_every_rewrite_is_a_step_with_its_rule_and_the_line_that_wrote_it(page: Page) -> None:
    go_to(page, "simplify")
    steps = page.get_by_label("rewrites", exact=True).get_by_role("button")
    assert steps.count() >= 1
    assert steps.first.inner_text() == "1multiply-by-itself elementwise_mul"
    steps.first.click()
    said = details(page).inner_text()
    assert "rewrite 1 of" in said
    assert re.search(r"graphad/passes/cleanup/rules/\w+\.py:\d+", said)
    saw, before, after = re.split("It saw|Before|After|The line that wrote it", said)[1:4]
    assert "elementwise_mul(fc_0.tmp_2, fc_0.tmp_2)" in saw
    assert re.search(r"elementwise_mul\(fc_0.tmp_2, fc_0.tmp_2\) → \S+ removed", before)
    assert re.search(r"square\(fc_0.tmp_2\) → \S+ added", after)
    assert details(page).locator(".here").inner_text().strip()
    assert graph(page).locator("g.removed").count() == 1
    assert graph(page).locator("g.added").count() == 1


def test_keys_walk_through_rewrites(page: Page) -> None:
    go_to(page, "create-grad-ops")
    steps = page.get_by_label("rewrites", exact=True).get_by_role("button")
    page.keyboard.press("]")
    assert steps.first.get_attribute("aria-current") == "true"
    assert graph(page).locator("g.added").count() == 1
    page.keyboard.press("ArrowRight")
    assert steps.nth(1).get_attribute("aria-current") == "true"
    assert "mean_grad" in details(page).inner_text()
    page.keyboard.press("Escape")
    assert page.locator(".rewrites [aria-current=true]").count() == 0
    assert graph(page).locator("g.added").count() == steps.count()


# -- what changed ----------------------------------------------------------------------------------


def test_a_pass_that_changed_nothing_shows_no_marks(page: Page) -> None:
    go_to(page, "dead-code")
    assert graph(page).locator("g.added, g.removed, g.changed, .badge").count() == 0
    assert page.locator(".line.old, .line.new").count() == 0


def test_added_removed_and_changed_operators_are_marked_in_graph_and_text(page: Page) -> None:
    go_to(page, "simplify")
    assert graph(page).locator("g.removed").first.get_attribute("aria-label") is not None
    gone = graph(page).locator("g.removed").first
    assert gone.locator("rect.body").evaluate("(e) => getComputedStyle(e).strokeDasharray") != "none"
    assert (gone.text_content() or "").endswith("removed")
    assert [line[1:].split("(")[0].strip() for line in page.locator(".line.old").all_inner_texts()] == ["elementwise_mul", "scale"]
    assert [line[1:].split("(")[0].strip() for line in page.locator(".line.new").all_inner_texts()] == ["square", "scale"]


def test_the_diff_does_not_mark_renumbering(window: Window, tmp_path: Path) -> None:
    """When the first of two values of a name goes, the other is called without a number: nothing about it has changed."""
    text = """program { block 0 {
      var x: float32[2]
      var y: float32[2]
      var z: float32[2]
      tanh(X=x) -> (Out=y)
      exp(X=x) -> (Out=y)
      relu(X=y) -> (Out=z)
    } }"""
    page = window.open(ga.view(ga.Program.parse(text), "dead-code", tmp_path / "page.html").path or tmp_path)
    assert any("y#1" in line for line in lines(page))
    page.keyboard.press("ArrowRight")
    assert not any("y#1" in line for line in lines(page))
    assert [line[1:].split("(")[0].strip() for line in page.locator(".line.old").all_inner_texts()] == ["tanh"]
    assert page.locator(".line.new").count() == 0
    assert graph(page).locator("g.changed").count() == 0


# -- selection -------------------------------------------------------------------------------------


def test_a_click_shows_details_and_the_line(page: Page) -> None:
    go_to(page, "create-grad-vars")
    shape(page, "tanh").click()
    said = details(page).inner_text()
    assert said.startswith("tanh")
    assert "float32[-1, 8]" in said
    assert re.search(r"its gradient is\s+tanh_grad", said)
    assert "programs.py:" in said
    assert 'act="tanh"' in details(page).locator(".here").inner_text()
    assert page.locator(".line.on").inner_text().startswith(" ") or "tanh(" in page.locator(".line.on").inner_text()


def test_a_line_selects_its_operator(page: Page) -> None:
    page.locator(".line", has_text="softmax_with_cross_entropy(").click()
    assert details(page).locator("h2").inner_text().startswith("softmax_with_cross_entropy")
    assert "selected" in (shape(page, "softmax_with_cross_entropy").get_attribute("class") or "")


def test_attributes_provenance_and_cost_are_there(page: Page) -> None:
    go_to(page, "dead-code")
    page.locator(".line", has_text=re.compile(r"\Wscale\(")).first.click()
    assert re.search(r"Attributes\s+scale\s+3\.0", details(page).inner_text())
    page.locator(".line", has_text=re.compile(r"\Wsquare\(")).first.click()
    said = details(page).inner_text()
    assert "made by simplify, rule multiply-by-itself" in said
    assert re.search(r"from\s+elementwise_mul -> ", said)
    assert "programs.py:" in said.split("Provenance")[1]
    assert re.search(r"Cost\s+operations\s+\d+", said)


def test_values_are_described_with_producers_and_consumers(page: Page) -> None:
    page.locator(".line", has_text="tanh(").first.click()
    details(page).get_by_role("button", name="fc_0.tmp_2").first.click()
    said = details(page).inner_text()
    assert re.search(r"Producer\s+tanh", said)
    assert re.search(r"Consumers\s+elementwise_mul", said)


def test_statistics_of_the_feed_are_shown(page: Page) -> None:
    page.locator(".line", has_text="tanh(").first.click()
    said = details(page).inner_text()
    assert re.search(r"Values of fc_0\.tmp_2[\s\S]*min\s+0\.\d+[\s\S]*max\s+0\.\d+[\s\S]*mean\s+0\.\d+[\s\S]*nan\s+none", said)
    assert details(page).get_by_role("img", name=re.compile("histogram")).count() == 1
    page.keyboard.press("Escape")
    assert "Drawn at random" in details(page).inner_text()


def test_statistics_of_values_in_loops_say_how_often_they_were_computed(window: Window, pages: dict[str, Path]) -> None:
    page = window.open(pages["loop"])
    page.get_by_role("searchbox").fill("tanh")
    page.keyboard.press("Enter")
    said = details(page).inner_text()
    assert re.search(r"Values of tanh_0\.tmp_0[\s\S]*min\s+-?0\.\d+[\s\S]*computed\s+3 times", said)
    assert details(page).get_by_role("img", name=re.compile("histogram")).count() == 1
    ranges = details(page).get_by_role("img", name=re.compile("ranges of 3 iterations"))
    assert ranges.locator("rect").count() == 3


def test_operators_say_what_time_they_took_and_can_be_colored_by_it(window: Window, pages: dict[str, Path]) -> None:
    page = window.open(pages["training"])
    assert graph(page).get_by_role("img", name=re.compile("^colors: ")).count() == 0
    plain = shape(page, "tanh").locator("rect").evaluate("(e) => getComputedStyle(e).fill")
    shape(page, "tanh").click()
    assert re.search(r"time\s+[\d.]+ [µm]?s \([\d.]+ % of the run\)", details(page).inner_text())
    names = []
    for _ in range(3):
        page.get_by_role("button", name="color by").click()
        names.append(graph(page).get_by_role("img", name=re.compile("^colors: ")).get_attribute("aria-label") or "")
    assert [name.split(": ")[1].split(" from ")[0] for name in names] == ["operations", "bytes moved", "time, measured"]
    assert shape(page, "tanh").locator("rect").evaluate("(e) => getComputedStyle(e).fill") != plain
    assert "color=time" in window.settled().url
    window.page.reload()
    assert graph(page).get_by_role("img", name=re.compile("^colors: time")).count() == 1
    page.keyboard.press("t")
    assert graph(page).get_by_role("img", name=re.compile("^colors: ")).count() == 0
    assert shape(page, "tanh").locator("rect").evaluate("(e) => getComputedStyle(e).fill") == plain


def test_arrows_end_in_the_direction_that_they_go(page: Page) -> None:
    """From rank to rank downwards, whether or not the boxes are right above one another."""
    at = "p.getPointAtLength(p.getTotalLength()"
    end = f"(p) => {{ const a = {at} - 2), b = {at}); return [b.x - a.x, b.y - a.y]; }}"
    paths = graph(page).locator("path.arrow:not(.saved)").evaluate_all(f"(paths) => paths.map({end})")
    assert len(paths) > 5
    assert all(down > abs(across) for across, down in paths)
    drawn = graph(page).locator("path.arrow").evaluate_all("(paths) => paths.map((path) => path.getAttribute('d'))")
    assert not any(re.search(r"(?<![\d.])([\d.]+)V\1(?![\d.])", path) for path in drawn), "a head at the end of nothing has no direction"


def test_partners_are_highlighted_together(page: Page) -> None:
    go_to(page, "create-grad-vars")
    shape(page, "tanh").click()
    assert "partner" in (shape(page, "tanh_grad").get_attribute("class") or "")
    page.keyboard.press("g")
    assert details(page).locator("h2").inner_text().startswith("tanh_grad")
    assert "partner" in (shape(page, "tanh").get_attribute("class") or "")


def test_derivatives_of_derivatives_are_told_apart_and_have_partners(window: Window, tmp_path: Path) -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [3], append_batch_size=False, stop_gradient=False)
        y: ga.Variable | None = ga.layers.tanh(x)
        for _ in range(3):
            assert y is not None
            (y,) = ga.gradients(ga.layers.reduce_sum(y), [x])
    page = window.open(Path(ga.view(program, path=tmp_path / "page.html").path or ""))
    for order in (2, 3):
        boxes = graph(page).locator(f"g.shape.order-{order}")
        assert boxes.count() > 4
        assert f"backward, of order {order}" in (boxes.first.get_attribute("aria-label") or "")
    page.locator(".line", has_text="scale_grad(").first.click()
    said = details(page).inner_text()
    assert re.search(r"operator of the backward, of order [23]", said)
    assert "gradient of scale" in said
    assert graph(page).locator("g.partner").count() >= 1


def test_hovering_shows_producers_and_consumers(page: Page) -> None:
    shape(page, "tanh").hover()
    assert "producer" in (shape(page, "elementwise_add").get_attribute("class") or "")
    assert "consumer" in (shape(page, "elementwise_mul").get_attribute("class") or "")
    assert page.get_by_role("status").inner_text() == "tanh: producers elementwise_add; consumers elementwise_mul"


def test_a_page_opens_where_what_it_was_written_for_is_seen(window: Window, tmp_path: Path) -> None:
    program, pipeline = training()
    path = tmp_path / "page.html"
    record(ga.lower(program), ga.Pipeline.parse(f"cse, {pipeline}"), path, at_change=True)
    page = window.open(path)
    assert page.locator("[role=option][aria-selected=true]").inner_text().startswith("simplify")  # cse and what is before changed nothing
    assert graph(page).locator(".shape.added, .shape.changed, .shape.removed").count() > 0
    page = window.open(path, "#pass=0")
    assert page.locator("[role=option][aria-selected=true]").inner_text().startswith("before")


# -- search ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "heading"),
    [
        ("tanh", "tanh"),
        ("fc_1.w_0", "fc_1.w_0"),
        ("scale=3", "scale"),
        ("int64[-1,1]", "label"),
        ("softm cross", "softmax_with_cross_entropy"),
    ],
)
def test_search_by_type_name_attribute_and_shape(query: str, heading: str, page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type(query)
    page.keyboard.press("Enter")
    assert details(page).locator("h2").inner_text().split()[0] == heading
    assert page.get_by_role("searchbox").input_value() == query


def test_enter_again_takes_the_next_match_and_escape_leaves(page: Page) -> None:
    box = page.get_by_role("searchbox")
    box.fill("elementwise_add")
    box.press("Enter")
    first = page.locator(".line.on").inner_text()
    box.press("Enter")
    assert page.locator(".line.on").inner_text() != first
    box.press("Escape")
    assert box.input_value() == ""
    page.keyboard.press("ArrowRight")
    assert selected(page) == "simplify"


def test_after_a_match_was_taken_keys_zoom_until_something_is_typed(window: Window, page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("tanh")
    page.keyboard.press("Enter")
    before = scale(page)
    page.keyboard.press("+")
    window.settled()
    assert scale(page) > before
    page.keyboard.type("_grad-")
    assert page.get_by_role("searchbox").input_value() == "tanh_grad-"


def test_what_is_typed_after_a_slash_replaces_what_was_looked_for(page: Page) -> None:
    for query in ("tanh", "scale", "mean"):
        page.keyboard.press("/")
        page.keyboard.type(query)
        page.keyboard.press("Enter")
        assert details(page).locator("h2").inner_text().split()[0] == query
    shape(page, "tanh").click()
    page.keyboard.press("/")
    page.keyboard.type("square")
    assert page.get_by_role("searchbox").input_value() == "square"


def test_a_value_that_is_named_in_its_readers_is_seen_there(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("fc_1.w_0")
    page.keyboard.press("Enter")
    assert "fc_1.w_0" in (graph(page).locator("g.selected").get_attribute("aria-label") or "")


def test_nothing_found_is_said(page: Page) -> None:
    page.get_by_role("searchbox").fill("zzz")
    assert page.get_by_text("nothing found").is_visible()


# -- view ------------------------------------------------------------------------------------------


def test_wheel_keys_and_fit_zoom(window: Window, page: Page) -> None:
    start = scale(page)
    graph(page).hover()
    page.mouse.wheel(0, -300)
    window.settled()
    assert scale(page) > start * 1.2
    page.keyboard.press("-")
    page.keyboard.press("-")
    page.keyboard.press("-")
    assert scale(page) < start
    page.keyboard.press("+")
    before = scale(page)
    page.keyboard.press("f")
    assert scale(page) != before
    box, inner = graph(page).bounding_box(), graph(page).locator("svg.canvas > g").bounding_box()
    assert box is not None
    assert inner is not None
    assert inner["x"] >= box["x"] - 1
    assert inner["y"] >= box["y"] - 1
    assert inner["y"] + inner["height"] <= box["y"] + box["height"] + 1


def test_dragging_pans(page: Page) -> None:
    before = shape(page, "tanh").bounding_box()
    frame = graph(page).bounding_box()
    assert frame is not None
    assert before is not None
    x, y = frame["x"] + 30, frame["y"] + 30
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 40, y + 25, steps=4)
    page.mouse.up()
    after = shape(page, "tanh").bounding_box()
    assert after is not None
    assert (round(after["x"] - before["x"]), round(after["y"] - before["y"])) == (40, 25)
    assert details(page).locator("h2").inner_text().startswith("before")


def test_two_fingers_zoom(page: Page) -> None:
    before = scale(page)
    page.evaluate(
        """() => {
            const canvas = document.querySelector("svg.canvas");
            const send = (type, pointerId, clientX) =>
                canvas.dispatchEvent(new PointerEvent(type, { pointerId, clientX, clientY: 300, bubbles: true, button: 0 }));
            send("pointerdown", 11, 500);
            send("pointerdown", 12, 600);
            send("pointermove", 11, 450);
            send("pointermove", 12, 650);
            send("pointerup", 11, 450);
            send("pointerup", 12, 650);
        }"""
    )
    assert scale(page) == pytest.approx(2 * before, rel=1e-3)
    assert details(page).locator("h2").inner_text().startswith("before")


@pytest.mark.parametrize("name", PROGRAMS)
def test_labels_can_be_read_at_first_sight(name: str, window: Window, pages: dict[str, Path]) -> None:
    for hash in ("", "#pass=3"):
        page = window.open(pages[name], hash)
        heights = page.evaluate(
            """() => [...document.querySelectorAll('[aria-label=graph] text')].map(
                (e) => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a)"""
        )
        assert len(heights) > 10
        assert min(heights) >= 9


def test_first_sight_is_of_the_forward_and_of_what_the_pass_changed(browser: Browser, tmp_path: Path) -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        h = ga.layers.data("x", [6])
        for kind in (ga.layers.tanh, ga.layers.exp, ga.layers.sin, ga.layers.sqrt, ga.layers.cos, ga.layers.softplus, ga.layers.square):
            h = kind(ga.layers.fc(h, 8))
        ga.optimizer.SGD(0.1).minimize(ga.layers.mean(ga.layers.transpose(ga.layers.transpose(h, [1, 0]), [1, 0])))
    window = Window(browser, 400, 800)
    path = ga.view(program, "simplify", tmp_path / "page.html").path or tmp_path
    pane = graph(window.page)

    def is_seen(box: Locator) -> bool:
        outer, inner = pane.bounding_box(), box.bounding_box()
        assert outer is not None
        assert inner is not None
        is_across = outer["x"] <= inner["x"] and inner["x"] + inner["width"] <= outer["x"] + outer["width"]
        return is_across and outer["y"] <= inner["y"] and inner["y"] + inner["height"] <= outer["y"] + outer["height"]

    page = window.open(path)
    assert is_seen(shape(page, "mul")), "not the update at its right, which is higher"
    page = window.open(path, "#pass=1")
    marked = pane.locator("g.shape.removed, g.shape.changed, g.shape.added")
    assert any(map(is_seen, marked.all()))
    window.close()


def test_the_map_shows_large_graphs_and_moves_them(window: Window, pages: dict[str, Path]) -> None:
    page = window.open(pages["repeated"])
    page.keyboard.press("o")
    page.keyboard.press("1")
    small = page.locator("svg.minimap")
    assert small.is_visible()
    before = graph(page).locator("svg.canvas > g").get_attribute("transform")
    small.click(position={"x": 20, "y": 120})
    assert graph(page).locator("svg.canvas > g").get_attribute("transform") != before


def test_the_same_place_stays_in_sight_from_pass_to_pass(page: Page) -> None:
    go_to(page, "create-grad-vars")
    shape(page, "tanh").click()
    before = shape(page, "tanh").bounding_box()
    page.keyboard.press("ArrowRight")
    after = shape(page, "tanh").bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["x"] - before["x"]) < 2
    assert abs(after["y"] - before["y"]) < 2


# -- groups ----------------------------------------------------------------------------------------


def test_nested_graphs_open_and_close(window: Window, pages: dict[str, Path]) -> None:
    page = window.open(pages["loop"])
    assert shape(page, "gather").is_visible()
    many = graph(page).locator("g.shape").count()
    toggle = graph(page).get_by_role("button", name="close while")
    assert toggle.get_attribute("aria-expanded") == "true"
    toggle.click()
    assert shape(page, "gather").count() == 0
    assert graph(page).locator("g.shape").count() < many
    assert shape(page, "while").get_attribute("aria-label") == "while, 11 operators, forward, closed group"
    page.locator(".line", has_text="gather(").click()
    assert shape(page, "gather").is_visible(), "what is selected elsewhere is brought into sight"


def test_branches_are_frames_in_a_frame(window: Window, pages: dict[str, Path]) -> None:
    page = window.open(pages["branches"], "#pass=5")
    frames = [graph(page).locator(f"g.branch.{role}.open") for role in ("forward", "backward")]
    assert [frame.count() for frame in frames] == [2, 2]


def test_repeated_layers_are_drawn_once(window: Window, pages: dict[str, Path]) -> None:
    page = window.open(pages["repeated"], "#pass=2")
    assert graph(page).locator("g.shape").count() < 40
    folded = graph(page).locator("g.repeat.backward")
    assert re.match(r"(59|60) \N{MULTIPLICATION SIGN} ", folded.locator(".title").text_content() or "")
    folded.click()
    said = details(page).inner_text()
    assert re.search(r"operators\s+(413|420)", said)
    assert "What differs" in said
    page.keyboard.press("Enter")
    assert graph(page).locator("g.turn.backward").count() in (59, 60)
    page.keyboard.press("f")
    graph(page).get_by_label(re.compile("^1 of .*backward")).click()
    page.keyboard.press("Enter")
    assert graph(page).locator("g.turn.backward.open").count() == 1


def test_equal_readers_and_equal_scopes_are_drawn_once_forward_and_backward(window: Window, tmp_path: Path) -> None:
    program, pipeline = fan_out()
    page = window.open(ga.view(program, pipeline, tmp_path / "page.html").path or tmp_path, "#pass=5")
    assert titles(page, "g.repeat.forward") == ["40 \N{MULTIPLICATION SIGN} tanh, scale", "4 \N{MULTIPLICATION SIGN} block_0 … block_3"]
    assert sorted(titles(page, "g.repeat.backward")) == [
        "4 \N{MULTIPLICATION SIGN} block_0 … block_3",
        "40 \N{MULTIPLICATION SIGN} scale_grad, tanh_grad",
    ]
    readers = graph(page).locator("path.arrow.flow").evaluate_all("(paths) => paths.length")
    assert readers < 20, "what forty operators in one box read is one arrow"
    graph(page).locator("g.repeat.forward").nth(1).click()
    said = details(page).inner_text()
    assert re.search(r"mul: types\s+float32\[-1, 8\], float32\[-1, 9\]", said)
    page.locator(".line", has_text="scale=7.0").first.click()
    assert graph(page).locator("g.turn.open").count() == 1, "what is selected elsewhere is brought into sight"
    wide, high = (float(graph(page).locator("g.repeat.open > rect.body").first.get_attribute(side) or 0) for side in ("width", "height"))
    assert wide < 2 * high, "forty copies side by side are in rows"


def titles(page: Page, selector: str) -> list[str]:
    return graph(page).locator(f"{selector} > text.title").all_text_contents()


def test_lines_to_the_backward_pass_around_boxes_and_titles(window: Window, pages: dict[str, Path]) -> None:
    page = window.open(pages["loop"], "#pass=5")
    crossed = page.evaluate(
        """() => {
            const rect = (e) => e.getBoundingClientRect();
            const boxes = [...document.querySelectorAll("g.shape:not(.open) > rect.body:not(.under), g.open > text.title")].map(rect);
            return [...document.querySelectorAll("path.arrow.saved")].filter((path) => {
                const m = path.getScreenCTM(), length = path.getTotalLength();
                const at = (l) => { const p = path.getPointAtLength(l); return [m.a * p.x + m.e, m.d * p.y + m.f]; };
                const points = Array.from({ length: 200 }, (_, i) => at(4 + (i * (length - 8)) / 200));
                return boxes.some((b) => points.some(([x, y]) => x > b.left + 2 && x < b.right - 2 && y > b.top + 2 && y < b.bottom - 2));
            }).length;
        }"""
    )
    assert graph(page).locator("path.arrow.saved").count() > 5
    assert crossed == 0


def test_name_scopes_are_groups(window: Window, tmp_path: Path) -> None:
    program = ga.Program()
    with ga.program_guard(program):
        block = program.global_block()
        block.create_var(name="x", shape=[2], dtype="float32")
        names = ["x", "a", "b", "c"]
        for before, after, scope in zip(names, names[1:], ["/encoder/first/", "/encoder/second/", "/"], strict=False):
            block.create_var(name=after, shape=[2], dtype="float32")
            block.append_op(type="tanh", inputs={"X": before}, outputs={"Out": after}, attrs={"op_namescope": scope})
    page = window.open(ga.view(program, None, tmp_path / "page.html").path or tmp_path)
    assert [title for title in graph(page).locator("g.scope > text.title").all_text_contents()] == ["encoder", "first", "second"]
    page.keyboard.press("c")
    assert graph(page).locator("g.scope > text.title").all_text_contents() == ["encoder"]


def test_groups_of_forward_and_backward_are_side_by_side(window: Window, tmp_path: Path) -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        h = ga.layers.data("x", [4], stop_gradient=False)
        for i in range(3):
            start = len(program.global_block().ops)
            h = ga.layers.fc(h, 4, act="tanh")
            for op in program.global_block().ops[start:]:
                op.attrs = {**op.attrs, "op_namescope": f"/layer_{i}/"}
        cost = ga.layers.mean(h)
    page = window.open(ga.view(program, ga.backward_pipeline((cost.name,)), tmp_path / "page.html").path or tmp_path, "#pass=5")
    for i in range(3):
        frames = graph(page).locator("g.scope.open").filter(has=page.locator(f"xpath=./*[text()='layer_{i}']"))
        assert frames.count() == 2
        forward, backward = (frames.nth(k).bounding_box() for k in range(2))
        assert forward is not None
        assert backward is not None
        middles = [box["y"] + box["height"] / 2 for box in (forward, backward)]
        assert abs(middles[0] - middles[1]) < min(forward["height"], backward["height"]) / 2


# -- state, keys, export ---------------------------------------------------------------------------


def test_reloading_restores_pass_selection_and_zoom(window: Window, page: Page) -> None:
    go_to(page, "create-grad-vars")
    shape(page, "tanh").click()
    page.keyboard.press("+")
    window.settled()
    where, heading, zoom = page.evaluate("location.hash"), details(page).locator("h2").inner_text(), scale(page)
    assert "pass=6" in where
    assert "sel=o" in where
    assert "zoom=" in where
    page.reload()
    page.get_by_role("option").first.wait_for()
    assert selected(page) == "create-grad-vars"
    assert details(page).locator("h2").inner_text() == heading
    assert scale(page) == pytest.approx(zoom, abs=2e-3)


def test_a_strange_address_is_no_error(window: Window, pages: dict[str, Path]) -> None:
    page = window.open(pages["training"], "#pass=99&step=7&sel=o99999&zoom=nan&groups=,-,zz")
    assert selected(page) == "dead-code"


def test_the_keys_are_listed(page: Page) -> None:
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    shown = dialog.locator("kbd").all_inner_texts()
    assert {"/", "←", "→", "f", "?", "+", "-"} <= set(shown)
    page.keyboard.press("?")
    assert not dialog.is_visible()
    page.get_by_role("button", name="keys (?)").click()
    assert dialog.is_visible()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_the_picture_is_saved_as_svg(page: Page, tmp_path: Path) -> None:
    go_to(page, "simplify")
    with page.expect_download() as download:
        page.keyboard.press("s")
    assert download.value.suggested_filename == "training-simplify.svg"
    path = tmp_path / "saved.svg"
    download.value.save_as(path)
    root = ElementTree.parse(path).getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"tanh", "softmax_with_cross_entropy"} <= set(texts)
    boxes = [element for element in root.iter("{http://www.w3.org/2000/svg}rect") if element.get("stroke")]
    assert len({box.get("stroke") for box in boxes}) >= 4, "each box has the colors that it has on the page"
    heads = {element.get("id") for element in root.iter("{http://www.w3.org/2000/svg}marker")}
    ends = {path.get("marker-end") for path in root.iter("{http://www.w3.org/2000/svg}path") if path.get("fill") == "none"}
    assert ends, "there are arrows"
    assert ends <= {f"url(#{head})" for head in heads}, "arrows have heads"


def test_all_of_a_large_drawing_is_saved_and_not_what_is_in_sight_alone(window: Window, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kinds = [ga.layers.tanh, ga.layers.exp, ga.layers.relu, ga.layers.sigmoid, ga.layers.square, ga.layers.abs, ga.layers.floor]
    program = ga.Program()
    with ga.program_guard(program):
        values = [ga.layers.data("x", [4])]
        for kind in rng.integers(len(kinds), size=600):
            values.append(kinds[kind](values[-1 - int(rng.integers(min(len(values), 4)))]))
    page = window.open(ga.view(program, None, tmp_path / "page.html").path or tmp_path)
    assert 600 / 31 <= graph(page).locator("g.part:not(.open)").count() <= 600 / 19, "what does not repeat is shown in parts"
    assert graph(page).locator("g.part .row", has_text="tanh \N{MULTIPLICATION SIGN} ").count() > 4
    page.locator(".line", has_text="tanh(").nth(30).click()
    assert graph(page).locator("g.part.open").count() == 1, "what is selected elsewhere is brought into sight"
    page.keyboard.press("o")
    page.keyboard.press("f")
    window.settled()
    assert graph(page).locator("g.shape").count() < 100, "from afar boxes are drawn as a few paths"
    with page.expect_download() as download:
        page.keyboard.press("s")
    download.value.save_as(tmp_path / "saved.svg")
    saved = [element.text for element in ElementTree.parse(tmp_path / "saved.svg").getroot().iter("{http://www.w3.org/2000/svg}text")]
    assert sum(text in {kind.__name__ for kind in kinds} for text in saved) > 400
    assert graph(page).locator("g.shape").count() < 100


# -- sizes and schemes -----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), one_in(2, [(1400, 900), (900, 700), (400, 800)]))
def test_panes_fit_at_every_size(width: int, height: int, scheme: str, browser: Browser, pages: dict[str, Path]) -> None:
    window = Window(browser, width, height, scheme)
    page = window.open(pages["training"])
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.get_by_role("listbox").is_visible()
    assert page.get_by_role("searchbox").is_visible()
    box = graph(page).bounding_box()
    assert box is not None
    assert box["width"] >= 0.4 * width
    assert box["height"] >= 200
    shape(page, "mul").click()
    assert details(page).is_visible(), "on a narrow screen the details come up when something is selected"
    red, green, blue = (
        int(part) for part in re.findall(r"\d+", page.evaluate("() => getComputedStyle(document.body).backgroundColor"))[:3]
    )
    assert (red + green + blue > 500) == (scheme == "light")
    window.close()


def test_contrast_of_texts(browser: Browser, pages: dict[str, Path]) -> None:
    """WCAG 2.1 asks for 4.5 between a text and what is behind it."""
    for scheme in ("light", "dark"):
        window = Window(browser, scheme=scheme)
        page = window.open(pages["training"], "#pass=3")
        for selector, behind in (
            ("[role=option] .note", ".passes"),
            (".line .t", ".program"),
            ("g.forward .row", "g.forward .body"),
            ("g.backward .row", "g.backward .body"),
        ):
            colors = page.evaluate(
                """([a, b]) => [a, b].map((s) => {
                    const [element, style] = [document.querySelector(s), getComputedStyle(document.querySelector(s))];
                    return element instanceof SVGElement ? style.fill : s === b ? style.backgroundColor : style.color; })""",
                [selector, behind],
            )
            assert contrast(*colors) >= 4.5, (scheme, selector, colors)
        window.close()


def contrast(one: str, other: str) -> float:
    """The ratio of luminances of two colors."""

    def luminance(color: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


# -- notebooks and failures ------------------------------------------------------------------------


def test_a_notebook_shows_the_page_in_a_frame(window: Window, tmp_path: Path) -> None:
    program, pipeline = PROGRAMS["training"]()
    shown = ga.view(program, pipeline)._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!doctype html><body>{shown}</body>", encoding="utf-8")
    window.page.goto((tmp_path / "notebook.html").as_uri())
    frame = window.page.frame_locator("iframe")
    frame.get_by_role("option").nth(3).click()
    assert frame.get_by_label("graph", exact=True).locator("g.added").count() > 5


def test_a_failing_pass_leaves_a_page_up_to_the_failure(window: Window, tmp_path: Path) -> None:
    program, _ = PROGRAMS["training"]()
    with pytest.raises(ga.errors.GraphadError, match=r"the page up to the failure: .*page\.html"):
        ga.view(program, "simplify, create-grad-ops", tmp_path / "page.html")
    page = window.open(tmp_path / "page.html")
    page.get_by_role("option").last.click()
    assert "requires OpPath" in details(page).inner_text()
