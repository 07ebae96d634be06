"""Name scopes: operators say in which they were written, also after their program was kept in a file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import graphad as ga
from graphad import layers
from graphad.errors import GraphadError
from graphad.interop import from_json, to_json
from graphad.interop.paddle import dump_program, load_program
from graphad.program.source import SourceLine, with_scope, without_scope

FORMS: dict[str, Callable[[ga.Program], ga.Program]] = {
    "text": lambda program: ga.Program.parse(str(program)),
    "text of a file": lambda program: ga.Program.parse(str(program), file="net.txt"),
    "JSON": lambda program: from_json(to_json(program)),
    "protobuf": lambda program: load_program(dump_program(program)),
    "JSON of protobuf": lambda program: from_json(to_json(load_program(dump_program(program)))),
    "graph": lambda program: ga.schedule(ga.lower(program)),
}


def _in_scopes() -> ga.Program:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", [3], stop_gradient=False)
        with ga.name_scope("encoder"), ga.name_scope("層 1, {left}"):
            first = layers.softmax(x, axis=1)
        with ga.name_scope("decoder"):
            second = layers.softmax(x, axis=1)
        layers.mean(first * second)
    return program


def _scopes(program: ga.Program) -> list[str]:
    return [op.source.scope if op.source is not None else "" for op in program.global_block().ops]


@pytest.mark.parametrize("form", FORMS)
def test_scopes_come_back(form: str) -> None:
    program = _in_scopes()
    read = FORMS[form](program)
    assert _scopes(read) == _scopes(program) == ["encoder/層 1, {left}", "decoder", "", ""]
    assert [op.attrs for op in read.global_block().ops] == [op.attrs for op in program.global_block().ops]
    assert str(read) == str(program)
    assert 'softmax(X=x) -> (Out=softmax_1.tmp_0) {axis=1, op_namescope="/decoder/"}' in str(read)


@pytest.mark.parametrize("form", FORMS)
def test_passes_do_not_compare_scopes(form: str) -> None:
    graph = ga.lower(FORMS[form](_in_scopes()))
    ga.Pipeline.parse("cse").run(graph)
    assert [op.type for op in graph.ops].count("softmax") == 1


def test_the_backward_of_what_was_read_is_in_the_scopes() -> None:
    read = ga.Program.parse(str(_in_scopes()))
    ga.append_backward(read.global_block().var("mean_0.tmp_0"))
    scopes = [op.source.scope for op in read.global_block().ops if op.type == "softmax_grad" and op.source is not None]
    assert sorted(scopes) == ["decoder", "encoder/層 1, {left}"]


def test_a_scope_without_a_line_is_no_place() -> None:
    read = ga.Program.parse(str(_in_scopes()))
    assert "written at" not in read.global_block().ops[0]._repr_html_()
    with pytest.raises(GraphadError) as failure:
        ga.Executor().run(read, feed={"x": [1.0]}, fetch_list=["mean_0.tmp_0"])
    assert "written at" not in str(failure.value)


@pytest.mark.parametrize("text", ["/", "", "encoder", "//", "/a//b/", 3])
def test_what_names_no_scope_in_paddle_s_form_stays_an_attribute(text: object) -> None:
    assert without_scope({"op_namescope": text, "axis": 1}, None) == ({"op_namescope": text, "axis": 1}, None)


def test_an_attribute_counts_more_than_the_line() -> None:
    line = SourceLine("net.py", 3, "outer")
    assert with_scope({"op_namescope": "/own/", "axis": 1}, line) == {"axis": 1, "op_namescope": "/own/"}
    assert without_scope({"op_namescope": "/own/", "axis": 1}, line) == ({"axis": 1}, SourceLine("net.py", 3, "own"))
