"""Programs made here, and random ones, through JSON and protobuf: they read back equal."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphad as ga
from graphad.interop import from_json, to_json
from graphad.interop.paddle.program_desc import dump_program, load_program
from graphad.program import L1Decay, L2Decay
from graphad.testing import nested_programs, straight_line_programs

EDGES = """
program seed 7 {
  block 0 {
    var unknown: ?[?]
    var ranked: ?[2, -1]
    var typed: float16[?] persistable
    var scalar: bool[] stop_gradient
    var "odd name\\n": int64[0]
    var list: float64[3] LOD_TENSOR_ARRAY
    var scopes: ?[?] STEP_SCOPES
    var kept: float64[2] STEP_SCOPES
    param w: float32[2, 3] learning_rate=0.1 l2_decay=0.3 no_clip
    param fixed: float64[1] fixed l1_decay=1e-300
    param odd: float64[1] fixed stop_gradient=false
    zork(X=[a, b], "odd slot"=c) -> (Out=d) {i=-1, big=1099511627776, f=0.1, g=1.0, n=nan, m=-inf, z=-0.0, s="\\"\\u00e9\\udcff", t=true}
    zork() -> () {none=[], ints=[1, 2], longs=[1, 4294967296], floats=[0.5, inf], doubles=[0.1, nan], bools=[true, false], texts=["a", ""]}
    zork() -> () {body=block(1), bodies=[block(1), block(2)]} backward
    scale(X=w) -> (Out=y) {run_once=true} optimize
    fill_constant() -> (Out=y) {shape=[], dtype="float64", value=0.1}
  }
  block 1 in 0 {
  }
  block 2 in 0 {
    var inner: float32[-1]
  }
}
"""


def both(program: ga.Program) -> list[ga.Program]:
    return [from_json(to_json(program)), load_program(dump_program(program))]


def test_everything_a_text_can_say() -> None:
    program = ga.Program.parse(EDGES)
    for again in both(program):
        assert str(again) == str(program)
        assert to_json(again) == to_json(program)


def test_types_stay() -> None:
    for again in both(ga.Program.parse(EDGES)):
        attrs = again.global_block().ops[0].attrs
        assert [type(attrs[name]) for name in "ifgst"] == [int, float, float, str, bool]
        assert math.copysign(1.0, attrs["z"]) == -1.0
        odd, w = again.global_block().var("odd"), again.global_block().var("w")
        assert isinstance(odd, ga.Parameter)
        assert (odd.trainable, odd.stop_gradient) == (False, False)
        assert isinstance(w, ga.Parameter)
        assert (w.regularizer, w.learning_rate, w.need_clip) == (L2Decay(0.3), 0.1, False)
        assert again.global_block().ops[2].attrs["body"] is again.blocks[1]


def test_a_parameter_of_code() -> None:
    program = ga.Program()
    program.global_block().create_parameter("w", [2], "float64", learning_rate=math.inf, regularizer=L1Decay(math.nan))
    for again in both(program):
        assert str(again) == str(program)


def test_names_go_on_counting() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        ga.layers.fc(ga.layers.data("x", shape=[2]), 3)
    for again in both(program):
        with ga.program_guard(again):
            assert ga.layers.fc(again.global_block().var("x"), 3).name not in program.global_block().vars


@given(straight_line_programs(), st.booleans())
def test_random_programs(case: Any, backward: bool) -> None:
    _hold(case, backward)


@given(nested_programs(), st.booleans())
def test_random_nested_programs(case: Any, backward: bool) -> None:
    _hold(case, backward)


def _hold(case: Any, backward: bool) -> None:
    if backward:
        ga.append_backward(case.loss)
    for again in both(case.program):
        assert str(again) == str(case.program)
        assert dump_program(again) == dump_program(case.program)


VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(), st.text()), lambda inner: st.lists(inner, max_size=3), max_leaves=8
)
PLAIN = st.one_of(st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(), st.text())
FLAT = st.one_of(
    PLAIN, *(st.lists(kind, max_size=4) for kind in (st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(), st.text()))
)


def holding(attrs: dict[str, Any]) -> ga.Program:
    program = ga.Program()
    program.global_block().ops.append(ga.Operator(program.global_block(), "zork", {"X": ["x"]}, {}, attrs))
    return program


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_any_attributes_through_json(attrs: dict[str, Any]) -> None:
    program = holding(attrs)
    assert str(from_json(to_json(program))) == str(program)


@given(st.dictionaries(st.text(min_size=1).map("a{}".format), FLAT, max_size=4))
def test_flat_attributes_through_protobuf(attrs: dict[str, Any]) -> None:
    program = holding(attrs)
    assert str(load_program(dump_program(program))) == str(program)


@pytest.mark.parametrize("value", [[1, 0.5], [[1]], 1 << 63, [True, 1], None])
def test_what_protobuf_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(ga.errors.InvalidValue, match=r"block 0, operator 0 \('zork'\): .*(no form|no text form)"):
        dump_program(holding({"a": value}))


def test_a_slot_that_paddle_calls_otherwise_is_called_so_in_its_file() -> None:
    line = "read_from_array(X=a, I=i, Like=x) -> (Out=y)"
    program = ga.Program.parse(f"program {{ block 0 {{ var x: float32[2] var i: int64[1] var a: float32[2] LOD_TENSOR_ARRAY {line} }} }}")
    data = dump_program(program)
    assert b"X_W" in data
    assert b"Like" not in data
    assert str(load_program(data)) == str(program)


def test_the_json_is_standard_and_says_its_version() -> None:
    doc = json.loads(to_json(ga.Program.parse(EDGES)), parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    assert (doc["format"], doc["version"], doc["random_seed"]) == ("graphad.program", 1, 7)
    assert doc["blocks"][0]["vars"]["scalar"] == {"shape": [], "dtype": "bool", "stop_gradient": True}
