"""``train``: the specification's application as it is written there, the kinds of readers, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layer, optimize, train
from graphad.training import History, data_variables
from tests.conformance.loading import Array

Pair = tuple[Array, Array]


def minibatches(count: int = 5, seed: int = 0) -> list[Pair]:
    rng = np.random.default_rng(seed)
    weights = np.linspace(-1, 1, 13, dtype="float32")[:, None]
    inputs = [rng.normal(size=(16, 13)).astype("float32") for _ in range(count)]
    return [(x, x @ weights + np.float32(0.5)) for x in inputs]


def reader() -> Iterator[Pair]:
    yield from minibatches()


class Model:
    """Linear regression; the same start every time."""

    def __init__(self, optimized: bool = True) -> None:
        self.main, self.startup, self.scope = ga.Program(), ga.Program(), ga.Scope()
        self.startup.random_seed = 1
        with ga.program_guard(self.main, self.startup):
            self.images, self.label = layer.data("images", [13]), layer.data("label", [1])
            self.y = layer.fc(self.images, 1)
            self.cost = layer.mse(self.y, self.label)
            if optimized:
                optimize(self.cost)

    def train(self, reader: Any, **options: Any) -> History:
        return train(self.cost, reader, **{"scope": self.scope, "progress": False, **options})


# -- the specification ---------------------------------------------------------------------------


def test_the_application_of_the_specification_runs_as_written() -> None:
    mnist = minibatches(50)
    with ga.program_guard(ga.Program(), ga.Program()), ga.scope_guard(ga.Scope()):
        x = layer.data("images", [13])
        l = layer.data("label", [1])  # noqa: E741
        y = layer.fc(x, 1)
        cost = layer.mse(y, l)
        optimize(cost)
        history = train(cost, reader=mnist, epochs=3)
    assert len(history.cost) == 150
    assert np.mean(history.cost[-10:]) < 0.05 * np.mean(history.cost[:10])
    assert history.seconds > 0


def test_forward_gradient_and_optimization_operators_stand_in_this_order() -> None:
    roles = [op.role for op in Model().main.global_block().ops]
    assert list(dict.fromkeys(roles)) == ["forward", "backward", "optimize"]
    assert roles == sorted(roles, key=["forward", "backward", "optimize"].index)


def test_the_progress_bar_shows_the_epoch_the_cost_and_the_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    model = Model()
    model.train(reader, progress=True, epochs=2, metrics={"mean": model.y})
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("epoch 1/2", "epoch 2/2", "5/5", "cost ", "mean "))
    model.train(reader)
    assert capsys.readouterr().out == ""


# -- readers -------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[], Any]] = {
    "generator function": lambda: reader,
    "list": minibatches,
    "tuple": lambda: tuple(minibatches()),
    "function of a list": lambda: minibatches,
    "generator": reader,
    "dicts": lambda: [{"label": label, "images": images} for images, label in minibatches()],
    "lists": lambda: [list(batch) for batch in minibatches()],
    "nested lists": lambda: [(images.tolist(), label.tolist()) for images, label in minibatches()],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_reader_trains_the_same(kind: str) -> None:
    expected = Model().train(minibatches()).cost
    assert Model().train(KINDS[kind]()).cost == expected


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "generator"])
def test_a_reader_is_read_again_in_every_epoch(kind: str) -> None:
    assert len(Model().train(KINDS[kind](), epochs=3).cost) == 15


def test_a_generator_is_spent_after_one_epoch() -> None:
    with pytest.raises(ValueError, match="the reader gave no minibatch in epoch 2"):
        Model().train(reader(), epochs=2)


def test_feed_list_says_what_a_minibatch_holds() -> None:
    swapped = [(label, images) for images, label in minibatches()]
    model = Model()
    assert model.train(swapped, feed_list=[model.label, "images"]).cost == Model().train(minibatches()).cost


def test_data_variables_are_what_is_read_and_not_written() -> None:
    model = Model()
    with ga.program_guard(model.main):
        layer.data("unused", [1])
    assert [v.name for v in data_variables(model.main)] == ["images", "label"]


# -- what it keeps -------------------------------------------------------------------------------


def test_the_history_has_the_cost_and_the_metrics_of_every_step() -> None:
    model = Model()
    history = model.train(reader, metrics={"mean": model.y, "by name": model.cost})
    assert list(history.metrics) == ["mean", "by name"]
    assert history.metrics["by name"] == history.cost
    assert len(history.metrics["mean"]) == 5
    assert history.recent([1.0, 2.0, 4.0], steps=2) == 3.0
    assert np.isnan(history.recent([]))


def test_training_goes_on_where_it_was() -> None:
    whole, parts = Model(), Model()
    expected = whole.train(reader, epochs=2).cost
    assert parts.train(reader).cost + parts.train(reader).cost == expected


def test_the_parameters_are_trained_in_the_scope_given() -> None:
    model, outer = Model(), ga.Scope()
    with ga.scope_guard(outer):
        model.train(reader)
        assert not outer.names()
    assert model.scope.has("fc_0.w_0")
    with ga.scope_guard(outer):
        model.train(reader, scope=None)
    np.testing.assert_array_equal(outer.get("fc_0.w_0"), model.scope.get("fc_0.w_0"))


def test_an_executor_can_be_given() -> None:
    x, label = minibatches(1)[0]
    with pytest.raises(ga.errors.ExecutionError, match="made nan in"):
        Model().train([(np.full_like(x, np.nan), label)], executor=ga.Executor(check_finite=True))


# -- what it refuses -----------------------------------------------------------------------------

ONES = np.ones((2, 13), "float32")
REFUSED: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    ([], {}, ValueError, r"the reader gave no minibatch"),
    (lambda: [], {}, ValueError, r"the reader gave no minibatch"),
    (None, {}, TypeError, r"the reader is a function that returns minibatches, or a list of them, not None"),
    (3, {}, TypeError, r"the reader is a function .* not 3"),
    (lambda: None, {}, TypeError, r"the reader is a function that returns minibatches"),
    ([(ONES,)], {}, ValueError, r"a minibatch has 1 arrays, but the program is fed 2: images, label"),
    ([(ONES, ONES, ONES)], {}, ValueError, r"a minibatch has 3 arrays, but the program is fed 2"),
    ([(ONES, ONES)], {}, ValueError, r"feed 'label' has shape \[2, 13\], but the variable is declared \[-1, 1\]"),
    ([{"images": ONES}], {}, ValueError, r"'label', which is not fed"),
    ([{"images": ONES, "lable": ONES}], {}, ValueError, r"feed has 'lable', .* did you mean 'label'"),
    (reader, {"metrics": {"a": "nope"}}, ValueError, r"cannot fetch 'nope'"),
    (reader, {"feed_list": ["images", "lable"]}, ValueError, r"feed has 'lable', .* did you mean 'label'"),
    ([3], {}, TypeError, r"a minibatch is a dict or a sequence of arrays, not 3"),
    (reader, {"metrics": ["cost"]}, TypeError, r"metrics is a dict from label to variable, not \['cost'\]"),
    (reader, {"epochs": "a"}, ValueError, r"epochs is a number from 1 on, not 'a'"),
    (reader, {"epochs": -1}, ValueError, r"epochs is a number from 1 on, not -1"),
]


@pytest.mark.parametrize(("given", "options", "error", "message"), REFUSED)
def test_what_is_wrong_is_said(given: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Model().train(given, **options)


def test_the_cost_is_a_variable() -> None:
    with pytest.raises(TypeError, match="cost is a Variable, not 'cost'"):
        train("cost", reader)  # type: ignore[arg-type]


def test_a_cost_that_was_not_optimized_is_refused() -> None:
    model = Model(optimized=False)
    with pytest.raises(ValueError, match=r"nothing would be trained: no operator of program \d+ .*call graphad.optimize\(mean") as caught:
        model.train(reader)
    assert isinstance(caught.value, ga.errors.GraphadError)
    assert not model.scope.names()


def test_a_cost_that_is_no_scalar_is_refused() -> None:
    model = Model()
    with pytest.raises(ValueError, match="scalar"):
        train(model.y, reader, scope=model.scope, progress=False)
