"""A call of TTNN as plain Python, without a check of the harness before it."""

from __future__ import annotations

from dataclasses import dataclass

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.tensors import Layout, TensorSpec
from ssinghal.core.verdict import Verdict
from ssinghal.device.session import Session
from ssinghal.runner.tasks import PoolOptions, Task


@dataclass(frozen=True)
class PlainCall(Task[str]):
    """Evaluates ``source``, with ``ttnn`` and the operands ``a``, ``b``, …, which are in DRAM. Returns "returned", the type and
    first line of an exception, or how the process ended."""

    source: str
    shapes: tuple[tuple[int, ...], ...]
    layout: Layout = Layout.ROW_MAJOR

    def run(self, session: Session, options: PoolOptions) -> str:
        tensors = [session.empty(TensorSpec(shape, layout=self.layout)) for shape in self.shapes]
        names = dict(zip("abcd", tensors, strict=False))
        try:
            result = eval(self.source, {"ttnn": session.ttnn, "device": session.device, **names})
        except (RuntimeError, TypeError, ValueError) as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"
        else:
            return f"returned {list(result.shape)}" if hasattr(result, "shape") else "returned"
        finally:
            for tensor in tensors:
                tensor.deallocate()

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> str:
        return f"{verdict.status}: {verdict.message}"
