"""Sources of data within programs: readers that feed each run, and values of files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ParseError
from graphad.layers.checks import checked_flag
from graphad.layers.helper import layer
from graphad.layers.nn import data
from graphad.layers.tensor import assign
from graphad.program import Variable, default_main_program
from graphad.program.source import at_users_line
from graphad.readers import PyReader


@layer
def py_reader(
    capacity: int,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[str],
    lod_levels: Sequence[int] | None = None,
    name: str | None = None,
    use_double_buffer: bool = True,
) -> PyReader:
    """A reader, with variables of its own (``read_file``), that feeds the program at each run once it is started.

    Args:
        capacity: without effect, as is ``use_double_buffer``: a batch is read when a run wants it.
        shapes, dtypes: of the variables; -1 is any extent.
        lod_levels: zeros, since sequences are padded here.
        name: what the names of the variables begin with.

    Returns:
        A ``PyReader``: ``decorate_paddle_reader`` takes a reader of lists of samples (``fluid.io.batch``), ``decorate_tensor_provider``
        one of whole arrays. ``start()`` begins; the run after the last batch raises ``fluid.core.EOFException``; then ``reset()``.
        Programs that are made from this one by ``clone`` take from the same reader.

    Raises:
        ValueError: there are not as many dtypes as shapes, or levels of detail.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()) as program:
    ...     reader = fluid.layers.py_reader(capacity=2, shapes=[[-1, 2], [-1, 1]], dtypes=["float32", "int64"])
    ...     x, label = fluid.layers.read_file(reader)
    ...     mean = fluid.layers.reduce_mean(x)
    >>> reader.decorate_paddle_reader(fluid.io.batch(lambda: [([1.0, 2.0], [0]), ([3.0, 4.0], [1])], batch_size=2))
    >>> reader.start()
    >>> fluid.Executor().run(program, fetch_list=[mean])
    [array(2.5, dtype=float32)]
    """
    with at_users_line("layers.py_reader"):
        if len(dtypes) != len(shapes) or (lod_levels is not None and len(lod_levels) != len(shapes)):
            raise InvalidValue(f"there are {len(shapes)} shapes: a dtype for each is expected, not {dtypes!r}, and levels {lod_levels!r}")
        if any(lod_levels or ()):
            raise InvalidValue(f"lod_levels={lod_levels!r}: sequences are padded here, [batch, time, ...], with layers.sequence_mask")
    names = default_main_program().names
    stem = name or names.generate("py_reader")
    pairs = zip(shapes, dtypes, strict=True)
    variables = [data(names.generate(f"{stem}.data"), list(shape), dtype, append_batch_size=False) for shape, dtype in pairs]
    return PyReader(variables, capacity, use_double_buffer, iterable=False)


@layer
def create_py_reader_by_data(
    capacity: int, feed_list: Sequence[Variable], name: str | None = None, use_double_buffer: bool = True
) -> PyReader:
    """``py_reader`` for variables that there are; ``read_file`` gives these.

    Raises:
        TypeError: ``feed_list`` is no list of variables.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()):
    ...     x = fluid.data("x", [None, 2])
    ...     reader = fluid.layers.create_py_reader_by_data(capacity=2, feed_list=[x])
    ...     fluid.layers.read_file(reader) is x
    True
    """
    with at_users_line("layers.create_py_reader_by_data"):
        if not isinstance(feed_list, list | tuple) or not feed_list or not all(isinstance(var, Variable) for var in feed_list):
            raise InvalidType(f"feed_list is a list of variables, not {feed_list!r}")
    return PyReader(feed_list, capacity, use_double_buffer, iterable=False)


@layer
def double_buffer(reader: PyReader, place: object = None, name: str | None = None) -> PyReader:
    """The reader itself, as Fluid's scripts wrap it: a batch is in memory as soon as it is read.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()):
    ...     reader = fluid.layers.py_reader(capacity=2, shapes=[[-1, 2]], dtypes=["float32"])
    ...     fluid.layers.double_buffer(reader) is reader
    True
    """
    return _checked("double_buffer", reader)


@layer
def read_file(reader: PyReader) -> Variable | list[Variable]:
    """The variables that a reader feeds: a list of them, or the only one. Examples: ``py_reader``."""
    variables = _checked("read_file", reader).variables
    return variables[0] if len(variables) == 1 else variables


def _checked(layer: str, reader: object) -> PyReader:
    with at_users_line(f"layers.{layer}"):
        if not isinstance(reader, PyReader):
            raise InvalidType(f"reader is what layers.py_reader gives, not {reader!r}")
    return reader


@layer
def load(out: Variable, file_path: str | os.PathLike[str], load_as_fp16: bool | None = None) -> Variable:
    """Give a Variable the value of a file of one tensor, as ``fluid.io.save_vars`` and Paddle write it.

    The file is read when the layer is called, and the program holds its numbers; Fluid reads it at each run.

    Args:
        out: the Variable, of the file's dtype.
        file_path: the file.
        load_as_fp16: whether its numbers become float16.

    Returns:
        ``out``.

    Raises:
        OSError: the file cannot be read.
        ParseError: it is none.
        ShapeError: ``out`` has another shape or dtype.

    >>> import tempfile
    >>> import numpy as np
    >>> import graphad as fluid
    >>> with fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program()) as program:
    ...     w = fluid.layers.create_global_var([2], 0.0, "float32", persistable=True, name="w")
    ...     fluid.global_scope().set("w", np.array([1.0, 2.0], "float32"))
    ...     folder = tempfile.mkdtemp()
    ...     fluid.io.save_vars(fluid.Executor(), folder, program, vars=[w])
    ...     copy = fluid.layers.load(fluid.layers.create_tensor("float32"), folder + "/w")
    >>> fluid.Executor().run(program, fetch_list=[copy])
    [array([1., 2.], dtype=float32)]
    """
    with at_users_line("layers.load"):
        if not isinstance(file_path, str | os.PathLike):
            raise InvalidType(f"file_path is the path of a file, not {file_path!r}")
        narrow = load_as_fp16 is not None and checked_flag("load_as_fp16", load_as_fp16)
    path = Path(file_path)
    content = path.read_bytes()
    try:
        # Files are above layers: a program that reads none does not need them.
        array = import_module("graphad.interop.paddle.tensors").read_tensor(content)
    except ParseError as error:
        raise ParseError(f"{path}: {error}") from None
    return assign(np.asarray(array, "float16") if narrow else array, out)
