"""Which TTNN operator at which shape runs out of which memory on a Tenstorrent board, by how many bytes, and why."""

__version__ = "0.1.0"
