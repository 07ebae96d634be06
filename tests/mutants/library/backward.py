"""Mistakes in the five passes of the backward, in the expansion of gradients, and in forward mode."""

from __future__ import annotations

from typing import Any

from tests.mutants.corpus import Check, Mutant
from tests.mutants.patching import Patch
from tests.mutants.subjects import ExpandGradients
from tests.mutants.witness import BACKWARD, Witness

PASSES = "graphad.passes.backward"
FIND = f"{PASSES}.find_op_path"
CREATE = f"{PASSES}.create_grad_ops"
PRUNE = f"{PASSES}.prune_no_grad"
ACCUMULATE = f"{PASSES}.accumulate_grads"
SHAPES = f"{PASSES}.prune_no_grad"
EXPAND = f"{PASSES}.expand_grad_ops"
TANGENTS = "graphad.passes.differentiation"

_THREE = """
x: float64[2]
tanh(X=x) -> (Out=a)
exp(X=x) -> (Out=b)
sin(X=x) -> (Out=c)
sum(X=[a, b, c]) -> (Out=s)
mean(X=s) -> (Out=loss)
"""
_LOOP = """
h: float64[2]
w: float64[2]
{declared}
n: int64[1] stop_gradient
loss: float64[]
scopes: ?[?] STEP_SCOPES
fill_constant() -> (Out=i) {{shape=[1], value=0.0, dtype="int64"}}
less_than(X=i, Y=n) -> (Out=more)
while(X=[h, {carried}w, i, n], Condition=more) -> (Out=[h, {carried}i, more], StepScopes=scopes) {{sub_block=block(1)}}
mean(X=h) -> (Out=loss)
block 1 in 0:
{body}
increment(X=i) -> (Out=i)
less_than(X=i, Y=n) -> (Out=more)
"""


def _loop(body: str, *carried: str) -> str:
    declared = "\n".join(f"{name}: float64[2]" for name in carried)
    return _LOOP.format(body=body, declared=declared, carried="".join(f"{name}, " for name in carried))


def _started(text: str, *names: str) -> str:
    """A loop that carries values which start as constants."""
    constants = "".join(f"fill_any_like(X=w) -> (Out={name}) {{value=1.0}}\n" for name in names)
    return text.replace("fill_constant() -> (Out=i)", f"{constants}fill_constant() -> (Out=i)", 1)


def _branch(yes: str, no: str) -> str:
    return f"""
    x: float64[2]
    w: float64[2]
    c: bool[1]
    y: float64[2]
    loss: float64[]
    scopes: ?[?] STEP_SCOPES
    if_else(Cond=c, X=[x, w]) -> (Out=y, Scope=scopes) {{true_block=block(1), false_block=block(2)}}
    mean(X=y) -> (Out=loss)
    block 1 in 0:
    {yes}
    block 2 in 0:
    {no}
    """


def _mutant(name: str, where: str, old: str, new: str, text: str, **options: Any) -> Mutant:
    return Mutant(f"backward-{name}", "backward", Patch(where, old, new), Witness(text, BACKWARD, **options))


_PATH = (
    _mutant(
        "differentiates-through-stopped-values",
        f"{FIND}:Varied.sweep",
        "and not (var is not None and var.stop_gradient)",
        "and True",
        """
        x: float64[2]
        a: float64[2] stop_gradient
        tanh(X=x) -> (Out=a)
        elementwise_mul(X=x, Y=a) -> (Out=y)
        mean(X=y) -> (Out=loss)
        """,
        free=True,
    ),
    _mutant(
        "follows-a-loop-once",
        f"{FIND}:Varied.along",
        "return fact and (",
        "return fact and edge.kind != 'back' and (",
        _started(_loop("assign(X=a) -> (Out=h)\nassign(X=b) -> (Out=a)\ntanh(X=w) -> (Out=b)", "a", "b"), "a", "b"),
        feeds={"n": [3]},
    ),
    _mutant(
        "goes-back-through-a-loop-once",
        f"{FIND}:Useful.along",
        "edge.kind != KEPT",
        "edge.kind not in (KEPT, 'back')",
        _loop("assign(X=a) -> (Out=h)\nassign(X=b) -> (Out=a)\ntanh(X=w) -> (Out=b)", "a", "b"),
        feeds={"n": [3]},
    ),
    _mutant(
        "follows-first-slots",
        f"{FIND}:_reads_any",
        "if rules is None or slot in rules:",
        "if rules is None or slot in list(rules)[:1]:",
        """
        x: float64[2] stop_gradient
        y: float64[2]
        elementwise_mul(X=x, Y=y) -> (Out=z)
        mean(X=z) -> (Out=loss)
        """,
        fetch=("y@GRAD",),
    ),
    _mutant(
        "leaves-out-carried-results",
        f"{FIND}:_path",
        "g.results[k] in varied or (loop and g.inputs[k] in varied)",
        "g.results[k] in varied and (not loop or g.inputs[k] in varied)",
        _loop("fill_any_like(X=w) -> (Out=h) {value=1.0}"),
        feeds={"n": [0]},
    ),
)

_OPERATORS = (
    _mutant(
        "loses-attributes",
        f"{CREATE}:_grad_op",
        "new_op = Op(graph, grad.type, inputs, outputs, op.attrs)",
        "new_op = Op(graph, grad.type, inputs, outputs, {})",
        """
        x: float64[2]
        scale(X=x) -> (Out=y) {scale=3.0}
        mean(X=y) -> (Out=loss)
        """,
    ),
    _mutant(
        "starts-a-read-result-once",
        f"{CREATE}:_backward_graph",
        "if result in operands_read or results.count(result) > 1:",
        "if results.count(result) > 1:",
        _loop("tanh(X=a) -> (Out=a)\nelementwise_mul(X=a, Y=w) -> (Out=h)", "a"),
        feeds={"n": [2]},
    ),
    _mutant(
        "sums-what-all-branches-read",
        f"{CREATE}:_region_grad",
        "if any(g.inputs[i] in path.inner[g].active for g in op.graphs.values())]",
        "if all(g.inputs[i] in path.inner[g].active for g in op.graphs.values())]",
        _branch("tanh(X=x) -> (Out=y)", "exp(X=w) -> (Out=y)"),
        feeds={"c": [True]},
        fetch=("x@GRAD",),
    ),
    _mutant(
        "reads-the-last-iteration",
        f"{PASSES}.adjoints:Adjoints.__init__",
        "enumerate(forward.inputs) if i >= first}",
        "enumerate(forward.inputs)}",
        _loop("elementwise_mul(X=h, Y=w) -> (Out=h)"),
        feeds={"n": [3]},
    ),
    _mutant(
        "exchanges-the-branches",
        f"{CREATE}:_region_grad",
        "zip(gradient.blocks, inner, strict=True)",
        "zip(gradient.blocks[::-1], inner, strict=True)",
        _branch("elementwise_mul(X=x, Y=w) -> (Out=y)", "elementwise_add(X=x, Y=w) -> (Out=y)"),
        feeds={"c": [True]},
    ),
)

_PRUNING = (
    _mutant(
        "drops-what-misses-one-gradient",
        f"{PRUNE}:prune",
        "needed_count == 0 or (missing_count and not written_count)",
        "needed_count == 0 or missing_count",
        """
        x: float64[4]
        split(X=x) -> (Out=[a, b]) {num=2}
        mean(X=a) -> (Out=loss)
        """,
        fetch=("x@GRAD",),
    ),
    _mutant(
        "keeps-what-the-first-rule-reads",
        f"{PRUNE}:_narrow",
        "for rule in _rules(op) for slot in rule.reads}",
        "for rule in _rules(op)[:1] for slot in rule.reads}",
        """
        x: float64[2, 2]
        y: float64[2, 2]
        z: float64[2, 2] stop_gradient
        addmm(Input=z, X=x, Y=y) -> (Out=a)
        mean(X=a) -> (Out=loss)
        """,
    ),
    _mutant(
        "fills-ones-for-zeros",
        f"{PRUNE}:_zero",
        'graph.add_op("fill_zeros_like", {"X": [adjoints.read(value)]}, {"Out": [gradient]}, before',
        'graph.add_op("fill_any_like", {"X": [adjoints.read(value)]}, {"Out": [gradient]}, {"value": 1.0}, before',
        """
        x: float64[4]
        split(X=x) -> (Out=[a, b]) {num=2}
        mean(X=a) -> (Out=loss)
        """,
    ),
    _mutant(
        "keeps-the-shape-of-what-is-read",
        f"{SHAPES}:_read_for_shape",
        "return all(slot in shapes_read(op)",
        "return any(slot in shapes_read(op)",
        _loop("elementwise_add(X=h, Y=w) -> (Out=t)\ntanh(X=t) -> (Out=u)\nexp(X=u) -> (Out=v)\nelementwise_add(X=u, Y=v) -> (Out=h)"),
        feeds={"n": [2]},
    ),
    _mutant(
        "takes-a-factor-for-its-shape",
        "graphad.ops.definition:OpDef.reads_shape",
        'slot in self.shapes or f"{slot}:{rule}" in self.shapes',
        "any(each.startswith(slot) for each in self.shapes)",
        _loop("scale(X=h) -> (Out=t) {scale=2.0}\nelementwise_mul(X=t, Y=w) -> (Out=h)"),
        feeds={"n": [2]},
    ),
)

_SUMMING = (
    _mutant(
        "drops-the-third-term",
        f"{ACCUMULATE}:accumulate",
        '"sum", {"X": parts}',
        '"sum", {"X": parts[:2]}',
        _THREE,
    ),
    _mutant(
        "drops-the-last-term",
        f"{ACCUMULATE}:accumulate",
        '"sum", {"X": parts}',
        '"sum", {"X": parts[:-1]}',
        _THREE,
    ),
    _mutant(
        "sums-a-term-twice",
        f"{ACCUMULATE}:accumulate",
        '"sum", {"X": parts}',
        '"sum", {"X": [parts[0], *parts[:-1]]}',
        _THREE,
    ),
    _mutant(
        "forgets-nested-graphs",
        f"{ACCUMULATE}:accumulate",
        "any([accumulate(grad_ops.inner[inner]) for op in grad_ops.ops for inner in op.graphs.values()])",
        "False",
        _loop("elementwise_mul(X=h, Y=h) -> (Out=t)\nelementwise_mul(X=t, Y=w) -> (Out=h)"),
        feeds={"n": [2]},
    ),
)


def _expanding(name: str, where: str, old: str, new: str, text: str, **options: Any) -> Mutant:
    witness = Witness(text, ExpandGradients, BACKWARD, **options)
    return Mutant(f"expand-{name}", "backward", Patch(where, old, new), witness)


_EXPANDING = (
    _expanding(
        "pops-in-another-order",
        f"{EXPAND}:_push",
        "values = list(_reads(inner).values()) or",
        "values = list(_reads(inner).values())[::-1] or",
        _loop("tanh(X=h) -> (Out=t)\nexp(X=t) -> (Out=u)\nelementwise_mul(X=t, Y=u) -> (Out=v)\nelementwise_mul(X=v, Y=w) -> (Out=h)"),
        feeds={"n": [2]},
    ),
    _expanding(
        "keeps-the-last-term",
        f"{EXPAND}:_added",
        '"sum", {"X": [a, b]}',
        '"sum", {"X": [b]}',
        _loop("elementwise_mul(X=h, Y=w) -> (Out=h)"),
        feeds={"n": [3]},
    ),
    _expanding(
        "looks-for-more-before-it-pops",
        f"{EXPAND}:_loop",
        '"tape_has_more", {"Scopes": [rest]}',
        '"tape_has_more", {"Scopes": [top]}',
        _loop("elementwise_mul(X=h, Y=w) -> (Out=h)"),
        feeds={"n": [2]},
    ),
    _expanding(
        "loses-attributes",
        f"{PASSES}.expand_grad_ops:expand",
        "definition.meaning(inputs, op.attrs, [slot])[slot]",
        "definition.meaning(inputs, {}, [slot])[slot]",
        """
        x: float64[2]
        leaky_relu(X=x) -> (Out=y) {alpha=0.3}
        mean(X=y) -> (Out=loss)
        """,
        feeds={"x": [-1.0, 1.0]},
    ),
)


def _forward(name: str, patch: Patch, text: str, **options: Any) -> Mutant:
    witness = Witness(text, "tangent-of-loss{loss=$loss}", fetch=("loss@TANGENT",), **options)
    check = Check("tangent-of-loss{loss=$loss}", reference="tangent-by-gradients{loss=$loss}")
    return Mutant(f"jvp-{name}", "jvp", patch, witness, check)


_FORWARD = (
    _forward(
        "moves-constants",
        Patch(f"{TANGENTS}.jvp:_linear", "if name != definition.offset}", "if True}"),
        """
        x: float64[2]
        scale(X=x) -> (Out=y) {scale=2.0, bias=1.0}
        mean(X=y) -> (Out=loss)
        """,
    ),
    _forward(
        "moves-one-factor",
        Patch(f"{TANGENTS}.jvp:_bilinear", "for slot in moving:", "for slot in moving[:1]:"),
        """
        x: float64[2]
        y: float64[2]
        elementwise_mul(X=x, Y=y) -> (Out=z)
        mean(X=z) -> (Out=loss)
        """,
    ),
    _forward(
        "takes-a-jacobian-for-symmetric",
        Patch("graphad.ops.activation:log_softmax.symmetric", value="True"),
        """
        x: float64[3]
        w: float64[3] stop_gradient
        exp(X=x) -> (Out=a)
        log_softmax(X=a) -> (Out=y)
        elementwise_mul(X=y, Y=w) -> (Out=z)
        mean(X=z) -> (Out=loss)
        """,
    ),
    _forward(
        "takes-an-extremum-for-linear",
        Patch("graphad.ops.reduction:reduce_max.linear", value='it | {"X"}'),
        """
        x: float64[3]
        tanh(X=x) -> (Out=a)
        reduce_max(X=a) -> (Out=loss)
        """,
    ),
    _forward(
        "passes-on-what-is-subtracted",
        Patch("graphad.ops.elementwise:elementwise_sub.passed_on", value='it | {"Y"}'),
        """
        x: float64[2]
        y: float64[2] stop_gradient
        elementwise_sub(X=y, Y=x) -> (Out=z)
        mean(X=z) -> (Out=loss)
        """,
    ),
    _forward(
        "starts-loops-at-zero",
        Patch(
            f"{TANGENTS}.jvp:_through_loop",
            "starts = [jvp.of(inputs[k], op) for k in moving]",
            "starts = [jvp._zeros(inputs[k], op) for k in moving]",
        ),
        _loop("elementwise_mul(X=h, Y=w) -> (Out=h)"),
        feeds={"n": [2]},
    ),
)

MUTANTS = (*_PATH, *_OPERATORS, *_PRUNING, *_SUMMING, *_EXPANDING, *_FORWARD)
