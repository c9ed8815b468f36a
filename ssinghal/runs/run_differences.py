"""In what two runs differ, of all that must be the same in the parts of one selection, by what their ``run.json`` holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ssinghal.core.run_info import RunInfo
from ssinghal.errors import cut

SHOWN = 80  # characters of a value
_DIGEST = 12  # of a digest
# Options that select cases, as ``run.json`` has them and as they are typed: of ``run``, then of pytest.
_OF_RUN = {
    "catalogs": "catalogs",
    "operators": "--op",
    "memory": "--memory",
    "placements": "--placements",
    "dtypes": "--dtypes",
    "weights": "--weights",
    "max_bytes": "--max-bytes",
    "per_operator": "--sample",
}
_OF_PYTEST = {
    "catalog": "catalogs",
    "op": "--oom-op",
    "memory": "--oom-memory",
    "placements": "--oom-placements",
    "dtypes": "--oom-dtypes",
    "weights": "--oom-weights",
    "max-bytes": "--oom-max-bytes",
    "sample": "--oom-sample",
    "keyword": "-k",
    "markers": "-m",
    "tests": "tests",
}
_LIMITS = {"host_tiles": "--host-tiles", "host-tiles": "--oom-host-tiles"}


def differences(first: RunInfo, other: RunInfo) -> list[str]:
    """Returns what differs, each with both values: the device, the catalogs and options that select cases, then what answers.
    Digests are shown only where nothing that decides them differs."""
    devices = list(_of_devices(first, other))
    selections = list(_of_selections(first, other))
    return [*devices, *selections, *_of_answerers(first, other, is_known=bool(devices))]


def _of_devices(first: RunInfo, other: RunInfo) -> Iterator[str]:
    one, two = first.device, other.device
    yield from _where_not_equal(
        ("device mode", one.mode, two.mode), ("board", one.board, two.board), ("ttnn", one.ttnn, two.ttnn)
    )


def _of_selections(first: RunInfo, other: RunInfo) -> Iterator[str]:
    counts = list(_where_not_equal(("selected cases, of all parts", first.selected_of_all, other.selected_of_all)))
    if not counts and first.selection_sha256 == other.selection_sha256:
        return
    one, two = _names(first), _names(other)
    if one != two:
        yield _both("made by", _maker(first), _maker(other))
    else:
        options = list(_differing(first, other, one))
        yield from options
        if not options:
            yield _contents(first, other, one)
    yield from counts


def _contents(first: RunInfo, other: RunInfo, names: dict[str, str]) -> str:
    """What differs where the options are the same: the cases in the catalogs of these names."""
    digests = _both("digests of their selections", first.selection_sha256, other.selection_sha256)
    if not names:
        return digests
    catalogs = first.options.get(next(iter(names))) or ["all built-in ones"]
    tests = " or of the tests" if names is _OF_PYTEST else ""
    return f"the contents of the catalogs ({_listed(catalogs)}){tests}, as the options are the same: {digests}"


def _of_answerers(first: RunInfo, other: RunInfo, *, is_known: bool) -> Iterator[str]:
    """``is_known``: whether the devices differ, of which an answerer has the digest."""
    remedies = ("--remedies", first.options.get("remedies"), other.options.get("remedies"))
    causes = list(_where_not_equal(remedies))
    yield from causes
    if first.answerer != other.answerer:
        versions = [(name, first.versions.get(name), other.versions.get(name)) for name in ("ssinghal", "torch")]
        decided = [*_differing(first, other, _LIMITS), *_where_not_equal(*versions)]
        yield from decided
        if not decided and not is_known:
            commits = "; ".join(_where_not_equal(("commit", first.commit, other.commit)))
            text = _both("answerer: another device, or other code or limits", first.answerer, other.answerer)
            yield f"{text} ({commits})" if commits else text
    elif first.searcher != other.searcher and not causes:
        yield _both("searcher: other code that searches for remedies", first.searcher, other.searcher)


def _differing(first: RunInfo, other: RunInfo, names: dict[str, str]) -> Iterator[str]:
    for name, typed in names.items():
        mine, theirs = first.options.get(name) or None, other.options.get(name) or None
        if mine != theirs:
            yield _both(typed, mine, theirs)


def _names(info: RunInfo) -> dict[str, str]:
    """The options of the run that select cases; none where neither run nor pytest made it."""
    return _OF_RUN if "catalogs" in info.options else _OF_PYTEST if "catalog" in info.options else {}


def _maker(info: RunInfo) -> str:
    made = {"catalogs": "ssinghal run", "catalog": "pytest"}
    return next((made[name] for name in made if name in info.options), "a program")


def _where_not_equal(*values: tuple[str, Any, Any]) -> Iterator[str]:
    return (_both(*value) for value in values if value[1] != value[2])


def _both(what: str, mine: Any, theirs: Any) -> str:
    return f"{what}: {_words(mine)} and {_words(theirs)}"


def _words(value: Any) -> str:
    if isinstance(value, list):
        return _listed(value)
    text = str(value) if isinstance(value, (str, int, float)) or value is None else json.dumps(value)
    if len(text) == 64 and not isinstance(value, int):
        return text[:_DIGEST]
    return cut(text, SHOWN) if value not in (None, "") else "none"


def _listed(values: Sequence[Any]) -> str:
    return cut(", ".join(map(str, values)), SHOWN) or "none"
