"""Train on a part of the batch in each of several ranks, with the gradients of the whole batch.

    x ─▶ forward ─▶ loss         1 ─▶ backward ─▶ w@GRAD ─▶ sgd ─▶ w

      ⇒    x's part ─▶ forward ─▶ loss's part
           rows / all rows ─▶ backward ─▶ w@GRAD's part ─▶ c_allreduce_sum ─▶ w@GRAD ─▶ sgd ─▶ w

The gradient of a mean over the batch is the mean of those of the parts, by the rows that they have; so the loss's gradient begins with the
rank's share of the rows (Paddle's GradAllReduce, python/paddle/distributed/transpiler/collective.py, has 1/ranks there, which is the
same for parts of one size). The all-reduce follows where the gradient is complete, while the rest of the backward goes on (Li et al.
2020, PyTorch Distributed, section 3.2). Requested means and sums over the batch, the loss among them, are those of the whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from graphad.errors import InvalidValue, Refused
from graphad.ir import Builder, Graph, Value
from graphad.ops import lookup
from graphad.passes.analyses.batch_dependence import MEAN, MIXED, ROWS, TOTAL, data_of
from graphad.passes.distribution.ranks import Batch, Seed, Share, check_any_rows, check_ranks, gradient_of, interpose, own_part, with_rows
from graphad.program import BACKWARD, FORWARD, located
from graphad.rewriting import OnTrial, Pass

Loss = Literal["", "mean", "sum"]


@dataclass(frozen=True)
class DataParallel(Pass):
    """All-reduce the gradients of ranks that have parts of the batch.

    Args:
        ranks: how many there are.
        inputs: names of the data that are cut along axis 0; empty: all that is given and not persistable.
        loss: ``mean`` or ``sum``, where it does not follow from the operators which of the two the loss is: in loops, and where random
            numbers are drawn or statistics of the batch are taken, which every rank then does by itself.
        equal: whether all parts are of one size: then nothing is sent besides gradients and requested values. Data that are declared with a
            number of rows that can be shared out are.
        ring: the ring that the ranks are in.

    Raises:
        Refused: the graph has no backward part; its loss is neither a mean nor a sum; no parameter has a gradient; an attribute has the
            number of rows.
        ValueError: ``ranks`` is below 1.
    """

    name = "data-parallel"
    tolerance = 1e-5
    on_trial = OnTrial(programs=("trainable",), after_backward=True)
    ranks: int = 2
    inputs: tuple[str, ...] = ()
    loss: Loss = ""
    equal: bool = False
    ring: int = 0

    def __post_init__(self) -> None:
        check_ranks(self.name, self.ranks)
        if self.loss not in ("", "mean", "sum"):
            raise InvalidValue(f"loss is mean or sum, not {self.loss!r}")

    @property
    def group(self) -> int:
        return self.ranks

    def apply(self, graph: Graph) -> bool:
        data = data_of(graph, self.inputs)
        if not data:
            why = "every input is persistable, or cut into parts already: gradient-accumulation runs after data-parallel"
            raise Refused(f"nothing is given that could be shared out to ranks: {why}")
        batch = Batch.of(graph, data, self.loss)
        starts, parameter_gradients = batch.seeds, batch.gradients
        if not parameter_gradients:
            raise Refused("no parameter has a gradient: build the backward before data-parallel")
        requested_kinds = self._requested(graph, batch.kinds)
        self._check_requested(graph, batch)
        if self.ranks > 1:
            batch.check_starts(graph)
            # Where the user says what the loss is, a rank's rows may be known to fit.
            if not self.loss:
                check_any_rows(graph, data)
        if self.ranks == 1 or not graph.allows("share out", *(seed.op for seed in starts)):
            return False
        equal = with_rows(graph, data, self.ranks) or self.equal
        # The share is needed where the backward begins, not before: it may wait for the number of rows of the others.
        first = next(op for op in graph.ordered_ops() if op.role == BACKWARD)
        share = Share(graph, data, self.ranks, first, starts[0].loss.dtype or "float32", equal)
        for seed in starts:
            _begin(seed, share)
        for value in parameter_gradients:
            self._reduce(graph, value)
        for value, kind in requested_kinds.items():
            part, _ = own_part(value)
            # The rank goes on with what it has computed of its part; only who requested the value sees that of the whole batch.
            readers = list(value.readers)
            interpose(value, part, share.total(Builder(graph, value.name, before=first, role=BACKWARD), part, kind))
            for op in readers:
                op.graph.replace_input(op, value, part)
        return True

    def _reduce(self, graph: Graph, value: Value) -> None:
        """The all-reduce of one gradient, where it is complete."""
        part, build = own_part(value)
        interpose(value, part, lookup("c_allreduce_sum")(build.symbol(part), ring_id=self.ring).value)

    def _requested(self, graph: Graph, kinds: Mapping[Value, str]) -> dict[Value, str]:
        """The requested means and sums over the batch."""
        results = [value for op in graph.ops if op.role == FORWARD for value in op.writes() if graph.is_observed(value)]
        for value in results if not self.loss else ():
            if kinds[value] == MIXED:
                raise Refused(
                    located(
                        f"{value.name!r} is requested, or persists, and does not follow from the batch row by row, as a mean or as a sum:"
                        " with loss=mean or loss=sum each rank computes its own",
                        value.writers[0].source,
                    )
                )
        return {value: kinds[value] for value in results if kinds[value] in (MEAN, TOTAL)}

    def _check_requested(self, graph: Graph, batch: Batch) -> None:
        """Refused if a gradient is requested that is neither that of rows nor of a parameter: each rank has another part of it."""
        gradients = {*batch.gradients, *(seed.op.output("Out") for seed in batch.seeds)}
        for value in graph.targets:
            backward = bool(value.writers) and value.writers[0].role == BACKWARD and value not in gradients
            if backward and batch.kinds.get(gradient_of(value) or value) != ROWS:
                raise Refused(f"{value.name!r} is requested, which is the gradient neither of a parameter nor of rows of the batch")


def _begin(seed: Seed, share: Share) -> None:
    """Begin a backward with the rank's share."""
    # The gradient of a sum over all rows is the sum of those of the ranks' rows: each rank begins with 1, as without ranks.
    if seed.kind == TOTAL:
        return
    value = seed.op.output("Out")
    readers = list(value.readers)
    build = Builder(seed.op.graph, value.name, before=seed.op.next, role=BACKWARD, forward=seed.op)
    share_value = share.of(build, build.symbol(value)).value
    for op in readers:
        op.graph.replace_input(op, value, share_value)


__all__ = ["DataParallel"]
