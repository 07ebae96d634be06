"""A program that was read and then changed: the change is written, and nothing else is written anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import graphad as ga
from graphad.interop.paddle.program_desc import dump_program, load_program, message
from tests.interop.stored import add_op, add_slot, after, cases, desc, forward


def parsed(data: bytes) -> Any:
    return message("ProgramDesc").FromString(data)


def differences(before: Any, now: Any) -> list[str]:
    """The paths of the fields in which two messages differ."""
    if type(before) is not type(now) or not hasattr(before, "DESCRIPTOR"):
        return [] if before == now else [""]
    found = []
    for field in before.DESCRIPTOR.fields:
        olds, news = getattr(before, field.name), getattr(now, field.name)
        if isinstance(olds, int | float | str | bytes) or hasattr(olds, "DESCRIPTOR"):
            found += [f".{field.name}{rest}" for rest in differences(olds, news)]
            continue
        if len(olds) != len(news):
            found.append(f".{field.name} of {len(olds)} and {len(news)}")
        pairs = enumerate(zip(olds, news, strict=False))
        found += [f".{field.name}[{i}]{rest}" for i, (old, new) in pairs for rest in differences(old, new)]
    return found


def op_of(program: ga.Program, op_type: str) -> ga.Operator:
    return next(op for block in program.blocks for op in block.ops if op.type == op_type)


def changed(change: Callable[[ga.Program], object], data: bytes) -> list[str]:
    program = load_program(data)
    change(program)
    text, written = str(program), dump_program(program)
    assert str(load_program(written)) == text
    assert dump_program(load_program(written)) == written
    return differences(parsed(data), parsed(written))


def test_the_finder_of_differences() -> None:
    one, other = desc(2), desc(2)
    assert differences(one, other) == []
    other.blocks[1].parent_idx = 5
    add_op(other, "tanh")
    assert differences(one, other) == [".blocks[0].ops of 0 and 1", ".blocks[1].parent_idx"]


def test_an_attribute() -> None:
    found = changed(lambda p: op_of(p, "scale").attrs.update(scale=3.0), forward("while_power_3"))
    assert len(found) == 1
    assert found[0].endswith(".f")


def test_an_attribute_that_is_no_float32_is_exact() -> None:
    found = changed(lambda p: op_of(p, "scale").attrs.update(scale=0.1), forward("while_power_3"))
    assert sorted(path.rpartition(".")[2] for path in found) == ["f", "float64", "type"]


def test_a_constant_is_exact_as_paddle_writes_it() -> None:
    def change(program: ga.Program) -> None:
        op = op_of(program, "fill_constant")
        op.attrs["value"] = 0.1

    data = forward("while_power_3")
    found = changed(change, data)
    assert sorted(path.rpartition(".")[2] for path in found) == ["f", "s"]
    program = load_program(data)
    change(program)
    texts = [
        a.s for op in parsed(dump_program(program)).blocks[0].ops if op.type == "fill_constant" for a in op.attrs if a.name == "str_value"
    ]
    assert b"0.1" in texts


def test_an_attribute_taken_away_or_added() -> None:
    found = changed(lambda p: op_of(p, "scale").attrs.pop("bias"), forward("while_power_3"))
    assert any(".attrs of " in path for path in found)
    found = changed(lambda p: op_of(p, "tanh").attrs.update(run_once=True), forward("while_rnn"))
    assert len(found) == 1
    assert ".attrs of " in found[0]


def test_a_role() -> None:
    def change(program: ga.Program) -> None:
        op_of(program, "scale").role = "optimize"

    found = changed(change, forward("while_power_3"))
    assert [path.rpartition(".")[2] for path in found] == ["i"]


def test_names() -> None:
    def change(program: ga.Program) -> None:
        op_of(program, "scale").inputs["X"] = ["other"]

    found = changed(change, forward("while_power_3"))
    assert all(".inputs" in path for path in found)
    assert found


def test_a_variable() -> None:
    def change(program: ga.Program) -> None:
        var = program.global_block().var("x")
        var.stop_gradient = not var.stop_gradient
        var.declare((-1, 7), "float32")

    found = changed(change, forward("activations"))
    assert {path.rpartition(".")[2].split("[")[0] for path in found} == {"stop_gradient", "dims", "data_type"}


def test_an_operator_more_and_one_less() -> None:
    data = forward("activations")

    def change(program: ga.Program) -> None:
        block = program.global_block()
        del block.ops[-1]
        block.append_op("tanh", {"X": "x"}, {"Out": "more"})
        block.append_op("tanh", {"X": "more"}, {"Out": "most"})

    found = changed(change, data)
    assert any(path.startswith(".blocks[0].ops of ") for path in found)
    assert any(path.startswith(".blocks[0].vars of ") for path in found)


def test_blocks_that_were_counted_anew() -> None:
    """Block 1 went away: what was said of block 2 by its number is not said of another one."""
    program = load_program(after("cond_true_branch"))
    pruned = program.clone(for_test=True)
    assert len(pruned.blocks) < len(program.blocks)
    assert str(load_program(dump_program(pruned))) == str(pruned)


def test_kept_what_has_no_place() -> None:
    """Levels of detail, kinds of variables and fields unknown here, versions."""
    made = desc()
    made.version.version = 1008000
    made.op_compatible_map, made.op_version_map = b"older", b"newer"
    feed = made.blocks[0].vars.add(name="feed", persistable=True)
    feed.type.type = 9
    words = made.blocks[0].vars.add(name="words", need_check_feed=True)
    words.type.type = 7
    words.type.lod_tensor.lod_level = 1
    words.type.lod_tensor.tensor.data_type = 22  # bfloat16
    words.type.lod_tensor.tensor.dims.extend([-1, 3])
    words.attrs.add(name="dist", type=3).ints.extend([1, 2])
    words.type.reader = b"reader"
    op = add_op(made, "zork", text=(2, "s", b"\xff\xfe"), when=(9, "l", 1 << 40), f=(15, "float64", 0.1), names=(14, "vars_name", ["a"]))
    op.is_target = True
    op.attrs.add(name="c", type=16).scalar.type = 4
    op.attrs[-1].scalar.c.r, op.attrs[-1].scalar.c.i = 1.0, 2.0
    op.attrs.add(name="d", type=17).scalars.add(type=3).r = 0.5
    data = made.SerializeToString() + b"\xc2\x3e\x01z"  # field 1000, a string
    program = load_program(data)
    assert dump_program(program) == data
    assert program.global_block().ops[0].attrs == {
        "text": "\udcff\udcfe",
        "when": 1 << 40,
        "f": 0.1,
        "names": ["a"],
        "c": "(1+2j)",
        "d": [0.5],
    }
    assert str(ga.Program.parse(str(program))) == str(program)


@pytest.mark.parametrize(("version", "shape"), [(0, ()), (2004002, None), (2006002, ())])
def test_no_extents_are_a_scalar_since_there_are_scalars(version: int, shape: tuple[int, ...] | None) -> None:
    made = desc()
    made.version.version = version
    var = made.blocks[0].vars.add(name="x")
    var.type.type = 7
    var.type.lod_tensor.tensor.data_type = 5
    program = load_program(made.SerializeToString())
    assert program.global_block().var("x").declared == (shape, "float32")
    program.global_block().create_var("y", (), "float32")
    assert str(load_program(dump_program(program))) == str(program)


def test_a_constant_given_as_text() -> None:
    made = desc()
    op = add_op(made, "fill_constant", value=(1, "f", 0.1), str_value=(2, "s", b"0.1"), dtype=(0, "i", 6), shape=(11, "longs", [1]))
    add_slot(op.outputs, "Out", "y")
    made.blocks[0].vars.add(name="y").type.type = 7
    program = load_program(made.SerializeToString())
    assert program.global_block().ops[0].attrs == {"value": 0.1, "dtype": "float64", "shape": [1]}
    assert ga.Executor().run(program, fetch_list=["y"])[0] == 0.1
    assert dump_program(program) == made.SerializeToString()
    op.attrs[1].s = b"9007199254740993"  # no float64
    assert load_program(made.SerializeToString()).global_block().ops[0].attrs["str_value"] == "9007199254740993"


@pytest.mark.parametrize("name", ["activations", "while_power_3"])
def test_append_backward_leaves_the_forward_as_it_was_stored(name: str) -> None:
    program, before = load_program(forward(name)), parsed(forward(name))
    ga.append_backward(program.global_block().var(cases()[name].doc["loss"]))
    now = parsed(dump_program(program)).blocks[0]
    assert len(now.ops) > len(before.blocks[0].ops)
    for op in (op for op in now.ops if cases()[name].doc["loss"] in [n for slot in op.outputs for n in slot.arguments]):
        for attr in (attr for attr in op.attrs if attr.name == "op_role"):  # Paddle notes the loss, too
            assert attr.i == 256
            attr.i = 0
    untouched = [op.SerializeToString() for op in before.blocks[0].ops if op.type != "while"]
    assert [op for op in untouched if op not in [each.SerializeToString() for each in now.ops]] == []
