"""Opens a device (card, simulator or virtual board), proves what it is, and reads TTNN's error texts."""
