"""Results that one looks at: tables, curves, reports of pipelines, histories, experiments, notebook forms."""

import csv
import io
import math
import re
import sys
import xml.dom.minidom
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import graphad as ga
from graphad import layers as L
from graphad.ir import Op
from graphad.rewriting import Report
from graphad.showing import Table, bars, curves, ticks
from graphad.testing import check_pass
from graphad.training import History

TABLE = Table(("name", "count", "share"), (("a<b", 12345, 0.123456), ("c", 7, math.nan)))


def network() -> tuple[ga.Program, ga.Variable]:
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        x = L.data("x", shape=[4])
        hidden = L.fc(x, 3, act="relu") + L.relu(x)[:, :3] + L.relu(x)[:, :3]
        loss = L.mean(hidden)
    return main, loss


def test_a_table_shows_itself_in_every_form() -> None:
    assert str(TABLE) == "name   count   share\na<b   12 345  0.1235\nc          7     nan"
    assert "<td" in TABLE.html()
    assert "a&lt;b" in TABLE.html()
    xml.dom.minidom.parseString(TABLE.html())
    assert [*csv.reader(io.StringIO(TABLE.csv()))] == [["name", "count", "share"], ["a<b", "12345", "0.123456"], ["c", "7", "nan"]]
    console = Console(file=io.StringIO(), width=60)
    console.print(TABLE)
    assert "12 345" in console.file.getvalue()  # type: ignore[attr-defined]


def test_pandas_is_asked_for_only_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(TypeError, match="a DataFrame needs pandas, which is not installed: pip install pandas"):
        TABLE.pandas()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.2, 17.9), (1e-9, 2e-9), (5.0, 5.0), (math.nan, math.nan), (1e6, 3e6)])
def test_ticks_are_round_and_around_the_numbers(low: float, high: float) -> None:
    marks = ticks(low, high)
    assert 2 <= len(marks) <= 8
    assert marks == sorted(marks)
    if math.isfinite(low):
        assert marks[0] <= low <= high <= marks[-1]


def test_plots_are_xml_and_have_a_point_for_each_number() -> None:
    text = curves({"cost": [3.0, 2.0, math.inf, 1.0], "acc <1>": [0.5]}, title="t")
    lines = xml.dom.minidom.parseString(text).getElementsByTagName("polyline")
    assert [len(line.getAttribute("points").split()) for line in lines] == [3]
    assert len(xml.dom.minidom.parseString(text).getElementsByTagName("circle")) == 1  # a line of one point would be invisible
    heights = [float(point.split(",")[1]) for point in lines[0].getAttribute("points").split()]
    assert heights == sorted(heights)  # smaller numbers are lower
    assert text == curves({"cost": [3.0, 2.0, math.inf, 1.0], "acc <1>": [0.5]}, title="t")


def _words(element: xml.dom.minidom.Element) -> str:
    """The text that an element holds."""
    assert isinstance(element.firstChild, xml.dom.minidom.Text)
    return element.firstChild.data


def test_steps_are_marked_once_and_below_their_points() -> None:
    page = xml.dom.minidom.parseString(curves({"cost": [3.0, 2.0, 1.0]}))
    points = page.getElementsByTagName("polyline")[0].getAttribute("points").split()
    texts = [text for text in page.getElementsByTagName("text") if text.getAttribute("y") == "292.0"]  # those below the axis
    marks = {_words(text): text.getAttribute("x") for text in texts}
    assert marks == {str(step): point.split(",")[0] for step, point in enumerate(points, start=1)}


def test_bars_are_as_long_as_their_numbers_and_names_are_not_cut_off() -> None:
    values = {"as written": 1203544.0, "fixpoint(simplify, cse), 8 micro-batches": 601772.0, "none": math.nan}
    page = xml.dom.minidom.parseString(bars(values, across="memory"))
    widths = [float(rect.getAttribute("width")) for rect in page.getElementsByTagName("rect")[1:]]
    assert widths == [widths[0], pytest.approx(widths[0] / 2, abs=0.2), 0.0]
    texts = {_words(text): text for text in page.getElementsByTagName("text")}
    assert {"as written", "1 203 544", "601 772", "nan", "memory"} <= texts.keys()
    cut = next(name for name in texts if name.endswith("…"))
    # Five units a letter of 12 is what Helvetica needs for such words at least.
    assert float(texts[cut].getAttribute("x")) > 5 * len(cut)
    assert xml.dom.minidom.parseString(bars({}))


# -- reports ---------------------------------------------------------------------------------------


def test_a_pipeline_reports_what_its_passes_did() -> None:
    main, loss = network()
    graph = ga.lower(main, [loss.name])
    count = len(graph.ops)
    report = ga.Pipeline.parse("fixpoint(cse, dead-code), simplify").run(graph)
    assert isinstance(report, Report)
    assert report
    assert report == True  # noqa: E712 - as it was when a bool was returned
    assert report != False  # noqa: E712
    assert report.ops == (count, len(graph.ops))
    assert report.passes[:2] == ("cse", "dead-code")
    assert report.passes[-1] == "simplify"
    assert [step.name for step in report] == [step.name for step in report.steps]
    assert report.rewrites == sum(step.rewrites for step in report) >= 1
    assert report.seconds >= sum(step.seconds for step in report)
    assert f"{count} -> {len(graph.ops)} operators" in repr(report)
    assert str(report).splitlines()[0].split() == ["pass", "changed", "ms", "operators", "values", "rewrites"]
    assert "<table>" in report._repr_html_()


def test_a_report_of_nothing_is_false() -> None:
    graph = ga.lower(ga.Program())
    report = ga.Pipeline.parse("cse").run(graph)
    assert not report
    assert report == False  # noqa: E712
    assert repr(report) == "<Report: nothing changed by 1 pass, 0 operators>"
    assert not ga.Pipeline().run(graph)


# -- notebooks -------------------------------------------------------------------------------------


def shown() -> list[Any]:
    main, _ = network()
    rule = ga.passes.Simplify().rules()
    return [ga.Pipeline.parse("cse, simplify"), main.global_block(), main.global_block().ops[0], rule, rule[0], ga.ops.relu, ga.train]


@pytest.mark.parametrize("at", range(6))
def test_things_have_a_notebook_form_and_a_repr(at: int) -> None:
    thing = shown()[at]
    html = thing._repr_html_()
    assert html.startswith("<")
    xml.dom.minidom.parseString(f"<div>{html.replace('<br>', '<br/>')}</div>")
    assert " at 0x" not in repr(thing)
    assert len(repr(thing)) < 300


def test_a_history_is_a_table_and_curves(tmp_path: Any) -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        x = L.data("x", shape=[2])
        cost = L.mean(L.square(L.fc(x, 1)))
        ga.optimize(cost)
        history = ga.train(cost, [{"x": np.ones((3, 2), "float32")}] * 4, metrics={"twice": cost * 2.0}, progress=False)
    assert repr(history).startswith("<History: 4 steps, cost ")
    assert [row[0] for row in history.table().rows] == [1, 2, 3, 4]
    assert history.table().columns == ("step", "cost", "twice")
    assert history.csv(tmp_path / "h.csv") == (tmp_path / "h.csv").read_text()
    assert len(xml.dom.minidom.parseString(history.plot(tmp_path / "h.svg")).getElementsByTagName("polyline")) == 2
    assert (tmp_path / "h.svg").read_text() in history._repr_html_()


# -- experiments -----------------------------------------------------------------------------------


def test_variants_are_measured_from_the_same_start() -> None:
    main, loss = network()
    with ga.program_guard(main, main.startup):
        ga.optimizer.SGD(0.1).minimize(loss)
    before = str(main)
    feed = [{"x": np.full((5, 4), value, "float32")} for value in (1.0, 2.0)]
    result = ga.experiment(
        main, {"plain": None, "cse": "cse, dead-code", "as a pass": ga.passes.Cse(), "function": lambda p: p.clone()}, feed, repeat=1
    )
    assert str(main) == before
    assert [*result.rows] == ["plain", "cse", "as a pass", "function"]
    assert result["plain"].keys() == set(result.measure) == {"operators", "flops", "estimated_memory", "memory", "time", "loss"}
    assert result["cse"]["operators"] < result["plain"]["operators"] == result["function"]["operators"]
    assert result["cse"]["flops"] < result["plain"]["flops"]
    assert len({row["loss"] for row in result.rows.values()}) == 1
    assert all(row["time"] > 0 and row["memory"] > 0 for row in result.rows.values())
    assert result.reports["plain"] is None
    assert result.reports["cse"]
    assert str(result).splitlines()[0].split()[0] == "variant"
    assert len(result.csv().splitlines()) == 5
    assert "<svg" in result.plot("time")
    assert repr(result) == "<Experiment: 4 variants, operators, flops, estimated_memory, memory, time, loss>"


def test_measured_memory_is_what_a_run_allocates() -> None:
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        total = L.reduce_sum(L.ones([1000, 1000]) + 1.0)
    memory = ga.experiment(main, {"": None}, measure=["memory"], fetch_list=[total])[""]["memory"]
    assert 4e6 < memory < 9e6  # one or two arrays of 4 MB


@pytest.mark.parametrize(
    ("variants", "options", "message"),
    [
        ({}, {}, "there is none"),
        ({"a": 3}, {}, "variant 'a' is a pipeline, its text, a function or None, not 3"),
        ({"a": "css"}, {}, "did you mean 'cse'"),
        ({"a": None}, {"measure": ["flop"]}, "there is no measure 'flop'; did you mean 'flops'"),
        ({"a": None}, {"feed": []}, "at least one"),
        ({"a": None}, {"repeat": 0}, "repeat is 1 or more"),
    ],
)
def test_experiments_that_cannot_be_are_refused(variants: Any, options: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        ga.experiment(network()[0], variants, **options)


def test_scopes_and_executors_say_what_they_are() -> None:
    scope = ga.Scope()
    scope.set("w<1>", np.ones((2, 3), "float32"))
    assert repr(scope) == "<Scope of 1 values>"
    assert str(scope.table()).splitlines()[1].split() == ["w<1>", "float32", "[2,", "3]", "24"]
    xml.dom.minidom.parseString(scope._repr_html_())
    assert repr(ga.Executor()) == "<Executor: compiled>"
    assert repr(ga.Executor(check_finite=True, passes="cse")) == "<Executor: compiled, check_finite=True, passes=cse>"


def test_a_program_that_runs_again_shows_its_variables_as_before() -> None:
    main, loss = network()
    before = [repr(var) for var in main.list_vars()]
    executor, scope = ga.Executor(), ga.Scope()
    executor.run(loss.block.program.startup, scope=scope)
    for _ in range(5):
        executor.run(main, {"x": np.ones((2, 4), "float32")}, [loss], scope=scope)
    assert [repr(var) for var in main.list_vars()] == before


def test_reports_pipelines_and_histories_are_sequences() -> None:
    main, _ = network()
    pipeline = ga.Pipeline.parse("cse, dead-code")
    report = pipeline.run(ga.lower(main))
    assert [len(pipeline), len(report)] == [2, 2]
    assert [*pipeline] == [pipeline[0], pipeline[1]]
    assert [step.name for step in report] == ["cse", "dead-code"]
    assert report[-1].name == "dead-code"
    assert report.csv().startswith("pass,changed,ms,operators,values,rewrites\ncse,")
    assert bool(ga.Pipeline())
    assert not len(ga.Pipeline())
    history = History(cost=[2.0, 1.0])
    assert len(history) == 2
    assert bool(History())


def test_a_plot_is_told_from_its_file() -> None:
    main, _ = network()
    found = ga.experiment(main, {"plain": None}, {"x": np.ones((2, 4), "float32")}, ["operators"])
    with pytest.raises(ValueError, match=r"'a.svg' is a file, and no measure: plot\(path='a.svg'\)"):
        found.plot("a.svg")


def test_mistyped_names_get_a_suggestion() -> None:
    for owner, name, hint in (ga.passes, "DeadCod", "'DeadCode'"), (ga.fluid, "Program2", "'Program'"):
        with pytest.raises(AttributeError, match=hint):
            getattr(owner, name)
    main, loss = network()
    with pytest.raises(ValueError, match="did you mean 'x'"):
        ga.Executor().run(main, feed={"X": np.ones((2, 4), "float32")}, fetch_list=[loss])


def test_what_fluid_calls_nets_is_refused_with_what_is_wrong() -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        x, image = L.data("x", [2, 6], append_batch_size=False), L.data("image", [1, 4, 4])
        with pytest.raises(ValueError, match=r"queries are \[batch, time, width\]"):
            ga.nets.scaled_dot_product_attention(x, x, x)
        with pytest.raises(ValueError, match="conv_padding has 1 elements for 2 convolutions"):
            ga.nets.img_conv_group(image, [2, 2], 2, conv_padding=[1])


# -- what a notebook shows -------------------------------------------------------------------------


def test_what_optimizers_and_checks_are_is_said_in_a_line() -> None:
    rate = ga.optimizer.Momentum(0.1, grad_clip=ga.optimizer.ClipByNorm(1.0))
    assert repr(rate) == "Momentum(learning_rate=0.1, grad_clip=ClipByNorm(bound=1.0), momentum=0.9, use_nesterov=False)"
    checked = check_pass("cse", examples=20)
    assert re.fullmatch(r"<Checked: nothing wrong on \d+ programs, of which \d+ changed>", repr(checked))
    assert checked._repr_html_().startswith("<pre>nothing wrong on ")


def test_rules_that_are_classes_are_described_too() -> None:
    class Nothing(ga.Rule):
        """relu(x) ⇒ relu(x)"""

        name = "nothing"

        def rewrite(self, op: Op) -> bool:
            return False

    assert "relu(x) ⇒ relu(x)" in ga.RuleSet(Nothing())._repr_html_()
