"""Operators of ONNX that are several of graphad's are kept together, and written as they were read while nothing changes them.

    LSTM(x, w, r) -> (y, h)    ⇒    composite(X=[x, w, r], Input=[x, w, r]) -> (Out=[y, h]) { a loop }  {name="LSTM", ...}    ⇒    LSTM

The block is what a handler makes of the node, and is what is computed and differentiated. Passes do not look into it
(``CallDef.sealed``); whoever changes it all the same has another operator, which its digest tells, and which is written as its block is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any

from graphad.interop.onnx.emitting import Nodes
from graphad.interop.onnx.handlers import MICROSOFT, ML, ONNX, Handler, Node, attempt, recurring
from graphad.interop.onnx.operands import Recorder, Value
from graphad.interop.onnx.terms import Term
from graphad.ir import Op
from graphad.layers.blocks import atomic, new_block, touched_outside
from graphad.ops import ControlDef, lookup
from graphad.passes.cleanup.operator_keys import frozen_attrs
from graphad.program import Block, Operator, Program, Variable

_TYPE = "composite"
_RECURRENT = ("LSTM", "GRU", "RNN")
_KEPT = {
    **dict.fromkeys(_RECURRENT, ONNX),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"), ONNX),
    **dict.fromkeys(("MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"), ONNX),
    **dict.fromkeys(("DynamicQuantizeLSTM", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QGemm"), MICROSOFT),
    **dict.fromkeys(("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"), MICROSOFT),
    **dict.fromkeys(("QLinearConcat", "QLinearWhere", "QLinearGlobalAveragePool", "QLinearAveragePool"), MICROSOFT),
    **dict.fromkeys(("TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble", "SVMRegressor"), ML),
}
_SMALL = 64  # elements: what may be an extent, or a zero point for each channel of a few
_PLAIN = (int, float, str, list)  # attributes that JSON has: no tensors, no graphs


# -- reading ---------------------------------------------------------------------------------------


def handled(node: Node, domain: str, handler: Handler) -> Sequence[Value | None] | Value:
    """The results of a node; in a composite, where it is one of those that are kept together and something of it is not known at load."""
    if node.attrs.get("layout") and node.type in _RECURRENT and domain == ONNX:
        return recurring.batch_first(node, lambda other: handled(other, domain, handler))
    is_known = all(value is None or value.array is not None for value in node.inputs)
    if _KEPT.get(node.type) != domain or is_known or not all(isinstance(value, _PLAIN) for value in node.attrs.values()):
        return handler(node)
    if node.type == "ConvInteger" and len(node.inputs) > 3 and node.inputs[3] is not None and node.inputs[3].shape not in ((), (1,)):
        return handler(node)  # with a zero point for each channel: onnxruntime runs that in parts only
    results: Sequence[Value | None] = attempt(node.ops, lambda: _composed(node, domain, handler))
    return results


def _composed(node: Node, domain: str, handler: Handler) -> list[Value | None]:
    around = node.ops.program.current_block()
    input_names = [None if value is None else node.ops.variable(value).name for value in node.inputs]
    node = replace(node, inputs=[_unfolded(value) for value in node.inputs])
    with atomic(), new_block(node.ops.program) as block, _constants_in(block, node.ops):
        result = handler(node)
        values = [result] if isinstance(result, Value) else list(result)
        # The whole numbers that integers were rounded from are results too: gradients go through them.
        parts = [(i, part) for i, value in enumerate(values) if value is not None for part in (value, value.real) if part is not None]
        inner_values = {id(part): _moved(part, around, block, node) for _, part in parts if part.array is None}
    outside = [None if value is None else inner_values.get(id(value), value) for value in values]
    for value, out in zip(values, outside, strict=True):
        if value is not None and value.real is not None and out is not None:
            out.real = inner_values.get(id(value.real), value.real)
    results = {inner_values[id(part)].variable: i for i, part in parts if id(part) in inner_values}
    _append(node, domain, around, block, input_names, results)
    return outside


def _unfolded(value: Value | None) -> Value | None:
    """Weights are read by the operators of the block: what these make of them is computed when the model is first run, not at load."""
    if value is None or value.array is None or value.array.size <= _SMALL:
        return value
    return Value(variable=value.variable, given=value.array)


@contextmanager
def _constants_in(block: Block, ops: Recorder) -> Iterator[None]:
    """Within it, short constants are written in a block, and are not seen outside of it."""
    home, count, ops.home = ops.home, len(ops.made), block
    try:
        yield
    finally:
        ops.forget(count)
        ops.home = home


def _moved(value: Value, around: Block, block: Block, node: Node) -> Value:
    """A value of a block as one of the block around it."""
    inner = value.variable
    assert inner is not None
    name = around.program.names.generate(node.type.lower())
    variable = around.create_var(name, inner.shape, inner.dtype, stop_gradient=inner.stop_gradient)
    block.append_op("assign", {"X": inner}, {"Out": variable})
    moved = Value(variable=variable)
    moved.is_text = value.is_text
    return moved


def _append(
    node: Node, domain: str, around: Block, block: Block, input_names: Sequence[str | None], results: Mapping[Variable | None, int]
) -> None:
    names = [variable.name for variable in results if variable is not None]
    attrs = {
        "sub_block": block,
        "name": node.type,
        "domain": domain,
        "version": node.version,
        "attributes": json.dumps(_without_words(node), sort_keys=True),
        "inputs": [i for i, name in enumerate(input_names) if name is not None],
        "outputs": list(results.values()),
    }
    reads = [name for name in touched_outside([block]).reads if name not in names]
    inputs = {"X": reads, "Input": [name for name in input_names if name is not None]}
    around.append_op(_TYPE, inputs, {"Out": names, "Scope": [around.program.names.generate("_generated_var")]}, attrs)


def _without_words(node: Node) -> dict[str, object]:
    """Its attributes; labels that are strings are numbers inside of the program."""
    attrs = dict(node.attrs)
    words = attrs.pop("classlabels_strings", None)
    return {**attrs, "classlabels_int64s": node.reader.ends.text.encode(words).tolist()} if words else attrs


# -- seals -----------------------------------------------------------------------------------------


def seal(program: Program) -> None:
    """Say of each composite what its block is, now that it is read."""
    for op in (op for block in program.blocks for op in block.ops if op.type == _TYPE):
        body, operands = _Body(op), op.inputs.get("Input", [])
        wiring = [operands.index(name) if name in operands else -1 for name in body.reads]
        op.attrs = {**op.attrs, "wiring": wiring, "seal": body.digest}


def is_sealed(op: Operator) -> bool:
    """Whether the block of a composite is what was sealed.

    Operands that have become one value are still told apart, by where the block read which.
    """
    body, operands, wiring = _Body(op), op.inputs.get("Input", []), op.attrs.get("wiring") or []
    return body.digest == op.attrs.get("seal") and all(
        place < 0 or name == operands[place] for name, place in zip(body.reads, wiring, strict=True)
    )


class _Body:
    """A canonical form of a composite's block, by which equal bodies are found.

    Attributes:
        reads: the names around it that its operators read, one after the other.
        digest: of all else. Variables of its own count by where they first come up, those around by their types alone.
    """

    def __init__(self, op: Operator) -> None:
        self.reads: list[str] = []
        self.results = {name: i for i, name in enumerate(op.output("Out"))}
        self.operands = {*op.inputs.get("Input", ())}
        self.numbers: dict[str, int] = {}
        self.digest = sha256(repr(self._block(op.attrs["sub_block"], [])).encode()).hexdigest()[:16]

    def _block(self, block: Block, inside: Sequence[Block]) -> tuple[object, ...]:
        return tuple(self._operator(op, [*inside, block]) for op in block.ops)

    def _operator(self, op: Operator, inside: Sequence[Block]) -> tuple[object, ...]:
        definition = lookup(op.type)
        slots = {**op.inputs, **op.outputs}
        # What the blocks of an operator read and write is said by them; its lists of that may have another order.
        if isinstance(definition, ControlDef):
            slots = {slot: names for slot, names in slots.items() if slot == definition.condition}
        blocks = [value for value in op.attrs.values() if isinstance(value, Block)]
        attrs = {name: value for name, value in op.attrs.items() if not isinstance(value, Block)}
        own = tuple((slot, tuple(self._name(name, inside) for name in names)) for slot, names in slots.items() if names)
        return op.type, frozen_attrs(definition, attrs), own, tuple(self._block(block, inside) for block in blocks)

    def _name(self, name: str, inside: Sequence[Block]) -> object:
        if name in self.results:
            return "result", self.results[name]
        if any(name in block.vars for block in inside):
            return self.numbers.setdefault(name, len(self.numbers))
        self.reads.append(name)
        variable = inside[0].var_recursive(name)
        return "operand" if name in self.operands else (variable.dtype, tuple(variable.shape))


# -- writing ---------------------------------------------------------------------------------------


def is_intact(op: Op, opset: int) -> bool:
    """Whether a composite is still the operator of ONNX that it was read from, and the version that is written has that."""
    operator, attrs = op.operator, op.attrs
    if operator is None or not attrs.get("seal") or (not attrs.get("domain") and int(attrs["version"]) > opset):
        return False
    return is_sealed(operator)


def written(nodes: Nodes, op: Op, inputs: Sequence[Term]) -> list[Term]:
    """The node, and its results in the order of the composite's."""
    attrs: dict[str, Any] = dict(op.attrs)
    at: list[int] = list(attrs["inputs"])
    operands: list[Term | None] = [None] * (max(at, default=-1) + 1)
    for place, term in zip(at, inputs, strict=True):
        operands[place] = term
    outs, places = op.outputs["Out"], list(attrs["outputs"])
    types = {place: (value.dtype or "float32", value.shape or ()) for place, value in reversed([*zip(places, outs, strict=True)])}
    # The first result of a place is the operator's own; others are the same in another dtype.
    terms = nodes.of_domain(
        attrs["domain"], attrs["version"], attrs["name"], operands, [types[i] for i in range(len(types))], json.loads(attrs["attributes"])
    )
    return [terms[place] for place in places]
