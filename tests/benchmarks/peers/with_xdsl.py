"""xDSL: the arith and math dialects on f32 scalars, rewrite patterns driven greedily, and its pass cse.

Scalars, because xDSL folds those and no tensors: for every constant it does less work than the others. ``arith`` has no relu, so that
is maximumf(x, 0); it has only the folding of its own operators as a pattern, so the ten rules are written as patterns here, one class
an operator. Its greedy driver drops what is dead on the way, and so does cse; the variant ``dce`` runs the pass of that name as well.
"""

from __future__ import annotations

from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import Builtin, FloatAttr, ModuleOp, f32
from xdsl.ir import Block, Region, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.transforms.canonicalization_patterns.arith import FoldConstConstOp
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from tests.benchmarks.peers.protocol import Peer, Stages, main, versions
from tests.benchmarks.peers.workload import Node, Workload

OPS: dict[str, Any] = {
    "add": arith.AddfOp,
    "sub": arith.SubfOp,
    "mul": arith.MulfOp,
    "div": arith.DivfOp,
    "max": arith.MaximumfOp,
    "neg": arith.NegfOp,
    "pow": math.PowFOp,
    "abs": math.AbsFOp,
    "exp": math.ExpOp,
    "tanh": math.TanhOp,
}
KINDS = {op: kind for kind, op in OPS.items()}


def build(work: Workload) -> Any:
    block = Block(arg_types=[f32] * sum(node.kind == "input" for node in work.nodes))
    inputs = iter(block.args)
    made: list[Any] = []
    for node in work.nodes:
        if node.kind == "input":
            made.append(next(inputs))
            continue
        args = [made[a] for a in node.args]
        if node.kind == "relu":
            zero = arith.ConstantOp(FloatAttr(0.0, f32))
            block.add_op(zero)
            op: Any = arith.MaximumfOp(args[0], zero.result)
        else:
            op = arith.ConstantOp(FloatAttr(node.value, f32)) if node.kind == "const" else OPS[node.kind](*args)
        block.add_op(op)
        made.append(op.results[0])
    block.add_op(func.ReturnOp(*(made[target] for target in work.targets)))
    types = ([f32] * len(block.args), [f32] * len(work.targets))
    return ModuleOp([func.FuncOp("main", types, Region(block))])


# -- the rules -----------------------------------------------------------------------------------


def is_constant(value: SSAValue, number: float) -> bool:
    owner = value.owner
    return isinstance(owner, arith.ConstantOp) and isinstance(owner.value, FloatAttr) and owner.value.value.data == number


class AddZero(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddfOp, rewriter: PatternRewriter) -> None:
        if is_constant(op.rhs, 0.0):
            rewriter.replace(op, (), (op.lhs,))
        elif is_constant(op.lhs, 0.0):
            rewriter.replace(op, (), (op.rhs,))


class MulOne(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.MulfOp, rewriter: PatternRewriter) -> None:
        if is_constant(op.rhs, 1.0):
            rewriter.replace(op, (), (op.lhs,))
        elif is_constant(op.lhs, 1.0):
            rewriter.replace(op, (), (op.rhs,))


class SubZero(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.SubfOp, rewriter: PatternRewriter) -> None:
        if is_constant(op.rhs, 0.0):
            rewriter.replace(op, (), (op.lhs,))


class DivOne(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.DivfOp, rewriter: PatternRewriter) -> None:
        if is_constant(op.rhs, 1.0):
            rewriter.replace(op, (), (op.lhs,))


class PowOne(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: math.PowFOp, rewriter: PatternRewriter) -> None:
        if is_constant(op.rhs, 1.0):
            rewriter.replace(op, (), (op.lhs,))


class NegNeg(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.NegfOp, rewriter: PatternRewriter) -> None:
        inner = op.operand.owner
        if isinstance(inner, arith.NegfOp):
            rewriter.replace(op, (), (inner.operand,))


class AbsAbs(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: math.AbsFOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.operand.owner, math.AbsFOp):
            rewriter.replace(op, (), (op.operand,))


class ReluRelu(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.MaximumfOp, rewriter: PatternRewriter) -> None:
        inner = op.lhs.owner
        if is_constant(op.rhs, 0.0) and isinstance(inner, arith.MaximumfOp) and is_constant(inner.rhs, 0.0):
            rewriter.replace(op, (), (op.lhs,))


PATTERNS = (AddZero, MulOne, SubZero, DivOne, PowOne, NegNeg, AbsAbs, ReluRelu, FoldConstConstOp)


# -- the stages ----------------------------------------------------------------------------------


def context() -> Any:
    found = Context()
    for dialect in (Builtin, func.Func, arith.Arith, math.Math):
        found.load_dialect(dialect)
    return found


def rules_and_folding(module: Any) -> Any:
    PatternRewriteWalker(GreedyRewritePatternApplier([each() for each in PATTERNS], ctx=CONTEXT)).rewrite_module(module)
    return module


def subexpressions(module: Any) -> Any:
    CommonSubexpressionElimination().apply(CONTEXT, module)
    return module


def dead_code(module: Any) -> Any:
    DeadCodeElimination().apply(CONTEXT, module)
    return module


def read_back(module: Any) -> Workload:
    block = module.body.block.first_op.body.block
    numbers: dict[Any, int] = {arg: i for i, arg in enumerate(block.args)}
    nodes = [Node("input", ()) for _ in block.args]
    for op in block.ops:
        if isinstance(op, func.ReturnOp):
            return Workload(tuple(nodes), tuple(numbers[each] for each in op.operands))
        numbers[op.results[0]] = len(nodes)
        if isinstance(op, arith.ConstantOp):
            nodes.append(Node("const", (), op.value.value.data))
        else:
            nodes.append(Node(KINDS[type(op)], tuple(numbers[arg] for arg in op.operands)))
    raise AssertionError("a function ends in a return")


CONTEXT = context()
STAGES: Stages = {"rules, folding, dead code": rules_and_folding, "cse": subexpressions}
VARIANTS: dict[str, Stages] = {
    "dce": {"dce": dead_code, "rules, folding": rules_and_folding, "cse": subexpressions, "dce again": dead_code}
}
PEER = Peer("xDSL", versions("xdsl"), build, STAGES, read_back, VARIANTS)

if __name__ == "__main__":
    main(PEER)
