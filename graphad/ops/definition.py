"""Definitions of operators: slots, attributes, type inference, kernel and gradient in one object."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from html import escape
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, Unpack

import numpy as np

from graphad.errors import InvalidType, InvalidValue
from graphad.ops.documented import DOCUMENTED
from graphad.ops.formulas import function_of, kernel_of
from graphad.ops.parameters import REQUIRED, parameters_of
from graphad.ops.registry import REGISTRY
from graphad.ops.sample import Sample
from graphad.ops.symbol import Symbol
from graphad.ops.traits import Declared, Traits, check, read
from graphad.plugins import ensure_plugins
from graphad.showing import Table
from graphad.types import Extent, Function, Tensor, TensorType, dtype_name

# -- signatures ------------------------------------------------------------------------------------
# The slots that a signature names: ``X Y? -> Out*``.


class Slot(NamedTuple):
    """A named place for inputs or outputs."""

    name: str
    variadic: bool = False
    optional: bool = False


@cache
def slots_of(signature: str) -> tuple[dict[str, Slot], dict[str, Slot]]:
    """The input and output slots that a signature names: ``X Y? -> Out*``."""
    left, arrow, right = signature.partition("->")
    if not arrow:
        raise InvalidValue(f"operator signature {signature!r} has no '->'")
    return {s.name: s for s in map(_slot, left.split())}, {s.name: s for s in map(_slot, right.split())}


def _slot(word: str) -> Slot:
    name = word.rstrip("*?")
    marks = word[len(name) :]
    return shared_slot(name, "*" in marks, "?" in marks)


@cache
def shared_slot(name: str, variadic: bool, optional: bool) -> Slot:
    """One object for all slots that are alike: there are thousands."""
    return Slot(name, variadic, optional)


# -- definition ------------------------------------------------------------------------------------
# What an operator is: one definition with its slots, attributes, type inference, kernel and gradient.
#
#     @operator("X Y -> Out", infer=..., grad={"X": lambda Y, dOut: dOut * Y, "Y": lambda X, dOut: dOut * X})
#     def times(X: Array, Y: Array, *, axis: int = -1) -> Array: ...
#
# The signature says the slots (``X*`` takes a list of names, ``Bias?`` may be left out). The kernel's
# positional parameters are the input slots, its keyword-only parameters the attributes, their
# annotations the attributes' kinds.
#
# A gradient rule gives the cotangent of one input slot. Its positional parameters name what it reads:
# input slots, output slots, and ``dOut``, the cotangent of output slot ``Out``; keyword-only
# parameters are attributes. A parameter with a default may be absent. A rule is written over operators
# (and ``+ - * /``), so the operator ``<type>_grad`` that is made of the rules has one meaning: run on
# arrays it is the kernel, run on symbols it expands into operators that can be differentiated again.
#
# ``grad={}`` says that the outputs do not depend differentiably on the inputs; ``grad=None`` (no rule
# known) makes differentiating through the operator an error.

Typed = Any  # an array, or its type: what has a shape and a dtype
Inputs = Mapping[str, Sequence[Tensor]]
Outputs = dict[str, list[Tensor]]
Samples = Sequence[Sample] | Callable[[], Sequence[Sample]]

GRAD = "@GRAD"
GRAD_SUFFIX = "_grad"
AS_INPUT = "as the first input"
_NO_KINDS: Mapping[str, str] = MappingProxyType({})
_NO_NAMES: frozenset[str] = frozenset()


class Attr(NamedTuple):
    """An attribute: its kind (as its annotation is written) and its default, ``REQUIRED`` if it has none."""

    name: str
    kind: str
    default: object

    @property
    def has_default(self) -> bool:
        return self.default is not REQUIRED


class GradRule(NamedTuple):
    """The cotangent of one input slot, and which tensors and attributes it reads."""

    function: Function
    reads: tuple[str, ...]
    optional: frozenset[str]
    attrs: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class OpDef(Traits):
    """The definition of an operator; call it on arrays to compute, on symbols to record it.

    ``partial`` operators take None for an input that a branch not taken left without a value. ``kinds`` says which outputs are no
    tensors: slot -> kind of variable, or ``AS_INPUT`` for that of the first input. ``shapes`` are the slots of which the gradient
    rules read the shape and dtype only, so that nothing else has to be kept for them; ``X:Y`` says so of slot X in the rule of
    Y. ``specialize`` takes what ``infer`` takes, and gives the function of arrays that the kernel is for inputs of these types; None
    where they do not say enough. ``samples`` are
    valid calls, or a function that makes them: random programs have the operator as they show it. The rest is in ``Traits``.
    """

    type: str
    doc: str
    inputs: dict[str, Slot]
    outputs: dict[str, Slot]
    attrs: dict[str, Attr]
    kernel: Function
    infer: Function
    grads: dict[str, GradRule] | None
    random: bool = False
    side_effect: bool = False
    partial: bool = False
    kinds: Mapping[str, str] = field(default_factory=lambda: _NO_KINDS)
    shapes: frozenset[str] = _NO_NAMES
    specialize: Callable[..., Callable[..., object] | None] | None = None
    samples: Samples = ()

    @property
    def grad(self) -> GradOpDef | None:
        """The definition of ``<type>_grad``, None if no input has a gradient rule."""
        return REGISTRY.get(f"{self.type}{GRAD_SUFFIX}") if self.grads else None  # type: ignore[return-value]

    @property
    def function(self) -> Function:
        """The kernel as a function written over numpy; for an elementwise operator its arithmetic (``graphad.ops.formulas``)."""
        return function_of(self.kernel)

    @cached_property
    def memory(self) -> dict[object, Any]:
        """A cache of what other modules compute from the definition, each under a key of its own; it lives as long as the definition."""
        return {}

    @cached_property
    def required(self) -> dict[str, int]:
        """How many slots must be filled, by side: ``input`` and ``output``."""
        return {side: sum(not s.optional for s in slots.values()) for side, slots in (("input", self.inputs), ("output", self.outputs))}

    @cached_property
    def needs_attrs(self) -> bool:
        """Whether an attribute has no default, so that every operator has to say it."""
        return not all(attr.has_default for attr in self.attrs.values())

    @cached_property
    def single(self) -> tuple[str, ...]:
        """The input slots that hold one value each, always."""
        return tuple(s.name for s in self.inputs.values() if not s.optional and not s.variadic)

    @cached_property
    def only_output(self) -> str:
        """The slot of its output, if it has one that always holds one value; else empty."""
        if len(self.outputs) != 1:
            return ""
        (slot,) = self.outputs.values()
        return "" if slot.variadic or slot.optional else slot.name

    @cached_property
    def is_plain(self) -> bool:
        """Whether it always computes one value: ``function`` of those in its slots gives the output."""
        is_tuple = len(self.outputs) != 1 or any(slot.variadic for slot in self.outputs.values())
        return not (is_tuple or self.random or self.partial or isinstance(self, GradOpDef))

    @cached_property
    def is_absent(self) -> bool:
        """Whether its outputs never have a value: it takes what has none, and reads nothing."""
        return self.partial and not self.inputs

    @cached_property
    def is_copy(self) -> bool:
        """Whether its one output is its one input, element by element."""
        is_single = len(self.inputs) == 1 and not self._is_variadic
        return is_single and self.elementwise and not self.offset and self.passed_on == {*self.inputs}

    @cached_property
    def summands(self) -> str:
        """The slot of operands that are added up, of which those without a value count for nothing; empty if there is none."""
        return next(iter(self.passed_on), "") if self.partial and self._is_variadic else ""

    @property
    def _is_variadic(self) -> bool:
        return any(slot.variadic for slot in self.inputs.values())

    def __call__(self, *inputs: object, **attrs: object) -> Tensor:
        if len(inputs) < self.required["input"]:
            raise InvalidType(f"operator {self.type!r} takes {', '.join(self.inputs)}; got {len(inputs)} inputs")
        # The first symbol decides where the operator is built: in a program, a graph or a pattern.
        for value in inputs:
            if type(value) is np.ndarray:
                continue
            if isinstance(value, Symbol):
                return value.emit(self, inputs, attrs)
            if isinstance(value, (list, tuple)):  # a union would be made anew in each call
                for item in value:
                    if isinstance(item, Symbol):
                        return item.emit(self, inputs, attrs)
        for name, value in attrs.items():
            if type(value) is str and not name.endswith("dtype"):
                self._check_words(inputs, attrs)
                break
        result = self.kernel(*inputs, **attrs)
        return result if self.only_output else self.without_optional(result)

    def _check_words(self, inputs: Sequence[object], attrs: Mapping[str, object]) -> None:
        """Refuse on arrays what programs refuse: a word that is none of an attribute's choices would be taken for one of them."""
        types: list[Any] = []
        for value in inputs:
            items: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
            # Arrays of tensors and symbols have no type of a tensor: programs check those.
            if not all(item is None or isinstance(item, np.ndarray) for item in items):
                return
            operand_types = [None if item is None else TensorType(item.shape, item.dtype.name) for item in items]
            types.append(operand_types if isinstance(value, list | tuple) else operand_types[0])
        self.infer(*types, **attrs)

    def without_optional(self, result: Tensor) -> Tensor:
        """The outputs that are not optional: what a call returns, on arrays as on symbols."""
        if len(self.outputs) == 1 or not any(s.optional for s in self.outputs.values()):
            return result
        # On arrays a call gives what it gives on symbols, so optional outputs are dropped here too.
        values = tuple(v for v, slot in zip(result, self.outputs.values(), strict=True) if not slot.optional)
        return values[0] if len(values) == 1 else values

    @cached_property
    def gradient_flows(self) -> Mapping[str, frozenset[str]]:
        """The input slots to which gradients flow from each output slot: those whose rules read its cotangent."""
        rules = (self.grads or {}).items()
        return {out: frozenset(slot for slot, rule in rules if f"{out}{GRAD}" in rule.reads) for out in self.outputs}

    def reads_shape(self, slot: str, rule: str) -> bool:
        """Whether the gradient rule of an input reads nothing but the shape and dtype of a slot."""
        return slot in self.shapes or f"{slot}:{rule}" in self.shapes

    def __repr__(self) -> str:
        return f"<operator {self.type}>"

    def _repr_html_(self) -> str:
        rows = [("reads", slot.name, "several" if slot.variadic else "optional" if slot.optional else "") for slot in self.inputs.values()]
        rows += [
            ("writes", slot.name, "several" if slot.variadic else "optional" if slot.optional else "") for slot in self.outputs.values()
        ]
        rows += [
            ("attribute", f"{item.name}: {item.kind}", f"default {item.default!r}" if item.has_default else "")
            for item in self.attrs.values()
        ]
        return f"<div>{escape(self.doc)}</div>\n{Table((self.type, '', ''), tuple(rows)).html()}"

    def attr(self, name: str, attrs: Mapping[str, object]) -> Any:
        """The attribute's value: as given, else its default."""
        return attrs[name] if name in attrs else self.attrs[name].default

    def all_attrs(self, attrs: Mapping[str, object]) -> dict[str, Any]:
        """The values of all declared attributes: as given, else their defaults."""
        return {name: self.attr(name, attrs) for name in self.attrs}

    def has_rows(self, attrs: Mapping[str, object]) -> bool:
        """Whether ``rows`` is said of a call with these attributes."""
        return bool(self.rows) and (self.apart is None or self.apart(self.all_attrs(attrs)))

    def has_whole_ties(self, attrs: Mapping[str, object]) -> bool:
        """Whether ``whole_ties`` is said of a call with these attributes."""
        if not callable(self.whole_ties):
            return self.whole_ties
        return self.whole_ties(self.all_attrs(attrs))

    def extends_output(self, inputs: Collection[str], attrs: Mapping[str, object]) -> bool:
        """Whether an operator of a program writes into what its output's name has already: see ``extends``."""
        return self.extends != "" and self.extends not in inputs and not attrs.get("fresh")

    def own_attrs(self, attrs: Mapping[str, object]) -> dict[str, Any]:
        """The attributes of an operator that its definition declares: not ``op_role`` or ``inplace``, which any may carry."""
        return {name: value for name, value in attrs.items() if name in self.attrs} if attrs else {}

    def run(self, inputs: Inputs, attrs: Mapping[str, object], slots: Sequence[str]) -> Outputs:
        """Compute the output slots (at least the wanted ones) from arrays; each slot is a list."""
        result = self.kernel(*self.arguments(inputs), **attrs)
        if self.only_output:
            return {self.only_output: [result]}
        values = result if len(self.outputs) != 1 else (result,)
        return {slot.name: list(v) if slot.variadic else [v] for slot, v in zip(self.outputs.values(), values, strict=True)}

    def arguments(self, inputs: Inputs) -> list[Tensor]:
        """The kernel's positional arguments: a list for a variadic slot, None for an absent one."""
        arguments: list[Tensor] = []
        for name, slot in self.inputs.items():
            values = inputs.get(name)
            arguments.append(None if not values else list(values) if slot.variadic else values[0])
        return arguments

    def infer_types(self, inputs: Mapping[str, Sequence[TensorType]], attrs: Mapping[str, object]) -> dict[str, list[TensorType]]:
        """The types of the outputs, slot by slot; ``ShapeError`` where the inputs do not fit. ``attrs`` are ``own_attrs``."""
        result = self.infer(*self.arguments(inputs), **attrs)
        if len(self.outputs) == 1:
            (slot,) = self.outputs.values()
            return {slot.name: list(result) if slot.variadic else [result]}
        return {slot.name: list(t) if slot.variadic else [t] for slot, t in zip(self.outputs.values(), result, strict=True)}


@dataclass(frozen=True, eq=False, repr=False)
class GradOpDef(OpDef):
    """The definition of ``<type>_grad``: its meaning is the rules of ``forward``, ``fast`` may compute the same quicker."""

    forward: OpDef | None = None
    fast: Callable[..., Outputs] | None = None

    @cached_property
    def given(self) -> tuple[tuple[str, str], ...]:
        """The forward slots it reads, each with "inputs" or "outputs" for the side it is on there."""
        assert self.forward is not None
        # A slot of both sides (an output that is an input) counts as an input.
        sides = {**dict.fromkeys(self.forward.outputs, "outputs"), **dict.fromkeys(self.forward.inputs, "inputs")}
        return tuple((slot, sides[slot]) for slot in self.inputs if slot in sides)

    @cached_property
    def cotangents(self) -> tuple[tuple[str, str], ...]:
        """The cotangents it reads, each with the forward output slot it belongs to."""
        return tuple((slot, slot.removesuffix(GRAD)) for slot in self.inputs if slot not in dict(self.given))

    @cached_property
    def written(self) -> tuple[tuple[str, str], ...]:
        """The cotangents it writes, each with the forward input slot it belongs to."""
        return tuple((slot, slot.removesuffix(GRAD)) for slot in self.outputs)

    def run(self, inputs: Inputs, attrs: Mapping[str, object], slots: Sequence[str]) -> Outputs:
        return (self.fast or self.meaning)(inputs, attrs, slots)

    def meaning(self, inputs: Inputs, attrs: Mapping[str, object], slots: Sequence[str]) -> Outputs:
        """The wanted cotangents in terms of operators: over arrays they compute, over symbols they expand."""
        assert self.forward is not None and self.forward.grads is not None
        result: Outputs = {}
        for name in slots:
            rule = self.forward.grads[name.removesuffix(GRAD)]
            args = [_argument(self.inputs[slot], inputs.get(slot)) for slot in rule.reads]
            value = rule.function(*args, **{a: self.attr(a, attrs) for a in rule.attrs})
            result[name] = list(value) if isinstance(value, list | tuple) else [value]
        return result

    def infer_types(self, inputs: Mapping[str, Sequence[TensorType]], attrs: Mapping[str, object]) -> dict[str, list[TensorType]]:
        """A cotangent has the type of what it is the cotangent of, where that is among the inputs."""
        return {s: list(inputs[s.removesuffix(GRAD)]) for s in self.outputs if inputs.get(s.removesuffix(GRAD))}


def _argument(slot: Slot, values: Sequence[object] | None) -> Tensor:
    if not values:
        return None
    return list(values) if slot.variadic else values[0]


def _no_kernel(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a grad operator runs by its rules")


# -- the table -----------------------------------------------------------------------------------


def operator(
    signature: str,
    *,
    infer: Function,
    grad: Mapping[str, Callable[..., object]] | None,
    name: str | None = None,
    random: bool = False,
    side_effect: bool = False,
    partial: bool = False,
    kinds: Mapping[str, str] | None = None,
    shapes: str = "",
    specialize: Callable[..., Callable[..., object] | None] | None = None,
    samples: Samples = (),
    **traits: Unpack[Declared],
) -> Callable[[Function], OpDef]:
    """Add a definition to the table, and that of its grad operator; see the module's text."""
    inputs, outputs = slots_of(signature)

    def add(function: Callable[..., object]) -> OpDef:
        # Of an elementwise operator the function is its arithmetic, from which the kernel, the form with ``out`` and compiled code are
        # made.
        kernel = kernel_of(function) if traits.get("elementwise") and function_of(function) is function else function
        type_ = name or kernel.__name__
        definition = OpDef(
            type=type_,
            doc=(inspect.isfunction(kernel) and inspect.getdoc(kernel)) or DOCUMENTED.get(type_, ""),
            inputs=inputs,
            outputs=outputs,
            attrs=_attrs(kernel),
            kernel=kernel,
            infer=infer,
            grads=None if grad is None else {slot: _grad_rule(f, inputs, outputs) for slot, f in grad.items()},
            random=random,
            side_effect=side_effect or traits.get("ordered", False),
            partial=partial,
            kinds=kinds or _NO_KINDS,
            shapes=frozenset(shapes.split()) if shapes else _NO_NAMES,
            specialize=specialize,
            samples=samples,
            **read(traits),
        )
        check(definition.type, traits, definition.inputs, definition.outputs, definition.attrs)
        return register(definition)

    return add


def register(definition: OpDef) -> OpDef:
    """Put a definition and that of its grad operator into the table.

    A type may be defined once, and again where the same cell of a notebook or the same line of a module runs again.
    """
    # A notebook's cell that runs again redefines its operator; the same name from elsewhere is a mistake.
    old = REGISTRY.get(definition.type)
    if old is not None and _is_rerun(old.kernel, definition.kernel):
        # Both go, since the new definition may have no gradient.
        for name in (old.type, f"{old.type}{GRAD_SUFFIX}"):
            REGISTRY.pop(name, None)
    definitions = [definition, _grad_operator(definition)] if definition.grads else [definition]
    # Both or neither: nothing is registered if one of the names is taken.
    for item in definitions:
        if item.type in REGISTRY:
            raise InvalidValue(f"operator {item.type!r} is defined twice{_where(REGISTRY[item.type].kernel)}")
    REGISTRY.update({element.type: element for element in definitions})
    return definition


def _is_rerun(old: Callable[..., object], new: Callable[..., object]) -> bool:
    """Whether a kernel comes from where another one came from: the same function of the same line, or of a notebook or a prompt."""
    if not inspect.isfunction(old) or not inspect.isfunction(new):
        return False
    if (old.__module__, old.__qualname__) != (new.__module__, new.__qualname__):
        return False
    # A cell of a notebook that runs again is another file of no name: there the function's name has to do.
    first, second = ((item.__code__.co_filename, item.__code__.co_firstlineno) for item in (old, new))
    return first == second or (new.__module__ == "__main__" and not any(os.path.isfile(file) for file, _ in (first, second)))


def _where(kernel: Callable[..., object]) -> str:
    return f", first at {kernel.__code__.co_filename}:{kernel.__code__.co_firstlineno}" if inspect.isfunction(kernel) else ""


def grad_kernel(op_type: str) -> Callable[[Callable[..., Outputs]], Callable[..., Outputs]]:
    """Give ``<op_type>_grad`` a hand-written kernel ``(inputs, attrs, wanted) -> {slot: [arrays]}``.

    Its meaning stays the rules; a test holds the kernel against them.
    """

    def add(kernel: Callable[..., Outputs]) -> Callable[..., Outputs]:
        grad = REGISTRY[op_type].grad
        assert grad is not None
        REGISTRY[grad.type] = replace(grad, fast=kernel)
        return kernel

    return add


def find(op_type: str) -> OpDef | None:
    """The definition of an operator type, None if there is none: for types that are read or named; plugins are loaded for it."""
    definition = REGISTRY.get(op_type)
    if definition is None:
        ensure_plugins()
        definition = REGISTRY.get(op_type)
    return definition


def lookup(op_type: str) -> OpDef:
    """The definition of an operator type; ValueError with the nearest names if there is none."""
    definition = REGISTRY.get(op_type) or find(op_type)
    if definition is None:
        raise InvalidValue(f"operator {op_type!r} is not registered{did_you_mean(op_type, REGISTRY)}")
    return definition


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the known names nearest to a mistyped one; where none is near, those that differ in upper and lower case."""
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names, n=3) or [candidate for candidate in names if candidate.lower() == name.lower()][:3]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def absent(
    module: str, name: str, known: Iterable[str], instead: Mapping[str, str] | None = None, library: str = "Fluid"
) -> AttributeError:
    """The error for a name that a module has not: with what takes the place of one of a library's, else the known names nearest to it."""
    if name.startswith("_"):  # Python and its tools ask modules for such names
        hint = ""
    else:
        hint = f", which {library} has: {instead[name]}" if instead and name in instead else did_you_mean(name, known)
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


# -- reading signatures --------------------------------------------------------------------------


def _attrs(kernel: Callable[..., object]) -> dict[str, Attr]:
    try:
        parameters = parameters_of(kernel)
    except ValueError:  # a numpy ufunc
        return {}
    return {p.name: Attr(p.name, _kind(p.annotation), p.default) for p in parameters if p.keyword_only and p.name != "rng"}


def _kind(annotation: object) -> str:
    """An annotation as text, whether it was written as text, as a type, or as text where all annotations are text."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).strip("'\"")


def _grad_rule(function: Callable[..., object], inputs: Mapping[str, Slot], outputs: Mapping[str, Slot]) -> GradRule:
    cotangents = {f"d{slot}": f"{slot}{GRAD}" for slot in outputs}
    reads, optional, attrs = [], set(), []
    for p in parameters_of(function):
        if p.keyword_only:
            attrs.append(p.name)
            continue
        # A rule's parameters say what it reads: ``X`` an input, ``Out`` an output, ``dOut`` the cotangent of one, keyword-only an
        # attribute.
        slot = cotangents.get(p.name, p.name)
        if p.name not in cotangents and p.name not in inputs and p.name not in outputs:
            raise InvalidValue(f"a gradient rule reads {p.name!r}, which is no slot and no cotangent of {[*inputs]} -> {[*outputs]}")
        reads.append(slot)
        if p.default is not REQUIRED or (p.name in inputs and inputs[p.name].optional):
            optional.add(slot)
    return GradRule(function, tuple(reads), frozenset(optional) if optional else _NO_NAMES, tuple(attrs))


def _grad_operator(definition: OpDef) -> GradOpDef:
    """The definition of ``<type>_grad``: it reads what the rules read and writes a cotangent per rule."""
    assert definition.grads is not None
    rules = definition.grads.values()
    slots_read = {slot for rule in rules for slot in rule.reads}
    # A slot is required only if every rule needs it: a call may need one gradient alone.
    common_slots = {slot for slot in slots_read if all(slot in r.reads and slot not in r.optional for r in rules)}
    slots = [
        *definition.inputs.values(),
        *definition.outputs.values(),
        *(shared_slot(s.name + GRAD, s.variadic, False) for s in definition.outputs.values()),
    ]
    return GradOpDef(
        type=f"{definition.type}{GRAD_SUFFIX}",
        doc=f"Cotangents of the inputs of ``{definition.type}``.",
        inputs={s.name: shared_slot(s.name, s.variadic, s.name not in common_slots) for s in slots if s.name in slots_read},
        outputs={s + GRAD: shared_slot(s + GRAD, definition.inputs[s].variadic, True) for s in definition.grads},
        attrs=definition.attrs,
        kernel=_no_kernel,
        infer=_no_kernel,
        grads=None,
        # A forward operand without a value has no cotangent either.
        partial=definition.partial and not slots_read.isdisjoint(definition.inputs),
        lazy=definition.lazy & slots_read,
        side_effect=definition.ordered,
        ordered=definition.ordered,
        forward=definition,
    )


DType = str
NO_INTS: list[int] = []
OUT_AS_X = {"Out": AS_INPUT}


# -- how messages show values ----------------------------------------------------------------------
# Values of attributes: what the widest integer is, and how messages show a value.


def fits_64_bits(value: int) -> bool:
    """Whether an integer is one of int64, the widest kind of attribute that Paddle's format has."""
    return -(1 << 63) <= value < 1 << 63


def shortened(value: object) -> str:
    """The value as Python writes it, cut where that is long."""
    text = _written(value)
    return text if len(text) <= 100 else f"{text[:80]}... ({len(text)} characters)"


def _written(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no integers of more than 4300 digits
        return f"an integer of {value.bit_length()} bits"


# -- kinds of attributes ---------------------------------------------------------------------------
# Values of attributes, checked against the kinds that kernels declare, in the form in which programs store them.

_LISTS = {"list[int]": int, "list[float]": float, "list[str]": str, "list[bool]": bool}
_SCALARS = {"int": int, "float": float, "str": str, "bool": bool}


EXACT = {"float": float, "str": str, "bool": bool}  # kinds whose values are stored as they are


def checked_attr(attr: Attr, value: object) -> Any:
    """The value in its canonical form; TypeError if it is not of the attribute's kind."""
    if type(value) is EXACT.get(attr.kind):
        return value
    if attr.kind == "DType":
        # Paddle writes -1 for a dtype that follows from the input.
        return "" if isinstance(value, int | str) and value in (-1, "") else dtype_name(value)
    if attr.kind in _SCALARS:
        return _scalar(attr, value, _SCALARS[attr.kind])
    if attr.kind in _LISTS:
        if isinstance(value, str) or not isinstance(value, list | tuple | np.ndarray):
            raise InvalidType(_wrong_kind(attr, value))
        return [_scalar(attr, item, _LISTS[attr.kind]) for item in value]
    return value


def _scalar(attr: Attr, value: object, kind: type) -> Any:
    # The common case first; an int has its range checked.
    if type(value) is kind and kind is not int:
        # A bool is an int in Python, and is refused where a number is meant: True as an extent would be a mistake.
        return value
    if kind is int and type(value) is int and fits_64_bits(value):
        return value
    if kind is float and isinstance(value, int | float | np.number) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise InvalidValue(f"attribute {attr.name!r} is {attr.kind}, which has no number as large as {shortened(value)}") from None
    if kind is int and isinstance(value, int | np.integer) and not isinstance(value, bool):
        if not fits_64_bits(int(value)):
            raise InvalidValue(f"attribute {attr.name!r} is {attr.kind}, of 64 bits at most, got {shortened(value)}")
        # An extent keeps its name.
        return value if isinstance(value, Extent) else int(value)
    if kind is bool and isinstance(value, bool | np.bool_):
        return bool(value)
    if kind is str and isinstance(value, str):
        return value
    raise InvalidType(_wrong_kind(attr, value))


def _wrong_kind(attr: Attr, value: object) -> str:
    return f"attribute {attr.name!r} is {attr.kind}, got {type(value).__name__} {shortened(value)}"
