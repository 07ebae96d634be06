"""``check_operator``: an operator's definition against its own kernel, and its derivatives against differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphad.backward import gradients
from graphad.execution import Executor
from graphad.ops import OpDef, lookup
from graphad.program import Block, Program, Variable
from graphad.types import Array, TensorType

Given = Mapping[str, Any]

DIRECTIONS, STEP = 3, 1e-5


def check_operator(
    op_type: str, inputs: Given, attrs: Mapping[str, object] | None = None, *, order: int = 2, tolerance: float = 1e-5, seed: int = 0
) -> None:
    """Hold an operator to what its definition says, on one set of inputs.

    Its inferred types have to be those of what the kernel computes. The derivatives that its gradient rules give, up to an order,
    have to be central differences in random directions: that of order n of those of order n - 1.

    Args:
        op_type: the operator.
        inputs: an array for each input slot, a list of arrays for one that takes a list; floating-point ones in float64, and away
            from kinks.
        attrs: attributes that do not have their defaults.
        order: the highest order of derivatives; 0 checks none.
        tolerance: by how much derivatives may differ from differences, relatively or absolutely.
        seed: for weights and directions.

    Raises:
        AssertionError: what does not hold.
        ValueError: there is no such operator.

    >>> import numpy as np
    >>> check_operator("softplus", {"X": np.array([-1.0, 0.5])})
    """
    definition, slots = lookup(op_type), {slot: _list(value) for slot, value in inputs.items()}
    outputs = definition.run(slots, dict(attrs or {}), tuple(definition.outputs))
    _check_types(definition, slots, dict(attrs or {}), outputs)
    if order and definition.grads:
        _check_derivatives(definition, slots, dict(attrs or {}), outputs, order, tolerance, np.random.default_rng(seed))


def _list(value: object) -> list[Array]:
    return [np.asarray(v) for v in value] if isinstance(value, list | tuple) else [np.asarray(value)]


def _check_types(
    definition: OpDef, slots: Mapping[str, Sequence[Array]], attrs: dict[str, object], outputs: Mapping[str, Sequence[Any]]
) -> None:
    types = definition.infer_types({slot: [TensorType(a.shape, a.dtype.name) for a in arrays] for slot, arrays in slots.items()}, attrs)
    for slot, arrays in outputs.items():
        for array, type in zip(arrays, types[slot], strict=True):
            if array is not None:
                actual = TensorType(np.shape(array), np.asarray(array).dtype.name)
                has_shape = len(actual.shape) == len(type.shape) and all(
                    e in (-1, f) for e, f in zip(type.shape, actual.shape, strict=True)
                )
                assert has_shape and actual.dtype == type.dtype, (
                    f"{definition.type}: {slot} is inferred as {type}, but the kernel gives {actual}"
                )


def _check_derivatives(
    definition: OpDef,
    slots: Mapping[str, Sequence[Array]],
    attrs: dict[str, object],
    outputs: Mapping[str, Sequence[object]],
    order: int,
    tolerance: float,
    rng: np.random.Generator,
) -> None:
    program = Program()
    block = program.global_block()
    names, feed = _data(block, slots)
    result_names = {
        slot: [f"{slot}_{i}" for i in range(len(arrays))] for slot, arrays in outputs.items() if not definition.outputs[slot].optional
    }
    block.append_op(type=definition.type, inputs=names, outputs=result_names, attrs=attrs)
    results = [block.var(name) for item in result_names.values() for name in item]
    sources = [block.var(n) for slot in definition.grads or () for n in names.get(slot, ()) if feed[n].dtype.kind == "f"]
    for level in range(1, order + 1):
        total = _weighted(block, [v for v in results if v.dtype.startswith("float")], level, rng)
        if total is None or not sources:
            return
        symbolic = gradients(total, sources)
        pairs = [(s, g) for s, g in zip(sources, symbolic, strict=True) if g is not None]
        for _ in range(DIRECTIONS):
            _check_direction(program, total, pairs, feed, f"{definition.type}, derivative of order {level}", tolerance, rng)
        # The next order differentiates the gradients.
        results = [g for _, g in pairs]


def _data(block: Block, slots: Mapping[str, Sequence[Array]]) -> tuple[dict[str, list[str]], dict[str, Array]]:
    names: dict[str, list[str]] = {}
    feed: dict[str, Array] = {}
    for slot, arrays in slots.items():
        names[slot] = [f"in_{slot}_{i}" for i in range(len(arrays))]
        for name, array in zip(names[slot], arrays, strict=True):
            block.create_var(name=name, shape=list(array.shape), dtype=array.dtype.name)
            feed[name] = array
    return names, feed


def _weighted(block: Block, values: Sequence[Variable], level: int, rng: np.random.Generator) -> Variable | None:
    """One number made of tensors: the sum of their elements times random weights."""
    parts = []
    for i, value in enumerate(values):
        weights = f"weights_{level}_{i}"
        # Different weights, since equal ones hide a gradient that is transposed or shifted.
        numbers = [float(n) for n in rng.uniform(0.5, 1.5, int(np.prod(value.shape)))]
        block.append_op(
            type="assign_value",
            outputs={"Out": weights},
            attrs={"shape": list(value.shape), "dtype": str(value.dtype), "values": numbers},
        )
        product, total = f"product_{level}_{i}", f"total_{level}_{i}"
        block.append_op(type="elementwise_mul", inputs={"X": value, "Y": weights}, outputs={"Out": product})
        block.append_op(type="reduce_sum", inputs={"X": product}, outputs={"Out": total}, attrs={"reduce_all": True})
        parts.append(total)
    if not parts:
        return None
    block.append_op(type="sum", inputs={"X": parts}, outputs={"Out": f"sum_{level}"})
    return block.var(f"sum_{level}")


def _check_direction(
    program: Program,
    total: Variable,
    reached: Sequence[tuple[Variable, Variable]],
    feed: dict[str, Array],
    what: str,
    tolerance: float,
    rng: np.random.Generator,
) -> None:
    # One random direction sees all partial derivatives at once: a wrong one is missed with probability zero, up to the tolerance.
    directions = {source.name: rng.normal(size=feed[source.name].shape) for source, _ in reached}
    arrays = Executor().run(program, feed, [g.name for _, g in reached])
    slope = sum(float(np.sum(array * directions[source.name])) for array, (source, _) in zip(arrays, reached, strict=True))

    def at(step: float) -> float:
        moved_arrays = {name: array + step * directions[name] if name in directions else array for name, array in feed.items()}
        (value,) = Executor().run(program, moved_arrays, [total.name])
        return float(np.asarray(value).sum())

    expected = (at(STEP) - at(-STEP)) / (2 * STEP)
    assert np.isclose(slope, expected, rtol=tolerance, atol=tolerance), f"{what}: the rules say {slope:.9g}, differences {expected:.9g}"
