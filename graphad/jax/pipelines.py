"""The programs of the stages of a pipeline as one function, each stage on a device of its own.

    stage 0:  fc ─▶ send          recv ─▶ fc_grad ─▶ sgd          in rounds: lax.switch over the stages, each up to its next message,
    stage 1:  recv ─▶ fc ─▶ fc_grad ─▶ send ─▶ sgd           ⇒    then lax.ppermute of what the round has sent

XLA's devices run one program. A device takes the branch of its own stage, so that within a round the stages compute at the same time;
what a device keeps from round to round, as its parameters, lies in one vector for each dtype, as long as the longest of the stages needs
(a switch has results of one type).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from graphad.contexts import binding
from graphad.errors import CommunicationError, InvalidType, InvalidValue, NotLowered
from graphad.execution.feeds import fetch_names
from graphad.jax.lowering import Lowering, Options, Stage
from graphad.jax.registry import WATCHER, is_traced
from graphad.ops import REGISTRY
from graphad.ops.aggregates import Aggregate
from graphad.program import Operator, Program, located
from graphad.types import Array, Tensor

AXIS = "stage"  # of the mesh
SEND, RECEIVE = "send_v2", "recv_v2"

Vectors = dict[str, Tensor]  # by dtype


class Message(NamedTuple):
    """A message from one stage to another: its number in the round, and its type."""

    source: int
    target: int
    number: int
    type: Tensor


class Packing:
    """The places of arrays in one vector for each dtype.

    Args:
        types: of the arrays, by name.
    """

    def __init__(self, types: Mapping[str, Tensor]) -> None:
        self.types = dict(types)
        self.at: dict[str, tuple[str, int]] = {}
        self.sizes: dict[str, int] = {}
        # Arrays of one dtype lie in one vector: so the states of all stages are of one type, as lax.switch needs.
        for name, declared in self.types.items():
            dtype = np.dtype(declared.dtype).name
            self.at[name] = dtype, self.sizes.get(dtype, 0)
            self.sizes[dtype] = self.at[name][1] + int(np.prod(declared.shape, dtype=np.int64))

    def packed(self, values: Mapping[str, Tensor], sizes: Mapping[str, int]) -> Vectors:
        """The vectors, filled up with zeros to the sizes."""
        vectors = {}
        for dtype, size in sizes.items():
            pieces = [jnp.ravel(values[name]) for name, (kind, _) in self.at.items() if kind == dtype]
            pieces.append(jnp.zeros(size - self.sizes.get(dtype, 0), dtype))
            vectors[dtype] = jnp.concatenate(pieces)
        return vectors

    def unpacked(self, vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The arrays."""
        arrays = {}
        for name, (dtype, start) in self.at.items():
            shape = self.types[name].shape
            arrays[name] = vectors[dtype][start : start + int(np.prod(shape, dtype=np.int64))].reshape(shape)
        return arrays


def longest(packings: Sequence[Packing]) -> dict[str, int]:
    """The sizes of vectors that each of the packings fits into."""
    dtypes = sorted({dtype for packing in packings for dtype in packing.sizes})
    return {dtype: max(packing.sizes.get(dtype, 0) for packing in packings) for dtype in dtypes}


class Round(NamedTuple):
    """One round of a stage: a function without arguments that returns the kept, sent and updated values, and what failed; and their
    types."""

    traced: Stage
    kept: dict[str, Tensor]
    sent: list[Message]
    state: Tensor


class Running:
    """A stage while the rounds are traced.

    Attributes:
        at: the number of the operator that is next.
        known: values that are known while the program is lowered.
        packing: how what is kept from the last round lies.
        inbox: of each stage that sends to this one, the names under which its messages are kept, in their order.
    """

    def __init__(self, number: int, program: Program, fetched: Sequence[str], state: Packing) -> None:
        self.number, self.fetched, self.state = number, fetched, state
        self.lowering = Lowering(program, Options())
        self.ops = self.lowering.block.ops
        self.at = 0
        self.known: dict[str, Tensor] = {}
        self.packing = Packing({})
        self.inbox: dict[int, list[str]] = {}
        self.count = 0

    @property
    def is_done(self) -> bool:
        return self.at == len(self.ops)

    def arrived(self, peer: int) -> str:
        """A new name for a message of a stage."""
        self.count += 1
        self.inbox.setdefault(peer, []).append(f"@message {self.count}")
        return self.inbox[peer][-1]

    def round(self, feeds: Mapping[str, Tensor], kept: Vectors, state: Vectors, messages: Mapping[str, Tensor]) -> Round:
        """Go on up to a message that has not come, or past what is sent, and trace that."""
        peers: list[int] = []
        block = self.lowering.block

        def run() -> Tensor:
            values = {**self.state.unpacked(state), **self.packing.unpacked(kept), **messages}
            frame = {**{name: value for name, value in feeds.items() if name in block.vars}, **self.known, **values}
            try:
                with binding(WATCHER, self.lowering):
                    outgoing = self.operators(frame)
            finally:
                # A fault is a traced value of this round, which the next one must not see.
                failed, self.lowering.failed = self.lowering.failed, np.int32(0)
            peers.extend(peer for peer, _ in outgoing)
            own = {name: frame.pop(name) for name in self.state.types}
            # State that no operator of this round wrote is passed on as it is, without being packed again.
            is_updated = any(own[name] is not values[name] for name in own)
            return self.alive(frame), [value for _, value in outgoing], own if is_updated else None, failed

        traced = Stage(run)
        kept_types, types, own, _ = traced.shapes
        sent = [Message(self.number, peer, i, type) for i, (peer, type) in enumerate(zip(peers, types, strict=True))]
        return Round(traced, kept_types, sent, own)

    def operators(self, frame: dict[str, Tensor]) -> list[tuple[int, Tensor]]:
        """Run operators; what is sent, and to which stage."""
        lowering, layout, sent = self.lowering, (self.lowering.block.vars,), []
        for op in self.ops[self.at :]:
            if op.type == SEND:
                sent.append((op.attrs.get("peer", 0), jnp.asarray(lowering.value(op, (frame,), layout, op.input("X")[0]))))
            elif sent:  # to the next round, so that the receiver need not wait for more
                break
            elif op.type == RECEIVE:
                names = self.inbox.get(op.attrs.get("peer", 0))
                if not names:
                    break
                frame[op.output("Out")[0]] = frame.pop(names.pop(0))
            else:
                _check(op)
                lowering.operator(op, (frame,), layout)
            self.at += 1
        return sent

    def alive(self, frame: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The live values: those that later operators read, that are fetched, and messages; known values are noted in ``known`` instead."""
        reads = {name for op in self.ops[self.at :] for name in op.input_names()} | {*self.fetched}
        reads |= {name for names in self.inbox.values() for name in names}
        values = {name: value for name, value in frame.items() if name in reads}
        # What is known while tracing needs no room in what is packed.
        self.known = {name: value for name, value in values.items() if not is_traced(value)}
        aggregate = next((name for name, value in values.items() if isinstance(value, Aggregate)), None)
        if aggregate is not None:
            raise NotLowered(f"stage {self.number} keeps {aggregate!r}, an array of tensors, from one message to the next")
        return {name: value for name, value in values.items() if name not in self.known}


def _check(op: Operator) -> None:
    definition = REGISTRY.get(op.type)
    if definition is not None and (definition.ordered or definition.random):
        what = "a collective" if definition.ordered else "a random operator"
        raise NotLowered(located(f"operator {op.type!r}: {what} in a stage, which the devices of the other stages do not run", op.source))


class PipelinedFunction:
    """The programs of the stages as a pure function ``(feeds, state) -> (fetches, state)`` on a mesh with the axis ``stage``.

    What is fed is whole, and on all devices; ``fetches`` has a list for each stage, as ``LocalGroup.run`` gives them. ``state`` has the
    parameters of each stage on its device; ``state()`` and ``arrays()`` change between it and arrays by name.

    Attributes:
        mesh: jax's mesh of devices.
        failures: of the last tracing, what operators refuse.
    """

    def __init__(self, programs: Sequence[Program], fetched: Sequence[Sequence[str]], devices: Sequence[jax.Device]) -> None:
        if len(devices) < len(programs):
            raise InvalidValue(f"{len(programs)} stages take as many devices, but there are {len(devices)}")
        self.programs, self.fetched = list(programs), [list(names) for names in fetched]
        self.mesh = Mesh(np.array(devices[: len(programs)], dtype=object), (AXIS,))
        self.packings = [_of_state(program) for program in programs]
        self.sizes = longest(self.packings)
        self.failures: list[str] = []

    def state(self, arrays: Mapping[str, Array]) -> Vectors:
        """The state with the arrays of the programs' persistable variables.

        Raises:
            ValueError: one is missing, or has another shape than declared.
        """
        for packing in self.packings:
            for name, declared in packing.types.items():
                if name not in arrays or np.shape(arrays[name]) != declared.shape:
                    problem = f"has the shape {list(np.shape(arrays[name]))}" if name in arrays else "is missing"
                    raise InvalidValue(f"{name!r} of the state {problem}; it is declared {np.dtype(declared.dtype)}{list(declared.shape)}")
        with jax.enable_x64(True):
            typed = [{n: np.asarray(arrays[n]).astype(t.dtype, copy=False) for n, t in p.types.items()} for p in self.packings]
            vectors = [packing.packed(values, self.sizes) for packing, values in zip(self.packings, typed, strict=True)]
            place = NamedSharding(self.mesh, PartitionSpec(AXIS))
            return {dtype: jax.device_put(jnp.stack([vector[dtype] for vector in vectors]), place) for dtype in self.sizes}

    def arrays(self, state: Mapping[str, Tensor]) -> dict[str, Array]:
        """The arrays in a state by name; of a variable of several stages that of the stage which writes it."""
        arrays: dict[str, Array] = {}
        for number, (program, packing) in enumerate(zip(self.programs, self.packings, strict=True)):
            written_names = {name for op in program.global_block().ops for name in op.output_names()}
            values = packing.unpacked({dtype: np.asarray(rows[number]) for dtype, rows in state.items()})
            arrays.update({name: value for name, value in values.items() if name in written_names or name not in arrays})
        return arrays

    def __call__(self, feeds: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> tuple[list[list[Tensor]], Vectors]:
        """The values that the stages fetch, and the new state."""
        fetches, new, _ = self.checked(feeds, state)
        return fetches, new

    def checked(self, feeds: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> tuple[list[list[Tensor]], Vectors, Tensor]:
        """The same, and the number of one of ``failures`` that happened in some stage, 0 if none did."""
        with jax.enable_x64(True):
            whole, cut = PartitionSpec(), PartitionSpec(AXIS)
            step = jax.shard_map(self._on_device, mesh=self.mesh, in_specs=(whole, cut), out_specs=(whole, cut, whole), check_vma=False)
            result: tuple[list[list[Tensor]], Vectors, Tensor] = step(dict(feeds), dict(state))
            return result

    def _on_device(self, feeds: Mapping[str, Tensor], rows: Mapping[str, Tensor]) -> tuple[list[list[Tensor]], Vectors, Tensor]:
        number = lax.axis_index(AXIS)
        state: Vectors = {dtype: row[0] for dtype, row in rows.items()}
        carried: Vectors = {}
        stages = [Running(i, *parts) for i, parts in enumerate(zip(self.programs, self.fetched, self.packings, strict=True))]
        messages: list[dict[str, Tensor]] = [{} for _ in stages]
        failed = jnp.zeros((), "int32")
        while not all(stage.is_done for stage in stages):
            before = [stage.at for stage in stages]
            rounds = [stage.round(feeds, carried, state, incoming) for stage, incoming in zip(stages, messages, strict=True)]
            groups = _grouped([message for round in rounds for message in round.sent])
            # One program for all devices: in each round a device takes the branch of its stage, and then all of them exchange messages.
            carried, outgoing, state, now = lax.switch(number, self._branches(stages, rounds, groups, state))
            failed = jnp.where(failed == 0, now, failed)
            messages = self._exchanged(stages, groups, outgoing)
            # No stage has come further in a round: each waits for a message that nothing sends.
            if before == [stage.at for stage in stages]:
                raise _stuck(stages)
        fetches = [[_shared(stage, name, carried, state, number) for name in stage.fetched] for stage in stages]
        counts = np.array([len(stage.lowering.failures) for stage in stages], "int32")
        self.failures = [text for stage in stages for text in stage.lowering.failures]
        # The failures of all stages are numbered one after the other; the largest number on any device is reported.
        before_stage = jnp.asarray(np.cumsum(counts, dtype="int32") - counts)[number]
        failed = lax.pmax(jnp.where(failed == 0, 0, failed + before_stage), AXIS)
        return fetches, {dtype: vector[None] for dtype, vector in state.items()}, failed

    def _branches(
        self, stages: Sequence[Running], rounds: Sequence[Round], groups: Sequence[list[Message]], state: Vectors
    ) -> list[Callable[[], Tensor]]:
        """The branches of a round, one a stage, with results of one type."""
        for stage, round in zip(stages, rounds, strict=True):
            stage.packing = Packing(round.kept)
        sizes = longest([stage.packing for stage in stages])

        def branch(stage: Running, round: Round) -> Callable[[], Tensor]:
            def run() -> Tensor:
                values, sent, own, failed = round.traced()
                mine = [next((message for message in group if message.source == stage.number), None) for group in groups]
                # All devices take part in an exchange: one that has nothing to send sends zeros.
                outgoing = [_zeros(group[0].type) if m is None else sent[m.number] for group, m in zip(groups, mine, strict=True)]
                new = state if own is None else stage.state.packed(own, self.sizes)
                return stage.packing.packed(values, sizes), outgoing, new, failed

            return run

        return [branch(stage, round) for stage, round in zip(stages, rounds, strict=True)]

    def _exchanged(self, stages: Sequence[Running], groups: Sequence[list[Message]], outgoing: Sequence[Tensor]) -> list[dict[str, Tensor]]:
        """Exchange the messages of a round; the received values of each stage by name."""
        messages: list[dict[str, Tensor]] = [{} for _ in stages]
        for group, value in zip(groups, outgoing, strict=True):
            # A permutation: a device sends at most one of a group, and gets at most one; devices that get none have zeros.
            arrived = lax.ppermute(value, AXIS, [(message.source, message.target) for message in group])
            for message in group:
                messages[message.target][stages[message.target].arrived(message.source)] = arrived
        return messages


def _of_state(program: Program) -> Packing:
    types, block = {}, program.global_block()
    names = {name for op in block.ops for name in (*op.input_names(), *op.output_names())}
    for name, var in block.vars.items():
        if var.persistable and name in names:
            shape, dtype = var.declared
            if shape is None or dtype is None or -1 in shape:
                raise NotLowered(f"{name!r} persists, but is declared {var!r}: the state of a stage has arrays of known shapes")
            types[name] = jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype))
    return Packing(types)


def _grouped(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages of one type that can go at once: from different stages, to different stages. Those between two stages stay in order."""
    groups: list[list[Message]] = []
    for message in messages:
        ends = message.source, message.target
        # Between two stages messages are matched by their order: a later one goes in a later group.
        after = 1 + max((i for i, group in enumerate(groups) if any(m[:2] == ends for m in group)), default=-1)
        group = next((group for group in groups[after:] if all(_go_together(m, message) for m in group)), None)
        if group is None:
            groups.append([message])
        else:
            group.append(message)
    return groups


def _go_together(a: Message, b: Message) -> bool:
    is_alike = a.type.shape == b.type.shape and a.type.dtype == b.type.dtype
    return is_alike and a.source != b.source and a.target != b.target


def _zeros(type: Tensor) -> Tensor:
    return jnp.zeros(type.shape, type.dtype)


def _shared(stage: Running, name: str, carried: Vectors, state: Vectors, number: Tensor) -> Tensor:
    """A value that one stage fetches, broadcast to all devices."""
    if name in stage.known:
        return jnp.asarray(stage.known[name])
    values = {**stage.packing.unpacked(carried), **stage.state.unpacked(state)}
    if name not in values:
        raise InvalidValue(f"the fetch list of stage {stage.number} has {name!r}, which has no value")
    value = values[name]
    # Only one device has the value: the sum with zeros of the others brings it to all.
    # Each device traces every stage's value, but what it has in ``carried`` is that of its own stage.
    own = jnp.where(number == stage.number, value, jnp.zeros((), value.dtype))
    return lax.psum(own, AXIS) if own.dtype != bool else lax.pmax(own.astype("int32"), AXIS).astype(bool)


def _stuck(stages: Sequence[Running]) -> CommunicationError:
    places = [f"  stage {s.number} " + ("has ended" if s.is_done else f"waits at {s.ops[s.at]!r}") for s in stages]
    return CommunicationError("\n".join(["the stages wait for each other and none can go on:", *places]))


def pipelined(
    programs: Sequence[Program], fetch_lists: Sequence[object] | None = None, *, devices: Sequence[jax.Device] | None = None
) -> PipelinedFunction:
    """The programs of the stages, as ``pipeline-split`` makes them, as one function on as many devices.

    Args:
        programs: of the stages, in their order; they may send and receive, and have no other collectives.
        fetch_lists: for each stage the variables or names whose values it returns; None for nothing.
        devices: in the order of the stages; the first of JAX's if None.

    Raises:
        ValueError: there are too few devices, or not as many lists as programs; a fetched name is unknown.
        NotLowered: a persistable variable has no declared shape; (where the function is traced) a stage has another collective.
        CommunicationError: (where the function is traced) the stages would wait for each other forever.

    >>> import graphad as ga
    >>> text = "var x: float32[2] var y: float32[2] send_v2(X=x) -> () {peer=0} recv_v2() -> (Out=y) {peer=0, out_shape=[2]}"
    >>> one = ga.Program.parse(f"program {{ block 0 {{ {text} }} }}")
    >>> function = jax.jit(pipelined([one], [["y"]]))
    >>> function({"x": np.ones(2, "float32")}, {})[0]
    [[Array([1., 1.], dtype=float32)]]
    """
    if not all(isinstance(program, Program) for program in programs):
        raise InvalidType(f"pipelined takes Programs, not {programs!r}")
    lists: Sequence[object] = [[] for _ in programs] if fetch_lists is None else fetch_lists
    if len(lists) != len(programs):
        raise InvalidValue(f"there are {len(programs)} stages and {len(lists)} fetch lists")
    names = [fetch_names(program.global_block(), items) for program, items in zip(programs, lists, strict=True)]
    return PipelinedFunction(programs, names, list(devices or jax.devices()))


__all__ = ["PipelinedFunction", "pipelined"]
