"""``make bench``: run all benchmarks, and write docs/benchmarks.md."""

from __future__ import annotations

from tests.benchmarks import (
    backward,
    checking,
    drawing,
    fan_out,
    fusion,
    growth,
    import_cost,
    kernels,
    loops,
    overhead,
    page,
    preparing,
    threads,
)

if __name__ == "__main__":
    import_cost.main()
    backward.main()
    fan_out.main([])
    growth.main([])
    page.main()
    fusion.main([])
    overhead.main()
    loops.main()
    preparing.main()
    threads.main()
    kernels.main()
    checking.main()
    drawing.main()
