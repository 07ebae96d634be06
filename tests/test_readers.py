"""Readers that feed programs by themselves, as Fluid 1.8's scripts have them, and readers that work ahead."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad
from graphad.errors import EndOfData, InvalidType, InvalidValue, ParseError, ShapeError

fluid: Any = graphad  # calls that type checkers refuse are made on purpose
ROWS = [([1.0, 2.0], [3]), ([4.0, 5.0], [6]), ([7.0, 8.0], [9])]


def regression() -> tuple[Any, Any, Any]:
    """A program that reads by itself, its startup program and what it fetches."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        reader = fluid.layers.py_reader(4, [(-1, 2), (-1, 1)], ["float32", "int64"], name="train")
        x, label = fluid.layers.read_file(fluid.layers.double_buffer(reader))
        total = fluid.layers.reduce_sum(x) + fluid.layers.cast(fluid.layers.reduce_sum(label), "float32")
    return main, reader, total


def epoch(run: Callable[[], Any], reader: Any) -> list[float]:
    """The values that the runs of an epoch fetch, as Fluid's guide writes the loop."""
    totals: list[float] = []
    reader.start()
    try:
        while True:
            totals += map(float, run())
    except fluid.core.EOFException:
        reader.reset()
    return totals


def test_epochs_of_a_reader_in_the_program() -> None:
    main, reader, total = regression()
    reader.decorate_paddle_reader(fluid.io.batch(lambda: iter(ROWS), batch_size=2))
    executor = fluid.Executor(fluid.CPUPlace())
    for _ in range(3):
        assert epoch(lambda: executor.run(main, fetch_list=[total]), reader) == [21.0, 24.0]


def test_every_executor_reads() -> None:
    main, reader, total = regression()
    reader.decorate_tensor_provider(lambda: iter([(np.ones((3, 2), "float32"), np.array([[2]]))]))
    for executor in (fluid.Executor(mode="interpreted"), fluid.Executor(passes="cse")):
        assert epoch(lambda each=executor: each.run(main, fetch_list=[total]), reader) == [8.0]  # type: ignore[misc]
    pytest.importorskip("jax")
    executor = pytest.importorskip("graphad.jax").JaxExecutor()
    assert epoch(lambda: executor.run(main, fetch_list=[total]), reader) == [8.0]


def test_a_step_reads_once_and_trains() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 2])
        reader = fluid.layers.create_py_reader_by_data(capacity=8, feed_list=[x])
        cost = fluid.layers.mean(fluid.layers.fc(fluid.layers.read_file(reader), 1, param_attr="w", bias_attr=False))
        test = main.clone(for_test=True)
        fluid.optimizer.SGD(0.5).minimize(cost)
    taken: list[int] = []

    def batches() -> Iterator[tuple[Any]]:
        for number in range(3):
            taken.append(number)
            yield (np.full((2, 2), number, "float32"),)

    reader.decorate_batch_generator(batches)
    executor = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        fluid.global_scope().set("w", np.zeros((2, 1), "float32"))
        reader.start()
        for _ in range(2):
            executor.run(main, fetch_list=[cost])
        assert taken == [0, 1]  # nothing is read ahead, and the startup program reads nothing
        # The mean's slope is the batch's number: of batches 0 and 1.
        np.testing.assert_allclose(fluid.global_scope().get("w"), -0.5)
        # A clone takes from the same reader; what is fed is not read.
        assert executor.run(test, fetch_list=[cost]) == [-2.0]
        assert executor.run(test, {"x": np.ones((1, 2), "float32")}, [cost]) == [-1.0]
        with pytest.raises(EndOfData, match="the reader of x has no more: call reset"):
            executor.run(test, fetch_list=[cost])
        with pytest.raises(EOFError):  # until it is reset
            executor.run(test, fetch_list=[cost])


def test_a_pruned_clone_takes_nothing() -> None:
    main, reader, total = regression()
    with fluid.program_guard(main):
        constant = fluid.layers.fill_constant([1], "float32", 4.0)
    reader.decorate_paddle_reader(fluid.io.batch(lambda: iter(ROWS), 3))
    reader.start()
    assert fluid.Executor().run(main.prune([constant]), fetch_list=[constant])[0] == 4.0
    assert fluid.Executor().run(main, fetch_list=[total]) == [45.0]


def test_loaders_that_are_not_iterable() -> None:
    with fluid.program_guard(fluid.Program()) as program:
        x = fluid.data("x", [None, 2])
        total = fluid.layers.reduce_sum(x)
    loader = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=4, iterable=False)
    loader.set_sample_generator(lambda: iter([(row[0],) for row in ROWS]), batch_size=2, drop_last=False)
    executor = fluid.Executor()
    assert epoch(lambda: executor.run(program, fetch_list=[total]), loader) == [12.0, 15.0]
    reader = fluid.io.PyReader(feed_list=[x], capacity=4)
    reader.decorate_sample_generator(lambda: iter([(row[0],) for row in ROWS]), batch_size=2)
    assert [executor.run(program, feed, [total]) for feed in reader()] == [[12.0]]


def test_a_program_of_a_family_is_copied_with_its_reader() -> None:
    main, reader, total = regression()
    reader.decorate_paddle_reader(fluid.io.batch(lambda: iter(ROWS), 3))
    reader.start()
    assert fluid.Executor().run(main.clone(), fetch_list=[total.name]) == [45.0]


def test_a_pickled_program_is_fed() -> None:
    main, reader, total = regression()
    reader.decorate_paddle_reader(lambda: iter([]))
    reader.start()
    copy = pickle.loads(pickle.dumps(main))
    feed = {name: np.ones((2, width), dtype) for name, width, dtype in zip(reader.names, (2, 1), ("float32", "int64"), strict=True)}
    assert fluid.Executor().run(copy, feed, [total.name]) == [6.0]
    with pytest.raises(InvalidValue, match="is not fed"):
        fluid.Executor().run(copy)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r: r.start(), InvalidValue, "has no reader"),
        (lambda r: (r.decorate_batch_generator(lambda: []), r.start(), r.start()), InvalidValue, "is started already"),
        (lambda r: fluid.Executor().run(r.variables[0].block.program), InvalidValue, "its reader is not started: call reader.start"),
        (lambda r: list(r()), InvalidValue, "call start"),
        (lambda r: r.next_feed(), InvalidValue, "is not started"),
        (lambda r: fluid.io.PyReader([r.variables[0]]).start(), InvalidValue, "iterable=False"),
        (lambda r: fluid.io.PyReader(), InvalidType, "needs feed_list"),
        (lambda r: fluid.layers.read_file("x"), InvalidType, "what layers.py_reader gives"),
        (lambda r: fluid.layers.py_reader(2, [[-1]], ["int64", "int64"]), InvalidValue, "there are 1 shapes"),
        (lambda r: fluid.layers.py_reader(2, [[-1]], ["int64"], lod_levels=[1]), InvalidValue, "padded"),
        (lambda r: fluid.layers.create_py_reader_by_data(2, "x"), InvalidType, "a list of variables"),
    ],
)
def test_refused(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    _, reader, _ = regression()
    with fluid.program_guard(fluid.Program()), pytest.raises(error, match=message):
        call(reader)


# -- readers that work ahead -----------------------------------------------------------------------


def test_samples_are_read_ahead_in_order() -> None:
    taken: list[int] = []
    more = threading.Event()

    def samples() -> Iterator[int]:
        for number in range(6):
            taken.append(number)
            if number == 3:
                more.set()
            yield number

    ahead = iter(fluid.io.buffered(samples, 3)())
    assert next(ahead) == 0
    assert more.wait(20)  # 1 to 3 are read although they have not been requested
    assert list(ahead) == [1, 2, 3, 4, 5]
    assert taken == list(range(6))


def test_what_a_reader_raises_is_raised() -> None:
    def samples() -> Iterator[int]:
        yield 1
        raise OSError("no disk")

    readers: list[Any] = [fluid.io.buffered(samples, 2), fluid.io.xmap_readers(abs, samples, 2, 2)]
    for reader in readers:
        with pytest.raises(OSError, match="no disk"):
            list(reader())
    assert list(fluid.io.xmap_readers(lambda n: n * n, lambda: range(50), 4, 8, order=True)()) == [n * n for n in range(50)]
    with pytest.raises(InvalidValue, match="size is an integer of 1 or more"):
        fluid.io.buffered(samples, 0)
    with pytest.raises(InvalidValue, match="buffer_size is an integer of 1 or more"):
        fluid.io.xmap_readers(abs, samples, 1, 0)


# -- files -----------------------------------------------------------------------------------------


def test_a_layer_reads_a_file(tmp_path: Path) -> None:
    with fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program()) as program:
        w = fluid.layers.create_global_var([2, 2], 0.0, "float32", persistable=True, name="w")
        array = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
        fluid.global_scope().set("w", array)
        fluid.io.save_vars(fluid.Executor(), tmp_path, program, vars=[w])
        copy = fluid.layers.load(fluid.layers.create_tensor("float32"), file_path=tmp_path / "w")
        narrow = fluid.layers.load(fluid.layers.create_tensor("float16"), str(tmp_path / "w"), True)
        found = fluid.Executor().run(program, fetch_list=[copy, narrow])
        for each, dtype in zip(found, ("float32", "float16"), strict=True):
            assert each.dtype == dtype
            np.testing.assert_array_equal(each, array)
        with pytest.raises(ShapeError):
            fluid.layers.load(fluid.layers.fill_constant([3], "float32", 0.0), tmp_path / "w")
        with pytest.raises(InvalidType, match="path of a file"):
            fluid.layers.load(copy, 3)
        with pytest.raises(FileNotFoundError):
            fluid.layers.load(copy, tmp_path / "nothing")
        (tmp_path / "text").write_text("no tensor")
        with pytest.raises(ParseError, match="text: byte"):
            fluid.layers.load(copy, tmp_path / "text")
