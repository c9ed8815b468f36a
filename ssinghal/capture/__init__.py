"""Real models to captured catalogs: a model is built without weights, run on shapes alone, and every call it makes recorded.

request, session   what is asked for, and the process that answers it (device-free: neither torch nor ttnn)
child              what runs in that process: building on the meta device, recording, guards
zoo                how the models of torchvision, timm, transformers, diffusers and ultralytics are built
lines              recorded calls to the lines of a catalog
"""
