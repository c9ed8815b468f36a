"""Reads what a tracker recorded and replays it: what was resident when, and which line made it. Needs no device."""
