"""Passes, pipelines, and the one function that runs them."""

from graphad.rewriting.passes import PASSES, Fixpoint, Pass, Pipeline, Step, fixpoint, observing, run_pass, verification

__all__ = ["PASSES", "Fixpoint", "Pass", "Pipeline", "Step", "fixpoint", "observing", "run_pass", "verification"]
