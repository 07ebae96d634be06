"""The signature of an operator: what its check and its inference depend on. Of operators that are alike only the first is checked in full.

    mul(X=fc_6.tmp_2, Y=fc_7.w_0) -> (Out=fc_7.tmp_0) {x_num_col_dims: 1}
        ⇒  X (-1, 4) float32  Y (4, 4) float32  ...  Out 1  ...  x_num_col_dims int 1

A network of a thousand equal layers has a handful of signatures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphad.ops import OpDef
from graphad.types import TensorType, has_names

if TYPE_CHECKING:
    from graphad.program.operator import Operator

Signature = tuple[object, ...]
_MOST = 1024  # signatures of a definition
_LONGEST = 16  # of lists of numbers
_SCALARS = frozenset((bool, int, float, str))
_KEY = object()  # of ``OpDef.memory``


class Checked(NamedTuple):
    """The result of checking an operator.

    Attributes:
        types: of the outputs, by slot.
        only: that of the only output, if there is one, and it is a tensor.
        several: whether there are several outputs, whose names have to differ.
        copied: attributes with a list, which each operator has for itself.
        converted: attributes that are stored in another form than the one they were given in.
    """

    types: dict[str, list[TensorType]]
    only: TensorType | None
    several: bool
    copied: tuple[str, ...]
    converted: tuple[str, ...]


def known(definition: OpDef) -> dict[Signature, Checked]:
    """The checked signatures of a definition, kept with it."""
    try:
        return definition.memory[_KEY]  # type: ignore[no-any-return]
    except KeyError:
        return definition.memory.setdefault(_KEY, {})  # type: ignore[no-any-return]


def remember(definition: OpDef, signature: Signature, checked: Checked) -> None:
    """Keep what checking an operator has found out; after very many signatures begin again."""
    signatures = known(definition)
    if len(signatures) >= _MOST:
        signatures.clear()
    signatures[signature] = checked


def signature_of(op: Operator) -> Signature | None:
    """The signature of an operator; None if it has to be checked by itself: for a name that no block declares, blocks, long lists."""
    block = op.block
    declared = block.vars
    key: list[object] = []
    inputs, outputs = op.inputs, op.outputs
    for slot in inputs:
        key.append(slot)
        for name in inputs[slot]:
            var = declared.get(name)
            if var is None and (var := block.find_var(name)) is None:
                return None
            shape = var._shape
            key += (shape, var._dtype)
            # Extents are equal to -1 whatever their names; one object stands for a name.
            if shape is not None and -1 in shape and has_names(shape):
                key += map(id, shape)
    # Neither a name nor a type: what is read and what is written never run into each other.
    key.append(...)
    for slot in outputs:
        key += (slot, len(outputs[slot]))
    for name, value in op.attrs.items() if op.attrs else ():
        kind = type(value)
        if kind in _SCALARS:
            key += (name, kind, value)
        elif kind is list and len(value) <= _LONGEST and _SCALARS.issuperset(map(type, value)):
            key += (name, kind, tuple(value), *map(type, value))
        else:
            return None
    return tuple(key)
