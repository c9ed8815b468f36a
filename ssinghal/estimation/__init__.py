"""Computes what a call needs per bank without a device, and checks it against what TTNN's allocator reported."""
