"""The kinds of change between two runs. They have their own module so that the command line's help loads quickly."""

from __future__ import annotations

from ssinghal.core.tensors import TextEnum


class ChangeKind(TextEnum):
    """How a case changed from one run to another, the worst first."""

    NEW_OOM = "new-oom"
    NEW_FAULT = "new-fault"
    LOST_FIT = "lost-fit"
    OTHER_VERDICT = "other-verdict"
    CHANGED = "changed"
    GROWN = "grown"
    SHRUNK = "shrunk"
    NOW_FITS = "now-fits"
    NEW_CASE = "new-case"
    VANISHED = "vanished"


class Missing(TextEnum):
    """What a comparison of two runs can lack, as no change of a case does."""

    NOTHING_COMPARED = "nothing-compared"


WORSE = (ChangeKind.NEW_OOM, ChangeKind.NEW_FAULT, ChangeKind.LOST_FIT)  # what fails a comparison by default
TITLES = {
    ChangeKind.NEW_OOM: "runs out of memory now",
    ChangeKind.NEW_FAULT: "fails now: error, mismatch, crash, timeout or leak",
    ChangeKind.LOST_FIT: "fitted before; now not run, unsupported, invalid, or without a record",
    ChangeKind.OTHER_VERDICT: "another verdict",
    ChangeKind.CHANGED: "runs out of memory as before, at another step or in another memory",
    ChangeKind.GROWN: "the same verdict, more bytes",
    ChangeKind.SHRUNK: "the same verdict, fewer bytes",
    ChangeKind.NOW_FITS: "fits now",
    ChangeKind.NEW_CASE: "had no record before",
    ChangeKind.VANISHED: "has no record any more",
}
