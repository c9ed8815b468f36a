"""From what people paste (exceptions, logs, MLIR) to the call that ran out of memory, why, and what a replay of it says."""
