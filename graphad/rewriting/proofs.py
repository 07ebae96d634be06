"""The results of proving the library's own rules: ``proofs.json``, beside this file, which ``make proofs`` writes.

To prove them all takes a quarter of an hour, so it is done once for each state of the rules; a test holds that none has changed since.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TypedDict

FILE = Path(__file__).with_name("proofs.json")


class Recorded(TypedDict):
    """The result for a rule: see ``graphad.rewriting.Proof``; ``rule`` is the rule's text, before ⇒ after."""

    rule: str
    status: str
    dtypes: list[str]
    assumptions: list[str]
    open: dict[str, str]


@cache
def recorded() -> dict[str, Recorded]:
    """The results by the rule's name. The file is read when they are first needed, not at import."""
    results: dict[str, Recorded] = json.loads(FILE.read_text(encoding="utf-8"))
    return results


def recorded_dtypes(name: str, text: str) -> tuple[str, ...]:
    """The dtypes that a rule of the library is proved for; none if there is no result for it as it is now."""
    result = recorded().get(name)
    return tuple(result["dtypes"]) if result is not None and result["rule"] == text else ()
