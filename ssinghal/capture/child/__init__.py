"""The process of one capture: ``python -m ssinghal.capture.child``. Imports torch, and the package of the model asked for."""
