"""Mistakes in the passes about loops and branches, and in what is known of values."""

from __future__ import annotations

from typing import Any

from tests.mutants.corpus import Mutant
from tests.mutants.patching import Patch
from tests.mutants.witness import BACKWARD, Witness

FOLD = "graphad.passes.control_flow.fold_branches"
HOIST = "graphad.passes.control_flow.hoist_invariants"
UNROLL = "graphad.passes.control_flow.unroll_while"
SAME = "graphad.passes.control_flow.fold_branches"
KNOWN = "graphad.passes.analyses.known_values"
INLINING = "graphad.ir.edits"


def in_pass(name: str, what: str, where: str, old: str, new: str, text: str, **options: Any) -> Mutant:
    """A mistake in a pass about nested graphs."""
    pass_name = what.partition("{")[0]
    return Mutant(f"{pass_name}-{name}", "control-flow", Patch(where, old, new), Witness(text, what, **options))


def _loop(count: int, carried: str, body: str, captured: str = "", before: str = "", after: str = "") -> str:
    """A loop of a known number of iterations over carried values of type float64[1]."""
    names = carried.split()
    reads = ", ".join([*names, "i", "n", *captured.split()])
    declared = "\n".join(f"{name}: float64[1]" for name in [*names, *captured.split()])
    return f"""
    {declared}
    {before}
    fill_constant() -> (Out=i) {{shape=[1], value=0.0, dtype="int64"}}
    fill_constant() -> (Out=n) {{shape=[1], value={count}.0, dtype="int64"}}
    less_than(X=i, Y=n) -> (Out=more)
    while(X=[{reads}], Condition=more) -> (Out=[{", ".join([*names, "i", "more"])}]) {{sub_block=block(1)}}
    {after or f"scale(X={names[0]}) -> (Out=y) {{scale=3.0}}"}
    block 1 in 0:
    {body}
    increment(X=i) -> (Out=i)
    less_than(X=i, Y=n) -> (Out=more)
    """


_IF = """
x: float64[1]
z: float64[1]
y: float64[1]
{condition}
if_else(Cond=c, X=[x, z]) -> (Out=y) {{true_block=block(1), false_block=block(2)}}
{after}
block 1 in 0:
{yes}
block 2 in 0:
{no}
"""


def _if(yes: str, no: str, condition: str = "c: bool[1]", after: str = "") -> str:
    return _IF.format(condition=condition, yes=yes, no=no, after=after)


_TRUE = 'fill_constant() -> (Out=c) {shape=[1], value=1.0, dtype="bool"}'

_BRANCHES = (
    in_pass(
        "takes-the-other-branch",
        "fold-branches",
        f"{FOLD}:_KnownCondition.rewrite",
        "0 if holds else 1",
        "1 if taken else 0",
        _if("tanh(X=x) -> (Out=y)", "sin(X=z) -> (Out=y)", _TRUE),
    ),
    in_pass(
        "ignores-attributes-of-branches",
        "fold-branches",
        f"{SAME}:_same_op",
        "a.definition is None or a.attrs != b.attrs or",
        "a.definition is None or",
        _if("scale(X=x) -> (Out=y) {scale=2.0}", "scale(X=x) -> (Out=y) {scale=3.0}"),
        feeds={"c": [False]},
    ),
    in_pass(
        "ignores-which-result-it-is",
        "fold-branches",
        f"{SAME}:_same",
        "[pairs.get(value) for value in first.results] == other.results",
        "set(map(pairs.get, first.results)) == set(other.results)",
        """
        x: float64[1]
        c: bool[1]
        y: float64[1]
        v: float64[1]
        if_else(Cond=c, X=x) -> (Out=[y, v]) {true_block=block(1), false_block=block(2)}
        block 1 in 0:
        tanh(X=x) -> (Out=y)
        sin(X=x) -> (Out=v)
        block 2 in 0:
        tanh(X=x) -> (Out=v)
        sin(X=x) -> (Out=y)
        """,
        feeds={"c": [False]},
    ),
    in_pass(
        "ignores-which-slot-it-is",
        "fold-branches",
        f"{SAME}:_same_slots",
        "tuple(pairs.get(v) for v in values) == b[slot]",
        "len(values) == len(b[slot])",
        _if("tanh(X=x) -> (Out=y)", "tanh(X=z) -> (Out=y)"),
        feeds={"c": [False]},
    ),
    in_pass(
        "takes-different-operands-for-one",
        "fold-branches",
        f"{FOLD}:_passed_through",
        "second.inputs[i] is b",
        "b in second.inputs",
        _if("assign(X=x) -> (Out=y)", "assign(X=z) -> (Out=y)"),
        feeds={"c": [False]},
    ),
    in_pass(
        "takes-carried-for-constant",
        "fold-branches",
        f"{KNOWN}:Constants.join",
        'return a if a == b else "any"',
        "return a",
        """
        h: float64[1]
        n: int64[1]
        fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
        fill_constant() -> (Out=one) {shape=[1], value=1.0, dtype="int64"}
        less_than(X=i, Y=n) -> (Out=more)
        while(X=[h, i, n, one], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
        assign(X=h) -> (Out=y)
        block 1 in 0:
        less_than(X=i, Y=one) -> (Out=first)
        if_else(Cond=first, X=h) -> (Out=h) {true_block=block(2), false_block=block(3)}
        increment(X=i) -> (Out=i)
        less_than(X=i, Y=n) -> (Out=more)
        block 2 in 1:
        tanh(X=h) -> (Out=h)
        block 3 in 1:
        exp(X=h) -> (Out=h)
        """,
        feeds={"n": [2]},
    ),
)

_UNROLLING = (
    in_pass(
        "runs-once-too-often",
        "unroll-while",
        f"{UNROLL}:_written_out",
        "range(count - 1)",
        "range(count)",
        _loop(3, "h", "tanh(X=h) -> (Out=h)"),
    ),
    in_pass(
        "forgets-what-is-left-over",
        "unroll-while{limit=2, factor=2}",
        f"{UNROLL}:UnrollWhile._unrolled",
        "self.factor == 1 or count % self.factor or",
        "self.factor == 1 or",
        _loop(5, "h", "tanh(X=h) -> (Out=h)"),
    ),
    in_pass(
        "passes-on-the-start-again",
        "unroll-while",
        "graphad.ir.edits:peel",
        "[copies.values[result] for result in body.results]",
        "[copies.values[result] for result in body.results] if len(body.results) > 3 else loop.carried",
        _loop(3, "h", "tanh(X=h) -> (Out=h)"),
    ),
    in_pass(
        "repeats-random-numbers",
        "unroll-while",
        f"{UNROLL}:UnrollWhile._unrolled",
        "gradients_of(op) != [] or holds_uncopyable((body,))",
        "gradients_of(op) != []",
        """
        x: float64[20]
        h: float64[20]
        fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
        fill_constant() -> (Out=n) {shape=[1], value=3.0, dtype="int64"}
        less_than(X=i, Y=n) -> (Out=more)
        while(X=[h, i, n, x], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
        reduce_sum(X=h) -> (Out=y)
        block 1 in 0:
        dropout(X=x) -> (Out=d, Mask=m)
        elementwise_add(X=h, Y=d) -> (Out=h)
        increment(X=i) -> (Out=i)
        less_than(X=i, Y=n) -> (Out=more)
        """,
        targets=("y",),
    ),
    in_pass(
        "counts-to-the-bound",
        "unroll-while",
        "graphad.passes.analyses.trip_counts:_counted",
        "return max(1,",
        "return min(4,",
        _loop(5, "h", "tanh(X=h) -> (Out=h)"),
    ),
    in_pass(
        "unrolls-what-has-a-gradient",
        "unroll-while",
        f"{UNROLL}:UnrollWhile._unrolled",
        "gradients_of(op) != [] or",
        "",
        """
        h: float64[1]
        w: float64[1]
        scopes: ?[?] STEP_SCOPES
        fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
        fill_constant() -> (Out=n) {shape=[1], value=3.0, dtype="int64"}
        less_than(X=i, Y=n) -> (Out=more)
        while(X=[h, w, i, n], Condition=more) -> (Out=[h, i, more], StepScopes=scopes) {sub_block=block(1)}
        mean(X=h) -> (Out=loss)
        block 1 in 0:
        elementwise_mul(X=h, Y=w) -> (Out=h)
        increment(X=i) -> (Out=i)
        less_than(X=i, Y=n) -> (Out=more)
        """,
        prepare=BACKWARD,
    ),
)

_HOISTING = (
    in_pass(
        "hoists-carried-values",
        "hoist-invariants",
        f"{HOIST}:_unchanging",
        "if body.results[i] is body.inputs[i]}",
        'if body.inputs[i].dtype == "float64"}',
        _loop(3, "h k", "tanh(X=k) -> (Out=t)\nelementwise_mul(X=h, Y=t) -> (Out=h)\nexp(X=k) -> (Out=k)", "w", "sin(X=w) -> (Out=k)"),
    ),
    in_pass(
        "hoists-random-numbers",
        "hoist-invariants",
        "graphad.passes.analyses.speculation:may_run_early",
        "definition, values = op.definition, (*op.reads(), *op.writes())",
        "definition, values = op.definition, (*op.reads(), *op.writes())\n    "
        "if definition is not None and definition.random:\n        return True",
        """
        x: float64[20]
        h: float64[20]
        n: int64[1]
        fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
        less_than(X=i, Y=n) -> (Out=more)
        while(X=[h, i, n, x], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
        reduce_sum(X=h) -> (Out=y)
        block 1 in 0:
        dropout(X=x) -> (Out=d, Mask=m)
        elementwise_add(X=h, Y=d) -> (Out=h)
        increment(X=i) -> (Out=i)
        less_than(X=i, Y=n) -> (Out=more)
        """,
        targets=("y",),
        feeds={"n": [3]},
    ),
    in_pass(
        "moves-what-may-be-missing",
        "hoist-invariants",
        f"{HOIST}:_Hoist._is_invariant",
        "copy not in self.facts.certain",
        "False",
        """
        x: float64[1]
        c: bool[1]
        h: float64[1]
        n: int64[1]
        u: float64[1]
        conditional_block(Cond=c, Input=x) -> (Out=u) {sub_block=block(1)}
        fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
        less_than(X=i, Y=n) -> (Out=more)
        while(X=[h, i, n, u], Condition=more) -> (Out=[h, i, more]) {sub_block=block(2)}
        assign(X=h) -> (Out=y)
        block 1 in 0:
        tanh(X=x) -> (Out=u)
        block 2 in 0:
        tanh(X=u) -> (Out=t)
        elementwise_add(X=h, Y=t) -> (Out=h)
        increment(X=i) -> (Out=i)
        less_than(X=i, Y=n) -> (Out=more)
        """,
        targets=("y",),
        feeds={"n": [0], "c": [False], "u": None},
    ),
    Mutant(
        "hoist-invariants-runs-early-what-may-fail",
        "control-flow",
        Patch("graphad.ops.indexing:gather.speculatable", value='"types"'),
        Witness(
            """
            x: float64[3]
            at: int64[1]
            h: float64[1]
            n: int64[1]
            fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
            less_than(X=i, Y=n) -> (Out=more)
            while(X=[h, i, n, x, at], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
            assign(X=h) -> (Out=y)
            block 1 in 0:
            gather(X=x, Index=at) -> (Out=t)
            elementwise_add(X=h, Y=t) -> (Out=h)
            increment(X=i) -> (Out=i)
            less_than(X=i, Y=n) -> (Out=more)
            """,
            "hoist-invariants",
            feeds={"n": [0], "at": [7]},
        ),
    ),
)

MUTANTS = (*_BRANCHES, *_UNROLLING, *_HOISTING)
