"""The process that captures, started by ``capture.client``. Imports torch, and the packages of the requested models."""
