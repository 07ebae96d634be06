"""Behavior of Fluid's composed layers besides their values: state over runs, draws, refusals, layers that are not here."""

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.layers import sampled
from graphad.layers.unavailable import NAMES


def run(outputs: list[ga.Variable], feed: dict[str, object] | None = None) -> list[np.ndarray]:
    scope = ga.Scope()
    executor = ga.Executor()
    executor.run(ga.default_startup_program(), scope=scope)
    return executor.run(ga.default_main_program(), feed or {}, outputs, scope=scope)


@pytest.fixture(autouse=True)
def programs():  # type: ignore[no-untyped-def]
    with ga.program_guard(ga.Program(), ga.Program()):
        yield


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_layer_that_is_not_here_says_why_and_what_instead(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"Fluid's layer '{name}' is not here \(.+\): .{{10}}"):
        getattr(L, name)


def test_centers_follow_their_samples() -> None:
    x = L.data("x", [3, 2], append_batch_size=False, dtype="float64")
    label = L.data("label", [3, 1], append_batch_size=False, dtype="int64")
    L.center_loss(x, label, 2, 0.5, L.ParamAttr(name="centers", initializer=ga.initializer.Constant(1.0)))
    (centers,) = run(["centers"], {"x": [[2.0, 1.0], [4.0, 1.0], [1.0, 7.0]], "label": [[0], [0], [1]]})  # type: ignore[list-item]
    np.testing.assert_allclose(centers, [[1 + 0.5 * 4 / 3, 1.0], [1.0, 1 + 0.5 * 6 / 2]])


def test_auc_counts_over_runs() -> None:
    x = L.data("x", [2])
    label = L.data("label", [1], dtype="int64")
    total, batch, _ = L.auc(x, label, num_thresholds=10)
    executor, scope = ga.Executor(), ga.Scope()
    executor.run(ga.default_startup_program(), scope=scope)
    main = ga.default_main_program()
    good = {"x": np.array([[0.15, 0.85], [0.75, 0.25]], "float32"), "label": [[1], [0]]}
    bad = {"x": np.array([[0.15, 0.85], [0.75, 0.25]], "float32"), "label": [[0], [1]]}
    assert [float(each) for each in executor.run(main, good, [total, batch], scope=scope)] == [1.0, 1.0]
    assert [float(each) for each in executor.run(main, bad, [total, batch], scope=scope)] == [0.5, 0.0]


def test_a_permutation_has_each_number_once() -> None:
    first, second = run([L.randperm(20), L.randperm(20)])
    assert sorted(first) == sorted(second) == list(range(20))
    assert first.dtype == np.int64
    assert list(first) != list(second)


def test_ids_are_drawn_by_their_probabilities() -> None:
    x = L.data("x", [3])
    (ids,) = run([L.sampling_id(x)], {"x": np.tile(np.array([[0.2, 0.0, 0.8]], "float32"), (2000, 1))})
    assert ids.shape == (2000,)
    share = (ids == 2).mean()
    assert not (ids == 1).any()
    assert 0.75 < share < 0.85  # 0.8, with a deviation of 0.009


def test_the_log_uniform_sampler_draws_small_classes_more_often() -> None:
    label = L.data("label", [1], dtype="int64")
    classes, probability = sampled._drawn_classes(label, "log_uniform", 4, 5000, None, 3, "float64")
    drawn, likely = run([classes, probability(classes)], {"label": [[0]]})
    counts = np.bincount(drawn[0], minlength=4) / 5000
    expected = np.log([2 / 1, 3 / 2, 4 / 3, 5 / 4]) / np.log(5)
    np.testing.assert_allclose(counts, expected, atol=0.03)
    np.testing.assert_allclose(likely[0], expected[drawn[0]])


def test_a_weight_over_its_largest_singular_value_has_the_norm_1() -> None:
    weight = np.random.default_rng(0).normal(size=(4, 3, 2))
    (result,) = run([L.spectral_norm(L.assign(weight), dim=1, power_iters=60)])
    np.testing.assert_allclose(np.linalg.norm(result.transpose(1, 0, 2).reshape(3, -1), 2), 1.0, rtol=1e-9)
    np.testing.assert_allclose(result / result[0, 0, 0], weight / weight[0, 0, 0])


def test_samples_of_distributions_have_their_moments() -> None:
    loc, scale = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    normal, uniform = L.Normal(loc, scale).sample([4000]), L.Uniform(np.array([1.0]), np.array([3.0])).sample([4000])
    drawn, spread = run([normal, uniform])
    assert drawn.shape == (4000, 2)
    assert spread.shape == (4000, 1)
    np.testing.assert_allclose(drawn.mean(0), loc, atol=0.2)
    np.testing.assert_allclose(drawn.std(0), scale, rtol=0.05)
    assert spread.min() >= 1.0
    assert spread.max() < 3.0
    np.testing.assert_allclose(spread.mean(), 2.0, atol=0.05)


def test_a_cell_of_ones_own_runs_over_time() -> None:
    class Sum(L.RNNCell):
        state_shape = [4]  # noqa: RUF012

        def call(self, inputs, states, **kwargs):  # type: ignore[no-untyped-def]
            return inputs * 2.0, states + inputs

    x = L.data("x", [3, 4])
    outputs, state = L.rnn(Sum(), x)
    array = np.arange(24, dtype="float32").reshape(2, 3, 4)
    given, last = run([outputs, state], {"x": array})
    np.testing.assert_array_equal(given, array * 2)
    np.testing.assert_array_equal(last, array.sum(1))


def test_layers_of_an_lstm_in_both_directions_have_twice_the_width() -> None:
    x = L.data("x", [5, 2, 3], append_batch_size=False)
    states = L.zeros([4, 2, 6])
    out, hidden, cell = L.lstm(x, states, states, 5, 6, 2, dropout_prob=0.5, is_bidirec=True)
    assert (out.shape, hidden.shape, cell.shape) == ((5, 2, 12), (4, 2, 6), (4, 2, 6))
    weights = [p for p in ga.default_main_program().all_parameters() if len(p.shape) == 2]
    assert sorted(p.shape for p in weights) == [(9, 24), (9, 24), (18, 24), (18, 24)]
    assert all(each is not None for each in ga.gradients(out, weights))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: L.cross(x, x), "has no axis of extent 3"),
        (lambda x: L.nce(x, x, 3, sampler="log"), "sampler is 'uniform', 'log_uniform' or 'custom_dist', not 'log'"),
        (lambda x: L.hsigmoid(x, x, 4, is_custom=True), "is_custom=True comes with path_table and path_code"),
        (lambda x: L.auc(x, x, curve="PR"), "curve='ROC'"),
        (lambda x: L.rnn(L.GRUCell(2), L.data("y", [0, 3])), "has no steps"),
        (lambda x: L.GRUCell("relu"), "hidden_size is an int, not 'relu'"),  # type: ignore[arg-type]
        (lambda x: L.GRUCell(2, gate_activation="relus"), "did you mean 'relu'"),
        (lambda x: L.prior_box(x, x, [1.0]), r"input is \[batch, channels, height, width\]"),
        (lambda x: L.spectral_norm(x), "of known extents"),
        (lambda x: L.sampling_id(L.data("z", [2, 3])), r"it takes probabilities \[batch, classes\]"),
        (lambda x: L.inplace_abn(x, act="relu"), "act is None, 'identity', 'leaky_relu' or 'elu', not 'relu'"),
        (lambda x: L.Normal("a", 1.0), "loc is a Variable, a number or an array, not 'a'"),
        (lambda x: L.box_coder(x, 3, x), "boxes"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_does_not_fit_is_refused_in_words(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((TypeError, ValueError), match=message):
        call(L.data("x", [5]))
