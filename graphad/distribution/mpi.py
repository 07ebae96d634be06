"""Ranks that are processes of MPI: numpy's kernels, collectives by mpi4py (``pip install 'graphad[mpi]'``).

    mpiexec -n 4 python train.py            each process is a rank; in it ga.MpiExecutor() takes the place of ga.Executor()

Before each collective, and at the end of each run, the ranks of a ring compare what they are about to do: where they disagree, all say so
and end.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import TracebackType
from typing import Any
from weakref import WeakSet

import numpy as np

from graphad.contexts import binding
from graphad.distribution.group import (
    Replay,
    Rings,
    Sent,
    Traffic,
    checked_rings,
    group_of,
    keepers_of,
    kept_names,
    mesh_rings,
    put_together,
)
from graphad.distribution.local import reduced
from graphad.errors import CommunicationError, InvalidValue
from graphad.execution import Executor, Scope, global_scope
from graphad.execution.interpreter import SEED
from graphad.ops.communication import Contact, communicating
from graphad.program import Program
from graphad.types import Array

NEEDS = "MpiExecutor needs mpi4py and an MPI library: pip install 'graphad[mpi]'"
POLL = 1e-4  # seconds between looks for a message
LONGEST = 0.05
GRACE = 2.0  # seconds in which what a rank has done before it left still has to arrive
PASSED_ON = 0.2  # seconds in which a launcher reads what a rank wrote last


def mpi_module() -> Any:
    """``mpi4py.MPI``, which starts MPI when it is first imported; ImportError that says what to install."""
    try:
        return import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise ImportError(f"{NEEDS} ({error})") from error


class _Rank(Replay):
    """This process's communicator.

    Args:
        mpi: the module ``mpi4py.MPI``.
        rings: groups of ranks by number.
        timeout: how many seconds it waits for others.
    """

    def __init__(self, mpi: Any, rings: Rings | None, timeout: float) -> None:
        super().__init__()
        self.mpi = mpi
        self.timeout = timeout
        # Communicators of its own: messages of the user's program are never taken for graphad's.
        self.world = mpi.COMM_WORLD.Dup()
        self.farewells = mpi.COMM_WORLD.Dup()  # on which a rank tells the others that its process ends
        self.left: dict[int, float] = {}  # the ranks that have said so, and when that was seen
        self.number: int = self.world.Get_rank()
        self.rings: dict[int, tuple[tuple[int, ...], ...]] = {}
        self.comms = {0: self.world}
        self.add_rings(rings)
        self.traffic = Traffic()
        self.pending: list[tuple[Any, str]] = []  # what has been sent and perhaps not received
        self.operations = {"sum": mpi.SUM, "max": mpi.MAX, "min": mpi.MIN, "prod": mpi.PROD}

    def add_rings(self, rings: Rings | None) -> None:
        """Make communicators for rings that there are none of yet; all ranks do so at the same time."""
        for ring, groups in sorted(checked_rings(rings, self.world.Get_size()).items()):
            if ring not in self.rings and ring:
                # Split is a collective: every rank calls it, for every ring, in the order of the rings' numbers.
                color = next(i for i, group in enumerate(groups) if self.number in group)
                self.comms[ring] = self.world.Split(color, groups[color].index(self.number))
            self.rings.setdefault(ring, groups)

    def rank(self, ring: int) -> int:
        return group_of(self.rings, ring, self.number).index(self.number)

    def size(self, ring: int) -> int:
        return len(group_of(self.rings, ring, self.number))

    def group_rank(self, ring: int, number: int) -> int:
        """The rank that has a number in this rank's group of a ring."""
        return group_of(self.rings, ring, self.number)[number]

    def agree(self, ring: int, what: str) -> None:
        """Compare what the ranks are about to do; CommunicationError with what each is, where that differs or one does not come."""
        comm = self.comms[ring]
        # A digest is as long as any other, whatever it is of: ranks that disagree about sizes can still exchange it.
        digest = np.frombuffer(hashlib.blake2b(what.encode(), digest_size=16).digest(), np.uint8)
        all_of_them = np.empty((comm.Get_size(), 16), np.uint8)
        # Not blocking, so that it can look for ranks that have ended, and give up. At the end of the process ranks are expected to have
        # left.
        self.wait(comm.Iallgather(digest, all_of_them), what, group_of(self.rings, ring, self.number) if what != LEFT else ())
        if (all_of_them != digest).any():
            # The texts are exchanged only once they are known to differ: they are of any length.
            sides = comm.allgather(what)
            members = group_of(self.rings, ring, self.number)
            lines = [
                f"  rank {rank} {'has ended' if side in (END, LEFT) else f'is at {side}'}"
                for rank, side in zip(members, sides, strict=True)
            ]
            raise CommunicationError("\n".join(["the ranks disagree about what comes next:", *lines]))

    def settle(self) -> None:
        """Wait until all that was sent is received."""
        while self.pending:
            self.wait(*self.pending.pop(0))

    def leave(self) -> None:
        """The process ends: tell the others, and wait until theirs do. They may be waiting in a ring that this rank has no part in."""
        others = [rank for rank in range(self.world.Get_size()) if rank != self.number]
        # A rank that waits for this one learns of it by the farewell, in whichever ring it waits.
        requests = [self.farewells.isend(None, dest=rank) for rank in others]
        self.agree(0, LEFT)
        for rank in others:
            if rank not in self.left:
                self.farewells.recv(source=rank)
        for request in requests:
            request.wait()

    def wait(self, request: Any, what: str, members: Sequence[int] = ()) -> None:
        """Wait for a request, with growing pauses, since other ranks may need this processor.

        Raises:
            CommunicationError: it takes too long, or the process of a member has ended: what it did before would have come.
        """
        pause, end = POLL, time.monotonic() + self.timeout
        # Most requests are done soon: it looks at the clock, and gives way to others, only after many tries.
        for _ in range(1000):
            if request.Test():
                return
        while not request.Test():
            now = time.monotonic()
            if now > end:
                raise CommunicationError(f"rank {self.number} has waited {self.timeout:g} seconds for the others at {what}")
            self.look(now)
            # After a while only: a rank may send its last message, and leave, before that has arrived.
            silent = [rank for rank in members if self.left.get(rank, now) < now - GRACE]
            if silent:
                raise CommunicationError(f"rank {self.number} waits at {what}, but the process of rank {silent[0]} has ended")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST)

    def look(self, now: float) -> None:
        """Note which ranks have left."""
        while self.farewells.Iprobe():
            status = self.mpi.Status()
            self.farewells.recv(status=status)
            self.left[status.Get_source()] = now

    def begun(self, contact: Contact, size: int) -> Any:
        """The ring's communicator of MPI, once all ranks agree."""
        group_of(self.rings, contact.ring, self.number)
        self.agree(contact.ring, str(contact))
        self.traffic.append(Sent(contact.type, contact.ring, size))
        return self.comms[contact.ring]

    def all_reduce(self, contact: Contact, array: Array, kind: str) -> Array:
        def work() -> Array:
            comm = self.begun(contact, array.nbytes)
            if array.dtype == np.float16:  # which MPI does not have
                return reduced(_gathered(comm, array), kind)
            result = np.empty(array.shape, array.dtype)
            comm.Allreduce(np.ascontiguousarray(array), result, self.operations[kind])
            return result

        return self.done(contact, work)  # type: ignore[no-any-return]

    def all_gather(self, contact: Contact, array: Array) -> list[Array]:
        return self.done(contact, lambda: _gathered(self.begun(contact, array.nbytes), array))  # type: ignore[no-any-return]

    def reduce_scatter(self, contact: Contact, parts: Sequence[Array]) -> Array:
        def work() -> Array:
            comm = self.begun(contact, sum(part.nbytes for part in parts))
            number = comm.Get_rank()
            if parts[0].dtype == np.float16:
                return reduced([array[number] for array in _gathered(comm, np.stack(parts))], "sum")
            result = np.empty(parts[number].shape, parts[number].dtype)
            comm.Reduce_scatter_block(np.ascontiguousarray(np.stack(parts)), result, self.operations["sum"])
            return result

        return self.done(contact, work)  # type: ignore[no-any-return]

    def all_to_all(self, contact: Contact, parts: Sequence[Array]) -> list[Array]:
        def work() -> list[Array]:
            comm = self.begun(contact, sum(part.nbytes for part in parts))
            block = np.ascontiguousarray(np.stack(parts))
            result = np.empty_like(block)
            # As bytes: nothing is computed, and MPI has no float16.
            comm.Alltoall(_bytes(block), _bytes(result))
            return list(result)

        return self.done(contact, work)  # type: ignore[no-any-return]

    def broadcast(self, contact: Contact, array: Array, root: int) -> Array:
        def work() -> Array:
            result = np.array(array, order="C")
            self.begun(contact, array.nbytes).Bcast(_bytes(result), root)
            return result

        return self.done(contact, work)  # type: ignore[no-any-return]

    def send(self, contact: Contact, array: Array, peer: int) -> None:
        def work() -> None:
            self.traffic.append(Sent(contact.type, contact.ring, array.nbytes))
            block = np.array(array, order="C")
            self.pending.append((self.comms[contact.ring].isend(block, dest=peer), str(contact)))  # two that send to each other go on

        self.done(contact, work)

    def receive(self, contact: Contact, peer: int) -> Array:
        def work() -> Array:
            comm = self.comms[contact.ring]
            request = _Probe(comm, peer)
            self.wait(request, str(contact), (self.group_rank(contact.ring, peer),))
            array: Array = comm.recv(source=peer)
            self.traffic.append(Sent(contact.type, contact.ring, array.nbytes))
            return array

        return self.done(contact, work)  # type: ignore[no-any-return]

    def barrier(self, contact: Contact) -> None:
        self.done(contact, lambda: self.begun(contact, 0) and None)


class _Probe:
    """Whether a message is there, as a request."""

    def __init__(self, comm: Any, peer: int) -> None:
        self.comm = comm
        self.peer = peer

    def Test(self) -> bool:
        """As of a request of MPI."""
        return bool(self.comm.Iprobe(source=self.peer))


END, LEFT = "the end of the run", "the end of the process"


def _bytes(array: Array) -> Array:
    """The memory of an array: MPI need not know what is in it."""
    return array.reshape(-1).view(np.uint8)


def _gathered(comm: Any, array: Array) -> list[Array]:
    flat = np.ascontiguousarray(array).reshape(-1)
    result = np.empty((comm.Get_size(), flat.size), flat.dtype)
    comm.Allgather(_bytes(flat), _bytes(result))
    return [part.reshape(array.shape) for part in result]


class MpiExecutor:
    """Runs a program on the ranks of MPI: each process calls ``run`` with its part of what is fed.

    A rank that fails, or ranks that disagree, end all: the error is written to stderr with the rank, and MPI ends the processes. A rank
    that dies is seen by ``mpiexec``, which ends the others.

    Args:
        rings: groups of ranks by number, besides ring 0 of all: ``{1: [[0, 1], [2, 3]]}``.
        mode: as of ``Executor``.
        timeout: how many seconds a rank waits for the others before it gives up.

    Attributes:
        rank: this process's.
        size: how many there are.
        traffic: of the last run, the collectives that this rank took part in.

    Raises:
        ImportError: mpi4py or an MPI library is missing; the message says what to install.
        ValueError: a ring has not every rank once, or ``timeout`` is not above 0.
    """

    def __init__(self, rings: Rings | None = None, mode: str = "compiled", timeout: float = 600.0) -> None:
        if not timeout > 0:
            raise InvalidValue(f"timeout is above 0 seconds, not {timeout}")
        self._mpi = mpi_module()
        self._rank = _Rank(self._mpi, rings, timeout)
        self.rank: int = self._rank.number
        self.size: int = self._rank.size(0)
        self.executor = Executor(mode=mode)
        self._known: WeakSet[Program] = WeakSet()
        # All ranks have one seed: parameters that each of them initializes for itself are equal.
        self._seed: int = self._rank.world.bcast(int(np.random.default_rng().integers(1, 1 << 31)), root=0)
        if self.size > 1:
            sys.excepthook = _ending(self, sys.excepthook)
            atexit.register(self._leave)

    @property
    def traffic(self) -> Traffic:
        return self._rank.traffic

    def abort(self, error: BaseException) -> None:
        """Write an error of this rank to stderr, and end all ranks."""
        print(f"rank {self.rank} of {self.size} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        # Launchers pass on what ranks write; what they have not read when these are ended is lost, on a busy machine half of a traceback.
        time.sleep(PASSED_ON)
        # The others may wait in a collective, which no exception would reach.
        self._mpi.COMM_WORLD.Abort(1)

    def _leave(self) -> None:
        """The process ends: those of the other ranks have to as well."""
        try:
            self._rank.leave()
        except CommunicationError as error:
            self.abort(error)

    def run(
        self,
        program: Program | None = None,
        feed: Mapping[str, object] | None = None,
        fetch_list: object = None,
        scope: Scope | None = None,
        reinitialize: bool = False,
    ) -> list[Array]:
        """Run block 0 of a program once, on every rank; arguments, results and errors are those of ``Executor.run``.

        ``feed`` is this rank's part; ranks that draw random numbers draw the same. An error that is raised here and not caught ends all
        ranks; one that is caught leaves the others waiting, until they give up.
        """
        rank = self._rank
        if program is not None and program not in self._known:
            rank.add_rings(mesh_rings(program))
            self._known.add(program)
        rank.begin()
        rank.traffic.clear()
        with binding(SEED, SEED.get() or self._seed):
            with communicating(rank):
                results = self.executor.run(program, feed, fetch_list, scope, reinitialize)
            # No rank returns before all have come to the end and every send is complete: another may still wait for it.
            if self.size > 1:
                rank.settle()
                rank.agree(0, END)
            return results

    def whole_state(self, program: Program, scope: Scope | None = None) -> dict[str, Array]:
        """The state of all ranks as one process would have it, on every rank: a checkpoint from which any number of ranks can go on.

        Every rank calls it, after the same step.

        Args:
            program: what this rank runs: the one of all ranks, or that of its stage.
            scope: this rank's; the global scope if None.

        Raises:
            CommunicationError: another rank does something else, or does not come.
        """
        scope = global_scope() if scope is None else scope
        rank, world = self._rank, self._rank.world
        rank.agree(0, "whole_state")
        ranks = world.allgather(kept_names(program, scope))
        arrays: dict[str, Array] = {}
        for name, number in sorted(keepers_of(ranks).items()):
            # What all ranks update, or none, is equal on all: it need not be sent.
            updaters = sum(name in holder.updated for holder in ranks)
            if updaters in (0, self.size) and all(name in holder.names for holder in ranks):  # all have the same
                arrays[name] = scope.get(name).copy()
            else:
                arrays[name] = world.bcast(scope.get(name).copy() if number == self.rank else None, root=number)
        return arrays | put_together(program, scope.names(), lambda name: world.allgather(scope.get(name)))


def _ending(executor: MpiExecutor, shown: Any) -> Any:
    """Handle an uncaught error: show it, and end all ranks."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        shown(kind, error, trace)
        executor.abort(error)

    return hook


def launched_ranks() -> int:
    """How many ranks ``mpiexec`` has started, as it tells its processes; 1 if this is none of them."""
    texts = (os.environ.get(name, "") for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"))
    return next((int(text) for text in texts if text.isdigit()), 1)


__all__ = ["MpiExecutor", "launched_ranks", "mpi_module"]
