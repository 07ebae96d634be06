"""Writers of operators: functions by type, over terms. An operator without one is written as the function that defines it says, where that
is possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.errors import GraphadError
from graphad.interop.onnx.emitting import Dim, Nodes
from graphad.interop.onnx.stacks import Layout, Stack
from graphad.interop.onnx.terms import Term
from graphad.ir import Op, Value
from graphad.ops import OpDef
from graphad.ops.formulas import Untraceable
from graphad.types import TensorType

Written = Term | Stack
Result = Written | Sequence["Written | Sequence[Written] | None"]
Writer = Callable[["Call"], Any]

WRITERS: dict[str, Writer] = {}
REFUSED: dict[str, str] = {
    **dict.fromkeys(("lgamma", "digamma", "polygamma"), "ONNX has no gamma function"),
    **dict.fromkeys(
        ("bincount", "ctc_align", "edit_distance", "gather_tree", "histogram"),
        "ONNX has no such operator, and none is made of others",
    ),
    **dict.fromkeys(
        ("crf_decoding", "crf_lattice", "ctc_lattice", "linear_chain_crf", "matrix_recurrence", "warpctc"),
        "a loop over the steps of sequences, which is not written as ONNX's",
    ),
    **dict.fromkeys(
        (
            *("bipartite_match", "mine_hard_examples", "retinanet_target_assign", "rpn_target_assign"),
            *("generate_mask_labels", "generate_proposal_labels"),
        ),
        "which boxes match is chosen one after the other, and only while training",
    ),
    **dict.fromkeys(("box_images", "element_places", "psroi_windows"), "numpy computes it of shapes and of how boxes are rounded"),
    **dict.fromkeys(("hash", "similarity_focus"), "no operators of ONNX hash, or go from element to element"),
    **dict.fromkeys(
        (
            *("collect_fpn_proposals", "distribute_fpn_proposals", "generate_proposals", "generate_proposals_v2"),
            *("locality_aware_nms", "retinanet_detection_output"),
        ),
        "how many boxes there are is known only as it runs, and ONNX's NonMaxSuppression chooses boxes otherwise",
    ),
    **dict.fromkeys(("matrix_nms", "multiclass_nms3"), "ONNX's NonMaxSuppression chooses boxes otherwise, and none is made of others"),
    "print": "ONNX has no operator that prints",
    "py_func": "ONNX calls no functions of Python",
    "seed": "ONNX draws no seeds",
    "truncated_gaussian_random": "ONNX draws from no truncated distribution",
}


class CannotWrite(GraphadError, NotImplementedError):
    """A program has operators that ONNX cannot say; the message names them."""


def writes(*types: str) -> Callable[[Writer], Writer]:
    """Register what writes operators."""

    def register(writer: Writer) -> Writer:
        for type in types:
            assert type not in WRITERS, type
            WRITERS[type] = writer
        return writer

    return register


@dataclass(eq=False)
class Call:
    """An operator that is written.

    Attributes:
        op: it.
        definition: of its type.
        nodes: what makes nodes.
        inputs: what it reads, by slot.
        layouts: what arrays and tapes are made of.
    """

    op: Op
    definition: OpDef
    nodes: Nodes
    inputs: Mapping[str, list[Any]]
    layouts: Callable[[Value], Layout]

    @property
    def type(self) -> str:
        return self.op.type

    def __getitem__(self, slot: str) -> Term:
        term = self.get(slot)
        assert term is not None, f"{self.type} lacks {slot}"
        return term

    def get(self, slot: str) -> Term | None:
        """The one term in a slot; None where there is none."""
        values = self.inputs.get(slot)
        return values[0] if values else None

    def all(self, slot: str) -> list[Term]:
        """The terms in a slot."""
        return list(self.inputs.get(slot, ()))

    def stack(self, slot: str) -> Stack:
        """The array or tape in a slot."""
        (value,) = self.inputs[slot]
        assert isinstance(value, Stack)
        return value

    def layout(self, slot: str) -> Layout:
        """The layout of the array in an output slot."""
        return self.layouts(self.op.output(slot))

    def attr(self, name: str) -> Any:
        return self.definition.attr(name, self.op.attrs)

    @property
    def attrs(self) -> dict[str, Any]:
        """All attributes, with their defaults."""
        return {name: self.attr(name) for name in self.definition.attrs}

    def wants(self, slot: str) -> bool:
        """Whether an output is there."""
        return bool(self.op.outputs.get(slot))

    def is_read(self, slot: str) -> bool:
        """Whether anything reads an output, or it is one of the graph's."""
        return any(value.readers or value.graph.is_observed(value) for value in self.op.outputs.get(slot, ()))

    def output(self, slot: str) -> TensorType:
        """The type of an output."""
        output_type = self.op.output(slot).type
        assert output_type is not None
        return output_type

    def numbers(self, name: str, whole: str = "", each: str = "") -> list[Dim]:
        """Integers of an attribute, or of the tensors that take its place."""
        if each and (terms := self.all(each)):
            return [_number(self.nodes, term) for term in terms]
        if whole and (term := self.get(whole)) is not None:
            return _elements(self.nodes, term)
        return [int(i) for i in self.attr(name)]

    def cannot(self, why: str) -> CannotWrite:
        """The error that says why it cannot be written."""
        return CannotWrite(why)


def _number(nodes: Nodes, term: Term) -> Dim:
    elements = nodes.elements(term)
    if elements is not None:
        return elements[0]
    return int(term.array.ravel()[0]) if term.array is not None else nodes.as_vector(term)


def _elements(nodes: Nodes, term: Term) -> list[Dim]:
    elements = nodes.elements(term)
    if elements is not None:
        return list(elements)
    # One integer for all axes, in no list.
    if term.ndim == 0:
        return [nodes.as_vector(term)]
    if term.shape[0] == -1:
        raise CannotWrite("how many integers a tensor has that takes the place of an attribute is not known")
    wide = nodes.cast(term, "int64")
    return [nodes.part(wide, 0, i, i + 1) for i in range(term.shape[0])]


def by_formula(call: Call) -> Result:
    """Apply the operator's defining function to terms, which writes its nodes."""
    if call.type in REFUSED:
        raise CannotWrite(REFUSED[call.type])
    if call.definition.ordered:
        raise CannotWrite("ONNX has no ranks that pass tensors to each other")
    slots = call.definition.inputs.values()
    operands = [call.all(s.name) if s.variadic else call.get(s.name) for s in slots]
    try:
        with np.errstate(all="ignore"):
            # Terms have numpy's operators: a formula over arrays writes nodes when it is called on them.
            result: Result = call.definition.function(*operands, **call.attrs)
    except (Untraceable, AttributeError, TypeError, ValueError, IndexError) as error:
        raise CannotWrite("the function that defines it is not made of what ONNX has") from error
    return result
