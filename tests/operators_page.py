"""docs/operators.md: the operator table as a page, from the registry and from what the tests do with each row's samples."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from graphad.ops import CHAPTERS, REGISTRY, ControlDef, GradOpDef, OpDef, Slot
from graphad.ops.definition import Attr
from graphad.ops.out_kernels import makes_array, takes_required, writes_into
from graphad.ops.parameters import REQUIRED
from graphad.ops.sample import Sample
from graphad.testing.samples import SAMPLES
from graphad.types import FLOATS, TensorType
from tests.ops.check import check_inference, differentiated
from tests.ops.variants import DTYPES, in_dtype, numbers_dtype

PAGE = Path(__file__).resolve().parents[1] / "docs/operators.md"
GROUPS = {FLOATS: "floats", ("int32", "int64"): "ints"}
# Differentiated by rules on their blocks; tests/backward/test_gradients_control_orders.py tests these orders.
CONTROL_ORDERS = {"while": "3", "if_else": "3", "conditional_block": "3", "net": "3", "composite": "3"}
# What Paddle has no operator of the name for: mostly what gradients of Paddle's operators are made of.
OWN = """
affine_grid_spread c_alltoall c_shard c_unshard clear_in_array composite conv2d_backprop_filter conv2d_backprop_input conv3d_backprop_filter
conv3d_backprop_input create_array create_tape crf_lattice ctc_lattice embedding_scatter erase_in_array expand_like fold_like
fused_elementwise if_else insert_in_array last_of_each linear_recurrence matrix_recurrence maxout_index net pool2d_gather_max
pool2d_scatter_max pool2d_spread pool3d_gather_max pool3d_scatter_max pool3d_spread pop_tape push_tape resample resample_spread reshape_like
roi_align_spread roi_pool_gather_max roi_pool_scatter_max split_like square_error_cost stand_in sum_like tape_has_more tensor_array_like
tensor_to_tensor_array uncrop undefined undiagonal ungather unpad2d unpad3d unslice untile window_places window_sum
"""
HEAD = """\
# Operators

{count} operators, under the files in `graphad/ops` that define them. Each is a function in `graphad.ops` and a layer in
`graphad.layers`, except those that hold blocks; where outputs depend differentiably on inputs, there is an operator `..._grad` beside
it. The names, slots and attributes are Paddle's, except of those marked †, which are graphad's own. This page is made by
`make pictures`.

- *Slots*: `*` takes a list of variables, `?` may be left out.
- *Attributes* have the default that is shown; one without `=` has to be given.
- *Dtypes*: those of float16, float32, float64 (*floats*), int32, int64 (*ints*) and bool in which the operator computes a call of
  the tests, and gives what was inferred: of its inputs (not of those that hold indices), or of its output where it has no inputs.
- *Gradient*: the order up to which derivatives are tested against central differences; "none" where the outputs do not depend
  differentiably on the inputs; "-" where there is no rule, and to differentiate is an error.

[Operators by trait](#operators-by-trait) at the end lists which ones are elementwise, linear, views, random and so on.
"""
TRAITS_HEAD = """\
## Operators by trait

What definitions promise to passes, and which operators do, gradient operators left out. The promises in full are in
`graphad/ops/traits.py`, and what MLIR and JAX call them is in the [glossary](glossary.md#traits-of-operators).

| trait | promise | number | operators |
| --- | --- | --- | --- |
"""
FOLDED = 12  # names beyond which a list is folded
# By trait, or by trait and one of its words, in the order of the page.
PROMISES = {
    "elementwise": "each element of the result is made of the elements at its place",
    "commutative": "its two operands may change places",
    "linear": "linear in operands, all together",
    "offset": "adds the number in an attribute to what is linear",
    "passed_on": "adds an operand to the result as it is",
    "bilinear": "linear in each of two operands while the other one stays",
    "partly_linear": "linear in an operand while all else stays, as a quotient in its dividend",
    "symmetric": "the Jacobian is its own transpose, without being elementwise",
    "steep": "the slope may be infinite, or undefined, at finite operands",
    "whole_ties": "each of several equal extrema gets the whole cotangent, if attributes say so or always",
    "reduction=sum": "reduces axes to their sum",
    "reduction=mean": "reduces axes to their mean",
    "reduction=extremum": "reduces axes to their maximum or minimum",
    "reduction=product": "reduces axes to their product",
    "reduction=other": "reduces axes otherwise",
    "rows": "rows, the slices along axis 0, are independent of each other",
    "along": "so they are unless an attribute names their axis",
    "apart": "so they are where attributes say so",
    "statistics": "results that are not row by row in spite of that",
    "dimensions": "a rule of its own says which dimensions of operands and results are one index",
    "in_order": "the result has the elements of X in their order",
    "uniform": "the same bits for an element at every position",
    "view": "the result is, or may be, in the memory of an operand",
    "own": "the result is in memory of its own; of elementwise operators their arithmetic says it",
    "written over": "may be written over an operand that is dead (by [in-place](passes.md)), in its samples",
    "state": "an update, which overwrites its parameter and the state it keeps",
    "fills": "all elements of the result are one number",
    "placeholder": "the result has a shape, and no memory",
    "converts": "the operand in another dtype",
    "of_shape": "made of shapes, dtypes and attributes alone",
    "extents": "operands say extents or places in the place of attributes",
    "speculatable=always": "may run early, whatever the extents are",
    "speculatable=types": "may run early where the types fit",
    "speculatable=extents": "may run early where all extents are known",
    "safe_dtypes=floats": "... but only with floats",
    "random": "draws random numbers",
    "ordered": "has ordered effects, such as messages: never removed, repeated or moved past another",
    "side_effect": "has effects: never removed",
    "partial": "operands may have no value, since a branch did not run",
    "lazy": "needs only the operands that another one chooses",
    "like": "an operand is the model for zeros",
    "extends": "the result is an operand, an aggregate, with more in it",
    "cheap": "computed again rather than passed into nested graphs",
    "costly": "takes much longer than to read and write its values, and is no product",
    "flops=0": "moves elements, and computes nothing",
    "flops=counted": "a rule counts the operations, from shapes",
    "weights": "a product whose weights have channels",
    "narrow=gains": "much faster in a narrow dtype",
    "narrow=follows": "loses nothing more in a narrow dtype than its operands have lost",
}


def text() -> str:
    """The text of docs/operators.md."""
    rows = {module: _rows_of(module) for module in CHAPTERS}
    sections = [part for module, own in rows.items() for part in _section(module, own)]
    return "\n".join([HEAD.format(count=sum(map(len, rows.values()))), *sections, by_trait([d for own in rows.values() for d in own])])


def _rows_of(module: ModuleType) -> list[OpDef]:
    return [definition for definition in REGISTRY.values() if _home(definition) == module.__name__ and not _is_gradient(definition)]


def _home(definition: OpDef) -> str:
    """The file that has the operator under a name, or else its kernel."""
    own = [module.__name__ for module in CHAPTERS if any(each is definition for each in vars(module).values())]
    return definition.kernel.__module__ if definition.kernel.__module__ in own or not own else own[0]


def _is_gradient(definition: OpDef) -> bool:
    return isinstance(definition, GradOpDef) or (isinstance(definition, ControlDef) and definition.is_grad)


def _section(module: ModuleType, definitions: Iterable[OpDef]) -> Iterator[str]:
    yield f"## {_title(module)}\n\n`{module.__name__.replace('.', '/')}.py`\n"
    yield "| operator | slots | attributes | dtypes | gradient |\n| --- | --- | --- | --- | --- |"
    yield from map(_line, definitions)
    yield ""


def _title(module: ModuleType) -> str:
    """The first sentence of the module's text."""
    text = " ".join((module.__doc__ or "").split("\n\n")[0].split())
    return re.split(r"\.$|\. (?=[A-Z])|; |: ``", text)[0].replace("``", "`")


def _line(definition: OpDef) -> str:
    slots = f"`{_slots(definition.inputs)} -> {_slots(definition.outputs)}`".replace("` ", "`")
    cells = (
        f"{definition.type}{' †' if definition.type in OWN.split() else ''}",
        slots,
        ", ".join(map(_attr, definition.attrs.values())),
        dtypes(definition),
        order(definition),
    )
    return f"| {' | '.join(cells)} |"


def _slots(slots: dict[str, Slot]) -> str:
    return " ".join(f"{s.name}{'*' * s.variadic}{'?' * s.optional}" for s in slots.values())


def _attr(attr: Attr) -> str:
    kind = attr.kind.replace("|", "\\|")
    return f"`{attr.name}: {kind}`" if attr.default is REQUIRED else f"`{attr.name}: {kind} = {attr.default!r}`"


# -- traits --------------------------------------------------------------------------------------


def by_trait(definitions: Sequence[OpDef]) -> str:
    """The section that lists the operators with each trait."""
    rows = (
        _trait(label, promise, sorted(definition.type for definition in definitions if promises(definition, label)))
        for label, promise in PROMISES.items()
    )
    return TRAITS_HEAD + "".join(rows)


def _trait(label: str, promise: str, types: list[str]) -> str:
    names = ", ".join(f"`{name}`" for name in types)
    names = names if len(types) <= FOLDED else f"<details><summary>{types[0]} … {types[-1]}</summary>{names}</details>"
    return f"| {label if ' ' in label else f'`{label}`'} | {promise} | {len(types)} | {names} |\n"


def promises(definition: OpDef, label: str) -> bool:
    """Whether an operator has a trait, or has it with the word after ``=``."""
    trait, _, word = label.partition("=")
    if label == "written over":
        return any(_is_written_over(definition, sample) for sample in SAMPLES.get(definition.type, ()))
    value, default = getattr(definition, trait), type(definition).__dataclass_fields__[trait].default
    if trait == "flops":
        return callable(value) if word == "counted" else value == int(word)
    return bool(value == word if word else value != default)  # sgd has a state, of no values


def _is_written_over(definition: OpDef, sample: Sample) -> bool:
    """Whether an elementwise operator can compute a sample into the memory of an operand: one of the type of the result."""
    arrays = [array for values in sample.slots().values() for array in values]
    if not definition.elementwise or not takes_required(definition, sample.inputs) or not all(isinstance(x, np.ndarray) for x in arrays):
        return False
    types = {slot: [TensorType(x.shape, x.dtype.name) for x in values] for slot, values in sample.slots().items()}
    (results,) = definition.infer_types(types, sample.attrs).values()
    dtypes = [x.dtype.name for x in arrays]
    is_like_an_operand = any(results[0] in group for group in types.values())
    return is_like_an_operand and makes_array(definition, dtypes, sample.attrs) and writes_into(definition, dtypes, sample.attrs)


# -- gradients and dtypes ------------------------------------------------------------------------


def order(definition: OpDef) -> str:
    """The order up to which the derivatives of an operator are tested; why there is none."""
    if definition.type in CONTROL_ORDERS:
        return CONTROL_ORDERS[definition.type]
    if definition.grads is None:
        return "-"
    return "3" if any(differentiated(definition, sample) for sample in SAMPLES[definition.type]) else "none"


def dtypes(definition: OpDef) -> str:
    """The dtypes in which an operator computes its first sample, those of a kind under one word."""
    if isinstance(definition, ControlDef) or not SAMPLES[definition.type]:
        return "any"
    sample = SAMPLES[definition.type][0]
    if not numbers_dtype(sample) and "dtype" not in definition.attrs:
        return "-"
    found = [dtype for dtype in DTYPES if _computes(definition, in_dtype(sample, dtype))]
    if len(found) == len(DTYPES):
        return "all"
    for group, word in GROUPS.items():
        if set(group) <= set(found):
            found = [*(d for d in found[: found.index(group[0])]), word, *(d for d in found if d not in group and d not in GROUPS.values())]
    return ", ".join(found) or "none"


def _computes(definition: OpDef, sample: Sample) -> bool:
    """Whether inference takes the sample, and the kernel gives what was inferred."""
    refusals: Any = (TypeError, ValueError, ArithmeticError, LookupError, AssertionError)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check_inference(definition.type, sample)
        except refusals:
            return False
    return True
