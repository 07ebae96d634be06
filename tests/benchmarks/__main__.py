"""``make bench``: run all benchmarks."""

from __future__ import annotations

from tests.benchmarks import backward, checking, drawing, fan_out, import_cost, kernels, loops, preparing, training_steps

if __name__ == "__main__":
    import_cost.main()
    backward.main()
    fan_out.main([])
    training_steps.main()
    loops.main()
    preparing.main()
    kernels.main()
    checking.main()
    drawing.main()
