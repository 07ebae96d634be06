"""Programs on XLA; skipped where jax is not installed."""
