"""Writes the Python that builds a model in torch, from the origin that its trace states."""

from __future__ import annotations

from dataclasses import dataclass

from ssinghal.capture.trace import Trace
from ssinghal.errors import InvalidCase


@dataclass(frozen=True)
class ModelSource:
    """``imports``, then the ``lines`` of a function that returns the module and what calls it."""

    imports: tuple[str, ...]
    lines: tuple[str, ...]


def model_source(trace: Trace) -> ModelSource:
    """Returns the source of the model of a trace.

    Raises:
        InvalidCase: It cannot be built from what the trace states.
    """
    model = trace.head["model"]
    if "factory" in model:
        return _factory(str(model["factory"]))
    package, name = str(model["package"]).partition("==")[0], str(model["name"])
    builders = {
        "torchvision": _torchvision,
        "timm": _timm,
        "transformers": _transformers,
        "ultralytics": _ultralytics,
        "diffusers": _diffusers,
    }
    if package not in builders or not trace.input_shapes:
        raise InvalidCase(f"{trace.model}: no program can be written, since the trace names no package or factory to build it")
    return builders[package](name, trace)


def _factory(text: str) -> ModelSource:
    module, _, function = text.partition(":")
    lines = (
        "shape = INPUTS[0][0]",
        "takes_sizes = any(",
        "    p.kind is p.VAR_POSITIONAL or (p.default is p.empty and p.kind is not p.VAR_KEYWORD)",
        f"    for p in inspect.signature({function}).parameters.values()",
        ")",
        f"model, inputs = {function}(*shape) if takes_sizes else {function}()",
        "if isinstance(inputs, dict):",
        "    return model, lambda *tensors: model(**dict(zip(inputs, tensors)))",
        "return model, model",
    )
    imports = (
        "import inspect",
        "import os",
        "import sys",
        "",
        "sys.path.append(os.getcwd())  # where the module of the model is",
        f"from {module} import {function}  # noqa: E402",
    )
    return ModelSource(imports, lines)


def _torchvision(name: str, trace: Trace) -> ModelSource:
    options = f", image_size={trace.input_shapes[0][-2]}" if name.startswith("vit_") else ""
    if name in ("inception_v3", "googlenet"):
        options += ", init_weights=False"
    if any(kind in name for kind in ("deeplab", "fcn_", "lraspp")):
        options += ", weights_backbone=None"
    lines = (f'model = models.get_model("{name}", weights=None{options})', "return model, model")
    return ModelSource(("from torchvision import models",), lines)


def _timm(name: str, trace: Trace) -> ModelSource:
    height, width = trace.input_shapes[0][-2:]
    lines = (
        f'config = timm.get_pretrained_cfg("{name}", allow_unregistered=True)',
        "fixed = config is not None and config.fixed_input_size",
        f'options = {{"img_size": ({height}, {width})}} if fixed else {{}}',
        f'model = timm.create_model("{name}", pretrained=False, **options)',
        "return model, model",
    )
    return ModelSource(("import timm",), lines)


def _transformers(name: str, trace: Trace) -> ModelSource:
    from ssinghal.capture.zoo.transformers_models import PRESETS

    classes = str(trace.head["model"]["config"]).partition("(")[0]
    model_type, changes = PRESETS.get(name, (name, {}))
    written = ", ".join(f"{key}={value!r}" for key, value in changes.items())
    lines = (
        f'config = transformers.CONFIG_MAPPING["{model_type}"]({written})',
        'if hasattr(config, "image_size"):',
        f"    config.image_size = {tuple(trace.input_shapes[0][-2:])}",
        'for name in ("use_pretrained_backbone", "use_cache"):',
        "    if hasattr(config, name):",
        "        setattr(config, name, False)",
        f"model = transformers.{classes}(config)",
        "return model, lambda x: model(pixel_values=x)",
    )
    return ModelSource(("import transformers",), lines)


def _ultralytics(name: str, trace: Trace) -> ModelSource:
    config, channels = f"{name}.yaml", trace.input_shapes[0][1]
    classes = {"seg": "SegmentationModel", "cls": "ClassificationModel", "pose": "PoseModel", "obb": "OBBModel"}
    kind = "WorldModel" if "world" in name else "RTDETRDetectionModel" if "rtdetr" in name else ""
    kind = kind or classes.get(name.rpartition("-")[2], "DetectionModel")
    lines = (f'model = tasks.{kind}("{config}", ch={channels}, verbose=False)', "return model, model")
    return ModelSource(("from ultralytics.nn import tasks",), lines)


def _diffusers(name: str, trace: Trace) -> ModelSource:
    from ssinghal.capture.zoo.diffusers_models import PARTS

    part = PARTS[name]
    options = ", ".join(f"{key}={value!r}" for key, value in part.options.items())
    run = f"model.{part.part}" if part.part else "model"
    lines = (f"model = diffusers.{part.cls}({options})", f"return model, {run}")
    return ModelSource(("import diffusers",), lines)
