"""``make bench``: run all benchmarks."""

from __future__ import annotations

from tests.benchmarks import backward, kernels, loops

if __name__ == "__main__":
    backward.main()
    loops.main()
    kernels.main()
