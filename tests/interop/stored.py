"""The serialized programs of the conformance cases, and small ones made by hand."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

from graphad.interop.paddle.program_desc import message
from tests.conformance.loading import Case, load, names


@cache
def cases() -> dict[str, Case]:
    """The cases that come with their programs' bytes, by name."""
    loaded = {name: load(name) for name in names()}
    return {name: case for name, case in loaded.items() if "program_desc_forward_b64" in case.doc}


def forward(name: str) -> bytes:
    """The program of a case as Paddle wrote it."""
    return base64.b64decode(cases()[name].doc["program_desc_forward_b64"])


def after(name: str) -> bytes:
    """The same with its backward, as Paddle wrote it."""
    return base64.b64decode(cases()[name].doc["program_desc_after_b64"])


def desc(blocks: int = 1) -> Any:
    """A ProgramDesc of blocks with nothing in them, each in block 0."""
    made = message("ProgramDesc")()
    for idx in range(blocks):
        made.blocks.add(idx=idx, parent_idx=0 if idx else -1)
    return made


def add_op(made: Any, op_type: str, block: int = 0, **attrs: tuple[int, str, Any]) -> Any:
    """Add an operator; attributes are given as (number of the type, field, value)."""
    op = made.blocks[block].ops.add(type=op_type)
    for name, (kind, field, value) in attrs.items():
        attr = op.attrs.add(name=name, type=kind)
        if isinstance(value, list):
            getattr(attr, field).extend(value)
        else:
            setattr(attr, field, value)
    return op


def add_slot(slots: Any, slot: str, *arguments: str) -> None:
    """Add a slot with names to ``op.inputs`` or ``op.outputs``."""
    slots.add(parameter=slot, arguments=arguments)
