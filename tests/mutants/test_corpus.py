"""Every entry of the corpus is what it says: its change can be made, and its witness shows that it is wrong, or right."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from graphad.ops import lookup
from graphad.passes.precision import mixed_precision
from tests.mutants.entries import MUTANTS, RIGHT, UNORDERED, WRONG, Entry
from tests.mutants.patching import Patch, PatchError
from tests.source_tree import ROOT

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="each mistake is planted in a fork of a process, which this system does not have"
)
ENTRIES: list[Entry] = [*MUTANTS, *WRONG, *RIGHT]
NAMES = list(dict.fromkeys(entry.name for entry in ENTRIES))
KEYS = "graphad.passes.cleanup.operator_keys:key_of"


def answered(option: str, *names: str, hash_seed: str = "0") -> dict[str, str]:
    """The command's answer, in a process that has made no rules and remembers nothing."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.mutants", option, *names]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_every_text_that_a_mistake_replaces_is_there() -> None:
    sources = [mutant.patch.changed_source() for mutant in MUTANTS if not mutant.patch.value]
    assert all(before != after for before, after in sources)


def test_every_tenth_witness_shows_its_mistake() -> None:
    """The others with make test-all."""
    assert answered("--witnesses", *NAMES[::10]) == dict.fromkeys(NAMES[::10], "")


@pytest.mark.long
def test_every_witness_shows_its_mistake() -> None:
    assert answered("--witnesses") == dict.fromkeys(NAMES, "")


def test_unordered_passes_follow_hashes() -> None:
    one, other = (answered("--texts", hash_seed=seed) for seed in "12")
    assert [name for name in one if one[name] != other[name]] == [entry.name for entry in UNORDERED]


def test_the_corpus_covers_what_it_should() -> None:
    assert len(MUTANTS) >= 80
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({entry.family for entry in (*WRONG, *UNORDERED)}) >= 10
    assert len({entry.pass_type for entry in RIGHT}) >= 20


def test_the_page_says_how_large_it_is() -> None:
    text = (ROOT / "docs" / "checking.md").read_text(encoding="utf-8")
    assert f"{len(MUTANTS)} mistakes planted in graphad" in text
    assert f"{len(WRONG) + len(UNORDERED)} wrong passes in" in text
    assert f"and {len(RIGHT)} right ones as controls" in text


def test_a_patch_is_made_everywhere_and_undone() -> None:
    patch = Patch("graphad.ops.elementwise", "lambda Out, dOut: dOut * Out, steep", "lambda Out, dOut: dOut - Out, steep")
    rule = lookup("exp").grads
    assert rule is not None
    before = rule["X"].function(3.0, 2.0)
    with patch.applied():
        assert rule["X"].function(3.0, 2.0) == -1.0
    assert before == rule["X"].function(3.0, 2.0) == 6.0


def test_a_constant_is_changed_and_put_back() -> None:
    patch = Patch("graphad.passes.precision.mixed_precision:WIDE", value='{**it, "bfloat16": "float32"}')
    with patch.applied():
        assert [*mixed_precision.WIDE] == ["float16", "float32", "bfloat16"]
    assert [*mixed_precision.WIDE] == ["float16", "float32"]


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (Patch(KEYS, "no such text", ""), "has 0 times 'no such text', not once"),
        (Patch(KEYS, "definition", "column"), "not once"),
        (Patch(f"{KEYS}_of", "definition", "column"), "no function 'key_of_of'"),
        (Patch("graphad.passes.cleanup.operator_keys", "Key = tuple[object, ...]", "Key = tuple"), "only functions can be changed"),
        (Patch(KEYS, "definition.commutative and not attrs", "(definition.commutative) and not attrs"), "changes nothing"),
        (Patch("graphad.passes.precision.mixed_precision:WIDE", value="it"), "already"),
    ],
)
def test_a_patch_that_cannot_be_made_says_so(patch: Patch, said: str) -> None:
    with pytest.raises(PatchError, match=said), patch.applied():
        pass
