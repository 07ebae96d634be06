"""The proofs of the rules of ``simplify``, by name: ``graphad/rewriting/proofs.json``.

python -m tests.proofs [NAME...]        (or ``make proofs``) proves the exact rules anew, or some of them, and writes the file
"""

from __future__ import annotations

import json
import sys
from typing import Any

from graphad.passes.cleanup.rules import claims
from graphad.rewriting import PatternRule, Proof, prove
from graphad.rewriting.proofs import FILE, recorded

TIMEOUT = 30.0  # seconds for each dtype


def entry(rule: PatternRule, proof: Proof) -> dict[str, Any]:
    """A result as it is stored: with the rule's text, so that a rule that has changed is seen."""
    return {
        "rule": rule.text,
        "status": proof.status,
        "dtypes": list(proof.dtypes),
        "assumptions": list(proof.assumptions),
        "open": dict(proof.open),
    }


def main(names: list[str]) -> None:
    """Prove the rules, and store each result at once."""
    results: dict[str, Any] = dict(recorded())
    for claim in claims():
        if claim.exact and (not names or claim.rule.name in names):
            proof = prove(claim.rule, timeout=TIMEOUT)
            print(f"{claim.rule.name}: {proof}", flush=True)
            results[claim.rule.name] = entry(claim.rule, proof)
            known = {c.rule.name: results[c.rule.name] for c in claims() if c.rule.name in results}
            FILE.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
