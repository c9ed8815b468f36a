"""ultralytics (AGPL-3.0, a separate extra): every model that one of its YAML files describes, at any of its scales."""

from __future__ import annotations

import re
from typing import Any

from ssinghal.capture.zoo import BuiltModel, image_size, package_folder
from ssinghal.core.tensors import Shape

_SCALED = re.compile(r"(yolov?e?-?v?\d+)(?=-|$)")


def names() -> list[str]:
    """Returns ``yolo12`` and, by scale, ``yolo12n`` to ``yolo12x``; ``yolov8-world`` and ``yolov8s-world``."""
    stems = {path.stem for path in (package_folder("ultralytics") / "cfg" / "models").rglob("*.yaml")}
    scaled = {f"{m[1]}{scale}{stem[m.end() :]}" for stem in stems for m in [_SCALED.match(stem)] if m for scale in "nsmlx"}
    return sorted(stems | scaled)


def build(name: str, inputs: tuple[Shape, ...]) -> BuiltModel:
    from ultralytics.nn import tasks

    image_size(name, inputs)
    config = f"{name}.yaml"
    classes: dict[str, Any] = {
        "detect": tasks.DetectionModel, "segment": tasks.SegmentationModel, "classify": tasks.ClassificationModel,
        "pose": tasks.PoseModel, "obb": tasks.OBBModel,
    }  # fmt: skip
    if "world" in name:
        cls = tasks.WorldModel
    elif "rtdetr" in name:
        cls = tasks.RTDETRDetectionModel
    else:
        cls = classes[tasks.guess_model_task(tasks.yaml_model_load(config))]
    model = cls(config, ch=inputs[0][1], verbose=False)
    return BuiltModel(model, model, config, inputs)
