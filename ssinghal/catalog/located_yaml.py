"""Reads strict YAML and keeps the line of every part, so that every later fault can name ``file:line: path: what``.

Only what a catalog needs: mappings with text keys, lists, text, decimal numbers, true, false, null. The rest of YAML
(aliases, tags, dates, octal and sexagesimal numbers, yes/no) is rejected: it reads differently from how it looks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ssinghal.catalog.fast_lines import TAG, shortened

Location = tuple[str | int, ...]

MAX_FILE_BYTES = 64 * 2**20
MAX_DEPTH = 16
MAX_TEXT = 300
MAX_FAULTS = 100  # of a file: each takes a search for its line, and for names like the wrong one
WHOLE_FILE = "(file)"

_INT = re.compile(r"-?(0|[1-9][0-9]{0,19})")
_FLOAT = re.compile(r"-?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None, ".inf": float("inf"), "-.inf": float("-inf")}
_STANDARD = "tag:yaml.org,2002:"
_STR, _SEQ, _MAP = (_STANDARD + kind for kind in ("str", "seq", "map"))
_RESOLVER: Any = yaml.resolver.Resolver()
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster with libyaml; the same faults without


class _Loader(_BASE):  # type: ignore[misc]
    """Composes the same nodes as PyYAML's own loader, in half the time.

    Its regular expressions run once per distinct text (a catalog has few), its path resolvers, of which there are none, never.
    """

    resolve = staticmethod(lru_cache(maxsize=4096)(_RESOLVER.resolve))
    descend_resolver = ascend_resolver = staticmethod(lambda *_: None)


class _RejectedYaml(NamedTuple):
    what: str


class Fault(NamedTuple):
    """One error in one file. ``unknown_key``: it is a key that its place does not have, which others may follow from."""

    file: Path
    line: int
    path: str
    what: str
    unknown_key: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {_one_line(self.path)}: {_one_line(self.what)}"


class TooManyFaults(Exception):
    """A file has ``MAX_FAULTS`` faults, and a note that there are more; reading on serves nobody."""


class _Unreadable(Exception):
    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


def _text(file: Path) -> str:
    try:
        size = file.stat().st_size
        if not file.is_file():
            raise _Unreadable(0, "is not a file")
        if size > MAX_FILE_BYTES:
            raise _Unreadable(0, f"is {size} bytes long; a catalog has at most {MAX_FILE_BYTES}")
        raw = file.read_bytes()
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _Unreadable(raw.count(b"\n", 0, error.start), "is not UTF-8 text") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise _Unreadable(0, getattr(error, "strerror", None) or str(error)) from error


def _parse(text: str) -> yaml.Node:
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        raise _Unreadable(text.encode().count(b"\n", 0, error.position), f"is not text: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _Unreadable(mark.line if mark else 0, f"is not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise _Unreadable(0, f"is not YAML: {error}") from error
    if root is None:
        raise _Unreadable(0, "is empty")
    return root


class MarkedYaml:
    """One file as plain data, with the line of every part of it. ``faults`` collects the errors, which are not raised."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self.data: Any = None
        self._root: yaml.Node | None = None
        self._seen: set[int] = set()
        self._rejected: list[Location] = []
        self._quick: dict[str, Any] = {}
        try:
            text = _text(file)
        except _Unreadable as error:
            self._whole_file(error)
            return
        self._read(*shortened(text, _bare_word))
        if self.faults or self._quick:  # faults refer to the text as it is written
            self._read(text, {})

    def _read(self, text: str, quick: dict[str, Any]) -> None:
        """Sets ``data``. ``quick``: values of lines that ``text`` has in short; values that are no list item stay there."""
        self.data = self._root = None
        self._quick = quick
        for collected in (self.faults, self._rejected, self._seen):
            collected.clear()
        try:
            self._root = _parse(text)
        except _Unreadable as error:
            self._whole_file(error)
        else:
            with suppress(TooManyFaults):
                self.data = self._plain(self._root, ())

    def _whole_file(self, error: _Unreadable) -> None:
        self.faults.append(Fault(self.file, error.line + 1, WHOLE_FILE, error.what))

    def fault(self, location: Location, what: str, *, unknown_key: bool = False) -> None:
        """Adds a fault at ``location``, unless the YAML there, above or below was rejected: one cause, one fault.

        Raises:
            TooManyFaults: There are ``MAX_FAULTS`` already.
        """
        follows = any(all(a == b for a, b in zip(location, rejected, strict=False)) for rejected in self._rejected)
        if not location or not follows:
            self._add(Fault(self.file, self.line(location), path_text(location), what, unknown_key))

    def _add(self, fault: Fault) -> None:
        if len(self.faults) >= MAX_FAULTS:
            last = max(one.line for one in self.faults)
            self.faults.append(Fault(self.file, last, WHOLE_FILE, f"has more faults than these {MAX_FAULTS}"))
            raise TooManyFaults
        self.faults.append(fault)

    def line(self, location: Location) -> int:
        """Returns the line (from 1) of the part at ``location``, or of the nearest part around it."""
        node = self._root
        line = node.start_mark.line if node is not None else 0
        for step in location:
            child = _child(node, step)
            if child is None:
                break
            line, node = child
        return int(line) + 1

    def _plain(self, node: yaml.Node, location: Location) -> Any:
        if id(node) in self._seen:  # an alias composes to its anchor's own node, whose line is the anchor's
            holder = location if isinstance(location[-1], str) else location[:-1]
            self.fault(holder, "aliases (*name) are not allowed; write the value out")
            self._rejected.append(holder)
            return None
        self._seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            if node.tag == TAG and node.value in self._quick:
                return self._quick.pop(node.value)
            value = _scalar(node.tag, node.value)
            return self._reject(location, node, value.what) if isinstance(value, _RejectedYaml) else value
        if node.tag not in (_SEQ, _MAP):
            return self._reject(location, node, f"the tag {node.tag} is not allowed")
        if len(location) >= MAX_DEPTH:
            return self._reject(location, node, f"is nested more than {MAX_DEPTH} deep")
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*location, i)) for i, item in enumerate(node.value)]
        return self._mapping(node, location)

    def _mapping(self, node: yaml.Node, location: Location) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != _STR:
                self._note(location, key, f"key {_shown(key)} is not text; quote it if it is meant")
                continue
            line = key.start_mark.line + 1
            if key.value in first:
                self._note((*location, key.value), key, f"the key is given twice, first in line {first[key.value]}")
                continue
            first[key.value] = line
            result[key.value] = self._plain(value, (*location, key.value))
        return result

    def _reject(self, location: Location, node: yaml.Node, what: str) -> None:
        self._note(location, node, what)
        self._rejected.append(location)

    def _note(self, location: Location, node: yaml.Node, what: str) -> None:
        self._add(Fault(self.file, node.start_mark.line + 1, path_text(location), what))


@lru_cache(maxsize=4096)
def _scalar(tag: str, text: str) -> Any:
    """Returns the value of a scalar, or ``_RejectedYaml`` with the reason."""
    kind = tag.removeprefix(_STANDARD)
    if kind == "str":
        return text
    if kind == "int" and _INT.fullmatch(text):
        return int(text)
    if kind == "float" and _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    if kind in ("bool", "null", "float") and text in _WORDS:
        return _WORDS[text]
    return _RejectedYaml(f"{text[:40]!r} would be read as {kind}; quote text, write numbers in plain decimal")


def _bare_word(text: str) -> Any:
    """Returns the value of a plain scalar. ValueError if it is rejected."""
    value = _scalar(_RESOLVER.resolve(yaml.ScalarNode, text, (True, False)), text)
    if isinstance(value, _RejectedYaml):
        raise ValueError(value.what)
    return value


def _one_line(text: str) -> str:
    """Writes the ends of lines in what others wrote as JSON does, and leaves out the end of a long text."""
    line = re.sub(r"[\r\n]", lambda end: f"\\u{ord(end[0]):04x}", text[:MAX_TEXT])
    return line if len(text) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}…"


def path_text(location: Sequence[str | int]) -> str:
    """Returns ``operators.add[3].shape`` for ``("operators", "add", 3, "shape")``."""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text or WHOLE_FILE


def _child(node: yaml.Node | None, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line, node.value[step]
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key.start_mark.line, value
    return None


def _shown(node: yaml.Node) -> str:
    return repr(node.value[:40]) if isinstance(node, yaml.ScalarNode) else "that is a list or mapping"
