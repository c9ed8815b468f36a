"""Recordings of one model at many inputs, as a search for its edge needs them."""

from __future__ import annotations

from ssinghal.capture.client import Captures
from ssinghal.capture.trace import Trace
from ssinghal.capture.trace_library import find_trace, is_path, trace_for
from ssinghal.core.tensors import Shape
from ssinghal.errors import CaptureError, CaptureUnavailable, InvalidCase
from ssinghal.plan.planner import check_trace


class Recordings:
    """Records a model once for each input. ``partial``: also where the recording ends before the model does.

    A trace in a file names the model that it was recorded from, which is recorded again at other inputs.
    """

    def __init__(self, model: str, captures: Captures, *, partial: bool = False) -> None:
        self.model, self._captures, self._partial = model, captures, partial
        self._file = find_trace(model) if is_path(model) else None
        self._recorded: dict[Shape, Trace | str] = {}

    def first(self, shape: Shape | None) -> Shape:
        """Returns the shape of the requested input, None for that of the only trace there is, or that a factory brings.

        Raises:
            InvalidCase, CaptureError: The model cannot be recorded there, or the trace is of another model than it names.
        """
        if self._file is not None:
            return self._first_of_file(self._file, shape)
        trace = trace_for(self.model, None if shape is None else (shape,), self._captures)
        check_trace(trace, partial=self._partial)
        first = trace.input_shapes[0]
        self._recorded[first] = trace
        return first

    def at(self, shape: Shape) -> Trace | str:
        """Returns the model recorded at this input, or why it cannot be recorded there.

        Raises:
            CaptureUnavailable: It cannot be recorded at other inputs either.
        """
        if shape not in self._recorded:
            try:
                trace = trace_for(self._name, (shape,), self._captures)
                check_trace(trace, partial=self._partial)
                self._recorded[shape] = trace
            except CaptureUnavailable:
                raise
            except (CaptureError, InvalidCase) as error:
                self._recorded[shape] = str(error)
        return self._recorded[shape]

    @property
    def _name(self) -> str:
        return self.model if self._file is None else self._file.model

    def _first_of_file(self, file: Trace, shape: Shape | None) -> Shape:
        """Records the model of a file again at the file's own input. It has to make the same calls."""
        first = file.input_shapes[0]
        try:
            again = trace_for(file.model, (first,), self._captures)
        except CaptureError as error:
            raise CaptureUnavailable(f"{self.model}: other inputs need its model: {error}") from error
        if (again.steps, again.values, again.results) != (file.steps, file.values, file.results):
            raise CaptureUnavailable(
                f"{self.model}: {file.model} makes other calls now than in this trace; give the model itself"
            )
        check_trace(again, partial=self._partial)
        self._recorded[first] = again
        return first if shape is None else shape
