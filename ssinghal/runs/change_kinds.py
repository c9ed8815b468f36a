"""The kinds of change from one run to another. Apart from what finds them, so that the command line's help is quick."""

from __future__ import annotations

from ssinghal.core.tensors import TextEnum


class Kind(TextEnum):
    """Worst news first."""

    NEW_OOM = "new-oom"
    NEW_FAULT = "new-fault"
    LOST_FIT = "lost-fit"
    OTHER_VERDICT = "other-verdict"
    GROWN = "grown"
    SHRUNK = "shrunk"
    NOW_FITS = "now-fits"
    NEW_CASE = "new-case"
    VANISHED = "vanished"


WORSE = (Kind.NEW_OOM, Kind.NEW_FAULT, Kind.LOST_FIT)  # what fails a comparison unless told otherwise
TITLES = {
    Kind.NEW_OOM: "runs out of memory now",
    Kind.NEW_FAULT: "fails now: error, mismatch, crash, timeout or leak",
    Kind.LOST_FIT: "fitted, and is not tried any more: not run, unsupported, invalid, or without a record",
    Kind.OTHER_VERDICT: "ends otherwise",
    Kind.GROWN: "the same verdict, more bytes",
    Kind.SHRUNK: "the same verdict, fewer bytes",
    Kind.NOW_FITS: "fits now",
    Kind.NEW_CASE: "no record before",
    Kind.VANISHED: "no record any more",
}
