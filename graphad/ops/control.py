"""Operators that hold blocks: ``while``, ``if_else``, ``conditional_block``, ``net``, and their gradients.

An executor runs the blocks; the rows say which slots there are. The forward ones work on names: a block reads and writes the
variables around it. The gradient ones hand values in and out: ``original_input``, ``original_output_grad`` and
``original_input_grad`` are the names that X, Out@GRAD and X@GRAD have inside (for several blocks one list after the other); what
an iteration kept is read by its own name from the block around, which is the forward block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graphad.errors import ShapeError
from graphad.ops.definition import GRAD, OpDef, operator
from graphad.ops.symbol import REGISTRY
from graphad.types import STEP_SCOPES, TensorType

Block = Any


@dataclass(frozen=True, eq=False, repr=False)
class ControlDef(OpDef):
    """The definition of an operator with blocks.

    ``operands`` and ``results`` are the slots of the values that the blocks read and write, ``condition`` the slot of the condition
    (empty if there is none), ``scopes`` the slot of the residuals, ``blocks`` the attributes that hold blocks.
    """

    operands: str = "X"
    results: str = "Out"
    condition: str = ""
    scopes: str = ""
    blocks: tuple[str, ...] = ()

    @property
    def is_grad(self) -> bool:
        """Whether this is the gradient of another one."""
        return self.results.endswith(GRAD)

    def infer_types(self, inputs: Mapping[str, Any], attrs: Mapping[str, Any]) -> dict[str, list[TensorType]]:
        """Nothing is inferred: the blocks say it; a condition that is not one boolean is a ``ShapeError``."""
        for given in inputs.get(self.condition, ()):
            if attrs.get("is_scalar_condition", True) and (given.dtype != "bool" or any(e not in (1, -1) for e in given.shape)):
                raise ShapeError(f"{self.condition} is {given}; a condition is one boolean")
        return {}


def _control(signature: str, name: str, **where: Any) -> Callable[[Callable[..., Any]], ControlDef]:
    def add(kernel: Callable[..., Any]) -> ControlDef:
        row = operator(signature, name=name, infer=_nothing, grad=None)(kernel)
        control = ControlDef(**{**vars(row), "kinds": {where["scopes"]: STEP_SCOPES}, **where})
        REGISTRY[name] = control
        return control

    return add


def _nothing(*_: Any, **__: Any) -> Any:
    raise AssertionError("an operator with blocks is run by the executor")


_WHILE = {"condition": "Condition", "scopes": "StepScopes", "blocks": ("sub_block",)}
_IF_ELSE = {"condition": "Cond", "scopes": "Scope", "blocks": ("true_block", "false_block")}
_CONDITIONAL = {"condition": "Cond", "scopes": "Scope", "blocks": ("sub_block",), "operands": "Input"}
_NET = {"scopes": "Scope", "blocks": ("sub_block",)}


@_control("X*? Condition -> Out*? StepScopes?", "while", **_WHILE)
def while_(X: Any, Condition: Any, *, sub_block: Block, is_test: bool = False) -> Any:
    """Run the block again and again while Condition, which the block writes, holds.

    X is what the block reads, Out what it writes outside, the condition included.
    """


@_control("Cond* X*? -> Out*? Scope?", "if_else", **_IF_ELSE)
def if_else(Cond: Any, X: Any, *, true_block: Block, false_block: Block, is_scalar_condition: bool = True) -> Any:
    """Run one of two blocks; what only the other one writes stays as it was.

    The first runs if Cond holds; unless ``is_scalar_condition``, if no tensor in Cond is without elements.
    """


@_control("Cond* Input*? -> Out*? Scope?", "conditional_block", **_CONDITIONAL)
def conditional_block(
    Cond: Any, Input: Any, *, sub_block: Block, is_scalar_condition: bool = True, skip_eager_deletion_vars: list[str] | None = None
) -> Any:
    """Run the block if Cond holds; unless ``is_scalar_condition``, if no tensor in Cond is without elements."""


@_control("X*? -> Out*? Scope?", "net", **_NET)
def net(X: Any, *, sub_block: Block) -> Any:
    """Run the block: a network that is itself an operator."""


@_control("X*? StepScopes Out@GRAD* -> X@GRAD*", "while_grad", operands="X", results=f"X{GRAD}", scopes="StepScopes", blocks=("sub_block",))
def while_grad(
    X: Any,
    StepScopes: Any,
    OutGRAD: Any,
    *,
    sub_block: Block,
    original_input: list[str],
    original_output_grad: list[str],
    original_input_grad: list[str],
    checkpoint_every: int = 0,
    recursive: bool = False,
) -> Any:
    """Run the block over the iterations that the loop kept, the last one first.

    The first cotangents in X@GRAD belong to those in Out@GRAD: each iteration passes them to the one before. The others, of what
    the first tensors in X are, add up over the iterations. With ``checkpoint_every`` the loop keeps only what it carries, each time
    so many iterations have run, and the others are run again; ``recursive`` keeps the start alone, and runs again from places between.
    """


_BRANCH_GRAD = {"operands": "X", "results": f"X{GRAD}", "scopes": "Scope"}


@_control("Cond* X*? Scope Out@GRAD* -> X@GRAD*", "if_else_grad", **_BRANCH_GRAD, condition="Cond", blocks=("true_block", "false_block"))
def if_else_grad(
    Cond: Any,
    X: Any,
    Scope: Any,
    OutGRAD: Any,
    *,
    true_block: Block,
    false_block: Block,
    original_input: list[str],
    original_output_grad: list[str],
    original_input_grad: list[str],
    is_scalar_condition: bool = True,
) -> Any:
    """Run the gradient of the branch that was taken."""


_PADDLES_GRAD = {"condition": "Cond", "operands": "Input", "results": f"Input{GRAD}", "scopes": "Scope", "blocks": ("sub_block",)}


@_control("Cond* Input*? Out*? Out@GRAD*? Scope -> Cond@GRAD*? Input@GRAD*?", "conditional_block_grad", **_PADDLES_GRAD)
def conditional_block_grad(
    Cond: Any,
    Input: Any,
    Out: Any,
    OutGRAD: Any,
    Scope: Any,
    *,
    sub_block: Block,
    is_scalar_condition: bool = True,
    skip_eager_deletion_vars: list[str] | None = None,
) -> Any:
    """Paddle's gradient of a ``conditional_block``, whose block finds all that it reads by name.

    Where a program is lowered or run it becomes an ``if_else_grad``.
    """


@_control("X*? Scope Out@GRAD* -> X@GRAD*", "net_grad", **_BRANCH_GRAD, blocks=("sub_block",))
def net_grad(
    X: Any,
    Scope: Any,
    OutGRAD: Any,
    *,
    sub_block: Block,
    original_input: list[str],
    original_output_grad: list[str],
    original_input_grad: list[str],
) -> Any:
    """Run the gradient of the block."""
