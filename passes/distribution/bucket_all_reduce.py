"""All-reduce gradients together, in buckets.

    a@GRAD ─▶ c_allreduce_sum ─▶ ..        a@GRAD ─▶ reshape ─╮
    b@GRAD ─▶ c_allreduce_sum ─▶ ..   ⇒    b@GRAD ─▶ reshape ─┴▶ concat ─▶ c_allreduce_sum ─▶ split ─▶ reshape ─▶ ..

Each collective waits for the slowest rank and for the network; a few large ones wait less often than many small ones (Li et al. 2020,
PyTorch Distributed, section 3.2.3). A bucket is reduced where its last gradient is complete, so that the rest of the backward goes on
meanwhile: with one bucket for everything nothing would be left that could.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from graphad.errors import InvalidValue
from graphad.ir import Builder, Graph, Op, Value
from graphad.ops import lookup
from graphad.passes.distribution.ranks import written_as
from graphad.program import BACKWARD
from graphad.rewriting import OnTrial, Pass

TYPE = "c_allreduce_sum"


@dataclass(frozen=True)
class BucketAllReduce(Pass):
    """Make one all-reduce of several that follow each other, up to a number of bytes.

    The sums are the same, to the last bit where ranks are reduced in their order.

    Args:
        bytes: how large a bucket gets at most; one tensor that is larger is a bucket by itself.

    Raises:
        ValueError: ``bytes`` is below 1.
    """

    name = "bucket-all-reduce"
    idempotent = True
    on_trial = OnTrial(programs=("with-gradients",))
    bytes: int = 25 << 20

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise InvalidValue(f"a bucket has 1 byte at least, not bytes={self.bytes}")

    def apply(self, graph: Graph) -> bool:
        has_changed = False
        for bucket in list(buckets(graph, self.bytes)):
            if len(bucket) > 1 and graph.allows("bucket", *bucket):
                _reduce_together(graph, bucket)
                has_changed = True
        return has_changed


def size_of(value: Value) -> int:
    """The bytes of a value; -1 if its extents are not known."""
    is_known = value.shape is not None and -1 not in value.shape and value.dtype is not None
    return prod(value.shape or ()) * np.dtype(value.dtype).itemsize if is_known else -1


def buckets(graph: Graph, most: int) -> Iterator[list[Op]]:
    """The all-reduces of a graph that go together: of one ring and dtype, and none needs what another one gives."""
    bucket: list[Op] = []
    needs: set[Value] = set()  # what depends on a result of the bucket
    size = 0
    for op in graph.ordered_ops():
        # An all-reduce that needs a result of the bucket cannot be in it; the bucket is closed before.
        depends = any(value in needs for value in op.reads())
        if op.type == TYPE:
            op_size = size_of(op.input("X"))
            if bucket and (depends or op_size < 0 or size + op_size > most or _kind(op) != _kind(bucket[0])):
                yield bucket
                bucket, needs, size, depends = [], set(), 0, False
            if op_size >= 0:
                bucket.append(op)
                size += op_size
                needs.update(op.writes())
        elif depends:
            needs.update(op.writes())
    if bucket:
        yield bucket


def _kind(op: Op) -> tuple[object, ...]:
    return op.input("X").dtype, op.attrs.get("ring_id", 0), op.attrs.get("use_model_parallel", False)


def _reduce_together(graph: Graph, bucket: Sequence[Op]) -> None:
    last = bucket[-1]
    results = [op.output("Out") for op in bucket]
    shapes = [list(op.input("X").shape or ()) for op in bucket]
    build = Builder(graph, "bucket", before=last, role=BACKWARD, forward=last)
    # Elements side by side: a sum over ranks does not care which tensor they are of.
    flat = [lookup("reshape")(build.symbol(op.input("X")), shape=[-1]) for op in bucket]
    attrs = {name: value for name, value in last.attrs.items() if name in lookup(TYPE).attrs}
    total = lookup(TYPE)(lookup("concat")(flat, axis=0), **attrs)
    parts = lookup("split")(total, sections=[prod(shape) for shape in shapes], axis=0)
    new_values = [lookup("reshape")(part, shape=shape).value for part, shape in zip(parts, shapes, strict=True)]
    for op, value, new in zip(bucket, results, new_values, strict=True):
        if value.type is None:
            graph.set_type(value, new.shape, new.dtype)
        written_as(new, value)
        graph.remove_op(op)


__all__ = ["BucketAllReduce", "buckets", "size_of"]
