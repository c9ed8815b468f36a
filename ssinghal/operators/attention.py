"""The attention family: what ports of transformers call around their matrix products, by TTNN's own names and shapes."""

from __future__ import annotations

from ssinghal.operators.caches import CACHES
from ssinghal.operators.decoding import DECODERS
from ssinghal.operators.fused_softmax import SOFTMAXES
from ssinghal.operators.heads import SPLITS_AND_JOINS
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.operators.rotary import ROTATIONS

OPERATORS: tuple[OperatorInfo, ...] = (*SPLITS_AND_JOINS, *ROTATIONS, *SOFTMAXES, *DECODERS, *CACHES)
