"""Handlers that read ONNX operators, by operator and the version of the operator set since which they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.errors import ParseError
from graphad.interop.onnx.operands import NotKnown, Operand, Recorder, Value, all_known, integers
from graphad.types import Array

Result = Value | Sequence[Value | None]
Handler = Callable[["Node"], Result]
ONNX, ML, MICROSOFT, TRAINING = "", "ai.onnx.ml", "com.microsoft", "ai.onnx.preview.training"
TO_THE_END = (1 << 31) - 1  # the end of a slice, in an attribute, which has 32 bits: longer than any axis is

HANDLERS: dict[tuple[str, str], list[tuple[int, Handler]]] = {}  # (domain, operator) -> (since version, handler), the newest first


def handles(*types: str, since: int = 1, domain: str = ONNX) -> Callable[[Handler], Handler]:
    """Register a handler of operators; it holds from a version on, until a newer one."""

    def register(handler: Handler) -> Handler:
        for type in types:
            results = HANDLERS.setdefault((domain, type), [])
            results.append((since, handler))
            results.sort(key=lambda pair: -pair[0])
        return handler

    return register


def handler_of(domain: str, type: str, version: int) -> Handler | None:
    """The newest handler that holds for a version; None where there is none."""
    return next((handler for since, handler in HANDLERS.get((domain, type), ()) if since <= version), None)


@dataclass(eq=False)
class Node:
    """A node while it is read.

    Attributes:
        type, label: its operator, and what errors call it.
        inputs: its inputs; None for one that is left out.
        attrs: its attributes; tensors are arrays, strings are decoded, graphs are as they are in the file.
        version: of its operator set.
        ops: applies operators.
        reader: reads nested graphs.
        outputs: the names of its outputs; "" for one that is not wanted.
    """

    type: str
    label: str
    inputs: Sequence[Operand]
    attrs: Mapping[str, Any]
    version: int
    ops: Recorder
    reader: Any
    outputs: Sequence[str]

    def __getitem__(self, i: int) -> Value:
        value = self.get(i)
        if value is None:
            raise ParseError(f"input {i} is missing")
        return value

    def get(self, i: int) -> Operand:
        """An input; None where it is left out."""
        return self.inputs[i] if i < len(self.inputs) else None

    def attr(self, name: str, default: object = None) -> Any:
        return self.attrs.get(name, default)

    def required(self, name: str) -> Any:
        if name not in self.attrs:
            raise ParseError(f"attribute {name!r} is missing")
        return self.attrs[name]

    def wants(self, i: int) -> bool:
        """Whether an output is used."""
        return i < len(self.outputs) and bool(self.outputs[i])

    def known(self, i: int, what: str) -> Array | None:
        """The value of an input that has to be known at load; None where it is left out."""
        value = self.get(i)
        if value is None:
            return None
        content = value.content if value.content is not None else value.follows
        if content is None:
            raise NotKnown(f"{what} (input {i}) is not known before the model runs; load(path, bind={{...}}) fixes an input", value)
        return content

    def integers(self, i: int, name: str) -> list[int] | None:
        """Integers of an input, or of the attribute that older versions have in its place; None where neither is there."""
        if name in self.attrs:
            value = self.attrs[name]
            return integers(np.asarray(value))
        value = self.get(i)
        elements = None if value is None else value.partly()
        if elements is not None and all_known(elements):
            return [int(item) for item in elements.ravel()]
        array = self.known(i, name)
        return None if array is None else integers(array)

    def vector(self, i: int, what: str) -> Value:
        """An input that is a vector; NotKnown where the run decides how long it is, and so how the program looks."""
        value = self[i]
        if value.rank == 1:
            self.extents(f"the length of {what}", value.shape[0])
        return value

    def extents(self, what: str, *extents: int) -> None:
        """NotKnown where one of some extents is open."""
        if -1 in extents:
            raise NotKnown(f"{what} is not known before the model runs")

    def is_decided(self, i: int, name: str = "") -> bool:
        """Whether the integers of an input, or of an attribute in its place, are known at load; also where it is left out."""
        value = self.get(i)
        if name in self.attrs or value is None or value.content is not None:
            return True
        elements = value.partly()
        return elements is not None and all_known(elements)

    def axis(self, rank: int, default: int = -1, name: str = "axis") -> int:
        """An axis counted from the front."""
        axis = int(self.attr(name, default))
        if not -rank <= axis < max(rank, 1):
            raise ParseError(f"{name}={axis} is no axis of a tensor with {rank}")
        return axis % rank if rank else 0
