"""Opening a device: which mode, which board, and the proof that it is what it claims. Only ``session`` imports ttnn."""
