"""Passes that share out a program to several ranks: batches, states of optimizers, tensors and stages.

Here belong passes that put in collectives (``graphad.ops.collective``). What runs the ranks is in ``graphad.distribution``,
which operators may be cut along which dimension in ``graphad.ops.dimensions``.
"""

from graphad.passes.distribution.bucket_all_reduce import BucketAllReduce
from graphad.passes.distribution.data_parallel import DataParallel
from graphad.passes.distribution.partition import Partition
from graphad.passes.distribution.pipeline_split import PipelineSplit, order_of, stages_of
from graphad.passes.distribution.shard import Shard
from graphad.passes.distribution.shard_optimizer import ShardOptimizer

__all__ = ["BucketAllReduce", "DataParallel", "Partition", "PipelineSplit", "Shard", "ShardOptimizer", "order_of", "stages_of"]
