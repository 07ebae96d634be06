"""The group of processes that a program runs in, as the kernels of collectives see it; of one process unless an engine says otherwise.

``graphad.distribution`` has the engines: simulated ranks in one process, and MPI. A ring is a group within the group, by its number, as
in Paddle; ring 0 is all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import NamedTuple, Protocol

import numpy as np

from graphad.contexts import binding
from graphad.errors import CommunicationError, InvalidValue
from graphad.types import Array

REDUCTIONS: Mapping[str, np.ufunc] = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}


class Contact(NamedTuple):
    """One collective as a rank takes part in it: what all ranks of the ring have to agree on."""

    type: str
    ring: int
    shape: tuple[int, ...]
    dtype: str
    detail: str = ""

    def __str__(self) -> str:
        detail = f", {self.detail}" if self.detail else ""
        return f"{self.type}({self.dtype}[{', '.join(map(str, self.shape))}], ring {self.ring}{detail})"


class Communicator(Protocol):
    """One rank's way to the others. Arrays that are passed in are only read, those returned are the caller's own.

    ``CommunicationError`` is raised where ranks disagree, or one of them has failed.
    """

    def rank(self, ring: int) -> int:
        """The rank's number within a ring."""

    def size(self, ring: int) -> int:
        """How many ranks a ring has."""

    def all_reduce(self, contact: Contact, array: Array, kind: str) -> Array:
        """The arrays of all ranks reduced element by element: ``sum``, ``max``, ``min``, ``prod``."""

    def all_gather(self, contact: Contact, array: Array) -> list[Array]:
        """The arrays of all ranks, in their order."""

    def reduce_scatter(self, contact: Contact, parts: Sequence[Array]) -> Array:
        """The part with this rank's number of the sum over the ranks of each part."""

    def all_to_all(self, contact: Contact, parts: Sequence[Array]) -> list[Array]:
        """The part with this rank's number of every rank."""

    def broadcast(self, contact: Contact, array: Array, root: int) -> Array:
        """The array of one rank."""

    def send(self, contact: Contact, array: Array, peer: int) -> None:
        """Pass an array to one rank."""

    def receive(self, contact: Contact, peer: int) -> Array:
        """The next array that one rank has sent to this one."""

    def barrier(self, contact: Contact) -> None:
        """Wait until all ranks are here."""


class Alone:
    """A group of one: every collective is the identity."""

    def rank(self, ring: int) -> int:
        return 0

    def size(self, ring: int) -> int:
        return 1

    def all_reduce(self, contact: Contact, array: Array, kind: str) -> Array:
        return array.copy()

    def all_gather(self, contact: Contact, array: Array) -> list[Array]:
        # Not copied: kernels join what they get, into an array of their own.
        return [array]

    def reduce_scatter(self, contact: Contact, parts: Sequence[Array]) -> Array:
        return parts[0].copy()

    def all_to_all(self, contact: Contact, parts: Sequence[Array]) -> list[Array]:
        return list(parts)

    def broadcast(self, contact: Contact, array: Array, root: int) -> Array:
        return array.copy()

    def send(self, contact: Contact, array: Array, peer: int) -> None:
        raise CommunicationError(f"{contact}: this process is alone, there is no rank {peer} to send to")

    def receive(self, contact: Contact, peer: int) -> Array:
        raise CommunicationError(f"{contact}: this process is alone, there is no rank {peer} to receive from")

    def barrier(self, contact: Contact) -> None:
        return


_current: ContextVar[Communicator] = ContextVar("communicator", default=Alone())  # noqa: B039  it has no state


def current() -> Communicator:
    """The communicator of this thread's group."""
    return _current.get()


def communicating(by: Communicator) -> AbstractContextManager[None]:
    """Within it, collectives go by this communicator."""
    return binding(_current, by)


def rewind() -> None:
    """Begin the run again: what the collectives of this run have given so far, they give again, without the other ranks.

    A compiled program that turns out not to fit is interpreted from the start, while the other ranks go on.
    """
    rewinding = getattr(_current.get(), "rewind", None)
    if rewinding is not None:
        rewinding()


def check_size(what: str, ring: int, nranks: int) -> int:
    """The size of a ring; InvalidValue if an operator is made for another one."""
    size = current().size(ring)
    if nranks != size:
        ranks = "1 rank: this process is alone" if size == 1 else f"{size} ranks"
        raise InvalidValue(f"{what} is made for nranks={nranks}, but ring {ring} has {ranks}")
    return size


def check_rank(what: str, ring: int, rank: int) -> None:
    """InvalidValue unless a ring has such a rank."""
    size = current().size(ring)
    if not 0 <= rank < size:
        raise InvalidValue(f"{what}={rank}, but ring {ring} has the ranks 0 to {size - 1}")
