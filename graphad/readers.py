"""Readers, DataFeeder and DataLoader: they turn samples into feeds of a program.

A reader is a function that returns an iterator over samples; ``batch``, ``shuffle`` and others make readers of readers.
``DataFeeder`` stacks the samples of a batch into arrays, and ``DataLoader`` does both, ahead of the run.
Users find them as ``ga.io`` and ``ga.DataFeeder``.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain as chained
from itertools import islice, zip_longest
from typing import Any, TypeVar

import numpy as np

from graphad.errors import EndOfData, InvalidType, InvalidValue
from graphad.places import CPUPlace
from graphad.program import Program, Variable, default_main_program
from graphad.types import Array

S = TypeVar("S")
T = TypeVar("T")
Reader = Callable[[], Iterable[T]]
Feed = dict[str, Array]
_END: Any = object()  # after the last sample of a reader


def batch(reader: Reader[T], batch_size: int, drop_last: bool = False) -> Reader[list[T]]:
    """A reader of lists of ``batch_size`` samples; ``drop_last`` leaves out a last one that is shorter.

    >>> list(batch(lambda: range(5), batch_size=2)())
    [[0, 1], [2, 3], [4]]
    """
    if not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidValue(f"batch_size is an integer of 1 or more, not {batch_size!r}")

    def batched() -> Iterator[list[T]]:
        samples = iter(_started(reader))
        while rows := list(islice(samples, batch_size)):
            if len(rows) == batch_size or not drop_last:
                yield rows

    return batched


def shuffle(reader: Reader[T], buf_size: int) -> Reader[T]:
    """A reader of the same samples, shuffled among ``buf_size`` at a time by Python's ``random``."""

    def shuffled() -> Iterator[T]:
        for rows in batch(reader, buf_size)():
            random.shuffle(rows)
            yield from rows

    return shuffled


def cache(reader: Reader[T]) -> Reader[T]:
    """A reader that keeps in memory what it has read the first time."""
    samples: list[T] = []
    complete = False

    def cached() -> Iterator[T]:
        nonlocal samples, complete
        if not complete:
            # It is read to its end at once: of a reader that fails half-way nothing is kept.
            samples, complete = list(_started(reader)), True
        yield from samples

    return cached


def chain(*readers: Reader[T]) -> Reader[T]:
    """A reader of the samples of each reader, one reader after the other."""
    return lambda: chained.from_iterable(map(_started, readers))


def compose(*readers: Reader[object], check_alignment: bool = True) -> Reader[tuple[object, ...]]:
    """A reader of samples of which each has what all readers have: ``(1, 2)`` and ``3`` become ``(1, 2, 3)``.

    Raises:
        ValueError: while reading: a reader ends before another, and ``check_alignment`` is set.

    >>> list(compose(lambda: [(1, 2), (3, 4)], lambda: [5, 6])())
    [(1, 2, 5), (3, 4, 6)]
    """
    # An object of our own, since None may be a sample.
    missing = object()

    def composed() -> Iterator[tuple[object, ...]]:
        for number, parts in enumerate(zip_longest(*map(_started, readers), fillvalue=missing)):
            ended = [i for i, part in enumerate(parts) if part is missing]
            if ended and check_alignment:
                raise InvalidValue(f"readers {ended} end after {number} samples, others go on: check_alignment=False stops there")
            if ended:
                return
            yield tuple(chained.from_iterable(part if isinstance(part, tuple) else (part,) for part in parts))

    return composed


def firstn(reader: Reader[T], n: int) -> Reader[T]:
    """A reader of the first ``n`` samples."""
    return lambda: islice(_started(reader), n)


def map_readers(func: Callable[..., T], *readers: Reader[object]) -> Reader[T]:
    """A reader of what ``func`` makes of a sample of each reader."""
    return lambda: map(func, *map(_started, readers))


def _started(reader: Reader[T]) -> Iterable[T]:
    if not callable(reader):
        raise InvalidType(f"a reader is a function that returns an iterator, not {reader!r}: write lambda: samples")
    return reader()


def buffered(reader: Reader[T], size: int) -> Reader[T]:
    """A reader of the same samples, of which a thread reads up to ``size`` ahead. What the reader raises is raised where it is read.

    >>> list(buffered(lambda: range(4), size=2)())
    [0, 1, 2, 3]
    """
    if not isinstance(size, int) or size < 1:
        raise InvalidValue(f"size is an integer of 1 or more, not {size!r}")

    def ahead() -> Iterator[T]:
        # One thread, which takes samples in turn, so that their order stays.
        with _threads(1) as thread:
            samples = iter(_started(reader))
            waiting = deque(thread.submit(next, samples, _END) for _ in range(size))
            while (sample := waiting.popleft().result()) is not _END:
                waiting.append(thread.submit(next, samples, _END))
                yield sample

    return ahead


def xmap_readers(mapper: Callable[[S], T], reader: Reader[S], process_num: int, buffer_size: int, order: bool = False) -> Reader[T]:
    """A reader of what ``mapper`` makes of each sample, on ``process_num`` threads, up to ``buffer_size`` samples ahead.

    The order is that of the samples, which ``order=True`` asks for and Fluid otherwise leaves open.

    >>> list(xmap_readers(lambda sample: sample * 10, lambda: range(4), process_num=2, buffer_size=3)())
    [0, 10, 20, 30]
    """
    for name, count in (("process_num", process_num), ("buffer_size", buffer_size)):
        if not isinstance(count, int) or count < 1:
            raise InvalidValue(f"{name} is an integer of 1 or more, not {count!r}")

    def mapped() -> Iterator[T]:
        with _threads(process_num) as threads:
            samples = iter(_started(reader))
            waiting = deque(threads.submit(mapper, sample) for sample in islice(samples, buffer_size))
            while waiting:
                result = waiting.popleft().result()
                waiting.extend(threads.submit(mapper, sample) for sample in islice(samples, 1))
                yield result

    return mapped


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that drop what is still waiting when the block ends: a reader may be left before its end."""
    threads = ThreadPoolExecutor(count)
    try:
        yield threads
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


# -- loaders ---------------------------------------------------------------------------------------


class DataFeeder:
    """Rows of a reader as what ``Executor.run`` is fed.

    Args:
        feed_list: the variables that a row has values for, themselves or by name.
        place: the CPU, or None.
        program: whose variables the names are; the default main program if None.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()):
    ...     feeder = fluid.DataFeeder([fluid.data("x", [None, 2]), fluid.data("label", [None, 1], "int64")])
    >>> feeder.feed([([1.0, 2.0], 0), ([3.0, 4.0], 1)])["label"].tolist()
    [[0], [1]]
    """

    def __init__(self, feed_list: Sequence[Variable | str], place: CPUPlace | None = None, program: Program | None = None) -> None:
        block = (default_main_program() if program is None else program).global_block()
        self.variables = [item if isinstance(item, Variable) else block.var(item) for item in feed_list]

    def feed(self, rows: Iterable[Sequence[object]]) -> dict[str, Array]:
        """The values of each variable in all rows, stacked; a row's value takes the variable's shape without the batch.

        Raises:
            TypeError: a row does not have as many values as there are variables.
        """
        batch = [tuple(row) for row in rows]
        for number, row in enumerate(batch):
            if len(row) != len(self.variables):
                raise InvalidType(f"row {number} has {len(row)} values for {[var.name for var in self.variables]}")
        return {var.name: _stacked(var, [row[i] for row in batch]) for i, var in enumerate(self.variables)}


def _stacked(var: Variable, values: list[object]) -> Array:
    array = np.array(values, dtype=var.dtype)
    row_shape = tuple(var.shape[1:])
    # A row may be flat, as Fluid's readers give images: it takes the variable's shape if it has as many elements.
    has_shape = -1 not in row_shape and array.size == len(values) * int(np.prod(row_shape))
    return array.reshape(len(values), *row_shape) if has_shape else array


class DataLoader:
    """Feeds from a reader: ``loader = DataLoader.from_generator([x, y])``, a ``set_...``, then ``for feed in loader()``.

    With ``iterable=False`` the programs that declare its variables take them from it by themselves: after ``start()`` each run takes
    the next, and ``EndOfData`` (``fluid.core.EOFException``) says that there are no more; ``reset()`` ends that.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()):
    ...     loader = fluid.io.DataLoader.from_generator(feed_list=[fluid.data("x", [None, 2])], capacity=4)
    >>> _ = loader.set_sample_generator(lambda: iter([([1.0, 2.0],), ([3.0, 4.0],), ([5.0, 6.0],)]), batch_size=2)
    >>> [feed["x"].tolist() for feed in loader()]
    [[[1.0, 2.0], [3.0, 4.0]]]
    """

    def __init__(self, feed_list: Sequence[Variable | str], return_list: bool = False, iterable: bool = True) -> None:
        self._feeder = DataFeeder(feed_list)
        self._return_list = return_list
        self._feeds: Callable[[], Iterator[Feed]] | None = None
        self._current: Iterator[Feed] | None = None
        self.iterable = iterable
        self.variables = self._feeder.variables
        self.names = [var.name for var in self.variables]
        if not iterable:
            for family in {id(var.block.program): var.block.program.identity.family for var in self.variables}.values():
                family.readers.append(self)

    @staticmethod
    def from_generator(
        feed_list: Sequence[Variable | str] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> DataLoader:
        """A loader of feeds for the variables of ``feed_list``; of lists of arrays with ``return_list``.

        With ``iterable=False`` programs read by themselves. ``capacity``, ``use_double_buffer``, ``use_multiprocess`` and ``drop_last``
        (of batches for several devices) are without effect: a batch is read when it is wanted (``fluid.io.buffered`` reads ahead).

        Raises:
            TypeError: there is no feed_list.
        """
        if feed_list is None:
            raise InvalidType("DataLoader.from_generator needs feed_list, the variables that a row has values for")
        return DataLoader(feed_list, return_list, iterable)

    def set_sample_generator(
        self, reader: Reader[Sequence[object]], batch_size: int, drop_last: bool = True, places: object = None
    ) -> DataLoader:
        """Feeds of ``batch_size`` samples of a reader; a sample has a value for each variable."""
        return self.set_sample_list_generator(batch(reader, batch_size, drop_last), places)

    def set_sample_list_generator(self, reader: Reader[list[Sequence[object]]], places: object = None) -> DataLoader:
        """Feeds of the lists of samples of a reader, such as ``batch`` gives."""
        _check_places(places)
        self._feeds = lambda: map(self._feeder.feed, _started(reader))
        return self

    def set_batch_generator(self, reader: Reader[Sequence[Array] | Feed], places: object = None) -> DataLoader:
        """Feeds of whole batches: an array for each variable, or a dict of them by name."""
        _check_places(places)
        names = self.names

        def feeds() -> Iterator[Feed]:
            for arrays in _started(reader):
                if not isinstance(arrays, dict) and len(arrays) != len(names):
                    raise InvalidType(f"a batch has {len(arrays)} arrays for {names}")
                yield arrays if isinstance(arrays, dict) else dict(zip(names, arrays, strict=True))

        self._feeds = feeds
        return self

    # -- read by loops

    def __iter__(self) -> Iterator[Feed | list[Array]]:
        if not self.iterable:
            raise InvalidValue("this loader feeds programs by itself (iterable=False): call start(), run until EndOfData, then reset()")
        for feed in self._given()():
            yield [feed[name] for name in self.names] if self._return_list else feed

    def __call__(self) -> Iterator[Feed | list[Array]]:
        return iter(self)

    # -- read by runs

    @property
    def started(self) -> bool:
        """Whether runs take their values from here."""
        return self._current is not None

    def start(self) -> None:
        """From now on runs take their values from here, the reader's first ones first.

        Raises:
            ValueError: it has no reader; it is iterable; it was started before, and neither ended nor was reset.
        """
        if self.iterable:
            raise InvalidValue(
                "start: this loader is read by a loop, `for feed in loader()`; with iterable=False programs read by themselves"
            )
        if self.started:
            raise InvalidValue("start: the reader is started already; call reset() first")
        self._current = self._given()()

    def reset(self) -> None:
        """Runs take nothing from here any more; after ``start()`` the reader begins again."""
        self._current = None

    def next_feed(self) -> Feed:
        """The next values by name; EndOfData if there are no more, until ``reset()``."""
        if self._current is None:
            raise InvalidValue(f"the reader of {', '.join(self.names)} is not started: call start()")
        feed = next(self._current, None)
        if feed is None:
            raise EndOfData(f"the reader of {', '.join(self.names)} has no more: call reset(), then start() to begin again")
        return feed

    def _given(self) -> Callable[[], Iterator[Feed]]:
        if self._feeds is None:
            raise InvalidValue("the loader has no reader: call set_sample_generator, set_sample_list_generator or set_batch_generator")
        return self._feeds


class PyReader(DataLoader):
    """``DataLoader`` under Fluid's older names: ``decorate_sample_generator`` and others say what it reads.

    >>> import numpy as np
    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()) as program:
    ...     x = fluid.data("x", [None, 2])
    ...     total = fluid.layers.reduce_sum(x)
    ...     reader = fluid.io.PyReader(feed_list=[x], capacity=4, iterable=False)
    >>> reader.decorate_batch_generator(lambda: iter([[np.ones((3, 2), "float32")], [np.ones((1, 2), "float32")]]))
    >>> executor, totals = fluid.Executor(), []
    >>> reader.start()
    >>> try:
    ...     while True:
    ...         totals += executor.run(program, fetch_list=[total])
    ... except fluid.core.EOFException:
    ...     reader.reset()
    >>> [float(each) for each in totals]
    [6.0, 2.0]
    """

    def __init__(
        self,
        feed_list: Sequence[Variable | str] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ) -> None:
        if feed_list is None:
            raise InvalidType("PyReader needs feed_list, the variables that a row has values for")
        super().__init__(feed_list, return_list, iterable)

    def decorate_sample_generator(
        self, sample_generator: Reader[Sequence[object]], batch_size: int, drop_last: bool = True, places: object = None
    ) -> None:
        """``set_sample_generator``."""
        self.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader: Reader[list[Sequence[object]]], places: object = None) -> None:
        """``set_sample_list_generator``."""
        self.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader: Reader[Sequence[Array] | Feed], places: object = None) -> None:
        """``set_batch_generator``."""
        self.set_batch_generator(reader, places)

    # Fluid 1.5 and before.
    decorate_paddle_reader, decorate_tensor_provider = decorate_sample_list_generator, decorate_batch_generator


def _check_places(places: object) -> None:
    for place in places if isinstance(places, list | tuple) else [places]:
        if not isinstance(place, CPUPlace | None):
            raise InvalidType(f"places are CPUPlace() or None, not {place!r}")
