"""torchvision: every model that it lists except quantized ones. Detectors run as backbone and heads."""

from __future__ import annotations

import re
from typing import Any

from ssinghal.capture.zoo import BuiltModel, image_size, package_folder
from ssinghal.core.tensors import Shape
from ssinghal.errors import CaptureError

_REGISTERED = re.compile(r"""^@register_model\((?:name=)?["']?(\w*)["']?\)(?:\n@.*|\n    .*|\n\))*\ndef (\w+)""", re.MULTILINE)
ONE_STAGE = "anchors, box decoding and non-maximum suppression depend on values: backbone and heads are recorded"
TWO_STAGE = (
    "proposals, RoI pooling and non-maximum suppression depend on values: backbone and heads are recorded, for {} proposals"
)


def names() -> list[str]:
    files = [file for file in (package_folder("torchvision") / "models").rglob("*.py") if file.parent.name != "quantization"]
    return sorted(renamed or name for file in files for renamed, name in _REGISTERED.findall(file.read_text(encoding="utf-8")))


def build(name: str, inputs: tuple[Shape, ...]) -> BuiltModel:
    from torchvision import models

    options: dict[str, Any] = {"weights": None}
    if name in models.list_models(module=models.segmentation) + models.list_models(module=models.detection):
        options["weights_backbone"] = None
    if name.startswith("vit_"):
        height, width = image_size(name, inputs)
        if height != width:
            raise CaptureError(f"capture torchvision/{name}: takes square images only, not {height}x{width}")
        options["image_size"] = height
    if name in ("inception_v3", "googlenet"):
        options["init_weights"] = False
    model = models.get_model(name, **options)
    if name in models.list_models(module=models.detection):
        return _detector(name, model, inputs)
    return BuiltModel(model, model, name, inputs)


def _detector(name: str, model: Any, inputs: tuple[Shape, ...]) -> BuiltModel:
    image_size(name, inputs)
    model.eval()  # in training it takes more proposals
    if not hasattr(model, "rpn"):
        return BuiltModel(model, lambda x: model.head(list(model.backbone(x).values())), name, inputs, stopped=ONE_STAGE)
    proposals = model.rpn.post_nms_top_n()

    def run(x: Any) -> None:
        features = model.backbone(x)
        model.rpn.head(list(features.values()))
        pooled = features["0"]
        heads = model.roi_heads
        for which, pool in (("box", heads.box_roi_pool), ("mask", heads.mask_roi_pool), ("keypoint", heads.keypoint_roi_pool)):
            if pool is None:
                continue
            count = proposals if which == "box" else heads.detections_per_img
            regions = pooled.new_empty((x.shape[0] * count, pooled.shape[1], *pool.output_size))
            getattr(heads, f"{which}_predictor")(getattr(heads, f"{which}_head")(regions))

    return BuiltModel(model, run, name, inputs, stopped=TWO_STAGE.format(proposals))
