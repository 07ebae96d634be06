"""Compute products of matrices and convolutions, and the operators between them, in a narrower type.

    x, w ─▶ mul ─▶ h, b ─▶ elementwise_add ─▶ y ─▶ softmax

      ⇒    x, w ─▶ cast ─▶ mul ─▶ h', b ─▶ cast ─▶ elementwise_add ─▶ y' ─▶ cast ─▶ y ─▶ softmax          narrow: h', y'

Products are narrow; operators that only follow (sums with a bias, relu, shapes) are where all they read is narrow already, or given;
everything else stays as wide as it was: exponentials, reductions, normalizations, losses, sums of gradients, updates. Parameters stay
wide, and are cast where they are used (P. Micikevicius et al., "Mixed precision training", 2018).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphad.errors import InvalidValue, Refused
from graphad.ir import Builder, Graph, GraphSymbol, Op, Value
from graphad.ir.edits import open_sealed
from graphad.ops import GradOpDef, lookup
from graphad.ops.loss_scaling import check_growth
from graphad.passes.analyses.proportional import keeps, proportional, readers_by_value
from graphad.program import BACKWARD, EMPTY
from graphad.rewriting import Pass, erase_if_dead
from graphad.types import TENSOR

# -- the scale of the loss -------------------------------------------------------------------------
# Scale the gradient that the backward part starts from, and undo that where gradients leave it.
#
# fill_constant{value=1} ─▶ loss@GRAD ─▶ ... ─▶ w@GRAD ─▶ sgd
#
#   ⇒    fill_constant{value=s} ─▶ loss@GRAD ─▶ ... ─▶ w@GRAD@SCALED ─▶ scale{1 / s} ─▶ w@GRAD ─▶ sgd
#
# The gradient of the loss itself leaves the backward part too where it is requested.

GRADIENT = "@GRAD"
SKIP = "SkipUpdate"  # the slot of an update that says whether the step is left out
GROWTH = ("incr_every_n_steps", "decr_every_n_nan_or_inf", "incr_ratio", "decr_ratio")


def scale_loss(graph: Graph, factor: float) -> bool:
    """Do so in a whole graph; return whether anything changed: a loss that is scaled already stays.

    Raises:
        Refused: there is no backward part that starts from constants of 1.
    """
    starts = _starts(graph)
    # Idempotent: a second run finds its own factor.
    if any(op.attrs["value"] == factor for op in starts):
        return False
    _check_unscaled(starts, f"by {factor}")
    leaving = _leaving(graph, proportional(graph, starts))
    if not graph.allows("scale-loss", *starts):
        return False
    for op in starts:
        graph.set_attr(op, "value", factor)
    for value, keeping in leaving.items():
        _unscale(graph, value, 1.0 / factor, keeping)
    return True


def _starts(graph: Graph) -> list[Op]:
    """The operators that fill in the gradients of losses."""
    starts = [op for op in graph.ops if _is_start(op)]
    if not starts:
        raise Refused("the loss cannot be scaled: the graph has no backward part that starts from the gradient of a loss")
    return starts


def _check_unscaled(starts: Sequence[Op], how: str) -> None:
    scales = [op.attrs["value"] for op in starts if op.attrs["value"] != 1.0]
    if scales:
        raise Refused(f"the loss cannot be scaled {how}: its gradient starts from {scales[0]}, not from 1")


def _leaving(graph: Graph, scaled: Collection[Value]) -> dict[Value, list[Op]]:
    """The scaled values that others need as they were, each with its readers that go on with the scaled one."""
    leaving = {}
    for value in scaled:
        keeping = [op for op in readers_by_value(value) if keeps(op, scaled)]
        if graph.is_observed(value) or len(keeping) < len(readers_by_value(value)):
            leaving[value] = keeping
    arrays = [value.name for value in leaving if value.kind != TENSOR]
    if arrays:
        raise Refused(f"the loss cannot be scaled: {arrays[0]!r}, which is no tensor, is used by more than the backward part")
    return leaving


def _is_start(op: Op) -> bool:
    if op.role != BACKWARD or op.definition is None or op.definition.fills != "value" or not op.attrs.get("value"):
        return False
    return GRADIENT in op.output("Out").name and "@TEMP@" not in op.output("Out").name


def _unscale(graph: Graph, value: Value, factor: float, keeping: Sequence[Op]) -> None:
    """Let the writer of a gradient write a scaled one, which ``keeping`` read, and make the gradient of that."""
    writer = value.writers[0]
    # The gradient keeps its name, for those that read it as it was; the scaled one is new.
    scaled_value = _add_scaled(value, keeping)
    graph.add_op("scale", {"X": [scaled_value]}, {"Out": [value]}, {"scale": factor}, before=writer.next, role=BACKWARD, forward=writer)
    graph.replace_output(writer, value, scaled_value)


def _add_scaled(value: Value, readers: Sequence[Op]) -> Value:
    """A new value for a gradient times the scale, which these operators read instead."""
    scaled_value = value.graph.add_value(f"{value.name}@SCALED", value.shape, value.dtype)
    scaled_value.grad_of = value.grad_of
    for reader in readers:
        value.graph.replace_input(reader, value, scaled_value)
    return scaled_value


# -- a scale that follows overflow -----------------------------------------------------------------
# The scale is a variable. Gradients that leave the backward part are checked together, and the scale of the next step depends on that.
#
# fill_constant{value=1} ─▶ loss@GRAD ─▶ ... ─▶ w@GRAD ─▶ adam
#
#   ⇒    fill_constant{value=1} ─▶ loss@GRAD, s ─▶ elementwise_mul ─▶ loss@GRAD@SCALED ─▶ ... ─▶ w@GRAD@SCALED
#        w@GRAD@SCALED, s ─▶ check_finite_and_unscale ─▶ w@GRAD@UNSCALED, found
#        w@GRAD@UNSCALED, found, s ─▶ update_loss_scaling ─▶ w@GRAD, s (new);     w@GRAD, found ─▶ adam
#
# So nothing is updated in a step in which any gradient has overflowed.


@dataclass(frozen=True)
class _Dynamic:
    """One graph with the values of the scale, and of the counts of good and bad steps."""

    graph: Graph
    options: MixedPrecision
    scale: Value
    good: Value
    bad: Value

    def run(self) -> bool:
        """Scale the loss, check what leaves the backward part; False if there is nothing to check."""
        graph, starts = self.graph, _starts(self.graph)
        _check_unscaled(starts, "dynamically")
        leaving = _leaving(graph, scaled_values := proportional(graph, starts))
        seeds = {op.output("Out"): op for op in starts}
        # What the backward part itself reads unscaled, gradients of gradients, is divided only: no check can be before all it checks.
        inner = {value: [op for op in readers_by_value(value) if op.role == BACKWARD and not keeps(op, scaled_values)] for value in leaving}
        checked_values = [
            v for v in leaving if v not in seeds and (graph.is_observed(v) or len(leaving[v]) + len(inner[v]) < len(readers_by_value(v)))
        ]
        other_readers = [
            op for value in checked_values for op in readers_by_value(value) if op not in leaving[value] and op not in inner[value]
        ]
        after = _reached(other_readers)
        if any(value.writers[0] in after for value in checked_values):
            raise Refused("the loss cannot be scaled dynamically: one gradient is computed from what another one has updated")
        if not checked_values or not graph.allows("scale-loss", *starts):
            return False
        for value, start in seeds.items():
            self._scale(value, start, [op for op in readers_by_value(value) if keeps(op, scaled_values)])
        scaled_by_value = {value: _add_scaled(value, leaving[value]) for value in leaving if value not in seeds}
        writers = {value: value.writers[0] for value in scaled_by_value}
        for value, scaled_value in scaled_by_value.items():
            if inner[value]:
                self._divide(value, scaled_value, writers[value], inner[value])
        self._check({value: scaled_by_value[value] for value in checked_values}, after)
        for value, writer in writers.items():
            self.graph.replace_output(writer, value, scaled_by_value[value])
        return True

    def _scale(self, seed: Value, start: Op, readers: Sequence[Op]) -> None:
        build = Builder(self.graph, seed.name, start.next, BACKWARD, start)
        scale = self._in(build, seed.dtype)
        factor = scale if seed.shape else lookup("squeeze")(scale, axes=[0])
        scaled_value = _add_scaled(seed, readers)
        inputs = {"X": [seed], "Y": [factor.value]}
        self.graph.add_op("elementwise_mul", inputs, {"Out": [scaled_value]}, before=start.next, role=BACKWARD, forward=start)

    def _in(self, build: Builder, dtype: str | None) -> GraphSymbol:
        scale = build.symbol(self.scale)
        result: GraphSymbol = scale if self.scale.dtype == dtype else lookup("cast")(scale, out_dtype=dtype)
        return result

    def _divide(self, value: Value, scaled_value: Value, writer: Op, readers: Sequence[Op]) -> None:
        build = Builder(self.graph, value.name, writer.next, BACKWARD, writer)
        factor = self._in(build, value.dtype)
        unscaled = (build.symbol(scaled_value) / (factor if value.shape else lookup("squeeze")(factor, axes=[0]))).value
        for reader in readers:
            self.graph.replace_input(reader, value, unscaled)

    def _check(self, scaled_by_value: Mapping[Value, Value], after: Collection[Op]) -> None:
        """Check the scaled gradients, and let what is ``after`` that, as far as it updates parameters, skip the step of an overflow."""
        graph, options = self.graph, self.options
        # After the last scaled gradient: one overflow in any of them skips the step of all.
        last = [op for op in graph.ordered_ops() if any(v in op.writes() for v in scaled_by_value)][-1]
        unscaled = [graph.add_value(f"{value.name}@UNSCALED", value.shape, value.dtype) for value in scaled_by_value]
        flag = graph.add_value(f"{self.scale.name}@FOUND_INFINITE", (1,), "bool")
        inputs = {"X": [*scaled_by_value.values()], "Scale": [self.scale]}
        placement: Any = {"before": last.next, "role": BACKWARD, "forward": last}
        graph.add_op("check_finite_and_unscale", inputs, {"Out": unscaled, "FoundInfinite": [flag]}, **placement)
        counts = {"PrevLossScaling": [self.scale], "InGoodSteps": [self.good], "InBadSteps": [self.bad]}
        next_ones = [graph.add_version(v.name, v.shape, v.dtype, v.var) for v in (self.scale, self.good, self.bad)]
        outputs = dict(zip(("LossScaling", "OutGoodSteps", "OutBadSteps"), ([v] for v in next_ones), strict=True))
        attrs = {name: getattr(options, name) for name in GROWTH}
        inputs = {"X": unscaled, "FoundInfinite": [flag], **counts}
        graph.add_op("update_loss_scaling", inputs, {"Out": [*scaled_by_value], **outputs}, attrs, **placement)
        for op in after:
            if op.definition is not None and SKIP in op.definition.inputs and not op.inputs.get(SKIP):
                graph.set_inputs(op, SKIP, [flag])
                self._hold_back(op, flag)

    def _hold_back(self, update: Op, found: Value) -> None:
        """Let what another operator advances after an update (powers of beta) stay too where that skips the step."""
        definition, graph = update.definition, self.graph
        for power in [update.input(state.slot) for state in (definition and definition.state) or () if state.factor]:
            versions = graph.versions(power.name)
            if power is versions[-1]:
                continue
            # Paddle's Adam advances the powers by operators after the update: their results are held back by the same flag.
            new = versions[versions.index(power) + 1]
            writer = new.writers[0]
            advanced = graph.add_value(f"{power.name}@ADVANCED", new.shape, new.dtype)
            inputs = {"Condition": [found], "X": [power], "Y": [advanced]}
            graph.add_op("where", inputs, {"Out": [new]}, before=writer.next, role=writer.role, forward=writer)
            self.graph.replace_output(writer, new, advanced)


def _reached(ops: Sequence[Op]) -> dict[Op, None]:
    """The operators, and all that depend on them, in this order."""
    result, stack = dict.fromkeys(ops), [*ops]
    while stack:
        for reader in [reader for value in stack.pop().writes() for reader in value.readers]:
            if reader not in result:
                result[reader] = None
                stack.append(reader)
    return result


# -- the pass --------------------------------------------------------------------------------------

WIDE = {"float16": "float32", "float32": "float64"}  # narrow type -> the one it replaces


@dataclass(frozen=True)
class MixedPrecision(Pass):
    """Compute products in a narrower floating-point type, with casts around them.

    Run it before the backward is built, or after: grad operators are narrow where their forward operators would be. Values round to
    the narrow type, about 1e-3 relative in float16, and more after sums that cancel; what exceeds 65504 becomes infinite there.

    Args:
        dtype: the narrow type: float16 for float32 values, or float32 for float64 values.
        keep: types of operators, or names of values whose writers, that stay wide.
        loss_scale: what the gradient of the loss starts from, so that small gradients do not become zero; gradients are divided by
            it where they leave the backward part, which has to be there. A power of two changes nothing else.
        dynamic_loss_scale: whether the scale is a variable instead, which falls when gradients overflow and rises when they do not
            for long; updates of parameters that are in the graph skip a step with overflow. ``graphad.optimizer.decorate`` declares what
            that takes.
        loss_scaling, good_steps, bad_steps: the names of the scale, one float32, and of two counts of steps, each one int32.
        incr_every_n_steps, incr_ratio, decr_every_n_nan_or_inf, decr_ratio: after how many steps in sequence without overflow, or with,
            the scale is multiplied by which number.

    Raises:
        Refused: there is a loss scale, and no backward part with a loss; or the program does not declare the variables of a dynamic one.
        ValueError: ``dtype`` is not a narrow type, the scale is not above 0, or there are both a number and a dynamic scale.
    """

    name = "mixed-precision"
    tolerance = 2e-2
    idempotent = True
    dtype: str = "float16"
    keep: tuple[str, ...] = ()
    loss_scale: float = 1.0
    dynamic_loss_scale: bool = False
    loss_scaling: str = "loss_scaling_0"
    good_steps: str = "num_good_steps_0"
    bad_steps: str = "num_bad_steps_0"
    incr_every_n_steps: int = 1000
    incr_ratio: float = 2.0
    decr_every_n_nan_or_inf: int = 2
    decr_ratio: float = 0.8

    def __post_init__(self) -> None:
        if self.dtype not in WIDE:
            raise InvalidValue(f"mixed-precision knows the narrow types {', '.join(WIDE)}, not {self.dtype}")
        if not self.loss_scale > 0.0:
            raise InvalidValue(f"a loss is scaled by a number above 0, not by {self.loss_scale}")
        if self.dynamic_loss_scale and self.loss_scale != 1.0:
            raise InvalidValue(f"the loss is scaled by {self.loss_scale}, or dynamically: give one of both")
        check_growth(*(getattr(self, name) for name in GROWTH))

    def apply(self, graph: Graph) -> bool:
        has_scaled = (
            self._scale_dynamically(graph) if self.dynamic_loss_scale else self.loss_scale != 1.0 and scale_loss(graph, self.loss_scale)
        )
        is_opened = open_sealed(graph)
        return any([_Narrowing(subgraph, self).run() for subgraph in graph.tree()]) or has_scaled or is_opened

    def _scale_dynamically(self, graph: Graph) -> bool:
        names = (self.loss_scaling, self.good_steps, self.bad_steps)
        absentees = [
            name for name in names if not graph.versions(name) and (graph.block is None or not graph.block.has_var_recursive(name))
        ]
        if absentees:
            raise Refused(
                f"the loss cannot be scaled dynamically: the program declares no {absentees[0]!r}; optimizer.decorate declares it"
            )
        scale, good, bad = map(graph.given, names)
        # Idempotent: what a first run has scaled ends in a new scale.
        return not scale.writers and _Dynamic(graph, self, scale, good, bad).run()


@dataclass
class _Narrowing:
    """One graph: ``uncast`` has the narrow value that a wide one was cast from, ``cast`` the one it was cast to."""

    graph: Graph
    options: MixedPrecision
    uncast: dict[Value, Value] = field(default_factory=dict)
    cast: dict[Value, Value] = field(default_factory=dict)
    made: list[Op] = field(default_factory=list)

    def run(self) -> bool:
        """Go through the operators in order; casts that are unused in the end are removed."""
        has_changed = False
        # Forward in order: whether an operator follows depends on what its operands have become.
        for op in self.graph.ordered_ops():
            if op.definition is not None and op.definition.converts:
                self._remember(op)
            elif self._is_narrow(op):
                if not self.graph.allows("narrow", op):
                    break
                self._narrow(op)
                has_changed = True
        for op in reversed(self.made):
            erase_if_dead(op)
        return has_changed

    def _remember(self, op: Op) -> None:
        """A cast that is there already widens a value."""
        (x,), (out,) = op.reads(), op.writes()
        if x.dtype == self.options.dtype and self._is_wide(out) and not any(out.gradient_marks):
            self.uncast[out] = x

    # -- which operators -------------------------------------------------------------------------

    def _is_narrow(self, op: Op) -> bool:
        """Whether an operator is to compute in the narrow type."""
        definition, wide_operands = op.definition, [value for value in op.reads() if self._is_wide(value)]
        if definition is None or op.graphs or not wide_operands:
            return False
        # A gradient is as narrow as its forward operator, so that cotangents have the dtypes of their values.
        forward = definition.forward if isinstance(definition, GradOpDef) and definition.forward is not None else definition
        names = self.options.keep
        if forward.type in names or any(value.name in names for value in op.writes()):
            return False
        return forward.narrow == "gains" or (forward.narrow == "follows" and self._follows(wide_operands))

    def _is_wide(self, value: Value) -> bool:
        return value.dtype == WIDE[self.options.dtype] and value.kind == TENSOR

    def _follows(self, wide: list[Value]) -> bool:
        narrow = [value for value in wide if value in self.uncast]
        return bool(narrow) and all(value in self.uncast or value.persistable for value in wide)

    # -- rewriting -------------------------------------------------------------------------------

    def _narrow(self, op: Op) -> None:
        """Let an operator read and write narrow values; what it wrote is cast from those."""
        for slot, values in list(op.inputs.items()):
            if any(map(self._is_wide, values)):
                self.graph.set_inputs(op, slot, [self._narrowed(v, op) if self._is_wide(v) else v for v in values])
        # All casts of results come after the operator, in the order of the slots.
        after = op.next
        for slot, values in list(op.outputs.items()):
            if any(self._is_wide(v) and v.name != EMPTY for v in values):
                self.graph.set_outputs(op, slot, [self._widened(v, op, after) if self._is_wide(v) else v for v in values])

    def _narrowed(self, value: Value, before: Op) -> Value:
        """A value in the narrow type: what it was cast from, else a cast of it, which is made once."""
        narrow = self.uncast.get(value) or self.cast.get(value)
        if narrow is None:
            narrow = self.cast[value] = self._fresh(value)
            self._add_cast(value, narrow, before, before)
        return narrow

    def _widened(self, value: Value, writer: Op, before: Op | None) -> Value:
        """The narrow value that an operator writes instead; the old one is cast from it, and read where gradients stop or are clipped."""
        if value.name == EMPTY:
            return value
        narrow = self._fresh(value)
        # Reading the narrow value instead of the cast would let gradients flow past the mark, or unclipped.
        if not any(value.gradient_marks):
            self.uncast[value] = narrow
        self.made.append(self._add_cast(narrow, value, writer, before))
        return narrow

    def _fresh(self, value: Value) -> Value:
        return self.graph.add_value(f"{value.name}@{self.options.dtype.upper()}", value.shape, self.options.dtype)

    def _add_cast(self, x: Value, out: Value, of: Op, before: Op | None) -> Op:
        attrs = {"in_dtype": x.dtype, "out_dtype": out.dtype}
        return self.graph.add_op("cast", {"X": [x]}, {"Out": [out]}, attrs, before=before, forward=of)
