"""Scripts as Fluid's book has them run with ``import graphad as fluid``; written from its chapters, not from graphad's code."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import graphad as fluid
from graphad.errors import InvalidType, InvalidValue
from tests.interop.test_commit import Disk


def test_fit_a_line() -> None:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 90
    with fluid.program_guard(main, startup):
        x = fluid.data(name="x", shape=[None, 13], dtype="float32")
        y = fluid.data(name="y", shape=[None, 1], dtype="float32")
        y_predict = fluid.layers.fc(input=x, size=1, act=None)
        avg_loss = fluid.layers.mean(fluid.layers.square_error_cost(input=y_predict, label=y))
        test_program = main.clone(for_test=True)
        fluid.optimizer.SGD(learning_rate=0.05).minimize(avg_loss)
    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        feeder = fluid.DataFeeder(place=place, feed_list=[x, y], program=main)
        rng = np.random.default_rng(0)
        rows = [(row, [row.sum()]) for row in rng.normal(size=(32, 13)).astype("float32")]
        losses = [exe.run(main, feed=feeder.feed(rows), fetch_list=[avg_loss])[0] for _ in range(60)]
        assert losses[-1] < 0.01 * losses[0]
        (tested,) = exe.run(test_program, feed=feeder.feed(rows), fetch_list=[avg_loss.name])
        assert tested < losses[-1] * 1.01


def test_recognize_digits() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        img = fluid.data(name="img", shape=[None, 1, 12, 12])
        label = fluid.data(name="label", shape=[None, 1], dtype="int64")
        conv = fluid.layers.conv2d(input=img, num_filters=4, filter_size=3, act="relu")
        pool = fluid.layers.pool2d(input=conv, pool_size=2, pool_stride=2)
        pool = fluid.layers.batch_norm(pool)
        prediction = fluid.layers.fc(input=pool, size=3, act="softmax", param_attr=fluid.ParamAttr(name="last", learning_rate=0.5))
        loss = fluid.layers.cross_entropy(input=prediction, label=label)
        avg_loss = fluid.layers.mean(loss)
        acc = fluid.layers.accuracy(input=prediction, label=label)
        optimizer = fluid.optimizer.Adam(
            learning_rate=0.01,
            regularization=fluid.regularizer.L2Decay(regularization_coeff=1e-4),
            grad_clip=fluid.clip.GradientClipByGlobalNorm(clip_norm=5.0),
        )
        optimizer.minimize(avg_loss)
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        rng = np.random.default_rng(1)
        labels = rng.integers(0, 3, (24, 1))
        images = rng.normal(scale=0.1, size=(24, 1, 12, 12)).astype("float32")
        images[np.arange(24), 0, labels[:, 0] * 4] += 1.0
        for _ in range(30):
            loss_value, accuracy = exe.run(main, feed={"img": images, "label": labels}, fetch_list=[avg_loss, acc])
        assert loss_value < 0.1
        assert accuracy == 1.0
        assert fluid.global_scope().arrays["last"].shape == (100, 3)


def test_what_is_not_here_says_what_takes_its_place() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'dygraph', which Fluid has: there is no eager mode"):
        getattr(fluid, "dygraph")  # noqa: B009
    with pytest.raises(InvalidValue, match=r"CUDAPlace\(0\): an Executor computes with numpy"):
        fluid.CUDAPlace(0)
    with pytest.raises(InvalidType, match=r"place is CPUPlace\(\) or None, not True"):
        fluid.Executor(True)  # type: ignore[arg-type]
    with fluid.program_guard(fluid.Program()), pytest.raises(InvalidValue, match="sequences are padded here"):
        fluid.data("x", [None, 1], lod_level=1)
    feeder = fluid.DataFeeder([])
    with pytest.raises(InvalidType, match=r"row 1 has 1 values for \[\]"):
        feeder.feed([(), (1,)])


def _classifier() -> tuple[fluid.Program, fluid.Program, fluid.Variable]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x, label = fluid.data("x", [None, 4]), fluid.data("label", [None, 1], "int64")
        prediction = fluid.layers.fc(x, 3, act="softmax", param_attr=fluid.initializer.NormalInitializer(seed=3))
        loss = fluid.layers.mean(fluid.layers.cross_entropy(prediction, label))
        fluid.optimizer.AdamOptimizer(0.1).minimize(loss)
    return main, startup, prediction


def test_values_are_saved_and_loaded(tmp_path: Path) -> None:
    main, startup, _ = _classifier()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        kept = {name: fluid.global_scope().get(name).copy() for name in fluid.global_scope().names()}
        fluid.io.save_persistables(exe, tmp_path / "each", main)
        fluid.io.save_params(exe, tmp_path / "one", main, filename="weights")
    assert {path.name for path in (tmp_path / "each").iterdir()} == set(kept)
    with fluid.scope_guard(fluid.Scope()):
        fluid.io.load_persistables(exe, tmp_path / "each", main)
        assert {name: fluid.global_scope().get(name).tolist() for name in kept} == {name: each.tolist() for name, each in kept.items()}
    with fluid.scope_guard(fluid.Scope()):
        fluid.io.load_params(exe, tmp_path / "one", main, filename="weights")
        assert sorted(fluid.global_scope().names()) == ["fc_0.b_0", "fc_0.w_0"]
        found = fluid.global_scope().find_var("fc_0.w_0")
        assert found is not None
        tensor = found.get_tensor()
        np.testing.assert_array_equal(np.array(tensor), kept["fc_0.w_0"])
        tensor.set(np.zeros((4, 3), "float32"), fluid.CPUPlace())
        assert not fluid.global_scope().get("fc_0.w_0").any()
        assert fluid.global_scope().find_var("no such name") is None


def test_values_are_saved_all_or_none(tmp_path: Path) -> None:
    main, startup, _ = _classifier()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        fluid.io.save_params(exe, tmp_path, main)
        kept = fluid.global_scope().get("fc_0.w_0").copy()
        for name in ("fc_0.w_0", "fc_0.b_0"):
            fluid.global_scope().set(name, np.zeros_like(fluid.global_scope().get(name)))
        with pytest.MonkeyPatch.context() as monkeypatch:
            Disk(monkeypatch, 4, dead=True)
            with pytest.raises(OSError, match="the disk is full"):
                fluid.io.save_params(exe, tmp_path, main)
        fluid.io.load_params(exe, tmp_path, main)
        np.testing.assert_array_equal(fluid.global_scope().get("fc_0.w_0"), kept)


@pytest.mark.parametrize("combined", [None, "__params__"])
def test_a_model_is_saved_for_inference_and_loaded(tmp_path: Path, combined: str | None) -> None:
    main, startup, prediction = _classifier()
    exe = fluid.Executor(fluid.CPUPlace())
    x = np.arange(8, dtype="float32").reshape(2, 4)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        with pytest.raises(InvalidValue, match=r"the targets need \['x'\], which is not among what is fed"):
            fluid.io.save_inference_model(tmp_path, [], [prediction], exe, main_program=main)
        assert not [*tmp_path.iterdir()]
        assert fluid.io.save_inference_model(tmp_path, ["x"], [prediction], exe, main, params_filename=combined) == [prediction.name]
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = fluid.io.load_inference_model(tmp_path, exe)
        assert feeds == ["x"]
        assert {op.type for op in program.global_block().ops} == {"mul", "elementwise_add", "softmax"}
        (found,) = exe.run(program, feed={"x": x}, fetch_list=targets)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        (expected,) = exe.run(main.clone(for_test=True), feed={"x": x, "label": [[0], [1]]}, fetch_list=[prediction])
    np.testing.assert_array_equal(found, expected)


def test_parameters_with_slashes_in_their_names_are_files_in_folders(tmp_path: Path) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        y = fluid.layers.fc(fluid.data("x", [None, 4]), 3, param_attr="encoder/w", bias_attr="encoder/b")
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        kept = fluid.global_scope().get("encoder/w").copy()
        fluid.io.save_persistables(exe, tmp_path / "values", main)
        fluid.io.save_inference_model(tmp_path / "model", ["x"], [y], exe, main)
    assert (tmp_path / "values" / "encoder" / "w").is_file()
    loads: list[Callable[[], object]] = [
        lambda: fluid.io.load_persistables(exe, tmp_path / "values", main),
        lambda: fluid.io.load_inference_model(tmp_path / "model", exe),
    ]
    for load in loads:
        with fluid.scope_guard(fluid.Scope()):
            load()
            np.testing.assert_array_equal(fluid.global_scope().get("encoder/w"), kept)


def test_the_newer_embedding_and_one_hot_keep_a_last_axis_of_1() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        ids = fluid.data("ids", [None, 1], "int64")
        assert fluid.embedding(ids, size=[5, 2]).shape == (-1, 1, 2)
        assert fluid.layers.embedding(ids, size=[5, 2]).shape == (-1, 2)
        assert fluid.one_hot(ids, 5).shape == (-1, 1, 5)
        assert fluid.layers.one_hot(ids, 5).shape == (-1, 5)
