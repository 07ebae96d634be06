"""Paddle's ``recurrent``, the operator of its StaticRNN: run, differentiated, and its own gradient run as it is.

``recurrent.json`` has programs that Paddle 2.6.2 wrote and ran (in float64). Its C++ runs ``recurrent`` still, but no
``rnn_memory_helper``, which Fluid's StaticRNN puts around what a step passes on. So no gradient of a state is among them:
``FLUID`` is written by hand, as Fluid 1.8 builds it, and differences are the judge.
"""

from __future__ import annotations

import base64
import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.interop.paddle import dump_program, load_program
from graphad.interop.report import refusals, unknown_operators
from graphad.ir.verify import verify
from graphad.types import Array


@cache
def stored() -> Any:
    return json.loads(Path(__file__).with_name("recurrent.json").read_text(encoding="utf-8"))


def data(name: str) -> bytes:
    return zlib.decompress(base64.b64decode(stored()["cases"][name]["program_z"]))


def ran(program: ga.Program, fetch: list[str], given: dict[str, Array] | None = None) -> list[Array]:
    arrays = {name: np.array(value) for group in ("feed", "param") for name, value in stored()[group].items()} | (given or {})
    scope = ga.Scope()
    for name in ("w", "u"):
        scope.set(name, arrays.pop(name))
    return ga.Executor().run(program, arrays, fetch, scope=scope)


# -- as Paddle writes it ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["forward", "forward_reverse", "gradient", "gradient_reverse", "gradient_any_length"])
def test_what_paddle_wrote_computes_what_paddle_computed(name: str) -> None:
    program = load_program(data(name))
    assert not unknown_operators(program)
    assert not refusals(program)
    graph = ga.lower(program)
    verify(graph)
    expected = stored()["cases"][name]["fetch"]
    for each in (program, ga.schedule(graph)):
        for of, value in zip(expected, ran(each, list(expected)), strict=True):
            np.testing.assert_allclose(value, expected[of], rtol=1e-13, atol=1e-15, err_msg=of)
    assert dump_program(program) == data(name), "running changed the program"


@pytest.mark.parametrize("name", ["forward", "forward_reverse"])
def test_it_is_differentiated_through_its_states(name: str) -> None:
    program = load_program(data(name))
    loss = next(iter(stored()["cases"][name]["fetch"]))
    block = program.global_block()
    sources = ["x", "h0", "w", "u"]
    gradients = ga.gradients([block.var(loss)], [block.var(source) for source in sources])
    _differences(program, loss, sources, [gradient.name for gradient in gradients if gradient is not None])


def _differences(program: ga.Program, loss: str, sources: list[str], gradients: list[str]) -> None:
    given = {name: np.array(value) for group in ("feed", "param") for name, value in stored()[group].items()}
    rng = np.random.default_rng(0)
    assert len(sources) == len(gradients)
    for source, gradient in zip(sources, ran(program, gradients), strict=True):
        direction = rng.standard_normal(given[source].shape)
        ends = [float(ran(program, [loss], {source: given[source] + step * direction})[0].sum()) for step in (1e-6, -1e-6)]
        assert float((gradient * direction).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-7, abs=1e-9), source


# -- as Fluid writes it ----------------------------------------------------------------------------

FLUID = """program {
  block 0 {
    var x: float64[3, 2, 2]
    var h0: float64[2, 2]
    param w: float64[2, 2]
    param u: float64[2, 2]
    var y: float64[3, 2, 2]
    var z: float64[3, 2, 2]
    var scopes: ?[?] STEP_SCOPES
    var loss: float64[]
    var yy: float64[3, 2, 2]
    var loss@GRAD: float64[]
    var yy@GRAD: float64[3, 2, 2]
    var y@GRAD: float64[3, 2, 2]
    var x@GRAD: float64[3, 2, 2]
    var h0@GRAD: float64[2, 2]
    var w@GRAD: float64[2, 2]
    var u@GRAD: float64[2, 2]
    recurrent(inputs=x, initial_states=h0, parameters=[w, u]) -> (outputs=[y, z], step_scopes=scopes)
      {has_states=true, ex_states=["h"], states=["mem"], sub_block=block(1), reverse=REVERSE}
    square(X=y) -> (Out=yy)
    mean(X=yy) -> (Out=loss)
    fill_constant() -> (Out=loss@GRAD) {shape=[], value=1.0, dtype="float64"} backward
    mean_grad(X=yy, Out@GRAD=loss@GRAD) -> (X@GRAD=yy@GRAD) backward
    square_grad(X=y, Out@GRAD=yy@GRAD) -> (X@GRAD=y@GRAD) backward
    recurrent_grad(inputs=x, initial_states=h0, parameters=[w, u], outputs=[y, z], outputs@GRAD=[y@GRAD, "@EMPTY@"], step_scopes=scopes)
      -> (inputs@GRAD=x@GRAD, initial_states@GRAD=h0@GRAD, parameters@GRAD=[w@GRAD, u@GRAD])
      {has_states=true, ex_states=["h"], states=["mem"], sub_block=block(2), reverse=REVERSE} backward
  }
  block 1 in 0 {
    var x: float64[2, 2]
    var h: float64[2, 2]
    var xw: float64[2, 2]
    var hu: float64[2, 2]
    var s: float64[2, 2]
    var hidden: float64[2, 2]
    var y: float64[2, 2]
    var z: float64[2, 2]
    var mem: float64[2, 2]
    mul(X=x, Y=w) -> (Out=xw)
    mul(X=h, Y=u) -> (Out=hu)
    elementwise_add(X=xw, Y=hu) -> (Out=s)
    tanh(X=s) -> (Out=hidden)
    rnn_memory_helper(X=hidden) -> (Out=y) {dtype=6}
    rnn_memory_helper(X=hidden) -> (Out=z) {dtype=6}
    rnn_memory_helper(X=hidden) -> (Out=mem) {dtype=6}
  }
  block 2 in 1 {
    var hidden@GRAD@RENAME@0: float64[2, 2]
    var hidden@GRAD@RENAME@1: float64[2, 2]
    var hidden@GRAD@RENAME@2: float64[2, 2]
    var hidden@GRAD: float64[2, 2]
    var s@GRAD: float64[2, 2]
    var xw@GRAD: float64[2, 2]
    var hu@GRAD: float64[2, 2]
    var h@GRAD: float64[2, 2]
    var x@GRAD: float64[2, 2]
    var u@GRAD: float64[2, 2]
    var w@GRAD: float64[2, 2]
    rnn_memory_helper_grad(X=hidden, Out=mem, Out@GRAD=mem@GRAD) -> (X@GRAD=hidden@GRAD@RENAME@0) {dtype=6} backward
    rnn_memory_helper_grad(X=hidden, Out=z, Out@GRAD=z@GRAD) -> (X@GRAD=hidden@GRAD@RENAME@1) {dtype=6} backward
    rnn_memory_helper_grad(X=hidden, Out=y, Out@GRAD=y@GRAD) -> (X@GRAD=hidden@GRAD@RENAME@2) {dtype=6} backward
    sum(X=[hidden@GRAD@RENAME@0, hidden@GRAD@RENAME@1, hidden@GRAD@RENAME@2]) -> (Out=hidden@GRAD) backward
    tanh_grad(Out=hidden, Out@GRAD=hidden@GRAD) -> (X@GRAD=s@GRAD) backward
    elementwise_add_grad(X=xw, Y=hu, Out@GRAD=s@GRAD) -> (X@GRAD=xw@GRAD, Y@GRAD=hu@GRAD) backward
    mul_grad(X=h, Y=u, Out@GRAD=hu@GRAD) -> (X@GRAD=h@GRAD, Y@GRAD=u@GRAD) backward
    mul_grad(X=x, Y=w, Out@GRAD=xw@GRAD) -> (X@GRAD=x@GRAD, Y@GRAD=w@GRAD) backward
  }
}
"""


def fluid(reverse: bool = False, *, change: tuple[str, str] = ("", "")) -> ga.Program:
    text = FLUID.replace("REVERSE", str(reverse).lower())
    assert change[0] in text
    return ga.Program.parse(text.replace(*change) if change[0] else text)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_gradient_that_fluid_wrote_is_right(reverse: bool) -> None:
    program, sources = fluid(reverse), ["x", "h0", "w", "u"]
    _differences(program, "loss", sources, [f"{source}@GRAD" for source in sources])


def test_it_can_be_differentiated_again_and_compiled() -> None:
    program = fluid()
    x, gradient = (program.global_block().var(name) for name in ("x", "x@GRAD"))
    gradient.stop_gradient = False
    (second,) = ga.gradients([gradient], [x])
    assert second is not None
    direction, step = np.ones((3, 2, 2)), 1e-6
    base = np.array(stored()["feed"]["x"])
    ends = [ran(program, ["x@GRAD"], {"x": base + s * direction})[0] for s in (step, -step)]
    (found,) = ran(program, [second.name])
    assert float(found.sum()) == pytest.approx(float((ends[0] - ends[1]).sum()) / (2 * step), rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('states=["mem"], sub_block=block(1)', "states=[], sub_block=block(1)"), "1 initial_states, 1 ex_states and 0 states"),
        (("inputs=x, initial_states=h0, parameters=[w, u]) ->", "initial_states=h0, parameters=[w, u]) ->"), "no inputs"),
        (
            ("Out=mem, Out@GRAD=mem@GRAD", "Out=mem, Out@GRAD=other@GRAD"),
            "never reads 'mem@GRAD'.*build it with append_backward or minimize",
        ),
        (("Out=hidden, Out@GRAD=hidden@GRAD", "Out=lost, Out@GRAD=hidden@GRAD"), "its block reads 'lost'.*build it with append_backward"),
        (('"@EMPTY@"], step_scopes=scopes', '"@EMPTY@"], step_scopes=others'), "the recurrent that writes the scopes others; 0 do"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_to_do(change: tuple[str, str], message: str) -> None:
    program = fluid(change=change)
    before = str(program)
    with pytest.raises(ga.errors.InvalidValue, match=message):
        ga.lower(program)
    assert str(program) == before
