"""Bytes that are no program: one clear error each, and quickly."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import graphad as ga
from graphad.errors import InvalidType, ParseError
from graphad.interop.paddle.program_desc import dump_program, load_program, message
from graphad.interop.report import refusals, unknown_operators
from tests.interop.stored import add_op, add_slot, after, cases, desc, forward

FUZZED = 3000
BLOCK = (8, "block_idx")


def refused(made: Any, match: str) -> None:
    with pytest.raises(ParseError, match=match):
        load_program(made.SerializePartialToString())


@pytest.mark.parametrize("data", [b"", b"\n", b"hello", b"\n\x00", b"\n\xff\xff\xff\xff\x0f", b"\n\x02\x08\x00", b"\x0b" * 5000])
def test_other_bytes(data: bytes) -> None:
    with pytest.raises(ParseError, match=f"{len(data)} bytes are not a serialized ProgramDesc"):
        load_program(data)


@pytest.mark.parametrize("data", ["text", None, 3])
def test_no_bytes(data: Any) -> None:
    with pytest.raises(InvalidType, match="is bytes, not"):
        load_program(data)


def test_no_program() -> None:
    program: Any = "program {}"
    with pytest.raises(InvalidType, match="takes a Program"):
        dump_program(program)


def _second_var(made: Any) -> None:
    for _ in range(2):
        made.blocks[0].vars.add(name="x").type.type = 7


def _empty_name(made: Any) -> None:
    add_slot(add_op(made, "tanh").inputs, "X", "")


def _slot_twice(made: Any) -> None:
    op = add_op(made, "tanh")
    add_slot(op.inputs, "X", "x")
    add_slot(op.inputs, "X", "y")


def _output_twice(made: Any) -> None:
    op = add_op(made, "split")
    add_slot(op.outputs, "Out", "y", "y")


def _attr_twice(made: Any) -> None:
    op = add_op(made, "tanh", a=(0, "i", 1))
    op.attrs.add(name="a", type=0, i=2)


def _negative_extent(made: Any) -> None:
    var = made.blocks[0].vars.add(name="x")
    var.type.type = 7
    var.type.lod_tensor.tensor.data_type = 5
    var.type.lod_tensor.tensor.dims.append(-7)


def _own_attribute(text: bytes) -> Callable[[Any], None]:
    def change(made: Any) -> None:
        var = made.blocks[0].vars.add(name="x")
        var.type.type = 7
        var.attrs.add(name="graphad", type=2, s=text)

    return change


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_second_var, r"block 0, variable 1 \('x'\): variable 'x' is declared twice"),
        (_empty_name, r"block 0, operator 0 \('tanh'\): input slot 'X' has an empty name"),
        (_slot_twice, r"block 0, operator 0 \('tanh'\): input slot 'X' is given twice"),
        (_output_twice, r"block 0, operator 0 \('split'\): operator 'split' writes 'y' twice"),
        (_attr_twice, r"attribute 'a' is given twice, as 1 and as 2"),
        (_negative_extent, r"block 0, variable 0 \('x'\): shape \[-7\]"),
        (_own_attribute(b"{"), "is not JSON"),
        (_own_attribute(b"[" * 100000), "is not JSON"),
        (_own_attribute(b"[]"), "is not a JSON object"),
        (_own_attribute(b'{"speed": 1}'), "a variable has no field 'speed'"),
        (_own_attribute(b'{"shape": 3}'), "a shape is a list of ints"),
        (_own_attribute(b'{"dtype": 5}'), "dtype is one of .* not 5"),
        (_own_attribute(b'{"decay": ["l3", 1]}'), "decay is "),
        (lambda made: add_op(made, "z", a=(77, "i", 1)), "attribute 'a' is of type 77"),
        (lambda made: add_op(made, "z", a=(-1, "i", 1)), "attribute 'a' is of type -1"),
        (lambda made: add_op(made, "z", a=(*BLOCK, 9)), "no block 9"),
        (lambda made: add_op(made, "z", a=(*BLOCK, -1)), "no block -1"),
        (lambda made: add_op(made, "z", a=(*BLOCK, 0)), "holds block 0, which it is in"),
        (lambda made: add_op(made, "while"), "has no block as its attribute 'sub_block'"),
        (lambda made: add_op(made, "while", sub_block=(*BLOCK, 1)), "has nothing in its input slot Condition"),
        (lambda made: add_op(made, "net", 1, sub_block=(*BLOCK, 2)), "is in block 1, but holds block 2, whose parent is 0"),
    ],
)
def test_programs_that_make_no_sense(change: Callable[[Any], None], match: str) -> None:
    made = desc(3)
    change(made)
    refused(made, match)


@pytest.mark.parametrize("parents", [[0], [-1, -1], [-1, 1], [-1, 2, 0], [-1, -5]])
def test_blocks_that_do_not_nest(parents: list[int]) -> None:
    made = desc(0)
    for idx, parent in enumerate(parents):
        made.blocks.add(idx=idx, parent_idx=parent)
    refused(made, "the parent of block")


def test_blocks_out_of_order() -> None:
    made = desc(2)
    made.blocks[1].idx = 0
    refused(made, "block 0 is where block 1 should be")


def test_blocks_that_hold_each_other() -> None:
    made = desc(3)
    add_op(made, "z", 1, a=(*BLOCK, 2))
    add_op(made, "z", 2, a=(10, "blocks_idx", [0, 1])).attrs[0].blocks_idx[:] = [1]
    refused(made, r"blocks \[1, 2\] hold each other in a circle")


def test_names_that_are_no_text() -> None:
    data = forward("while_power_3")
    with pytest.raises(ParseError, match=r"block \d+, operator \d+ .*: the name b'\\xff.*' is not UTF-8|'utf-8' codec can't decode"):
        load_program(data.replace(b"scale_0", b"\xffcale_0").replace(b"ScaleTensor", b"\xffcaleTensor"))


# -- hostile -------------------------------------------------------------------------------------


def test_deep_nesting_is_refused_at_once() -> None:
    made = desc(0)
    for idx in range(30000):
        made.blocks.add(idx=idx, parent_idx=idx - 1).ops.add(type="z")
    start = time.perf_counter()
    refused(made, "block 101 is nested 101 deep")
    assert time.perf_counter() - start < 5.0


def test_many_blocks_and_operators_take_time_in_proportion() -> None:
    made = desc(20000)
    for idx in range(1, 20000):
        add_op(made, "z", idx - 1, a=(*BLOCK, idx))
    start = time.perf_counter()
    program = load_program(made.SerializeToString())
    assert time.perf_counter() - start < 10.0
    assert unknown_operators(program) == {"z": 19999}


def test_lengths_that_lie() -> None:
    """Every length in a small program, made huge: refused without memory for it."""
    data = forward("while_power_3")
    for place in range(0, len(data), 7):
        read(data[:place] + b"\xff\xff\xff\xff\x07" + data[place:])


def read(data: bytes) -> bool:
    """Whether the bytes are a program; if they are, it is whole: it prints, is copied, and is written back."""
    try:
        program = load_program(data)
    except ParseError:
        return False
    text = str(program)
    assert str(program.clone()) == text
    assert str(load_program(dump_program(program))) == text
    refusals(program)
    return True


def test_every_beginning_of_a_program() -> None:
    """It is one only where what follows the blocks begins, or the second field of that."""
    data = min((forward(name) for name in cases()), key=len)
    made = message("ProgramDesc").FromString(data)
    whole = []
    for field in ("op_version_map", "version"):
        made.ClearField(field)
        whole.append(made.ByteSize())
    assert [length for length in range(len(data)) if read(data[:length])] == sorted({*whole} - {len(data)})


def test_fuzzed_bytes() -> None:
    """Bytes changed, moved, doubled and cut out at random places of the smaller cases."""
    chance = random.Random(0)
    sources = [*sorted((after(name) for name in cases()), key=len)[:6], forward("while_nested")]
    outcomes = [read(mutated(chance, chance.choice(sources))) for _ in range(FUZZED)]
    assert 0.02 < sum(outcomes) / FUZZED < 0.98, "the mutations are all harmless, or all the same error"


def mutated(chance: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at, count = chance.randrange(len(found)), chance.randint(1, 40)
        match chance.randrange(5):
            case 0:
                found[at] = chance.randrange(256)
            case 1:
                found[at] ^= 1 << chance.randrange(8)
            case 2:
                del found[at : at + count]
            case 3:
                found[at:at] = found[at : at + count]
            case _:
                found[at : at + count] = chance.randbytes(count)
    return bytes(found)


# -- what is not known -----------------------------------------------------------------------------


def unknown() -> ga.Program:
    made = desc()
    for name in "xy":
        var = made.blocks[0].vars.add(name=name)
        var.type.type = 7
        var.type.lod_tensor.tensor.data_type = 6
        var.type.lod_tensor.tensor.dims.append(2)
    op = add_op(made, "zork", speed=(0, "i", 3))
    add_slot(op.inputs, "X", "x")
    add_slot(op.outputs, "Out", "y")
    return load_program(made.SerializeToString())


def test_unknown_operators_are_listed_and_fail_when_they_are_used() -> None:
    program = unknown()
    assert unknown_operators(program) == {"zork": 1}
    assert refusals(program) == {}
    assert "zork(X=x) -> (Out=y) {speed=3}" in str(program)
    ga.lower(program)
    with pytest.raises(ga.errors.ExecutionError, match="'zork' is not registered"):
        ga.Executor().run(program, feed={"x": [1.0, 2.0]}, fetch_list=["y"])
    block = program.global_block()
    with pytest.raises(ga.errors.NoGradient, match="'zork' is on the way to the target but is not registered"):
        ga.gradients(block.var("y"), [block.var("x")])


def test_what_known_operators_have_too_much_is_listed() -> None:
    made = desc()
    for _ in range(2):
        op = add_op(made, "scale", scale=(5, "strings", [b"a"]), fused_relu=(6, "b", True), use_mkldnn=(6, "b", True))
        add_slot(op.inputs, "ScaleTensor", "s")
        add_slot(op.inputs, "Nothing")
        add_slot(op.outputs, "Out", "y", "z")
    found = refusals(load_program(made.SerializeToString()))
    assert found == {
        "scale: attribute 'scale' is float, got list ['a']": 2,
        "scale: input slot 'X' is empty": 2,
        "scale: no attribute 'fused_relu'": 2,
        "scale: no input slot 'ScaleTensor'": 2,
        "scale: several names in output slot 'Out'": 2,
    }


def test_without_the_protobuf_runtime() -> None:
    """Text and JSON go on working; Paddle's format says what to install."""
    code = """
import sys
sys.modules["google"] = None
import graphad as ga
from graphad.interop import from_json, to_json
from graphad.interop.paddle import MissingProtobuf, dump_program, load_program
program = ga.Program.parse("program { block 0 { } }")
assert str(from_json(to_json(program))) == str(program)
for call in (lambda: dump_program(program), lambda: load_program(b"")):
    try:
        call()
    except MissingProtobuf as error:
        print(error, isinstance(error, ImportError), isinstance(error, ga.errors.GraphadError))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = "Paddle's programs are read and written by the protobuf runtime: pip install 'graphad[paddle]' True True\n"
    assert result.stdout == expected * 2
