"""Calls of Fluid's that are no layers, as its documentation has them, and their values: programs, initializers, readers, metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as fluid
from graphad.errors import InvalidType, InvalidValue

L = fluid.layers


def _parameter(initializer: fluid.initializer.Initializer, shape: list[int]) -> np.ndarray:
    with fluid.program_guard(fluid.Program(), fluid.Program()) as main:
        L.create_parameter(shape, "float32", name="w", default_initializer=initializer)
        executor, scope = fluid.Executor(), fluid.Scope()
        executor.run(fluid.default_startup_program(), scope=scope)
        return executor.run(main, fetch_list=["w"], scope=scope)[0]


# -- programs ------------------------------------------------------------------------------------


def test_a_program_says_what_is_in_it() -> None:
    with fluid.program_guard(fluid.Program()) as main:
        x = fluid.data("x", [None, 2])
        L.scale(x, scale=3.0)
    (op,) = main.global_block().ops
    assert main.num_blocks == 1
    assert main.to_string(True) == main.to_string(throw_on_error=False, with_details=True) == str(main)
    assert x.to_string(True) == repr(x)
    assert x.lod_level == 0
    assert (op.attr("scale"), op.attr("bias"), op.has_attr("bias"), op.has_attr("bia")) == (3.0, 0.0, True, False)
    assert set(op.attr_names) == {"scale", "bias", "bias_after_scale"}
    assert op.all_attrs() == {"scale": 3.0, "bias": 0.0, "bias_after_scale": True}
    assert (op.input_arg_names, op.output_arg_names) == (["x"], ["scale_0.tmp_0"])
    with pytest.raises(InvalidValue, match="operator 'scale' has no attribute 'bia'; did you mean 'bias'"):
        op.attr("bia")
    with pytest.raises(AttributeError, match="dump_program"):
        _ = main.desc


def test_a_parameter_has_fluids_attributes() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()) as main:
        L.fc(fluid.data("x", [None, 2]), 1, param_attr=fluid.ParamAttr(learning_rate=0.5), bias_attr=False)
    assert main.all_parameters()[0].optimize_attr == {"learning_rate": 0.5}
    assert [p.name for p in fluid.io.get_program_parameter(main)] == ["fc_0.w_0"]
    assert [v.name for v in fluid.io.get_program_persistable_vars(main)] == ["fc_0.w_0"]


def test_names_count_anew_and_then_go_on() -> None:
    with fluid.program_guard(fluid.Program()):
        assert fluid.unique_name.generate("fc") == "fc_0"
        counters = fluid.unique_name.switch()
        assert fluid.unique_name.generate("fc") == "fc_0"
        fluid.unique_name.switch(counters)
        assert fluid.unique_name.generate("fc") == "fc_1"


def test_places_and_flags_are_taken() -> None:
    assert not fluid.in_dygraph_mode()
    with fluid.program_guard(fluid.Program()), fluid.device_guard("cpu"):
        x = L.cast(fluid.data("x", [2], fluid.core.VarDesc.VarType.FP32), fluid.core.VarDesc.VarType.INT64)
        assert x.dtype == "int64"
    with pytest.raises(InvalidValue, match="not on 'gpu'"), fluid.device_guard("gpu"):
        pass
    fluid.set_flags({"FLAGS_eager_delete_tensor_gb": 1.0})
    with pytest.raises(InvalidValue, match="begin with FLAGS_"):
        fluid.set_flags({"eager": 1.0})
    with pytest.raises(InvalidType, match="takes a dict"):
        fluid.set_flags(["FLAGS_eager"])  # type: ignore[arg-type]


def test_an_executor_takes_fluids_hints(tmp_path: Path) -> None:
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.program_guard(fluid.Program(), fluid.Program()) as main, fluid.scope_guard(fluid.Scope()):
        y = fluid.data("x", [None, 2]) * 2.0
        L.create_parameter([2], "float32", name="w")
        for _ in range(3):
            result = executor.run(main, {"x": [[1, 2]]}, [y], return_numpy=False, use_program_cache=True)
            np.testing.assert_array_equal(np.array(result[0]), [[2.0, 4.0]])
        executor.close()
        np.testing.assert_array_equal(executor.run(main, {"x": [[1, 2]]}, [y])[0], [[2.0, 4.0]])
        with pytest.raises(InvalidValue, match=r"run program.prune\(fetch_list\)"):
            executor.run(main, {"x": [[1, 2]]}, [y], use_prune=True)
        # What has run in the global scope is saved without naming it.
        with pytest.raises(InvalidValue, match="run the startup program"):
            fluid.save(main, tmp_path / "model.txt")
        executor.run(fluid.default_startup_program())
        fluid.save(main, tmp_path / "model.txt")
        np.testing.assert_array_equal(fluid.load(tmp_path / "model.txt").arrays["w"], fluid.global_scope().get("w"))


# -- starts and steps ----------------------------------------------------------------------------


def test_fans_may_be_given() -> None:
    narrow = _parameter(fluid.initializer.Xavier(uniform=True, fan_in=600, fan_out=600), [50, 40])
    assert np.abs(narrow).max() == pytest.approx((6 / 1200) ** 0.5, rel=0.02)
    assert np.abs(_parameter(fluid.initializer.MSRA(True, 600), [50, 40])).max() == pytest.approx(0.1, rel=0.02)
    assert _parameter(fluid.initializer.MSRA(uniform=False, fan_in=8), [50, 40]).std() == pytest.approx(0.5, rel=0.05)
    with pytest.raises(InvalidValue, match="fan_in of an initializer is above 0"):
        _parameter(fluid.initializer.MSRA(fan_in=0), [2, 2])


def test_bilinear_filters_interpolate() -> None:
    """A ramp, upsampled by 2, is a ramp of half the slope away from the border."""
    with fluid.program_guard(fluid.Program(), fluid.Program()) as main:
        x = fluid.data("x", [1, 1, 5, 5])
        attr = fluid.ParamAttr(initializer=fluid.initializer.Bilinear())
        y = L.conv2d_transpose(x, num_filters=1, filter_size=4, stride=2, padding=1, param_attr=attr, bias_attr=False)
        executor, scope = fluid.Executor(), fluid.Scope()
        executor.run(fluid.default_startup_program(), scope=scope)
        ramp = np.broadcast_to(np.arange(5, dtype="float32"), (1, 1, 5, 5))
        (result,) = executor.run(main, {"x": ramp}, [y], scope)
    np.testing.assert_allclose(np.diff(result[0, 0, 4, 1:-1]), 0.5, rtol=1e-5)
    with pytest.raises(InvalidValue, match="square filters"):
        _parameter(fluid.initializer.Bilinear(), [2, 2])


def test_optimizers_take_fluids_names() -> None:
    fluid.optimizer.AdamOptimizer(0.1, lazy_mode=True, name="adam")
    fluid.optimizer.SGD(0.1, name="sgd")
    with pytest.raises(AttributeError, match="'PipelineOptimizer', which Fluid has: the pass"):
        getattr(fluid.optimizer, "PipelineOptimizer")  # noqa: B009
    with pytest.raises(AttributeError, match="'Adams'; did you mean 'Adam'"):
        getattr(fluid.optimizer, "Adams")  # noqa: B009


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fluid.io.save_parms, "there is no 'save_parms' here; did you mean 'save_params'"),
        (lambda: fluid.clip.GradientClipByGlobal, "did you mean 'GradientClipByGlobalNorm'"),
        (lambda: getattr(fluid.initializer, "Xavir"), "has no attribute 'Xavir'; did you mean 'Xavier'"),  # noqa: B009
        (lambda: fluid.save(fluid.Program(), "model.onxx"), "ends in none of .txt, .json and .pdmodel"),
    ],
)
def test_a_mistyped_name_is_suggested(call: Callable[[], object], message: str) -> None:
    with pytest.raises((AttributeError, InvalidValue), match=message):
        call()


# -- readers -------------------------------------------------------------------------------------


def _numbers() -> Any:
    return iter(range(5))


def test_readers() -> None:
    io = fluid.io
    assert list(io.batch(_numbers, 2, drop_last=True)()) == [[0, 1], [2, 3]]
    assert sorted(io.shuffle(_numbers, 3)()) == [0, 1, 2, 3, 4]
    assert list(io.chain(_numbers, _numbers)()) == [*range(5), *range(5)]
    assert list(io.firstn(_numbers, 2)()) == [0, 1]
    assert list(io.map_readers(lambda a, b: a * b, _numbers, _numbers)()) == [0, 1, 4, 9, 16]
    once = iter(range(3))
    kept = io.cache(lambda: once)
    assert list(kept()) == list(kept()) == [0, 1, 2]
    assert list(io.compose(_numbers, lambda: iter([7]), check_alignment=False)()) == [(0, 7)]
    with pytest.raises(InvalidValue, match=r"readers \[1\] end after 1 samples"):
        list(io.compose(_numbers, lambda: iter([7]))())
    with pytest.raises(InvalidType, match="a reader is a function"):
        list(io.batch(range(3), 2)())
    with pytest.raises(InvalidValue, match="batch_size is an integer"):
        io.batch(_numbers, 0)


def _loader(**options: Any) -> Any:
    with fluid.program_guard(fluid.Program()):
        x, label = fluid.data("x", [None, 2]), fluid.data("label", [None, 1], "int64")
    return fluid.io.DataLoader.from_generator(feed_list=[x, label], capacity=2, **options)


ROWS = [([1.0, 2.0], 3), ([4.0, 5.0], 6), ([7.0, 8.0], 9)]


@pytest.mark.parametrize(
    ("give", "batches"),
    [
        (lambda loader: loader.set_sample_generator(lambda: iter(ROWS), batch_size=2), [[3, 6]]),
        (lambda loader: loader.set_sample_generator(lambda: iter(ROWS), 2, False, fluid.CPUPlace()), [[3, 6], [9]]),
        (lambda loader: loader.set_sample_list_generator(fluid.io.batch(lambda: iter(ROWS), 1), fluid.cpu_places()), [[3], [6], [9]]),
        (lambda loader: loader.set_batch_generator(lambda: iter([(np.ones((1, 2)), np.array([[4]]))])), [[4]]),
        (lambda loader: loader.set_batch_generator(lambda: iter([{"x": np.ones((1, 2)), "label": np.array([[4]])}])), [[4]]),
    ],
)
def test_a_loader_gives_feeds(give: Callable[[Any], Any], batches: list[list[int]]) -> None:
    loader = give(_loader())
    for _ in range(2):  # epochs
        assert [feed["label"].ravel().tolist() for feed in loader()] == batches
    listed = give(_loader(return_list=True))
    assert [label.ravel().tolist() for _, label in listed] == batches


def test_a_loader_says_what_is_missing() -> None:
    with pytest.raises(InvalidValue, match="call start"):
        list(_loader(iterable=False))
    with pytest.raises(InvalidValue, match="the loader has no reader"):
        list(_loader())
    with pytest.raises(InvalidType, match="needs feed_list"):
        fluid.io.DataLoader.from_generator()
    with pytest.raises(InvalidType, match=r"places are CPUPlace\(\) or None"):
        _loader().set_batch_generator(_numbers, places=0)
    with pytest.raises(InvalidType, match="a batch has 1 arrays for"):
        list(_loader().set_batch_generator(lambda: iter([(np.ones(2),)])))


# -- metrics -------------------------------------------------------------------------------------

PREDICTED = np.array([[0.1], [0.7], [0.8], [0.9], [0.2], [0.3], [0.5], [0.8], [0.6]])
TRUE = np.array([[0], [1], [1], [1], [1], [0], [0], [0], [0]])


def test_precision_and_recall_over_minibatches() -> None:
    both = fluid.metrics.CompositeMetric("both")
    both.add_metric(fluid.metrics.Precision("p"))
    both.add_metric(fluid.metrics.Recall())
    for _ in range(2):
        for rows in (slice(0, 4), slice(4, 9)):
            both.update(preds=PREDICTED[rows], labels=TRUE[rows])
        # 0.7, 0.8, 0.9 are right, 0.8 and 0.6 are not; of the four ones 0.2 is missed. 0.5 is rounded to 0.
        assert both.eval() == [3 / 5, 3 / 4]
        both.reset()
        assert both.eval() == [0.0, 0.0]


def test_accuracy_is_weighted_by_the_sizes() -> None:
    accuracy = fluid.metrics.Accuracy()
    accuracy.update(np.array([0.5], "float32"), 2)
    accuracy.update(value=0.2, weight=8)
    assert accuracy.eval() == pytest.approx(0.26)
    accuracy.reset()
    with pytest.raises(InvalidValue, match="no accuracy was added"):
        accuracy.eval()


def test_auc_is_the_chance_of_the_right_order() -> None:
    """The area under the curve is the probability that a one is above a zero, ties counted half (J. Hanley and B. McNeil, 1982)."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (200, 1))
    scores = np.round(np.clip(0.3 * labels[:, 0] + 0.7 * rng.random(200), 0, 1), 2)
    auc = fluid.metrics.Auc(name="auc", curve="ROC", num_thresholds=1000)
    for rows in (slice(0, 50), slice(50, 200)):
        auc.update(np.stack([1 - scores, scores], 1)[rows], labels[rows])
    ones, zeros = scores[labels[:, 0] == 1][:, None], scores[labels[:, 0] == 0]
    assert auc.eval() == pytest.approx(np.mean((ones > zeros) + 0.5 * (ones == zeros)), abs=1e-9)
    assert 0.5 < auc.eval() < 1.0
    auc.reset()
    assert auc.eval() == 0.0


def test_chunks_and_distances() -> None:
    chunks = fluid.metrics.ChunkEvaluator()
    for _ in range(2):
        chunks.update(np.array([5]), 4, 3)
    assert chunks.eval() == pytest.approx((3 / 5, 3 / 4, 2 / 3))
    chunks.reset()
    assert chunks.eval() == (0.0, 0.0, 0.0)
    distance = fluid.metrics.EditDistance("distance")
    distance.update(np.array([[1.0], [0.0]]), np.array([2]))
    distance.update([[3.0], [0.0]], 2)
    assert distance.eval() == (1.0, 0.5)
    assert distance.get_config() == {"total_distance": 4.0, "seq_num": 4, "instance_error": 2}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.Precision().update([[0.5]], [[2]]), "labels are 0 or 1"),
        (lambda m: m.Recall().update([[0.5], [0.1]], [[1]]), "as many elements, not 2 and 1"),
        (lambda m: m.Accuracy().update([0.1, 0.2], 2), "one number, not of shape"),
        (lambda m: m.Accuracy().update(0.1, -2), "a weight is 0 or more"),
        (lambda m: m.Auc(curve="PR"), "curve is 'ROC'"),
        (lambda m: m.Auc().update([[0.5, 1.5]], [[1]]), "probabilities, from 0 to 1"),
        (lambda m: m.Auc().update([[0.5]], [[1]]), r"preds are \[n, 2\]"),
        (lambda m: m.ChunkEvaluator().update(-1, 1, 1), "num_infer_chunks is one number"),
        (lambda m: m.EditDistance().eval(), "no distance was added"),
        (lambda m: m.CompositeMetric().add_metric("auc"), "takes a metric"),
        (lambda m: m.DetectionMAP, "which Fluid has: average precision"),
        (lambda m: m.Acuracy, "did you mean 'Accuracy'"),
    ],
)
def test_a_wrong_call_of_a_metric_says_so(call: Callable[[Any], object], message: str) -> None:
    with pytest.raises((InvalidValue, InvalidType, AttributeError), match=message):
        call(fluid.metrics)
