"""Arrays of tensors and tapes never change: every version stays what it was, whatever is made of it later."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphad import ops
from graphad.ops.aggregates import Aggregate, StepScopes, Tape, TensorArray, zeros_like

Array = NDArray[Any]
Model = list[float | None]  # an array of tensors as a list; None where nothing is
Action = tuple[str, int, int, int]
ACTIONS = st.lists(st.tuples(st.sampled_from(["write", "without", "add", "zeros"]), *[st.integers(0, 9)] * 3), max_size=30)


def tensor(value: float) -> Array:
    return np.array([float(value)])


def shown(array: TensorArray) -> Model:
    """The elements of a tensor array as numbers, index by index; None for an empty one."""
    items = [array.read(i) for i in range(len(array))]
    return [None if item is None else float(item[0]) for item in items]


def written(model: Model, index: int, value: float | None) -> Model:
    longer = model + [None] * (index + 1 - len(model)) if value is not None else list(model)
    return [value if i == index else item for i, item in enumerate(longer)]


def added(a: Model, b: Model) -> Model:
    """The sum where both are as long; nothing counts as zero."""
    pairs = zip(a, b, strict=True)
    return [y if x is None else x if y is None else x + y for x, y in pairs]


class Versions:
    """Arrays of tensors, each with the list that it should be."""

    def __init__(self) -> None:
        self.all: list[tuple[TensorArray, Model]] = [(TensorArray(), []), (TensorArray([tensor(0.5), tensor(1.5)]), [0.5, 1.5])]

    def act(self, action: Action) -> None:
        """Make another version of one of them."""
        what, which, index, number = action
        array, model = self.all[which % len(self.all)]
        if what == "write":
            self.all.append((array.write(index, tensor(number)), written(model, index, float(number))))
        elif what == "without":
            self.all.append((array.without(index), written(model, index, None)))
        elif what == "zeros":
            self.all.append((array.zeros_like(), [None] * len(model)))
        else:
            others = [(other, list_) for other, list_ in self.all if len(list_) == len(model)]
            other, list_ = others[index % len(others)]
            self.all.append((array + other, added(model, list_)))

    def check(self, which: int) -> None:
        array, model = self.all[which % len(self.all)]
        assert shown(array) == model
        assert len(array) == len(model)
        assert [(i, float(x[0])) for i, x in array.items()] == [(i, x) for i, x in enumerate(model) if x is not None]
        assert array.nbytes == 8 * sum(x is not None for x in model)


# -- arrays of tensors ---------------------------------------------------------------------------


@given(ACTIONS)
def test_every_version_stays_what_it_was(actions: list[Action]) -> None:
    versions = Versions()
    for action in actions:
        versions.act(action)
        versions.check(-1)
        versions.check(action[3])
    for which in range(len(versions.all)):
        versions.check(which)


@given(ACTIONS, st.data())
def test_versions_are_read_in_any_order(actions: list[Action], data: st.DataObject) -> None:
    versions = Versions()
    for action in actions:
        versions.act(action)
    for which in data.draw(st.permutations(range(len(versions.all)))):
        versions.check(which)


def test_two_arrays_written_from_one_do_not_know_each_other() -> None:
    base = TensorArray([tensor(1), tensor(2)])
    left, right = base.write(0, tensor(10)), base.write(2, tensor(30))
    deeper = left.without(1)
    assert [shown(a) for a in (deeper, base, right, left)] == [[10, None], [1, 2], [1, 2, 30], [10, 2]]


def test_a_sum_leaves_its_terms_alone() -> None:
    a, b = TensorArray([tensor(1), tensor(2)]), TensorArray([tensor(10)]).write(1, tensor(20)).without(0)
    assert shown(a + b) == shown(b + a) == [1, 22]
    assert [shown(a), shown(b)] == [[1, 2], [None, 20]]
    assert shown(a + a.zeros_like()) == shown(a.zeros_like() + a) == [1, 2]
    assert shown(a + a) == [2, 4]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda array: array.read(2), "index 2 is out of range for an array of 2"),
        (lambda array: array.read(-1), "index -1 is out of range for an array of 2"),
        (lambda array: array.write(-1, tensor(0)), "written at an index from 0 on, not at -1"),
    ],
)
def test_an_index_that_is_not_there_is_refused(act: Callable[[TensorArray], Any], message: str) -> None:
    array = TensorArray([tensor(1), tensor(2)])
    with pytest.raises(ValueError, match=message):
        act(array)
    assert shown(array) == [1, 2]


def test_a_tensor_is_freed_with_the_last_version_that_has_it() -> None:
    first = tensor(1)
    alive = weakref.ref(first)
    array = TensorArray([first])
    del first
    older, array = array, array.write(0, tensor(2))
    assert shown(older) == [1]
    assert shown(array) == [2]
    assert alive() is not None
    del older
    assert alive() is None


def test_many_versions_are_read_back_and_freed() -> None:
    versions = [TensorArray()]
    for i in range(20_000):
        versions.append(versions[-1].write(i, i))
    assert [version.read(len(version) - 1) for version in versions[:0:-1]] == list(range(20_000))[::-1]
    assert [version.read(len(version) - 1) for version in versions[1:]] == list(range(20_000))
    oldest = versions[0]
    del versions
    assert len(oldest) == 0
    del oldest


# -- tapes ---------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(["push", "pop", "add", "zeros"]), st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_every_tape_stays_what_it_was(actions: list[tuple[str, int, int]]) -> None:
    tapes: list[tuple[Tape, list[tuple[float, float]]]] = [(Tape(), [])]
    for what, which, number in actions:
        tape, model = tapes[which % len(tapes)]
        if what == "push":
            tapes.append((tape.push([tensor(number), tensor(-number)]), [*model, (float(number), float(-number))]))
        elif what == "pop" and model:
            rest, top = tape.pop()
            assert tuple(float(x[0]) for x in top) == model[-1]
            tapes.append((rest, model[:-1]))
        elif what == "add":
            tapes.append((tape + tape, [(2 * a, 2 * b) for a, b in model]))
        elif what == "zeros":
            tapes.append((tape.zeros_like(), [(0.0, 0.0)] * len(model)))
    for tape, model in tapes:
        assert [tuple(float(x[0]) for x in entry) for entry in tape.entries()] == model
        assert (len(tape), tape.nbytes) == (len(model), 16 * len(model))


def test_an_empty_tape_has_nothing_to_take() -> None:
    with pytest.raises(ValueError, match="the tape is empty"):
        Tape().pop()


def test_tapes_of_other_lengths_are_not_added() -> None:
    with pytest.raises(ValueError, match="zip"):
        Tape().push([tensor(1)]) + Tape()


def test_a_long_tape_is_freed() -> None:
    tape = Tape()
    for i in range(100_000):
        tape = tape.push([i])
    assert len(tape) == 100_000
    del tape


# -- what is in them -----------------------------------------------------------------------------


def test_an_aggregate_counts_the_bytes_of_all_that_is_in_it() -> None:
    inner = TensorArray([np.zeros(3), np.zeros(2, "float32")])
    assert inner.nbytes == 24 + 8
    assert Tape().push([inner, np.zeros(1)]).nbytes == 32 + 8
    assert StepScopes([{"a": inner}, {"b": np.zeros(5, "int32"), "c": Tape()}], 7).nbytes == 32 + 20
    assert [a.nbytes for a in (TensorArray(), Tape(), StepScopes([], 0), StepScopes([{}], 1))] == [0, 0, 0, 0]


def test_zeros_of_what_is_in_a_tape_are_made_one_by_one() -> None:
    zero = zeros_like(Tape().push([TensorArray([tensor(3)]), np.array([4])]))
    assert isinstance(zero, Tape)
    array, count = zero.top
    assert (shown(array), count.tolist(), count.dtype) == ([None], [0], np.dtype(int))


def test_what_blocks_keep_is_no_gradient() -> None:
    scopes = StepScopes([{"a": tensor(1)}], 3)
    assert (len(scopes), scopes.count, repr(scopes)) == (1, 3, "<StepScopes of 3 runs, 8 bytes>")
    with pytest.raises(ValueError, match="has no gradient itself"):
        scopes.zeros_like()


def test_aggregates_say_what_they_are() -> None:
    assert repr(TensorArray([tensor(1)]).write(2, tensor(3))) == "TensorArray([[1.0], None, [3.0]])"
    assert repr(Tape().push([tensor(1)])) == "<Tape of 1>"


@pytest.mark.parametrize("aggregate", [TensorArray([tensor(1)]), Tape().push([tensor(1)])])
def test_numpy_does_not_take_an_aggregate_for_numbers(aggregate: Aggregate) -> None:
    with pytest.raises(TypeError):
        np.add(tensor(1), aggregate)  # type: ignore[call-overload]


# -- as gradients: where an array has nothing, it is zero -----------------------------------------


def sparse(*items: Array | None) -> TensorArray:
    array = TensorArray()
    for index, item in enumerate(items):
        array = array if item is None else array.write(index, item)
    return array


def gradient(op: str, inputs: dict[str, Any], **attrs: Any) -> Any:
    """The cotangent of X that the grad operator computes."""
    definition = ops.lookup(op).grad
    assert definition is not None
    return definition.run({slot: [value] for slot, value in inputs.items()}, attrs, ["X@GRAD"])["X@GRAD"][0]


@pytest.mark.parametrize("cotangents", [(), (None, np.ones(2)), (np.ones(2),)])
def test_what_was_written_gets_zeros_where_nothing_read_it(cotangents: Sequence[Array | None]) -> None:
    got = gradient("write_to_array", {"X": np.ones(2), "I": np.array([2]), "Out@GRAD": sparse(*cotangents)})
    np.testing.assert_array_equal(got, np.zeros(2))


@pytest.mark.parametrize("read", [(), (0,), (2,), (0, 1)])
def test_slices_that_nothing_read_get_zeros(read: Sequence[int]) -> None:
    cotangent = sparse(*[np.full(2, 1.0 + i) if i in read else None for i in range(3)])
    expected = np.array([[1.0 + i] * 2 if i in read else [0.0] * 2 for i in range(3)])
    np.testing.assert_array_equal(gradient("tensor_to_tensor_array", {"X": np.ones((3, 2)), "Out@GRAD": cotangent}), expected)
    turned = gradient("tensor_to_tensor_array", {"X": np.ones((2, 3)), "Out@GRAD": cotangent}, axis=1)
    np.testing.assert_array_equal(turned, expected.T)
