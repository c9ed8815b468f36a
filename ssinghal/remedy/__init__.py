"""Searches for changes that make a failing call fit, and tries each on a device before naming it."""
