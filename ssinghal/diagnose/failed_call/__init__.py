"""Makes a call that ran out of memory again, among the buffers that were resident then, and tries changes to it."""
