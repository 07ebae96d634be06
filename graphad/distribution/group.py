"""Shared by all engines: rings of ranks, the traffic of a rank, and the parts of feeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import CommunicationError, InvalidValue
from graphad.execution import Scope
from graphad.ops.communication import Contact
from graphad.ops.mesh import ProcessMesh, Spec, cut, joined, spec_of
from graphad.program import Program
from graphad.types import Array

Rings = Mapping[int, Sequence[Sequence[int]]]  # by the ring's number: the groups of ranks that it consists of


class Sent(NamedTuple):
    """One collective that a rank took part in: its type, its ring, and the bytes that the rank passed in, or got by ``recv_v2``."""

    type: str
    ring: int
    bytes: int


class Traffic(list[Sent]):
    """The collectives of a run, in their order."""

    def counts(self) -> dict[str, int]:
        """How many there were, by type."""
        return dict(Counter(entry.type for entry in self))

    def bytes(self) -> dict[str, int]:
        """The bytes that the rank passed in, by type."""
        total: Counter[str] = Counter()
        for entry in self:
            total[entry.type] += entry.bytes
        return dict(total)


def checked_rings(rings: Rings | None, size: int) -> dict[int, tuple[tuple[int, ...], ...]]:
    """The rings by number, ring 0 being all ranks; InvalidValue unless each has every rank once."""
    result: dict[int, tuple[tuple[int, ...], ...]] = {0: (tuple(range(size)),)}
    for number, groups in (rings or {}).items():
        result[number] = tuple(map(tuple, groups))
        # Every rank in one group of every ring: a collective then has one group for whoever calls it.
        if sorted(rank for group in groups for rank in group) != list(range(size)):
            raise InvalidValue(f"ring {number} is {[*map(list, groups)]}: each of the ranks 0 to {size - 1} has to be in one of its groups")
    return result


def group_of(rings: Mapping[int, tuple[tuple[int, ...], ...]], ring: int, rank: int) -> tuple[int, ...]:
    """The ranks that are in a rank's group of a ring; CommunicationError if there is no such ring."""
    if ring not in rings:
        raise CommunicationError(f"there is no ring {ring}; known are {', '.join(map(str, sorted(rings)))}")
    return next(group for group in rings[ring] if rank in group)


def mesh_rings(program: Program) -> Rings:
    """The rings of the mesh that a partitioned program is made for; none of any other program."""
    part = next(iter(declared_parts(program).values()), None)
    return {} if part is None else part.mesh.rings()


class Replay:
    """The results of a run's collectives so far: where the run begins again, they are replayed without the other ranks."""

    def __init__(self) -> None:
        self.log: list[tuple[Contact, Any]] = []
        self.at = 0

    def begin(self) -> None:
        """A new run."""
        self.log.clear()
        self.at = 0

    def rewind(self) -> None:
        """The same run from its start."""
        self.at = 0

    def done(self, contact: Contact, work: Callable[[], Any]) -> Any:
        """The result of a collective, present or future."""
        if self.at == len(self.log):
            # Copied on the way in and out: a rank may write in place into what it sent or got, and the log has to stay what it was.
            self.log.append((contact, copied(work())))
        earlier_contact, result = self.log[self.at]
        if earlier_contact != contact:
            raise CommunicationError(f"the repeated run is at {contact}, where it was at {earlier_contact} before")
        self.at += 1
        return copied(result)


def copied(result: Any) -> Any:
    """An array, or each of a list, in memory of its own."""
    if isinstance(result, list):
        return [array.copy() for array in result]
    return result.copy() if isinstance(result, np.ndarray) else result


SHARD = "@SHARD"


def whole_state(program: Program | Sequence[Program], scopes: Sequence[Scope]) -> dict[str, Array]:
    """The state of all ranks as one process would have it: a checkpoint from which any number of ranks can go on.

    Args:
        program: the one that the ranks run, or those of the stages of a pipeline.
        scopes: those of all ranks, in their order.

    Returns:
        The variables of the first rank; what ``partition`` or ``shard-optimizer`` has cut, of which each rank has a part, in its shape;
        what only some stages update as the first of them has it. Under MPI ``MpiExecutor.whole_state`` gives the same.

    Raises:
        ValueError: there are not as many programs as scopes.
    """
    programs = [program] * len(scopes) if isinstance(program, Program) else list(program)
    if len(programs) != len(scopes):
        raise InvalidValue(f"there are {len(programs)} programs and {len(scopes)} scopes")
    keepers = keepers_of([kept_names(rank_program, scope) for rank_program, scope in zip(programs, scopes, strict=True)])
    arrays = {name: scopes[number].get(name).copy() for name, number in keepers.items()}
    return arrays | put_together(programs[0], scopes[0].names(), lambda name: [scope.get(name) for scope in scopes])


class Kept(NamedTuple):
    """The names of a rank's persistent arrays, shards left out, and those of them that its program updates."""

    names: list[str]
    updated: list[str]


def kept_names(program: Program, scope: Scope) -> Kept:
    names = [name for name in scope.names() if not name.endswith(SHARD)]
    updated = {name for block in program.blocks for op in block.ops for name in op.output_names()}
    return Kept(names, [name for name in names if name in updated])


def keepers_of(ranks: Sequence[Kept]) -> dict[str, int]:
    """The rank that has the current value of each variable after a step: the first that updates it, or else the first that has it."""
    keepers: dict[str, int] = {}
    # First whoever has it, then, over that, whoever updates it: only that one's value is current.
    for names in ([rank.names for rank in ranks], [rank.updated for rank in ranks]):
        first: dict[str, int] = {}
        for number, each in enumerate(names):
            for name in each:
                first.setdefault(name, number)
        keepers.update(first)
    return keepers


def put_together(program: Program, names: Iterable[str], parts_of: Callable[[str], list[Array]]) -> dict[str, Array]:
    """Whole arrays joined from the ranks' parts; ``parts_of`` gives the parts of a variable, and is called in one order on all ranks."""
    # Sorted, since ranks may have stored their names in different orders, and every call is a collective.
    names_in_order = sorted(names)
    arrays: dict[str, Array] = {}
    for name, part in declared_parts(program).items():
        if name in names_in_order:
            arrays[name] = joined(parts_of(name), part.shape, part.spec, part.mesh)
    for name in (name for name in names_in_order if name.endswith(SHARD)):
        shape = program.global_block().var(name.removesuffix(SHARD)).shape
        # Shards of an optimizer's state are flat and padded to one length; the padding is at the end.
        flat = np.concatenate(parts_of(name))
        arrays[name.removesuffix(SHARD)] = flat[: math.prod(shape)].reshape(shape)
    return arrays


class Part(NamedTuple):
    """The sharding of a variable of which each rank has a part: the whole's shape, the spec and the mesh."""

    mesh: ProcessMesh
    spec: Spec
    shape: tuple[int, ...]


def declared_parts(program: Program) -> dict[str, Part]:
    """The variables of which a rank of a partitioned program has a part, as its operators ``shard_tensor`` declare them."""
    parts: dict[str, Part] = {}
    for op in program.global_block().ops:
        if op.type == "shard_tensor" and op.attrs.get("shape") is not None:
            mesh = ProcessMesh.parse(op.attrs["mesh"])
            parts.setdefault(op.input("X")[0], Part(mesh, spec_of(op.attrs.get("spec", ())), tuple(op.attrs["shape"])))
    return parts


def split_arrays(program: Program, arrays: Mapping[str, object], ranks: int) -> list[dict[str, object]]:
    """Arrays cut for each rank of a partitioned program: its parts of those that it declares parts of, and the others whole.

    Args:
        program: what ``partition`` has made.
        arrays: what one process is fed, or keeps, by name.
        ranks: how many there are.

    Raises:
        ValueError: the program is made for another number of ranks, or an array has another shape.
    """
    parts = declared_parts(program)
    for name, part in parts.items():
        if part.mesh.size != ranks:
            raise InvalidValue(f"the program is made for the mesh {part.mesh}, which has {part.mesh.size} ranks, not {ranks}")
        if name not in arrays:
            continue
        shape = np.asarray(arrays[name]).shape
        if len(shape) != len(part.shape) or any(e not in (-1, a) for e, a in zip(part.shape, shape, strict=True)):
            raise InvalidValue(f"{name!r} has the shape {list(shape)}, but its parts are of {list(part.shape)}")
        for extent, axes, size in zip(part.shape, part.spec, shape, strict=True):
            # Padding is declared with the extent; of one that is not known, parts have to be equal.
            if extent == -1 and size % part.mesh.parts(axes):
                raise InvalidValue(
                    f"{name!r} has the shape {list(shape)}: {size} places, declared as -1, cannot be cut into {part.mesh.parts(axes)} parts"
                    " of one size; declare how many there are, and the parts are padded"
                )
    return [
        {
            name: cut(np.asarray(value), parts[name].spec, parts[name].mesh, rank) if name in parts else value
            for name, value in arrays.items()
        }
        for rank in range(ranks)
    ]


def free_whole(scope: Scope) -> list[str]:
    """Forget the variables of which the scope has a shard, as the first run with ``shard-optimizer`` leaves it; their names."""
    names = [name.removesuffix(SHARD) for name in scope.names() if name.endswith(SHARD) and scope.has(name.removesuffix(SHARD))]
    scope.erase(names)
    return names


def split_feed(feed: Mapping[str, object], ranks: int, whole: Iterable[str] = ()) -> list[dict[str, object]]:
    """The feed of each rank: the rows of arrays in parts as equal as possible, the first ones larger.

    Args:
        feed: arrays by name.
        ranks: how many parts.
        whole: names of what every rank gets whole.

    Raises:
        ValueError: there are fewer rows than ranks, or arrays have different numbers of rows.

    >>> [part["x"].tolist() for part in split_feed({"x": np.arange(5)}, 2)]
    [[0, 1, 2], [3, 4]]
    """
    whole_names = set(whole)
    arrays: dict[str, Array] = {name: np.asarray(value) for name, value in feed.items() if name not in whole_names}
    rows = {name: array.shape[0] if array.ndim else 0 for name, array in arrays.items()}
    if len(set(rows.values())) > 1:
        raise InvalidValue(f"what is fed has different numbers of rows, {rows}; say with whole=... what each rank gets whole")
    if any(count < ranks for count in rows.values()):
        raise InvalidValue(f"{rows} rows cannot be shared out to {ranks} ranks")
    # The first parts are one row longer where rows do not divide.
    parts = {name: np.array_split(array, ranks) for name, array in arrays.items()}
    return [{name: feed[name] if name in whole_names else parts[name][rank] for name in feed} for rank in range(ranks)]
