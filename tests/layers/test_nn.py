"""Layers: the operators, names and shapes they build, the parameters they share, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import initializer
from graphad.layers import ParamAttr
from tests.execution.test_executor import run

layers: Any = ga.layers


class Built:
    """A program with data to build on."""

    def __init__(self, build: Callable[[Built], Any] | None = None) -> None:
        self.main, self.startup = ga.Program(), ga.Program()
        with ga.program_guard(self.main, self.startup):
            self.x = ga.layers.data("x", [8])
            self.image = ga.layers.data("image", [3, 8, 8])
            self.ids, self.label = ga.layers.data("ids", [1], "int64"), ga.layers.data("label", [1], "int64")
            self.result: Any = None if build is None else build(self)

    def ops(self) -> list[str]:
        return [repr(op) for op in self.main.global_block().ops]

    def parameters(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(p.name, p.shape) for p in self.main.all_parameters()]

    def starts(self) -> dict[str, str]:
        return {op.output("Out")[0]: op.type for op in self.startup.global_block().ops}

    def scope(self) -> ga.Scope:
        scope = ga.Scope()
        run(self.startup, scope=scope)
        return scope


# -- fc ------------------------------------------------------------------------------------------


def test_fc_is_a_product_a_sum_and_an_activation() -> None:
    built = Built(lambda b: layers.fc(b.x, 4, act="relu"))
    assert built.ops() == [
        "mul(X=x, Y=fc_0.w_0) -> (Out=fc_0.tmp_0)",
        "elementwise_add(X=fc_0.tmp_0, Y=fc_0.b_0) -> (Out=fc_0.tmp_1)",
        "relu(X=fc_0.tmp_1) -> (Out=fc_0.tmp_2)",
    ]
    assert built.parameters() == [("fc_0.w_0", (8, 4)), ("fc_0.b_0", (4,))]
    assert built.starts() == {"fc_0.w_0": "uniform_random", "fc_0.b_0": "fill_constant"}
    assert all(op.attrs["run_once"] for op in built.startup.global_block().ops)
    assert (built.result.name, built.result.shape, built.result.dtype) == ("fc_0.tmp_2", (-1, 4), "float32")


def test_fc_computes_what_it_says() -> None:
    built = Built(lambda b: layers.fc(b.image, 4, num_flatten_dims=2, act="tanh"))
    scope = built.scope()
    scope.set("fc_0.b_0", np.arange(4, dtype="float32"))
    image = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype("float32")
    (got,) = run(built.main, {"image": image}, [built.result], scope)
    expected = np.tanh(image.reshape(2, 3, 64) @ scope.get("fc_0.w_0") + np.arange(4))
    assert built.result.shape == (-1, 3, 4)
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_fc_without_bias_and_with_a_name() -> None:
    built = Built(lambda b: layers.fc(b.x, 2, bias_attr=False, name="out"))
    assert built.ops() == ["mul(X=x, Y=out.w_0) -> (Out=out.tmp_0)"]
    assert built.parameters() == [("out.w_0", (8, 2))]


def test_layers_of_one_name_have_parameters_each() -> None:
    built = Built(lambda b: [layers.fc(b.x, 2, name="h", bias_attr=False) for _ in range(2)])
    assert built.parameters() == [("h.w_0", (8, 2)), ("h.w_1", (8, 2))]


def test_parameters_have_the_dtype_of_the_input() -> None:
    built = Built(lambda b: layers.fc(layers.data("d", [2], "float64"), 3))
    assert {p.dtype for p in built.main.all_parameters()} == {"float64"}
    assert built.scope().get("fc_0.w_0").dtype == "float64"


def test_layers_count_up() -> None:
    built = Built(lambda b: layers.fc(layers.fc(b.x, 2), 3))
    assert [name for name, _ in built.parameters()] == ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"]


# -- parameters ----------------------------------------------------------------------------------


def test_a_parameter_is_shared_by_its_name() -> None:
    built = Built(lambda b: [layers.fc(b.x, 4, param_attr="w", bias_attr=ParamAttr("b")) for _ in range(2)])
    assert built.parameters() == [("w", (8, 4)), ("b", (4,))]
    assert [op.type for op in built.startup.global_block().ops] == ["uniform_random", "fill_constant"]
    first, second = run(built.main, {"x": np.ones((1, 8), "float32")}, built.result, built.scope())
    np.testing.assert_array_equal(first, second)


def test_the_gradient_of_a_shared_parameter_is_the_sum() -> None:
    built = Built(lambda b: layers.mean(layers.fc(layers.fc(b.x, 8, param_attr="w"), 8, param_attr="w")))
    ((w, gradient), *_) = ga.append_backward(built.result)
    assert (w.name, gradient.name, gradient.op.type) == ("w", "w@GRAD", "sum")  # type: ignore[union-attr]


def test_param_attr_says_everything_about_a_parameter() -> None:
    decay = ga.optimizer.L2Decay(0.5)
    attr = ParamAttr("w", initializer.Constant(3.0), 0.25, decay, need_clip=False)
    built = Built(lambda b: layers.fc(b.x, 2, param_attr=attr, bias_attr=ParamAttr(trainable=False)))
    w, b = built.main.all_parameters()
    assert (w.name, w.learning_rate, w.regularizer, w.need_clip, w.trainable) == ("w", 0.25, decay, False, True)
    assert (b.name, b.trainable, b.stop_gradient) == ("fc_0.b_0", False, True)
    np.testing.assert_array_equal(built.scope().get("w"), np.full((8, 2), 3.0))


def test_param_attr_may_be_an_initializer() -> None:
    built = Built(lambda b: layers.fc(b.x, 2, param_attr=initializer.Constant(2.0), bias_attr=initializer.Constant(1.0)))
    (got,) = run(built.main, {"x": np.ones((1, 8), "float32")}, [built.result], built.scope())
    np.testing.assert_array_equal(got, [[17, 17]])


@pytest.mark.parametrize(
    ("start", "low", "high", "deviation"),
    [
        (initializer.Uniform(-2.0, 4.0), -2.0, 4.0, 6 / 12**0.5),
        (initializer.Normal(1.0, 0.5), -3.0, 5.0, 0.5),
        (initializer.TruncatedNormal(1.0, 0.5), 0.0, 2.0, 0.44),
        (initializer.Xavier(), -((6 / 300) ** 0.5), (6 / 300) ** 0.5, (2 / 300) ** 0.5),
        (initializer.Xavier(uniform=False), -1.0, 1.0, (2 / 300) ** 0.5),
        (initializer.MSRA(), -((6 / 200) ** 0.5), (6 / 200) ** 0.5, (2 / 200) ** 0.5),
        (initializer.MSRA(uniform=False), -1.0, 1.0, (2 / 200) ** 0.5),
    ],
    ids=str,
)
def test_initializers_draw_from_their_distribution(start: initializer.Initializer, low: float, high: float, deviation: float) -> None:
    program = ga.Program()
    program.random_seed = 1
    start.append(program.global_block(), program.global_block().create_parameter("w", [200, 100], "float64"))
    scope = ga.Scope()
    run(program, scope=scope)
    w = scope.get("w")
    assert low <= w.min()
    assert w.max() <= high
    np.testing.assert_allclose(w.std(), deviation, rtol=0.03)


def test_an_array_starts_a_parameter() -> None:
    value = np.arange(16.0).reshape(8, 2)
    built = Built(lambda b: layers.fc(b.x, 2, param_attr=initializer.NumpyArray(value)))
    np.testing.assert_array_equal(built.scope().get("fc_0.w_0"), value)
    with pytest.raises(ValueError, match=r"initializer of 'fc_0.w_0' has shape \[3\], the variable \[8, 2\]"):
        Built(lambda b: layers.fc(b.x, 2, param_attr=initializer.NumpyArray(np.ones(3))))


def test_an_array_starts_no_half_precision_parameter() -> None:
    program = ga.Program()
    w = program.global_block().create_parameter("w", [2], "float16")
    with pytest.raises(ValueError, match=r"initializer of 'w': an array can start float64, float32, int64, int32, not float16"):
        initializer.NumpyArray([1.0, 2.0]).append(program.global_block(), w)


# -- the other layers ----------------------------------------------------------------------------


def test_data_is_a_minibatch_unless_told_otherwise() -> None:
    built = Built(
        lambda b: [layers.data("a", [3]), layers.data("b", [-1, 3]), layers.data("c", [3], append_batch_size=False), layers.data("d", [])]
    )
    assert [v.shape for v in built.result] == [(-1, 3), (-1, 3), (3,), (-1,)]
    assert all(v.stop_gradient for v in built.result)
    assert not built.ops()
    again = Built(lambda b: layers.data("x", [8]))
    assert again.result is again.x
    assert not Built(lambda b: layers.data("e", [1], stop_gradient=False)).result.stop_gradient


@pytest.mark.parametrize(
    ("build", "shape", "parameters"),
    [
        (lambda b: layers.conv2d(b.image, 4, 3, act="relu"), (-1, 4, 6, 6), [("conv2d_0.w_0", (4, 3, 3, 3)), ("conv2d_0.b_0", (4,))]),
        (
            lambda b: layers.conv2d(b.image, 6, [3, 1], 2, [1, 0], groups=3, bias_attr=False),
            (-1, 6, 4, 4),
            [("conv2d_0.w_0", (6, 1, 3, 1))],
        ),
        (lambda b: layers.conv2d(b.image, 2, 3, dilation=2, bias_attr=False), (-1, 2, 4, 4), [("conv2d_0.w_0", (2, 3, 3, 3))]),
        (lambda b: layers.pool2d(b.image, 2), (-1, 3, 7, 7), []),
        (lambda b: layers.pool2d(b.image, 2, pool_stride=None), (-1, 3, 4, 4), []),
        (lambda b: layers.pool2d(b.image, 3, "avg", 2, 1), (-1, 3, 4, 4), []),
        (lambda b: layers.pool2d(b.image, global_pooling=True), (-1, 3, 1, 1), []),
        (lambda b: layers.batch_norm(b.image), (-1, 3, 8, 8), [("batch_norm_0.w_0", (3,)), ("batch_norm_0.b_0", (3,))]),
        (
            lambda b: layers.layer_norm(b.image, begin_norm_axis=2),
            (-1, 3, 8, 8),
            [("layer_norm_0.w_0", (64,)), ("layer_norm_0.b_0", (64,))],
        ),
        (lambda b: layers.embedding(b.ids, [10, 4]), (-1, 4), [("embedding_0.w_0", (10, 4))]),
        (lambda b: layers.dropout(b.x, 0.5), (-1, 8), []),
        (lambda b: layers.softmax_with_cross_entropy(b.x, b.label), (-1, 1), []),
        (lambda b: layers.cross_entropy(layers.softmax(b.x), b.label), (-1, 1), []),
        (lambda b: layers.mse(b.x, b.x), (), []),
        (lambda b: layers.mean(b.image), (), []),
        (lambda b: layers.accuracy(b.x, b.label, k=3), (), []),
        (lambda b: layers.concat([b.x, b.x], axis=1), (-1, 16), []),
    ],
)
def test_shapes_and_parameters(build: Callable[[Built], Any], shape: tuple[int, ...], parameters: list[Any]) -> None:
    built = Built(build)
    assert built.result.shape == shape
    assert built.parameters() == parameters
    rng = np.random.default_rng(0)
    feed = {
        "x": rng.normal(size=(5, 8)),
        "image": rng.normal(size=(5, 3, 8, 8)),
        "ids": rng.integers(0, 8, (5, 1)),
        "label": rng.integers(0, 8, (5, 1)),
    }
    fed = {name: value.astype(built.main.global_block().var(name).dtype) for name, value in feed.items()}
    (got,) = run(built.main, fed, [built.result], built.scope())
    assert got.shape == tuple(5 if extent == -1 else extent for extent in shape)
    assert got.dtype == built.result.dtype


def test_an_operator_with_several_outputs_is_a_layer_too() -> None:
    first, second = Built(lambda b: layers.split(b.x, num=2, axis=1)).result
    assert [first.shape, second.shape] == [(-1, 4), (-1, 4)]


def test_batch_norm_keeps_statistics_that_are_not_trained() -> None:
    built = Built(lambda b: layers.batch_norm(b.image))
    kept = [v for v in built.main.global_block().vars.values() if v.persistable and not isinstance(v, ga.Parameter)]
    assert [(v.name, v.stop_gradient) for v in kept] == [("batch_norm_0.mean_0", True), ("batch_norm_0.variance_0", True)]
    scope, image = built.scope(), np.random.default_rng(0).normal(2.0, 3.0, (50, 3, 8, 8)).astype("float32")
    run(built.main, {"image": image}, scope=scope)
    np.testing.assert_allclose(scope.get("batch_norm_0.mean_0"), 0.1 * image.mean((0, 2, 3)), rtol=1e-4)
    before = scope.get("batch_norm_0.mean_0").copy()
    run(built.main.clone(for_test=True), {"image": image}, scope=scope)
    np.testing.assert_array_equal(scope.get("batch_norm_0.mean_0"), before)


def test_dropout_passes_everything_when_testing() -> None:
    built, x = Built(lambda b: layers.dropout(b.x, 0.5, dropout_implementation="upscale_in_train")), np.ones((100, 8), "float32")
    (trained,), (tested,) = (run(p, {"x": x}, [built.result.name]) for p in (built.main, built.main.clone(for_test=True)))
    assert set(np.unique(trained)) == {0.0, 2.0}
    np.testing.assert_array_equal(tested, x)


def test_accuracy_is_the_share_of_hits() -> None:
    built = Built(lambda b: [layers.accuracy(b.x, b.label), layers.accuracy(b.x, b.label, k=2)])
    x = np.array([[9, 1, 0, 0, 0, 0, 0, 0], [1, 9, 0, 0, 0, 0, 0, 0]], "float32")
    got = run(built.main, {"x": x, "label": np.array([[0], [0]])}, built.result)
    assert [float(v) for v in got] == [0.5, 1.0]


def test_a_layer_on_arrays_computes() -> None:
    np.testing.assert_allclose(layers.tanh(np.array([0.5])), np.tanh(0.5))


# -- what they refuse ----------------------------------------------------------------------------

T, V = TypeError, ValueError
REFUSED: list[tuple[Callable[[Built], Any], type[Exception], str]] = [
    (lambda b: layers.fc(np.ones((2, 8)), 2), T, r"layers.fc takes a Variable, not array"),
    (lambda b: layers.fc(b.x, 2, act="rlu"), V, r"act is the type of an activation, such as 'relu', not 'rlu'; did you mean 'relu'"),
    (lambda b: layers.fc(b.x, 2, param_attr=3), T, r"param_attr is a ParamAttr, a name, an initializer, or None, not 3"),
    (lambda b: layers.fc(b.x, -1), V, r"layers.fc: size is 1 or more, not -1"),
    (lambda b: layers.fc(b.x, "4"), T, r"layers.fc: size is an int, not '4'"),
    (lambda b: layers.fc(b.image, 2, num_flatten_dims=0), V, r"image: float32\[-1, 3, 8, 8\] has no known width after its first 0 axes"),
    (lambda b: layers.fc(b.main.global_block().create_var("u"), 2), V, r"shape of variable 'u' is not known"),
    (lambda b: [layers.fc(b.x, n, param_attr="w") for n in (2, 3)], V, r"'w' is declared with shape \[8, 2\], now with \[8, 3\]"),
    (lambda b: layers.fc(b.x, 2, param_attr="x"), V, r"'x' is declared already, and not as a parameter"),
    (lambda b: layers.conv2d(b.x, 4, 3), V, r"layers.conv2d: it takes \[batch, channels, height, width\] .* not Variable x"),
    (lambda b: layers.conv2d(b.image, 4, 3, groups=2), V, r"3 channels and 4 filters do not split into 2 groups"),
    (lambda b: layers.conv2d(b.image, 4, 30), V, r"'conv2d': a window of extent 30 does not fit into extent 8"),
    (lambda b: layers.pool2d(b.image, 2, "mx"), V, r"pool_type is 'max' or 'avg', not 'mx'"),
    (lambda b: layers.pool2d(b.x, 2), V, r"'pool2d': X is float32\[-1, 8\]; four axes are expected"),
    (lambda b: layers.layer_norm(b.x, begin_norm_axis=9), V, r"begin_norm_axis=9"),
    (lambda b: layers.dropout(b.x, 1.5), V, r"dropout_prob=1.5 is no probability"),
    (lambda b: layers.embedding(b.x, [10, 4]), V, r"Ids is float32\[-1, 8\]; an integer dtype is expected"),
    (lambda b: layers.embedding(b.ids, [10]), V, r"W is float32\[10\]; \[rows, width\] is expected"),
    (lambda b: layers.mse(b.x, layers.data("y", [7])), V, r"float32\[-1, 8\] but the second is float32\[-1, 7\]"),
    (lambda b: layers.softmax_with_cross_entropy(b.x, b.x), V, r"Label is float32\[-1, 8\]"),
    (lambda b: layers.accuracy(b.x, b.label, k=30), V, r"no k=30 elements along axis=-1"),
    (lambda b: layers.data("x", [9]), V, r"'x' is declared with shape \[-1, 8\], now with \[-1, 9\]"),
    (lambda b: layers.nothing_like_it(b.x), AttributeError, r"no layer or operator is named 'nothing_like_it'"),
    (lambda b: layers.fcc(b.x), AttributeError, r"no layer or operator is named 'fcc'; did you mean 'fc'\?"),
    (lambda b: layers.conv2d(b.image, 4, 3, groups=0), V, r"groups"),
    (lambda b: layers.batch_norm(b.main.global_block().create_var("r", [4], "float32")), V, r"batch_norm.*'?r'?"),
    (lambda b: layers.fc(b.ids, 2), V, r"layers\.fc.*ids"),
    (lambda b: layers.data("n", 3), T, r"layers\.data: shape is a list of ints, not 3"),
    (lambda b: layers.layer_norm(b.image, begin_norm_axis=0), V, r"layers\.layer_norm"),
    (lambda b: layers.layer_norm(b.image, 2), T, r"layers.layer_norm: scale is True or False, not 2"),
    (lambda b: layers.fc(b.x, 2, 1, "relu"), V, r"an attr of a parameter is 'relu', an activation: give act='relu'"),
    (lambda b: layers.fc(b.x, 2, 1, None, "relu"), V, r"an attr of a parameter is 'relu', an activation: give act='relu'"),
    (lambda b: layers.fc(b.x, 2, "relu"), T, r"num_flatten_dims is an int, not 'relu': did you mean act='relu'"),
    (lambda b: layers.pool2d(b.image), V, r"pool_size is the extents of the window, or global_pooling=True"),
    (lambda b: layers.pool2d(b.image, 2, "max", 2, 0, False, "NHWC"), T, r"use_cudnn is True or False, not 'NHWC'; give .* by its keyword"),
    (lambda b: layers.conv2d(b.image, 4, 3, data_format="NWHC"), V, r"data_format is 'NCHW' or 'NHWC', not 'NWHC'"),
    (lambda b: layers.reduce_sum(b.x, 1, True, 2), T, r"layers.reduce_sum\(.*\): name is a string, not 2"),
    (lambda b: layers.reduce_sum(b.x, 1, dim=1), T, r"layers.reduce_sum\(.*\) got 'dim' twice"),
    (lambda b: layers.reduce_sum(b.x, axs=3), T, r"has no parameter 'axs'; did you mean 'axis'"),
    (lambda b: layers.transpose(b.x), T, r"layers.transpose\(x, perm, name=None\) needs 'perm'"),
    (lambda b: layers.split(b.x), T, r"num_or_sections is missing"),
    (lambda b: layers.where(b.x > 0.0, b.x), T, r"x and y come together"),
    (lambda b: layers.softmax(b.x, axes=1), T, r"unexpected keyword argument 'axes'; did you mean 'axis'"),
]


@pytest.mark.parametrize(("build", "error", "message"), REFUSED)
def test_what_makes_no_sense_is_refused(build: Callable[[Built], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Built(build)


def test_a_layer_without_inputs_is_refused() -> None:
    with pytest.raises(TypeError, match=r"layers.tanh.*needs 'x'"):
        Built(lambda b: layers.tanh())
