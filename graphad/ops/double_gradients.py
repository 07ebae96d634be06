"""Gradients of gradients as Paddle's programs hold them: ``tanh_grad_grad``, ``conv2d_grad_grad`` and others.

graphad makes none of them: it writes a grad operator out before it differentiates it. Those of Paddle's programs mean what the rule
of the operator gives when it is differentiated. Their slots are Paddle's: ``DDX`` is the cotangent of X@GRAD, ``DX`` the one of X,
``DDOut`` the one of Out@GRAD, ``DOut`` beside the inputs Out@GRAD itself, and beside the outputs, as ``DOutNew``, the cotangent of Out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphad.ops.activation import celu, elu, leaky_relu, relu, sigmoid
from graphad.ops.conv import conv2d, conv2d_transpose, conv3d, depthwise_conv2d
from graphad.ops.definition import GRAD, GradOpDef, GradRule, Inputs, OpDef, Outputs, slots_of
from graphad.ops.elementwise import abs_, elementwise_add, elementwise_div, elementwise_mul, elementwise_sub, log, rsqrt, sqrt, square, tanh
from graphad.ops.like import fill_any_like, fill_zeros_like
from graphad.ops.linalg import matmul, matmul_v2, mul
from graphad.ops.registry import REGISTRY
from graphad.ops.shapes import reshape2
from graphad.ops.tracing import cotangents
from graphad.types import Tensor, TensorType

_FROM_RESULT = "Out DX DDX -> DOut? DDOut?"
_FROM_INPUT = "X DOut DDX -> DX? DDOut?"
_PRODUCT = "X Y DOut DDX? DDY? -> DX? DY? DDOut?"
_ELEMENTS = "X Y DOut DDX? DDY? -> DX? DY? X@GRAD? Y@GRAD? DDOut?"
_CONVOLUTION = "Input Filter DOutput DDInput? DDFilter? -> DInput? DFilter? DDOutput?"
_SIGNATURES: dict[OpDef, str] = {
    tanh: "Out DOut DDX -> DOutNew? DDOut?",
    sigmoid: "Out DOut DDX -> DOutNew? DDOut?",
    relu: "Out DDX -> DDOut?",
    leaky_relu: "X DDX -> DDOut?",
    abs_: "X DDX -> DDOut?",
    elu: _FROM_INPUT,
    celu: _FROM_INPUT,
    square: _FROM_INPUT,
    log: _FROM_INPUT,
    sqrt: _FROM_RESULT,
    rsqrt: _FROM_RESULT,
    elementwise_add: "Y DOut DDX? DDY? -> DDOut?",
    elementwise_sub: "Y DOut DDX? DDY? -> DDOut?",
    elementwise_mul: _ELEMENTS,
    elementwise_div: "Y Out DX DDX? DDY? -> Y@GRAD? DOut? DDOut?",
    matmul: _PRODUCT,
    matmul_v2: _PRODUCT,
    mul: _PRODUCT,
    reshape2: "DOut DDX -> DDOut?",
    conv2d: _CONVOLUTION,
    conv3d: _CONVOLUTION,
    depthwise_conv2d: _CONVOLUTION,
    conv2d_transpose: _CONVOLUTION,
}


@dataclass(frozen=True, eq=False, repr=False)
class DoubleGradOpDef(GradOpDef):
    """The definition of ``<type>_grad_grad``: it differentiates the rules of ``of``."""

    of: OpDef | None = None

    @property
    def _forward_definition(self) -> OpDef:
        assert self.of is not None
        return self.of

    @property
    def _result(self) -> str:
        return next(iter(self._forward_definition.outputs))

    def meaning(self, inputs: Inputs, attrs: Mapping[str, object], slots: Sequence[str]) -> Outputs:
        known_tensors = {slot: values[0] for slot, values in inputs.items() if values}
        starts = {slot: known_tensors[f"DD{slot}"] for slot in self._rules if f"DD{slot}" in known_tensors}
        known = {
            slot: known_tensors[slot]
            for slot in (*self._forward_definition.inputs, *self._forward_definition.outputs)
            if slot in known_tensors
        }
        like = next(iter(starts.values())) if f"D{self._result}" not in known_tensors else known_tensors[f"D{self._result}"]
        stand_ins = {slot: starts.get(slot, known_tensors.get(f"D{slot}", like)) for slot in self._rules if slot not in known}
        start = self._cotangent(known_tensors, known, stand_ins, like, attrs)
        names = [*known, ""]

        def first(tensors: list[object]) -> list[object]:
            values = dict(zip(names, tensors, strict=True))
            return [self._apply(self._rules[slot], values, stand_ins, attrs) for slot in starts]

        cotangents_ = dict(zip(names, cotangents(first, [*known.values(), start], list(starts.values())), strict=True))
        of = {slot: self._of(slot) for slot in slots}
        return {s: [fill_zeros_like(known.get(name, start)) if cotangents_[name] is None else cotangents_[name]] for s, name in of.items()}

    @property
    def _rules(self) -> Mapping[str, GradRule]:
        rules = self._forward_definition.grads or {}
        return {slot: rule for slot, rule in rules.items() if f"DD{slot}" in self.inputs}

    def _of(self, slot: str) -> str:
        """What an output is the cotangent of: a slot of the forward operator, or empty for the cotangent of its result."""
        if slot == f"DD{self._result}":
            return ""
        return self._result if slot in (f"D{self._result}", f"D{self._result}New") else slot.removesuffix(GRAD).removeprefix("D")

    def _cotangent(
        self,
        tensors: Mapping[str, Tensor],
        known: Mapping[str, Tensor],
        stand_ins: Mapping[str, Tensor],
        like: object,
        attrs: Mapping[str, object],
    ) -> Tensor:
        """The cotangent of the result: as given; or found from the one of X, which is a multiple of it, element by element."""
        if f"D{self._result}" in tensors or "DX" not in tensors:
            return like
        unit = fill_any_like(tensors["DX"], value=1.0)
        return tensors["DX"] / self._apply(self._rules["X"], {**known, "": unit}, stand_ins, attrs)

    def _apply(self, rule: GradRule, known: Mapping[str, object], stand_ins: Mapping[str, object], attrs: Mapping[str, object]) -> Tensor:
        """A rule of the forward operator, which computes the result if that is not given."""
        values = {**stand_ins, **known, f"{self._result}{GRAD}": known[""]}
        if self._result in rule.reads and self._result not in values:
            values[self._result] = self._forward_definition(
                *(values.get(slot) for slot in self._forward_definition.inputs), **{a: self.attr(a, attrs) for a in self.attrs}
            )
        return rule.function(*(values.get(slot) for slot in rule.reads), **{a: self.attr(a, attrs) for a in rule.attrs})

    def infer_types(self, inputs: Mapping[str, Sequence[TensorType]], attrs: Mapping[str, object]) -> dict[str, list[TensorType]]:
        """A cotangent has the type of what it is the cotangent of; that of the result, if neither is given, the one of X."""
        result = next(inputs[s] for s in (f"D{self._result}", self._result, "X") if inputs.get(s) and s in self.inputs)
        return {slot: list(inputs.get(self._of(slot)) or result) for slot in self.outputs}


def _definition_of(of: OpDef, signature: str) -> DoubleGradOpDef:
    inputs, outputs = slots_of(signature)
    return DoubleGradOpDef(
        type=f"{of.type}_grad_grad",
        doc=f"Cotangents of what ``{of.type}_grad`` reads.",
        inputs=inputs,
        outputs=outputs,
        attrs=of.attrs,
        kernel=of.kernel,
        infer=of.infer,
        grads=None,
        of=of,
    )


REGISTRY.update({definition.type: definition for definition in (_definition_of(of, signature) for of, signature in _SIGNATURES.items())})
