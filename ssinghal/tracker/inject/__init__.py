"""On PYTHONPATH of a profiled program: a folder for ``sitecustomize`` alone."""
