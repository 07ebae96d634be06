"""Mistakes on the way from programs to graphs and back, in the edits that all passes use, and in running compiled blocks."""

from __future__ import annotations

from typing import Any

from tests.mutants.corpus import Check, Mutant
from tests.mutants.patching import Patch
from tests.mutants.witness import BACKWARD, FIND, Witness

GRAPH = "graphad.ir"
RUN = "graphad.execution"

_LOOP = """
h: float64[1]
k: float64[1]
n: int64[1]
fill_constant() -> (Out=i) {{shape=[1], value=0.0, dtype="int64"}}
less_than(X=i, Y=n) -> (Out=more)
while(X=[h, k, i, n], Condition=more) -> (Out=[{out}i, more]) {{sub_block=block(1)}}
{after}
block 1 in 0:
{body}
increment(X=i) -> (Out=i)
less_than(X=i, Y=n) -> (Out=more)
"""


def _loop(body: str, out: str = "h, ", after: str = "elementwise_add(X=h, Y=k) -> (Out=y)") -> str:
    return _LOOP.format(body=body, out=out, after=after)


def _mutant(
    name: str, where: str, old: str, new: str, text: str, what: str = "", family: str = "lowering", tried: str = "", **options: Any
) -> Mutant:
    """A mistake on the way to a graph or back: a pass that changes nothing, or ``tried``, leads the checker through both."""
    witness = Witness(text, what or "canonical-order", **options)
    return Mutant(f"{family}-{name}", family, Patch(f"{GRAPH}.{where}", old, new), witness, Check(tried or what or FIND, witness.prepare))


_LOWERING = (
    _mutant(
        "forgets-what-a-branch-leaves",
        "lower:_needs_old",
        "if all(name in names for names in visible):",
        "if any(name in names for names in visible):",
        """
        x: float64[1]
        c: bool[1]
        y: float64[1]
        tanh(X=x) -> (Out=y)
        conditional_block(Cond=c, Input=x) -> (Out=y) {sub_block=block(1)}
        scale(X=y) -> (Out=z) {scale=2.0}
        block 1 in 0:
        exp(X=x) -> (Out=y)
        """,
        "dead-code",
        feeds={"c": [False]},
    ),
    _mutant(
        "reads-the-first-version",
        "lower:_lower_operator",
        "current.get(name) or _given(graph, block, name, current)",
        "(graph.versions(name) or [_given(graph, block, name, current)])[0]",
        """
        x: float64[1]
        increment(X=x) -> (Out=x)
        tanh(X=x) -> (Out=y)
        """,
    ),
)

_SCHEDULING = (
    _mutant(
        "overwrites-what-is-kept",
        "schedule:_Naming._last_read",
        "if value in self.lasting:",
        "if False:",
        """
        h: float64[1]
        w: float64[1]
        loss: float64[]
        n: int64[1] stop_gradient
        scopes: ?[?] STEP_SCOPES
        fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
        less_than(X=i, Y=n) -> (Out=more)
        while(X=[h, w, i, n], Condition=more) -> (Out=[h, i, more], StepScopes=scopes) {sub_block=block(1)}
        mean(X=h) -> (Out=loss)
        block 1 in 0:
        tanh(X=h) -> (Out=t)
        exp(X=t) -> (Out=t)
        elementwise_mul(X=t, Y=w) -> (Out=h)
        increment(X=i) -> (Out=i)
        less_than(X=i, Y=n) -> (Out=more)
        """,
        BACKWARD,
        feeds={"n": [2]},
    ),
    _mutant(
        "overwrites-what-a-loop-captures",
        "schedule:_Naming._last_read",
        "0.5 if op.graphs and _captures(op, value) else 0",
        "0",
        """
        x: float64[1]
        h: float64[1]
        n: int64[1]
        tanh(X=x) -> (Out=k)
        assign(X=k) -> (Out=c)
        fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
        less_than(X=i, Y=n) -> (Out=more)
        while(X=[h, k, i, n, c], Condition=more) -> (Out=[h, k, i, more]) {sub_block=block(1)}
        elementwise_add(X=h, Y=k) -> (Out=y)
        block 1 in 0:
        exp(X=k) -> (Out=k)
        elementwise_mul(X=h, Y=c) -> (Out=h)
        increment(X=i) -> (Out=i)
        less_than(X=i, Y=n) -> (Out=more)
        """,
        "simplify",
        tried="propagate-copies, dead-code",
        feeds={"n": [2]},
    ),
    _mutant(
        "copies-one-after-the-other",
        "schedule:_Writer._parallel_copies",
        "next((name for name in moves if name not in source_names), None)",
        "next(iter(moves))",
        _loop(
            "assign(X=h) -> (Out=t)\nassign(X=k) -> (Out=h)\nassign(X=t) -> (Out=k)", "h, k, ", "elementwise_sub(X=h, Y=k) -> (Out=y)"
        ).replace(
            "fill_constant",
            "assign(X=h) -> (Out=a)\nassign(X=k) -> (Out=b)\nassign(X=b) -> (Out=h)\nassign(X=a) -> (Out=k)\nfill_constant",
            1,
        ),
        "simplify",
        tried="propagate-copies, dead-code",
        feeds={"n": [2]},
    ),
    _mutant(
        "reads-the-copy-too-late",
        "schedule:_Naming._copy",
        "if reader.order > writer.order:",
        "if reader.order > writer.order + 1:",
        """
        x: float64[1]
        scale(X=x) -> (Out=a)
        increment(X=x) -> (Out=x)
        tanh(X=a) -> (Out=y)
        """,
        "simplify",
        tried="propagate-copies, dead-code",
    ),
)

_EDITS = (
    _mutant(
        "forgets-results",
        "graph:Graph.replace",
        "self.results = [new if v is old else v for v in self.results]",
        "pass",
        """
        x: float64[1]
        y: float64[1]
        net(X=x) -> (Out=y) {sub_block=block(1)}
        block 1 in 0:
        relu(X=x) -> (Out=t)
        relu(X=t) -> (Out=y)
        """,
        "simplify",
        "edits",
        feeds={"x": [-1.0]},
    ),
    _mutant(
        "forgets-what-gradients-read",
        "residuals:replace_residual",
        "graph.set_residuals([new if value is old else value for value in graph.residuals])",
        "return None",
        """
        x: float64[1]
        w: float64[1]
        y: float64[1]
        loss: float64[]
        scopes: ?[?] STEP_SCOPES
        net(X=[x, w]) -> (Out=y, Scope=scopes) {sub_block=block(1)}
        mean(X=y) -> (Out=loss)
        block 1 in 0:
        scale(X=x) -> (Out=t) {scale=2.0}
        assign(X=t) -> (Out=u)
        elementwise_mul(X=u, Y=w) -> (Out=y)
        """,
        "simplify",
        "edits",
        prepare=BACKWARD,
    ),
    _mutant(
        "transfers-a-name-that-is-taken",
        "graph:transfer_name",
        "if new.given or new.persistable or graph.is_observed(new) or flows",
        "if new.given or new.persistable or flows",
        """
        x: float64[1]
        relu(X=x) -> (Out=a)
        relu(X=a) -> (Out=b)
        """,
        "simplify",
        "edits",
        targets=("a", "b"),
    ),
    _mutant(
        "loses-a-name-that-is-requested",
        "graph:Graph.substitute",
        "by_name = self.parent is None and self.is_observed(old)",
        "by_name = self.parent is None and old in self.targets",
        """
        x: float64[1]
        param w: float64[1]
        relu(X=x) -> (Out=a)
        relu(X=a) -> (Out=w)
        tanh(X=w) -> (Out=y)
        """,
        "simplify, dead-code",
        "edits",
        targets=("y",),
        feeds={"x": [-1.0]},
    ),
)


def _compiled(name: str, where: str, old: str, new: str, body: str, **options: Any) -> Mutant:
    text = _loop(body, "h, ")
    witness = Witness(text, "canonical-order", feeds={"n": [20], **options.pop("feeds", {})}, **options)
    return Mutant(f"executor-{name}", "executor", Patch(f"{RUN}.{where}", old, new), witness, Check("rename-values"))


_COMPILED = (
    _compiled(
        "leaves-out-the-axis",
        "compiler:Compiler.by_formula",
        "if axis != -1:",
        "if False:",
        "reshape(X=h) -> (Out=a) {shape=[1, 1]}\nexpand_v2(X=a) -> (Out=b) {shape=[2, 2]}\n"
        'assign_value() -> (Out=c) {shape=[2], dtype="float64", fp64_values=[0.5, 1.0]}\n'
        "elementwise_mul(X=b, Y=c) -> (Out=d) {axis=0}\nslice(Input=d) -> (Out=f) {axes=[0, 1], starts=[0, 1], ends=[1, 2]}\n"
        "reshape(X=f) -> (Out=h) {shape=[1]}",
    ),
    _compiled(
        "takes-one-operand-for-all",
        "compiler:_computed",
        "operands[a.number] if",
        "operands[0] if",
        'fill_constant() -> (Out=c) {shape=[1], value=0.5, dtype="float64"}\nelementwise_mul(X=h, Y=c) -> (Out=h)',
    ),
    _compiled(
        "forgets-to-transpose",
        "compiler:Compiler.traced",
        "definition.run(tracers, attrs, wanted)",
        "definition.run(tracers, {}, wanted)",
        "reshape(X=h) -> (Out=a) {shape=[1, 1]}\nexpand_v2(X=a) -> (Out=b) {shape=[2, 2]}\n"
        'assign_value() -> (Out=c) {shape=[2, 2], dtype="float64", fp64_values=[0.5, 1.0, 1.5, 1.0]}\n'
        "elementwise_mul(X=b, Y=c) -> (Out=d)\n"
        "matmul_v2(X=d, Y=c) -> (Out=e) {trans_y=true}\nslice(Input=e) -> (Out=f) {axes=[0, 1], starts=[0, 1], ends=[1, 2]}\n"
        "reshape(X=f) -> (Out=h) {shape=[1]}",
    ),
    _compiled(
        "takes-constants-for-zero",
        "compiler:Compiler.settled",
        "array = settled(result)",
        "array = np.zeros_like(settled(result))",
        'fill_constant() -> (Out=c) {shape=[1], value=0.5, dtype="float64"}\nelementwise_mul(X=h, Y=c) -> (Out=h)',
    ),
    Mutant(
        "executor-runs-again-from-the-wrong-state",
        "executor",
        Patch(
            f"{RUN}.iterations:Replay.residuals", "begin = (len(starts) - 1) * interval", "begin = len(starts) * interval - interval // 2"
        ),
        Witness(
            """
            h: float64[2]
            w: float64[2]
            n: int64[1] stop_gradient
            loss: float64[]
            scopes: ?[?] STEP_SCOPES
            fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
            less_than(X=i, Y=n) -> (Out=more)
            while(X=[h, w, i, n], Condition=more) -> (Out=[h, i, more], StepScopes=scopes) {sub_block=block(1)}
            mean(X=h) -> (Out=loss)
            block 1 in 0:
            elementwise_mul(X=h, Y=w) -> (Out=h)
            increment(X=i) -> (Out=i)
            less_than(X=i, Y=n) -> (Out=more)
            """,
            "checkpoint-while{every=2}",
            BACKWARD,
            feeds={"n": [5]},
        ),
    ),
)

MUTANTS = (*_LOWERING, *_SCHEDULING, *_EDITS, *_COMPILED)
