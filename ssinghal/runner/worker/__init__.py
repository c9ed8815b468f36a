"""Run as a folder, by its path: the process that takes tasks from a pool. An ``__init__`` so that a wheel has it."""
