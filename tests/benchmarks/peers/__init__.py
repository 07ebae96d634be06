"""Optimizing a graph, measured against torch.fx, onnx-ir, xDSL and PyTensor: dead code, common subexpressions, constants, ten rules.

The peers live in an environment of their own, anywhere outside the checkout:

    python -m venv ENVIRONMENT
    ENVIRONMENT/bin/python -m pip install -r tests/benchmarks/peers/requirements.txt
    python -m tests.benchmarks.peers --python ENVIRONMENT/bin/python

The last line runs with graphad's own interpreter, in the checkout, and prints one table. ``--sizes 1000 10000``, ``--repeat 1``,
``--variants`` (each library's other ways to do the same) and ``--pipeline TEXT`` (graphad's passes) say what is measured.

What is compared: everyone gets the same graph (``workload.py``) in its own form, made before the clock starts, and is timed from there to
a graph with the fewest operators there can be (``reference.py``), by its own passes in the quickest order found. The collector of garbage
runs as it is by default. What everyone leaves is read back, counted, and computed by numpy on one input, against the graph before.
"""
