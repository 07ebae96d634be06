"""Programs that the tests look at, and the pipelines that run on them."""

from __future__ import annotations

import graphad as ga
from graphad import layers


def training() -> tuple[ga.Program, str]:
    """A small network with its cost, and a pipeline: a pass with rules, the backward, then passes that change nothing."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x, label = layers.data("x", [6]), layers.data("label", [1], dtype="int64")
        hidden = layers.fc(x, 8, act="tanh")
        logits = layers.fc(layers.scale(hidden * hidden, 3.0), 4)
        cost = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    return program, f"simplify, {ga.backward_pipeline((cost.name,))}, cse, dead-code"


def loop() -> tuple[ga.Program, str]:
    """A recurrent network in a loop, and its backward."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", [3, 2, 4], append_batch_size=False, stop_gradient=False)
        w = layers.create_parameter([8, 4], "float32", name="w")
        start, state = layers.fill_constant([1], "int64", 0), layers.fill_constant([2, 4], "float32", 0.0)

        def body(i: ga.Variable, h: ga.Variable) -> list[ga.Variable]:
            row = layers.reshape(layers.gather(x, i), [2, 4])
            return [i + 1, layers.tanh(layers.matmul(layers.concat([row, h], axis=1), w))]

        _, last = layers.while_loop(lambda i, h: i < 3, body, [start, state])
        cost = layers.mean(last * last)
    return program, f"{ga.backward_pipeline((cost.name,))}, simplify, dead-code"


def branches() -> tuple[ga.Program, str]:
    """A branch, and its backward."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", [2], append_batch_size=False, stop_gradient=False)
        z = layers.cond(layers.mean(x) > 0.0, lambda: layers.exp(x) * 2.0, lambda: layers.square(x))
        cost = layers.mean(z)
    return program, f"{ga.backward_pipeline((cost.name,))}, cse"


def repeated(count: int = 60) -> tuple[ga.Program, str]:
    """A network of equal layers, and its backward."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        h = layers.data("x", [8], stop_gradient=False)
        for _ in range(count):
            h = layers.layer_norm(h + layers.fc(layers.relu(layers.fc(h, 8)), 8))
        cost = layers.mean(h)
    return program, str(ga.backward_pipeline((cost.name,)))


def fan_out(count: int = 40) -> tuple[ga.Program, str]:
    """A value that many equal chains read, and the backward; then layers in scopes of their own."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", [8], stop_gradient=False)
        h = layers.sums([layers.scale(layers.tanh(x), float(i)) for i in range(count)])
        for i in range(4):
            with ga.name_scope(f"block_{i}"):
                h = layers.fc(h, 8 + i, act="relu")
        cost = layers.mean(h)
    return program, str(ga.backward_pipeline((cost.name,)))


PROGRAMS = {"training": training, "loop": loop, "branches": branches, "repeated": repeated}
