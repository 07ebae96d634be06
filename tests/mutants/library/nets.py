"""Mistakes in inlining, outlining and copying nested graphs."""

from __future__ import annotations

from tests.mutants.library.control_flow import INLINING, in_pass
from tests.mutants.witness import BACKWARD

_NET = """
x: float64[1]
z: float64[1]
w: float64[1]
y: float64[1]
net(X=[x, w]) -> (Out=y) {sub_block=block(1)}
net(X=[y, w]) -> (Out=z) {sub_block=block(2)}
mean(X=z) -> (Out=loss)
block 1 in 0:
elementwise_mul(X=x, Y=w) -> (Out=t)
tanh(X=t) -> (Out=y)
block 2 in 0:
elementwise_mul(X=y, Y=w) -> (Out=t)
exp(X=t) -> (Out=z)
"""

_NETS = (
    in_pass(
        "copies-without-attributes",
        "inline-net",
        "graphad.ir.clone:copy_op",
        "mapping.slots(op.outputs), op.attrs)",
        "mapping.slots(op.outputs), {})",
        """
        x: float64[1]
        y: float64[1]
        net(X=x) -> (Out=y) {sub_block=block(1)}
        block 1 in 0:
        scale(X=x) -> (Out=y) {scale=2.0}
        """,
    ),
    in_pass(
        "lets-gradients-through-renamed-values",
        "inline-net",
        "graphad.ir.nodes:Value.var_named",
        "marks = (self.stop_gradient, ",
        "marks = (self.persistable, ",
        """
        x: float64[1]
        t: float64[1]
        y: float64[1]
        exp(X=x) -> (Out=t)
        net(X=x) -> (Out=y) {sub_block=block(1)}
        elementwise_add(X=t, Y=y) -> (Out=z)
        mean(X=z) -> (Out=loss)
        block 1 in 0:
        t: float64[1] stop_gradient
        tanh(X=x) -> (Out=t)
        elementwise_mul(X=t, Y=x) -> (Out=y)
        """,
        sources=("x",),
        free=True,
    ),
    in_pass(
        "reads-the-wrong-saved-value",
        "inline-net",
        f"{INLINING}:inline",
        "for value in op.graphs[names[place]].residuals]",
        "for value in reversed(op.graphs[names[place]].residuals)]",
        _NET.replace("tanh(X=t) -> (Out=y)", "tanh(X=t) -> (Out=u)\nelementwise_mul(X=u, Y=t) -> (Out=y)"),
        prepare=BACKWARD,
    ),
    in_pass(
        "returns-nothing-requested",
        "outline-repeated{min_ops=2}",
        f"{INLINING}:outline",
        "graph.is_observed(v) or any(r not in inside for r in v.readers)]",
        "any(r not in inside for r in v.readers)]",
        """
        x: float64[2]
        tanh(X=x) -> (Out=a)
        exp(X=a) -> (Out=b)
        tanh(X=b) -> (Out=c)
        exp(X=c) -> (Out=d)
        """,
    ),
)

MUTANTS = _NETS
