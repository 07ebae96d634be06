"""Programs as text: what is printed reads back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import graphad as ga
from graphad.program import ROLES
from graphad.types import DTYPES, KINDS

KEYWORDS = ["var", "param", "block", "program", "in", "seed", "true", "inf", "nan", "fixed", "backward", "no_clip=", "block(0)"]
MARKS = ["-", "a-", "-a", "a->b", "'", '"', '\\"', "\\", ":", ",", "[", "{", "(", "?", "=", "#", "@", "/", ".", "_", "a#0"]
SPACES = ["a b", " ", "x\n", "\t", "a\u2028b", "\x00", "\x7f", "\ud800"]
ODD = [*KEYWORDS, *MARKS, *SPACES, "é", "²", "日本", "1x", "a.b/c@GRAD@RENAME@0"]

names = st.sampled_from(ODD) | st.text(min_size=1, max_size=8)
words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,8}", fullmatch=True)
scalars = st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=8) | st.sampled_from(ODD)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
shapes = st.none() | st.lists(st.integers(-1, 5), max_size=4)
slots = st.dictionaries(names, st.lists(names, max_size=3), max_size=3)


def add_parameter(draw: st.DrawFn, program: ga.Program) -> None:
    name, shape = draw(names), draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    if program.global_block().has_var(name):
        return
    rate, need_clip = draw(st.floats()), draw(st.booleans())
    w = program.global_block().create_parameter(name, shape, draw(st.sampled_from(DTYPES)), draw(st.booleans()), rate, need_clip=need_clip)
    w.stop_gradient = draw(st.booleans())


def add_variable(draw: st.DrawFn, block: ga.Block) -> None:
    name = draw(names)
    if block.has_var(name):
        return
    dtype, kind = draw(st.none() | st.sampled_from(DTYPES)), draw(st.sampled_from(KINDS))
    block.create_var(name, draw(shapes), dtype, draw(st.booleans()), draw(st.booleans()), kind)


def add_operator(draw: st.DrawFn, block: ga.Block) -> None:
    blocks = st.sampled_from(block.program.blocks)
    attrs = draw(st.dictionaries(words, values | blocks, max_size=4))
    block.ops.append(ga.Operator(block, draw(words), draw(slots), _distinct(draw(slots)), attrs, draw(st.sampled_from(ROLES))))


def _distinct(outputs: dict[str, list[str]]) -> dict[str, list[str]]:
    """The slots with each name where it is first: an operator writes a name once."""
    seen: set[str] = set()
    return {slot: [name for name in names if name not in seen and not seen.add(name)] for slot, names in outputs.items()}  # type: ignore[func-returns-value]


@st.composite
def programs(draw: st.DrawFn) -> ga.Program:
    """Any program at all: nothing here is checked against the operator table."""
    program = ga.Program()
    program.random_seed = draw(st.integers(-3, 2**40))
    for _ in range(draw(st.integers(0, 3))):
        program.create_block(draw(st.integers(0, len(program.blocks) - 1)))
    for _ in range(draw(st.integers(0, 3))):
        add_parameter(draw, program)
    for block in program.blocks:
        for _ in range(draw(st.integers(0, 3))):
            add_variable(draw, block)
        for _ in range(draw(st.integers(0, 3))):
            add_operator(draw, block)
    return program


def parts(program: ga.Program) -> list[Any]:
    """Everything a program says, for comparing; nan equals itself in a repr."""
    found: list[Any] = [program.random_seed]
    for block in program.blocks:
        found.append((block.idx, block.parent_idx))
        for v in block.vars.values():
            flags = (v.trainable, v.learning_rate, v.need_clip) if isinstance(v, ga.Parameter) else ()
            found.append(repr((type(v), v.name, v.declared, v.persistable, v.stop_gradient, v.type, flags)))
        for op in block.ops:
            found.append(repr((op.type, op.inputs, op.outputs, {k: plain(v) for k, v in op.attrs.items()}, op.role)))
    return found


def plain(value: Any) -> Any:
    return f"block({value.idx})" if isinstance(value, ga.Block) else value


def with_attribute(value: Any) -> ga.Program:
    program = ga.Program()
    block = program.create_block()
    attrs = {"a": block if value is ga.Block else value}
    program.global_block().ops.append(ga.Operator(program.global_block(), "foo", {}, {}, attrs))
    return program


# -- round trip ----------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_what_is_printed_reads_back(program: ga.Program) -> None:
    text = str(program)
    parsed = ga.Program.parse(text)
    assert str(parsed) == text
    assert parts(parsed) == parts(program)
    assert all(op.block is block and op.block.program is parsed for block in parsed.blocks for op in block.ops)


@given(names)
@example("var")
@example("-")
def test_every_name_reads_back(name: str) -> None:
    program = ga.Program()
    program.global_block().create_var(name, [2], "float32")
    program.global_block().append_op("tanh", {"X": name}, {"Out": name + "'"})
    parsed = ga.Program.parse(str(program))
    assert list(parsed.global_block().vars) == [name, name + "'"]
    assert parsed.global_block().ops[0].input("X") == [name]


NUMBERS = [float("inf"), -float("inf"), float("nan"), -0.0, 0.0, 1e300, 5e-324, 1e22, 1.0, 1, -7, 10**30, True, False]
OTHERS = ["", "true", "1.0", '"\\\n\t\x00\u2028\ud800', [], [[]], [[1, 2], [-3.5, "a]"]], [True, False], ["", '"']]


@pytest.mark.parametrize("value", [*NUMBERS, *OTHERS], ids=ascii)
def test_every_attribute_reads_back_as_it_was(value: Any) -> None:
    program = with_attribute(value)
    (op,) = ga.Program.parse(str(program)).global_block().ops
    assert repr(op.attrs["a"]) == repr(value)


def test_a_block_attribute_reads_back_as_the_block() -> None:
    parsed = ga.Program.parse(str(with_attribute(ga.Block)))
    assert parsed.global_block().ops[0].attrs["a"] is parsed.blocks[1]


def test_a_list_of_blocks_reads_back_as_the_blocks() -> None:
    program = with_attribute(0)
    program.global_block().ops[0].attrs["a"] = [program.blocks[1], program.blocks[0]]
    parsed = ga.Program.parse(str(program))
    assert parsed.global_block().ops[0].attrs["a"] == [parsed.blocks[1], parsed.blocks[0]]


@pytest.mark.parametrize("op", ['"odd type"() -> ()', 'foo() -> () {"odd name"=1}', '""() -> ()'])
def test_an_odd_type_or_attribute_name_reads_back(op: str) -> None:
    text = str(ga.Program.parse(f"program {{ block 0 {{ {op} }} }}"))
    assert str(ga.Program.parse(text)) == text


def test_a_parameters_decay_reads_back() -> None:
    program = ga.Program()
    program.global_block().create_parameter("w", [2], regularizer=ga.optimizer.L2Decay(0.5))
    assert ga.Program.parse(str(program)).all_parameters()[0].regularizer == ga.optimizer.L2Decay(0.5)


def test_a_whole_learning_rate_reads_back() -> None:
    program = ga.Program()
    program.global_block().create_parameter("w", [2], learning_rate=2)
    assert str(ga.Program.parse(str(program))) == str(program)


def test_an_attribute_that_would_not_print_is_refused() -> None:
    block = ga.Program().global_block()
    block.create_var("x", [2], "float32")
    with pytest.raises(TypeError, match="attribute 'op_device' is a boolean, a number, a string or a list of those, not None"):
        block.append_op("tanh", {"X": "x"}, {"Out": "y"}, {"op_device": None})


def test_a_trained_program_reads_back_and_runs() -> None:
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        cost = ga.layers.mse(ga.layers.fc(ga.layers.data("x", [2]), 1), ga.layers.data("label", [1]))
        ga.optimize(cost)
    startup.random_seed = 1
    feed = {"x": [[1.0, 2.0]], "label": [[3.0]]}
    results = []
    for program, first in [(main, startup), (ga.Program.parse(str(main)), ga.Program.parse(str(startup)))]:
        scope = ga.Scope()
        ga.Executor().run(first, scope=scope)
        results.append([ga.Executor().run(program, feed, [cost.name], scope)[0] for _ in range(3)])
    assert results[0] == results[1]
    assert results[0][0] > results[0][2]
