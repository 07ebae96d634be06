"""Run every peer's script in a process of its own, and print one table."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[3]
SIZES = (10_000, 100_000)
LIMIT = 600.0
OWN = "graphad"
PEERS = {OWN: "with_graphad", "torch.fx": "with_torch_fx", "onnx-ir": "with_onnx_ir", "xDSL": "with_xdsl", "PyTensor": "with_pytensor"}
VARIANTS = {
    OWN: ("verified",),
    "torch.fx": ("CSEPass", "replace_pattern"),
    "onnx-ir": ("optimize",),
    "xDSL": ("dce",),
    "PyTensor": ("patterns", "canonicalize"),
}


@dataclass(frozen=True)
class Setup:
    """The options of the command line."""

    python: str
    sizes: tuple[int, ...]
    repeat: int
    limit: float
    pipeline: str | None

    def command(self, peer: str, variant: str | None, operators: int) -> list[str]:
        interpreter = sys.executable if peer == OWN else self.python
        words = [interpreter, "-m", f"tests.benchmarks.peers.{PEERS[peer]}", str(operators), "--repeat", str(self.repeat)]
        words += ["--variant", variant] if variant else []
        return words + (["--pipeline", self.pipeline] if self.pipeline and peer == OWN else [])


Results = dict[int, dict[str, Any] | str]


def measure(setup: Setup, peer: str, variant: str | None, operators: int) -> dict[str, Any] | str:
    """The JSON that the script printed, or one line that says why there is none."""
    try:
        done = subprocess.run(
            setup.command(peer, variant, operators), cwd=ROOT, text=True, capture_output=True, timeout=setup.limit, check=False
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {setup.limit:g} s"
    except OSError as error:
        return f"not run: {error}"
    if done.returncode:
        return f"failed: {reason(done.stderr)}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def reason(printed: str) -> str:
    """The line of a traceback that names the error."""
    lines = printed.strip().splitlines() or ["no message"]
    return next((line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception|Invalid\w*)\b", line)), lines[-1])


def measure_all(setup: Setup, peer: str, variant: str | None, console: Console) -> Results:
    """The results by size, up to the first size that gave none."""
    results: Results = {}
    for operators in setup.sizes:
        found = results[operators] = measure(setup, peer, variant, operators)
        label = f"{peer}{f', {variant}' if variant else ''}, {operators:,} operators"
        if isinstance(found, str):
            console.print(f"{label}: {found}", highlight=False, markup=False)
            break
        console.print(f"{label}: {described(found)}", highlight=False, markup=False)
    return results


def described(found: dict[str, Any]) -> str:
    stages = found["prepared"] | found["stages"]
    parts = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in stages.items())
    odd = {True: "", None: "; not compared: operators of its own", False: "; WRONG: it computes something else"}[found["agrees"]]
    return f"{parts}; {found['before']:,} -> {found['after']:,} operators, {found['fewest']:,} is the fewest{odd}"


def table_of(setup: Setup, rows: dict[tuple[str, str | None], Results]) -> Table:
    """One line a peer: seconds, microseconds an operator, operators left, and how many times graphad's time, for each size."""
    table = Table(title="dead code, common subexpressions, constant folding and ten algebraic rules")
    table.add_column("peer")
    for operators in setup.sizes:
        for column in (f"{operators:,}: s", "µs an op", "ops after", f"/ {OWN}"):
            table.add_column(column, justify="right")
    table.add_column("version")
    own = rows.get((OWN, None), {})
    for (peer, variant), results in rows.items():
        version = next((found["version"] for found in results.values() if isinstance(found, dict)), "")
        cells = [cell for operators in setup.sizes for cell in cells_of(results.get(operators, "-"), own.get(operators, "-"), operators)]
        table.add_row(f"{peer}, {variant}" if variant else peer, *cells, version)
    return table


def cells_of(found: dict[str, Any] | str, own: dict[str, Any] | str, operators: int) -> tuple[str, str, str, str]:
    if isinstance(found, str):
        return ("-", "-", "-", "-")
    ratio = "-" if isinstance(own, str) else f"{found['seconds'] / own['seconds']:.2f}"
    micros = found["seconds"] / operators * 1e6
    return (f"{found['seconds']:.3f}", f"{micros:.1f}", f"{found['after']:,}{'' if found['agrees'] is not False else ' WRONG'}", ratio)


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers", description="graphad's passes against those of its peers.")
    parser.add_argument("--python", required=True, help="the interpreter of the environment with the peers")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="operators in the graph")
    parser.add_argument("--repeat", type=int, default=3, help="the quickest of so many counts")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds after which a script is stopped")
    parser.add_argument("--pipeline", help="graphad's passes")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--variants", action="store_true", help="each library's other ways as well")
    given = parser.parse_args()
    setup = Setup(given.python, tuple(given.sizes), given.repeat, given.limit, given.pipeline)
    console = Console(width=180)
    asked = [(peer, variant) for peer in given.peers for variant in (None, *(VARIANTS[peer] if given.variants else ()))]
    rows = {(peer, variant): measure_all(setup, peer, variant, console) for peer, variant in asked}
    console.print(table_of(setup, rows))


if __name__ == "__main__":
    main()
