"""The process that captures, started by ``capture.session``. Imports torch, and the package of each model asked for."""
