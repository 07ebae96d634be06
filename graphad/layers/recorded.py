"""Operators as layers: calls by position and keyword, as Fluid writes them, become slots and attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from graphad.errors import InvalidType
from graphad.layers.checks import checked_fractions
from graphad.layers.fluid_signatures import SPECS
from graphad.layers.helper import checked_activation, layer
from graphad.layers.numpy_signatures import NAMES
from graphad.layers.signatures import EMPTY, LAST, Form, Part
from graphad.layers.values import constant, is_literal, known, stopped_unless_float
from graphad.ops import REGISTRY, ControlDef, GradOpDef, Symbol, find, lookup
from graphad.ops.definition import did_you_mean
from graphad.program import Variable, default_main_program
from graphad.program.source import at_users_line
from graphad.types import FLOATS, Function, as_float, dtype_name

_DTYPES = ("dtype", "out_dtype", "in_dtype")


def as_layer(form: Form) -> Function:
    """An operator as a layer; its signature is Fluid's where that is known, else the definition's own."""
    name, definition = form.name, form.definition

    @layer
    def bound(*args: object, **options: object) -> Any:
        with at_users_line(f"layers.{name}"):
            if _is_operator_call(form, args):
                return definition(*args, **options)
            return _called(form, _arguments(form, args, options))

    tensors = _tensors_alone(form)

    def record(*args: object, **options: object) -> Any:
        if options or len(args) != tensors:
            return (_paddle2(form, options) or bound)(*args, **options)
        for item in args:
            if not isinstance(item, Variable):
                return bound(*args)
        return args[0].emit(definition, args, {})  # type: ignore[attr-defined]  # nothing to bind: the quick way of most calls

    record.__name__ = record.__qualname__ = name
    record.__module__ = "graphad.layers"
    record.__doc__ = documented(form)
    record.__signature__ = form.signature  # type: ignore[attr-defined]
    return record


def _paddle2(form: Form, options: Mapping[str, object]) -> Function | None:
    """Paddle 2's function under the layer's name, if a keyword belongs to that alone; None otherwise."""
    if form.spec is None or not form.spec.paddle2 or all(form.keyword(word) for word in options):
        return None
    module, _, function = form.spec.paddle2.rpartition(".")
    layer: Function = getattr(import_module(f"graphad.layers.{module}"), function)
    return layer


def _tensors_alone(form: Form) -> int:
    """How many tensors are a whole call that means the same to the layer and to the operator; -1 if none are."""
    slots = [part.slot for part in form.positional if part.slot is not None and not part.slot.optional]
    # The quick way must not skip anything: no defaults that differ, no results left out, the slots in the operator's order.
    has_same_results = not _with_defaults(form, {}) and form.returned == tuple(
        s.name for s in form.definition.outputs.values() if not s.optional
    )
    in_order = [slot.name for slot in slots] == [s.name for s in form.definition.inputs.values() if not s.optional]
    leading = all(part.slot is not None for part in form.positional[: len(slots)])
    needs_attributes = any(not attr.has_default for attr in form.definition.attrs.values()) or any(slot.variadic for slot in slots)
    if form.counts:
        return -1
    return len(slots) if slots and has_same_results and in_order and leading and not needs_attributes else -1


def documented(form: Form) -> str:
    """The definition's docstring, and what the parameters are."""
    definition = form.definition
    tensors = [part.name for part in form.parts.values() if part.slot is not None and not part.slot.optional]
    hints = [part.name for part in form.positional if part.slot is None and part.attr is None and part.name not in LAST]
    lines = [definition.doc or f"The operator ``{definition.type}``.", ""]
    if tensors:
        lines.append(f"Tensors: {', '.join(tensors)}.")
    lines += [f"Attribute {attr}: {definition.attrs[attr].kind}, as ``{part.name}``." for attr, part in form.by_attr.items()]
    if hints:
        lines.append(f"Without effect: {', '.join(hints)}.")
    lines.append("``name`` is what the result is called, ``act`` the type of an activation that is applied to it.")
    return "\n".join(lines)


def _is_operator_call(form: Form, args: Sequence[object]) -> bool:
    """Whether a call gives tensors by position where the layer takes none: the slots of the operator are meant, in their order."""
    for part, value in zip(form.positional, args, strict=False):
        # A tensor where the layer takes an attribute cannot be meant for it, unless the attribute may be a tensor.
        if part.slot is None and (part.attr is None or form.tensor_slots[part.attr] == (None, None)) and _holds_symbol(value):
            return len(args) <= len(form.definition.inputs)
    return len(args) > len(form.positional) and all(item is None or _holds_symbol(item) for item in args)


def _holds_symbol(value: object) -> bool:
    return isinstance(value, Symbol) or (isinstance(value, list | tuple) and any(isinstance(item, Symbol) for item in value))


def _arguments(form: Form, args: Sequence[object], options: Mapping[str, object]) -> dict[str, object]:
    """The arguments of a call by parameter; TypeError for one that is unknown, missing or given twice."""
    if args and not form.positional:
        raise InvalidType(f"{form} takes {', '.join(form.definition.attrs) or 'nothing'} by keyword, not {args!r}")
    if len(args) > len(form.positional):
        raise InvalidType(f"{form} takes {len(form.positional)} arguments by position, got {len(args)}")
    arguments = {part.name: value for part, value in zip(form.positional, args, strict=False)}
    for word, value in options.items():
        part = form.keyword(word)
        if part is None:
            raise InvalidType(f"{form} has no parameter {word!r}{did_you_mean(word, form.words)}")
        # An alias and the name that it stands for are one parameter.
        if part.name in arguments:
            raise InvalidType(f"{form} got {part.name!r} twice" + ("" if word == part.name else f", the second time as {word!r}"))
        arguments[part.name] = value
    gaps = [part.name for part in form.parts.values() if part.default is EMPTY and part.name not in arguments]
    if gaps:
        raise InvalidType(f"{form} needs {' and '.join(map(repr, gaps))}")
    return arguments


def _called(form: Form, arguments: Mapping[str, object]) -> Any:
    slots: dict[str, object] = {}
    attrs: dict[str, object] = {}
    for name, value in _with_defaults(form, arguments).items():
        part = form.parts[name]
        if part.slot is not None:
            slots[part.slot.name] = value
        elif part.attr is not None and value is None and part.default is not None:
            raise InvalidType(f"{form}: {name} is {form.definition.attrs[part.attr].kind}, not None")
        elif part.attr is not None and value is not None:
            _set_attr(form, part, value, slots, attrs)
        elif part.attr is None and name not in LAST:
            _check_hint(form, part, value)
    inputs = [slots.get(slot) for slot in form.definition.inputs]
    # Booleans are counted: as in Paddle, their sum is of int64.
    if form.counts and isinstance(inputs[0], Variable) and inputs[0].dtype == "bool":
        inputs[0] = inputs[0].astype("int64")
    # Optional operands at the end are left out; one in the middle stays None and keeps its place.
    while inputs and inputs[-1] is None:
        inputs.pop()
    results = _recorded(form, _with_constants(form, inputs), attrs, _name(form, arguments))
    checked_fractions(str(form), inputs[0] if inputs else None, results, attrs)
    return _activated(form, results, arguments.get("act"))


def _with_defaults(form: Form, arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments, with the layer's defaults where these differ from the operator's."""
    attrs = form.definition.attrs
    # A default that the operator has as well is not written into the program.
    differ = {
        part.name: part.default
        for part in form.positional
        if part.attr and part.name not in arguments and part.default is not EMPTY
        if part.default is not None and (not attrs[part.attr].has_default or part.default != attrs[part.attr].default)
    }
    return {**differ, **arguments}


def _set_attr(form: Form, part: Part, value: Any, slots: dict[str, object], attrs: dict[str, object]) -> None:
    attr = part.attr or ""
    single, multiple = form.tensor_slots[attr]
    if single is None and multiple is None:
        value = known(value)
    if isinstance(value, Variable):
        if single is None:
            raise InvalidType(f"{form}: {part.name} is a number of the program, but {value!r} is known only when it runs")
        # An attribute given as a tensor goes into the slot for that, and the attribute, if it is required, gets a value that nothing reads.
        slots[single.name] = value
        if not form.definition.attrs[attr].has_default:
            attrs[attr] = [] if form.definition.attrs[attr].kind.startswith("list") else 0.0
        return
    if multiple is not None and _holds_symbol(value):
        slots[multiple.name] = [item if isinstance(item, Variable) else _number(item) for item in value]
        # Paddle's form of a list with tensors in it: these in a slot, and -1 at their places.
        attrs[attr] = [-1 if isinstance(item, Variable) else item for item in value]
        return
    attrs[attr] = _plain(attr, form.definition.attrs[attr].kind, value)


def _number(value: object) -> Variable:
    return constant(default_main_program().current_block(), "number", np.array([value], "int32"))


def _plain(attr: str, kind: str, value: object) -> Any:
    """A value as the kind of an attribute: one number for a list of one, a tuple for a list, numpy's for Python's."""
    if attr in _DTYPES and value != "":
        return dtype_name(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if kind.startswith("list") and isinstance(value, int | float) and not isinstance(value, bool):
        return [value]
    if isinstance(value, tuple):
        return list(value)
    if kind == "str" and isinstance(value, float):
        return repr(value)
    return as_float(value) if kind == "float" and isinstance(value, int) and not isinstance(value, bool) else value


def _check_hint(form: Form, part: Part, value: object) -> None:
    if part.default is None and value is not None:
        raise InvalidType(f"{form}: {part.name} means nothing here, so it is None, not {value!r}")
    if isinstance(part.default, bool) and not isinstance(value, bool | np.bool_):
        raise InvalidType(f"{form}: {part.name} is a hint, True or False, not {value!r}; give what you mean by its keyword")


def _name(form: Form, arguments: Mapping[str, object]) -> str | None:
    if "name" in form.definition.attrs:
        # An operator with an attribute of this name means that.
        return None
    name = arguments.get("name")
    if name is not None and not isinstance(name, str):
        raise InvalidType(f"{form}: name is a string, not {name!r}")
    return name


def _with_constants(form: Form, inputs: list[object]) -> list[object]:
    """Numbers and arrays beside variables as constants."""
    like = next(
        (item for operand in inputs for item in (operand if isinstance(operand, list | tuple) else [operand]) if isinstance(item, Symbol)),
        None,
    )
    if like is None:
        _check_arrays(form, inputs)
    if not isinstance(like, Variable):
        return inputs
    return [_constant(like, operand) for operand in inputs]


def _check_arrays(form: Form, inputs: list[object]) -> None:
    """TypeError for operands without a variable or an array among them: numbers, lists of numbers, names."""
    operands = [item for operand in inputs for item in (operand if isinstance(operand, list | tuple) else [operand])]
    if operands and not any(item is None or hasattr(item, "dtype") for item in operands):
        raise InvalidType(f"{form} takes a Variable, not {', '.join(map(repr, inputs))}; layers.assign([1.0, 2.0]) makes one of numbers")


def _constant(like: Variable, value: object) -> Any:
    if not is_literal(value):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and like.dtype in FLOATS:
        value = value.astype(like.dtype)
    return constant(default_main_program().current_block(), "number", value, like.tensor_type)


def _recorded(form: Form, inputs: list[object], attrs: dict[str, object], name: str | None) -> Any:
    definition = form.definition
    for slot, value in zip(definition.inputs.values(), inputs, strict=False):
        if value is None and not slot.optional:
            raise InvalidType(f"{form}: {slot.name} is a tensor, not None")
    # One tensor for a slot of several is a list of one.
    if slot_lists := [
        i
        for i, (slot, value) in enumerate(zip(definition.inputs.values(), inputs, strict=False))
        if slot.variadic and isinstance(value, Symbol)
    ]:
        inputs = [[value] if i in slot_lists else value for i, value in enumerate(inputs)]
    if name is None and definition.inputs:
        return definition(*inputs, **attrs)
    out = default_main_program().current_block().emit(definition, inputs, attrs, name)
    return stopped_unless_float(out) if isinstance(out, Variable) else out


def _activated(form: Form, results: object, act: object) -> Any:
    out_slots = [slot.name for slot in form.definition.outputs.values() if not slot.optional]
    # Fluid's layer may return fewer results than the operator has, or in another order.
    if form.returned != tuple(out_slots):
        by_slot = dict(zip(out_slots, results if isinstance(results, tuple) else (results,), strict=True))
        chosen_results = tuple(by_slot[slot] for slot in form.returned)
        results = chosen_results[0] if len(chosen_results) == 1 else chosen_results
    if act is None:
        return results
    if isinstance(results, tuple | list):
        raise InvalidType(f"{form}: act={act!r} applies to one result, not to {len(results)}")
    return lookup(checked_activation(act))(results)


def form_of(name: str) -> Form | None:
    """The signature of the layer of a name that Fluid's table or the operators have; None if neither does."""
    spec = SPECS.get(name) or NAMES.get(name)
    definition = find(spec.op or name) if spec is not None else find(name)
    return None if definition is None else Form(name, definition, spec)


def operator_layer(name: str) -> Function | None:
    """The layer of such a name."""
    form = form_of(name)
    return None if form is None else as_layer(form)


def is_fixed(name: str) -> bool:
    """Whether the operator of a layer is graphad's own; others may be defined again."""
    form = form_of(name)
    return form is not None and form.definition.kernel.__module__.startswith("graphad.")


def names() -> list[str]:
    """The names of such layers."""
    return [*SPECS, *NAMES, *(name for name, definition in REGISTRY.items() if not isinstance(definition, GradOpDef | ControlDef))]
