"""Drawings of changes: added, removed and changed nodes, each at one place in all steps."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import graphad as ga
from graphad.errors import InvalidValue
from tests.drawing.test_drawing import forward_program, groups, label_of, middle_of, texts, tooltip_of
from tests.drawing.test_nested_drawn import powers


def diff(before: ga.Program | ga.Graph, after: ga.Program | ga.Graph, folder: Path, **options: object) -> str:
    return ga.draw_diff(before, after, folder / "d.svg", **options).read_text()


def labels(svg: str, mark: str) -> set[str]:
    """The labels of the nodes of a class."""
    return {label_of(node) for node in groups(svg, "node") if mark in (node.get("class") or "").split()}


def program(text: str) -> ga.Program:
    return ga.Program.parse(f"program {{ block 0 {{ var x: float32[3] {text} }} }}")


def test_what_was_added_is_outlined(tmp_path: Path) -> None:
    before, after = forward_program(), forward_program()
    ga.append_backward(after.global_block().var("loss"))
    svg = diff(before, after, tmp_path)
    assert labels(svg, "added") >= {"mean_grad", "tanh_grad", "mul_grad", "w@GRAD"}
    assert not labels(svg, "added") & {"mul", "tanh", "x", "w"}
    assert not labels(svg, "removed")
    assert "added" in texts(svg)
    assert "removed" not in texts(svg)


def test_what_was_removed_is_a_ghost(tmp_path: Path) -> None:
    before = program("tanh(X=x) -> (Out=y) exp(X=y) -> (Out=z)")
    svg = diff(before, program("tanh(X=x) -> (Out=y)"), tmp_path)
    assert {label_of(node) for node in groups(svg, "node") if "removed" in (node.get("class") or "")} == {"exp", "z"}
    assert 'stroke-dasharray="3 2"' in svg


def test_what_changed_is_marked_and_what_it_read_before_is_a_ghost_of_an_arrow(tmp_path: Path) -> None:
    before = program("tanh(X=x) -> (Out=a) exp(X=x) -> (Out=b) relu(X=a) -> (Out=y)")
    after = program("tanh(X=x) -> (Out=a) exp(X=x) -> (Out=b) relu(X=b) -> (Out=y)")
    svg = diff(before, after, tmp_path)
    assert labels(svg, "changed") == {"relu"}
    assert [tooltip_of(edge) for edge in groups(svg, "edge") if "removed" in (edge.get("class") or "")] == ["a"]
    assert [tooltip_of(edge) for edge in groups(svg, "edge") if "added" in (edge.get("class") or "")] == ["b"]
    scaled = program("scale(X=x) -> (Out=y) {scale=2.0}"), program("scale(X=x) -> (Out=y) {scale=3.0}")
    assert labels(diff(*scaled, tmp_path), "changed") == {"scale"}


def test_names_are_not_a_change(tmp_path: Path) -> None:
    svg = diff(program("tanh(X=x) -> (Out=y)"), program("tanh(X=x) -> (Out=other)"), tmp_path)
    assert not labels(svg, "added") | labels(svg, "removed") | labels(svg, "changed")


def test_changes_in_loops_are_shown_there(tmp_path: Path) -> None:
    before, after = powers(), powers()
    body = after.block(1)
    next(op for op in body.ops if op.type == "tanh").type = "relu"
    svg = diff(before, after, tmp_path)
    marked = {
        label_of(node): node.get("class") for node in groups(svg, "op") if {"added", "removed"} & set((node.get("class") or "").split())
    }
    assert {"tanh", "relu"} <= set(marked)
    assert [label_of(frame) for frame in groups(svg, "frame")] == ["while: body"]


def test_neither_graph_is_changed(tmp_path: Path) -> None:
    before, after = ga.lower(program("tanh(X=x) -> (Out=y)")), ga.lower(program("relu(X=x) -> (Out=y)"))
    said = str(before), str(after)
    for ending in ("svg", "pdf", "png", "dot"):
        assert ga.draw_diff(before, after, tmp_path / f"d.{ending}").exists()
    assert (str(before), str(after)) == said
    assert 'class="op forward removed"' in (tmp_path / "d.dot").read_text()


def test_in_steps_each_node_has_one_place(tmp_path: Path) -> None:
    graph = ga.lower(forward_program())
    steps, names = [graph.clone()], ["forward"]
    for each in ga.backward_pipeline(("loss",)).passes:
        if each.run(graph):
            steps.append(graph.clone())
            names.append(each.name)
    paths = ga.draw_steps(steps, [tmp_path / f"{i}.svg" for i in range(len(steps))], titles=names)
    places = [{label_of(g): middle_of(g) for g in groups(path.read_text(), "node")} for path in paths]
    assert len(places) > 2
    for earlier, later in pairwise(places):
        moved = {later[label] - earlier[label] for label in earlier if label in later}
        assert max(moved) - min(moved) < 0.2  # the legend may be higher
    assert set(places[0]) == {"x", "w", "mul", "h", "tanh", "y", "mean", "loss"}
    assert labels(paths[1].read_text(), "added") >= {"tanh_grad"}
    assert names[1] in texts(paths[1].read_text())


def test_what_only_an_earlier_step_has_keeps_its_name(tmp_path: Path) -> None:
    steps = [program("tanh(X=x) -> (Out=a) exp(X=a) -> (Out=y)"), program("sigmoid(X=x) -> (Out=a) exp(X=a) -> (Out=y)")]
    first, second = ga.draw_steps(steps, [tmp_path / "0.svg", tmp_path / "1.svg"])
    assert labels(first.read_text(), "value") == {"x", "a", "y"}
    assert labels(first.read_text(), "op") == {"tanh", "exp"}
    assert labels(second.read_text(), "op") == {"sigmoid", "exp"}


def test_who_writes_a_value_and_what_it_is_called_are_those_of_the_step(tmp_path: Path) -> None:
    main = ga.Program()
    with ga.program_guard(main):
        x = ga.layers.data("x", [8], stop_gradient=False)
        cost = ga.layers.mean(ga.layers.tanh(x) * x)
    graph, steps = ga.lower(main), []
    for each in ga.backward_pipeline((cost.name,), (x.name,)).passes:
        each.run(graph)
        steps.append(graph.clone())
    created, summed = steps[1], steps[3]
    (first, second) = ga.draw_steps([created, summed], [tmp_path / "0.svg", tmp_path / "1.svg"])
    writes = [[tooltip_of(edge) for edge in groups(path.read_text(), "edge")] for path in (first, second)]
    renamed = {"x@GRAD@RENAME@0", "x@GRAD@RENAME@1"}
    assert "x@GRAD" in labels(first.read_text(), "gradient")
    assert not renamed & labels(first.read_text(), "gradient")
    assert renamed | {"x@GRAD"} <= labels(second.read_text(), "gradient")
    assert sum("step before" in tooltip for tooltip in writes[0]) == 1  # two write x@GRAD, of which one writes another value later
    assert not any("step before" in tooltip for tooltip in writes[1])
    gone = [edge for edge in groups(diff(created, summed, tmp_path), "edge") if "removed" in (edge.get("class") or "").split()]
    assert ["step before" in tooltip_of(edge) for edge in gone] == [True]


def test_steps_need_as_many_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="1 steps need 1 paths"):
        ga.draw_steps([forward_program()], [])
    with pytest.raises(InvalidValue, match="fixed places"):
        ga.draw_steps([forward_program()], [tmp_path / "a.dot"])
    assert ga.draw_steps([], []) == []
