"""The worker process of a pool, started by this folder's path. The file exists so that a wheel contains the folder."""
