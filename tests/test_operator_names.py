"""Which operators passes and the framework test for by name, each with the rule that is about that operator.

An operator is *tested for* where its name is in a question, such as ``op.type == "cast"``, or a table by types. Operators of other packages
answer no such question, so that it belongs to the traits of definitions (``graphad/ops/traits.py``). A pass that *makes* an operator has to
name it: ``add_op("cast", ...)`` and ``lookup("cast")`` are not counted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from graphad.ops import REGISTRY, ControlDef
from tests.source_tree import modules

PARTS = (
    *("backward", "difference", "distribution", "drawing", "edit", "execution", "experiments", "freezing", "ir", "passes", "program"),
    *("rewriting", "training", "viewing"),
)

# Module: the operators that it tests for, and the rule that is about them.
ASKED = {
    "distribution.group": ("shard_tensor", "the annotation itself"),
    "execution.native": ("greater_equal less_equal logical_and logical_not logical_or not_equal", "functions of numpy, as numba has them"),
    "execution.strategies": ("sync_batch_norm", "an option of Fluid's, which is named so too"),
    "freezing": (
        "elementwise_add elementwise_div elementwise_mul elementwise_sub matmul_v2 scale transpose",
        "a normalization that an exporter wrote out, put into the weights before it",
    ),
    "ir.edits": ("while if_else net", "the three operators with blocks that edits make"),
    "ir.schedule": ("undefined", "what lowering writes where there is no value goes again"),
    "passes.analyses.sharding": ("shard_tensor", "the annotation itself"),
    "passes.cleanup.constant_arrays": ("fill_constant", "the constants that are written: of one number, or listed"),
    "passes.cleanup.constant_folding": (
        "fill_constant range",
        "the same; the length of a range follows from its numbers, which no type says",
    ),
    "passes.cleanup.rules.dropout": ("dropout", "rules for dropout"),
    "passes.control_flow.fold_branches": ("merge_lod_tensor select_input select_output where", "a rule for each of them"),
    "passes.differentiation.jvp": ("fill_zeros_like stand_in", "makes one of the two"),
    "passes.distribution.bucket_all_reduce": ("c_allreduce_sum", "puts all-reduces into buckets"),
    "passes.distribution.partition": ("c_allreduce_sum", "makes all-reduces, and sums several of them at once"),
    "passes.distribution.shard_optimizer": ("c_allreduce_sum", "a reduce-scatter takes the place of an all-reduce"),
    "passes.fusion.fold_batch_norm": ("batch_norm elementwise_add", "folds a batch_norm, with the bias that is added before it"),
    "passes.inspection.probe_numerics": (
        "elementwise_add elementwise_max elementwise_min isinf_v2 isnan_v2 reduce_max reduce_min",
        "makes the operators that look at a value",
    ),
    "program.paddle_gradients": (
        "conditional_block conditional_block_grad fill_zeros_like if_else_grad select_input_grad select_output while while_grad",
        "how Paddle writes the gradients of blocks",
    ),
    "program.paddle_recurrent": ("fill_zeros_like", "how Paddle writes a recurrent block"),
    "rewriting.constants": ("assign_value", "the one constant whose numbers are listed"),
    "rewriting.moving": (
        "concat expand_like expand_v2 flip mean pad roll slice split stack sum_like transpose transpose2 unsqueeze unstack",
        "what each means to a solver",
    ),
    "rewriting.proving": ("pow", "an exponent is tried with the numbers that kernels treat by themselves"),
    "rewriting.smt_operators": ("elementwise_pow expm1 log1p", "names of functions, as a solver sees them"),
}

# Calls that make the operator that one of their arguments names.
MAKERS = ["lookup", "add_op", "append_op", "insert_op", "op", "add", "Operator", "made", "_written", "_next", "_checked"]


def asked(tree: ast.Module) -> set[str]:
    """The operators that a module asks for.

    A name with an underscore counts wherever it is, unless a call makes the operator. One that is a plain word, such as ``sum``, or is an
    attribute's too, counts where it is compared with a type, or is a key of a table of operators.
    """
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    others = {id(node) for node in _elsewhere(tree)} | docstrings
    everywhere = {name for node in ast.walk(tree) if id(node) not in others for name in _names(node) if not _is_word(name)}
    with_blocks = {
        name for node in ast.walk(tree) if id(node) not in others for name in _names(node) if isinstance(REGISTRY[name], ControlDef)
    }
    compared = (part for node in ast.walk(tree) for part in _questions(node, constants))
    return everywhere | with_blocks | {name for part in compared for node in ast.walk(part) for name in _names(node)}


def test_operators_are_named_where_a_rule_is_about_them() -> None:
    found = {
        name.removeprefix("graphad."): asked(ast.parse(path.read_text(encoding="utf-8")))
        for name, path in modules().items()
        if _is_part(name)
    }
    allowed = {module: {*names.split()} for module, (names, _) in ASKED.items()}
    more = {module: sorted(names - allowed.get(module, set())) for module, names in found.items() if names - allowed.get(module, set())}
    assert not more, (
        f"{more}: ask a trait or an interface of the definition (graphad/ops/traits.py), or say here which rule is about the operator"
    )
    gone = {module: sorted(names - found.get(module, set())) for module, names in allowed.items() if names - found.get(module, set())}
    assert not gone, f"{gone}: named no more, take it out of the list"


def _is_part(module: str) -> bool:
    return module.split(".")[1:2] != [] and module.split(".")[1] in PARTS


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("op.type == 'cast'", "cast"),
        ("op.type in ('sum', 'mean')", "sum mean"),
        ("MEANS = ('mean', 'sum')\ndef f(op): return op.type in MEANS", "mean sum"),
        ("table = {'exp': 1, 'tanh': 2}", "exp tanh"),
        ("TABLE = {'exp': 1}\ndef f(op): return TABLE.get(op.type)", "exp"),
        ("class Rule:\n    types = frozenset({'where'})", "where"),
        ("op.type.startswith('transpose')", "transpose"),
        ("has_writer(value, 'write_to_array')", "write_to_array"),
        ("WRITER = 'write_to_array while_grad'", "write_to_array while_grad"),
        ("'while', 'net'", "while net"),
        ("graph.add_op('fill_constant', {}, {}); lookup('cast')(x)", ""),
        ("kind == 'sum'; attrs['use_cudnn']; op.input('shape'); f'a {x} sum'", ""),
        ('def f():\n    """elementwise_add"""', ""),
    ],
)
def test_the_finder_itself(text: str, names: str) -> None:
    assert asked(ast.parse(text)) == {*names.split()}


def _names(node: ast.AST) -> list[str]:
    """The words of a text, if it is nothing but operators."""
    words = node.value.split(" ") if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
    return words if all(word in REGISTRY for word in words) else []


def _is_word(name: str) -> bool:
    return name.isalpha() or name in _attributes()


@cache
def _attributes() -> frozenset[str]:
    return frozenset(name for definition in REGISTRY.values() for name in definition.attrs)


def _elsewhere(tree: ast.Module) -> Iterator[ast.AST]:
    """The arguments of calls that make operators, subscripts, and the lists of what a module gives."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in MAKERS:
            yield from node.args
        elif isinstance(node, ast.Subscript):
            yield node.slice


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _questions(node: ast.AST, constants: dict[str, ast.expr]) -> Iterator[ast.AST]:
    """The operands that a node compares with a type, or looks a type up in."""
    if isinstance(node, ast.Compare) and any(map(_is_type, (node.left, *node.comparators))):
        sides = [node.left, *node.comparators]
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and (_is_type(node.func.value) or any(map(_is_type, node.args)))
    ):
        sides = [node.func.value, *node.args] if _called(node) in ("get", "startswith", "endswith", "removesuffix") else []
    elif isinstance(node, ast.Subscript) and _is_type(node.slice):
        sides = [node.value]
    elif isinstance(node, ast.Assign) and any(isinstance(target, ast.Name) and target.id == "types" for target in node.targets):
        sides = [node.value]  # of a rule: those that it is tried on
    elif isinstance(node, ast.Dict) and len(node.keys) > 1 and all(key is not None and _names(key) for key in node.keys):
        sides = [key for key in node.keys if key is not None]
    else:
        return
    for side in sides:
        yield constants.get(side.id, side) if isinstance(side, ast.Name) else side


def _is_type(node: ast.AST) -> bool:
    """Whether an expression is the type of an operator."""
    return (isinstance(node, ast.Attribute) and node.attr == "type") or (isinstance(node, ast.Name) and node.id in ("type", "op_type"))
