"""The device memory of a user's own tests: figures per test, budgets, leaks, expected failures, baselines, several boards."""
