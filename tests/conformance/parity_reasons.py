"""The intended differences between graphad's backward and Paddle's: each ``Reason`` describes one, and how to leave it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

GRAD = "@GRAD"
EMPTY = "@EMPTY@"
CONTROL = ("while_grad", "conditional_block_grad", "if_else_grad")
Names = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Step:
    """One operator of a backward: names by slot, attributes, the blocks it holds; whether it was put among forward operators."""

    type: str
    inputs: Names
    outputs: Names
    attrs: dict[str, Any] = field(default_factory=dict)
    blocks: tuple[tuple[Step, ...], ...] = ()
    inserted: bool = False


Steps = tuple[Step, ...]
Change = Callable[[Step], Step | None]  # None leaves the operator out


@dataclass(frozen=True)
class Reason:
    """Something that may differ: a word for it, the text that explains it, and how to leave it out of a list of operators."""

    word: str
    text: str
    leave_out: Callable[[Steps], Steps]


def each(change: Change) -> Callable[[Steps], Steps]:
    """Change every operator, those in blocks first."""

    def all_of(steps: Steps) -> Steps:
        inner = (replace(s, blocks=tuple(map(all_of, s.blocks))) for s in steps)
        return tuple(s for s in map(change, inner) if s is not None)

    return all_of


# An operator of Paddle's that a gradient is made of; the gradient operator of graphad's, and the slots that stand for each other.
AS_FORWARD: dict[str, tuple[str, dict[str, str]]] = {
    "scale": ("scale_grad", {"X": "Out@GRAD", "Out": "X@GRAD"}),
    "assign": ("assign_grad", {"X": "Out@GRAD", "Out": "X@GRAD"}),
    "concat": ("split_grad", {"X": "Out@GRAD", "Out": "X@GRAD"}),
    "select_output": ("select_input_grad", {"X": "Out@GRAD", "Out": "X@GRAD"}),
    "read_from_array": ("write_to_array_grad", {"X": "Out@GRAD", "Out": "X@GRAD", "X_W": "X"}),
    "write_to_array": ("read_from_array_grad", {"X": "Out@GRAD", "Out": "X@GRAD"}),
}


def _as_gradient(step: Step) -> Step:
    gradients = all(GRAD in name for name in step.outputs.get("Out", ()))
    if step.type not in AS_FORWARD or not gradients or GRAD not in "".join(step.inputs.get("X", ())):
        return step
    new, slots = AS_FORWARD[step.type]
    return replace(step, type=new, inputs=_renamed(step.inputs, slots), outputs=_renamed(step.outputs, slots))


def _own_type(step: Step) -> Step:
    """The gradient operator; without the bias, which Paddle sets to zero in the operator that stands for a gradient."""
    step = _as_gradient(step)
    unread = "bias" if step.type == "scale_grad" else ""
    return replace(step, attrs={name: value for name, value in step.attrs.items() if name != unread})


def _renamed(names: Names, slots: Mapping[str, str]) -> Names:
    return dict(sorted((slots.get(slot, slot), value) for slot, value in names.items()))


def _without_reads(step: Step) -> Step:
    if not step.type.endswith("_grad"):
        return step
    return replace(step, inputs={slot: names for slot, names in step.inputs.items() if slot.endswith(GRAD)})


def _one_block(step: Step) -> Step:
    if step.type not in ("conditional_block_grad", "if_else_grad"):
        return step
    renamed = {"X": "Input", "X@GRAD": "Input@GRAD"} if step.type == "if_else_grad" else {}
    return replace(
        step,
        type="conditional_block_grad",
        inputs=_renamed(step.inputs, renamed),
        outputs=_renamed(step.outputs, renamed),
        attrs={},
        blocks=step.blocks[:1],
    )


def _as_links(step: Step) -> Step:
    """An operator with blocks by the gradients it takes and gives only, as sets."""
    if step.type not in CONTROL:
        return step
    gradients = {slot: tuple(sorted({*names} - {EMPTY})) for slot, names in {**step.inputs, **step.outputs}.items() if slot.endswith(GRAD)}
    return replace(
        step,
        inputs={slot: names for slot, names in gradients.items() if slot in step.inputs},
        outputs={slot: names for slot, names in gradients.items() if slot in step.outputs},
        attrs={},
    )


def _as_fill(step: Step) -> Step:
    if step.type not in ("fill_any_like", "fill_zeros_like", "fill_constant"):
        return step
    return Step("fill", {}, step.outputs, {"value": step.attrs.get("value", 0.0)}, inserted=step.inserted)


def _without_kept(step: Step) -> Step | None:
    if step.inserted or step.type == "stand_in":
        return None
    return replace(step, inputs=_unsaved(step.inputs), outputs=_unsaved(step.outputs))


def _unsaved(names: Names) -> Names:
    return {slot: tuple(n.split("@SAVED@")[0] for n in v) for slot, v in names.items()}


def _without_undoing(step: Step) -> Step | None:
    """Without what counts back, and without the gradient of counting, which passes a gradient on under its name."""
    return None if step.type in ("increment", "increment_grad") else step


def _without_array_sums(step: Step) -> Step | None:
    """Without the sums of gradients of arrays, and the gradients that are passed on from one write, or loop, to the one before."""
    if step.type == "sum" and _is_array(step.outputs["Out"][0]):
        return None
    handed_on = step.inputs.get("Out@GRAD", ())
    kept = {slot: tuple(n for n in names if not (_is_array(n) and n in handed_on)) for slot, names in step.outputs.items()}
    return replace(step, outputs={slot: names for slot, names in kept.items() if slot != "Array@GRAD"})


def _is_array(name: str) -> bool:
    return name.startswith("array_write")


def _unnumbered(step: Step) -> Step:
    """Every gradient under the plain name: that of the forward variable."""
    return replace(step, inputs=_plain(step.inputs), outputs=_plain(step.outputs))


def _plain(names: Names) -> Names:
    return {slot: tuple(n.removeprefix("grad/grad/").split(GRAD)[0] + GRAD if GRAD in n else n for n in v) for slot, v in names.items()}


def _seeds_read(steps: Steps) -> Steps:
    """Without the copies of target gradients: what reads a copy reads the gradient that was given."""
    copying = [s for s in steps if s.type == "assign" and not s.inserted and GRAD not in s.inputs["X"][0]]
    copies = {s.outputs["Out"][0]: s.inputs["X"][0] for s in copying}

    def read(step: Step) -> Step | None:
        if step in copying:
            return None
        return replace(step, inputs={slot: tuple(copies.get(n, n) for n in names) for slot, names in step.inputs.items()})

    return each(read)(steps)


REASONS = (
    Reason(
        "reads",
        "a gradient operator is given the forward tensors that its rules read: fewer than Paddle's where a gradient is not requested "
        "(`Y` of `elementwise_sub_grad`), where Paddle's kernel reads what can be computed (`Out` of `silu_grad`) or keeps memory for "
        "its kernel (`ReserveSpace`); others where a rule reads them (`Out` of `elementwise_pow_grad`, `X` in place of `XShape`).",
        each(_without_reads),
    ),
    Reason(
        "own type",
        "where Paddle writes a forward operator as a gradient (`scale`, `assign`, `concat` for `split`, `select_output` for "
        "`select_input`, `write_to_array` for `read_from_array` and the other way round), graphad writes the gradient operator "
        "(`scale_grad`, ...), whose meaning is that operator: one rule for all operators, and the text shows what is a gradient.",
        each(_own_type),
    ),
    Reason(
        "fill",
        "the specification's `fill_constant` and `fill_zeros_like`, where Paddle 2.6 writes `fill_any_like`.",
        each(_as_fill),
    ),
    Reason(
        "names",
        "where a name is taken, another one: the second backward of a program makes `w@GRAD_0` (Paddle `grad/grad/w@GRAD`), and in a "
        "loop the gradient before an iteration has a name of its own, not that of the one after it.",
        each(_unnumbered),
    ),
    Reason(
        "target gradients",
        "a gradient that is given for a target is copied to the target's `@GRAD`, so that it can be read there; Paddle leaves it "
        "under its own name.",
        _seeds_read,
    ),
    Reason(
        "both branches",
        "the gradient of a branch is `if_else_grad`, with a second block: zeros for when the branch was not taken. Paddle's "
        "`conditional_block_grad` makes these zeros in its kernel, so its program does not say that they are there. "
        "Those of Paddle's programs run as they are.",
        each(_one_block),
    ),
    Reason(
        "block operators",
        "operators with blocks list the forward variables that their gradient reads, and which names stand for them inside; Paddle's "
        "list all of the forward's, with `@EMPTY@` for what has no gradient, and find the rest by name in scopes.",
        each(_as_links),
    ),
    Reason(
        "kept values",
        "a value that a gradient reads and the forward overwrites gets a name of its own, `y@SAVED@0`, in a block by an `assign` that is "
        "put there; what a gradient reads only the shape of is stood in for by a `stand_in`. Paddle keeps the scopes of all iterations.",
        each(_without_kept),
    ),
    Reason(
        "no counting back",
        "Paddle's gradient of `increment` counts the forward variable back, so that a counter fetched after training is what it was "
        "before. graphad keeps the value that is needed, and the gradient is `increment_grad`.",
        each(_without_undoing),
    ),
    Reason(
        "arrays",
        "the gradient of an array of tensors is a value: several of them are added by a `sum`, and writing passes on what it did not "
        "overwrite. Paddle's operators add into one array in place.",
        each(_without_array_sums),
    ),
)

# Cases in which the lists are not the same computation at all: why.
OTHER = {
    "assign_overwrites_variable": Reason(
        "overwritten",
        "a variable is written twice. Paddle adds the gradients of both values under one name, and its gradient is wrong; graphad "
        "tells the values apart.",
        tuple,
    ),
    "double_grad_cube": Reason(
        "second order",
        "to differentiate again, graphad writes the gradient operators out as the operators that they mean, and differentiates "
        "those; Paddle has an operator `elementwise_mul_grad_grad` written by hand, and none for most operators. "
        "Those of Paddle's programs run as they are: their meaning is what the rule of the operator gives when it is differentiated.",
        tuple,
    ),
    "double_grad_through_while": Reason(
        "second order of a loop",
        "Paddle refuses to differentiate `while_grad`; its list is that of the first order. graphad's is a loop again.",
        tuple,
    ),
}
# Cases that Paddle gets wrong or does not run though its operators are these.
FAULTS = {
    "while_with_cond_inside": "Paddle's gradients are wrong: in the branch's block a gradient is written to the name's variable outside",
    "while_zero_iterations": "Paddle writes no gradient of `w`: the loop only reads it, and does not run",
}
