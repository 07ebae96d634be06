"""Signatures of layers: what a caller writes, and which slot or attribute of an operator each parameter is.

A signature is text as in Fluid's documentation, ``x, axis=0, name=None``. ``Form`` binds it to the definition of an operator: a parameter
is the slot or the attribute of its name, or the one that ``Spec.binds`` names. What the signature leaves out of the definition can be
given by keyword.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import Parameter, Signature
from typing import NamedTuple

from graphad.errors import InvalidValue
from graphad.layers.synonyms import SYNONYMS, synonym
from graphad.ops import OpDef, Slot

LAST = ("name", "act")  # the parameters that layers have in common: how the result is called, and what is applied to it
EMPTY: object = Parameter.empty
_NO_BINDS: Mapping[str, str] = {}


class Spec(NamedTuple):
    """A layer as Fluid has it: its signature, the operator, parameters under other names, and the outputs that are returned.

    A parameter that is bound to "" has no effect on what is computed: a hint such as ``use_cudnn``. A layer that ``counts`` takes
    booleans as 0 and 1 of int64. A call with a keyword that the layer has not is one of ``paddle2``, ``module.function`` below
    ``graphad.layers``: what Paddle 2 calls the same name.
    """

    signature: str
    op: str | None = None
    binds: Mapping[str, str] = _NO_BINDS
    out: tuple[str, ...] | None = None
    counts: bool = False
    paddle2: str = ""


@dataclass(frozen=True)
class Part:
    """A parameter of a layer: a slot, an attribute, one of ``LAST``, or nothing (a hint)."""

    name: str
    default: object = EMPTY
    slot: Slot | None = None
    attr: str | None = None
    keyword_only: bool = False


@dataclass(frozen=True, eq=False)
class Form:
    """The signature of a layer over the definition of its operator."""

    name: str
    definition: OpDef
    spec: Spec | None = None

    @cached_property
    def parts(self) -> dict[str, Part]:
        """The parameters by name, those of the signature first."""
        parts = _written_parts(self.definition, self.spec) if self.spec else _own_parts(self.definition)
        by_name = {part.name: part for part in parts}
        names = {part.slot.name if part.slot else part.attr for part in parts}
        extra = [part for part in _own_parts(self.definition) if (part.slot.name if part.slot else part.attr) not in names]
        for part in extra:
            # What the operator has beyond Fluid's signature can be given by keyword; a name that is taken gets a suffix.
            name = part.name if part.name not in by_name else f"{part.name}_tensor" if part.slot else f"{part.name}_attribute"
            default = None if part.slot is not None else part.default
            if part.name not in LAST or name != part.name:
                by_name.setdefault(name, Part(name, default, part.slot, part.attr, keyword_only=True))
        for name in LAST:
            by_name.setdefault(name, Part(name, None, keyword_only=True))
        return by_name

    @cached_property
    def positional(self) -> tuple[Part, ...]:
        """The parameters that can be given by position."""
        return tuple(part for part in self.parts.values() if not part.keyword_only)

    @cached_property
    def by_attr(self) -> dict[str, Part]:
        """The parameters by the attribute that they are."""
        return {part.attr: part for part in self.parts.values() if part.attr}

    @cached_property
    def tensor_slots(self) -> dict[str, tuple[Slot | None, Slot | None]]:
        """For each attribute the optional slots that take its place: for one tensor, and for a list of them."""
        return {attr: _slots_for(self.definition, attr) for attr in self.definition.attrs}

    @cached_property
    def signature(self) -> Signature:
        """The signature as Python shows it."""
        kinds = {True: Parameter.KEYWORD_ONLY, False: Parameter.POSITIONAL_OR_KEYWORD}
        parameters = [
            Parameter(part.name, kinds[part.keyword_only], default=part.default, annotation=self._annotation(part))
            for part in sorted(self.parts.values(), key=lambda part: part.keyword_only)
        ]
        return Signature(parameters, return_annotation=self._returned())

    def _annotation(self, part: Part) -> str:
        if part.name in LAST and part.slot is None and part.attr is None:
            return "str | None"
        if part.slot is not None:
            item_type = "Sequence[Any]" if part.slot.variadic else "Any"
            return item_type if part.default is EMPTY else f"{item_type} | None" if item_type != "Any" else item_type
        return "Any"

    def _returned(self) -> str:
        slots = [slot for slot in self.definition.outputs.values() if slot.name in self.returned]
        words = ["list[Variable]" if slot.variadic else "Variable" for slot in slots]
        return "None" if not words else words[0] if len(words) == 1 else f"tuple[{', '.join(words)}]"

    @cached_property
    def returned(self) -> tuple[str, ...]:
        """The output slots that a call returns."""
        if self.spec is not None and self.spec.out is not None:
            return self.spec.out
        return tuple(slot.name for slot in self.definition.outputs.values() if not slot.optional)

    @property
    def counts(self) -> bool:
        """Whether booleans are taken as 0 and 1."""
        return self.spec is not None and self.spec.counts

    def keyword(self, word: str) -> Part | None:
        """The parameter that a keyword means: by its name, by the attribute's, or by another word for it."""
        part = self.parts.get(word) or self.by_attr.get(word)
        if part is not None:
            return part
        near = synonym(word, self.parts)
        return None if near is None else self.parts[near]

    @property
    def words(self) -> list[str]:
        """All keywords that the layer takes."""
        return [*self.parts, *self.by_attr, *(word for word in SYNONYMS if self.keyword(word))]

    def __str__(self) -> str:
        if not self.positional:
            return f"layers.{self.name}"
        parameters = [part.name if part.default is EMPTY else f"{part.name}={part.default!r}" for part in self.positional]
        return f"layers.{self.name}({', '.join(parameters)})"


def snake(name: str) -> str:
    """A slot's name as a parameter's: ``ShapeTensor`` as ``shape_tensor``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _own_parts(definition: OpDef) -> list[Part]:
    """The parameters that a definition has by itself: its slots, its attributes."""
    attrs = [
        Part("lambda_" if attr.name == "lambda" else attr.name, attr.default if attr.has_default else EMPTY, attr=attr.name)
        for attr in definition.attrs.values()
    ]
    attr_names = {part.name for part in attrs}
    slots = [(snake(slot.name), slot) for slot in definition.inputs.values()]
    # An attribute keeps its name where a slot would have the same.
    tensor_parts = [Part(f"{name}_tensor" if name in attr_names else name, None if slot.optional else EMPTY, slot) for name, slot in slots]
    obligatory = [part for part in attrs if part.default is EMPTY]
    rest = [part for part in attrs if part.default is not EMPTY]
    optional = [Part(part.name, None, part.slot, keyword_only=bool(attrs)) for part in tensor_parts if part.slot and part.slot.optional]
    if not definition.inputs:
        return [replace(part, keyword_only=True) for part in attrs]
    return [*(part for part in tensor_parts if part.default is EMPTY), *obligatory, *rest, *optional]


def _slots_for(definition: OpDef, attr: str) -> tuple[Slot | None, Slot | None]:
    camel = "".join(word.capitalize() for word in attr.split("_"))
    # Paddle's spellings of the slot in which an attribute may be a tensor.
    names = (camel, f"{camel}Tensor", f"{camel}TensorList", f"{attr}_tensor", f"{camel}T")
    slots = [definition.inputs[name] for name in names if name in definition.inputs and definition.inputs[name].optional]
    single = next((slot for slot in slots if not slot.variadic), None)
    return single, next((slot for slot in slots if slot.variadic), None)


def _written_parts(definition: OpDef, spec: Spec) -> list[Part]:
    return [_bound(definition, spec, name, default) for name, default in read_signature(spec.signature)]


def read_signature(text: str) -> list[tuple[str, object]]:
    """The parameters and their defaults in a signature's text.

    >>> read_signature("x, axis=-1, name=None")[1:]
    [('axis', -1), ('name', None)]
    """
    tree = ast.parse(f"lambda {text}: 0", mode="eval").body
    assert isinstance(tree, ast.Lambda)
    names = [item.arg for item in tree.args.args]
    defaults = [ast.literal_eval(item) for item in tree.args.defaults]
    return list(zip(names, [*[EMPTY] * (len(names) - len(defaults)), *defaults], strict=True))


def _bound(definition: OpDef, spec: Spec, name: str, default: object) -> Part:
    target = spec.binds.get(name)
    if target == "" or (name in LAST and target is None):
        return Part(name, default)
    slots = {snake(slot.name): slot for slot in definition.inputs.values()}
    if target is None:
        first = next(iter(definition.inputs.values()), None)
        # Fluid calls the first tensor ``input`` or ``x``, whatever the slot is called.
        if name in ("x", "input") and name not in slots and first is not None:
            return Part(name, default, first)
        target = slots[name].name if name in slots and name not in definition.attrs else name
    if target in definition.inputs:
        return Part(name, default, definition.inputs[target])
    if target in definition.attrs:
        return Part(name, default, attr=target)
    raise InvalidValue(f"the signature {spec.signature!r} names {name!r}, which operator {definition.type!r} does not have")
