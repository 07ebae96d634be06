"""Blocks in blocks, passes in passes, lists in lists: to a depth everything works, beyond it everything refuses with graphad's errors."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import GraphadError, InvalidValue, ParseError
from graphad.interop import read_program, write_program
from graphad.passes import Cse
from graphad.rewriting import Fixpoint, Nested

MOST = 100
SCOPES = "var s: float32[?] STEP_SCOPES"
ENTER = "conditional_block(Cond=c, Input=[y, c]) -> (Out=y, Scope=s) {{sub_block=block({})}}"


def text(depth: int) -> str:
    """A program of tanh of tanh, with conditional blocks nested so deep."""
    root = f'var x: float64[1] var y: float64[1] var c: bool[1] {SCOPES} fill_constant() -> (Out=c) {{shape=[1], value=1.0, dtype="bool"}}'
    blocks = [f"block 0 {{ {root} tanh(X=x) -> (Out=y) {ENTER.format(1)} }}"]
    blocks += [f"block {i} in {i - 1} {{ {SCOPES} {ENTER.format(i + 1)} }}" for i in range(1, depth)]
    return f"program {{ {' '.join(blocks)} block {depth} in {depth - 1} {{ tanh(X=y) -> (Out=y) }} }}"


def run(program: ga.Program, *fetch: str) -> list[Any]:
    return [float(value[0]) for value in ga.Executor().run(program, {"x": np.ones(1)}, list(fetch), ga.Scope())]


WANTED = [np.tanh(np.tanh(1.0))]


def through_file(name: str) -> Callable[[ga.Program, Path], ga.Program]:
    def copied(program: ga.Program, folder: Path) -> ga.Program:
        write_program(program, folder / name)
        return read_program(folder / name)

    return copied


COPIES: dict[str, Callable[[ga.Program, Path], ga.Program]] = {
    "itself": lambda p, _: p,
    "text": lambda p, _: ga.Program.parse(str(p)),
    "clone": lambda p, _: p.clone(),
    "deepcopy": lambda p, _: copy.deepcopy(p),
    "prune": lambda p, _: p.prune("y"),
    "graph": lambda p, _: ga.schedule(ga.lower(p).clone()),
    "json": through_file("p.json"),
    "protobuf": through_file("p.pdmodel"),
}


@pytest.mark.parametrize("way", COPIES)
def test_programs_nested_100_deep_work(way: str, tmp_path: Path) -> None:
    assert run(COPIES[way](ga.Program.parse(text(MOST)), tmp_path), "y") == WANTED


def test_programs_nested_100_deep_are_drawn_and_printed(tmp_path: Path) -> None:
    program = ga.Program.parse(text(MOST))
    ga.draw(program, tmp_path / "p.dot")
    assert (tmp_path / "p.dot").stat().st_size > 10_000
    assert str(ga.lower(program)).count("conditional_block") == MOST


def test_gradients_of_blocks_are_one_deeper() -> None:
    program = ga.Program.parse(text(MOST - 1))
    (gradient,) = ga.gradients(program.global_block().var("y"), program.global_block().var("x"))
    assert gradient is not None
    np.testing.assert_allclose(run(program, gradient.name), (1 - WANTED[0] ** 2) * (1 - np.tanh(1.0) ** 2))
    deeper = ga.Program.parse(text(MOST), "deep.txt")
    before = str(deeper)
    with pytest.raises(InvalidValue, match=r"a block is nested 101 deep; at most 100 are possible\n  written at deep\.txt:\d+$"):
        ga.gradients(deeper.global_block().var("y"), deeper.global_block().var("x"))
    assert str(deeper) == before


def test_deeper_programs_are_refused() -> None:
    message = "block is nested 101 deep; at most 100"
    with pytest.raises(ParseError, match=message):
        ga.Program.parse(text(MOST + 1))
    program = ga.Program.parse(text(MOST))
    with pytest.raises(InvalidValue, match=rf"{message}(.|\n)*written at .*test_depth.py"):
        program.create_block(MOST)
    assert len(program.blocks) == MOST + 1


def test_layers_nested_deeper_are_refused() -> None:
    def branch(depth: int, x: ga.Variable) -> ga.Variable:
        return x if not depth else ga.layers.cond(ga.layers.mean(x) < 2.0, lambda: branch(depth - 1, x), lambda: x)

    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [1], "float64", append_batch_size=False)
        before = str(program)
        with pytest.raises(GraphadError, match="nested 101 deep"):
            branch(MOST + 50, x)
    assert re.sub(r"\s*(var|mean|fill_constant|less_than)\b.*_0.*", "", str(program)) == before


@pytest.mark.parametrize(
    "pipeline", ["fixpoint(" * 150 + "cse" + ")" * 150, "recompute{keep=" + "[" * 150 + "]" * 150 + "}", "cse{a=" + "[" * 9999]
)
def test_pipelines_with_too_many_brackets_are_refused(pipeline: str) -> None:
    with pytest.raises(ParseError, match="brackets are nested more than 64 deep") as refusal:
        ga.Pipeline.parse(pipeline)
    assert max(map(len, str(refusal.value).splitlines())) < 350


@pytest.mark.parametrize("combine", [Fixpoint, Nested])
def test_passes_nested_too_deep_are_refused(combine: Any) -> None:
    passes: Any = Cse()
    for _ in range(63):
        passes = combine(passes)
    graph = ga.lower(ga.Program.parse(text(3)))
    ga.Pipeline(passes).run(graph)
    assert str(ga.Pipeline.parse(str(passes))) == str(passes)
    passes = combine(passes)
    with pytest.raises(InvalidValue, match="passes are nested 65 deep"):
        combine(combine(passes))


def test_a_deep_copy_of_several_things_refers_to_one_program() -> None:
    program = ga.Program.parse(text(3))
    y, op = program.global_block().var("y"), program.block(2).ops[0]
    copied, variable, operator, block = copy.deepcopy((program, y, op, program.block(1)))
    assert variable is copied.global_block().var("y")
    assert operator is copied.block(2).ops[0]
    assert operator.attrs["sub_block"] is copied.block(3)
    assert block is copied.block(1)
    alone = copy.deepcopy(y)
    assert alone.block.program is not program
    assert alone.block.program.global_block().var("y") is alone
