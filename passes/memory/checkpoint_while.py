"""Keep less of a loop for its gradient, and run the iterations in between again.

    while { h = f(h) }  ┄ every h kept ┄▶  while_grad      ⇒      while { h = f(h) }  ┄ every k-th h kept ┄▶  while_grad{checkpoint_every=k}

For n iterations, ``every=k`` keeps n / k carried states and what k iterations leave; each iteration is run twice.
``recursive`` keeps about 2 log2(n) states, set again going backwards, and runs each iteration three or four times.
A loop that prints, or calls Python, stays as it is: it would do so again. Collectives are run again on all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.errors import InvalidValue
from graphad.ir import Graph, Op
from graphad.ir.regions import is_loop_gradient
from graphad.ir.residuals import forward_graph
from graphad.ops.rings import communicates
from graphad.rewriting import OnTrial, Pass


@dataclass(frozen=True)
class CheckpointWhile(Pass):
    """Let loops keep every k-th carried state for their gradients, and recompute the rest.

    Args:
        every: the number of iterations between two kept states, from 1 on.
        recursive: keep the start alone, and set checkpoints while going backwards, by the binomial schedule
            (A. Griewank and A. Walther, "Algorithm 799: revolve", 2000).

    Raises:
        ValueError: ``every`` is below 1.
    """

    name = "checkpoint-while"
    on_trial = OnTrial(programs=("with-gradients",))
    every: int = 16
    recursive: bool = False

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InvalidValue(f"checkpoint-while keeps every k-th state, k from 1 on, not every={self.every}")

    def apply(self, graph: Graph) -> bool:
        loops = [op for subgraph in graph.tree() for op in subgraph.controls if is_loop_gradient(op)]
        return any([self._mark(op) for op in loops if not _has_effects_to_see(op)])

    def _mark(self, op: Op) -> bool:
        attrs = {"checkpoint_every": 0 if self.recursive else self.every, "recursive": self.recursive}
        new_attrs = {name: value for name, value in attrs.items() if op.attrs.get(name, 0) != value}
        for name, value in new_attrs.items():
            op.graph.set_attr(op, name, value)
        return bool(new_attrs)


def _has_effects_to_see(gradient: Op) -> bool:
    """Whether the loop that an operator is the gradient of has effects that a second run would show: other ones than collectives."""
    # None where a gradient was written out as operators, as one of which the gradient is taken.
    bodies = [forward for graph in gradient.graphs.values() if (forward := forward_graph(graph)) is not None]
    ops = [op for body in bodies for inner in body.tree() for op in inner.ops]
    return any(op.definition is not None and op.definition.ordered and not communicates(op.type) for op in ops)
