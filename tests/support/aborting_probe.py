"""A probe of steps whose worker dies at one of its requests, as a crash of native code ends it."""

from __future__ import annotations

import os

from ssinghal.device.session import Session
from ssinghal.plan.placement import Outcome
from ssinghal.plan.placing.probing import StepProbe
from ssinghal.runner.tasks import PoolOptions

DEADLY = (("crash", True),)  # settings


class AbortingProbe(StepProbe):
    def run(self, session: Session, options: PoolOptions) -> list[Outcome]:
        if any(request.choice.settings == DEADLY for request in self.requests):
            os.abort()
        return super().run(session, options)
