"""Let each rank keep and compute its part of what the optimizer knows, and exchange new parameters.

    w@GRAD's part ─▶ c_allreduce_sum ─▶ w@GRAD ─╮
    w, w_moment_0 ──────────────────────────────┴▶ adam ─▶ w, w_moment_0

      ⇒    w@GRAD's part ─▶ c_shard{reduce} ────────╮
           w ─▶ c_shard ────────────────────────────┤
           w_moment_0@SHARD, a part for each rank ──┴▶ adam ─▶ w's shard ─▶ c_unshard ─▶ w
                                                            ─▶ w_moment_0@SHARD

ZeRO (Rajbhandari et al. 2020, section 5): of ``ranks`` that hold the same parameters each needs 1/ranks of the states. In stage 1
gradients are all-reduced as before; in stage 2 each rank gets the sum of its part alone. For a parameter of P bytes a ring sends
2 (n - 1) / n P for the all-reduce and (n - 1) / n P for the all-gather of new parameters in stage 1; in stage 2, with a reduce-scatter,
2 (n - 1) / n P in all, as much as data parallel training does without.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from graphad.errors import InvalidValue, Refused
from graphad.ir import Builder, Graph, Op, Value
from graphad.ops import lookup
from graphad.ops.collective import shard_size
from graphad.ops.optimizer import SCALARS, SKIP
from graphad.passes.distribution.ranks import check_ranks
from graphad.program import OPTIMIZE, Variable, located
from graphad.rewriting import OnTrial, Pass
from graphad.types import Array

ALL_REDUCE = "c_allreduce_sum"
SHARD = "@SHARD"


@dataclass(frozen=True)
class ShardOptimizer(Pass):
    """Share out the optimizer's states, and its work, to ranks that have the same parameters (ZeRO, stages 1 and 2).

    The states begin with what the startup program gives them: each rank cuts out its shard in its first run, after which the whole ones
    may go (``graphad.distribution.free_whole``); ``whole_state`` puts shards together for a checkpoint.

    Args:
        ranks: how many there are.
        stage: 1: states; 2: and gradients, where nothing but the update reads the all-reduced one.
        ring: the ring that the ranks are in.

    Raises:
        Refused: no parameter is updated, or the shape of one is not known; an update is more than one of each element, as with norms.
        ValueError: ``ranks`` is below 1, or there is no such stage.
    """

    name = "shard-optimizer"
    on_trial = OnTrial(programs=("trainable",), after_backward=True)
    ranks: int = 2
    stage: int = 1
    ring: int = 0

    def __post_init__(self) -> None:
        check_ranks(self.name, self.ranks)
        if self.stage not in (1, 2):
            raise InvalidValue(f"stage is 1 or 2, not {self.stage}")

    @property
    def group(self) -> int:
        return self.ranks

    def apply(self, graph: Graph) -> bool:
        updates = [op for op in graph.ops if op.definition is not None and op.definition.state is not None]
        if self.ranks == 1 or not updates:
            return False
        for op in updates:
            _check(op)
        has_changed = False
        for op in updates:
            if graph.allows("shard", op):
                self._shard(graph, op)
                has_changed = True
        return has_changed

    def _shard(self, graph: Graph, op: Op) -> None:
        """Let an update work on shards."""
        definition, parameter, result = lookup(op.type), op.input("Param"), op.output("ParamOut")
        build = Builder(graph, f"{parameter.name}{SHARD}", before=op, role=OPTIMIZE, forward=op)
        place = {"nranks": self.ranks, "ring_id": self.ring}
        gradient = op.input("Grad")
        graph.set_inputs(op, "Grad", [self._gradient(gradient, build)])
        # A reduce-scatter took its place: nothing reads the whole sum any more.
        if not gradient.readers and gradient.writer is not None and gradient.writer.type == ALL_REDUCE and not graph.is_observed(gradient):
            graph.remove_op(gradient.writer)  # on every rank: each has its part of the sum
        graph.set_inputs(op, "Param", [lookup("c_shard")(build.symbol(parameter), **place).value])
        for slot, output in [(state.slot, state.output) for state in definition.state or () if state.output]:
            self._state(graph, op, slot, output)
        shard = graph.add_value(f"{parameter.name}{SHARD}@NEW", op.input("Param").shape, parameter.dtype)
        after = op.next
        graph.add_op("c_unshard", {"X": [shard]}, {"Out": [result]}, {"shape": list(parameter.shape or ()), **place}, after, OPTIMIZE, op)
        graph.set_outputs(op, "ParamOut", [shard])

    def _gradient(self, value: Value, build: Builder) -> Value:
        """This rank's part of a gradient; of the sum, where nothing else reads the all-reduced one."""
        writer = value.writer
        alone = len(value.readers) == 1 and not value.graph.is_observed(value)
        place = {"nranks": self.ranks, "ring_id": self.ring}
        if self.stage == 1 or not alone or writer is None or writer.type != ALL_REDUCE:
            shard: Value = lookup("c_shard")(build.symbol(value), **place).value
            return shard
        first = Builder(value.graph, build.stem, before=writer, role=writer.role, forward=writer)
        shard = lookup("c_shard")(first.symbol(writer.input("X")), reduce=True, **place).value
        return shard

    def _state(self, graph: Graph, op: Op, slot: str, output: str) -> None:
        """Let an update keep a shard of a state, which is cut out of the whole one in the first run."""
        state = op.input(slot)
        # Scalars such as the powers of beta are the same on all ranks.
        if state.shape != op.output("ParamOut").shape or prod(state.shape or ()) == 1:
            return
        name, block = f"{state.name}{SHARD}", graph.block
        shape = (shard_size(prod(state.shape or ()), self.ranks),)
        var = None if block is None else Variable(block, name, shape, state.dtype, persistable=True, stop_gradient=True)
        # Two versions of one persistable name: what is cut out, in the first run alone, and what the update leaves for the next run.
        first, last = (graph.add_version(name, shape, state.dtype, var) for _ in range(2))
        attrs = {"nranks": self.ranks, "ring_id": self.ring, "run_once": True}
        graph.add_op("c_shard", {"X": [state]}, {"Out": [first]}, attrs, op, OPTIMIZE, op)
        graph.set_inputs(op, slot, [first])
        graph.set_outputs(op, output, [last])


def _check(op: Op) -> None:
    parameter = op.input("Param")
    if parameter.shape is None or -1 in parameter.shape:
        raise Refused(located(f"{op!r}: the shape of {parameter.name!r} is not known", op.source))
    if not is_by_element(op):
        raise Refused(located(f"{op!r} computes more than each element by itself, as a norm, which a shard does not say", op.source))


def is_by_element(op: Op) -> bool:
    """Whether updating two parts equals updating the whole: tested on numbers."""
    definition, numbers = lookup(op.type), np.random.default_rng(0)
    # Six elements against two and four: an update with a norm in it (LAMB, LARS) gives other numbers. None is skipped.
    scalars = {slot for slot, values in op.inputs.items() if slot in SCALARS or (values and _is_number(values[0], op.input("Param")))}
    inputs = {slot: numbers.uniform(0.5, 1.0, 1 if slot in scalars else 6) for slot, values in op.inputs.items() if values and slot != SKIP}
    attrs = definition.own_attrs(op.attrs)

    def updated(begin: int, end: int) -> Array:
        slots = {slot: [array if slot in scalars else array[begin:end]] for slot, array in inputs.items()}
        return np.asarray(definition.run(slots, attrs, ["ParamOut"])["ParamOut"][0])

    return np.array_equal(updated(0, 6), np.concatenate([updated(0, 2), updated(2, 6)]))


def _is_number(value: Value, parameter: Value) -> bool:
    return prod(value.shape or ()) == 1 and value.shape != parameter.shape


__all__ = ["ShardOptimizer", "is_by_element"]
