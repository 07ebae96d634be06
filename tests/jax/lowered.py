"""Each operator on XLA: its samples under jit, values and gradients, against numpy's kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from graphad.jax import Bounded
from graphad.jax.operators import run
from graphad.jax.registry import FORMS
from graphad.jax.stacks import Buffer
from graphad.ops import REGISTRY, ControlDef, OpDef
from graphad.ops.aggregates import Aggregate
from graphad.ops.definition import GradOpDef
from graphad.ops.sample import Sample
from graphad.testing.samples import samples_of
from tests.jax.programs import QUICK

RTOL, ATOL = 1e-6, 1e-9


@dataclass
class Row:
    """One operator on XLA.

    Attributes:
        known: the input slots that have to be known when a program is compiled.
        why: why it is not lowered; empty if it is.
        values, gradients: how many arrays were compared.
    """

    op: str
    form: bool
    known: set[str] = field(default_factory=set)
    why: str = ""
    values: int = 0
    gradients: int = 0


def operators() -> list[OpDef]:
    """All operators but those with blocks, the gradients of others, and the random ones, which are tested by their streams."""
    return [d for _, d in sorted(REGISTRY.items()) if not isinstance(d, GradOpDef | ControlDef) and not d.random]


def checked(definitions: Sequence[OpDef], most: int | None = None, quick: bool = False, dtype: str = "float64") -> list[Row]:
    """Run samples of operators on numpy and under jit, all in one compiled function, and compare; AssertionError if they differ.

    Args:
        most: how many samples of each operator.
        quick: compile for speed of compilation.
        dtype: what numbers of float64 become in the samples.
    """
    rows = [Row(d.type, d.kernel in FORMS or d.function in FORMS) for d in definitions]
    work = [part for definition, row in zip(definitions, rows, strict=True) for part in _work(definition, row, most, dtype)]
    compiled = jax.jit(
        lambda all_: [part.job.outputs(_joined(part.hole, given)) for part, given in zip(work, all_, strict=True)],
        compiler_options=QUICK if quick else None,
    )
    for part, result in zip(work, compiled([part.leaves for part in work]), strict=True):
        count = _compare(part.job, result)
        if part.job.is_gradient:
            part.row.gradients += count
        else:
            part.row.values += count
    return rows


class Part(NamedTuple):
    """One call: the arrays that are traced, and the slots that they are put into."""

    row: Row
    job: Job
    leaves: list[Any]
    hole: Any


def _work(definition: OpDef, row: Row, most: int | None, dtype: str) -> list[Part]:
    parts = []
    for sample in samples_of(definition.type)[:most]:
        sample = replace(sample, inputs={slot: jax.tree.map(lambda x: _in_dtype(x, dtype), value) for slot, value in sample.inputs.items()})
        for job in _jobs(definition, sample):
            try:
                parts.append(Part(row, job, *_split(job, row)))
            except Exception as error:  # whatever tracing makes of a kernel
                row.why = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                return []
    return parts


def _in_dtype(value: Any, dtype: str) -> Any:
    return value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value


@dataclass
class Job:
    """One call of a definition."""

    definition: OpDef
    slots: dict[str, list[Any]]
    attrs: dict[str, Any]
    wanted: list[str]
    expected: dict[str, list[Any]]
    is_gradient: bool = False

    def outputs(self, slots: dict[str, list[Any]]) -> Any:
        """The results of the operator on XLA, as arrays."""
        made = run(self.definition, slots, self.attrs, self.wanted)
        return [jax.tree.map(jnp.asarray, made[slot]) for slot in self.wanted]


def _jobs(definition: OpDef, sample: Sample) -> Iterator[Job]:
    slots = sample.slots()
    attrs = definition.own_attrs(sample.attrs)
    with np.errstate(all="ignore"):
        made = definition.run(slots, attrs, list(definition.outputs))
    wanted = [slot for slot in definition.outputs if all(value is not None for value in made[slot])]
    yield Job(definition, slots, attrs, wanted, made)
    if definition.grad is not None and all(_is_float(v) for slot in (sample.outputs or ()) for v in made[slot]):
        job = _gradient(definition, definition.grad, sample, slots, made, attrs)
        if job is not None:
            yield job


def _is_float(value: Any) -> bool:
    return isinstance(value, Aggregate) or np.asarray(value).dtype.kind == "f"


def _gradient(definition: OpDef, grad: GradOpDef, sample: Sample, slots: Any, made: Any, attrs: Any) -> Job | None:
    given = {slot: (slots if side == "inputs" else made).get(slot) for slot, side in grad.given}
    rng = np.random.default_rng(5)
    for slot, of in grad.cotangents:
        if any(value is None or isinstance(value, Aggregate) or not _is_float(value) for value in made[of]):
            return None
        given[slot] = [np.asarray(rng.uniform(0.5, 1.5, np.shape(value)), np.asarray(value).dtype) for value in made[of]]
    given = {slot: values for slot, values in given.items() if values and all(v is not None for v in values)}
    asked = [slot for slot, of in grad.written if slots.get(of) and all(_is_float(v) for v in slots[of])]
    asked = [slot for slot in asked if sample.differentiate is None or slot.removesuffix("@GRAD") in sample.differentiate]
    if not asked:
        return None
    with np.errstate(all="ignore"):
        expected = grad.meaning(given, attrs, asked)
    return Job(grad, given, attrs, asked, expected, True)


# -- tracing -------------------------------------------------------------------------------------


def _split(job: Job, row: Row) -> Any:
    """The arrays that are traced, and the slots in which they are to be put: integers are known if they have to be."""
    error: Exception | None = None
    for known in _candidates(job):
        leaves, hole = _apart(job.slots, known)
        try:
            jax.eval_shape(lambda given, hole=hole: job.outputs(_joined(hole, given)), leaves)
        except Exception as found:
            error = error or found
            continue
        row.known |= known
        return leaves, hole
    assert error is not None
    raise error


# A sample of each goes far beyond the array, for which an index that is not known finds no room.
FAR = {"write_to_array": {"I"}, "insert_in_array": {"I"}}


def _candidates(job: Job) -> list[set[str]]:
    if job.definition.type in FAR:
        return [FAR[job.definition.type]]
    whole = [s for s, values in job.slots.items() if values and all(_is_whole(v) for v in values)]
    shapes = [s for s in ("Scale", "Start", "Stop", "End", "Step") if s in job.slots]
    return [set(), *({s} for s in whole), set(whole), {*whole, *shapes}]


def _is_whole(value: Any) -> bool:
    return not isinstance(value, Aggregate) and np.asarray(value).dtype.kind in "iub"


def _apart(slots: dict[str, list[Any]], known: set[str]) -> tuple[list[Any], Any]:
    traced = {slot: values for slot, values in slots.items() if slot not in known}
    leaves, tree = jax.tree.flatten(traced)
    return [np.asarray(leaf) for leaf in leaves], (tree, {slot: slots[slot] for slot in known}, list(slots))


def _joined(hole: Any, leaves: Any) -> dict[str, list[Any]]:
    tree, known, order = hole
    both = {**jax.tree.unflatten(tree, leaves), **known}
    return {slot: both[slot] for slot in order}


def _listed(value: Any) -> Any:
    """An array of tensors as the tensors that it has, a tensor with room as the elements that it has."""
    if isinstance(value, Bounded):
        return np.asarray(value)
    if not isinstance(value, Buffer):
        return value
    return [value.data[i] for i in range(int(value.length)) if value.filled[i]]


VECTORS = {("svd", "U"): -2, ("svd", "VH"): -1, ("eigh", "Eigenvectors"): -2}  # along which axis each of them lies


def _up_to_signs(type: str, slot: str, array: Any) -> Any:
    """Vectors that are as right with the other sign, each with a positive sum: LAPACK and XLA choose signs of their own."""
    axis = VECTORS.get((type, slot))
    return array if axis is None else array * np.where(array.sum(axis, keepdims=True) < 0, -1, 1).astype(array.dtype)


def _compare(job: Job, result: Any) -> int:
    count = 0
    for slot, got in zip(job.wanted, result, strict=True):
        expected = jax.tree.leaves([v for v in job.expected[slot]])
        found = jax.tree.leaves([_listed(value) for value in got])
        assert len(expected) == len(found), f"{job.definition.type}: {slot} is {len(found)} arrays, not {len(expected)}"
        for want, have in zip(expected, found, strict=True):
            want, have = (_up_to_signs(job.definition.type, slot, np.asarray(each)) for each in (want, have))
            assert (want.dtype, want.shape) == (have.dtype, have.shape), f"{job.definition.type}: {slot} is {have.dtype}{have.shape}"
            tolerance = RTOL if want.dtype != np.float32 and want.dtype != np.float16 else 1e-4 if want.dtype == np.float32 else 1e-2
            np.testing.assert_allclose(
                have, want, tolerance, max(ATOL, tolerance * 1e-2), err_msg=f"{job.definition.type} {slot} {job.attrs}"
            )
            count += 1
    return count
