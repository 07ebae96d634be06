"""Text that is no program: refused at its line and column, whatever it is."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphad as ga
from graphad.errors import ParseError
from tests.program.test_program_text import parts

BROKEN = [
    ("", 1, 1, "expected 'program', found 'the end of the text'"),
    ("program {\n  block 0 {\n", 3, 1, "expected a name, found 'the end of the text'"),
    ("program {\n  block 1 {\n  }\n}", 2, 11, "block 1 in -1 is out of place"),
    ("program { block 0 { }\n block 2 in 0 { } }", 2, 13, "block 2 in 0 is out of place: blocks count up from 0"),
    ("program { block 0 { }\n block 1 in 1 { } }", 2, 13, "block 1 in 1 is out of place"),
    ("program { block 0 {\n  var x float32[2] } }", 2, 9, "expected ':', found 'float32'"),
    ("program { block 0 {\n  var x: float32[2, %] } }", 2, 21, "unexpected character '%'"),
    ("program { block 0 {\n  var x: float32[2 3] } }", 2, 20, "expected ',', found '3'"),
    ("program { block 0 {\n  var x: float32[2]\n  var x: float32[2] } }", 3, 7, "'x' is declared twice in block 0"),
    ("program { block 0 {\n  tanh(X=x) (Out=y) } }", 2, 13, "expected '->', found '('"),
    ("program { block 0 {\n  tanh(X=x) -> (Out=) } }", 2, 21, "expected a name, found ')'"),
    ("program { block 0 {\n  tanh(X=x) -> (Out=y) {a=1 b=2} } }", 2, 29, "expected ',', found 'b'"),
    ("program { block 0 {\n  tanh(X=x) -> (Out=y) {a=0x10} } }", 2, 27, "expected a number, found '0x10'"),
    ("program { block 0 {\n  tanh(X=x) -> (Out=y) {a=nope} } }", 2, 27, "expected a number, found 'nope'"),
    ("program { block 0 {\n  f(X=x) -> (Out=y, Z=[z, y]) } }", 2, 29, "operator 'f' writes 'y' twice"),
    ('program { block 0 {\n  tanh(X="x) -> (Out=y) } }', 2, 10, "unexpected character '\"'"),
    ("program { block 0 { } }\nx", 2, 1, "unexpected 'x' after the program"),
    ("\ufeffprogram { block 0 { } }", 1, 1, "unexpected character"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), BROKEN, ids=[b[3] for b in BROKEN])
def test_an_error_points_at_the_place(text: str, line: int, column: int, message: str) -> None:
    shown = (text.split("\n") or [""])[line - 1]
    pointer = f"\n  {shown}\n  {' ' * (column - 1)}^"
    with pytest.raises(ParseError, match=re.escape(f"line {line}, column {column}: {message}") + ".*") as caught:
        ga.Program.parse(text)
    assert str(caught.value).endswith(pointer)


@pytest.mark.parametrize("text", [None, b"program { }", 3])
def test_a_program_is_parsed_from_text(text: Any) -> None:
    with pytest.raises(TypeError, match=f"from text, not from {type(text).__name__}"):
        ga.Program.parse(text)


INSIDE = "program {{ block 0 {{ {} }} }}"
NONSENSE = [
    INSIDE.format("var x: flt[2]"),
    INSIDE.format("var x: float32[-5]"),
    INSIDE.format('var "": float32[2]'),
    INSIDE.format("param x: float32[-1]"),
    INSIDE.format("param x: ?[2]"),
    INSIDE.format("foo() -> () {a=block(3)}"),
    INSIDE.format("foo() -> () {a=block(inf)}"),
    INSIDE.format("var x: float32[inf]"),
    INSIDE.format("var x: float32[nan]"),
    INSIDE.format("var x: float32[2.5]"),
    "program { block nan { } }",
    "program seed inf { block 0 { } }",
    "program seed 1.5 { block 0 { } }",
    INSIDE.format("var x: float32[2] learning_rate=3"),
    INSIDE.format("var x: float32[2] fixed"),
    INSIDE.format("var x: float32[2] no_clip"),
    INSIDE.format("var x: float32[2] stop_gradient=maybe"),
    INSIDE.format("param x: float32[?]"),
    INSIDE.format(r'foo() -> () {a="\q"}'),
    pytest.param(INSIDE.format('foo() -> () {a="a\nb"}'), id="newline in a string"),
    INSIDE.format("foo(X=a, X=b) -> ()"),
    INSIDE.format("foo() -> () {a=1, a=2}"),
    "program { block 0 { var x: float32[2] } block 0 { } }",
    pytest.param(INSIDE.format("foo() -> () {a=" + "[" * 5000 + "}"), id="5000 open brackets"),
]


@pytest.mark.parametrize("text", NONSENSE)
def test_what_makes_no_sense_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(ParseError, match=r"line \d+, column \d+"):
        ga.Program.parse(text)


# -- fuzz ----------------------------------------------------------------------------------------

WHOLE = """program seed 3 {
  block 0 {
    var x: float32[-1, 3] stop_gradient
    var "a b": ?[?] LOD_TENSOR_ARRAY persistable
    param w: float64[3] fixed learning_rate=0.5 no_clip stop_gradient=false
    mul(X=x, Y=w) -> (Out=y) {a=-1, b=1e-05, c="q\\"\\n", d=[1, [true]], e=block(1), f=inf} backward
    split(X=y) -> (Out=[p, "q:"]) optimize
  }
  block 1 in 0 {
  }
}
"""
TOKENS = re.findall(r'"(?:[^"\\]|\\.)*"|[\w.@-]+|\s+|.', WHOLE)
NEW = [*sorted(set(TOKENS)), "%", "nan", "-", '"', "\\", "\n", "é", "1e999", "-2", "2.5", "->", ""]
cuts = st.tuples(st.integers(0, len(TOKENS) - 1), st.integers(0, 3), st.lists(st.sampled_from(NEW), max_size=2))


@st.composite
def mutated(draw: st.DrawFn) -> str:
    tokens = list(TOKENS)
    for start, length, new in draw(st.lists(cuts, min_size=1, max_size=3)):
        tokens[start : start + length] = new
    return "".join(tokens)


def parsed(text: str) -> ga.Program | None:
    try:
        return ga.Program.parse(text)
    except ParseError:
        return None


def test_the_text_that_is_mutated_is_a_program() -> None:
    assert str(ga.Program.parse(WHOLE)) == WHOLE


@given(mutated())
def test_mutated_text_is_refused_or_reads_back(text: str) -> None:
    program = parsed(text)
    if program is not None:
        assert parts(ga.Program.parse(str(program))) == parts(program)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert parsed(text) is None


@pytest.mark.parametrize("part", ["(", "{", '"', "\\", "a ", "[", " ", "-", "1", "\n", '"\\"', "program { "])
def test_reading_long_nonsense_takes_no_time(part: str) -> None:
    start = time.perf_counter()
    assert parsed("program { block 0 { foo() -> () " + part * 20000) is None
    assert time.perf_counter() - start < 2.0
