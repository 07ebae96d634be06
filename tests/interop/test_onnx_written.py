"""ONNX models, written: what onnxruntime computes of them is what graphad computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

import graphad as ga
from graphad.cli import main
from graphad.errors import GraphadError, InvalidValue
from graphad.interop import onnx
from graphad.interop.onnx.model import Undecided
from graphad.interop.onnx.saving import as_message
from graphad.interop.onnx.schema import message
from graphad.ops import lookup
from graphad.testing import Case, nested_programs
from graphad.testing.samples import samples_of
from graphad.types import FLOATS as FLOAT_DTYPES
from graphad.types import Array
from tests.interop.onnx_nodes import cases, numbers
from tests.interop.test_onnx import COUNT, DENSE, FLOATS, W, lstm
from tests.onnx_models import graph, model, node
from tests.onnx_written import PAGE, outcome, tried

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'graphad[onnx-tests]'")
checker = pytest.importorskip("onnx.checker", reason="the onnx package is not installed: pip install 'graphad[onnx-tests]'")


def ran(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
    """The results of onnxruntime on a file that the format's checker accepts, shapes included."""
    checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    found: list[Array] = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, dict(feeds))
    return found


def same(model: onnx.OnnxModel, feeds: Mapping[str, Array], folder: Path, tolerance: float = 1e-5) -> list[Array]:
    """Write a model, and compare what onnxruntime makes of it with what graphad does; the results."""
    onnx.save(model, folder / "m.onnx")
    expected = model.run(feeds)
    for name, got, wanted in zip(model.fetch_names, ran(folder / "m.onnx", feeds), expected, strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), name
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance, err_msg=name)
    return expected


def types_in(path: Path) -> set[str]:
    """The operators of a file, those of nested graphs included."""
    proto = message("ModelProto")()
    proto.ParseFromString(path.read_bytes())
    pending, found = [proto.graph], set[str]()
    while pending:
        for each in pending.pop().node:
            found.add(each.op_type)
            pending += [attribute.g for attribute in each.attribute if attribute.HasField("g")]
    return found


def test_a_model_and_its_gradients_of_two_orders(tmp_path: Path) -> None:
    found = onnx.load(DENSE)
    once = onnx.gradients(found)
    for each in (found, once, onnx.gradients(once, ["w"], ["x@GRAD"])):
        same(each, {"x": FLOATS}, tmp_path)
        same(each, {"x": FLOATS[:1]}, tmp_path)
        back = onnx.load(tmp_path / "m.onnx")
        assert (back.feed_names, back.fetch_names, list(back.parameters)) == (each.feed_names, each.fetch_names, ["w"])
        for got, wanted in zip(back.run({"x": FLOATS}), each.run({"x": FLOATS}), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert types_in(tmp_path / "m.onnx") <= {
        "Gemm",
        "MatMul",
        "Tanh",
        "Mul",
        "Add",
        "Shape",
        "Concat",
        "ConstantOfShape",
        "Transpose",
        "Constant",
        "Neg",
        "Identity",
    }


def test_the_same_program_is_read_back(tmp_path: Path) -> None:
    found = onnx.load(DENSE)
    onnx.save(found, tmp_path / "m.onnx")
    assert str(onnx.load(tmp_path / "m.onnx").program) == str(found.program)


@pytest.mark.parametrize("outputs", [["y", "w", "x", "k"], ["w"], ["x"], ["k"]])
def test_inputs_and_weights_that_are_outputs_keep_their_names(outputs: list[str], tmp_path: Path) -> None:
    weights = {"w": np.array([[1.0, 2.0]], "float32"), "k": np.array([3, 4])}
    loaded = onnx.load(model([node("Mul", "x w", "y")], {"x": ("float32", ["n", 2])}, outputs, weights))
    assert loaded.fetch_names == outputs
    onnx.save(loaded, tmp_path / "model.onnx")
    fed = {"x": np.ones((3, 2), "float32")}
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    again = onnx.load(tmp_path / "model.onnx")
    assert again.fetch_names == [item.name for item in session.get_outputs()] == outputs
    wanted = {**weights, **fed, "y": fed["x"] * weights["w"]}
    for found in (session.run(outputs, fed), again.run(fed)):
        for name, array in zip(outputs, found, strict=True):
            np.testing.assert_array_equal(array, wanted[name])


def test_the_bits_of_numbers_as_others(tmp_path: Path) -> None:
    x = np.array([1.5, -2.0], "float32")
    found = onnx.load(model([node("BitCast", "x", "y", to=6)], {"x": ("float32", ["n"])}, ["y"], opset=26))
    onnx.save(found, tmp_path / "m.onnx", opset=26)
    for (result,) in (ran(tmp_path / "m.onnx", {"x": x}), onnx.load(tmp_path / "m.onnx").run({"x": x})):
        np.testing.assert_array_equal(result, x.view("int32"), strict=True)
    with pytest.raises(onnx.CannotWrite, match="takes the bits of an element for another dtype since operator set 26"):
        onnx.save(found, tmp_path / "m.onnx", opset=25)


def test_the_remainder_of_c_is_exact_and_has_slopes(tmp_path: Path) -> None:
    found = onnx.load(model([node("Mod", "x y", "z", fmod=1)], {"x": ("float32", ["n"]), "y": ("float32", ["n"])}, ["z"]))
    x, y = np.array([1e8, -1e8, 5, -5, 0, 3, -3], "float32"), np.array([0.3, 0.3, -3, 3, 2, np.inf, -np.inf], "float32")
    rest, by_x, by_y = same(onnx.gradients(found), {"x": x, "y": y}, tmp_path)
    np.testing.assert_array_equal(rest, np.fmod(x, y))
    np.testing.assert_array_equal(by_x, np.ones(7))
    np.testing.assert_allclose(by_y, -np.trunc(x / y), rtol=1e-6)


@pytest.mark.parametrize(("type", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_networks_with_the_batch_first(type: str, gates: int, tmp_path: Path) -> None:
    """onnxruntime has no kernel for the layout: the other one between transpositions is written."""
    rng = np.random.default_rng(0)
    shapes = {"w": (2, gates * 3, 2), "r": (2, gates * 3, 3), "h": (4, 2, 3)}
    weights = {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    x: dict[str, Any] = {"x": ("float32", ["batch", "time", 2])}
    swaps = [node("Transpose", old, new, perm=[1, 0, 2]) for old, new in (("x", "s"), ("h", "i"), ("j", "k"))]
    last = node("Transpose", "z", "y", perm=[2, 0, 1, 3])
    attrs: dict[str, Any] = {"hidden_size": 3, "direction": "bidirectional"}
    first = onnx.load(model([node(type, "x w r - - h", "y k", layout=1, **attrs)], x, ["y", "k"], weights))
    other = onnx.load(model([*swaps[:2], node(type, "s w r - - i", "z j", **attrs), swaps[2], last], x, ["y", "k"], weights))
    fed = {"x": rng.normal(size=(4, 5, 2)).astype("float32")}
    for got, wanted in zip(same(onnx.gradients(first), fed, tmp_path), onnx.gradients(other).run(fed), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    same(first, fed, tmp_path)
    assert types_in(tmp_path / "m.onnx") == {type, "Transpose"}


def test_the_same_bytes_every_time_and_nothing_left_behind(tmp_path: Path) -> None:
    gradients = onnx.gradients(onnx.load(DENSE))
    for name in ("a.onnx", "b.onnx"):
        onnx.save(gradients, tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.onnx", "b.onnx"]


def test_large_tensors_beside_the_model(tmp_path: Path) -> None:
    w = np.arange(3 * 200, dtype="float32").reshape(3, 200) / 100
    found = onnx.load(model([node("MatMul", "x w", "y")], {"x": ("float32", ["n", 3])}, ["y"], {"w": w}))
    onnx.save(found, tmp_path / "m.onnx", external_data=True)
    assert (tmp_path / "m.onnx.data").read_bytes() == w.tobytes()
    np.testing.assert_allclose(ran(tmp_path / "m.onnx", {"x": FLOATS})[0], FLOATS @ w, rtol=1e-5)
    np.testing.assert_array_equal(onnx.load(tmp_path / "m.onnx").parameters["w"], w)


LOOP = model(
    [node("Constant", "", "step", value=np.array([1.0, 2.0], "float32")), node("Loop", "n - x", "last all", body=COUNT)],
    {"n": ("int64", []), "x": ("float32", [2])},
    ["last", "all"],
    {"w": np.array([2.0, 3.0], "float32")},
)


@pytest.mark.parametrize("trips", [1, 4])
def test_loops_with_their_gradients(trips: int, tmp_path: Path) -> None:
    found = onnx.load(LOOP)
    feeds = {"n": np.array(trips), "x": np.array([1.0, -1.0], "float32")}
    once = onnx.gradients(found, ["w", "x"], ["all"])
    for each in (found, once, onnx.gradients(once, ["w"], ["w@GRAD"])):
        same(each, feeds, tmp_path)
        assert "Loop" in types_in(tmp_path / "m.onnx")
        assert "SequenceInsert" not in types_in(tmp_path / "m.onnx")  # what iterations keep is stacked by the loop
        for got, wanted in zip(onnx.load(tmp_path / "m.onnx").run(feeds), each.run(feeds), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("chosen", [True, False])
def test_branches_with_their_gradients(chosen: bool, tmp_path: Path) -> None:
    branches = {f"{name}_branch": graph([node(type, "x", "r")], {}, ["r"]) for name, type in (("then", "Exp"), ("else", "Neg"))}
    found = onnx.load(model([node("If", "c", "y", **branches)], {"c": ("bool", []), "x": ("float32", [3])}, ["y"]))
    once = onnx.gradients(found, ["x"])
    for each in (found, once, onnx.gradients(once, ["x"], ["x@GRAD"])):
        same(each, {"c": np.array(chosen), "x": FLOATS[0]}, tmp_path)
    assert "If" in types_in(tmp_path / "m.onnx")


def test_an_lstm_with_its_gradients(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x, w, r, b = (rng.normal(size=shape).astype("float32") for shape in ((4, 2, 3), (1, 8, 3), (1, 8, 2), (1, 16)))
    nodes = [node("LSTM", "x w r b", "y", hidden_size=2)]
    found = onnx.load(model(nodes, {"x": ("float32", ["time", "batch", 3])}, ["y"], {"w": w, "r": r, "b": b}))
    y, *_ = same(onnx.gradients(found), {"x": x}, tmp_path)
    np.testing.assert_allclose(y[:, 0], lstm(x, w[0], r[0], b[0]), rtol=1e-4)
    same(onnx.gradients(found), {"x": x[:1, :1]}, tmp_path)


def test_gradients_of_a_slice_that_is_transposed(tmp_path: Path) -> None:
    """Pads are written for all axes: with the pads of one axis alone onnxruntime moves a transposition past them wrongly."""
    nodes = [
        node("Conv", "x k", "h"),
        node("Slice", "h zero two one", "part"),
        node("Transpose", "part", "turned", perm=[0, 2, 3, 1]),
        node("Tanh", "turned", "grid"),
        node("GridSample", "x grid", "y", align_corners=0),
    ]
    rng = np.random.default_rng(6)
    x, k = rng.normal(size=(2, 3, 4, 4)).astype("float32"), rng.normal(size=(8, 3, 1, 1)).astype("float32")
    constants = {name: np.array([value]) for name, value in (("zero", 0), ("one", 1), ("two", 2))}
    found = onnx.load(model(nodes, {"x": ("float32", ["b", 3, 4, 4])}, ["y"], {"k": k, **constants}, opset=16))
    same(onnx.gradients(found, ["k"]), {"x": x}, tmp_path)


def growing() -> ga.Program:
    """A loop whose iterations keep tensors of different extents."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", shape=[2], append_batch_size=False)
        n = ga.layers.data("n", shape=[1], dtype="int64", append_batch_size=False)
        x.stop_gradient = False
        i = ga.layers.fill_constant([1], "int64", 0)

        def body(i: ga.Variable, h: ga.Variable) -> list[ga.Variable]:
            return [i + 1, ga.layers.concat([ga.layers.tanh(h), x], axis=0)]

        start = ga.layers.reshape(x * 1.0, shape=[-1])
        _, h = ga.layers.while_loop(lambda i, h: ga.layers.less_than(i, n), body, [i, start], shape_invariants=[[1], [-1]])
        ga.layers.mean(h * h, name="loss")
        loss = ga.layers.reduce_sum(h * h)
        ga.layers.assign(loss, output=program.global_block().create_var(name="y", shape=[], dtype="float32"))
    return program


def test_what_iterations_keep_may_differ_in_extent(tmp_path: Path) -> None:
    found = onnx.gradients(onnx.from_program(growing(), ["x", "n"], ["y"]), ["x"], ["y"])
    same(found, {"x": FLOATS[0, :2], "n": np.array([3])}, tmp_path)
    assert {"SequenceInsert", "SequenceAt"} <= types_in(tmp_path / "m.onnx")


def trained() -> tuple[ga.Program, ga.Scope, list[str]]:
    """A step of training, with the gradients in it."""
    program, startup = ga.Program(), ga.Program()
    with ga.program_guard(program, startup):
        x = ga.layers.data("x", shape=[1, 6, 6])
        label = ga.layers.data("label", shape=[1], dtype="int64")
        h = ga.layers.conv2d(x, num_filters=2, filter_size=3, act="relu", padding=1)
        h = ga.layers.pool2d(h, pool_size=2, pool_stride=2)
        loss = ga.layers.mean(ga.layers.softmax_with_cross_entropy(ga.layers.fc(h, size=3), label))
        ga.optimizer.Adam(learning_rate=0.1).minimize(loss)
    scope = ga.Scope()
    ga.Executor().run(startup, scope=scope)
    return program, scope, [loss.name, *(p.name for p in program.all_parameters())]


def test_a_step_of_training(tmp_path: Path) -> None:
    """Adam is written as arithmetic. A parameter that is fetched is an output beside the input of its name."""
    program, scope, fetches = trained()
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 1, 6, 6)).astype("float32"), "label": np.array([[0], [2]])}
    before = {name: array.copy() for name, array in scope.arrays.items()}
    onnx.save(program, tmp_path / "m.onnx", feed_names=["x", "label"], fetch_list=fetches, scope=before)
    expected = ga.Executor().run(program, feeds, fetches, scope)
    for name, got, wanted in zip(fetches, ran(tmp_path / "m.onnx", feeds), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5, err_msg=name)


def test_what_cannot_be_said_is_named_with_its_line(tmp_path: Path) -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", shape=[2], append_batch_size=False)
        y = ga.ops.view_dtype(x, dtype="int32") + ga.ops.cast(ga.ops.lgamma(x), out_dtype="int32")
    with pytest.raises(onnx.CannotWrite, match=r"ONNX cannot say these operators:\n  .*view_dtype.*test_onnx_written(.|\n)*lgamma"):
        onnx.save(program, tmp_path / "m.onnx", fetch_list=[y])
    assert not list(tmp_path.iterdir())


def test_an_operator_without_a_line_is_written_nowhere(tmp_path: Path) -> None:
    """A program that was read from a text may know the scope of an operator, and not its line."""
    program = ga.Program.parse('program { block 0 { var x: float32[2] lgamma(X=x) -> (Out=y) {op_namescope="/encoder/"} } }')
    with pytest.raises(onnx.CannotWrite, match=r"lgamma: ONNX has no gamma function$"):
        onnx.save(program, tmp_path / "m.onnx", feed_names=["x"], fetch_list=["y"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opset": 12}, "opset=12: versions 18 to 28 are written"),
        ({"feed_names": ["x"]}, "a model says itself what goes in and out"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        onnx.save(onnx.load(DENSE), tmp_path / "m.onnx", **options)


@pytest.mark.parametrize("opset", [18, 20, 22])
def test_newer_operator_sets(opset: int, tmp_path: Path) -> None:
    onnx.save(onnx.gradients(onnx.load(DENSE)), tmp_path / "m.onnx", opset)
    np.testing.assert_allclose(ran(tmp_path / "m.onnx", {"x": FLOATS})[0], np.tanh(FLOATS @ W), rtol=1e-5)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, result, tidied = (tmp_path / name for name in ("m.onnx", "g.onnx", "t.onnx"))
    source.write_bytes(DENSE)
    assert main(["grad", str(source), "--wrt", "w", "-o", str(result)]) == 0
    assert capsys.readouterr().out == "w@GRAD\n"
    slope = 1 - np.tanh(FLOATS @ W) ** 2
    np.testing.assert_allclose(ran(result, {"x": FLOATS})[-1], FLOATS.T @ slope, rtol=1e-5)
    assert main(["opt", str(result), "-p", "cse, dead-code", "-o", str(tidied)]) == 0
    np.testing.assert_allclose(ran(tidied, {"x": FLOATS})[-1], FLOATS.T @ slope, rtol=1e-5)
    assert main(["grad", str(source), "--wrt", "v", "-o", str(result)]) == 1
    assert "'v' is no input or parameter with floats of the model; there is 'x', 'w'" in capsys.readouterr().err


def test_a_model_is_run_on_what_is_fed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, feed, result = (tmp_path / name for name in ("m.onnx", "x.npz", "y.npz"))
    path.write_bytes(DENSE)
    assert main(["run", str(path)]) == 1
    assert "m.onnx is not fed x: float32[" in capsys.readouterr().err
    np.savez(feed, z=FLOATS)
    assert main(["run", str(path), "--feed", str(feed)]) == 1
    assert "the model has no input 'z'; there is 'x'" in capsys.readouterr().err
    np.savez(feed, x=FLOATS)
    assert main(["run", str(path), "--feed", str(feed), "-o", str(result)]) == 0
    np.testing.assert_allclose(np.load(result)["y"], np.tanh(FLOATS @ W), rtol=1e-5)


def test_a_model_whose_program_depends_on_extents_is_run_on_those_that_are_fed(tmp_path: Path) -> None:
    pool = node("AveragePool", "x", "y", kernel_shape=[2], dilations=[2], strides=[2], auto_pad="SAME_UPPER")
    path, feed, result = (tmp_path / name for name in ("m.onnx", "x.npz", "y.npz"))
    path.write_bytes(model([pool], {"x": ("float32", [1, 1, "n"])}, ["y"], opset=19))
    np.savez(feed, x=np.arange(5, dtype="float32").reshape(1, 1, 5) ** 2)
    assert main(["run", str(path), "--feed", str(feed), "-o", str(result)]) == 0
    assert np.load(result)["y"].tolist() == [[[1.0, 5.0, 9.0]]]  # of 0 1 4 9 16: the padding on each side is not counted


def test_parameters_of_a_program_come_from_the_global_scope() -> None:
    program, startup = ga.Program(), ga.Program()
    with ga.program_guard(program, startup):
        y = ga.layers.fc(ga.layers.data("x", shape=[3]), 2, param_attr=ga.ParamAttr(name="w_of_the_global_scope"), bias_attr=False)
    with pytest.raises(InvalidValue, match="no value in the scope: run the startup program"):
        onnx.from_program(program, fetch_list=[y])
    executor, x = ga.Executor(), np.ones((2, 3), "float32")
    executor.run(startup)
    (expected,) = executor.run(program, {"x": x}, [y])
    (got,) = onnx.from_program(program, fetch_list=[y]).run({"x": x})
    np.testing.assert_array_equal(got, expected)


SCALING = ("check_finite_and_unscale", "update_loss_scaling")


@pytest.mark.parametrize("op_type", ["tanh", "conv2d", "softmax_with_cross_entropy", "adam", "put_along_axis", *SCALING])
@pytest.mark.parametrize("opened", [False, True])
def test_samples_of_operators(op_type: str, opened: bool) -> None:
    """Those of all operators: the next test."""
    for number, sample in enumerate(samples_of(op_type)):
        assert outcome(lookup(op_type), sample, opened) in ("fine", "single"), number


@pytest.mark.long
def test_samples_of_all_operators_are_written_or_refused_as_the_page_says() -> None:
    """Each refusal has one of the reasons in docs/onnx.md: python -m tests.onnx_written writes the table."""
    page = PAGE.read_text(encoding="utf-8")
    unlike = [each for each in tried() if each.outcome not in ("fine", "single") and f"| {each.outcome} |" not in page]
    assert not unlike, "\n".join(map(str, unlike))


# Node tests that are read and cannot be compared when they are written: the beginnings of their names, and why.
UNLIKE = {
    "test_bernoulli": "other random numbers",
    "test_training_dropout": "other random numbers",
}
NEWER = {
    "test_bitcast": "the bits of an element as another dtype",
    "test_gridsample_volumetric": "volumes are sampled since operator set 20",
}


@pytest.mark.long
@pytest.mark.parametrize("opset", [18, 28])
def test_node_tests_are_written_run_and_read_again(opset: int) -> None:
    """Node tests of the format are read, written, run by onnxruntime, and read again."""
    wrong, count = [], 0
    for case in cases():
        found = _read_with(case)
        if found is None or case.name.startswith((*UNLIKE, *(NEWER if opset == 18 else ()))):
            continue
        count += 1
        reason = _differs(*found, opset)
        if reason:
            wrong.append(f"{case.name}: {reason}")
    assert count > 1550
    assert not wrong, "\n".join(wrong)


def _read_with(case: Any) -> tuple[onnx.OnnxModel, dict[str, Array]] | None:
    """A case as a model, with what is fed; inputs that decide the program are bound. None where it is not read."""
    (inputs, _), *_ = case.data_sets
    names = [info.name for info in case.model.graph.input]
    feeds: dict[str, Array] = dict(zip(names, map(numbers, inputs), strict=False))
    try:
        found = onnx.load(case.model.SerializeToString())
        if isinstance(found, Undecided):
            found = found.decided(feeds)
        feeds = {name: array for name, array in feeds.items() if name in found.feed_names}
        found.run(feeds)
    except GraphadError:
        return None
    return found, feeds


def _differs(found: onnx.OnnxModel, feeds: dict[str, Array], opset: int) -> str:
    data = as_message(found, opset).SerializeToString(deterministic=True)
    checker.check_model(data, full_check=True)
    feeds, again = {name: feeds[name] for name in found.feed_names}, onnx.load(data)
    if (again.feed_names, again.fetch_names) != (found.feed_names, found.fetch_names):
        return f"{again} is read instead of {found}"
    expected = found.run(feeds)
    unlike = _unlike(again.run(feeds), expected)
    if unlike:
        return f"read again: {unlike}"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # a kernel that onnxruntime does not have
        return "" if "NOT_IMPLEMENTED" in str(error) else str(error)
    return _unlike(session.run(None, feeds), expected)


def _unlike(results: Sequence[Array], expected: Sequence[Array]) -> str:
    """Where results are not those that are expected; nothing if they are."""
    for got, wanted in zip(results, expected, strict=True):
        tolerance = 1e-2 if wanted.dtype == "float16" else 1e-4
        if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
            return f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
        if not np.allclose(got.astype("float64"), wanted.astype("float64"), tolerance, tolerance, equal_nan=True):
            return f"{got.ravel()[:4]} instead of {wanted.ravel()[:4]}"
    return ""


def computed(program: ga.Program, case: Case, fetches: Sequence[str], folder: Path) -> None:
    """Assert that onnxruntime computes of a program the same as the interpreter."""
    scope = ga.Scope()
    for name, array in case.params.items():
        scope.set(name, array)
    expected = ga.Executor(mode="interpreted").run(program, dict(case.feeds), list(fetches), scope)
    onnx.save(program, folder / "m.onnx", feed_names=list(case.feeds), fetch_list=list(fetches), scope=case.params)
    feeds = {name: np.asarray(array) for name, array in case.feeds.items()}
    for name, got, wanted in zip(fetches, ran(folder / "m.onnx", feeds), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.long
def test_random_programs_of_loops_and_branches_with_their_gradients(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("nested")

    @settings(max_examples=12, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), deadline=None)
    @given(nested_programs())
    def each(case: Case) -> None:
        read = {value.name for value in ga.lower(case.program, [case.loss_name]).inputs}
        assume(read <= {*case.feeds, *case.params})  # some read what has no value before their loop
        computed(case.program, case, [case.loss_name], folder)
        program = case.program.clone()
        block = program.global_block()
        sources = [block.var(name) for name in (*case.feeds, *case.params) if block.var(name).dtype in FLOAT_DTYPES]
        for source in sources:
            source.stop_gradient = False
        with ga.program_guard(program, ga.Program()):
            found = [gradient.name for gradient in ga.gradients([block.var(case.loss_name)], sources) if gradient is not None]
        if found:
            computed(program, case, found, folder)

    each()


def test_extents_keep_their_names(tmp_path: Path) -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", shape=["batch", "time", 4])
        y = ga.layers.matmul(ga.layers.tanh(x), ga.layers.transpose(x, [0, 2, 1]))
    onnx.save(program, tmp_path / "m.onnx", fetch_list=[y], scope={})
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert [each.shape for each in (*session.get_inputs(), *session.get_outputs())] == [["batch", "time", 4], ["batch", "time", "time"]]
    assert str(onnx.load(tmp_path / "m.onnx").program.global_block().var(y.name).shape) == "(batch, time, time)"
    gradients = onnx.gradients(onnx.load(tmp_path / "m.onnx"), wrt=["x"])
    assert str(gradients.program.global_block().var("x@GRAD").shape) == "(batch, time, 4)"


def collecting(axis: int, use_stack: bool) -> tuple[ga.Program, list[ga.Variable], list[ga.Variable]]:
    """x, 2 x, 4 x, ... of n iterations in one tensor, and the extent of each."""
    with ga.program_guard(ga.Program(), ga.Program()) as program:
        x = ga.layers.data("x", [2, 3], append_batch_size=False)
        n = ga.layers.data("n", [1], dtype="int64", append_batch_size=False)
        start = [ga.layers.fill_constant([1], "int64", 0), x, ga.layers.create_array("float32")]
        _, _, array = ga.layers.while_loop(lambda i, *_: i < n, lambda i, s, a: [i + 1, s * 2.0, ga.layers.array_write(s, i, a)], start)
        return program, [x, n], list(ga.layers.tensor_array_to_tensor(array, axis=axis, use_stack=use_stack))


@pytest.mark.parametrize(("axis", "use_stack", "extent"), [(0, True, 2), (1, True, 3), (2, True, 1), (0, False, 2), (1, False, 3)])
def test_the_extents_of_what_a_loop_collects(axis: int, use_stack: bool, extent: int, tmp_path: Path) -> None:
    program, inputs, outputs = collecting(axis, use_stack)
    feeds = {"x": np.arange(6, dtype="float32").reshape(2, 3), "n": np.array([4])}
    _, extents = same(onnx.from_program(program, inputs, outputs), feeds, tmp_path)
    np.testing.assert_array_equal(extents, [extent] * 4)


def test_extents_that_differ_are_not_written(tmp_path: Path) -> None:
    with ga.program_guard(ga.Program(), ga.Program()) as program:
        x = ga.layers.data("x", [2, 3], append_batch_size=False)
        whole, extents = ga.layers.tensor_array_to_tensor(ga.layers.create_array("float32", [x, x[:, :1]]))
    with pytest.raises(GraphadError, match=r"the extents of the elements of an array \(OutIndex\)"):
        onnx.save(onnx.from_program(program, [x], [whole, extents]), tmp_path / "m.onnx")
    same(onnx.from_program(program, [x], [whole]), {"x": np.ones((2, 3), "float32")}, tmp_path)
