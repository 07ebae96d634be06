"""Passes, pipelines, analyses, rules, and the one function that runs passes.

Here belongs what any pass may use, whatever it does: running, patterns, matching, rules and their checks, dataflow. Nothing here
knows a pass of ``graphad.passes``, and facts that only these need are in ``graphad.passes.analyses``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphad.rewriting.analysis import Analysis, claims_checked
from graphad.rewriting.dataflow import Dataflow
from graphad.rewriting.old_names import Follower, sweep
from graphad.rewriting.passes import (
    PASSES,
    Fixpoint,
    Nested,
    OnTrial,
    Pass,
    Pipeline,
    Timings,
    diagnoses_only,
    fixpoint,
    nested,
    observing,
    run_pass,
    verification,
)
from graphad.rewriting.pattern import compute, constant, is_float
from graphad.rewriting.rewriter import ChangeCursor, Rule, RuleSet, erase_if_dead, in_graph, rewrite_greedily, timing_rules
from graphad.rewriting.rule_pass import RulePass, rules_of
from graphad.rewriting.rules import PatternRule, explain, rewrite, several
from graphad.rewriting.runs import Report, Step

if TYPE_CHECKING:
    from graphad.rewriting.proving import Proof, prove

__all__ = [
    "PASSES",
    "Analysis",
    "ChangeCursor",
    "Dataflow",
    "Fixpoint",
    "Follower",
    "Nested",
    "OnTrial",
    "Pass",
    "PatternRule",
    "Pipeline",
    "Proof",
    "Report",
    "Rule",
    "RulePass",
    "RuleSet",
    "Step",
    "Timings",
    "claims_checked",
    "compute",
    "constant",
    "diagnoses_only",
    "erase_if_dead",
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
