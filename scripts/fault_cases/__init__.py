"""The faults that ``scripts/faults.py`` makes happen, on the real program in temporary folders."""
