"""Loops that numba compiles to machine code, kept on disk; and whether kernels may use them.

``Executor(numba=True)`` says that they may: what it runs, interpreted or compiled, then takes the same loops. Numba comes with
``pip install 'graphad[numba]'``; nothing imports it before.

What is compiled is kept in ``$GRAPHAD_CACHE_DIR``, else in ``$XDG_CACHE_HOME/graphad`` or ``~/.cache/graphad``: a module for each loop, by
a hash of its text, with numba's files next to it. One that is there is loaded in milliseconds; compiling one takes a second.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextvars import ContextVar
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np

from graphad.types import Array, Function, Tensor

LOOPS = "graphad_loop_"  # how the names of their modules begin
COMPILED: ContextVar[bool] = ContextVar("compiled", default=False)  # whether kernels may be compiled loops

_FLOATS = (np.dtype("float32"), np.dtype("float64"))  # of the order of this machine

# Text of a module. LLVM takes vectors of 256 bits also on processors of Intel's that have longer ones, unless a function says otherwise.
# The first of them lowered their clock for long vectors; those from Ice Lake on, told by a feature of theirs, do not. Which vectors are
# taken changes no bit, except of sums in any order. Whoever sets ``NUMBA_CPU_FEATURES`` has decided.
LONG_VECTORS = '''\
from llvmlite.binding import get_host_cpu_features
from numba import config, types
from numba.extending import intrinsic

HAS_LONG_VECTORS = config.CPU_FEATURES is None and get_host_cpu_features().get("avx512vbmi2", False)

@intrinsic
def long_vectors(typing):
    """Let the function that calls this work on 512 bits at a time."""
    def generate(context, builder, signature, args):
        if HAS_LONG_VECTORS:
            # Into the set: llvmlite's own ``add`` knows only attributes without values.
            set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()
    return types.none(), generate

'''

# Text of a module in which functions that allocate nothing count no arrays as they come and go. numba does not document the option: where a
# version has none, they are counted.
UNCOUNTED = """\
from numba.core.options import DefaultOptions

uncounted = dict(_nrt=False) if hasattr(DefaultOptions, "_nrt") else dict()

"""

# Text of a module whose function ``apart`` lets LLVM take for granted that the arrays of a loop do not overlap, where it would test the
# pairs of a few before each loop over elements, and not work on many elements at a time where there are more.
APART = '''\
from numba import types
from numba.extending import intrinsic

@intrinsic
def apart(typing):
    """Say of the function that calls this that nothing it writes to is reached through two of its arrays."""
    def generate(context, builder, signature, args):
        for argument in builder.function.args:
            if argument.name.startswith("arg.") and argument.name.endswith(".4"):  # the address of an array's elements
                argument.add_attribute("noalias")
        return context.get_dummy_value()
    return types.none(), generate

'''


def may_compile(*arrays: Tensor) -> bool:
    """Whether a kernel may be a compiled loop over these arrays: floats of one type."""
    if not COMPILED.get():
        return False
    dtype: np.dtype[np.generic] = arrays[0].dtype
    return dtype in _FLOATS and (len(arrays) == 1 or all(array.dtype == dtype for array in arrays))


def argument(array: Array) -> Array:
    """An array that a loop takes: its elements in order, and not marked as read-only."""
    return array if array.flags.carray else np.array(array, order="C")


def folder() -> Path | None:
    """The folder of compiled loops; None if nothing can be written there."""
    base = os.environ.get("GRAPHAD_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "graphad"
    )
    path = Path(base) / "loops"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return path if os.access(path, os.W_OK) else None


@cache
def function_of(text: str) -> Function:
    """The compiled function of a loop's module: of this process, of the disk, or new."""
    directory = folder()
    if directory is None:
        names: dict[str, Tensor] = {}
        exec(compile(text.replace("{cached}", "False"), "<loop>", "exec"), names)
        return names["loop"]  # type: ignore[no-any-return]
    text = text.replace("{cached}", "True")
    name = f"loop_{hashlib.sha256(f'{np.__version__} {text}'.encode()).hexdigest()[:24]}"
    path = directory / f"{name}.py"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        with tempfile.NamedTemporaryFile("w", dir=directory, suffix=".tmp", delete=False, encoding="utf-8") as file:
            file.write(text)
        os.replace(file.name, path)  # whole, or not at all: other processes may read it
    spec = spec_from_file_location(f"graphad_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)  # numba looks for it there
    spec.loader.exec_module(module)
    return module.loop  # type: ignore[no-any-return]
