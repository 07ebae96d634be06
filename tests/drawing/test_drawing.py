"""The parts of drawings: nodes, arrows, links, a legend; that odd names survive; how values fold."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

import graphad as ga
from graphad.drawing import plan as planning
from graphad.drawing import to_dot, to_svg
from graphad.drawing.pairs import gradient_of
from graphad.drawing.texts import attr_text, shortened, shown
from graphad.errors import InvalidType
from graphad.program import BACKWARD, EMPTY, OPTIMIZE, SourceLine

SVG = "{http://www.w3.org/2000/svg}"

ODD_NAMES = [
    'a"quote"',
    "b:0",
    "tail\\",
    "mid\\N\\G\\l\\",
    "node",
    "graph",
    "edge",
    "日本語 ünï",
    "<b>bold</b>",
    "<",
    "&lt;&amp;&#65;",
    "{a|b}",
    "-->",
    "n1",
    "]]>",
    "%d",
]
DECEPTIVE_NAMES = ["line\nbreak", " ", "\u200b", "tab\t", "\x00", " padded"]


def append(block: ga.Block, type: str, x: Any, out: str, role: str = "forward", **inputs: Any) -> ga.Operator:
    return block.append_op(type=type, inputs={"X": x} | inputs, outputs={"Out": out}, role=role)


def forward_program() -> ga.Program:
    """loss = mean(tanh(x * w))."""
    program = ga.Program()
    block = program.global_block()
    block.create_var(name="x", shape=[-1, 3], dtype="float32", stop_gradient=True)
    block.create_parameter(name="w", shape=[3, 2])
    append(block, "mul", "x", "h", Y="w")
    append(block, "tanh", "h", "y")
    append(block, "mean", "y", "loss")
    return program


def backward_program() -> ga.Program:
    program = forward_program()
    ga.append_backward(program.global_block().var("loss"))
    return program


def training_program(parameters: int = 1) -> ga.Program:
    """The backward, and one update for the parameter; more of them for made-up parameters, with the same learning rate."""
    program = backward_program()
    block = program.global_block()
    block.create_var(name="rate", shape=[1], dtype="float32", persistable=True)
    for i in range(parameters):
        param = block.create_parameter(name=f"w{i}" if i else "w", shape=[3, 2])
        slots = {"Param": param, "Grad": "w@GRAD", "LearningRate": "rate"}
        block.append_op(type="sgd", inputs=slots, outputs={"ParamOut": param}, role=OPTIMIZE)
    return program


def chain(names: list[str]) -> ga.Program:
    program = ga.Program()
    block = program.global_block()
    block.create_var(name=names[0], shape=[3], dtype="float32")
    for x, y in pairwise(names):
        append(block, "tanh", x, y)
    return program


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def groups(svg: str, mark: str) -> list[ET.Element]:
    """The elements of a class, as readers see them: nodes, edges."""
    return [g for g in ET.fromstring(svg).iter(f"{SVG}g") if mark in (g.get("class") or "").split()]


def label_of(group: ET.Element) -> str:
    return next(element.text or "" for element in group.iter(f"{SVG}text"))


def tooltip_of(group: ET.Element) -> str:
    return next(element.text or "" for element in group.iter(f"{SVG}title"))


def middle_of(group: ET.Element) -> float:
    """The height of the middle of a node."""
    for ellipse in group.iter(f"{SVG}ellipse"):
        return float(ellipse.get("cy") or 0)
    box = next(group.iter(f"{SVG}rect"))
    return float(box.get("y") or 0) + float(box.get("height") or 0) / 2


def labels(svg: str, mark: str) -> set[str]:
    return {label_of(group) for group in groups(svg, mark)}


# -- what is shown -----------------------------------------------------------------------------------


def test_nodes_show_their_kind_name_and_type() -> None:
    svg = to_svg(training_program(2))
    assert labels(svg, "forward") == {"mul", "tanh", "mean"}
    assert labels(svg, "backward") == {"fill_constant", "mean_grad", "tanh_grad", "mul_grad"}
    assert labels(svg, "optimize") == {"sgd"}
    assert labels(svg, "data") == {"x"}
    assert labels(svg, "parameter") == {"w#0", "w#1", "w1#0", "w1#1"}
    assert labels(svg, "state") == {"rate"}
    assert labels(svg, "variable") == {"h", "y", "loss"}
    assert labels(svg, "gradient") == {"loss@GRAD", "y@GRAD", "h@GRAD", "w@GRAD"}
    assert "float32[-1, 3]" in texts(svg)


def test_parameters_have_two_rings() -> None:
    for group in groups(to_svg(forward_program()), "value"):
        assert len(list(group.iter(f"{SVG}ellipse"))) == (2 if label_of(group) == "w" else 1)


def test_the_legend_explains_what_occurs_and_nothing_else() -> None:
    forward, training = texts(to_svg(forward_program())), texts(to_svg(training_program(2)))
    assert "forward operator" in forward
    assert "backward operator" not in forward
    assert {"backward operator", "optimizer operator", "gradient", "kept between runs", "gradient of"} <= set(training)
    assert "forward operator" not in texts(to_svg(forward_program(), legend=False))


def test_slots_stand_at_the_ends_where_there_is_a_choice() -> None:
    dot = to_dot(forward_program())
    assert re.findall(r'(head|tail)label="(\w+)"', dot) == [("head", "X"), ("head", "Y")]
    assert not re.search(r"->.* label=", dot)
    graph = ga.Graph()
    x, out, aux = (graph.add_value(name) for name in ("x", "out", "aux"))
    graph.add_op("my_op", {"X": [x, x], "Y": [x]}, {"Out": [out], "Aux": [aux]})
    assert re.findall(r'(?:head|tail)label="(.*?)"', to_dot(graph)) == ["X[0]", "X[1]", "Y", "Out", "Aux"]


def test_operators_tell_attributes_source_and_pass() -> None:
    graph = ga.lower(chain(["x", "y"]))
    op = next(iter(graph.ops))
    op.attrs = {"scale": 2.0, "axes": [1, 2]}
    op.source, op.made_by = SourceLine("/home/somebody/nets/lenet.py", 7), "some-pass"
    (group,) = groups(to_svg(graph), "op")
    assert tooltip_of(group).split("\n") == [
        "tanh",
        "scale = 2.0",
        "axes = [1, 2]",
        "X: x",
        "Out: y",
        "written at nets/lenet.py:7",
        "made by some-pass",
    ]


def test_gradients_are_linked_to_what_they_are_gradients_of() -> None:
    program = backward_program()
    linked = {tooltip_of(group) for group in groups(to_svg(program), "link")}
    assert linked == {f"{n}@GRAD is the gradient of {n}" for n in ("loss", "y", "h", "w")}
    assert not groups(to_svg(program, links="none"), "link")


def test_a_noted_gradient_counts_more_than_a_name() -> None:
    graph = ga.lower(chain(["x", "y", "d"]))
    graph.value("d").grad_of = graph.value("x")
    assert [tooltip_of(group) for group in groups(to_svg(graph), "link")] == ["d is the gradient of x"]


def test_in_an_updated_program_a_gradient_is_of_the_value_before_the_update() -> None:
    graph = ga.lower(training_program())
    assert gradient_of(graph.value("w@GRAD")) is graph.value("w#0")


def test_automatic_links_stop_where_they_would_hide_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphad.drawing.lines.MOST_LINKS", 3)
    assert "dashed" not in to_dot(backward_program())
    assert "dashed" in to_dot(backward_program(), links="all")


def test_the_backward_goes_up_beside_the_forward() -> None:
    svg = to_svg(backward_program())
    height = {label_of(g): middle_of(g) for g in groups(svg, "node")}
    assert height["h"] < height["y"] < height["loss"]
    for name in ("h", "y", "loss", "w"):
        assert height[name] == pytest.approx(height[f"{name}@GRAD"], abs=6)
    assert height["mul"] == pytest.approx(height["mul_grad"])


def test_what_many_updates_read_is_drawn_once_and_named_in_each() -> None:
    svg = to_svg(training_program(parameters=4))
    assert [label_of(group) for group in groups(svg, "state")] == ["rate"]
    assert texts(svg).count("LearningRate = rate") == 4
    assert not [edge for edge in groups(svg, "edge") if tooltip_of(edge).startswith("rate")]
    few = to_svg(training_program(parameters=2))
    assert len([edge for edge in groups(few, "edge") if tooltip_of(edge).startswith("rate")]) == 2


def much_read(readers: int) -> ga.Program:
    """One parameter that many operators read."""
    program = ga.Program()
    block = program.global_block()
    block.create_var(name="x", shape=[3], dtype="float32")
    block.create_parameter(name="w", shape=[3])
    for i in range(readers):
        append(block, "elementwise_mul", "x" if not i else f"y{i - 1}", f"y{i}", Y="w")
    return program


def test_a_parameter_that_very_many_operators_read_has_no_arrows() -> None:
    svg = to_svg(much_read(50), values="all", fold="none", timeout=10)
    assert labels(svg, "parameter") == {"w"}
    assert texts(svg).count("Y = w") == 50
    assert "Y = w" not in texts(to_svg(much_read(8), fold="none"))


def test_what_an_update_alone_keeps_is_named_in_it() -> None:
    program = training_program()
    svg = to_svg(program)
    assert not groups(svg, "state")
    assert "keeps LearningRate" in texts(svg)
    for svg in (to_svg(program, values="all"), to_svg(program, highlight={"rate"})):
        assert labels(svg, "state") == {"rate"}
        assert "keeps LearningRate" not in texts(svg)


def test_names_of_many_slots_stand_at_the_values() -> None:
    graph = ga.Graph()
    values = [graph.add_value(name) for name in "abcd"]
    graph.add_op("my_op", {slot: [value] for slot, value in zip("ABCD", values, strict=True)}, {"Out": [graph.add_value("out")]})
    assert re.findall(r'(head|tail)label="(.*?)"', to_dot(graph)) == [("tail", slot) for slot in "ABCD"]


def test_empty_places_are_not_drawn() -> None:
    program = backward_program()
    next(op for op in program.global_block().ops if op.type == "mul_grad").outputs["X@GRAD"] = [EMPTY]
    assert EMPTY not in labels(to_svg(program), "node")


def test_an_empty_program_and_a_value_alone_are_drawn() -> None:
    assert texts(to_svg(ga.Program())) == []
    graph = ga.Graph()
    graph.add_value("alone", (2,), "float64")
    assert {"alone", "float64[2]"} <= set(texts(to_svg(graph)))


def test_graphs_between_two_passes_are_drawn() -> None:
    graph = ga.lower(chain(["x", "y"]))
    graph.add_op("tanh", {"X": [graph.value("x")]}, {"Out": [graph.value("y")]}, role=BACKWARD)
    assert len(groups(to_svg(graph), "op")) == 2
    graph.set_inputs(next(iter(graph.ops)), "X", [graph.value("y")])
    assert len(groups(to_svg(graph), "op")) == 2


@pytest.mark.parametrize("pick", [lambda g: g.value("y"), lambda g: g.value("y").var, lambda g: "y"])
def test_highlighted_values_stand_out(pick: Callable[[ga.Graph], Any]) -> None:
    graph = ga.lower(chain(["x", "y", "z"]))
    svg = to_svg(graph, highlight={pick(graph)}, values="shared")
    assert labels(svg, "highlight") == {"y"}
    assert "highlighted" in texts(svg)


def test_the_legend_says_what_an_outline_means() -> None:
    svg = to_svg(training_program(2), highlight={"w"}, highlight_means="added <by> {the} pass")
    assert "added <by> {the} pass" in texts(svg)
    with pytest.raises(InvalidType, match="highlight_means"):
        to_svg(training_program(2), highlight_means=3)


def test_operators_show_their_attributes_if_requested() -> None:
    program = ga.Program.parse("program { block 0 { var x: float32[1] var y: float32[1] scale(X=x) -> (Out=y) {scale=2.0, bias=1.0} } }")
    assert {"scale=2.0", "bias=1.0"} <= set(texts(to_svg(program, attributes=True)))
    assert "scale=2.0" not in texts(to_svg(program))


def test_highlighted_operators_stand_out_in_their_program_too() -> None:
    program = forward_program()
    assert labels(to_svg(program, highlight=program.global_block().ops[1:2]), "highlight") == {"tanh"}


def test_drawing_changes_nothing() -> None:
    graph, program = ga.lower(backward_program()), backward_program()
    before = str(graph), str(program)
    to_dot(graph)
    to_dot(program)
    assert (str(graph), str(program)) == before


# -- fewer nodes -------------------------------------------------------------------------------------


def test_values_fold_into_arrows() -> None:
    def drawn(**options: Any) -> tuple[int, int]:
        svg = to_svg(forward_program(), legend=False, **options)
        return len(groups(svg, "value")), len(groups(svg, "edge"))

    assert drawn() == drawn(values="all") == (5, 7)
    assert drawn(values="shared") == (2, 4)
    assert drawn(values="shared", parameters="nodes") == (3, 5)
    assert drawn(values="none") == (0, 2)
    carried = {tooltip_of(edge) for edge in groups(to_svg(forward_program(), values="none"), "edge")}
    assert carried == {"h", "y"}


def fan(width: int) -> ga.Program:
    """Different operators that read one value, their sum, and the backward."""
    kinds = ("tanh", "sigmoid", "exp", "square", "relu", "softplus", "abs", "sin", "cos", "sqrt", "reciprocal", "log")
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", [4], stop_gradient=False)
        ga.append_backward(ga.layers.mean(ga.layers.sums([getattr(ga.layers, kind)(x) for kind in kinds[:width]])))
    return program


def test_values_fold_where_names_could_not_be_read_otherwise() -> None:
    def width(svg: str) -> float:
        return float((ET.fromstring(svg).get("viewBox") or "").split()[2])

    narrow, wide = fan(3), fan(12)
    assert to_svg(narrow) == to_svg(narrow, values="all")
    assert width(to_svg(narrow)) < 1600 * 10 / 9, "names of 10 points have 9 pixels on a screen of 1,600"
    assert width(to_svg(wide, values="all")) > width(to_svg(wide, values="shared")) > 1600 * 10 / 9
    assert to_svg(wide) == to_svg(wide, values="none")


def test_the_backward_is_on_the_right_of_a_wide_forward() -> None:
    svg = to_svg(fan(12), values="none")
    left = {label_of(g): float(next(g.iter(f"{SVG}rect")).get("x") or 0) for g in groups(svg, "op")}
    gradients = {name.removesuffix("_grad"): x for name, x in left.items() if name.endswith("_grad")}
    forward = [x for name, x in left.items() if name in gradients and name != "sum"]  # a gradient is a sum, too
    assert len(forward) == 13
    assert max(forward) < min(gradients.values())


def test_folding_sets_in_above_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    program = chain([f"v{i}" for i in range(10)])
    sizes = []
    for all_values, shared in ((19, 11), (18, 11), (18, 10)):
        monkeypatch.setattr(planning, "ALL_BUDGET", all_values)
        monkeypatch.setattr(planning, "SHARED_BUDGET", shared)
        sizes.append(len(groups(to_svg(program), "node")))
    assert sizes == [19, 11, 9]


def test_a_large_graph_is_laid_out_in_seconds() -> None:
    svg = to_svg(chain([f"v{i}" for i in range(1000)]), timeout=30, fold="none")
    assert len(groups(svg, "op")) == 999


# -- names -------------------------------------------------------------------------------------------


def test_odd_names_are_shown_as_they_are() -> None:
    graph = ga.lower(chain(ODD_NAMES))
    for op in graph.ops:
        op.attrs = {"name": op.output("Out").name}
    svg = to_svg(graph)
    assert [label_of(group) for group in groups(svg, "value")] == ODD_NAMES
    assert [tooltip_of(group).replace("\u2060", "") for group in groups(svg, "value")] == [f"{name}: float32[3]" for name in ODD_NAMES]


def test_names_that_deceive_are_shown_as_python_writes_them() -> None:
    svg = to_svg(chain([*DECEPTIVE_NAMES, "\ud800"]))
    assert [label_of(group) for group in groups(svg, "value")] == [repr(name) for name in [*DECEPTIVE_NAMES, "\ud800"]]


def test_odd_types_slots_and_titles_are_shown() -> None:
    graph = ga.lower(chain(["x", "y"]))
    (x, y), odd = graph.values, 'a"b\\N<&lt;'
    graph.add_op(odd, {odd: [x], "Y": [y]}, {"Out": [graph.add_value("z")]})
    svg = to_svg(graph, title=f"{odd}\nsecond")
    assert texts(svg).count(odd) == 3
    assert "second" in texts(svg)


def test_real_names_are_never_ids_or_html() -> None:
    for line in to_dot(chain(ODD_NAMES)).splitlines()[3:]:
        assert re.match(r"(graph|node|edge|n\d+|n\d+ -> n\d+) \[|label=<|id=|\}", line)
        assert line.startswith("label=<") or "=<" not in re.sub(r'"(\\.|[^"\\])*"', "", line)


def test_long_names_lose_their_middle_and_keep_it_in_the_tooltip() -> None:
    name = "encoder_layer_" * 20 + "last"
    (group, _) = groups(to_svg(chain([name, "y"])), "value")
    assert len(label_of(group)) <= 44
    assert label_of(group).startswith("encoder_layer_")
    assert label_of(group).endswith("last")
    assert tooltip_of(group).startswith(name)
    assert shortened("short") == "short"
    assert shown("plain name") == "plain name"


def test_attributes_have_one_text() -> None:
    block = ga.Program().create_block()
    assert attr_text([1, 2.5, "a", None, True, (block,)]) == "[1, 2.5, 'a', None, True, [block 1]]"
    assert attr_text(object()) == "object"


def test_ids_are_unique_and_take_a_prefix() -> None:
    ids = [element.get("id") or "" for element in ET.fromstring(to_svg(training_program(4), prefix="left-")).iter() if element.get("id")]
    assert len(ids) == len(set(ids)) > 30
    assert all(name.startswith(("left-", "a_left-")) for name in ids if not name.startswith("a_graph"))
