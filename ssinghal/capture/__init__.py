"""Records every call that a real model makes, without weights and on shapes alone, as a catalog or a trace.

request, client   what to record, and the process that records it (imports neither torch nor ttnn)
child             what runs in that process: building on the meta device, recording, guards
zoo               how the models of torchvision, timm, transformers, diffusers and ultralytics are built
catalog_lines     recorded calls to the lines of a catalog
trace             recorded calls in their order, with the lifetimes of their tensors
"""
