"""How many mistakes the checker catches: ``python -m tests.mutants``.

Every entry of the corpus is given to ``check_pass`` under a budget of processor time, in a process of its own. Named entries, families
(``rules``) or kinds (``mutants``, ``wrong``, ``right``) are tried alone.
"""

from __future__ import annotations

import argparse
import json
import sys

from tests.mutants.entries import faults, texts
from tests.mutants.harness import run


def main() -> int:
    """Parse the command line; return 1 if a witness does not hold or a control is accused."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="entries, families or kinds; none: all")
    parser.add_argument("--seconds", type=float, default=30.0, help="processor time for each (30)")
    parser.add_argument("--examples", type=int, default=0, help="programs for each; 0: as many as the time allows")
    parser.add_argument("--controls", type=int, default=1000, help="programs for each right pass (1000)")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (1)")
    parser.add_argument("--seed", type=int, default=0, help="which programs (0)")
    parser.add_argument("--markdown", metavar="FILE", help="write the table for docs/checking.md")
    parser.add_argument("--witnesses", action="store_true", help="run the witnesses instead, and print as JSON what is wrong with them")
    parser.add_argument("--texts", action="store_true", help="print as JSON the programs that passes make which follow hashes")
    options = parser.parse_args()
    if options.witnesses or options.texts:
        print(json.dumps(faults(options.jobs, options.names) if options.witnesses else texts()))
        return 0
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
