"""Gradients of gradients as Paddle's programs hold them: ``tanh_grad_grad``, ``conv2d_grad_grad`` and others.

graphad makes none of them: it writes a grad operator out before it differentiates it. Those of Paddle's programs mean what the rule
of the operator gives when it is differentiated. Their slots are Paddle's: ``DDX`` is the cotangent of X@GRAD, ``DX`` the one of X,
``DDOut`` the one of Out@GRAD, ``DOut`` beside the inputs Out@GRAD itself, and beside the outputs, as ``DOutNew``, the cotangent of Out.

From 2.4 on, Paddle names the slots of operators with one input otherwise (``grad_x@GRAD``, ``grad_out``), and some types
(``sin_double_grad``). Both spellings are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphad.errors import InvalidValue
from graphad.ops.activation import celu, elu, leaky_relu, relu, sigmoid, softplus
from graphad.ops.conv import conv2d, conv2d_transpose, conv3d, depthwise_conv2d
from graphad.ops.definition import GRAD, GradOpDef, GradRule, Inputs, OpDef, Outputs, Slot, slots_of
from graphad.ops.elementwise import (
    abs_,
    clip,
    cos,
    elementwise_add,
    elementwise_div,
    elementwise_mul,
    elementwise_sub,
    log,
    pow_,
    rsqrt,
    sin,
    sqrt,
    square,
    tanh,
)
from graphad.ops.like import fill_any_like, fill_zeros_like
from graphad.ops.linalg import matmul, matmul_v2, mul
from graphad.ops.normalization import batch_norm, instance_norm
from graphad.ops.padding import pad3d
from graphad.ops.pooling import pool2d
from graphad.ops.registry import REGISTRY
from graphad.ops.shapes import reshape2
from graphad.ops.tracing import cotangents
from graphad.types import Tensor, TensorType

# What Paddle 2.4 and later call the slots of operators with one input; ``X@GRAD`` and ``Out@GRAD`` are outputs.
_SPELLINGS = {
    "x": "X",
    "x@GRAD": "DX",
    "fwd_scale": "Scale",
    "fwd_scale@GRAD": "DScale",
    "saved_mean": "SavedMean",
    "saved_variance": "SavedVariance",
    "grad_y": "DY",
    "grad_scale@GRAD": "DDScale",
    "grad_bias@GRAD": "DDBias",
    "grad_x": "DX",
    "grad_x@GRAD": "DDX",
    "grad_y@GRAD": "DDY",
    "grad_input@GRAD": "DDInput",
    "grad_filter@GRAD": "DDFilter",
    "grad_out": "DOut",
    "fwd_grad_out": "DOut",
    "grad_out@GRAD": "DDOut",
    "fwd_grad_out@GRAD": "DDOut",
}
_FROM_RESULT = "Out DX DDX -> DOut? DDOut?"
_FROM_INPUT = "X DOut DDX -> DX? DDOut?"
_LATER_INPUT = "X grad_out grad_x@GRAD -> X@GRAD? grad_out@GRAD?"
_PRODUCT = "X Y DOut DDX? DDY? -> DX? DY? DDOut?"
_ELEMENTS = "X Y DOut DDX? DDY? -> DX? DY? X@GRAD? Y@GRAD? DDOut?"
_CONVOLUTION = "Input Filter DOutput DDInput? DDFilter? -> DInput? DFilter? DDOutput?"
_NORMALIZED = "X Scale? SavedMean? SavedVariance? %s DDX? DDScale? DDBias? DY -> DX? DScale? DDY?"
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
    batch_norm: _NORMALIZED % "Mean? Variance?",
    instance_norm: _NORMALIZED % "",
}
_SAME_AS = {"MeanOut": "Mean", "VarianceOut": "Variance"}  # read by rules, and passed in with use_global_stats alone, where they are equal
_LATER_CONVOLUTION = "Input Filter grad_out grad_input@GRAD? grad_filter@GRAD? -> Input@GRAD? Filter@GRAD? grad_out@GRAD?"
_LATER_NORMALIZED = (
    "x fwd_scale? saved_mean? saved_variance? grad_y grad_x@GRAD? grad_scale@GRAD? grad_bias@GRAD? -> x@GRAD? fwd_scale@GRAD? grad_y@GRAD?"
)
_LATER: dict[OpDef, tuple[str, str]] = {
    instance_norm: ("instance_norm_double_grad", _LATER_NORMALIZED),
    tanh: ("tanh_grad_grad", "Out grad_out grad_x@GRAD -> Out@GRAD? grad_out@GRAD?"),
    sigmoid: ("sigmoid_grad_grad", "Out fwd_grad_out grad_x@GRAD -> Out@GRAD? fwd_grad_out@GRAD?"),
    relu: ("relu_grad_grad", "Out grad_x@GRAD -> grad_out@GRAD?"),
    leaky_relu: ("leaky_relu_grad_grad", "X grad_x@GRAD -> grad_out@GRAD?"),
    abs_: ("abs_double_grad", "x grad_x@GRAD -> grad_out@GRAD?"),
    clip: ("clip_double_grad", "X Min? Max? grad_x@GRAD -> grad_out@GRAD?"),
    matmul_v2: ("matmul_v2_grad_grad", "X Y grad_out grad_x@GRAD? grad_y@GRAD? -> X@GRAD? Y@GRAD? grad_out@GRAD?"),
    **{of: (f"{of.type}_grad_grad", _LATER_CONVOLUTION) for of in (conv2d, conv3d, depthwise_conv2d, conv2d_transpose)},
    **{of: (f"{of.type}_grad_grad", _LATER_INPUT) for of in (elu, celu, square, log)},
    **{of: (f"{of.type}_double_grad", _LATER_INPUT) for of in (sin, cos, pow_, softplus)},
    **{of: (f"{of.type}_grad_grad", "Out grad_x grad_x@GRAD -> Out@GRAD? grad_out@GRAD?") for of in (sqrt, rsqrt)},
}


@dataclass(frozen=True, eq=False, repr=False)
class DoubleGradOpDef(GradOpDef):
    """The definition of ``<type>_grad_grad``: it differentiates the rules of ``of``."""

    of: OpDef | None = None
    needed: tuple[str, ...] = ()

    def spelled(self, slot: str) -> str:
        """The slot's name in Paddle before 2.4, in which the rules here are written."""
        name = _SPELLINGS.get(slot, slot)
        return f"{name[:-3]}{self._result}" if name in ("DOut", "DDOut") else name

    @property
    def _forward_definition(self) -> OpDef:
        assert self.of is not None
        return self.of

    @property
    def _result(self) -> str:
        return next(iter(self._forward_definition.outputs))

    def meaning(self, inputs: Inputs, attrs: Mapping[str, object], slots: Sequence[str]) -> Outputs:
        known_tensors = {self.spelled(slot): values[0] for slot, values in inputs.items() if values}
        self._check(known_tensors)
        # DDX and the like are cotangents of what the first gradient writes; requested are those of what it reads.
        starts = {slot: known_tensors[f"DD{slot}"] for slot in self._rules if f"DD{slot}" in known_tensors}
        forward_tensors = {
            slot: known_tensors[slot]
            for slot in (*self._forward_definition.inputs, *self._forward_definition.outputs)
            if slot in known_tensors
        }
        like = next(iter(starts.values())) if f"D{self._result}" not in known_tensors else known_tensors[f"D{self._result}"]
        absent_slots = [
            slot
            for slot in self._rules
            if slot not in forward_tensors and (slot in starts or not self._forward_definition.inputs[slot].optional)
        ]
        stand_ins = {slot: starts.get(slot, known_tensors.get(f"D{slot}", like)) for slot in absent_slots}
        start = self._cotangent(known_tensors, forward_tensors, stand_ins, like, attrs)
        names = [*forward_tensors, ""]

        def first(tensors: list[object]) -> list[object]:
            values = dict(zip(names, tensors, strict=True))
            return [self._apply(self._rules[slot], values, stand_ins, attrs) for slot in starts]

        # The second gradient is the transpose of the first: written as a function of its operands, and differentiated as any other.
        cotangents_ = dict(zip(names, cotangents(first, [*forward_tensors.values(), start], list(starts.values())), strict=True))
        of = {slot: self._of(slot) for slot in slots}
        return {
            s: [fill_zeros_like(forward_tensors.get(name, start)) if cotangents_[name] is None else cotangents_[name]]
            for s, name in of.items()
        }

    @property
    def _rules(self) -> Mapping[str, GradRule]:
        rules = self._forward_definition.grads or {}
        return {slot: rule for slot, rule in rules.items() if f"DD{slot}" in map(self.spelled, self.inputs)}

    def _check(self, given: Mapping[str, object]) -> None:
        """Slots of two spellings are all optional; in one of them they have to be there."""
        missing_slots = [name for name in self.needed if name not in given]
        if missing_slots:
            raise InvalidValue(f"operator {self.type!r}: input slot {missing_slots[0]!r} is missing")

    def _of(self, slot: str) -> str:
        """The value whose cotangent an output is: a slot of the forward operator, or "" for the cotangent of its result."""
        slot = self.spelled(slot)
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
        # If the result's cotangent is not among the inputs, DX says it: the rule is linear in the cotangent, and
        # elementwise.
        if f"D{self._result}" in tensors or "DX" not in tensors:
            return like
        # The rule applied to ones is the factor between the two.
        unit = fill_any_like(tensors["DX"], value=1.0)
        return tensors["DX"] / self._apply(self._rules["X"], {**known, "": unit}, stand_ins, attrs)

    def _apply(self, rule: GradRule, known: Mapping[str, object], stand_ins: Mapping[str, object], attrs: Mapping[str, object]) -> Tensor:
        """A rule of the forward operator, which computes the result if that is not given."""
        values = {**stand_ins, **known, f"{self._result}{GRAD}": known[""]}
        values.update({slot: values.get(partner) for slot, partner in _SAME_AS.items() if slot not in values})
        if self._result in rule.reads and self._result not in values:
            # Paddle's double gradients do not pass the result on where it follows from the operands.
            values[self._result] = self._forward_definition(
                *(values.get(slot) for slot in self._forward_definition.inputs), **{a: self.attr(a, attrs) for a in self.attrs}
            )
        return rule.function(*(values.get(slot) for slot in rule.reads), **{a: self.attr(a, attrs) for a in rule.attrs})

    def infer_types(self, inputs: Mapping[str, Sequence[TensorType]], attrs: Mapping[str, object]) -> dict[str, list[TensorType]]:
        """A cotangent has the type of what it is the cotangent of; that of the result, if neither is given, the one of X."""
        inputs = {self.spelled(slot): types for slot, types in inputs.items()}
        self._check(inputs)
        # Paddle leaves out cotangents that are zero, so whichever tensor there is says the type.
        result = next(inputs[s] for s in (f"D{self._result}", self._result, "X") if inputs.get(s))
        return {slot: list(inputs.get(self._of(slot)) or result) for slot in self.outputs}


@dataclass(frozen=True, eq=False, repr=False)
class TripleGradOpDef(GradOpDef):
    """The definition of ``<type>_triple_grad``: it differentiates what the double gradient ``of`` computes.

    ``reads`` are its slots with the inputs of ``of`` that they are (both spelled as before 2.4), ``starts`` those that are cotangents
    of what ``of`` gives, and ``writes`` its results with the inputs of ``of`` that they are the cotangents of.
    """

    of: DoubleGradOpDef | None = None
    reads: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[str, str] = field(default_factory=dict)
    writes: Mapping[str, str] = field(default_factory=dict)

    def meaning(self, inputs: Inputs, attrs: Mapping[str, object], wanted: Sequence[str]) -> Outputs:
        definition = self.of
        assert definition is not None
        tensors_by_slot = {slot: values[0] for slot, values in inputs.items() if values}
        operands = {name: tensors_by_slot[slot] for slot, name in self.reads.items() if slot in tensors_by_slot}
        starts = {name: tensors_by_slot[slot] for slot, name in self.starts.items() if slot in tensors_by_slot}

        def second(values: list[object]) -> list[object]:
            operand_values = {name: [value] for name, value in zip(operands, values, strict=True)}
            # Required inputs of the gradient that its rule does not read have no value here; any tensor stands in.
            stand_ins = {name: [start] for name in definition.needed if name not in operand_values for start in starts.values()}
            gradients = definition.meaning({**stand_ins, **operand_values}, attrs, list(starts))
            return [gradients[name][0] for name in starts]

        # The cotangents of a gradient operator are those of its rule, differentiated as any expression: no formula is written twice.
        cotangents_by_name = dict(zip(operands, cotangents(second, list(operands.values()), list(starts.values())), strict=True))
        results = {slot: (operands[self.writes[slot]], cotangents_by_name[self.writes[slot]]) for slot in wanted}
        return {slot: [fill_zeros_like(operand) if result is None else result] for slot, (operand, result) in results.items()}

    def infer_types(self, inputs: Mapping[str, Sequence[TensorType]], attrs: Mapping[str, object]) -> dict[str, list[TensorType]]:
        """A cotangent has the type of what it is the cotangent of."""
        operands = {name: types for slot, name in self.reads.items() if (types := inputs.get(slot))}
        return {slot: list(operands[name]) for slot, name in self.writes.items() if name in operands}


@dataclass(frozen=True, eq=False, repr=False)
class LinearDoubleGradOpDef(GradOpDef):
    """The definition of ``<type>_double_grad`` of a linear operator, which is the operator itself, on the cotangent of X@GRAD."""

    of: OpDef | None = None

    def meaning(self, inputs: Inputs, attrs: Mapping[str, object], wanted: Sequence[str]) -> Outputs:
        assert self.of is not None
        # The double gradient of a linear operator is the operator itself; a maximum is not linear.
        if attrs.get("pooling_type", "avg") != "avg":
            raise InvalidValue(f"operator {self.type!r}: pooling_type is {attrs['pooling_type']!r}; the linear one is 'avg'")
        defaults = {"value": 0.0} if "value" in self.of.attrs else {}
        return {f"grad_out{GRAD}": [self.of(inputs[f"grad_x{GRAD}"][0], **{**attrs, **defaults})]}

    def infer_types(self, inputs: Mapping[str, Sequence[TensorType]], attrs: Mapping[str, object]) -> dict[str, list[TensorType]]:
        assert self.of is not None
        (types,) = self.of.infer_types({"X": inputs[f"grad_x{GRAD}"]}, attrs).values()
        return {f"grad_out{GRAD}": types}


def _linear(of: OpDef) -> LinearDoubleGradOpDef:
    inputs, outputs = slots_of("grad_x@GRAD -> grad_out@GRAD")
    doc = f"The ``{of.type}`` of what ``{of.type}_grad`` gives the cotangent of."
    return LinearDoubleGradOpDef(f"{of.type}_double_grad", doc, inputs, outputs, of.attrs, of.kernel, of.infer, None, of=of)


# The operands and the cotangents of results, as Paddle 2.6 spells them, with what they are for the double gradient.
_WAVE = "X=X grad_out_forward=DOut grad_x_grad_forward=DDX | grad_x@GRAD=DX grad_out_grad@GRAD=DDOut"
_TRIPLE: dict[str, tuple[str, str]] = {
    "tanh": (
        "tanh_grad_grad",
        "Out=Out grad_out_forward=DOut grad_x_grad_forward=DDX | grad_out_new@GRAD=DOutNew grad_out_grad@GRAD=DDOut",
    ),
    "sigmoid": ("sigmoid_grad_grad", "Out=Out fwd_grad_out=DOut grad_grad_x=DDX | grad_out@GRAD=DOutNew grad_grad_out@GRAD=DDOut"),
    "sin": ("sin_double_grad", _WAVE),
    "cos": ("cos_double_grad", _WAVE),
    "matmul_v2": (
        "matmul_v2_grad_grad",
        "X=X Y=Y grad_out=DOut grad_grad_x=DDX grad_grad_y=DDY | grad_x@GRAD=DX grad_y@GRAD=DY grad_grad_out@GRAD=DDOut",
    ),
    "elementwise_add": ("elementwise_add_grad_grad", "DDX=DDX DDY=DDY | D_DDOut=DDOut"),
    "elementwise_mul": ("elementwise_mul_grad_grad", "X=X Y=Y DOut=DOut DDX=DDX DDY=DDY | D_DX=DX D_DY=DY D_DDOut=DDOut"),
    "pow": ("pow_double_grad", "X=X grad_out=DOut grad_grad_x=DDX | grad_x@GRAD=DX grad_grad_out@GRAD=DDOut"),
}


def _triple(op_type: str, double: str, text: str, outputs: Mapping[str, str]) -> TripleGradOpDef:
    definition = REGISTRY[double]
    assert isinstance(definition, DoubleGradOpDef)
    # Pairs of a slot here and one of the double gradient: before the bar what it reads again, after it the cotangents of its results.
    reads, starts = (dict(pair.split("=") for pair in part.split()) for part in text.split("|"))
    return TripleGradOpDef(
        type=f"{op_type}_triple_grad",
        doc=f"Cotangents of what ``{double}`` reads.",
        inputs={slot: Slot(slot, optional=True) for slot in (*reads, *starts)},
        outputs={slot: Slot(slot, optional=True) for slot in outputs},
        attrs=definition.attrs,
        kernel=definition.kernel,
        infer=definition.infer,
        grads=None,
        of=definition,
        reads=reads,
        starts=starts,
        writes=outputs,
    )


def _definition_of(op_type: str, of: OpDef, *signatures: str) -> DoubleGradOpDef:
    """One definition for all spellings of the slots: where there are two, none of them alone is required."""
    parts = [slots_of(signature) for signature in signatures]
    inputs, outputs = ({**parts[0][side], **parts[-1][side]} for side in (0, 1))
    required_slots = tuple(_SPELLINGS.get(slot.name, slot.name) for slot in parts[0][0].values() if not slot.optional)
    if len(parts) > 1:
        # Slots that one spelling has and the other has not are optional.
        inputs = {name: slot if all(name in part[0] for part in parts) else slot._replace(optional=True) for name, slot in inputs.items()}
    return DoubleGradOpDef(
        type=op_type,
        doc=f"Cotangents of what ``{of.type}_grad`` reads.",
        inputs=inputs,
        outputs=outputs,
        attrs=of.attrs,
        kernel=of.kernel,
        infer=of.infer,
        grads=None,
        of=of,
        needed=required_slots,
    )


def _named(text: str) -> dict[str, str]:
    """The results, each called after the operand that it is the cotangent of."""
    template = "D_{}" if "D_DDOut" in text else f"{{}}{GRAD}"
    return {template.format(slot): name for slot, name in (pair.split("=") for pair in text.split("|")[0].split())}


def _signatures() -> dict[str, tuple[OpDef, list[str]]]:
    # Paddle before 2.4 and after: one type may have a signature of each.
    by_type = {f"{of.type}_grad_grad": (of, [signature]) for of, signature in _SIGNATURES.items()}
    for of, (op_type, signature) in _LATER.items():
        by_type.setdefault(op_type, (of, []))[1].append(signature)
    return by_type


REGISTRY.update({op_type: _definition_of(op_type, of, *signatures) for op_type, (of, signatures) in _signatures().items()})
REGISTRY.update({f"{name}_triple_grad": _triple(name, double, text, _named(text)) for name, (double, text) in _TRIPLE.items()})
REGISTRY.update({f"{of.type}_double_grad": _linear(of) for of in (pool2d, pad3d)})
