"""``make bench``: run all benchmarks."""

from __future__ import annotations

from tests.benchmarks import backward, loops

if __name__ == "__main__":
    backward.main()
    loops.main()
