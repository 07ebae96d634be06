"""Samples of the operators in ``graphad.ops.collective``: of a process that is alone."""

from __future__ import annotations

from graphad.ops.sample import Sample, away_from_zero, uniform

_REDUCED = [Sample({"X": away_from_zero(2, 3)}), Sample({"X": away_from_zero(3)}, {"use_model_parallel": True})]
_ALONG = [Sample({"X": uniform(2, 3)}, {"nranks": 1}), Sample({"X": uniform(2, 3)}, {"nranks": 1, "axis": 1})]

SAMPLES: dict[str, list[Sample]] = {
    **dict.fromkeys(("c_allreduce_sum", "c_allreduce_max", "c_allreduce_min", "c_allreduce_prod"), _REDUCED),
    **dict.fromkeys(("c_allgather", "c_reducescatter", "c_concat", "c_split"), _ALONG),
    "c_reduce_sum": [Sample({"X": uniform(2, 3)}), Sample({"X": uniform()}, {"root_id": 0})],
    "c_shard": [Sample({"X": uniform(2, 3)}), Sample({"X": uniform(3)}, {"reduce": True})],
    "c_unshard": [Sample({"X": uniform(6)}, {"shape": [2, 3]})],
    "c_identity": [Sample({"X": uniform(2, 3)})],
    "c_broadcast": [Sample({"X": uniform(2, 3)}), Sample({"X": uniform()}, {"root": 0})],
    "c_alltoall": [Sample({"X": uniform(2, 3)})],
    "c_recut": [Sample({"X": uniform(2, 3)}, {"split_axis": 0, "concat_axis": 1, "nranks": 1})],
    "shard_tensor": [
        Sample({"X": uniform(4, 3)}, {"mesh": "data=2", "spec": ["data", "-"]}),
        Sample({"X": uniform(2, 3)}, {"mesh": "data=2", "spec": ["data", "?"], "shape": [4, 3]}),
    ],
    "c_clear_padding": [Sample({"X": uniform(2, 3)}, {"axis": 0, "extent": 2}), Sample({"X": uniform(2, 3)}, {"axis": 1, "extent": 2})],
    "alltoall": [Sample({"X": uniform(4)})],
    "send_v2": [],  # no rank is there to receive: tests/distribution has two
    "recv_v2": [],
    "barrier": [Sample({"X": uniform(2, 3)})],
}
