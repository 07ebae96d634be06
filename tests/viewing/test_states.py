"""The data that a page stores of a pipeline: the states that follow from it are the graphs, and each rewrite has its rule and its line."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.rewriting import Pass, Step, observing
from graphad.viewing.recording import Recorder
from graphad.viewing.states import Delta, States
from graphad.viewing.statistics import MOST_KEPT, MOST_RANGES, _Seen, statistics
from graphad.viewing.tables import Tables
from tests.source_tree import ROOT
from tests.viewing.programs import PROGRAMS, loop, repeated, training


def stored(page: str) -> dict[str, Any]:
    """The data in a page."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    data: dict[str, Any] = json.loads(found)
    return data


class Followed:
    """Operators, values and orders as the page has them, from deltas alone."""

    def __init__(self) -> None:
        self.records: dict[int, Any] = {}
        self.orders: dict[int, list[int]] = {}

    def apply(self, delta: Delta) -> None:
        self.records |= {**delta.ops, **delta.values, **delta.graphs}
        for number in delta.gone:
            self.records.pop(number)
            self.orders.pop(number, None)
        for graph, runs in delta.orders.items():
            self.orders[graph] = [first + i for first, count in zip(runs[::2], runs[1::2], strict=True) for i in range(count)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_deltas_make_the_states_that_are_looked_at(name: str) -> None:
    """A second recorder that looks at all after each pass sees the records that the deltas of all rewrites add up to."""
    program, pipeline = PROGRAMS[name]()
    graph = ga.lower(program)
    recorder, followed = Recorder(graph), Followed()
    seen: list[tuple[dict[int, Any], dict[int, list[int]]]] = []

    def observe(each: Pass, changed: ga.Graph, step: Step) -> None:
        if changed is graph and not each.combines:
            fresh = States(graph, recorder.tables)
            fresh.numbers = recorder.states.numbers
            whole = fresh.everything()
            seen.append(
                (
                    {**whole.ops, **whole.values, **whole.graphs},
                    {fresh.number(each): [fresh.number(op) for op in each.ops] for each in graph.tree()},
                )
            )

    with recorder.recording(), observing(observe):
        ga.Pipeline.parse(pipeline).run(graph)
    followed.apply(recorder.frames[0].delta)
    assert len(seen) == len(recorder.frames) - 1
    for frame, (records, orders) in zip(recorder.frames[1:], seen, strict=True):
        for rewrite in frame.rewrites:
            followed.apply(rewrite.delta)
        followed.apply(frame.delta)
        assert followed.records == records
        assert followed.orders == orders


def test_rewrites_have_rules_operators_and_lines() -> None:
    program, pipeline = training()
    data = stored(ga.view(program, pipeline).html)
    texts, lines = data["tables"]["texts"], data["tables"]["lines"]
    (rule, seen, line, _), *_ = data["frames"][1]["rewrites"]
    assert texts[rule] == "multiply-by-itself"
    assert len(seen) == 1
    file, number = lines[line]
    written = (ROOT / "passes" / Path(file).relative_to("graphad/passes")).read_text(encoding="utf-8").splitlines()
    assert any("multiply_by_itself" in text for text in written[number - 3 : number + 3])
    assert data["tables"]["files"][file][str(number)] == written[number - 1]


def test_a_rewrite_of_a_pass_without_rules_has_the_line_that_begins_it() -> None:
    program = ga.Program.parse(
        "program { block 0 { var x: float32[2] var y: float32[2] var z: float32[2] tanh(X=x) -> (Out=y) exp(X=x) -> (Out=z) } }"
    )
    graph = ga.lower(program, ["z"])
    with (recorder := Recorder(graph)).recording():
        ga.Pipeline.parse("dead-code").run(graph)
    (rewrite,) = recorder.frames[1].rewrites
    source = recorder.tables.lines.items[rewrite.line]
    line = Path(source.file).read_text(encoding="utf-8").splitlines()[source.line - 1]
    assert Path(source.file).name == "dead_code.py"
    assert f'allows("{rewrite.rule}"' in line
    assert graph.journal.watcher is None


def test_the_graph_is_not_changed_and_pages_are_the_same_on_every_run() -> None:
    program, pipeline = training()
    graph = ga.lower(program)
    before = str(graph)
    first, second = (ga.view(graph, pipeline).html for _ in range(2))
    assert str(graph) == before
    timeless = [re.sub(r'"ms":[\d.]+', "", page) for page in (first, second)]
    assert timeless[0] == timeless[1]


def test_recording_changes_nothing_about_what_passes_do() -> None:
    for made in PROGRAMS.values():
        program, pipeline = made()
        plain, watched = ga.lower(program), ga.lower(program)
        ga.Pipeline.parse(pipeline).run(plain)
        with Recorder(watched).recording():
            ga.Pipeline.parse(pipeline).run(watched)
        assert str(watched) == str(plain)
        assert watched.journal.rewrites == plain.journal.rewrites


def test_the_program_cannot_end_the_script_it_is_in() -> None:
    program = ga.Program()
    block = program.global_block()
    block.create_var(name="x", shape=[1], dtype="float32")
    block.append_op(type="tanh", inputs={"X": "x"}, outputs={"Out": "</script><b>y"})
    page = ga.view(program, title="<i>&").html
    assert stored(page)["title"] == "<i>&"
    assert "<title>&lt;i&gt;&amp;</title>" in page
    assert "</script><b>y" not in page


def test_a_name_that_has_no_form_in_utf_8_is_escaped(tmp_path: Path) -> None:
    program = ga.Program.parse('program { block 0 { var "\\ud800": float32[2] tanh(X="\\ud800") -> (Out=y) } }')
    ga.view(program, path=tmp_path / "page.html")
    data = stored((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert any("\ud800" in text for text in data["tables"]["texts"])


def test_values_are_summed_up_for_forward_and_backward() -> None:
    program, pipeline = training()
    x = np.full((2, 6), 0.5, "float32")
    x[0, 0] = np.nan
    data = stored(ga.view(program, pipeline, feed={"x": x, "label": np.zeros((2, 1), "int64")}).html)
    names = {}
    for frame in data["frames"]:
        for delta in (frame["delta"], *(rewrite[3] for rewrite in frame["rewrites"])):
            names.update({number: data["tables"]["texts"][record[0]] for number, record in delta.get("v", {}).items()})
    found = {names[number]: summary for number, summary in data["values"].items()}
    low, high, mean, bins, nan, infinite, zeros, size = found["x"]
    assert (low, high, mean, nan, infinite, zeros, size) == (0.5, 0.5, 0.5, 1, 0, 0, 12)
    assert bins == [11]
    assert found["fc_0.tmp_2"][4] == 8  # the first row of tanh is nan
    assert found["fc_0.w_0@GRAD"][4] > 0
    assert data["note"].startswith("Drawn at random, since the feed does not have them: fc_0.w_0")


def test_values_in_loops_are_summed_up_over_the_iterations() -> None:
    """The state of the recurrence, against the same one in numpy; its gradient's loop runs as often."""
    program, pipeline = loop()
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 2, 4)).astype("float32"), rng.normal(size=(8, 4)).astype("float32")
    states = [np.zeros((2, 4), "float32")]
    for row in x:
        states.append(np.tanh(np.concatenate([row, states[-1]], axis=1) @ w))
    graph = ga.lower(program)
    recorder = Recorder(graph)
    with recorder.recording():
        ga.Pipeline.parse(pipeline).run(graph)
    found = statistics(graph, {"x": x, "w": w}, recorder.states.numbers)
    by_type = {op.type: op for inner in graph.tree() for op in inner.ops}
    low, high, mean, bins, *_, size, times, ranges = found.found[recorder.states.number(by_type["tanh"].outputs["Out"][0])]
    after = np.stack(states[1:])
    np.testing.assert_allclose([low, high, mean], [after.min(), after.max(), after.mean()], rtol=1e-5)
    np.testing.assert_allclose(ranges, [[state.min(), state.max()] for state in states[1:]], rtol=1e-5)
    assert (size, times, sum(bins)) == (24, 3, 24)
    (carried,) = (value for value in by_type["concat"].inputs["X"] if value.given)
    np.testing.assert_allclose(found.found[recorder.states.number(carried)][-1], [[s.min(), s.max()] for s in states[:3]], rtol=1e-5)
    assert found.found[recorder.states.number(by_type["tanh_grad"].outputs["X@GRAD"][0])][8] == 3
    assert found.seconds.keys() == {recorder.states.number(op) for inner in graph.tree() for op in inner.ops}
    assert all(0 < seconds < 1 for seconds in found.seconds.values())


def test_much_that_a_loop_computes_is_summed_up_in_little_room() -> None:
    seen = _Seen()
    for i in range(200):
        seen.add(np.full(1000, float(i)))
    low, high, mean, bins, *_, size, times, ranges = seen.summary()
    assert (low, high, mean, size, times) == (0.0, 199.0, 99.5, 200_000, 200)
    assert sum(array.size for array in seen.kept) <= MOST_KEPT
    assert max(bins) < 2 * min(bins)
    assert len(ranges) == MOST_RANGES
    assert ranges[-1] == [195.0, 199.0]
    assert all(after[0] > before[1] for before, after in itertools.pairwise(ranges))


def test_numbers_of_the_user_are_colors() -> None:
    program, pipeline = training()
    block = program.global_block()
    data = stored(ga.view(program, pipeline, overlay={block.ops[0]: 2.0, "fc_0.tmp_1": np.inf}, overlay_title="heat").html)
    (overlay,) = data["overlays"]
    assert overlay["title"] == "heat"
    assert sorted(overlay["numbers"].values(), key=str) == [2.0, None]
    graph = ga.lower(program)
    (number,) = stored(ga.view(graph, overlay={next(iter(graph.ops)): 2.0}).html)["overlays"][0]["numbers"].values()
    assert number == 2.0
    with pytest.raises(ValueError, match="overlay has no operator or value of this graph, but 'nothing'"):
        ga.view(program, overlay={"nothing": 1.0})


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({"z": np.zeros(1)}, "the feed has 'z', which is no input of the program"),
        ({"x": np.zeros((2, 5), "float32")}, r"shape \[2, 5\]"),
        ({"x": np.zeros((2, 6), "float32")}, "label"),
    ],
)
def test_a_wrong_feed_is_an_error(feed: dict[str, Any], message: str) -> None:
    program, pipeline = training()
    with pytest.raises(ga.errors.GraphadError, match=message):
        ga.view(program, pipeline, feed=feed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((3,), "a Program or a Graph is viewed, not 3"), ((ga.Program(), 3), "a pipeline is a Pass, its text or None, not 3")],
)
def test_what_is_no_program_and_no_pipeline_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ga.view(*arguments)


def test_operators_say_which_name_scope_they_were_written_in() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [2])
        with ga.name_scope("encoder"):
            ga.layers.tanh(x)
    graph, tables = ga.lower(program), Tables()
    (tanh,) = graph.ops
    assert tables.texts.items[States(graph, tables).op_record(tanh)[11]] == "encoder"


def test_a_page_of_2000_operators_is_small() -> None:
    program, pipeline = repeated(290)
    assert len(program.global_block().ops) > 2000
    page = ga.view(program, pipeline)
    assert len(stored(page.html)["frames"]) == 6
    assert len(page.html.encode()) < 5_000_000


def test_tables_store_things_once() -> None:
    tables = Tables()
    assert tables.attrs({"a": 1}) == tables.attrs({"a": 1}) != tables.attrs({"a": 2})
    assert tables.attrs({}) == tables.text(None) == tables.line(None) == tables.origin(None) == -1


def test_a_title_may_be_any_text() -> None:
    page = ga.view(training()[0], title="{{data}} <1> {{nothing}}").html
    assert "<title>{{data}} &lt;1&gt; {{nothing}}</title>" in page
    assert page.count('id="data"') == 1
