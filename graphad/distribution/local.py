"""Ranks simulated in one process: deterministic, so that it is the oracle of the engines that are not.

One rank runs at a time. At a collective it waits, and the next one goes on; once all ranks of the ring are there, each gets its result,
reduced in the order of the ranks. So a run is the same every time, and ranks that would wait for each other forever are found at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial, reduce
from queue import SimpleQueue
from threading import Lock, Thread
from time import sleep
from typing import Any
from weakref import WeakSet

import numpy as np

from graphad.distribution.group import Replay, Rings, Sent, Traffic, checked_rings, copied, group_of, mesh_rings
from graphad.errors import CommunicationError, GraphadError, InvalidValue
from graphad.execution import Executor, Scope
from graphad.execution.interpreter import SEED
from graphad.ops.communication import REDUCTIONS, Contact, communicating
from graphad.program import Program
from graphad.types import Array


class Abandoned(CommunicationError):
    """A rank cannot go on since another one has failed: what the caller gets is the other one's error."""


@dataclass
class _Meeting:
    """One collective of a ring that some ranks have come to."""

    contacts: dict[int, Contact] = field(default_factory=dict)
    brought: dict[int, Any] = field(default_factory=dict)


class _Baton:
    """The turn to run: one rank at a time has it, and the next one in order gets it when that one waits or ends."""

    def __init__(self, size: int) -> None:
        # A lock for each rank, which is free when its turn comes. Only the rank that has the turn looks at the rest or changes it.
        self.turns = [Lock() for _ in range(size)]
        for turn in self.turns[1:]:
            turn.acquire()
        self.holder = 0
        self.waits: dict[int, Callable[[], bool]] = {}  # what a rank waits for
        self.at: dict[int, Contact] = {}
        self.ended: set[int] = set()
        self.failed: int | None = None
        self.stuck = ""
        self.size = size

    def take(self, rank: int) -> None:
        """Wait for the rank's turn."""
        try:
            self.turns[rank].acquire()
        except BaseException:  # the caller's thread was interrupted: the others end before it goes on
            self.failed = rank
            while self.holder != rank:
                with suppress(KeyboardInterrupt):  # a second one: two ranks must not run at once
                    sleep(0.001)
            raise

    def wait(self, rank: int, contact: Contact, until: Callable[[], bool]) -> None:
        """Let others run until something holds; an error if it never will, or another rank failed."""
        self.waits[rank], self.at[rank] = until, contact
        # One rank runs at a time, and who waits passes on to another that can go on: so a run is the same each time.
        self._pass_on(rank)
        self.take(rank)
        self.waits.pop(rank, None)
        if self.failed is not None:
            raise Abandoned(f"rank {self.failed} failed while rank {rank} was at {contact}")
        if self.stuck:
            raise CommunicationError(self.stuck)
        self.at.pop(rank, None)

    def end(self, rank: int, failed: bool) -> None:
        """A rank is done."""
        self.ended.add(rank)
        if failed and self.failed is None and not self.stuck:
            self.failed = rank
        self._pass_on(rank)

    def _pass_on(self, rank: int) -> None:
        # Round robin from the rank that stops: who runs next depends on the programs alone, never on the machine's threads.
        order = [(rank + 1 + i) % self.size for i in range(self.size)]
        running_ranks = [peer for peer in order if peer not in self.ended]
        over = self.failed is not None or bool(self.stuck)
        able = [peer for peer in running_ranks if over or peer not in self.waits or self.waits[peer]()]
        if not able and running_ranks:
            self.stuck, able = self._why_stuck(), sorted(running_ranks)
        if able:
            self.holder = able[0]
            self.turns[self.holder].release()

    def _why_stuck(self) -> str:
        lines = [f"  rank {rank} {self._where(rank)}" for rank in range(self.size)]
        return "\n".join(["the ranks wait for each other and none can go on:", *lines])

    def _where(self, rank: int) -> str:
        return "has ended" if rank in self.ended else f"waits at {self.at[rank]}"


class _Rank(Replay):
    """One rank's communicator."""

    def __init__(self, group: LocalGroup, number: int, baton: _Baton, meetings: _Meetings) -> None:
        super().__init__()
        self.group = group
        self.number = number
        self.baton = baton
        self.meetings = meetings
        self.traffic = Traffic()

    def members(self, ring: int) -> tuple[int, ...]:
        return group_of(self.group.rings, ring, self.number)

    def rank(self, ring: int) -> int:
        return self.members(ring).index(self.number)

    def size(self, ring: int) -> int:
        return len(self.members(ring))

    def met(self, contact: Contact, brought: Any, size: int) -> list[Any]:
        """The contributions of all ranks of the ring to their next collective, in order."""
        self.traffic.append(Sent(contact.type, contact.ring, size))
        members = self.members(contact.ring)
        contribution = copied(brought)  # this rank may use the memory again before the others run
        meeting = self.meetings.join(self.number, members, contact, contribution)
        if len(meeting.contacts) < len(members):
            self.wait_for(meeting, contact, len(members))
        if len(set(meeting.contacts.values())) > 1:
            sides = [f"  rank {rank} is at {meeting.contacts[rank]}" for rank in members]
            raise CommunicationError("\n".join(["the ranks disagree about what comes next:", *sides]))
        return [meeting.brought[rank] for rank in members]

    def wait_for(self, meeting: _Meeting, contact: Contact, count: int) -> None:
        """Wait until all are there; that they then disagree is this rank's error as well."""
        try:
            self.baton.wait(self.number, contact, lambda: len(meeting.contacts) == count)
        except Abandoned:
            # All have come, and they disagree: that is said, rather than that another rank has failed by saying it first.
            if len(meeting.contacts) < count or len(set(meeting.contacts.values())) == 1:
                raise

    def all_reduce(self, contact: Contact, array: Array, kind: str) -> Array:
        return self.done(contact, lambda: reduced(self.met(contact, array, array.nbytes), kind))  # type: ignore[no-any-return]

    def all_gather(self, contact: Contact, array: Array) -> list[Array]:
        return self.done(contact, lambda: self.met(contact, array, array.nbytes))  # type: ignore[no-any-return]

    def reduce_scatter(self, contact: Contact, parts: Sequence[Array]) -> Array:
        number, size = self.rank(contact.ring), sum(part.nbytes for part in parts)
        return self.done(contact, lambda: reduced([parts_of_rank[number] for parts_of_rank in self.met(contact, parts, size)], "sum"))  # type: ignore[no-any-return]

    def all_to_all(self, contact: Contact, parts: Sequence[Array]) -> list[Array]:
        number, size = self.rank(contact.ring), sum(part.nbytes for part in parts)
        return self.done(contact, lambda: [parts_of_rank[number] for parts_of_rank in self.met(contact, parts, size)])  # type: ignore[no-any-return]

    def broadcast(self, contact: Contact, array: Array, root: int) -> Array:
        return self.done(contact, lambda: self.met(contact, array, array.nbytes)[root])  # type: ignore[no-any-return]

    def send(self, contact: Contact, array: Array, peer: int) -> None:
        def work() -> None:
            self.traffic.append(Sent(contact.type, contact.ring, array.nbytes))
            self.meetings.box(contact.ring, self.number, self.members(contact.ring)[peer]).append(array.copy())

        self.done(contact, work)

    def receive(self, contact: Contact, peer: int) -> Array:
        box = self.meetings.box(contact.ring, self.members(contact.ring)[peer], self.number)

        def work() -> Array:
            if not box:
                self.baton.wait(self.number, contact, lambda: bool(box))
            array: Array = box.pop(0)
            self.traffic.append(Sent(contact.type, contact.ring, array.nbytes))
            return array

        return self.done(contact, work)  # type: ignore[no-any-return]

    def barrier(self, contact: Contact) -> None:
        self.done(contact, lambda: self.met(contact, None, 0) and None)


class _Meetings:
    """The collectives that not all ranks have left, and what has been sent and not received; one rank runs at a time."""

    def __init__(self) -> None:
        self.count: dict[tuple[int, int], int] = {}  # how many collectives a rank has come to, by ring and rank
        self.open: dict[tuple[int, tuple[int, ...], int], _Meeting] = {}
        self.boxes: dict[tuple[int, int, int], list[Array]] = {}

    def join(self, rank: int, members: tuple[int, ...], contact: Contact, brought: Any) -> _Meeting:
        """The ring's collective that has the number of the rank's next one."""
        # The n-th collective of a ring on one rank meets the n-th on the others, as in MPI: order says what belongs together, not names.
        number = self.count[(contact.ring, rank)] = self.count.get((contact.ring, rank), 0) + 1
        meeting = self.open.setdefault((contact.ring, members, number), _Meeting())
        meeting.contacts[rank], meeting.brought[rank] = contact, brought
        if len(meeting.contacts) == len(members):
            # The last one to come closes it; those that wait hold the meeting itself.
            del self.open[(contact.ring, members, number)]
        return meeting

    def box(self, ring: int, sender: int, receiver: int) -> list[Array]:
        """The messages that one rank has sent to another, and that are not received yet."""
        return self.boxes.setdefault((ring, sender, receiver), [])


def reduced(arrays: Sequence[Array], kind: str) -> Array:
    """Arrays reduced in their order: the sum of 0, 1, 2 is (0 + 1) + 2."""
    return np.asarray(reduce(REDUCTIONS[kind], arrays[1:], arrays[0].copy()))


class LocalGroup:
    """Runs a program on ranks that are simulated in this process, each with a scope of its own.

    Args:
        size: how many ranks.
        rings: groups of ranks by number, besides ring 0 of all: ``{1: [[0, 1], [2, 3]]}``.
        mode: as of ``Executor``: ``"compiled"`` or ``"interpreted"``.

    Attributes:
        scopes: each rank's.
        traffic: of the last run, the collectives that each rank took part in.

    Raises:
        ValueError: there is no rank, or a ring has not every rank once.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2], dtype="float64")
    ...     y = program.global_block().create_var(name="y", shape=[-1, 2], dtype="float64")
    ...     op = program.global_block().append_op(type="c_allreduce_sum", inputs={"X": [x]}, outputs={"Out": [y]})
    >>> group = LocalGroup(2)
    >>> group.run(program, feeds=[{"x": [[1.0, 2.0]]}, {"x": [[10.0, 20.0]]}], fetch_list=[y])
    [[array([[11., 22.]])], [array([[11., 22.]])]]
    >>> group.traffic[0].bytes()
    {'c_allreduce_sum': 16}
    """

    def __init__(self, size: int, rings: Rings | None = None, mode: str = "compiled") -> None:
        if size < 1:
            raise InvalidValue(f"a group has 1 rank at least, not {size}")
        self.size = size
        self.rings = checked_rings(rings, size)
        self.scopes = [Scope() for _ in range(size)]
        self.executors = [Executor(mode=mode) for _ in range(size)]
        self.traffic: list[Traffic] = [Traffic() for _ in range(size)]
        self._seeds = np.random.default_rng()
        self._known: WeakSet[Program] = WeakSet()

    def run(
        self,
        programs: Program | Sequence[Program],
        feeds: Sequence[Mapping[str, object]] | None = None,
        fetch_list: Any = None,
        reinitialize: bool = False,
    ) -> list[list[Array]]:
        """Run block 0 of a program once on every rank.

        Args:
            programs: one for all ranks, or one for each.
            feeds: what each rank is fed; ``graphad.distribution.split_feed`` cuts a batch.
            fetch_list: variables or names, one list for all ranks; where there are several programs, a list of such lists will do.
            reinitialize: as of ``Executor.run``.

        Returns:
            For each rank the fetched arrays. Ranks that draw random numbers draw the same.

        Raises:
            ExecutionError: an operator failed on a rank: all are ended. Where ranks disagree about the next collective, or wait for each
                other, the message shows every rank's side. The scopes are then as they were before the run.
            ValueError: as of ``Executor.run``; or there are not as many feeds or programs as ranks.
        """
        program_list = [programs] * self.size if isinstance(programs, Program) else list(programs)
        feed_list = [{}] * self.size if feeds is None else list(feeds)
        for label, items in (("programs", program_list), ("feeds", feed_list)):
            if len(items) != self.size:
                raise InvalidValue(f"{label} are {len(items)}, for {self.size} ranks")
        for program in dict.fromkeys(program_list):
            rings = mesh_rings(program) if program not in self._known else {}
            # A program's rings are read off once; the set does not keep the program alive.
            self._known.add(program)
            self.rings = {**checked_rings(rings, self.size), **self.rings}
        fetch_lists = _fetch_lists(fetch_list, self.size, isinstance(programs, Program))
        return _Run(self, program_list, feed_list, fetch_lists, reinitialize).results()


def _fetch_lists(fetch_list: Any, size: int, of_one_program: bool) -> list[Any]:
    is_per_rank = (
        isinstance(fetch_list, list | tuple) and len(fetch_list) == size and all(isinstance(names, list | tuple) for names in fetch_list)
    )
    return list(fetch_list) if is_per_rank and not of_one_program else [fetch_list] * size


# -- threads ---------------------------------------------------------------------------------------

Work = Callable[[], object]
_IDLE: list[SimpleQueue[tuple[Work, Lock]]] = []  # where threads that have nothing to do wait for work
if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_IDLE.clear)  # in the child there are no such threads


def _begun(work: Work) -> Lock:
    """Let another thread do some work; the lock is free when that is done.

    Threads are kept: a new one costs as much time as a small program takes to run.
    """
    done = Lock()
    done.acquire()
    try:
        queue = _IDLE.pop()
    except IndexError:
        queue = SimpleQueue()
        Thread(target=_work_on, args=(queue,), daemon=True).start()
    queue.put((work, done))
    return done


def _work_on(queue: SimpleQueue[tuple[Work, Lock]]) -> None:
    while True:
        work, done = queue.get()
        work()
        del work  # it holds on to the programs and arrays of the run
        _IDLE.append(queue)
        done.release()


# -- a run -----------------------------------------------------------------------------------------


class _Run:
    """One run of a group: rank 0 in the caller's thread, and a thread for each other rank."""

    def __init__(
        self, group: LocalGroup, programs: Sequence[Program], feeds: Sequence[Mapping[str, object]], fetched: list[Any], anew: bool
    ) -> None:
        self.group, self.programs, self.feeds, self.fetched, self.anew = group, programs, feeds, fetched, anew
        self.baton = _Baton(group.size)
        meetings = _Meetings()
        self.ranks = [_Rank(group, number, self.baton, meetings) for number in range(group.size)]
        self.seed = SEED.get() or int(group._seeds.integers(1, 1 << 31))
        self.found: list[list[Array] | None] = [None] * group.size
        self.errors: dict[int, BaseException] = {}

    def results(self) -> list[list[Array]]:
        # All ranks or none: after an error every scope is as it was before the run.
        before = [(dict(scope.arrays), scope.runs) for scope in self.group.scopes]
        first, *others = self.ranks
        # A thread has a context of its own: settings and seeds of the caller are copied for it.
        ends = [_begun(partial(copy_context().run, self.work, rank)) for rank in others]
        copy_context().run(self.work, first)
        self.wait_for(ends)
        self.group.traffic = [rank.traffic for rank in self.ranks]
        if self.errors:
            for scope, (arrays, runs) in zip(self.group.scopes, before, strict=True):
                scope.arrays, scope.runs = arrays, runs
            raise self.error()
        return [arrays for arrays in self.found if arrays is not None]

    def wait_for(self, ends: list[Lock]) -> None:
        """Wait until the other ranks have ended; when that is interrupted, until they are at their next collective."""
        try:
            for end in ends:
                with end:
                    pass
        except BaseException as error:
            self.errors[0], self.baton.failed = error, 0
            self.wait_for(ends)

    def work(self, rank: _Rank) -> None:
        """One rank, in a context of its own, which ends with it: nothing has to be set back."""
        number = rank.number
        try:
            self.baton.take(number)
            SEED.set(self.seed)
            with communicating(rank):
                executor, scope = self.group.executors[number], self.group.scopes[number]
                self.found[number] = executor.run(self.programs[number], self.feeds[number], self.fetched[number], scope, self.anew)
        except BaseException as error:  # an interruption as well: the caller gets it when all ranks have ended
            self.errors[number] = error
        finally:
            self.baton.end(number, failed=number in self.errors)

    def error(self) -> BaseException:
        """The error of the rank that failed first; where the ranks disagree, with the lines of all."""
        first = self.baton.failed
        # Ranks that only waited for one that failed say nothing new.
        causes = {rank: e for rank, e in self.errors.items() if not isinstance(e.__cause__, Abandoned) and not isinstance(e, Abandoned)}
        # Where ranks are stuck none has failed first: the lowest one says it.
        number = first if first in causes else min(causes)
        error = causes[number]
        if isinstance(error, GraphadError):
            lines = [f"on rank {rank}: {other_error}" for rank, other_error in causes.items() if rank != number]
            located = type(error)("\n".join([f"on rank {number}: {error}", *lines]))
            located.__cause__ = error  # what the rank raised, with its own cause and its traceback
            return located
        error.add_note(f"on rank {number}")
        return error


__all__ = ["LocalGroup", "reduced"]
