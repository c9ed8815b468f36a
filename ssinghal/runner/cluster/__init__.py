"""Runs the cases of a sweep on a Dask cluster. Only ``link`` and ``tasks`` import Dask, and only where a cluster is used."""
