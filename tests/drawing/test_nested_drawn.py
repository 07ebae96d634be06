"""Drawings of nested graphs: frames with their operators, operands, carried values and results, and pairs of forward and backward."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import graphad as ga
from graphad.drawing import draw, to_svg
from graphad.drawing import plan as planning
from graphad.drawing.scopes import TIMES
from graphad.ir.regions import OTHERWISE
from graphad.rewriting import observing
from graphad.testing import Case, nested_programs
from tests.conformance import loading
from tests.drawing.test_drawing import SVG, groups, label_of, labels, middle_of, texts, tooltip_of
from tests.drawing_reader import drawn
from tests.nested_programs import FLAG, Local, N, add, constant, count_to, do, if_else, let, nested, net, when
from tests.shares import one_in
from tests.source_tree import ROOT

NESTED_CASES = [name for name in loading.names() if loading.has_blocks(loading.load(name))]


def powers() -> ga.Program:
    """y = tanh(y * w), n times."""
    body = Local("p"), do("elementwise_mul", {"X": "y", "Y": "w"}, "p"), do("tanh", {"X": "p"}, "y")
    program = nested(*count_to("n", *body), n=N, y=[1], w=[1])
    program.global_block().append_op("mean", {"X": "y"}, {"Out": "loss"})
    return program


def grown(program: ga.Program) -> ga.Program:
    """The program with its backward."""
    ga.append_backward(program.global_block().var("loss"))
    return program


def chosen() -> ga.Program:
    """y = x + x if f holds, else -x."""
    program = nested(constant("y", 0), if_else("f", [add("x", "x", "y")], [do("scale", {"X": "x"}, "y", scale=-1.0)]), x=[1], y=[1], f=FLAG)
    program.global_block().append_op("mean", {"X": "y"}, {"Out": "loss"})
    return program


def nested_loops() -> ga.Program:
    """y = y + x, n times m times."""
    inner = count_to("m", add("y", "x", "y"), i="j")
    program = nested(*count_to("n", *inner), n=N, m=N, y=[1], x=[1])
    program.global_block().append_op("mean", {"X": "y"}, {"Out": "loss"})
    return program


# -- frames ------------------------------------------------------------------------------------------


def test_a_loop_is_a_frame_with_its_operator_in_it() -> None:
    found = drawn(powers())
    assert found.titles == ["while: body"]
    assert {"while", "elementwise_mul", "tanh", "increment", "less_than"} <= set(found.inside("while: body"))
    assert {"mean", "fill_constant"} <= set(found.outside)


def test_what_a_loop_captures_enters_its_frame() -> None:
    found = drawn(powers())
    assert list(found.labels.values()).count("w") == list(found.labels.values()).count("n") == 1
    (entering,) = (line for line in found.lines if line.tail == "w")
    assert entering.head == "elementwise_mul"
    assert entering.frames == ("", "cluster_c0")


def test_what_a_loop_carries_goes_around() -> None:
    found = drawn(powers())
    lines = {(line.tail, line.head, line.frames) for line in found.lines if line.mark == ""}
    assert ("y#0", "y#0", ("", "cluster_c0")) in lines
    assert ("y#1", "y#1", ("cluster_c0", "")) in lines
    assert found.arrows("carried") == {("y#1", "y#0"), ("i#1", "i#0"), ("i_goes_on#1", "while")}
    (back,) = (line for line in found.lines if line.mark == "carried" and line.head == "y#0")
    assert back.frames == ("cluster_c0", "cluster_c0")
    assert back.attrs["style"] == "dashed"
    assert float(back.attrs["penwidth"]) > 1


def test_the_condition_decides_at_the_operator() -> None:
    found = drawn(powers())
    assert ("i_goes_on#0", "while") in found.arrows()
    assert "i_goes_on#1" not in found.outside
    assert "i_goes_on#1" in drawn(powers(), values="all").outside


def test_branches_are_two_frames_joined_to_their_operator() -> None:
    found = drawn(chosen())
    assert found.titles == ["if_else: true", "if_else: false"]
    assert found.inside("if_else: true") == ["elementwise_add", "y"]
    assert found.inside("if_else: false") == ["scale", "y"]
    joints = {(line.tail, line.attrs["lhead"]) for line in found.lines if "lhead" in line.attrs}
    assert joints == {("if_else", frame) for frame, title in found.frames.items() if title}
    around = {found.around[frame] for frame, title in found.frames.items() if title}
    assert around == {next(home for node, home in found.homes.items() if found.labels[node] == "if_else")}
    assert [(line.tail, line.head) for line in found.lines if line.head == "y#1"] == [("y", "y#1"), ("y", "y#1")]


def test_what_a_branch_leaves_passes_it_by() -> None:
    found = drawn(nested(constant("y", 0), when("f", let("y", "x")), x=[1], y=[1], f=FLAG))
    assert found.titles == ["conditional_block: body"]
    assert found.inside("conditional_block: body") == ["conditional_block", "assign", "y#1"]
    assert {("y#1", "y#1"), ("y#0", "y#1"), ("f", "conditional_block"), ("x", "assign")} <= found.arrows()


def test_nets_and_frames_in_frames() -> None:
    found = drawn(nested(*count_to("n", net(add("s", "x", "s"))), n=N, s=[1], x=[1]))
    assert found.frames == {"cluster_c0": "while: body", "cluster_c1": "net: body"}
    assert found.around["cluster_c1"] == "cluster_c0"
    (entering,) = (line for line in found.lines if line.tail == "x")
    assert (entering.head, entering.frames) == ("elementwise_add", ("", "cluster_c1"))


def test_an_operator_without_drawn_graphs_is_a_box() -> None:
    found = drawn(nested(if_else("f", []), f=FLAG))
    assert not found.frames
    assert list(found.labels.values()) == ["f", "if_else"]


def test_operators_stand_above_their_graphs() -> None:
    for program in (powers(), chosen(), grown(powers()), grown(chosen())):
        svg = to_svg(program)
        height = dict(heights(svg))
        for title, (_, top, _, bottom) in frames_of(svg):
            inside = [height[label] for label in drawn(program).boxes_in(title)]
            assert height[title.split(":")[0]] < min(inside)
            assert top < min(inside) < bottom


def heights(svg: str) -> Iterator[tuple[str, float]]:
    for group in groups(svg, "op"):
        yield label_of(group), float(next(group.iter(f"{SVG}text")).get("y") or 0)


def frames_of(svg: str) -> list[tuple[str, tuple[float, float, float, float]]]:
    """The titles of frames, and left, top, right and bottom."""
    found = []
    for group in groups(svg, "frame"):
        x, y, width, height = (float(next(group.iter(f"{SVG}rect")).get(name) or 0) for name in ("x", "y", "width", "height"))
        if list(group.iter(f"{SVG}text")):
            found.append((label_of(group), (x, y, x + width, y + height)))
    return found


# -- forward and backward ----------------------------------------------------------------------------


def test_forward_and_backward_body_are_side_by_side() -> None:
    for program in (powers(), chosen(), nested_loops()):
        frames = frames_of(to_svg(grown(program)))
        places = dict(frames)
        for title, (left, top, _, bottom) in frames:
            if "_grad" not in title:
                other = places[title.replace(":", "_grad:")]
                assert left < other[0]
                assert top < other[3]
                assert other[1] < bottom


def test_each_gradient_is_level_with_what_it_is_the_gradient_of() -> None:
    found = drawn(grown(powers()))
    assert found.titles == ["while: body", "while_grad: body"]
    for pair in (("while", "while_grad"), ("tanh", "tanh_grad"), ("elementwise_mul", "elementwise_mul_grad"), ("p", "p@GRAD")):
        assert frozenset(pair) in found.levels
    assert ("p", "p@GRAD") in found.arrows("link")
    places = {label: [found.homes[node] for node, each in found.labels.items() if each == label] for label in ("p", "p@GRAD")}
    assert places == {"p": ["cluster_c0"], "p@GRAD": ["cluster_c1"]}


def test_saved_values_come_from_the_forward_body() -> None:
    found = drawn(grown(powers()))
    saved = {(line.tail, line.head, line.frames) for line in found.lines if line.mark == "saved" and line.tail != "while"}
    assert all(frames == ("cluster_c0", "cluster_c1") for _, _, frames in saved)
    assert {head for _, head, _ in saved} == {"tanh_grad", "elementwise_mul_grad"}
    assert ("while", "while_grad") in found.arrows("saved")


def test_what_a_loop_copies_for_its_gradient_is_below_what_it_copies() -> None:
    svg = to_svg(grown(powers()), values="shared")
    height = {label_of(group): middle_of(group) for group in groups(svg, "op")}
    copies = [middle_of(group) for group in groups(svg, "backward") if label_of(group) == "assign"]
    assert copies
    assert all(height["while"] < copy < height["tanh"] for copy in copies)


def test_gradients_go_around_and_add_up() -> None:
    found = drawn(grown(powers()))
    inner = {line.mark: line for line in found.lines if line.frames[0] == "cluster_c1" and line.mark in ("carried", "added")}
    assert inner["carried"].frames == ("cluster_c1", "cluster_c1")
    assert inner["carried"].head.startswith("y@GRAD")
    assert (inner["added"].tail, inner["added"].head, inner["added"].frames) == (
        *("elementwise_mul_grad", "w@GRAD"),
        ("cluster_c1", "cluster_c1"),  # the sum lies beside its terms, in the loop
    )
    assert inner["added"].attrs["taillabel"] == "+"
    outside = [line for line in drawn(grown(powers()), values="all").lines if line.mark == "added"]
    assert [(line.tail, line.head, line.frames) for line in outside] == [("w@GRAD", "w@GRAD", ("cluster_c1", ""))]


def test_what_is_read_for_its_shape_alone_is_said_in_the_reader() -> None:
    """The sum's gradient reads shapes of what it added, which placeholders pass into the loop."""
    program = grown(nested_loops())
    graph = ga.lower(program)
    assert any(op.type == "stand_in" for nested in graph.tree() for op in nested.ops)
    svg = to_svg(program)
    assert "stand_in" not in names(svg)
    assert any(re.fullmatch(r"[XY]: shape \[\d\]", text) for text in texts(svg))
    assert "stand_in" in names(to_svg(program, values="all"))


def stacked(depth: int) -> ga.Program:
    """So many recurrent layers in one loop, and their gradient."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", [5, 4, 8], append_batch_size=False)
        start = ga.layers.fill_constant([1], "int64", 0)
        states = [ga.layers.fill_constant([4, 8], "float32", 0.0) for _ in range(depth)]

        def body(i: ga.Variable, *states: ga.Variable) -> list[ga.Variable]:
            h = ga.layers.reshape(ga.layers.gather(x, i), [4, 8])
            new = []
            for state in states:
                gate = ga.layers.sigmoid(ga.layers.fc(h, 8))
                h = ga.layers.tanh(ga.layers.fc(ga.layers.concat([h, state], axis=1), 8)) * gate
                new.append(h)
            return [i + 1, *new]

        outcomes = ga.layers.while_loop(lambda i, *_: i < 5, body, [start, *states])
        ga.append_backward(ga.layers.mean(outcomes[-1]))
    return program


def test_layers_that_repeat_within_a_loop_are_drawn_once() -> None:
    one, four = (to_svg(stacked(depth), fold="repeats", values="none") for depth in (1, 4))
    frames = [label_of(frame) for frame in groups(four, "frame")]
    assert f"{TIMES} 4" in frames
    assert f"{TIMES} 4: gradient" in frames
    assert names(four).count("tanh") == names(one).count("tanh") == 1
    assert names(four).count("tanh_grad") == 1
    assert len(names(four)) < len(names(one)) + 6
    assert f"{TIMES} 4" not in [label_of(frame) for frame in groups(to_svg(stacked(4), fold="none"), "frame")]
    parameters = [name for name in names(to_svg(stacked(4), values="all", fold="repeats")) if re.match(r"fc_\d\.w_0$", name)]
    assert len(parameters) == 2  # of the two fully connected layers that a copy has


def test_the_gradient_of_a_loop_lies_on_the_right() -> None:
    for depth in (1, 4):
        for values in ("none", "shared", "all"):
            found = places_of(to_svg(stacked(depth), values=values))
            assert found["tanh"] < found["tanh_grad"], (depth, values)


def names(svg: str) -> list[str]:
    """The first lines of all nodes."""
    return [label_of(group) for group in groups(svg, "node")]


def places_of(svg: str) -> dict[str, float]:
    """How far to the right the first operator of each type is."""
    return {label_of(group): float(text.get("x") or 0) for group in reversed(groups(svg, "node")) for text in group.iter(f"{SVG}text")}


def test_the_backward_of_branches_has_a_frame_for_each() -> None:
    found = drawn(grown(chosen()))
    assert sorted(found.titles) == ["if_else: false", "if_else: true", "if_else_grad: false", "if_else_grad: true"]
    assert frozenset(("if_else", "if_else_grad")) in found.levels
    assert found.inside("if_else_grad: true")
    assert found.inside("if_else_grad: false")


def test_what_is_kept_for_the_gradient_joins_the_operators() -> None:
    program = grown(nested_loops())
    assert not any("scopes" in label for label in drawn(program).labels.values())
    assert len([line for line in drawn(program).lines if line.tail == "while" and line.head == "while_grad"]) == 2
    assert any("scopes" in label for label in drawn(program, values="all").labels.values())


def test_arrows_tell_what_they_are() -> None:
    told = {tooltip_of(group) for group in groups(to_svg(grown(powers())), "edge")}
    assert "y#0: what the first iteration starts from" in told
    assert "y#1: carried to the next iteration" in told
    assert "w@GRAD (Y@GRAD): added up over the iterations" in told
    assert any(text.endswith("saved for the gradient") for text in told)


def test_the_legend_explains_frames() -> None:
    shown = set(texts(to_svg(grown(powers()))))
    wanted = {"graph of an operator", "carried to the next iteration", "added up over the iterations", "saved for the gradient"}
    assert wanted <= shown
    assert not wanted & set(texts(to_svg(chosen(), legend=False)))
    assert "[+] what is in it is not drawn" not in shown
    assert "[+] what is in it is not drawn" in texts(to_svg(powers(), nested="none"))


def test_frames_have_the_colors_of_their_part() -> None:
    svg = to_svg(grown(powers()))
    assert [label_of(g) for g in groups(svg, "frame") if "forward" in (g.get("class") or "")] == ["while: body"]
    assert [label_of(g) for g in groups(svg, "frame") if "backward" in (g.get("class") or "")] == ["while_grad: body"]
    assert "tanh_grad" in labels(svg, "backward")


def test_frames_tell_whose_graph_they_are() -> None:
    (frame,) = groups(to_svg(powers()), "frame")
    assert tooltip_of(frame).split("\n")[0] == "while, sub_block: 4 operators, 9 values"


# -- less of it --------------------------------------------------------------------------------------


def test_closed_operators_are_marked_and_count_what_they_hold() -> None:
    svg = to_svg(nested_loops(), nested="none")
    assert not groups(svg, "frame")
    (loop,) = groups(svg, "closed")
    assert label_of(loop) == "while [+]"
    assert re.search(r"^sub_block: \d+ operators, \d+ values$", tooltip_of(loop), re.MULTILINE)


def test_large_drawings_close_the_deepest_graphs_first(monkeypatch: pytest.MonkeyPatch) -> None:
    titles = []
    for budget in (40, 7, 1):
        monkeypatch.setattr(planning, "FRAMED_BUDGET", budget)
        titles.append(drawn(nested_loops()).titles)
    assert titles == [["while: body", "while: body"], ["while: body"], []]
    assert len(drawn(nested_loops(), nested="all").titles) == 2


def test_values_fold_across_frames() -> None:
    for values in ("shared", "none"):
        found = drawn(grown(nested_loops()), values=values)
        assert len(found.titles) == 4
        assert found.arrows("carried")
    ops = {label_of(group) for group in groups(to_svg(nested_loops()), "op")}
    assert set(drawn(nested_loops(), values="none").labels.values()) == ops
    assert ("elementwise_add", "elementwise_add") in drawn(nested_loops(), values="none").arrows("carried")


def test_what_stands_out_shows_through() -> None:
    graph = ga.lower(nested_loops())
    hidden = next(op for each in graph.tree() for op in each.ops if op.type == "elementwise_add")
    assert labels(to_svg(graph, highlight=[hidden]), "highlight") == {"elementwise_add"}
    assert labels(to_svg(graph, highlight=[hidden], nested="none"), "highlight") == {"while [+]"}
    captured = next(value for each in graph.tree() for value in each.inputs if value.name == "x" and each.parent is not None)
    assert labels(to_svg(graph, highlight=[captured]), "highlight") == {"x"}
    assert labels(to_svg(graph, highlight={"x"}, nested="none"), "highlight") == {"x"}


# -- bytes, ids, names -------------------------------------------------------------------------------

SCRIPT = """
import sys
from tests.drawing.test_nested_drawn import chosen, grown, nested_loops, powers
from graphad.drawing import draw
programs = {"loop": powers(), "branch": chosen(), "loops": nested_loops()}
for name, program in programs.items():
    for ending in ("svg", "dot"):
        draw(program, f"{sys.argv[1]}/{name}.{ending}", highlight={"y", "x", "w"})
        draw(grown(program.clone()), f"{sys.argv[1]}/{name}-grown.{ending}")
"""


def test_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / seed)]
        subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed}, check=True)
    for path in sorted((tmp_path / "1").iterdir()):
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes()


def test_ids_are_unique_and_take_a_prefix() -> None:
    svg = to_svg(grown(chosen()), prefix="left-")
    ids = [element.get("id") or "" for element in ET.fromstring(svg).iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert {"left-c0", "left-c1", "left-c2"} <= set(ids)


def test_odd_names_are_shown_as_they_are_in_frames_too() -> None:
    odd = ['a"quote"', "b:0", "tail\\", "<b>&lt;", "cluster_c0", "日本語"]
    program = nested(net(*(do("tanh", {"X": a}, b) for a, b in pairwise(odd))), **{name: [1] for name in odd})
    shown = [re.sub(r"#\d$", "", label_of(group)) for group in groups(to_svg(program), "value")]
    assert set(shown) == set(odd)


def test_a_graph_of_another_loop_is_drawn_without_its_forward() -> None:
    graph = ga.lower(grown(powers()))
    op = next(op for op in graph.controls if op.type == "while_grad")
    (body,) = op.graphs.values()
    assert {label_of(group) for group in groups(to_svg(body), "op")} == {op.type for op in body.ops}


def test_drawing_left_to_right() -> None:
    assert len(groups(to_svg(grown(powers()), rankdir="LR"), "frame")) == 2


# -- everything --------------------------------------------------------------------------------------


def check(graph: ga.Graph) -> None:
    """Every operator but those for shapes is drawn once, in a frame of its own graph; nested graphs that do something have a frame."""
    found = drawn(graph, links="none", fold="none", scopes="none")
    shown = [graph, *(g for g in graph.tree() if g is not graph and does_something(g))]
    ops = [op for g in shown for op in g.ops if op.type != "stand_in"]
    assert len(found.titles) == len(shown) - 1
    assert found.operators == sorted(op.type for op in ops)


def does_something(graph: ga.Graph) -> bool:
    return any(op.type != "undefined" for op in graph.ops)


@pytest.mark.parametrize("name", one_in(3, NESTED_CASES))
def test_conformance_cases_are_drawn_between_all_passes(name: str) -> None:
    case = loading.load(name)
    program = loading.program_of(case.doc["forward"])
    block = program.global_block()
    parameters: list[ga.Variable] = [*program.all_parameters()]
    sources = parameters or [block.var("x")]
    check(ga.lower(program))
    drawings: list[str] = []
    with observing(lambda _, graph, __: drawings.append(to_svg(graph))):
        gradients = ga.gradients(block.var(case.doc["loss"]), sources)
        if "double" in name:
            ga.gradients(gradients[0], sources)
    assert len(drawings) >= 5
    check(ga.lower(program))
    to_svg(program)


@settings(
    max_examples=max(min(15, settings().max_examples // 5), settings().max_examples // 100),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(nested_programs())
def test_random_programs_are_drawn(p: Case) -> None:
    check(ga.lower(p.program))
    with observing(lambda _, graph, __: check(graph)):
        ga.append_backward(p.loss)
    svg = to_svg(p.program)
    assert svg.endswith("</svg>\n")


def test_otherwise_is_no_frame_of_its_own(tmp_path: Path) -> None:
    graph = ga.lower(nested(constant("y", 0), when("f", let("y", "x")), x=[1], y=[1], f=FLAG))
    (op,) = graph.controls
    assert OTHERWISE in op.graphs
    assert "otherwise" not in draw(graph, tmp_path / "a.dot").read_text()
