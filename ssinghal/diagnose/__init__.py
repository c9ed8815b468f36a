"""Turns pasted exceptions, logs and MLIR into the call that failed, why it failed, and a replay of it."""
