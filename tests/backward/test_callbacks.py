"""``append_backward(callbacks=...)`` as Fluid has it: which operators are seen, what is known of them, and what is appended there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.errors import InvalidType, InvalidValue

X = np.array([[1.0, -2.0], [3.0, 0.5]], dtype="float32")


def _net() -> tuple[ga.Program, ga.Variable]:
    """loss = mean(tanh(x w) w): w is read twice, so that its gradient is a sum."""
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        x = ga.data("x", [None, 2])
        w = L.create_parameter([2, 2], "float32", name="w")
        loss = L.mean(L.tanh(x @ w) @ w)
    return main, loss


def _run(program: ga.Program, fetch: list[str], feed: dict[str, object]) -> list[np.ndarray]:
    scope = ga.Scope()
    scope.set("w", np.array([[0.5, -0.3], [0.2, 0.7]], dtype="float32"))
    return ga.Executor().run(program, feed, fetch, scope)


def test_each_operator_but_the_start_is_seen_when_its_block_ends_with_it() -> None:
    main, loss = _net()
    seen: list[tuple[str, bool]] = []

    def note(block: ga.Block, context: dict[str, object]) -> None:
        seen.append((block.ops[-1].type, context["__current_op_desc__"] is block.ops[-1]))

    ga.append_backward(loss, callbacks=[note])
    backward = [op.type for op in main.global_block().ops if op.role == "backward"]
    assert backward[0] == "fill_constant"
    assert seen == [(type, True) for type in backward[1:]]
    assert "sum" in backward


def test_the_context_names_the_forward_variable_of_each_gradient() -> None:
    _, loss = _net()
    contexts: list[dict[str, object]] = []
    ga.append_backward(loss, callbacks=(lambda block, context: contexts.append(context),))
    assert contexts[-1]["w@GRAD"] == "w"
    for context in contexts:
        op = context["__current_op_desc__"]
        assert isinstance(op, ga.Operator)
        for name in op.output_names():
            assert context[name] == name.split("@GRAD")[0]


def test_without_effect_the_program_is_the_same() -> None:
    (plain, loss), (called, same_loss) = _net(), _net()
    ga.append_backward(loss)
    ga.append_backward(same_loss, callbacks=[lambda block, context: None])
    assert str(called) == str(plain)


def test_what_a_callback_appends_comes_before_what_reads_it() -> None:
    """A clip in place, as Fluid's own ``error_clip_callback`` appends it: the later gradients follow from the clipped one."""

    def clipping(block: ga.Block, context: dict[str, object]) -> None:
        for name in block.ops[-1].output_names():
            if context.get(name) == "tanh_0.tmp_0":
                block.append_op("clip", {"X": name}, {"Out": name}, {"min": -0.1, "max": 0.1})

    main, loss = _net()
    ga.append_backward(loss, callbacks=[clipping])
    got = _run(main, ["tanh_0.tmp_0@GRAD", "w@GRAD"], {"x": X})
    w = np.array([[0.5, -0.3], [0.2, 0.7]], dtype="float32")
    hidden = np.tanh(X @ w)
    start = np.full((2, 2), 0.25)
    clipped = np.clip(start @ w.T, -0.1, 0.1)
    assert np.any(np.abs(start @ w.T) > 0.1)
    np.testing.assert_allclose(got[0], clipped, rtol=1e-6)
    np.testing.assert_allclose(got[1], hidden.T @ start + X.T @ (clipped * (1 - hidden**2)), rtol=1e-5)


def test_operators_in_the_gradient_of_a_loop_are_seen_in_their_block() -> None:
    main = ga.Program()
    with ga.program_guard(main):
        x = L.data("x", [2], append_batch_size=False, stop_gradient=False)
        _, y = L.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, L.tanh(y)], [0, x])
        loss = L.mean(y)
    seen: list[tuple[int, str]] = []
    ga.append_backward(loss, callbacks=[lambda block, context: seen.append((block.idx, block.ops[-1].type))])
    assert any(index > 0 and type == "tanh_grad" for index, type in seen)
    place = {type: at for at, (_, type) in enumerate(seen)}
    assert place["tanh_grad"] < place["while_grad"]
    (gradient,) = ga.Executor().run(main, {"x": np.array([0.3, -0.8], "float32")}, ["x@GRAD"])

    def run(v: np.ndarray) -> float:
        return float(np.tanh(np.tanh(np.tanh(v))).mean())

    for i in range(2):
        step = np.eye(2)[i] * 1e-5
        at = np.array([0.3, -0.8])
        np.testing.assert_allclose(gradient[i], (run(at + step) - run(at - step)) / 2e-5, rtol=1e-4)


def test_an_optimizer_passes_them_on() -> None:
    _, loss = _net()
    seen: list[str] = []
    ga.optimizer.SGD(0.1).backward(loss, callbacks=[lambda block, context: seen.append(block.ops[-1].type)])
    assert "tanh_grad" in seen


def _fails(block: ga.Block, context: dict[str, object]) -> None:
    block.append_op("clip", {"X": block.ops[-1].output_names()[0]}, {"Out": "clipped"}, {"min": 0.0, "max": 1.0})
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("callbacks", "error", "message"),
    [
        (print, InvalidType, "callbacks is a list of functions"),
        (["clip"], InvalidValue, "'callback' must be a callable object"),
        ([_fails], KeyError, "no such thing"),
    ],
)
def test_a_wrong_one_leaves_the_program_as_it_was(callbacks: list[Callable[..., object]], error: type[Exception], message: str) -> None:
    main, loss = _net()
    before = str(main)
    with pytest.raises(error, match=message):
        ga.append_backward(loss, callbacks=callbacks)
    assert str(main) == before


def test_checkpoints_are_a_pass() -> None:
    _, loss = _net()
    with pytest.raises(InvalidValue, match=r"takes no checkpoints: graphad.Executor\(passes='recompute'\)"):
        ga.append_backward(loss, checkpoints=[loss])  # type: ignore[arg-type]
