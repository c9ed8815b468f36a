"""A profile in the formats of viewers that people have: one module each."""
