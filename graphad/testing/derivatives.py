"""Gradients by the standard backward and slopes by central differences, and where neither decides anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

import numpy as np

from graphad.backward import append_gradients
from graphad.errors import GraphadError
from graphad.ir import Graph, Op, Value, lower
from graphad.ops import REGISTRY, ControlDef, GradOpDef, OpDef, lookup
from graphad.ops.definition import GRAD
from graphad.passes.backward import GradOps
from graphad.passes.backward.find_op_path import source_value
from graphad.program import FORWARD, Block, Operator, Program
from graphad.rewriting import claims_checked, verification
from graphad.testing.cases import FLOAT16, NARROW, WIDE, Case, retyped
from graphad.testing.equivalence import Stepwise, observe
from graphad.testing.watched import run_perturbed, watch
from graphad.types import FLOATS, TENSOR, Array

# Gradients three ways: those that a graph holds, those of the standard backward, and central differences.

STEP = 1e-5  # of a difference; the error of a central one is about STEP ** 2
SMOOTH = 1e-4  # by how much the slopes to the left and to the right may differ where a function is taken for smooth
STEADY = 1e-6  # and those of two steps
ROUNDED_UNITS = (1, 2, 3, 5, 8, 10, 13, 17, 21, 26, 30, 32)  # in the last place: arrays move by so many
ROUNDED_RESULTS = (1, 2)  # and results of operators by so many
_IRRATIONAL = 1e3 * (math.sqrt(5.0) - 1.0)  # the fractional parts of its multiples are spread evenly over [0, 1)
ROOT = math.sqrt(FLOAT16)  # products of two numbers below it fit into float16
FAR = 1e50  # a gradient multiplies numbers of a program: with larger ones, or smaller than 1 / FAR, it may be 0 where it should not


def gradients_in(graph: Graph, sources: Iterable[str]) -> dict[str, Value]:
    """The values that are the gradients of some names, as far as passes have made them; each is the only value of its name then."""
    gradients = {name: value for name in sources if (value := _gradient_in(graph, name)) is not None and value.writers}
    for value in gradients.values():
        for version in graph.versions(value.name):
            if version is not value:
                # Later passes find the gradient by its name, and must not find an earlier version.
                graph.rename(version, graph.values.numbered(value.name, "{}_{}"))
    return gradients


def _gradient_in(graph: Graph, name: str) -> Value | None:
    versions = graph.versions(name)
    if not versions:
        return None
    grad_ops: GradOps | None = graph.analyses.get(GradOps)
    if grad_ops is not None:
        return grad_ops.gradient.get(source_value(graph, name))
    gradients = graph.versions(f"{name}{GRAD}")
    is_declared = graph.block is not None and graph.block.has_var(f"{name}{GRAD}")
    alone = len(gradients) > 0 and len(versions) == 1 and gradients[-1].grad_of in (None, versions[0])  # not of one that is gone
    return gradients[-1] if alone and not is_declared else None


@dataclass(frozen=True)
class GradientProgram:
    """A program with the standard backward of its loss, to be run on several arrays.

    Attributes:
        program: a copy of the program, with the gradients.
        case: what it is run on.
        names: the names of the gradients, by the source's.
    """

    program: Program
    case: Case
    names: dict[str, str]

    @classmethod
    def of(cls, program: Program, case: Case, sources: Iterable[str], clip_errors: bool = False) -> GradientProgram:
        """The gradients of a case's loss with respect to some names, as far as there are any; the program stays as it is."""
        block = program.global_block()
        differentiable = Case(program, case.loss_name, case.feeds, case.params).sources
        names = [name for name in sources if block.has_var(name) and name in differentiable]
        # What the loss does not need would be differentiated in vain, and run. A random operator's stream may depend on others, and which
        # value of an overwritten name is meant may, too.
        is_whole = _draws(program) or not {name for op in block.ops for name in op.output_names()}.isdisjoint(names)
        copy = program.clone() if is_whole else program.prune([case.loss_name, *names])
        block = copy.global_block()
        with verification(False), claims_checked(False):
            clips = clip_errors and any(var.error_clip is not None for var in copy.list_vars())
            results = append_gradients([block.var(case.loss_name)], [block.var(name) for name in names], clip_errors=clips)
        return cls(copy, case, {source: g.name for source, g in zip(names, results, strict=True) if g is not None})

    def on(self, feeds: dict[str, Array], params: dict[str, Array]) -> dict[str, Array]:
        """The gradients where the arrays are these; a name without one is left out."""
        values = observe(self.program, replace(self.case, feeds=feeds, params=params), list(self.names.values())).values
        return {source: values[name] for source, name in self.names.items() if name in values}


def _draws(program: Program) -> bool:
    """Whether an operator of a program draws random numbers."""
    definitions = (REGISTRY.get(op.type) for block in program.blocks for op in block.ops)
    return any(isinstance(definition, OpDef) and definition.random for definition in definitions)


def gradient_values(program: Program, case: Case, sources: list[str], clip_errors: bool = False) -> dict[str, Array]:
    """The gradients of the loss by the standard backward, zeros where there is none; the program stays as it is.

    With ``clip_errors`` they are bounded on their way by the ``error_clip`` of variables.
    """
    arrays = {**case.feeds, **case.params}
    values = GradientProgram.of(program, case, sources, clip_errors).on(case.feeds, case.params)
    return {name: values[name] if name in values else np.zeros_like(arrays[name]) for name in sources}


def rounding_noise(program: Program, case: Case, source: str, unit: float = 0.0, pattern: int = 0) -> Iterator[float]:
    """The change of a gradient when all arrays move by some units in the last place, away from zero first, then towards it.

    With ``unit`` they move by so much, relatively, if that is more: a program that computes in a narrower type rounds by more. With a
    ``pattern`` above 0 arrays stay, and every result that an operator computes moves, half of them the one and half the other way
    (D. S. Parker, Monte Carlo Arithmetic, 1997): sums that cancel by chance for the arrays as they are do so no more.

    A gradient that is the small difference of large terms consists of their rounding errors, and moves by as much as they are. Equal
    elements and zeros stay what they are, and so does the branch taken at a tie or at a kink at 0; at another kink, a gradient moves
    in one of the two directions only.

    Yields:
        For each direction the largest change of an element; infinite where there is no finite gradient, and none where the program
        stops the gradient, wherever the arrays are.
    """
    with_gradients = GradientProgram.of(program, case, [source])
    if source not in with_gradients.names:
        yield 0.0
        return
    # The gradient where the arrays are: a change is measured from it.
    base = with_gradients.on(case.feeds, case.params).get(source)
    # Both ways: a gradient may be steady on one side of a kink.
    for way in (1, -1):
        noise = 0.0
        for units in ROUNDED_RESULTS if pattern else ROUNDED_UNITS:
            try:
                moved = _moved(with_gradients, case, way * units, unit, pattern).get(source)
            except GraphadError:
                moved = None
            is_finite = base is not None and moved is not None and moved.shape == base.shape and bool(np.isfinite(moved).all())
            # An error, another shape or an infinity is more than any noise.
            noise = max(noise, float(np.abs(moved - base).max(initial=0.0)) if is_finite else np.inf)  # type: ignore[operator]
        yield noise


def _moved(with_gradients: GradientProgram, case: Case, units: int, unit: float, pattern: int) -> dict[str, Array]:
    """The gradients where arrays, or with a pattern results, are so many units in the last place away."""
    if pattern:
        names = list(with_gradients.names.values())
        values = run_perturbed(with_gradients.program, case, names, lambda array: _scaled(array, units, unit, pattern))
        return {source: values[name] for source, name in with_gradients.names.items() if name in values}
    feeds, params = ({name: _scaled(array, units, unit) for name, array in arrays.items()} for arrays in (case.feeds, case.params))
    return with_gradients.on(feeds, params)


def _scaled(array: Array, units: int, least: float, pattern: int = 0) -> Array:
    """The array with its floating-point numbers so many units in the last place, or so many times the least, away from zero.

    With a pattern, half of them move towards zero: which ones depends on a number's size alone, so that equal ones stay equal.
    """
    if array.dtype.kind != "f":
        return array
    with np.errstate(all="ignore"):
        ways = np.where(np.modf(np.abs(array).astype(WIDE) * (pattern * _IRRATIONAL))[0] < 0.5, -1.0, 1.0) if pattern else 1.0
        # Relative: each number moves by as many units of its own last place.
        return np.asarray(array * (1 + ways * (units * max(np.finfo(array.dtype).eps, least))), array.dtype)


def is_forward(program: Program) -> bool:
    """Whether a program has no backward and no updates."""
    return all(op.role == FORWARD for block in program.blocks for op in block.ops)


ROUNDED = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}  # by how much numbers may differ that are rounded in another way


def roundings(program: Program) -> float:
    """The least tolerance of results that may be rounded: what the narrowest of a program's dtypes needs."""
    return max((ROUNDED.get(str(var.dtype), 0.0) for var in program.list_vars() if var.type == TENSOR), default=0.0)


def is_double(program: Program) -> bool:
    """Whether all floating-point tensors of a program are float64."""
    return not any(var.dtype in ("float16", "bfloat16", "float32") for var in program.list_vars() if var.type == TENSOR)


# -- differences ---------------------------------------------------------------------------------


def can_difference(program: Program) -> bool:
    """Whether the loss's gradient is what differences give: nothing in 16 bits, and no gradient stopped in a block or defined otherwise.

    Values of block 0 may be stopped, and be float32: see ``differenced``.
    """
    if not is_forward(program) or any(var.dtype in ("float16", "bfloat16") for var in program.list_vars() if var.type == TENSOR):
        return False
    return all(_can_difference(block, op) for block in program.blocks for op in block.ops)


def _can_difference(block: Block, op: Operator) -> bool:
    definition, stopped_names = lookup(op.type), _stopped(block, op)
    # A stopped value within a block would have to be noted for each of its runs.
    if stopped_names and (block.idx or any(block.var(name).type != TENSOR for name in stopped_names)):
        return False
    if isinstance(definition, ControlDef):
        return True
    # What a gradient leaves out, a difference would see: side results that are read have no cotangent.
    if definition.grads is None or any(map(op.attrs.get, NO_SLOPE)) or any(_is_read(block, name) for name in side_results(op, definition)):
        return False
    # Floats without a slope, such as indices as floats, may be read only if nothing moves them.
    without = (name for slot in op.inputs if not has_slope(definition, slot) for name in op.input(slot) if _is_float(block, name))
    return all(block.var_recursive(name).stop_gradient for name in without) or not any(_is_float(block, n) for n in op.output_names())


def _is_read(block: Block, name: str) -> bool:
    """Whether a name holds numbers that any operator reads."""
    is_empty = 0 in (block.var_recursive(name).declared[0] or ()) if block.has_var_recursive(name) else True
    return not is_empty and _is_float(block, name) and any(name in op.input_names() for b in block.program.blocks for op in b.ops)


def side_results(op: Operator, definition: OpDef) -> Iterator[str]:
    """The results of an operator through which no gradient flows, such as ``Alpha`` of a CRF; none if no rule reads a cotangent."""
    cotangents = {slot for rule in (definition.grads or {}).values() for slot in rule.reads if slot.endswith(GRAD)}
    if cotangents:
        yield from (name for slot in definition.outputs if slot + GRAD not in cotangents for name in op.output(slot))


# With these attributes an operator's gradient is not its slope: that of what it approximates, and warpctc's divided by the steps.
NO_SLOPE = ("straight_through", "norm_by_times")


def has_slope(definition: OpDef, slot: str) -> bool:
    """Whether an operator has a gradient with respect to an input, or reads nothing but its shape."""
    return slot in (definition.grads or ()) or slot in definition.shapes


def _is_float(block: Block, name: str) -> bool:
    return block.has_var_recursive(name) and getattr(block.var_recursive(name), "dtype", None) in FLOATS


def _stopped(block: Block, op: Operator) -> list[str]:
    """The floating-point results of an operator that stop gradients."""
    names = [name for name in op.output_names() if _is_float(block, name)]
    return [name for name in names if block.var_recursive(name).stop_gradient]


def differenced(case: Case) -> Case:
    """The case of which differences are taken: ``frozen``, and in float64, in which a small step is seen.

    Raises:
        GraphadError: it does not run.
    """
    # In float32 a step that is small enough to be a derivative is lost in rounding.
    return frozen(case if is_double(case.program) else retyped(case.clone(), NARROW, WIDE))


def frozen(case: Case) -> Case:
    """The case with the values of block 0 that stop gradients kept as they are, whatever they are computed from.

    Raises:
        GraphadError: it does not run.
    """
    block = case.program.global_block()
    if not any(_stopped(block, op) for op in block.ops):
        return case
    # First a run that notes what the values are, then the case in which they are fed.
    recording, names = _with_each_stopped(case.program, noting=True)
    values = observe(recording, case, names).values
    return replace(case, program=_with_each_stopped(case.program, noting=False)[0], feeds={**case.feeds, **values})


def _with_each_stopped(program: Program, noting: bool) -> tuple[Program, list[str]]:
    """A copy in which each stopped value of block 0 is noted under a name of its own, or taken from that name; and these names."""
    copy = program.clone()
    block, names = copy.global_block(), list[str]()
    for op in list(block.ops):
        for name in _stopped(block, op):
            var = block.var(name)
            names.append(block.create_var(name=f"{name}@STOPPED@{len(names)}", shape=var.shape, dtype=var.dtype).name)
            # After the operator that writes it, or in its place: readers see the same name either way.
            x, out = (name, names[-1]) if noting else (names[-1], name)
            block.ops.insert(block.ops.index(op) + 1, Operator(block, "assign", {"X": [x]}, {"Out": [out]}, {}))
    return copy, names


def slope(
    case: Case, direction: dict[str, Array], agrees: Callable[[float], bool] = lambda central: False, steps: Stepwise | None = None
) -> float | None:
    """The derivative of the loss along a direction by central differences; None where it is not smooth, or not finite.

    The differences to both sides, and those with twice the step, have to agree: at a kink, or where rounding prevails, they don't.
    A difference that ``agrees`` with what was expected is taken as it is: only a disagreement may be due to a kink. ``steps`` are
    the case's program, prepared to be run.
    """
    steps = steps or Stepwise(case.program, [case.loss_name])
    # The cheap answer first: two runs, and three more only if they disagree.
    below, above = (_loss_at(steps, case, direction, n * STEP) for n in (-1, 1))
    # (f(x + h) - f(x - h)) / 2 h = f'(x) + O(h^2).
    central = (above - below) / (2 * STEP)
    if agrees(central):
        return central
    back, middle, beyond = (_loss_at(steps, case, direction, n * STEP) for n in (-2, 0, 2))
    # At a kink the sides differ; twice the step shows where rounding, which grows as 1 / h, or curvature outweighs the slope.
    right, left, wide = (above - middle) / STEP, (middle - below) / STEP, (beyond - back) / (4 * STEP)
    scale = 1 + abs(central)
    # Not smooth here: one side differs from the other, or the step matters.
    if not np.isfinite([right, left, wide]).all() or abs(right - left) > SMOOTH * scale or abs(wide - central) > STEADY * scale:
        return None
    return float(central)


def keeping_ties(arrays: Mapping[str, Array], random: np.random.Generator) -> dict[str, Array]:
    """A direction along which equal numbers move equally, and zeros do not move; empty where no two nonzero numbers are equal.

    A maximum of equal elements has no slope along most directions, but along this one it has. A gradient gives the two parts of it in
    any shares: of the composition, all rules that choose give the same along a curve on which every tie stays one (J. Bolte and
    E. Pauwels, Conservative set valued fields, Mathematical Programming, 2021).
    """
    numbers = np.concatenate([np.ravel(array).astype(WIDE) for array in arrays.values()])
    values, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    if not (counts[values != 0] > 1).any():
        return {}
    ways = np.where(values == 0, 0.0, np.round(random.uniform(-1, 1, values.shape), 3))[places.reshape(-1)]
    ends = np.cumsum([array.size for array in arrays.values()])
    parts = np.split(ways, ends[:-1])
    return {name: part.reshape(array.shape) for (name, array), part in zip(arrays.items(), parts, strict=True)}


def is_in_range(case: Case, least: float = 1 / FAR, most: float = FAR) -> bool:
    """Whether all numbers that a program computes, in its blocks too, are in a range, or 0, or not finite.

    With the usual range, products of a few of them are neither infinite nor rounded to 0. The gradient of ``1 / (1 / x)`` is 1; at
    1e-300 it is computed as 0, and a difference, whose step is larger, does not see that.
    """
    holds = [True]

    def see(value: Value, array: object) -> None:
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            # Zeros and infinities are exact in any computation.
            size = np.abs(array[np.isfinite(array) & (array != 0)]).astype(WIDE)  # in which the ends of the range fit
            holds[0] &= bool(((size <= most) & (size >= least)).all())

    watch(lower(case.program), case, see)
    return holds[0]


def has_whole_ties(case: Case) -> bool:
    """Whether an extremum has several places in a run, each of which gets the whole cotangent: together more than the slope."""
    operands, found = dict[Value, Array](), False

    def see(value: Value, array: object) -> None:
        nonlocal found
        if not isinstance(array, np.ndarray):
            return
        if any(_gives_whole_ties(op) for op in value.readers):
            operands[value] = array.copy()
        for op in value.writers:
            if _gives_whole_ties(op) and (x := operands.get(op.input("X"))) is not None:
                cotangent = {"Out": [array], "Out@GRAD": [np.ones_like(array)]}
                (gradient,) = lookup(f"{op.type}_grad").run({"X": [x], **cotangent}, op.attrs, ["X@GRAD"])["X@GRAD"]
                found |= int(np.count_nonzero(gradient)) > array.size

    watch(lower(case.program), case, see)
    return found


def _gives_whole_ties(op: Op) -> bool:
    definition = REGISTRY.get(op.type)
    return isinstance(definition, OpDef) and definition.has_whole_ties(op.attrs)


def overflows_float16(case: Case) -> bool:
    """Whether an operator that may be computed in a narrow type gives, of numbers that float16 holds, finite ones that it does not."""
    found, beyond, large = False, set[Value](), set[Value]()

    def see(value: Value, array: object) -> None:
        nonlocal found
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
            return
        most = np.abs(array).max(initial=0.0, where=np.isfinite(array))
        if most > ROOT:
            large.add(value)
        if most > FLOAT16:
            # A writer that read what is too large already is not the one that went too far.
            found |= any(beyond.isdisjoint(op.reads()) and _may_go_beyond(op, large) for op in value.writers)
            beyond.add(value)

    watch(lower(case.program), case, see)
    return found


def _may_go_beyond(op: Op, large: Set[Value]) -> bool:
    """Whether an operator that may be narrow can rightly give more than float16 holds; ``large`` are the values above the root of that."""
    definition = REGISTRY.get(op.type)
    # A gradient is as narrow as its forward operator.
    definition = definition.forward if isinstance(definition, GradOpDef) else definition
    narrow = definition.narrow if isinstance(definition, OpDef) else ""
    # A product of matrices adds up many products, an operator that follows gives at most one of two numbers. Of small ones that is small:
    # an exponential of them, which is not, must not be narrow, whatever its definition says.
    return narrow == "gains" or (narrow == "follows" and not large.isdisjoint(op.reads()))


def is_normal(case: Case) -> bool:
    """Whether all numbers that a program computes are 0, not finite, or held in full: numbers below the smallest normal one lose digits."""
    holds = [True]

    def see(value: Value, array: object) -> None:
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            holds[0] &= not bool(((array != 0) & (np.abs(array) < np.finfo(array.dtype).tiny)).any())

    watch(lower(case.program), case, see)
    return holds[0]


def _loss_at(steps: Stepwise, case: Case, direction: dict[str, Array], distance: float) -> float:
    arrays = {name: array + distance * direction[name] for name, array in {**case.feeds, **case.params}.items() if name in direction}
    moved_case = Case(
        case.program,
        case.loss_name,
        {**case.feeds, **{n: a for n, a in arrays.items() if n in case.feeds}},
        {**case.params, **{n: a for n, a in arrays.items() if n in case.params}},
    )
    try:
        value = steps.run(moved_case).values.get(case.loss_name)
    except GraphadError:  # what was moved is a label, or another number that has to be one of a few
        return float("nan")
    return float("nan") if value is None else float(np.sum(value))
