"""A program as a stand-alone Python module over numpy, and its memory plan, to be read."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence

import numpy as np

from graphad.errors import InvalidValue
from graphad.execution.codegen import Options, written
from graphad.execution.compiled import compiled_program
from graphad.execution.compiler import Unsupported
from graphad.execution.feeds import fed_array, fetch_names
from graphad.execution.nodes import Compiled
from graphad.execution.planning import MemoryPlan
from graphad.execution.prepared import Prepared
from graphad.execution.runtime import ABSENT, HELPERS
from graphad.execution.scope import Scope
from graphad.execution.tracing import Value
from graphad.program import Operator, Program
from graphad.program.gc_pause import paused_collector
from graphad.types import Array

_GENERATOR = '''\
SEED = {seed}
iterations = []


def generator(stream):
    """The random numbers of an operator, in the run with the number ``make.number``."""
    return np.random.default_rng([SEED, make.number, stream, *iterations])
'''


def to_python(program: Program, fetch_list: object, feed: Mapping[str, object] | None = None, scope: Scope | None = None) -> str:
    """A program as Python: a module over numpy that computes what the compiled program computes, to the last bit.

    Its ``make()`` allocates the arrays that are used again in every run, and returns the function of a run: of what is fed and of
    the variables that outlive a run, in the order that the module's first lines say. It returns a tuple of the fetched values, and one
    of the variables' new values. What numpy has no function for, and kernels that look at values, are imported from graphad.

    Args:
        program: what to write.
        fetch_list: variables or names whose values the function returns.
        feed: examples of what will be fed, whose types the module is for. Left out, the declared types are taken.
        scope: where variables that outlive a run have values. Left out, their declared types are taken.

    Raises:
        ValueError: a type is not declared entirely, and there is no example; a program has what the compiler leaves to the interpreter.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2, 3], append_batch_size=False)
    ...     y = ga.layers.tanh(x * x)
    >>> text = to_python(program, [y])
    >>> print(text[text.index("    def run"):].rstrip())
        def run(x):
            np.multiply(x, x, out=elementwise_mul_0_tmp_0)
            tanh_0_tmp_0 = np.tanh(elementwise_mul_0_tmp_0)
            return (tanh_0_tmp_0, ), ()
    <BLANKLINE>
        return run
    """
    run, compiled, plan = _compiled(program, fetch_list, feed, scope)
    source = written(compiled, plan, Options(counts_trips=False, quick=False))
    parts = [_head(compiled, fetch_names(program.global_block(), fetch_list)), "import numpy as np"]
    helpers = [name for name in HELPERS if re.search(rf"\b{name}\(|raise {name}", source.text)]
    lines, imports = [], {("graphad.execution.runtime", name, name) for name in helpers}
    # What the text names and does not define becomes an import where it has a module, and a line of its own where it is data.
    for name, item in source.objects.items():
        if isinstance(item, Operator):
            lines.append(f"{name} = {run.stream(item)}  # the stream of random numbers")
        elif hasattr(item, "described"):
            lines.append(f"{name} = {_operation_text(*item.described)}")
            imports.add(("graphad.execution.operation", "operation", "operation"))
        elif item is ABSENT:
            imports.add(("graphad.execution.runtime", "ABSENT", name))
        elif inspect.isfunction(item) or isinstance(item, np.ufunc):
            imports.add((getattr(item, "__module__", "numpy") or "numpy", item.__name__, name))
        else:
            lines.append(f"{name} = {_constant_text(item)}")
    parts += [f"from {home} import {member}" + (f" as {name}" if name != member else "") for home, member, name in sorted(imports)]
    if compiled.random:
        parts += ["", _GENERATOR.format(seed=program.random_seed or 1)]
    text = source.text + ("\n\nmake.number = 0\n" if compiled.random else "")
    return "\n".join([*parts, "", *lines, "", "", text])


def memory_plan(program: Program, fetch_list: object, feed: Mapping[str, object] | None = None, scope: Scope | None = None) -> MemoryPlan:
    """The plan of the memory that the values of a compiled program are in; ``print`` it, or write its ``svg()`` to a file.

    Arguments and errors are those of ``to_python``.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2, 8], append_batch_size=False)
    ...     y = ga.layers.mean(ga.layers.tanh(x * x))
    >>> print(memory_plan(program, [y]))
    128 bytes for 3 values in 2 places; 128 are needed at once
        1-3                0 +64           elementwise_mul_0.tmp_0[2, 8], tanh_0.tmp_0[2, 8]
        3-4               64 +64           t[]
    """
    return _compiled(program, fetch_list, feed, scope)[2]


def _compiled(
    program: Program, fetch_list: object, feed: Mapping[str, object] | None, scope: Scope | None
) -> tuple[Prepared, Compiled, MemoryPlan]:
    names = fetch_names(program.global_block(), fetch_list)
    feeds, arrays = _examples(program, feed, scope)
    try:
        with paused_collector(len(program.global_block().ops)):
            run = Prepared(program, names)
            compiled, plan = compiled_program(run, feeds, arrays, names)
    except Unsupported as reason:
        raise InvalidValue(f"{program.identity} cannot be written as Python: {reason}") from None
    return run, compiled, plan


def _examples(program: Program, feed: Mapping[str, object] | None, scope: Scope | None) -> tuple[dict[str, Array], dict[str, Array]]:
    """Examples for the feeds and persistable variables: those passed in, else ones of the declared types."""
    block = program.global_block()
    arrays = {} if scope is None else dict(scope.arrays)
    if feed is not None:
        return {name: fed_array(name, value, *block.var(name).declared) for name, value in feed.items()}, _declared(program, arrays)
    # What is read before it is written has to be fed, in the order of the first reading.
    written_names: set[str] = set()
    feeds = {}
    for op in block.ops:
        for name in op.input_names():
            if (
                name in block.vars
                and name not in written_names
                and name not in arrays
                and not block.vars[name].persistable
                and name not in feeds
            ):
                feeds[name] = _example(program, name)
        written_names.update(op.output_names())
    return feeds, _declared(program, arrays)


def _declared(program: Program, stored: dict[str, Array]) -> dict[str, Array]:
    block = program.global_block()
    # A dict in the place of a set: the arguments of the module come in one order, whatever PYTHONHASHSEED is.
    read_names = dict.fromkeys(name for inner in program.blocks for op in inner.ops for name in op.input_names())
    unset_names = [name for name in read_names if name in block.vars and block.vars[name].persistable and name not in stored]
    return {**stored, **{name: _example(program, name) for name in unset_names}}


def _example(program: Program, name: str) -> Array:
    shape, dtype = program.global_block().var(name).declared
    if shape is None or dtype is None or -1 in shape:
        type_text = "no type" if shape is None or dtype is None else f"{dtype}{list(shape)}"
        raise InvalidValue(f"{name!r} is declared with {type_text}: give an example in feed, whose type the module is then for")
    # Ones, not zeros: a logarithm or a quotient of them is finite. Integers are often indices, of which 0 is always one.
    return np.ones(shape, dtype) if np.dtype(dtype).kind == "f" else np.zeros(shape, dtype)


# -- text ----------------------------------------------------------------------------------------


def _head(compiled: Compiled, fetched: Sequence[str]) -> str:
    def described(name: str, value: Value) -> str:
        return f"    {name}: {value.example.dtype}{list(value.example.shape)}" if value.static else f"    {name}"

    lines = ['"""A program that graphad has compiled. ``run = make()``; then ``run`` takes, in this order:', ""]
    lines += [described(name, value) for name, value in (*compiled.feeds.items(), *compiled.states.items())] or ["    nothing"]
    lines += [
        "",
        "and returns two tuples: "
        + (", ".join(fetched) or "nothing")
        + "; and the new values of "
        + (", ".join(compiled.kept) or "nothing"),
    ]
    return "\n".join([*lines, '"""', ""])


def _operation_text(type: str, inputs: Mapping[str, int], outputs: Mapping[str, int], attrs: Mapping[str, object]) -> str:
    attrs_text = "".join(f", {name}={value!r}" for name, value in attrs.items())
    return f"operation({type!r}, {dict(inputs)!r}, {dict(outputs)!r}{attrs_text})"


def _constant_text(thing: object) -> str:
    if isinstance(thing, np.generic):
        return f"np.{thing.dtype.name}({_number_text(thing.item())})"
    if not isinstance(thing, np.ndarray):
        raise InvalidValue(f"{thing!r} cannot be written as Python")
    # Floats as decimal text where that reads back to the same bits; long arrays, nan and infinities as bytes.
    dtype = repr(thing.dtype.name)
    # Without strides it is one element repeated, and stays so: written out it would take the memory that it saves.
    if thing.size and (not any(thing.strides) or bool((thing == thing.reshape(-1)[0]).all())):
        number = f"np.array({_number_text(thing.reshape(-1)[0].item())}, {dtype})"
        if not thing.ndim:
            return number
        return f"np.broadcast_to({number}, {thing.shape})" if not any(thing.strides) else f"np.full({thing.shape}, {number})"
    if thing.size <= 64 and bool(np.isfinite(thing).all()):
        return f"np.array({thing.tolist()!r}, {dtype}).reshape({thing.shape})"
    # A payload of a nan, and the sign of a zero, survive as bytes.
    return f"np.frombuffer(bytes.fromhex({np.ascontiguousarray(thing).tobytes().hex()!r}), {dtype}).reshape({thing.shape})"


def _number_text(number: float) -> str:
    # ``number - number`` is 0 of finite numbers alone: Python has no literals for nan and the infinities.
    return repr(number) if isinstance(number, bool | int) or number - number == 0 else f"float('{number}')"
