"""``fluid.io``: readers as Fluid has them, functions that return iterators over samples, and DataLoader, which makes feeds of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain as chained
from itertools import islice, zip_longest
from typing import TypeVar

from graphad.data_feeder import DataFeeder
from graphad.errors import InvalidType, InvalidValue
from graphad.execution.places import CPUPlace
from graphad.program import Variable
from graphad.types import Array

T = TypeVar("T")
Reader = Callable[[], Iterable[T]]
Feed = dict[str, Array]


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


class DataLoader:
    """Feeds from a reader: ``loader = DataLoader.from_generator([x, y])``, a ``set_...``, then ``for feed in loader()``.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()):
    ...     loader = fluid.io.DataLoader.from_generator(feed_list=[fluid.data("x", [None, 2])], capacity=4)
    >>> _ = loader.set_sample_generator(lambda: iter([([1.0, 2.0],), ([3.0, 4.0],), ([5.0, 6.0],)]), batch_size=2)
    >>> [feed["x"].tolist() for feed in loader()]
    [[[1.0, 2.0], [3.0, 4.0]]]
    """

    def __init__(self, feed_list: Sequence[Variable | str], return_list: bool = False) -> None:
        self._feeder = DataFeeder(feed_list)
        self._return_list = return_list
        self._feeds: Callable[[], Iterator[Feed]] | None = None

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

        ``capacity``, ``use_double_buffer``, ``use_multiprocess`` and ``drop_last`` (of batches for several devices) are without effect.

        Raises:
            TypeError: there is no feed_list.
            ValueError: ``iterable`` is False: a program does not read by itself here.
        """
        if feed_list is None:
            raise InvalidType("DataLoader.from_generator needs feed_list, the variables that a row has values for")
        if not iterable:
            raise InvalidValue("iterable=False is not here: write `for feed in loader(): executor.run(program, feed, fetch_list)`")
        return DataLoader(feed_list, return_list)

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
        names = [var.name for var in self._feeder.variables]

        def feeds() -> Iterator[Feed]:
            for arrays in _started(reader):
                if not isinstance(arrays, dict) and len(arrays) != len(names):
                    raise InvalidType(f"a batch has {len(arrays)} arrays for {names}")
                yield arrays if isinstance(arrays, dict) else dict(zip(names, arrays, strict=True))

        self._feeds = feeds
        return self

    def __iter__(self) -> Iterator[Feed | list[Array]]:
        if self._feeds is None:
            raise InvalidValue("the loader has no reader: call set_sample_generator, set_sample_list_generator or set_batch_generator")
        for feed in self._feeds():
            yield [feed[var.name] for var in self._feeder.variables] if self._return_list else feed

    def __call__(self) -> Iterator[Feed | list[Array]]:
        return iter(self)


def _check_places(places: object) -> None:
    for place in places if isinstance(places, list | tuple) else [places]:
        if not isinstance(place, CPUPlace | None):
            raise InvalidType(f"places are CPUPlace() or None, not {place!r}")
