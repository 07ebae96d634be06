"""Programs as StableHLO: what other compilers read, and ``jax.export`` runs again."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np
from jax import export

from graphad.errors import InvalidValue, NotLowered
from graphad.execution import Scope
from graphad.jax.executor import RANDOM, to_jax
from graphad.ops.aggregates import Aggregate
from graphad.program import Program
from graphad.types import Tensor


def exported(
    program: Program,
    fetch_list: object = None,
    *,
    scope: Scope | None = None,
    feeds: Mapping[str, Tensor] | None = None,
    batch: int | None = None,
    max_trips: int | None = None,
) -> export.Exported:
    """A program as StableHLO, a function ``(feeds, state) -> (fetches, state)``.

    Args:
        program: what is exported.
        fetch_list: variables or names whose values it returns.
        scope: has the persistable variables, whose types the function takes as its state; the global scope if None.
        feeds: arrays of the shapes and dtypes that will be fed; where there is none for a variable, its declaration says it.
        batch: the extent of what is declared as -1.
        max_trips: see ``to_jax``.

    Raises:
        InvalidValue: the shape of a feed is not known.
        NotLowered: the program cannot become an XLA program, or what it returns is no tensor of a known shape.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     y = ga.layers.tanh(ga.layers.data("x", shape=[3]))
    >>> found = exported(program, [y], batch=2)
    >>> "stablehlo.tanh" in found.mlir_module()
    True
    >>> again = export.deserialize(found.serialize())
    >>> again.call({"x": np.zeros((2, 3), "float32")}, {})[0][0].shape
    (2, 3)
    """
    function = to_jax(program, fetch_list, max_trips=max_trips)
    state = {name: value for name, value in function.state(scope).items() if not isinstance(value, Aggregate)}
    examples = feeds or {}
    feed_types = {name: _fed_type(program, name, examples.get(name), batch) for name in _fed_names(program, state)}
    with jax.enable_x64(True):
        types = {name: jax.ShapeDtypeStruct(np.shape(value), np.dtype(value.dtype)) for name, value in state.items()}
        fetches, _ = jax.eval_shape(function, feed_types, types)
        for name, value in zip(function.fetched, fetches, strict=True):
            if isinstance(value, Aggregate):
                why = "has an extent or a length that is known only when the program runs"
                raise NotLowered(f"{name!r} {why}; what is exported has known shapes")
        return export.export(jax.jit(function))(feed_types, types)


def _fed_names(program: Program, state: Mapping[str, Tensor]) -> list[str]:
    """The variables that a program reads before it writes them, without those of its state."""
    block = program.global_block()
    defined = set(state)
    names: dict[str, None] = {}
    for op in block.ops:
        names.update(dict.fromkeys(n for n in op.input_names() if n in block.vars and n not in defined and not block.vars[n].persistable))
        defined.update(op.output_names())
    return [name for name in names if name != RANDOM]


def _fed_type(program: Program, name: str, value: Tensor, batch: int | None) -> jax.ShapeDtypeStruct:
    if value is not None:
        return jax.ShapeDtypeStruct(np.shape(value), np.asarray(value).dtype)
    shape, dtype = program.global_block().vars[name].declared
    if shape is None or dtype is None or (batch is None and -1 in shape):
        # Without an array to take it from, the declaration has to say the whole type.
        label = "no shape" if shape is None else f"the shape {list(shape)}"
        raise InvalidValue(
            f"feed {name!r} has {label}, and XLA compiles for shapes that are known: say batch= (--batch on the command line), or give an"
            " array of its shape"
        )
    return jax.ShapeDtypeStruct(tuple(batch if extent == -1 else extent for extent in shape), np.dtype(dtype))
