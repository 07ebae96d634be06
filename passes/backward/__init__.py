"""The backward of a graph, built by five passes; two more run where gradients are differentiated again, and where variables clip theirs.

Here belongs what makes first and higher gradients. Forward mode is in ``graphad.passes.differentiation``, what is done with
gradients in ``graphad.passes.optimization``.

find-op-path | create-grad-ops | prune-no-grad | accumulate-grads | (clip-errors) | create-grad-vars
"""

from graphad.passes.backward.accumulate_grads import AccumulateGrads
from graphad.passes.backward.clip_errors import ClipErrors
from graphad.passes.backward.create_grad_ops import CreateGradOps, GradOps
from graphad.passes.backward.create_grad_vars import CreateGradVars
from graphad.passes.backward.expand_grad_ops import ExpandGradOps
from graphad.passes.backward.find_op_path import FindOpPath, OpPath
from graphad.passes.backward.prune_no_grad import PruneNoGrad

__all__ = [
    "AccumulateGrads",
    "ClipErrors",
    "CreateGradOps",
    "CreateGradVars",
    "ExpandGradOps",
    "FindOpPath",
    "GradOps",
    "OpPath",
    "PruneNoGrad",
]
