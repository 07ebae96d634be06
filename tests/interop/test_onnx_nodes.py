"""The node tests that come with the ``onnx`` package pass, but for those that docs/onnx.md lists with their reasons."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="the onnx package, which has the node tests, is not installed: pip install 'graphad[onnx-tests]'")

from tests.interop.onnx_nodes import CONVERTED, REASONS, SECTION, VERSION, cases, converted, fails, failures, reason_of, table


@pytest.mark.long
@pytest.mark.parametrize("kind", CONVERTED)
def test_models_of_pytorchs_exporter_pass(kind: str) -> None:
    wrong = {str(case.name): found for case in converted(kind) if (found := fails(case))}
    assert not wrong


@pytest.mark.long
def test_the_node_tests_pass() -> None:
    failed = failures()
    unknown = [f"{name}: {wrong}" for name, wrong in failed.items() if reason_of(name) is None]
    assert not unknown, f"{len(unknown)} of {len(cases())}:\n" + "\n".join(unknown[:20])
    passed = [start for start in REASONS if not any(name.startswith(start) for name in failed)]
    assert not passed, f"these pass: take them from REASONS: {', '.join(passed)}"
    on_page = SECTION.parts()[1]
    if VERSION not in on_page:
        pytest.skip(f"the table in docs/onnx.md is of another version than {VERSION}")
    assert on_page == table(failed), "docs/onnx.md lists other cases: python -m tests.interop.onnx_nodes"
