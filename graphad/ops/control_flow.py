"""Operators that hold blocks: ``while``, ``if_else``, ``conditional_block``, ``net``, ``fused_elementwise``; their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, TypeVar

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.definition import GRAD, OpDef, operator
from graphad.ops.registry import REGISTRY
from graphad.types import STEP_SCOPES, Function, Tensor, TensorType

if TYPE_CHECKING:
    from graphad.program import Block

# -- control ---------------------------------------------------------------------------------------
# Operators that hold blocks: ``while``, ``if_else``, ``conditional_block``, ``net``, and their gradients.
#
# A definition says how its blocks run: it is a ``LoopDef``, a ``BranchDef`` or a ``CallDef``, and names the slots. Passes and the executor
# ask that (``graphad.ir.regions``), so an operator of another package is treated as these are.
#
# The forward ones work on names: a block reads and writes the variables around it. The gradient
# ones hand values in and out: ``original_input``, ``original_output_grad`` and
# ``original_input_grad`` are the names that X, Out@GRAD and X@GRAD have inside (for several blocks one list after the other); what
# an iteration kept is read by its own name from the block around, which is the forward block.


@dataclass(frozen=True, eq=False, repr=False)
class ControlDef(OpDef):
    """The definition of an operator with blocks: a ``LoopDef``, a ``BranchDef`` or a ``CallDef``.

    Attributes:
        operands, results: the slots of the values that the blocks read and write.
        condition: the slot of the condition, empty if there is none.
        scopes: the slot of the residuals.
        blocks: the attributes that hold blocks.
        gradient: the type of the operator that is its gradient, empty if there is none.
        ordinary: of a gradient, the type of the operator that computes the same from a tape, so that it can be differentiated again.
    """

    operands: str = "X"
    results: str = "Out"
    condition: str = ""
    scopes: str = ""
    blocks: tuple[str, ...] = ()
    gradient: str = ""
    ordinary: str = ""

    @cached_property
    def is_grad(self) -> bool:
        """Whether this is the gradient of another one."""
        return self.results.endswith(GRAD)

    @property
    def may_skip(self) -> bool:
        """Whether an operator may run none of its blocks."""
        return False

    def infer_types(self, inputs: Mapping[str, Sequence[TensorType]], attrs: Mapping[str, object]) -> dict[str, list[TensorType]]:
        """Nothing is inferred: the blocks say it; a condition that is not one boolean is a ``ShapeError``."""
        for type_ in inputs.get(self.condition, ()):
            # A condition that is not scalar asks whether tensors are empty, so that any tensor will do.
            if attrs.get("is_scalar_condition", True) and (type_.dtype != "bool" or any(e not in (1, -1) for e in type_.shape)):
                raise ShapeError(f"{self.condition} is {type_}; a condition is one boolean")
        return {}


@dataclass(frozen=True, eq=False, repr=False)
class LoopDef(ControlDef):
    """A loop: it runs its one block while the condition, which the block writes, holds: what the block writes is what it reads in the next
    iteration. The gradient runs its block over these iterations, the last one first."""

    @property
    def may_skip(self) -> bool:
        return True


@dataclass(frozen=True, eq=False, repr=False)
class BranchDef(ControlDef):
    """A branch: it runs the first of its blocks if the condition holds, else the second; with one block alone nothing runs then.

    ``two_sided``: of one with one block, the type of the operator that it becomes where the other branch has to do something.
    """

    two_sided: str = ""

    @property
    def may_skip(self) -> bool:
        return len(self.blocks) == 1


@dataclass(frozen=True, eq=False, repr=False)
class CallDef(ControlDef):
    """A call: it runs its one block once.

    ``fused``: the block is to stay in one piece, since the executor runs it as one operator. ``sealed``: passes do not look into the block
    at all, which says what the operator computes and is put in its place where that is wanted (``ir.edits.open_sealed``).
    """

    fused: bool = False
    sealed: bool = False


C = TypeVar("C", bound=ControlDef)


def region_operator(signature: str, kind: type[C], name: str, **fields: object) -> Callable[[Function], C]:
    """Define an operator with blocks, which runs them as its ``kind`` says: what ``operator`` is for those without.

    Args:
        signature: its slots, as for ``operator``. The keyword-only parameters of the function are its attributes; those that hold
            blocks are annotated with ``Block``. The function itself never runs.
        kind: ``LoopDef``, ``BranchDef`` or ``CallDef``.
        name: the operator's type.
        fields: which slots and attributes are what, and its gradient; see ``ControlDef``.

    Raises:
        ValueError: there is an operator of this type, or it has no slot or attribute of a name in ``fields``.

    >>> @region_operator("X*? -> Out*? Scope?", CallDef, "traced", scopes="Scope", blocks=("body",), gradient="net_grad")
    ... def traced(X, *, body: "Block", label: str = ""):
    ...     "Run the block; a profiler shows it under its label."
    >>> traced.gradient
    'net_grad'
    >>> _ = REGISTRY.pop("traced")
    """

    def add(function: Callable[..., object]) -> C:
        if name in REGISTRY:
            raise InvalidValue(f"operator {name!r} is defined twice")
        # ``operator`` reads slots and attributes from the signature; of what it makes only the fields are kept.
        row = operator(signature, name=name, infer=_nothing, grad=None)(function)
        control = kind(**{**vars(row), "kinds": {fields["scopes"]: STEP_SCOPES}, **fields})
        del REGISTRY[name]
        _check_fields(control)
        REGISTRY[name] = control
        return control

    return add


def _check_fields(definition: ControlDef) -> None:
    slots_by_field = {
        "operands": definition.inputs,
        "results": definition.outputs,
        "condition": definition.inputs,
        "scopes": definition.inputs if definition.is_grad else definition.outputs,
    }
    for field, slots in slots_by_field.items():
        slot = getattr(definition, field)
        if slot not in slots and (slot or field != "condition"):
            raise InvalidValue(f"operator {definition.type!r} says {field}={slot!r}, which is no slot there; it has {', '.join(slots)}")
    for name in definition.blocks:
        if name not in definition.attrs or definition.attrs[name].kind != "Block":
            raise InvalidValue(
                f"operator {definition.type!r} says that {name!r} holds a block, but its attributes are {', '.join(definition.attrs)}"
            )
    if isinstance(definition, LoopDef) and not (len(definition.blocks) == 1 and (definition.condition or definition.is_grad)):
        raise InvalidValue(
            f"operator {definition.type!r} is a loop: it has one block and a condition, "
            f"not {definition.blocks} and {definition.condition!r}"
        )


def _nothing(*_: object, **__: object) -> NoReturn:
    raise AssertionError("an operator with blocks is run by the executor")


_WHILE = {"condition": "Condition", "scopes": "StepScopes", "blocks": ("sub_block",), "gradient": "while_grad"}
_IF_ELSE = {"condition": "Cond", "scopes": "Scope", "blocks": ("true_block", "false_block"), "gradient": "if_else_grad"}
_CONDITIONAL = {**_IF_ELSE, "blocks": ("sub_block",), "operands": "Input", "two_sided": "if_else"}
_NET = {"scopes": "Scope", "blocks": ("sub_block",), "gradient": "net_grad"}
_OF_WHILE = {"operands": "X", "results": f"X{GRAD}", "scopes": "StepScopes", "blocks": ("sub_block",), "ordinary": "while"}
_OF_BRANCHES = {"operands": "X", "results": f"X{GRAD}", "scopes": "Scope", "condition": "Cond"}
_OF_NET = {"operands": "X", "results": f"X{GRAD}", "scopes": "Scope", "blocks": ("sub_block",), "ordinary": "net"}


@region_operator("X*? Condition -> Out*? StepScopes?", LoopDef, "while", **_WHILE)
def while_(X: list[Tensor], Condition: Tensor, *, sub_block: Block, is_test: bool = False) -> None:
    """Run the block again and again while Condition, which the block writes, holds.

    X is what the block reads, Out what it writes outside, the condition included.
    """


@region_operator("Cond* X*? -> Out*? Scope?", BranchDef, "if_else", **_IF_ELSE)
def if_else(Cond: list[Tensor], X: list[Tensor], *, true_block: Block, false_block: Block, is_scalar_condition: bool = True) -> None:
    """Run one of two blocks; what only the other one writes stays as it was.

    The first runs if Cond holds; unless ``is_scalar_condition``, if no tensor in Cond is without elements.
    """


@region_operator("Cond* Input*? -> Out*? Scope?", BranchDef, "conditional_block", **_CONDITIONAL)
def conditional_block(
    Cond: list[Tensor],
    Input: list[Tensor],
    *,
    sub_block: Block,
    is_scalar_condition: bool = True,
    skip_eager_deletion_vars: list[str] | None = None,
) -> None:
    """Run the block if Cond holds; unless ``is_scalar_condition``, if no tensor in Cond is without elements."""


@region_operator("X*? -> Out*? Scope?", CallDef, "net", **_NET)
def net(X: list[Tensor], *, sub_block: Block) -> None:
    """Run the block: a network that is itself an operator."""


@region_operator("X*? Input*? -> Out*? Scope?", CallDef, "composite", **_NET, sealed=True)
def composite(
    X: list[Tensor],
    Input: list[Tensor],
    *,
    sub_block: Block,
    name: str,
    domain: str = "",
    version: int = 0,
    attributes: str = "{}",
    inputs: list[int] | None = None,
    outputs: list[int] | None = None,
    wiring: list[int] | None = None,
    seal: str = "",
) -> None:
    """Run the block, which is what an operator of another system is made of here; StableHLO's ``composite``.

    The block says what is computed, and is all that is run and differentiated. The rest says which operator that is, so that it can be
    written back as one: its ``name`` in a version of a domain; its attributes, in JSON; what it reads (Input), by the places ``inputs``
    among its operands; and of which of its results each of Out is the value, if need be in another dtype. ``seal`` is a digest
    of the block, and ``wiring`` says which of Input it reads where: where the block is another one, something has changed it, and it is no
    longer that operator.
    """


@region_operator("X*? StepScopes Out@GRAD* -> X@GRAD*", LoopDef, "while_grad", **_OF_WHILE)
def while_grad(
    X: list[Tensor],
    StepScopes: Tensor,
    OutGRAD: list[Tensor],
    *,
    sub_block: Block,
    original_input: list[str],
    original_output_grad: list[str],
    original_input_grad: list[str],
    checkpoint_every: int = 0,
    recursive: bool = False,
) -> None:
    """Run the block over the iterations that the loop kept, the last one first.

    The first cotangents in X@GRAD belong to those in Out@GRAD: each iteration passes them to the one before. The others, of what
    the first tensors in X are, add up over the iterations. With ``checkpoint_every`` the loop keeps only what it carries, each time
    so many iterations have run, and the others are run again; ``recursive`` keeps the start alone, and runs again from places between.
    """


@region_operator(
    "Cond* X*? Scope Out@GRAD* -> X@GRAD*",
    BranchDef,
    "if_else_grad",
    **_OF_BRANCHES,
    blocks=("true_block", "false_block"),
    ordinary="if_else",
)
def if_else_grad(
    Cond: list[Tensor],
    X: list[Tensor],
    Scope: Tensor,
    OutGRAD: list[Tensor],
    *,
    true_block: Block,
    false_block: Block,
    original_input: list[str],
    original_output_grad: list[str],
    original_input_grad: list[str],
    is_scalar_condition: bool = True,
) -> None:
    """Run the gradient of the branch that was taken."""


_PADDLES_GRAD = {"condition": "Cond", "operands": "Input", "results": f"Input{GRAD}", "scopes": "Scope", "blocks": ("sub_block",)}


@region_operator("Cond* Input*? Out*? Out@GRAD*? Scope -> Cond@GRAD*? Input@GRAD*?", BranchDef, "conditional_block_grad", **_PADDLES_GRAD)
def conditional_block_grad(
    Cond: list[Tensor],
    Input: list[Tensor],
    Out: list[Tensor],
    OutGRAD: list[Tensor],
    Scope: Tensor,
    *,
    sub_block: Block,
    is_scalar_condition: bool = True,
    skip_eager_deletion_vars: list[str] | None = None,
) -> None:
    """Paddle's gradient of a ``conditional_block``, whose block finds all that it reads by name.

    Where a program is lowered or run it becomes an ``if_else_grad``.
    """


@region_operator("X*? Scope Out@GRAD* -> X@GRAD*", CallDef, "net_grad", **_OF_NET)
def net_grad(
    X: list[Tensor],
    Scope: Tensor,
    OutGRAD: list[Tensor],
    *,
    sub_block: Block,
    original_input: list[str],
    original_output_grad: list[str],
    original_input_grad: list[str],
) -> None:
    """Run the gradient of the block."""


# -- fused -----------------------------------------------------------------------------------------
# Operators that are several operators in one.

FUSED_ELEMENTWISE = "fused_elementwise"


@region_operator("X*? -> Out*? Scope?", CallDef, FUSED_ELEMENTWISE, scopes="Scope", blocks=("sub_block",), gradient="net_grad", fused=True)
def fused_elementwise(X: list[Tensor], *, sub_block: Block) -> None:
    """Run the block, whose operators are elementwise: the executor does it piece by piece, as large as a cache."""
