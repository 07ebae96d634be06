"""Run forward and backward on parts of the batch, one after the other, and update the parameters once.

    x, y ─▶ forward, backward ─▶ w@GRAD ─▶ sgd ─▶ w

      ⇒    i = 0; total = 0
           while i < k { x_i, y_i ─▶ forward, backward ─▶ w@GRAD;  total += w@GRAD;  i += 1 }
           total / k ─▶ w@GRAD ─▶ sgd ─▶ w

The peak memory is that of one part. The loss has to be a mean over the batch, or a sum: then its gradients are the mean,
or the sum, of those of the parts. The data are cut along axis 0 without copies.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.edit import outline
from graphad.errors import InvalidValue
from graphad.graph import Graph, Value
from graphad.passes.memory.accumulable import Training, check_cut
from graphad.passes.memory.micro_batches import make_loop
from graphad.program import FORWARD
from graphad.rewriting import OnTrial, Pass
from graphad.types import TENSOR


@dataclass(frozen=True)
class GradientAccumulation(Pass):
    """Compute the gradients of parts of the batch in a loop, and add them up.

    Sums are taken in another order, so results differ by rounding. A batch whose size only a run knows has to be divisible then.

    Args:
        micro_batches: how many parts; they are of one size.
        inputs: names of the data; empty: all that is given and not persistable.

    Raises:
        Refused: the graph has no backward part; the loss is neither a mean nor a sum over the batch; something is requested that
            is no gradient of a parameter, mean or sum; an operator draws random numbers; the batch is not divisible.
        ValueError: ``micro_batches`` is below 1.
    """

    name = "gradient-accumulation"
    tolerance = 1e-5
    on_trial = OnTrial(programs=("trainable",), after_backward=True)
    micro_batches: int = 2
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.micro_batches < 1:
            raise InvalidValue(f"a batch is cut into 1 part at least, not into {self.micro_batches}")

    def apply(self, graph: Graph) -> bool:
        if self.micro_batches == 1:
            return False
        training = Training(graph, self._data(graph))
        kinds = training.results()
        check_cut(training.data, self.micro_batches)
        if not graph.allows("accumulate", *training.inside[:1]):
            return False
        make_loop(outline(training.inside), training.data, kinds, self.micro_batches)
        return True

    def _data(self, graph: Graph) -> list[Value]:
        if self.inputs:
            return [graph.given(name) for name in self.inputs]
        return [v for v in graph.inputs if v.kind == TENSOR and not v.persistable and any(op.role == FORWARD for op in v.readers)]
