"""Strict YAML that remembers lines, so that every later fault can say ``file:line: path: what``.

Only what a catalog needs: mappings with text keys, lists, text, decimal numbers, true, false, null. The rest of YAML
(aliases, tags, dates, octal and sexagesimal numbers, yes/no) is refused: it reads differently from how it looks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

Location = tuple[str | int, ...]

MAX_FILE_BYTES = 64 * 2**20
MAX_DEPTH = 16
MAX_TEXT = 300
WHOLE_FILE = "(file)"

_INT = re.compile(r"-?(0|[1-9][0-9]{0,19})")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None, ".inf": float("inf"), "-.inf": float("-inf")}
_STANDARD = "tag:yaml.org,2002:"
_RESOLVER: Any = yaml.resolver.Resolver()
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster with libyaml; the same faults without


@lru_cache(maxsize=4096)
def _tag_of_plain(text: str) -> Any:
    return _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))


class _Loader(_BASE):  # type: ignore[misc]
    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """As PyYAML does; its regular expressions run once per distinct plain text (a catalog has few)."""
        if kind is yaml.ScalarNode and implicit[0]:
            return _tag_of_plain(value)
        return super().resolve(kind, value, implicit)


class Fault(NamedTuple):
    """One thing wrong with one file."""

    file: Path
    line: int
    path: str
    what: str

    def __str__(self) -> str:
        what = self.what if len(self.what) <= MAX_TEXT else self.what[: MAX_TEXT - 1] + "…"
        return f"{self.file}:{self.line}: {self.path}: {what}"


class MarkedYaml:
    """One file as plain data, with the line of every part of it. ``faults`` collects what is wrong, nothing is raised."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self.data: Any = None
        self._seen: set[int] = set()
        self._refused: list[Location] = []
        self._root = self._parse()
        if self._root is not None:
            self.data = self._plain(self._root, ())

    def fault(self, location: Location, what: str) -> None:
        """Adds a fault at ``location``, unless the YAML there, above or below was refused: one cause, one fault."""
        follows = any(all(a == b for a, b in zip(location, refused, strict=False)) for refused in self._refused)
        if not location or not follows:
            self.faults.append(Fault(self.file, self.line(location), path_text(location), what))

    def line(self, location: Location) -> int:
        """Line (from 1) of the part at ``location``, or of the nearest part around it."""
        node = self._root
        line = node.start_mark.line if node is not None else 0
        for step in location:
            found = _child(node, step)
            if found is None:
                break
            line, node = found
        return int(line) + 1

    def _parse(self) -> yaml.Node | None:
        try:
            size = self.file.stat().st_size
            if not self.file.is_file():
                return self._unreadable(0, "is not a file")
            if size > MAX_FILE_BYTES:
                return self._unreadable(0, f"is {size} bytes long; a catalog has at most {MAX_FILE_BYTES}")
            raw = self.file.read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            return self._unreadable(0, getattr(error, "strerror", None) or str(error))
        try:
            text = raw.decode()
            root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
        except UnicodeDecodeError as error:
            return self._unreadable(raw.count(b"\n", 0, error.start), "is not UTF-8 text")
        except yaml.reader.ReaderError as error:
            return self._unreadable(raw.count(b"\n", 0, error.position), f"is not text: {error.reason}")
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            return self._unreadable(mark.line if mark else 0, f"is not YAML: {error.problem or error.context}")
        except yaml.YAMLError as error:
            return self._unreadable(0, f"is not YAML: {error}")
        return root if root is not None else self._unreadable(0, "is empty")

    def _unreadable(self, line: int, what: str) -> yaml.Node | None:
        self.faults.append(Fault(self.file, line + 1, WHOLE_FILE, what))
        return None

    def _plain(self, node: yaml.Node, location: Location) -> Any:
        if id(node) in self._seen:  # an alias composes to its anchor's own node, whose line is the anchor's
            holder = location if isinstance(location[-1], str) else location[:-1]
            self.fault(holder, "aliases (*name) are not allowed; write the value out")
            self._refused.append(holder)
            return None
        self._seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, location)
        if node.tag not in (f"{_STANDARD}seq", f"{_STANDARD}map"):
            return self._refuse(location, node, f"the tag {node.tag} is not allowed")
        if len(location) >= MAX_DEPTH:
            return self._refuse(location, node, f"is nested more than {MAX_DEPTH} deep")
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*location, i)) for i, item in enumerate(node.value)]
        return self._mapping(node, location)

    def _mapping(self, node: yaml.Node, location: Location) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != f"{_STANDARD}str":
                self._note(location, key, f"key {_shown(key)} is not text; quote it if it is meant")
                continue
            line = key.start_mark.line + 1
            if key.value in first:
                self._note((*location, key.value), key, f"the key is given twice, first in line {first[key.value]}")
                continue
            first[key.value] = line
            result[key.value] = self._plain(value, (*location, key.value))
        return result

    def _scalar(self, node: yaml.ScalarNode, location: Location) -> Any:
        text, kind = node.value, node.tag.removeprefix(_STANDARD)
        if kind == "str":
            return text
        if kind == "int" and _INT.fullmatch(text):
            return int(text)
        if kind == "float" and _FLOAT.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        if kind in ("bool", "null", "float") and text in _WORDS:
            return _WORDS[text]
        return self._refuse(
            location, node, f"{text[:40]!r} would be read as {kind}; quote text, write numbers in plain decimal"
        )

    def _refuse(self, location: Location, node: yaml.Node, what: str) -> None:
        self._note(location, node, what)
        self._refused.append(location)

    def _note(self, location: Location, node: yaml.Node, what: str) -> None:
        self.faults.append(Fault(self.file, node.start_mark.line + 1, path_text(location), what))


def path_text(location: Sequence[str | int]) -> str:
    """``("operators", "add", 3, "shape")`` -> ``operators.add[3].shape``."""
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
