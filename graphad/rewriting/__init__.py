"""Passes, pipelines, analyses, rules, and the one function that runs passes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphad.rewriting.analysis import Analysis, claims_checked
from graphad.rewriting.dataflow import Dataflow
from graphad.rewriting.failure import diagnoses_only
from graphad.rewriting.following import Follower, in_graph
from graphad.rewriting.on_trial import OnTrial
from graphad.rewriting.passes import PASSES, Fixpoint, Nested, Pass, Pipeline, fixpoint, nested
from graphad.rewriting.patterns import PatternRule, explain, rewrite, several
from graphad.rewriting.rule_pass import RulePass, rules_of
from graphad.rewriting.rules import Rule, RuleSet, timing_rules
from graphad.rewriting.running import Step, Timings, observing, run_pass, verification
from graphad.rewriting.terms import compute, constant, is_float
from graphad.rewriting.worklist import rewrite_greedily, sweep

if TYPE_CHECKING:
    from graphad.rewriting.proving import Proof, prove

__all__ = [
    "PASSES",
    "Analysis",
    "Dataflow",
    "Fixpoint",
    "Follower",
    "Nested",
    "OnTrial",
    "Pass",
    "PatternRule",
    "Pipeline",
    "Proof",
    "Rule",
    "RulePass",
    "RuleSet",
    "Step",
    "Timings",
    "claims_checked",
    "compute",
    "constant",
    "diagnoses_only",
    "explain",
    "fixpoint",
    "in_graph",
    "is_float",
    "nested",
    "observing",
    "prove",
    "rewrite",
    "rewrite_greedily",
    "rules_of",
    "run_pass",
    "several",
    "sweep",
    "timing_rules",
    "verification",
]


if not TYPE_CHECKING:  # a type checker would take any name for one of the module's

    def __getattr__(name: str) -> Any:
        """Proofs are imported on first use: eight files, for a solver that may not be installed."""
        if name not in ("Proof", "prove"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.proving"), name)
