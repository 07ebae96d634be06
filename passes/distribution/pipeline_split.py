"""Cut a training step into stages, one for each rank, through which parts of the batch go in sequence.

    x ─▶ fc ─▶ h ─▶ fc ─▶ loss ─▶ backward ─▶ sgd ─▶ w0, w1

      ⇒    stage 0:  x's part i ─▶ fc ─▶ h ─▶ send_v2        recv_v2 ─▶ h@GRAD ─▶ backward ─╮    for each part i
                                                             w0@GRAD of all parts ─▶ sum ◀──┴    then sgd ─▶ w0
           stage 1:  recv_v2 ─▶ h ─▶ fc ─▶ loss ─▶ backward ─▶ h@GRAD ─▶ send_v2            ...       sgd ─▶ w1

``fthenb`` takes all parts forward and then all backward (Huang et al. 2019, GPipe); ``1f1b`` takes one of each in turn, so that a stage
keeps the activations of no more parts than there are stages from it on (Narayanan et al. 2019, PipeDream; 2021, section 2.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from graphad.errors import InvalidValue, Refused
from graphad.ir import Builder, Graph, Op, Value
from graphad.ops import GradOpDef, lookup
from graphad.passes.analyses import estimated
from graphad.passes.analyses.batch_dependence import GRADIENT_NAME, MEAN, TOTAL, WHOLE, data_of
from graphad.passes.analyses.traffic import MICRO
from graphad.passes.distribution.ranks import Batch, check_ranks, with_rows, written_as
from graphad.program import BACKWARD, EMPTY, FORWARD, located
from graphad.rewriting import OnTrial, Pass

Schedule = Literal["fthenb", "1f1b"]
Task = tuple[str, int]  # forward "F" or backward "B", and the number of the part


@dataclass(frozen=True)
class PipelineSplit(Pass):
    """Leave the program of one stage of a pipeline; the ranks run those of all stages.

    Stages are cut where the forward operators' estimated operations are shared out evenly, in their order.

    Args:
        stages: how many there are.
        stage: the number of the one to leave.
        micro_batches: into how many parts of one size the batch is cut.
        schedule: ``fthenb`` or ``1f1b``.
        inputs: names of the data that are cut along axis 0; empty: all that is given and not persistable.

    Raises:
        Refused: operators hold blocks, draw random numbers or have effects; the loss is neither a mean nor a sum over the batch; a
            parameter is used in two stages, or gradients of several stages meet, as in a norm of all; there are more stages than operators.
        ValueError: a number is below 1, ``stage`` is not below ``stages``, or there is no such schedule.
    """

    name = "pipeline-split"
    tolerance = 1e-5
    on_trial = OnTrial(programs=("trainable",), after_backward=True)
    stages: int = 2
    stage: int = 0
    micro_batches: int = 1
    schedule: Schedule = "1f1b"
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_ranks(self.name, self.stages)
        if self.micro_batches < 1:
            raise InvalidValue(f"a batch is cut into 1 part at least, not into {self.micro_batches}")
        if not 0 <= self.stage < self.stages:
            raise InvalidValue(f"of {self.stages} stages none has the number {self.stage}")
        if self.schedule not in ("fthenb", "1f1b"):
            raise InvalidValue(f"schedule is fthenb or 1f1b, not {self.schedule!r}")

    def apply(self, graph: Graph) -> bool:
        if self.stages == self.micro_batches == 1:
            return False
        step = _Step(graph, self)
        if not graph.allows("split", *step.forward[:1]):
            return False
        step.split()
        return True


def stages_of(graph: Graph, stages: int, micro_batches: int = 1) -> dict[Op, int]:
    """The stage of a pipeline that runs each operator of a training step; operators that every stage runs are left out.

    Raises:
        Refused: as ``pipeline-split``.

    >>> import graphad as ga
    >>> with ga.program_guard(main := ga.Program(), ga.Program()):
    ...     h = ga.layers.fc(ga.layers.data("x", [4]), size=8, act="tanh", bias_attr=False)
    ...     loss = ga.layers.mean(ga.layers.fc(h, size=8, bias_attr=False))
    >>> _ = ga.append_backward(loss)
    >>> stages = stages_of(ga.lower(main, [loss.name]), 2)
    >>> [(op.type, stage) for op, stage in stages.items() if op.role == "forward"]
    [('mul', 0), ('tanh', 0), ('mul', 1), ('mean', 1)]
    """
    step = _Step(graph, PipelineSplit(stages, micro_batches=micro_batches))
    return {**step.stage, **step.only}


def order_of(stage: int, stages: int, micro_batches: int, schedule: str) -> list[Task]:
    """The order in which a stage takes parts forward and backward."""
    # 1F1B: stage s of n first takes n - s parts forward, which fills the stages after it; from then on one part goes backward for each that
    # goes forward.
    ahead = micro_batches if schedule == "fthenb" else min(stages - stage, micro_batches)
    order: list[Task] = [("F", i) for i in range(ahead)]
    for i in range(micro_batches - ahead):
        order += [("B", i), ("F", ahead + i)]
    return order + [("B", i) for i in range(micro_batches - ahead, micro_batches)]


class _Step:
    """A training step, and which stage each of its operators belongs to; None where every stage does the same."""

    def __init__(self, graph: Graph, options: PipelineSplit) -> None:
        self.graph, self.options = graph, options
        self.data = data_of(graph, options.inputs)
        batch = Batch.of(graph, self.data)
        self.is_mean = all(seed.kind != TOTAL for seed in batch.seeds)
        if len({seed.kind == TOTAL for seed in batch.seeds}) > 1:
            raise Refused("of the losses some are means over the batch and others are sums")
        self.kinds = batch.kinds
        self.ordered = graph.ordered_ops()
        self.forward = [op for op in self.ordered if op.role == FORWARD and any(self.kinds[v] != WHOLE for v in op.writes())]
        self.backward = [op for op in self.ordered if op.role == BACKWARD]
        self.inside = {*self.forward, *self.backward}
        for op in (*self.forward, *self.backward):
            _check(op)
        self.gradients = batch.gradients
        self.requested = self._requested()
        # In this order: each stage is found from those before. Backward operators follow their forward ones, parameters whoever reads them,
        # updates their gradients.
        self.stage: dict[Op, int] = self._forward_stages()
        self.homes = self._homes()
        for op in self.backward:
            self.stage[op] = self._backward_stage(op)
        self._check_flow()
        self.only = self._other_stages()

    # -- what belongs where ----------------------------------------------------------------------

    def _requested(self) -> list[Value]:
        """The requested values that parts compute: means and sums over the batch."""
        results = [value for op in self.forward for value in op.writes() if self.graph.is_observed(value)]
        for value in results:
            if self.kinds[value] not in (MEAN, TOTAL):
                raise Refused(f"{value.name!r} is requested, or persists, which is neither a mean nor a sum over the batch")
        for value in self.graph.targets:
            if value not in self.gradients and any(writer in self.inside and writer.role == BACKWARD for writer in value.writers):
                raise Refused(f"{value.name!r} is requested, which is not the gradient of a parameter")
        return results

    def _forward_stages(self) -> dict[Op, int]:
        count = self.options.stages
        if len(self.forward) < count:
            raise Refused(f"there are {len(self.forward)} forward operators for {count} stages")
        cost = estimated(self.graph)
        sizes = [1 + cost.ops[op].flops for op in self.forward]
        before, last, stage = 0, 0, {}
        for i, (op, size) in enumerate(zip(self.forward, sizes, strict=True)):
            # By the middle of the operator on the line of all operations, but never back, never a stage skipped, and enough operators left
            # for the stages to come.
            even = int((before + size / 2) * count / sum(sizes))
            least = count - (len(self.forward) - i)  # so that no stage stays empty
            last = stage[op] = min(max(even, least, last), last + 1 if i else 0)
            before += size
        return stage

    def _homes(self) -> dict[Value, int]:
        """The stage of each parameter, or other value that is given and persists."""
        homes = {}
        for value in self.graph.inputs:
            user_stages = set(self._using(value))
            # A parameter of two stages would need its gradients added up between them.
            if len(user_stages) > 1 and value.persistable:
                raise Refused(f"{value.name!r} is used in the stages {sorted(user_stages)}, each of which would have to update it")
            if user_stages and value.persistable:
                homes[value] = user_stages.pop()
        return homes

    def _using(self, value: Value) -> Iterator[int]:
        """The stages that use a value, or what every stage makes of it, as a parameter in a narrower type."""
        for op in value.readers:
            if op in self.stage:
                yield self.stage[op]
            elif op.role == FORWARD:
                for result in op.writes():
                    yield from self._using(result)

    def _backward_stage(self, op: Op) -> int:
        """The stage of the forward operator whose gradient an operator computes: of the writer of a value whose gradient it reads or
        writes."""
        for value in (*op.reads(), *op.writes()):
            name = GRADIENT_NAME.match(value.name)
            # The name says of what it is the gradient: gradients are called ``x@GRAD``, parts of them ``x@GRAD@...``.
            of = self.graph.versions(name[1])[-1:] if name else ()
            for forward in of:
                if forward.writer in self.stage:
                    return self.stage[forward.writer]
                first = self.graph.versions(forward.name)[0]
                if first in self.homes:
                    return self.homes[first]
        # Passes may have given other names to what it is the gradient of: its operands say which operator that is.
        for forward_op in self.forward:
            if _is_gradient_of(op, forward_op):
                return self.stage[forward_op]
        return max((self.stage[w] for value in op.reads() for w in value.writers if w in self.stage), default=0)

    def _check_flow(self) -> None:
        """Forward values go to later stages, gradients to earlier ones."""
        for op in self.inside:
            for value in op.reads():
                for writer in value.writers:
                    # Otherwise two stages would wait for each other within one part.
                    apart = self.stage[op] - self.stage[writer] if writer in self.inside else 0
                    if apart and (apart > 0) != (writer.role == FORWARD):
                        raise Refused(
                            located(f"{op!r} of stage {self.stage[op]} reads what stage {self.stage[writer]} has later", op.source)
                        )

    def _other_stages(self) -> dict[Op, int]:
        """The stages of the operators after the backward, where gradients are applied; those that depend on none run in every stage."""
        stage_of: dict[Op, int] = {}
        for op in (op for op in self.ordered if op not in self.inside):
            stages: set[int] = set()
            for value in op.reads():
                writers = [writer for writer in value.writers if writer in self.inside]
                if writers and value not in self.gradients:
                    raise Refused(located(f"{op!r} reads what is computed for a part of the batch", op.source))
                stages.update(self.stage[writer] for writer in writers)
                # Through chains of updates: an operator is where what it reads is.
                stages.update(stage_of[writer] for writer in value.writers if writer in stage_of)
            if len(stages) > 1:
                raise Refused(located(f"{op!r} needs gradients of the stages {sorted(stages)}", op.source))
            if stages:
                stage_of[op] = stages.pop()
                self._check_home(op, stage_of[op])
        return stage_of

    def _check_home(self, op: Op, stage: int) -> None:
        """Refuse a parameter whose gradient is computed in another stage than uses it: there it would keep its old value."""
        for value in op.writes():
            home = self.homes.get(self.graph.versions(value.name)[0], stage)
            if home != stage:
                raise Refused(located(f"{value.name!r} is used in stage {home}, but its gradient is computed in stage {stage}", op.source))

    # -- the program of one stage ----------------------------------------------------------------

    def split(self) -> None:
        """Leave what the stage does."""
        graph, options = self.graph, self.options
        before = next((op for op in self.ordered if op in self.only), None)
        parts = self._parts(before)
        local: list[dict[Value, Value]] = [dict(zip(self.data, part, strict=True)) for part in zip(*parts, strict=True)]
        # Operators are copied once for each part in the order of the schedule; the originals go at the end.
        for kind, i in order_of(options.stage, options.stages, options.micro_batches, options.schedule):
            self._task(self.forward if kind == "F" else self.backward, i, local[i], before)
        for value in [*self.gradients, *self.requested]:
            if self.stage[value.writers[-1]] == options.stage:
                self._total(value, [values[value] for values in local], before)
        for op in [*self.backward[::-1], *self.forward[::-1]]:
            graph.remove_op(op)
        for op in reversed([op for op, stage in self.only.items() if stage != options.stage]):
            graph.remove_op(op)
        graph.targets = {value: None for value in graph.targets if value.writers or value.given}

    def _parts(self, before: Op | None) -> list[list[Value]]:
        """The parts of each piece of data, which are of one size."""
        graph, count = self.graph, self.options.micro_batches
        whole = [value.type for value in self.data]
        for value in self.data:
            if value.shape and value.shape[0] % count and value.shape[0] != -1:
                raise Refused(f"{value.name!r} has {value.shape[0]} rows, which do not make {count} parts of one size")
        with_rows(graph, self.data, count)
        for value, type in zip(self.data, whole, strict=True):
            assert type is not None
            graph.redeclare(value, *type)
        return [self._cut(value, before) for value in self.data]

    def _cut(self, value: Value, before: Op | None) -> list[Value]:
        """The parts of a piece of data; itself where the stage does not read it."""
        count = self.options.micro_batches
        if count == 1 or self.options.stage not in self._readers(value):
            return [value] * count
        build = Builder(self.graph, value.name, before, FORWARD)
        return [part.value for part in lookup("split")(build.symbol(value), num=count, axis=0)]

    def _task(self, ops: Sequence[Op], i: int, local: dict[Value, Value], before: Op | None) -> None:
        """One part, forward or backward: receive what earlier tasks of other stages have, compute, and send."""
        graph, stage = self.graph, self.options.stage
        # Receives in the order in which their writers run, as the peer sends: messages between two ranks match by order, not by name.
        for op in ops:
            for value in op.writes() if self.stage[op] != stage else ():
                if self._readers(value) & {stage}:
                    local[value] = self._new(value, i)
                    attrs = {"peer": self.stage[op], "out_shape": list(value.shape or ()), "dtype": value.dtype or "float32"}
                    graph.add_op("recv_v2", {}, {"Out": [local[value]]}, attrs, before, op.role, op)
        for op in (op for op in ops if self.stage[op] == stage):
            inputs = {slot: [local.get(value, value) for value in values] for slot, values in op.inputs.items()}
            for value in op.writes():
                local[value] = self.graph.add_version(EMPTY) if value.name == EMPTY else self._new(value, i)
            outputs = {slot: [local[value] for value in values] for slot, values in op.outputs.items()}
            copy = graph.add_op(op.type, inputs, outputs, op.attrs, before, op.role)
            copy.source = op.source
        for op in (op for op in ops if self.stage[op] == stage):
            for value in op.writes():
                for peer in sorted(self._readers(value) - {stage}):
                    graph.add_op("send_v2", {"X": [local[value]]}, {}, {"peer": peer}, before, op.role, op)

    def _readers(self, value: Value) -> set[int]:
        """The stages that read a value."""
        return {self.stage[op] for op in value.readers if op in self.inside}

    def _new(self, value: Value, i: int) -> Value:
        part = self.graph.add_value(f"{value.name}{MICRO}{i}", value.shape, value.dtype)
        part.kind = value.kind
        return part

    def _total(self, value: Value, parts: list[Value], before: Op | None) -> None:
        """A gradient, or a requested value, of those of the parts: it has a second writer until the first one goes."""
        # The gradient of a mean over the batch is the mean of those of its parts, as they are of one size.
        is_mean = self.is_mean if value in self.gradients else self.kinds[value] == MEAN
        build = Builder(self.graph, value.name, before, BACKWARD)
        total = lookup("sum")([build.symbol(part) for part in parts])
        scale = 1.0 / len(parts) if is_mean else 1.0
        written_as(lookup("scale")(total, scale=scale).value, value)


def _is_gradient_of(op: Op, forward: Op) -> bool:
    """Whether an operator is the gradient of another one, as the values say of that one which it reads."""
    definition = op.definition
    if not isinstance(definition, GradOpDef) or definition.forward is None or definition.forward.type != forward.type:
        return False
    operands = [(slot, side) for slot, side in definition.given if op.inputs.get(slot)]
    return bool(operands) and all(
        op.inputs[slot] == (forward.inputs if side == "inputs" else forward.outputs).get(slot) for slot, side in operands
    )


def _check(op: Op) -> None:
    definition = op.definition
    if definition is None or definition.side_effect or definition.random or op.graphs:
        raise Refused(located(f"{op!r} holds blocks, draws random numbers or has effects: it cannot be run for each part", op.source))


__all__ = ["PipelineSplit", "order_of", "stages_of"]
