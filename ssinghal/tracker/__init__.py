"""Records the memory of a TTNN program from inside its process; needs the standard library alone."""
