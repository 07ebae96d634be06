"""Programs that are nearly right, as text, JSON and protobuf, and pipelines: whatever is done with them, only graphad's errors come out."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphad as ga
from graphad.drawing import to_dot
from graphad.errors import GraphadError
from graphad.interop import from_json, to_json
from graphad.interop.paddle.program_desc import dump_program, load_program
from graphad.ir.verify import verify
from graphad.rewriting import PASSES

layers = ga.layers
PIPELINES = (
    "cse",
    "dead-code",
    "simplify",
    "constant-folding",
    "hoist-invariants",
    "fold-branches",
    "in-place",
    "fuse-elementwise",
    "recompute",
)
ODD = ("0", "-1", "nan", "1e400", "9" * 400, '""', '"\\ud800"', '"\\u0000"', "true", "block(1)", "[]", '[1, "a"]', "null", "1.5")
SEEDS = [pytest.param(seed, marks=[pytest.mark.long] if seed >= 2 else []) for seed in range(12)]


def with_blocks() -> ga.Program:
    """A loop, a branch, and their gradients."""
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        x = layers.data("x", [2], append_batch_size=False, stop_gradient=False, dtype="float64")
        w = layers.mean(layers.fc(layers.reshape(x, shape=[1, 2]), size=2))
        n, y = layers.while_loop(lambda i, y: layers.mean(y) < 30.0, lambda i, y: [i + 1, y * x + w], [0, x * 1.0 + 2.0])
        ga.append_backward(layers.mean(layers.cond(n < 10, lambda: y * 2.0, lambda: layers.sqrt(y))))
    return main


def with_arrays() -> ga.Program:
    """An array of tensors, a random operator, and their gradients."""
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        x = layers.data("x", [3, 2], append_batch_size=False, stop_gradient=False, dtype="float64")
        first = layers.fill_constant([1], "int64", 0)
        array = layers.array_write(x, first)
        array = layers.array_write(x * 2.0, first + 1, array=array)
        ga.append_backward(layers.mean(layers.softmax(layers.array_read(array, first) + x) * layers.dropout(x, 0.5)))
    return main


PROGRAMS = (with_blocks(), with_arrays())


def changed_text(chance: random.Random, text: str) -> str:
    """The text with one or two words replaced, or lines dropped or swapped."""
    for _ in range(chance.randint(1, 2)):
        lines = text.split("\n")
        i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
        match chance.randrange(5):
            case 0:
                del lines[i]
            case 1:
                lines[i], lines[j] = lines[j], lines[i]
            case _:
                words = re.findall(r'"(?:[^"\\]|\\.)*"|[\w.@-]+', text)
                parts = re.split(r'("(?:[^"\\]|\\.)*"|[\w.@-]+)', lines[i])
                if len(parts) > 1:
                    parts[chance.randrange(1, len(parts), 2)] = chance.choice(words if chance.random() < 0.8 else ODD)
                lines[i] = "".join(parts)
        text = "\n".join(lines)
    return text


def changed_bytes(chance: random.Random, data: bytes) -> bytes:
    content = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        content[chance.randrange(len(content))] = chance.choice((0, 1, 5, 127, 255, chance.choice(content), chance.randrange(256)))
    return bytes(content)


def go_through(chance: random.Random, program: ga.Program) -> None:
    """Everything that is done with a program."""
    steps: list[Callable[[], object]] = [
        lambda: str(program),
        lambda: to_json(program),
        lambda: dump_program(program),
        lambda: program.clone(for_test=True),
        lambda: verify(ga.lower(program)),
        lambda: ga.schedule(ga.lower(program)),
        lambda: to_dot(program),
        *(lambda name=name: ga.Pipeline.parse(name).run(ga.lower(program)) for name in chance.sample(PIPELINES, 2)),
        lambda: run(program),
    ]
    for step in steps:
        with suppress(GraphadError):
            step()


def run(program: ga.Program) -> None:
    """Run it on ones, unless something in it is large."""
    declared = {v.name: (v, tuple(map(abs, v.declared[0]))) for v in program.list_vars() if v.declared[0] is not None and v.declared[1]}
    numbers = [a for b in program.blocks for op in b.ops for v in op.attrs.values() for a in (v if isinstance(v, list) else [v])]
    large = [n for n in numbers if isinstance(n, int | float) and not isinstance(n, bool) and not abs(n) <= 100]
    if large or any(math.prod(shape) > 1e5 for _, shape in declared.values()):
        return
    scope = ga.Scope()
    for name, (var, shape) in declared.items():
        if var.persistable and var.type == "LOD_TENSOR":
            scope.set(name, np.ones(shape, var.declared[1]))
    feed = {name: np.ones(shape, var.declared[1]) for name, (var, shape) in declared.items() if name == "x"}
    ga.Executor(max_iterations=1000).run(program, feed, [], scope)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", ["text", "json", "protobuf"])
def test_programs_with_mistakes_meet_graphads_errors_only(form: str, seed: int) -> None:
    chance, read = random.Random(f"{form}{seed}"), 0
    while read < 6:
        program = chance.choice(PROGRAMS)
        with suppress(GraphadError):
            if form == "text":
                found = ga.Program.parse(changed_text(chance, str(program)), allow_unknown=chance.random() < 0.8)
            elif form == "json":
                found = from_json(changed_text(chance, to_json(program)))
            else:
                found = load_program(changed_bytes(chance, dump_program(program)))
            read += 1
            go_through(chance, found)


WORDS = [
    *sorted(PASSES)[:8],
    "fixpoint",
    "nested",
    "limit",
    "keep",
    "budget",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "=",
    ",",
    " ",
    "1",
    "-2.5",
    "nan",
    '"a"',
]
WORDS += ["true", "none", '"', "\\", "\n", "é", "9" * 5000, "recompute", "checkpoint-while"]


@given(st.lists(st.sampled_from(WORDS), max_size=12).map("".join) | st.text(max_size=30))
def test_pipelines_with_mistakes_meet_graphads_errors_only(text: str) -> None:
    with suppress(GraphadError):
        pipeline = ga.Pipeline.parse(text)
        assert str(ga.Pipeline.parse(str(pipeline))) == str(pipeline)


# -- single mistakes, and what is said about them --------------------------------------------------

HEAD = "program {\n  block 0 {\n    var x: float64[2]\n"
LOOP = """program {
  block 0 {
    var x: float64[2]
    var go: bool[]
    while(X=x, Condition=go) -> (Out=x, StepScopes=kept) {sub_block=block(1)}
    while_grad(X=x, StepScopes=kept, Out@GRAD=x@GRAD) -> (X@GRAD=x@GRAD) %s
  }
  block 1 in 0 {
    var own: float64[2]
    tanh(X=%s) -> (Out=x)
  }
  block 2 in 1 {
    var a@GRAD: float64[2]
    tanh(X=%s) -> (Out=a@GRAD)
  }
}
"""
INSIDE = "{sub_block=block(2), original_input=[a], original_output_grad=[b], original_input_grad=[a@GRAD]}".replace("[a", '["a').replace(
    "]", '"]'
)
INSIDE = INSIDE.replace("[b", '["b')
MISTAKES = {
    "it lacks the names inside": (
        LOOP % ("{sub_block=block(2)}", "x", "a"),
        "'original_input' is a list of names inside its blocks, not None",
    ),
    "it has too many": (
        LOOP % (INSIDE.replace('["a"]', '["a", "c"]', 1), "x", "a"),
        "'original_input' has 2 names, but slot X has 1 values",
    ),
    "it reads an unwritten name": (LOOP % (INSIDE, "x", "zork"), "its block 2 reads 'zork', which is not passed in"),
    "a block reads before it writes": (
        LOOP % (INSIDE, "own", "a"),
        "its block reads its own variable 'own' before any operator there writes",
    ),
    "no condition": (
        "program { block 0 { var x: float64[2] while(X=x, Condition=[x, x]) -> (Out=x) {sub_block=block(1)} } block 1 in 0 { } }",
        "takes one name",
    ),
    "an array without a name": (HEAD + "    write_to_array(X=x, I=x) -> ()\n  }\n}\n", "'write_to_array' writes one array, got 0 names"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named_with_their_line(name: str) -> None:
    text, message = MISTAKES[name]
    with pytest.raises(GraphadError, match=re.escape(message)) as caught:
        ga.lower(ga.Program.parse(text, "net.txt"))
    assert "written at net.txt:" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("scale() -> (Out=y)", "has nothing in its input slot X, so it cannot run"),
        ("tanh(X=x) -> (Zork=y)", "has an output slot Zork, which its definition does not have"),
        ("tanh(X=[x, x]) -> (Out=y)", "has 2 names in its input slot X, which takes one"),
        ("tanh_grad(Out=x, Out@GRAD=x) -> (Zork=y)", "has an output slot Zork"),
    ],
)
def test_an_operator_that_does_not_fit_its_row_does_not_run_or_is_blamed_on_a_pass(line: str, message: str) -> None:
    program = ga.Program.parse(f"{HEAD}    {line}\n  }}\n}}\n", "net.txt", allow_unknown=True)
    with pytest.raises(ga.errors.ExecutionError, match=re.escape(message) + r"[^\0]*written at net\.txt:4"):
        ga.Executor().run(program, {"x": np.ones(2)})
    with pytest.raises(ga.errors.InvalidGraph, match=r"^slots_filled: [^\0]*written at net\.txt:4"):
        ga.Pipeline.parse("simplify").run(ga.lower(program))


@pytest.mark.parametrize("extent", [9, 2])
def test_a_cotangent_of_another_shape_does_not_reach_beyond_its_memory(extent: int) -> None:
    """Gradients of a file infer nothing, and windows are views that reach as far as the shapes say."""
    text = """program { block 0 { var x: float64[1, 1, 6, 6] var w: float64[1, 1, 3, 3] var g: float64[-1, -1, -1, -1]
    var dx: float64[1, 1, 6, 6] var dw: float64[1, 1, 3, 3]
    conv2d_grad(Input=x, Filter=w, Output@GRAD=g) -> (Input@GRAD=dx, Filter@GRAD=dw) } }"""
    feeds = {"x": np.ones((1, 1, 6, 6)), "w": np.ones((1, 1, 3, 3)), "g": np.ones((1, 1, extent, extent))}
    with pytest.raises(
        ga.errors.ExecutionError,
        match=r"float64\[1, 1, \d, \d\]; an output of the convolution, which is float64\[1, 1, 4, 4\], is expected",
    ):
        ga.Executor().run(ga.Program.parse(text), feeds, ["dx", "dw"])
