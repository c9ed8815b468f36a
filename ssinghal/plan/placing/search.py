"""Chooses the placements of a model's values with the least traffic."""

from __future__ import annotations

from ssinghal.plan.placing.found import Found as Found
from ssinghal.plan.placing.found import LiveForm as LiveForm
from ssinghal.plan.placing.found import NoPlacement as NoPlacement
from ssinghal.plan.placing.found import PlacedStep as PlacedStep
from ssinghal.plan.placing.found import Rejected as Rejected
from ssinghal.plan.placing.graph import Calls as Calls
from ssinghal.plan.placing.graph import Limits as Limits
from ssinghal.plan.placing.graph import StepNode as StepNode
