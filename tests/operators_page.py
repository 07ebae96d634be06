"""docs/operators.md: the operator table as a page, from the registry and from what the tests do with each row's samples."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from graphad.ops import CHAPTERS, REGISTRY, ControlDef, GradOpDef, OpDef, Slot
from graphad.ops.definition import Attr
from graphad.ops.parameters import REQUIRED
from graphad.ops.sample import Sample
from graphad.testing.samples import SAMPLES
from graphad.types import FLOATS
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
"""


def text() -> str:
    """The text of docs/operators.md."""
    rows = {module: _rows_of(module) for module in CHAPTERS}
    return "\n".join([HEAD.format(count=sum(map(len, rows.values()))), *(part for m, own in rows.items() for part in _section(m, own))])


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
