"""Finds the largest (or smallest) value of a parameter at which one call still fits, by running both sides of the edge."""
