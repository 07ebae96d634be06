"""Traffic of collectives: the messages and bytes that a rank sends round a ring (Patarasuk and Yuan 2009; Thakur et al. 2005)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from graphad.errors import InvalidValue


class Rates(Protocol):
    """The rates of a link between machines: seconds that a message takes however short it is, and bytes a second."""

    @property
    def alpha(self) -> float: ...

    @property
    def beta(self) -> float: ...


class Traveled(NamedTuple):
    """The traffic of one rank in a collective: messages one after the other, and bytes."""

    messages: int
    bytes: float

    def seconds(self, mesh: Rates) -> float:
        """How long that takes."""
        return self.messages * mesh.alpha + self.bytes / mesh.beta


def travels(type: str, size: float, ranks: int) -> Traveled:
    """The traffic of a rank that passes ``size`` bytes to a collective round a ring.

    Args:
        type: the operator's: ``c_allreduce_sum``, ``c_allgather``, ...
        size: bytes that the rank passes in.
        ranks: how many are in the ring.

    Raises:
        ValueError: it is no collective.

    >>> travels("c_allreduce_sum", 4000, 4)
    Traveled(messages=6, bytes=6000.0)
    """
    hops = ranks - 1
    # A reduce-scatter and an all-gather, the least bytes that an all-reduce can do with (Patarasuk and Yuan 2009).
    if type.startswith("c_allreduce"):
        return Traveled(2 * hops, 2 * size * hops / ranks)
    if type == "c_reduce_sum":  # an all-reduce here
        return Traveled(2 * hops, 2 * size * hops / ranks)
    # Every part but the rank's own, in messages of size / ranks.
    if type in ("c_reducescatter", "c_alltoall", "alltoall", "c_recut"):
        return Traveled(hops, size * hops / ranks)
    # A rank's own part, and those of the others that it passes on.
    if type in ("c_allgather", "c_concat", "c_unshard"):
        return Traveled(hops, float(size * hops))
    if type == "c_broadcast":  # in parts, one after the other
        return Traveled(hops, float(size)) if hops else Traveled(0, 0.0)
    if type == "send_v2":
        return Traveled(1, float(size))
    if type in ("recv_v2", "barrier", "c_identity", "c_split", "c_shard", "c_clear_padding"):
        # A barrier is an all-reduce of no bytes. What is received costs the one that sends it.
        return Traveled(2 * hops if type == "barrier" else 0, 0.0)
    raise InvalidValue(f"{type!r} is no collective")


def collective(type: str, attrs: Mapping[str, object]) -> str:
    """The type that the cost of a collective is of: one that reduces what it cuts apart sends as a reduce-scatter.

    >>> collective("c_shard", {"reduce": True}), collective("c_shard", {})
    ('c_reducescatter', 'c_shard')
    """
    return "c_reducescatter" if type == "c_shard" and attrs.get("reduce") else type


def communicates(type: str) -> bool:
    """Whether an operator with ordered effects is a collective, or the gradient of one: what prints, or calls Python, has such effects too.

    >>> communicates("c_allreduce_sum"), communicates("print")
    (True, False)
    """
    try:
        travels(type.removesuffix("_grad"), 1.0, 2)
    except InvalidValue:
        return False
    return True


__all__ = ["Rates", "Traveled", "collective", "communicates", "travels"]
