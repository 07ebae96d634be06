"""The conformance cases with blocks, written with graphad's layers as their ``python_source`` says: the same values."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.conformance.loading import Case, assert_gradients, close, differentiated, has_blocks, load, names, run

layers: Any = ga.layers
Build = Callable[[Any], dict[str, Any]]  # from feeds and parameters to the loss and the variables that labels stand for
ZERO = np.zeros(1, "int64")


def total(x: Any) -> Any:
    return layers.reduce_sum(x, reduce_all=True)


def repeated(count: int, body: Callable[[Any, Any], Any], start: Any) -> Any:
    """The state after ``count`` iterations from ``start``."""
    _, result = layers.while_loop(lambda i, _: i < count, lambda i, y: [i + 1, body(i, y)], [ZERO, start])
    return result


# -- branches ------------------------------------------------------------------------------------


def cond(v: Any) -> dict[str, Any]:
    y = layers.cond(v.p, lambda: layers.tanh(layers.matmul(v.x, v.a)), lambda: layers.matmul(v.x, v.b) * v.x)
    return {"loss": layers.mean(y), "y": y}


def cond_nested(v: Any) -> dict[str, Any]:
    def true() -> Any:
        h = v.x * v.a
        return layers.cond(v.q, lambda: h * v.b, lambda: layers.exp(h) + v.c)

    y = layers.cond(v.p, true, lambda: v.c * v.x)
    return {"loss": total(layers.square(y)), "y": y}


def cond_two_outputs(v: Any) -> dict[str, Any]:
    first, second = layers.cond(v.p, lambda: (v.a, v.a * v.x), lambda: (v.b * v.x, v.b))
    return {"loss": total(first * second + v.x), "u": first, "v": second}


def switch_case(v: Any) -> dict[str, Any]:
    y = layers.switch_case(v.k, {0: lambda: v.x * v.a, 1: lambda: v.x * v.b * v.b, 2: lambda: v.x + v.c})
    return {"loss": total(layers.exp(y))}


# -- loops ---------------------------------------------------------------------------------------


def power(count: int) -> Build:
    def build(v: Any) -> dict[str, Any]:
        y = repeated(count, lambda i, y: y * v.w, v.x)
        return {"loss": total(y * y)}

    return build


def cube(v: Any) -> dict[str, Any]:
    return {"loss": repeated(2, lambda i, y: y * v.x, v.x)}


def nested(v: Any) -> dict[str, Any]:
    y = repeated(2, lambda i, y: repeated(3, lambda j, z: z * v.w, y) + v.x, v.x)
    return {"loss": total(y * y)}


def rnn(v: Any) -> dict[str, Any]:
    def body(t: Any, h: Any) -> Any:
        part = layers.reshape(layers.gather(v.x, t), shape=[2, 3])
        return layers.tanh(layers.matmul(part, v.U) + layers.matmul(h, v.W) + v.b)

    return {"loss": layers.mean(layers.square(repeated(4, body, v.h0)))}


def static_rnn(v: Any) -> dict[str, Any]:
    """The same, the other way to write it."""
    net = layers.StaticRNN()
    with net.step():
        part, h = net.step_input(v.x), net.memory(v.h0)
        new = layers.tanh(layers.matmul(part, v.U) + layers.matmul(h, v.W) + v.b)
        net.update_memory(h, new)
        net.step_output(new)
    last = layers.slice(net(), axes=[0], starts=[3], ends=[4])
    return {"loss": layers.mean(layers.square(last))}


def arrays(v: Any) -> dict[str, Any]:
    """mem[t + 1] = d[t] * w + mem[t], the first element a constant."""
    data = layers.create_array("float64", [v.d0, v.d1, v.d2])
    sums = layers.array_write(v.d0 * 0.0, 0)

    def body(t: Any, mem: Any) -> Any:
        return layers.array_write(layers.array_read(data, t) * v.w + layers.array_read(mem, t), t + 1, mem)

    return {"loss": layers.mean(layers.square(layers.array_read(repeated(3, body, sums), 3)))}


def branch_in_loop(v: Any) -> dict[str, Any]:
    two = layers.fill_constant([1], "int64", 2)

    def even(i: Any) -> Any:
        return layers.equal(layers.elementwise_mod(i, two), i * 0)

    y = repeated(4, lambda i, y: layers.cond(even(i), lambda: y * v.a, lambda: layers.sin(y) + v.b), v.x)
    return {"loss": total(y * y)}


REWRITTEN: dict[str, tuple[Build, ...]] = {
    "cond_false_branch": (cond,),
    "cond_nested_tf": (cond_nested,),
    "cond_true_branch": (cond,),
    "cond_two_outputs_identity": (cond_two_outputs,),
    "double_grad_through_while": (cube,),
    "switch_case_three": (switch_case,),
    "while_nested": (nested,),
    "while_power_3": (power(3),),
    "while_rnn": (rnn, static_rnn),
    "while_tensor_array": (arrays,),
    "while_with_cond_inside": (branch_in_loop,),
    "while_zero_iterations": (power(0),),
}


def built(case: Case, build: Build) -> tuple[ga.Program, dict[str, Any]]:
    """The program that a function makes of a case's feeds and parameters; the loss, and what labels stand for."""
    program = ga.Program()
    given: dict[str, Any] = {}
    with ga.program_guard(program, ga.Program()):
        for name, feed in case.doc["feeds"].items():
            given[name] = layers.data(name, feed["shape"], feed["dtype"], False, feed["stop_gradient"])
        for name, param in case.doc["params"].items():
            given[name] = program.global_block().create_parameter(name, param["shape"], param["dtype"], trainable=param["trainable"])
        return program, given | build(SimpleNamespace(**given))


def test_every_case_with_blocks_is_rewritten() -> None:
    assert sorted(REWRITTEN) == [name for name in names() if has_blocks(load(name))]


@pytest.mark.parametrize(("name", "build"), [(name, build) for name, builds in REWRITTEN.items() for build in builds])
def test_a_rewritten_case_has_the_same_values(name: str, build: Build) -> None:
    case = load(name)
    program, var = built(case, build)
    if "loss_value" in case.doc:
        close(run(program, case, [var["loss"]])[0], np.array(case.doc["loss_value"]), 1e-12)
    assert_gradients(program, case, differentiated(case, var["loss"], var))
    text = str(program)
    assert str(ga.Program.parse(text)) == text
    assert str(ga.schedule(ga.lower(program))) == text
