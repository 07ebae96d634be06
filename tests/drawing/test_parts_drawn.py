"""The selection and the look of drawings: layers once, scopes as frames or boxes, a part, numbers as colors, themes, files of every
format."""

from __future__ import annotations

import random
import re
import shutil
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import graphad as ga
from graphad.drawing import DARK, LIGHT, Groups, Options, Theme, to_svg
from graphad.drawing import plan as planning
from graphad.drawing.nesting import Nesting
from graphad.drawing.options import checked_options
from graphad.drawing.pairs import Pairs
from graphad.drawing.plan import Plan, plan
from graphad.drawing.scene import mixed
from graphad.drawing.sweeps import Sweeps
from graphad.drawing.theme import group_color, scale_color
from graphad.errors import InvalidType, InvalidValue, RenderError
from graphad.ir import Op, Value
from tests.drawing.test_drawing import SVG, chain, forward_program, groups, label_of, labels, texts, tooltip_of
from tests.drawing.test_files_drawn import fake_renderer
from tests.drawing_geometry import measured


def layers(count: int, scopes: bool = False, train: bool = True, widths: tuple[int, ...] = ()) -> ga.Program:
    """Layers of mul, elementwise_add and tanh, with their gradients and updates."""
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        h = ga.layers.data("x", [8])
        for i in range(count):
            with ga.name_scope(f"layer_{i}" if scopes else "net"):
                h = ga.layers.fc(h, widths[i] if widths else 8, act="tanh")
        cost = ga.layers.mean(h)
        if train:
            ga.optimizer.SGD(0.1).minimize(cost, startup)
    return main


def planned(program: ga.Program | ga.Graph, **options: Any) -> Plan:
    graph = program if isinstance(program, ga.Graph) else ga.lower(program)
    return plan(graph, checked_options(options))


def drawn_ops(program: ga.Program | ga.Graph, **options: Any) -> list[str]:
    return sorted(label_of(group) for group in groups(to_svg(program, **options), "op"))


# -- layers drawn once -------------------------------------------------------------------------------


def test_layers_that_repeat_are_drawn_once_with_their_gradients_and_updates() -> None:
    found = drawn_ops(layers(12), fold="repeats", scopes="none")
    once = ["mul", "elementwise_add", "tanh", "mul_grad", "elementwise_add_grad", "tanh_grad", "sgd", "sgd"]
    assert found == sorted([*once, "mean", "mean_grad", "fill_constant"])
    titles = {label_of(frame) for frame in groups(to_svg(layers(12), fold="repeats", scopes="none"), "frame")}
    assert titles == {"\N{MULTIPLICATION SIGN} 12", "\N{MULTIPLICATION SIGN} 12: gradient", "\N{MULTIPLICATION SIGN} 12: update"}


def test_copies_whose_backward_is_not_folded_with_them_are_drawn_each() -> None:
    """Steps of gradient descent that are differentiated (MAML, C. Finn et al., 2017): what makes the gradients reads of every step."""
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [4, 3], append_batch_size=False)
        w = start = ga.layers.create_parameter([3, 1], "float32", name="w")
        for _ in range(4):
            loss = ga.layers.mean(ga.layers.square(ga.layers.tanh(ga.layers.matmul(x, w))))
            (slope,) = ga.gradients([loss], [w])
            assert slope is not None
            w = w - 0.1 * slope
        ga.gradients([ga.layers.mean(ga.layers.tanh(ga.layers.matmul(x, w)))], [start])
    assert len(program.global_block().ops) > planning.UNFOLDED_BUDGET
    assert not planned(program).folding.repeats
    assert planned(program, fold="repeats").folding.repeats
    assert planned(layers(12)).folding.repeats


def test_what_goes_from_a_copy_to_the_next_goes_around() -> None:
    told = [tooltip_of(edge) for edge in groups(to_svg(layers(12), fold="repeats"), "next")]
    assert told
    assert all(text.endswith("to the next copy") for text in told)
    assert "to the next copy" in texts(to_svg(layers(12), fold="repeats"))


def fan_out(count: int, side_by_side: bool = False) -> ga.Program:
    """A value that so many chains read, whose sum is differentiated; chain by chain, or operator by operator."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", [8], stop_gradient=False)
        if side_by_side:
            firsts = [ga.layers.tanh(x) for _ in range(count)]
            terms = [ga.layers.scale(first, float(i)) for i, first in enumerate(firsts)]
        else:
            terms = [ga.layers.scale(ga.layers.tanh(x), float(i)) for i in range(count)]
        ga.append_backward(ga.layers.mean(ga.layers.sums(terms)))
    return program


@pytest.mark.parametrize("side_by_side", [False, True])
def test_equal_readers_of_one_value_are_drawn_once_with_their_gradients(side_by_side: bool) -> None:
    found = planned(fan_out(50, side_by_side), values="all")
    (repeat,) = found.folding.repeats
    assert (repeat.count, repeat.differing) == (50, ["scale"])
    assert sorted(op.type for op in found.nodes if isinstance(op, Op)) == sorted(
        ["tanh", "scale", "sum", "mean", "fill_constant", "mean_grad", "sum_grad", "scale_grad", "tanh_grad", "sum"]
    )
    assert sum("@GRAD@RENAME@" in value.name for value in found.nodes if isinstance(value, Value)) == 1
    slots = [arrow.head_slot for arrow in found.arrows if isinstance(arrow.head, Op) and arrow.head.type == "sum_grad"]
    assert sorted(slots) == ["Out@GRAD", "X[0:50]"]
    scale_grad = next(op for op in found.nodes if isinstance(op, Op) and op.type == "scale_grad")
    (term,) = (arrow.tail for arrow in found.arrows if arrow.head is scale_grad)
    assert found.groups[term] is found.groups[scale_grad], "each chain has a gradient of its own, which sum_grad gives it"


def test_parts_that_one_operator_gives_to_equal_chains_are_drawn_once() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        parts = ga.layers.split(ga.layers.data("x", [8, 6], append_batch_size=False), 4, dim=0)
        ga.layers.concat([ga.layers.relu(ga.layers.tanh(part)) for part in parts], axis=1)
    found = planned(program, fold="repeats", values="all")
    assert [op.type for op in found.nodes if isinstance(op, Op)] == ["split", "tanh", "relu", "concat"]
    read_twice = ga.Program()
    with ga.program_guard(read_twice):
        parts = ga.layers.split(ga.layers.data("x", [8, 6], append_batch_size=False), 4, dim=0)
        ga.layers.concat([ga.layers.relu(ga.layers.tanh(part)) for part in parts] + [ga.layers.exp(parts[1])], axis=1)
    found = planned(read_twice, fold="repeats", values="all")
    exp = next(op for op in found.nodes if isinstance(op, Op) and op.type == "exp")
    assert next(iter(exp.reads())) in found.nodes, "a part that something else reads as well is not folded away"


def irregular(count: int) -> ga.Program:
    """Operators of several types that read one of the last four values, with their gradients: nothing repeats."""
    chance, program = random.Random(0), ga.Program()
    kinds = (ga.layers.tanh, ga.layers.sigmoid, ga.layers.exp, ga.layers.square, ga.layers.softplus, ga.layers.relu)
    with ga.program_guard(program, ga.Program()):
        values = [ga.layers.data("x", [8], stop_gradient=False)]
        for _ in range(count):
            kind, x, y = chance.choice(kinds), values[-1], chance.choice(values[-4:])
            values.append(kind(x) if chance.random() < 0.7 else x * y)
        ga.append_backward(ga.layers.mean(values[-1]))
    return program


@pytest.mark.parametrize("persistable", [True, False])
def test_what_one_copy_is_given_may_go_into_a_loop_as_well(persistable: bool) -> None:
    """A parameter is not shown in its operator where one of another copy goes into a loop; data is not drawn as a parameter."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        h = ga.data("x", [3])
        factors = [ga.layers.create_parameter([3], "float32", name=f"w{i}") for i in range(6)]
        if not persistable:
            factors[4] = ga.data("d", [3])
        for factor in factors:
            h = ga.layers.tanh(h * factor)
        go = ga.layers.reduce_sum(h) > 0.5
        loop = ga.layers.While(go)
        with loop.block():
            ga.layers.assign(ga.layers.tanh(factors[4]), factors[4])
            ga.layers.assign(ga.layers.reduce_sum(factors[4]) > 0.5, go)
    result = planned(program, fold="repeats", parameters="inside")
    assert {repeat.count for repeat in result.folding.repeats} == {6}
    into_loop = {arrow.tail.name for arrow in result.arrows if isinstance(arrow.tail, Value) and arrow.head in loop_values(result)}
    assert into_loop >= {"w0" if persistable else "d"}
    assert {value.name for value in result.inside} == (set() if persistable else {"w0"})
    to_svg(program, fold="repeats", parameters="inside")


def loop_values(result: Plan) -> set[Value]:
    """The values that are drawn in loops and branches."""
    return {node for node in result.nodes if isinstance(node, Value) and node.graph.owner is not None}


def test_what_does_not_repeat_is_drawn_in_parts_on_request() -> None:
    graph = ga.lower(irregular(300))
    found = planned(graph, fold="parts")
    assert all(found.folding.of(op) in found.nodes for op in graph.ops)
    parts = found.folding.closed
    assert 16 <= len(parts) <= 30
    assert len(found.nodes) < len(parts) + 40
    assert sum(parts.values()) > 0.8 * len(graph.ops)
    assert {op.role for op in parts} == {"forward", "backward"}
    assert sum(a in parts and b in parts for a, b in found.levels) >= 8, "a part and its gradients are at one height"
    ends = [(arrow.tail, arrow.head) for arrow in found.arrows if arrow.tail in parts and arrow.head in parts]
    assert len(ends) == len(set(ends)), "what goes from one part to another is one arrow"


def test_an_overview_sets_in_where_more_than_three_hundred_operators_are_left() -> None:
    few, many = (ga.lower(irregular(count)) for count in (100, 500))
    assert not planned(few).folding.contents
    assert planned(many).folding.contents
    assert not planned(many, fold="repeats").folding.contents
    assert not planned(many, focus=(next(iter(many.values)), 2)).folding.contents
    assert not planned(many, highlight=[next(iter(many.ops))]).folding.contents, "what is highlighted is drawn"
    with pytest.raises(RenderError, match=r"focus=.*fold='parts'"):
        planned(ga.lower(irregular(500)), fold="repeats", limit=400)


def test_too_many_operators_that_nothing_folds_are_refused_before_anything_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ga.lower(irregular(500))
    count = len(graph.ops)
    monkeypatch.setattr(planning, "_Planner", None)
    with pytest.raises(RenderError, match=f"would have {count} nodes, more than {count - 1}"):
        planned(graph, fold="none", limit=count - 1)
    for options in {"fold": "none", "limit": count}, {"fold": "repeats", "limit": count - 1}:
        with pytest.raises(TypeError, match="NoneType"):  # these are planned
            planned(graph, **options)


def test_a_part_says_what_is_in_it_and_the_whole_fits_a_screen() -> None:
    svg = to_svg(ga.lower(irregular(600)))
    count, first, last, *kinds, rest = [element.text or "" for element in groups(svg, "closed")[0].iter(f"{SVG}text")]
    assert re.fullmatch(r"\d+ operators \[\+\]", count)
    assert first.endswith(" …")
    assert last.startswith("… ")
    assert all(re.fullmatch("\\w+ \N{MULTIPLICATION SIGN} \\d+", kind) for kind in kinds)
    assert rest.endswith(" other types")
    width, height = map(float, re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups())  # type: ignore[union-attr]
    assert 1 < width / height < 2.6
    found = measured(svg)
    assert found.overlaps == []
    assert found.crossed == []
    boxes = groups(svg, "closed")
    sides = {role: [box_of(box) for box in boxes if role in (box.get("class") or "")] for role in ("forward", "backward")}
    assert len(sides["backward"]) >= 10
    for x, y in sides["backward"]:
        near = min((abs(x - other), other < x) for other, level in sides["forward"] if abs(level - y) < 1)
        assert near[1], "in each column the backward is on the right"


def box_of(group: ET.Element) -> tuple[float, float]:
    """The middle of a box."""
    box = next(group.iter(f"{SVG}rect"))
    x, y, wide, high = (float(box.get(name) or 0) for name in ("x", "y", "width", "height"))
    return x + wide / 2, y + high / 2


def test_folding_sets_in_above_sixty_operators() -> None:
    assert len(drawn_ops(layers(3))) == len(layers(3).global_block().ops)
    assert len(drawn_ops(layers(20))) == len(drawn_ops(layers(40))) == 11
    assert len(drawn_ops(layers(20), fold="none")) == len(layers(20).global_block().ops)


def test_copies_may_differ_and_the_frame_says_in_what() -> None:
    program = layers(5, train=False, widths=(8, 16, 24, 32, 40))
    svg = to_svg(program, fold="repeats", scopes="none")
    (frame,) = groups(svg, "frame")
    assert label_of(frame) == "\N{MULTIPLICATION SIGN} 5 (differ: shapes)"
    assert "mul: float32[-1, 8], float32[-1, 16], float32[-1, 24], float32[-1, 32], float32[-1, 40]" in tooltip_of(frame)


def test_layers_that_are_read_differently_are_no_repetition() -> None:
    """The second and third of these read what the first wrote: two copies of a layer have different sources."""
    main = ga.Program()
    with ga.program_guard(main):
        first = h = ga.layers.tanh(ga.layers.data("x", [4]))
        for source in ("h", "first", "h", "first", "first", "h"):
            h = ga.layers.tanh(ga.layers.scale(h if source == "h" else first, scale=2.0))
    ops = ga.lower(main)
    folding = planned(ops, fold="repeats").folding
    for repeat in folding.repeats:
        reads = [[[value.writer for value in op.reads()] for op in copy] for copy in repeat.copies]
        own = [[[writer in copy for writer in writers] for writers in each] for copy, each in zip(repeat.copies, reads, strict=True)]
        assert all(each == own[0] for each in own)


def test_every_operator_is_drawn_or_stood_for() -> None:
    for program in (layers(12), layers(7, train=False), layers(9, scopes=True)):
        graph = ga.lower(program)
        drawn = planned(graph, fold="repeats")
        assert all(drawn.folding.of(op) in drawn.nodes for op in graph.ops)
        assert all(shown.type == op.type for op, shown in drawn.folding.representatives.items())


# -- scopes ------------------------------------------------------------------------------------------


def test_scopes_are_frames_and_so_is_what_the_backward_made_of_them() -> None:
    titles = [label_of(frame) for frame in groups(to_svg(layers(2, scopes=True)), "frame")]
    assert sorted(titles) == [f"layer_{i}{of}" for i in (0, 1) for of in ("", ": gradient", ": update")]
    assert not groups(to_svg(layers(2, scopes=True), scopes="none"), "frame")


def test_closed_scopes_are_boxes() -> None:
    svg = to_svg(layers(2, scopes=True, train=False), closed=["layer_1"])
    assert "layer_1 [+]" in labels(svg, "op")
    assert "3 operators" in texts(svg)
    assert [label_of(frame) for frame in groups(svg, "frame")] == ["layer_0"]
    closed = drawn_ops(layers(2, scopes=True, train=False), scopes="closed")
    assert closed == ["layer_0 [+]", "layer_1 [+]", "mean"]


def test_repeated_scopes_have_one_frame() -> None:
    titles = {label_of(frame) for frame in groups(to_svg(layers(12, scopes=True, train=False), fold="repeats"), "frame")}
    assert titles == {"layer_0 … layer_11 \N{MULTIPLICATION SIGN} 12"}


def wide(count: int) -> ga.Program:
    """Many inputs in one concat; the last one is read by another operator, too."""
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        features = [ga.layers.data(f"feature_{i}", [3]) for i in range(count)]
        ga.layers.mean(ga.layers.concat([*features, ga.layers.data("other", [5])], axis=1))
        ga.layers.tanh(features[-1])
    return main


def test_many_equal_inputs_are_drawn_once() -> None:
    svg = to_svg(wide(61))
    lines = [[text.text or "" for text in group.iter(f"{SVG}text")] for group in groups(svg, "node")]
    assert [node for node in lines if node[0].startswith("feature")] == [
        ["feature_0 … feature_59", "60 \N{MULTIPLICATION SIGN} float32[-1, 3]"],
        ["feature_60", "float32[-1, 3]"],
    ]
    assert measured(svg).area < 500 * 700
    for few in (to_svg(wide(12)), to_svg(wide(61), fold="none", values="all")):
        assert "feature_7" in labels(few, "value") | labels(few, "data")


def test_what_is_drawn_once_is_drawn_alone_where_it_is_asked_for() -> None:
    svg = to_svg(wide(61), focus="feature_7")
    assert "feature_7" in labels(svg, "value") | labels(svg, "data")
    assert "fc_5.w_0#0" in labels(to_svg(layers(12), focus=("fc_5.w_0#0", 1)), "parameter")
    assert plan(ga.lower(layers(12)), Options(focus=("tanh", 1))).folding.repeats  # any of that type


def test_scopes_nest_and_are_checked() -> None:
    main = ga.Program()
    with ga.program_guard(main), ga.name_scope("a"):
        with ga.name_scope("b"):
            ga.layers.fill_constant([1], "float32", 1.0)
        ga.layers.fill_constant([1], "float32", 1.0)
    assert [op.source and op.source.scope for op in main.global_block().ops] == ["a/b", "a"]
    for wrong, error in (("", InvalidValue), ("a/b", InvalidValue), (3, InvalidType)):
        with pytest.raises(error, match="scope"), ga.name_scope(wrong):  # type: ignore[arg-type]
            pass


# -- a part ------------------------------------------------------------------------------------------


def test_what_is_near_a_node() -> None:
    program = chain(["a", "b", "c", "d", "e", "f"])
    assert labels(to_svg(program, focus=("c", 1)), "value") == {"b", "c", "d"}
    assert labels(to_svg(program, focus="c"), "value") == {"b", "c", "d"}
    svg = to_svg(program, focus=("c", 1), around=1)
    assert labels(svg, "value") == {"a", "b", "c", "d", "e"}
    assert labels(svg, "faded") == {"a", "e", "tanh"}


def test_no_way_leads_through_what_very_many_read() -> None:
    program = layers(6)
    near = labels(to_svg(program, focus=("fc_5.w_0@GRAD", 1), around=1, fold="none"), "parameter")
    assert "learning_rate_0" in labels(to_svg(program, focus=("fc_5.w_0@GRAD", 1), fold="none"), "state")
    assert "fc_0.w_0#0" not in near
    assert "fc_0.w_0#0" in labels(to_svg(program, focus=("learning_rate_0", 1), fold="none"), "parameter")


def test_what_is_between_two_nodes() -> None:
    svg = to_svg(forward_program(), path=("w", "y"))
    assert labels(svg, "value") == {"w", "h", "y"}
    assert labels(svg, "op") == {"mul", "tanh"}


def test_nodes_may_be_operators_and_types_of_operators() -> None:
    program = forward_program()
    (mul, *_) = program.global_block().ops
    for focus in ((mul, 0), ("mul", 0), (next(iter(ga.lower(program).ops)).type, 0)):
        assert labels(to_svg(program, focus=focus), "value") == {"x", "w", "h"}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"focus": "z"}, InvalidValue, "no drawn value has the name 'z'"),
        ({"focus": ("y", -1)}, InvalidType, "a node and a radius"),
        ({"path": ("y", "w")}, InvalidValue, "no way leads from 'y' to 'w'"),
        ({"path": ("y",)}, InvalidType, "two nodes"),
        ({"path": ("x", "y"), "focus": "y"}, InvalidValue, "one of them"),
        ({"around": -1}, InvalidValue, "around"),
        ({"columns": 0}, InvalidValue, "columns"),
        ({"limit": 3}, RenderError, r"8 nodes, more than 3: .*focus=\('x', 3\)"),
        ({"closed": "encoder"}, InvalidType, "names of scopes"),
    ],
)
def test_what_cannot_be_drawn_says_why(options: dict[str, Any], error: type[Exception], message: str) -> None:
    more = {"values": "all"} if "limit" in options else {}
    with pytest.raises(error, match=message):
        to_svg(forward_program(), **options, **more)


def test_path_names_the_file_or_after_it_a_way(tmp_path: Path) -> None:
    assert ga.draw(forward_program(), path=tmp_path / "a.svg").exists()
    target = ga.draw(forward_program(), tmp_path / "b.svg", path=("w", "h"))
    assert labels(target.read_text(), "op") == {"mul"}


# -- columns -----------------------------------------------------------------------------------------


def test_what_is_cut_goes_on_at_the_same_number() -> None:
    svg = to_svg(chain([f"v{i}" for i in range(9)]), columns=3)
    numbers = [label_of(group) for group in groups(svg, "break")]
    assert sorted(numbers) == ["(1)", "(1)", "(2)", "(2)"]
    assert len(groups(svg, "value")) == 9
    places = {label_of(group): group for group in groups(svg, "node")}
    assert len(places) == 10


def test_long_drawings_have_columns() -> None:
    svg = to_svg(chain([f"v{i}" for i in range(300)]), fold="none")
    width, height = (float(x) for x in re.findall(r'(?:width|height)="([\d.]+)pt"', svg)[:2])
    assert 1 / 3 < height / width < 3
    assert not groups(to_svg(chain([f"v{i}" for i in range(20)])), "break")


# -- overlays and themes -----------------------------------------------------------------------------


def fills(svg: str) -> dict[str, str]:
    return {label_of(group): next(shape.get("fill") or "" for shape in group if shape.get("fill")) for group in groups(svg, "node")}


def test_numbers_are_colors_with_a_bar() -> None:
    svg = to_svg(forward_program(), overlay={"h": 0.0, "y": 5.0, "loss": 10.0}, overlay_title="degrees")
    found = fills(svg)
    assert (found["h"], found["y"], found["loss"]) == (scale_color(0), scale_color(0.5), scale_color(1))
    assert found["mul"] == LIGHT.background
    assert {"degrees", "0", "10"} <= set(texts(svg))
    assert "degrees: 5" in next(tooltip_of(group) for group in groups(svg, "node") if label_of(group) == "y")


def test_the_scale_is_even_in_lightness() -> None:
    """From dark to light throughout, so that it can be read in gray and by the color-blind."""
    grey = [
        0.2126 * int(c[1:3], 16) + 0.7152 * int(c[3:5], 16) + 0.0722 * int(c[5:7], 16) for c in (scale_color(i / 20) for i in range(21))
    ]
    steps = np.diff(grey)
    assert steps.min() > 0
    assert steps.max() < 4 * steps.min()


def test_costs_are_estimated_for_a_batch() -> None:
    svg = to_svg(forward_program(), overlay="flops", batch=10)
    assert "120" in texts(svg)  # 2 * 10 * 3 * 2 for the product
    assert to_svg(forward_program(), overlay="bytes", batch=10) != to_svg(forward_program(), overlay="bytes", batch=20)
    assert "bytes alive at each operator" in texts(to_svg(forward_program(), overlay="liveness"))


def test_what_a_run_left_is_shown() -> None:
    arrays = {"h": np.array([1.0, -3.0]), "y": np.array([np.nan, 1.0])}
    assert "3" in texts(to_svg(forward_program(), overlay="range", measured=arrays))
    assert fills(to_svg(forward_program(), overlay="nan", measured=arrays))["y"] == scale_color(1)
    mul = forward_program()
    seconds = {op: i + 1.0 for i, op in enumerate(mul.global_block().ops)}
    assert fills(to_svg(mul, overlay="time", measured=seconds))["mean"] == scale_color(1)


def test_groups_have_colors_and_what_goes_between_them_its_bytes() -> None:
    svg = to_svg(forward_program(), overlay=Groups({"h": "first", "y": "second"}, "stage"), values="all", batch=10)
    found = fills(svg)
    assert found["h"] == group_color(0) != found["y"] == group_color(1)
    assert {"stage", "first", "second"} <= set(texts(svg))
    assert sum(" B" in text for text in texts(svg)) == 1  # h is what the second group reads of the first


def test_what_a_group_reads_twice_goes_there_once() -> None:
    declared = "var x: float32[8, 4] var h: float32[8, 4] var y: float32[8, 4] var z: float32[8, 4] "
    program = ga.Program.parse(f"program {{ block 0 {{ {declared} tanh(X=x) -> (Out=h) relu(X=h) -> (Out=y) exp(X=h) -> (Out=z) }} }}")
    svg = to_svg(program, overlay=Groups({"h": "first", "y": "second", "z": "second"}, "stage"), values="all")
    assert sum("128 B" in text for text in texts(svg)) == 1
    svg = to_svg(program, overlay=Groups({"h": "first", "y": "second", "z": "third"}, "stage"), values="all")
    assert sum("128 B" in text for text in texts(svg)) == 2


def test_ranks_are_colors_of_axes() -> None:
    declared = "var x: float32[8, 4] var w: float32[4, 6] var h: float32[8, 6] var y: float32[8, 6] "
    graph = ga.lower(ga.Program.parse(f"program {{ block 0 {{ {declared} mul(X=x, Y=w) -> (Out=h) tanh(X=h) -> (Out=y) }} }}"))
    ga.Pipeline.parse('shard{mesh="data=2,model=4", spec=["x: data model"]}').run(graph)
    assert {"data", "model", "data, model"} <= set(texts(to_svg(graph, overlay="ranks")))
    ga.Pipeline.parse("partition").run(graph)
    found = texts(to_svg(graph, overlay="ranks"))
    assert {"data", "model", "data, model", "communication", "nothing: terms of a sum", "96 B along model"} <= set(found)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"overlay": "ranks"}, InvalidValue, "nothing is annotated"),
        ({"overlay": Groups({"zzz": "a"})}, InvalidValue, "no operator or value of this graph, but 'zzz'"),
        ({"overlay": "heat"}, InvalidValue, "'flops'"),
        ({"overlay": 3}, InvalidType, "numbers by node"),
        ({"overlay": {"zzz": 1.0}}, InvalidValue, "no operator or value of this graph"),
        ({"overlay": {"y": "1"}}, InvalidType, "numbers by node, not '1'"),
        ({"overlay": {"y": np.zeros(3)}}, InvalidType, r"one number for each node, not an array of shape \[3\]"),
        ({"overlay": "time"}, InvalidType, "measured="),
        ({"overlay": "range", "measured": 1}, InvalidType, "measured"),
        ({"theme": "blue"}, InvalidValue, "'dark'"),
        ({"theme": 3}, InvalidType, "Theme"),
    ],
)
def test_wrong_overlays_and_themes_are_named(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        to_svg(forward_program(), **options)


def test_themes_have_readable_text() -> None:
    """Contrast of at least 4.5 between text and ground (WCAG 2.2, 1.4.3)."""
    for theme in (LIGHT, DARK):
        for ground in (theme.background, *(look.fill for look in theme.looks.values())):
            for ink in (theme.ink, mixed(theme.ink, theme.background, 0.9)):
                assert contrast(ink, ground) > 4.5, (ink, ground)


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_theme_of_your_own() -> None:
    theme = DARK.with_colors(background="#000000")
    assert isinstance(theme, Theme)
    assert 'fill="#000000"' in to_svg(forward_program(), theme=theme)
    assert to_svg(forward_program(), theme="dark") != to_svg(forward_program())
    with pytest.raises(TypeError):
        LIGHT.with_colors(colour="red")


def test_options_are_documented() -> None:
    text = Options.__doc__ or ""
    missing = [name for name in Options.__dataclass_fields__ if f"        {name}: " not in text]
    assert not missing


# -- orders of gradients -----------------------------------------------------------------------------


def test_gradients_of_gradients_are_told_apart() -> None:
    main = ga.Program()
    with ga.program_guard(main):
        x = ga.layers.data("x", [3], append_batch_size=False, stop_gradient=False)
        (first,) = ga.gradients(ga.layers.tanh(x), x)
        ga.gradients(first, x)
    svg = to_svg(main, parameters="nodes")
    assert "backward of order 2" in texts(svg)
    second = labels(svg, "gradient2")
    assert "x@GRAD@GRAD" in second
    assert "x@GRAD" not in second
    assert labels(svg, "backward2") & {"tanh_grad", "elementwise_mul_grad"}


def third_derivative() -> ga.Program:
    """x -> tanh(x), its first derivative, and the sums that are differentiated again."""
    main = ga.Program()
    with ga.program_guard(main):
        x = ga.layers.data("x", [3], append_batch_size=False, stop_gradient=False)
        y: ga.Variable | None = ga.layers.tanh(x)
        for _ in range(3):
            assert y is not None
            (y,) = ga.gradients(ga.layers.reduce_sum(y), [x])
    return main


def place(group: ET.Element) -> tuple[float, float, float, float]:
    """The box of a node or frame: left, top, right, bottom."""
    box = next(group.iter(f"{SVG}rect"))
    left, top, wide, high = (float(box.get(name) or 0) for name in ("x", "y", "width", "height"))
    return left, top, left + wide, top + high


def test_each_order_has_a_column_from_left_to_right_beside_the_forward() -> None:
    svg = to_svg(third_derivative())
    frames = {label_of(frame): place(frame) for frame in groups(svg, "frame")}
    columns = {"forward": "forward", **{f"backward of order {i}": f"backward{i if i > 1 else ''}" for i in (1, 2, 3)}}
    lefts = [frames[name][0] for name in columns]
    assert lefts == sorted(lefts)
    for op in groups(svg, "op"):
        left, top, right, bottom = place(op)
        around = [name for name, (x, y, x2, y2) in frames.items() if x < left < right < x2 and y < top < bottom < y2]
        kind = (op.get("class") or "").split()[-1]
        # Sums of gradients, which are differentiated again, are of the forward, and beside the columns.
        assert [columns[name] for name in around] == [kind] or (not around and label_of(op) == "reduce_sum"), label_of(op)


def test_a_sweep_goes_against_what_it_differentiates() -> None:
    graph = ga.lower(third_derivative())
    nesting = Nesting(graph, 0)
    pairs = Pairs(nesting)
    sweeps = Sweeps(nesting, pairs)
    assert sweeps.deepest == 3
    against = {(sweeps.order(forward), sweeps.order(op)) for op, forward in pairs.forwards.items()}
    assert {(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)} <= against, "a sweep goes through the forward and the sweeps before it"
    for op, forward in pairs.forwards.items():
        assert sweeps.goes_down(op) != sweeps.goes_down(forward)


def test_what_later_orders_read_often_is_named_in_them() -> None:
    program = third_derivative()
    named, lines = to_svg(program), to_svg(program, values="all")
    assert named.count("tanh_0.tmp_0</text>") > 4
    assert lines.count("tanh_0.tmp_0</text>") == 1
    assert len(re.findall('class="edge', named)) < len(re.findall('class="edge', lines)) / 2


def test_operators_without_values_name_their_parameters() -> None:
    svg = to_svg(layers(2, scopes=True), values="none")
    for name in ("fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"):
        assert svg.count(f">{name}</text>") == 2, "in the operator that reads it, and in its update"


# -- PDF and other scripts ---------------------------------------------------------------------------


def test_a_pdf_is_a_page_with_text(tmp_path: Path) -> None:
    content = ga.draw(forward_program(), tmp_path / "a.pdf", title="y (1)").read_bytes()
    assert content.startswith(b"%PDF-1.4")
    assert content.endswith(b"%%EOF\n")
    place = int(content.split(b"startxref\n")[1].split(b"\n")[0])
    assert content[place:].startswith(b"xref\n0 7\n")
    for number, at in enumerate(re.findall(rb"(\d{10}) 00000 n", content[place:]), 1):
        assert content[int(at) :].startswith(b"%d 0 obj\n" % number)
    stream = zlib.decompress(content.split(b"stream\n")[1].split(b"\nendstream")[0])
    assert b"(tanh) Tj" in stream
    assert b"(y \\(1\\)) Tj" in stream


def test_letters_that_no_font_here_has_are_left_to_a_program_that_finds_fonts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = chain(["日本語", "y"])
    fake = Path(fake_renderer(tmp_path, 'import sys; sys.stdout.buffer.write(b"painted " + sys.argv[2].encode())')).rename(
        tmp_path / "rsvg-convert"
    )
    fake.chmod(0o755)
    monkeypatch.setattr("graphad.drawing.painting.which", lambda name: str(fake) if name == "rsvg-convert" else None)
    assert ga.draw(program, tmp_path / "a.png").read_bytes() == b"painted png"
    assert ga.draw(program, tmp_path / "a.pdf").read_bytes() == b"painted pdf"
    monkeypatch.setattr("graphad.drawing.painting.which", lambda name: None)
    monkeypatch.setattr("graphad.drawing.painting.RESVG", "no_such_module")
    with pytest.raises(
        RenderError, match=r"'日本語' in a PNG: install rsvg-convert or Graphviz, or `pip install resvg-py`; SVG needs none"
    ):
        ga.draw(program, tmp_path / "b.png")
    with pytest.raises(RenderError, match="PDF"):
        ga.draw(program, tmp_path / "b.pdf")


def test_a_graphviz_that_lays_out_writes_other_letters_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dot = shutil.which("dot")
    if dot is None:
        pytest.skip("Graphviz itself is not installed")
    monkeypatch.setenv("GRAPHAD_DOT", dot)
    monkeypatch.setattr("graphad.drawing.painting.which", lambda name: dot if name == "dot" else None)
    monkeypatch.setattr("graphad.drawing.painting.RESVG", "no_such_module")
    assert ga.draw(chain(["日本語", "y"]), tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
