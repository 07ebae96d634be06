"""Layers that call Python while a program runs: ``Print``, and ``py_func``, which calls a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphad.errors import InvalidType, InvalidValue
from graphad.initializer import Constant
from graphad.layers.checks import checked_flag, checked_int
from graphad.layers.helper import LayerHelper, checked_input, layer
from graphad.ops.callbacks import registered, type_text
from graphad.program import Variable
from graphad.program.source import at_users_line

_PHASES = ("forward", "backward", "both")


@layer
def Print(
    input: Variable,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Variable:
    """The tensor itself, which is printed whenever a run comes by. The gradient is printed where the result is used.

    Args:
        input: a tensor of any shape and dtype, or an array of tensors.
        first_n: print the first times only; then the startup program sets the counter, a persistable variable, to 0.
        message: a line before the values.
        summarize: how many elements are printed, -1 for all.
        print_tensor_name, print_tensor_type, print_tensor_shape: which lines there are.
        print_tensor_lod: without effect, since tensors carry no lengths of sequences.
        print_phase: "forward", "backward" for the gradient alone, or "both".

    Raises:
        TypeError, ValueError: an argument is something else.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x = ga.layers.fill_constant([2, 3], "int64", 3)
    ...     y = ga.layers.Print(x, message="before the product") * 2
    >>> _ = ga.Executor().run(program, fetch_list=[y])
    Variable: fill_constant_0.tmp_0
      - message: before the product
      - shape: [2, 3]
      - dtype: int64
      - data: [3 3 3 3 3 3]
    """
    x = checked_input("Print", input)
    with at_users_line("layers.Print"):
        times = checked_int("first_n", first_n)
        if message is not None and not isinstance(message, str):
            raise InvalidType(f"message is a string, not {message!r}")
        if not isinstance(print_phase, str) or print_phase.lower() not in _PHASES:
            raise InvalidValue(f"print_phase is 'forward', 'backward' or 'both', not {print_phase!r}")
        checked_flag("print_tensor_lod", print_tensor_lod)
        attrs: dict[str, object] = {
            "first_n": times,
            "message": message or "",
            "summarize": checked_int("summarize", summarize),
            "print_tensor_name": checked_flag("print_tensor_name", print_tensor_name),
            "print_tensor_type": checked_flag("print_tensor_type", print_tensor_type),
            "print_tensor_shape": checked_flag("print_tensor_shape", print_tensor_shape),
            "print_phase": print_phase.upper(),
            "tensor_name": x.name,
        }
    helper = LayerHelper("print")
    return helper.append("print", {"In": x} if times < 1 else {"In": x, "Counter": _counted(helper)}, attrs)


def _counted(helper: LayerHelper) -> Variable:
    """How often a run has come by here, this time included."""
    counter = helper.main.global_block().create_var(
        helper.main.names.generate(f"{helper.name}.counter"), [1], "int64", persistable=True, stop_gradient=True
    )
    helper.initialize(counter, Constant(0))
    # In the block of the print: in a branch those runs count that take it.
    helper.main.current_block().append_op("increment", {"X": counter}, {"Out": counter}, {"step": 1.0})
    return counter


@layer
def py_func(
    func: Callable[..., object],
    x: Variable | Sequence[Variable] | None,
    out: Variable | Sequence[Variable],
    backward_func: Callable[..., object] | None = None,
    skip_vars_in_backward_input: Variable | str | Sequence[Variable | str] | None = None,
) -> Variable | list[Variable]:
    """Call a function of Python with arrays, and write what it returns to ``out``.

    The program holds the name of the function alone. So it can be saved, but it runs only in the process that wrote it, and not on XLA
    or as ONNX. An operator of one's own (``@graphad.operator``) can do all of that, and has derivatives of every order.

    Args:
        func: takes an array for each of ``x``, and returns an array for each of ``out``, as a list or tuple where there are several.
        x: what it is called with; None for nothing.
        out: Variables made before, by ``block.create_var(name, shape, dtype)``, which say the types of the results.
        backward_func: takes the arrays of ``x``, then of ``out``, then the gradients of ``out``; returns the gradients of ``x``, None
            where there is none. Without it no gradient flows through ``out``.
        skip_vars_in_backward_input: those of ``x`` and ``out`` that ``backward_func`` does not take.

    Returns:
        ``out``.

    Raises:
        TypeError: an argument is something else.
        ValueError: a Variable to skip is neither in ``x`` nor in ``out``.

    >>> import numpy as np
    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x = ga.layers.data("x", shape=[2], append_batch_size=False, stop_gradient=False)
    ...     y = program.global_block().create_var("y", [2], "float32")
    ...     _ = ga.layers.py_func(np.tanh, x, y, backward_func=lambda x, y, dy: dy * (1 - y * y))
    ...     (dx,) = ga.gradients(y, x)
    >>> ga.Executor().run(program, feed={"x": [0.0, 1.0]}, fetch_list=[y, dx])
    [array([0.       , 0.7615942], dtype=float32), array([1.        , 0.41997433], dtype=float32)]
    """
    with at_users_line("layers.py_func"):
        for label, function in (("func", func), ("backward_func", backward_func)):
            if not callable(function) and (label == "func" or function is not None):
                raise InvalidType(f"{label} is a function, not {function!r}")
        inputs = [] if x is None else _variables("x", x)
        outputs = _variables("out", out)
        skipped = _places(skip_vars_in_backward_input, [var.name for var in (*inputs, *outputs)])
        attrs: dict[str, object] = {"function": registered(func), "out_types": [type_text(var.shape, var.dtype) for var in outputs]}
        if backward_func is not None:
            attrs |= {"backward": registered(backward_func), "skipped": skipped}
        for var in outputs:
            # Gradients end here, as with any operator that has none, rather than fail.
            var.stop_gradient = var.stop_gradient or backward_func is None
    LayerHelper("py_func").main.current_block().append_op("py_func", {"X": inputs} if inputs else {}, {"Out": outputs}, attrs)
    return out if isinstance(out, Variable) else outputs


def _variables(label: str, value: object) -> list[Variable]:
    items = list(value) if isinstance(value, list | tuple) else [value]
    variables = [item for item in items if isinstance(item, Variable)]
    if not variables or len(variables) != len(items):
        raise InvalidType(f"{label} is a Variable or a list of Variables, not {value!r}")
    return variables


def _places(skip: object, names: list[str]) -> list[int]:
    items = [] if skip is None else list(skip) if isinstance(skip, list | tuple | set) else [skip]
    printed_names = {item.name if isinstance(item, Variable) else item for item in items}
    unknown = sorted(str(name) for name in printed_names if name not in names)
    if unknown:
        raise InvalidValue(f"skip_vars_in_backward_input names {', '.join(unknown)}, neither in x nor in out: {', '.join(names)}")
    return [place for place, name in enumerate(names) if name in printed_names]
