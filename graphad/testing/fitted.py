"""Arrays for a program that has none, or has others than it had: what fits is kept, cut to shape, the rest is drawn."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from graphad.errors import InvalidValue
from graphad.execution.layout import blocks_of
from graphad.graph import lower
from graphad.ops import lookup
from graphad.program import Block, Program
from graphad.program.operator import check
from graphad.testing.cases import Array, Case
from graphad.testing.names import always_written
from graphad.types import TENSOR, Shape

UNKNOWN = 2  # the extent of an axis that no declaration gives


def random_case(program: Program, seed: int = 0, loss_name: str = "") -> Case:
    """A program with random arrays for all it takes from outside.

    Raises:
        ValueError: the seed is negative.

    >>> program = Program.parse("program { block 0 { var x: float64[-1, 3] tanh(X=x) -> (Out=y) } }")
    >>> random_case(program).feeds["x"].shape
    (2, 3)
    """
    if seed < 0:
        raise InvalidValue(f"a seed is 0 or more, not {seed}")
    program = completed(program)
    return fitted(Case(program, loss_name), program, seed=seed)


def completed(program: Program) -> Program:
    """A copy in which the variables that operators write are declared with shape and dtype, as far as they can be inferred.

    Raises:
        ValueError: an operator does not fit what it reads.
    """
    twin = program.clone()
    _infer(twin.global_block())
    return twin


def _infer(block: Block) -> None:
    for op in block.ops:
        for inner in blocks_of(op):
            _infer(inner)
        check(op, lookup(op.type))


def fitted(case: Case, program: Program, values: Mapping[str, Array] = MappingProxyType({}), seed: int = 0) -> Case:
    """The case of another program: with the arrays of this case as far as they fit, and the loss if an operator still writes it.

    ``values`` are arrays for names that nothing writes any more; what neither has is drawn. What is missing on purpose, since a block
    that would write it does not run, stays missing.
    """
    missing = _missing(case) if case.program is not program else set()
    feeds: dict[str, Array] = {}
    params: dict[str, Array] = {}
    for value in lower(program).inputs:
        if value.kind == TENSOR and value.shape is not None and value.name not in missing:
            chosen, known = (params, case.params) if value.persistable else (feeds, case.feeds)
            chosen[value.name] = _array(value.name, value.shape, value.dtype, {**values, **known}, seed)
    for name, var in program.global_block().vars.items():
        if var.persistable and name in case.params and name not in params:
            params[name] = _array(name, *var.declared, case.params, seed)
    written = {name for op in program.global_block().ops for name in op.output_names()}
    return Case(program, case.loss_name if case.loss_name in written else "", feeds, params, case.requested)


def _missing(case: Case) -> set[str]:
    """What only blocks of a case's program write, and nothing gives from outside."""
    written = {name for op in case.program.global_block().ops if blocks_of(op) for name in op.output_names()}
    return written - set(case.feeds) - set(case.params) - {name for op in case.program.global_block().ops for name in always_written(op)}


def _array(name: str, shape: Shape | None, dtype: str | None, known: Mapping[str, Array], seed: int) -> Array:
    shape, dtype = shape or (), dtype or "float32"
    old = known.get(name)
    if old is not None and old.dtype == dtype and old.ndim == len(shape):
        wanted = tuple(have if extent == -1 else extent for have, extent in zip(old.shape, shape, strict=True))
        if all(extent <= have for extent, have in zip(wanted, old.shape, strict=True)):
            return old[tuple(slice(extent) for extent in wanted)].copy(order="C")
    return _drawn(name, tuple(UNKNOWN if extent == -1 else extent for extent in shape), dtype, seed)


def _drawn(name: str, shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return rng.integers(0, 3, shape).astype(dtype)
    return np.round(rng.uniform(-1.5, 1.5, shape), 3).astype(dtype)
