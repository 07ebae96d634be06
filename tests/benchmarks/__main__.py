"""``make bench``: run all benchmarks."""

from __future__ import annotations

from tests.benchmarks import backward, checking, drawing, import_cost, kernels, loops, preparing

if __name__ == "__main__":
    import_cost.main()
    backward.main()
    loops.main()
    preparing.main()
    kernels.main()
    checking.main()
    drawing.main()
