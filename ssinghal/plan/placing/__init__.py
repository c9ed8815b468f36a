"""Chooses where every value of a model is placed, so that as little as possible is moved through DRAM."""
