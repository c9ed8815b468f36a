"""Finds, reads and checks catalogs. All faults of all of them are reported at once, before anything runs."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ssinghal.catalog.aten_calls import Unmapped, captured_case
from ssinghal.catalog.captured import CapturedCatalog, CapturedHead, CapturedLine, Counts, Input
from ssinghal.catalog.crossed import CrossedCatalog, CrossedHead, CrossedLine, ShapeOrigin
from ssinghal.catalog.expansion import crossed_case
from ssinghal.catalog.field_types import FUNCTION, PINNED, CatalogModel
from ssinghal.catalog.imported import ImportedCatalog, ImportedHead, ImportedLine
from ssinghal.catalog.located_yaml import WHOLE_FILE, Fault, Location, MarkedYaml, TooManyFaults
from ssinghal.catalog.placement_fields import PlacementModel
from ssinghal.catalog.schema import Catalog
from ssinghal.core.case import Placement, Source
from ssinghal.core.files import exists, is_file, write_given
from ssinghal.core.tensors import Shape
from ssinghal.errors import CatalogError, InvalidCase, one_line, unknown
from ssinghal.operators import find_operator
from ssinghal.operators.binding import bind, unsharded_specs

SHAPES_FOLDER = Path(__file__).parents[1] / "shapes"
SUFFIXES = (".yaml", ".yml")

_KINDS = ("crossed", "captured", "imported")
MAX_NAMED = 5  # catalogs in one message
_LISTS = (WHOLE_FILE, "operators", "origins", "ops")

Selection = Sequence[str | Path] | None
F = TypeVar("F", bound=CatalogModel)
_Sections = Mapping[str, Mapping[int, F]]


def load_catalogs(selection: Selection = None, *, thorough: bool = False) -> list[Catalog]:
    """Reads catalogs and checks them.

    Form, names, origins and sums of every catalog are checked. That each line is a complete call with the stated results is
    checked for files given by path. Built-in catalogs do not change after their tests, which check it, as does ``catalog
    check``; only ``thorough`` loading repeats it, in twice the time.

    Args:
        selection: Names (``mochi``), parts of ``kind/name`` (``yolo12x``, ``crossed/``), paths of files or folders; all
            built-in catalogs by default.
        thorough: Whether to check each line of the built-in ones too.

    Returns:
        The catalogs in the order of the selection, each once.

    Raises:
        CatalogError: With every fault of every file, at most 100 of each, as ``file:line: path: what``.

    Examples:
        >>> [catalog.name for catalog in load_catalogs(["mochi"])]
        ['mochi']
    """
    files, faults = _select(selection)
    catalogs = []
    for file, built_in in files.items():
        reading = _FileReader(file, arithmetic=thorough or not built_in)
        faults += map(str, sorted(reading.faults, key=lambda fault: (not fault.unknown_key, fault.line)))
        if reading.catalog is not None:
            catalogs.append(reading.catalog)
    if faults:
        raise CatalogError(faults)
    return catalogs


def write_checked(text: str, target: Path, name: Callable[[Catalog], str] | None = None) -> Catalog:
    """Writes the text of a catalog to ``target``, completely or not at all, after it was read back like any other.

    With ``name``, ``target`` may be a folder, where the file gets that name and replaces no file with another content.
    CatalogError with the faults of a wrong text, InvalidCase for a file that stands in the way.
    """
    if target.exists() and not (target.is_file() or (name is not None and target.is_dir())):
        raise InvalidCase(f"{target} is no file that could be replaced")
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "catalog.yaml")
        draft.write_text(text, encoding="utf-8")
        try:
            (catalog,) = load_catalogs([draft])
        except CatalogError as error:
            raise CatalogError(fault.replace(str(draft), str(target)) for fault in error.faults) from None
    file = target
    if name is not None and target.is_dir():
        file = target / name(catalog)
        if file.exists() and file.read_text(encoding="utf-8", errors="replace") != text:
            raise InvalidCase(f"{file} is there already and differs: name the file with -o")
    write_given(file, text)
    return replace(catalog, name=file.stem, path=file)


def load_catalog(wanted: str) -> Catalog:
    """Returns the one catalog of this name or path. CatalogError if it has faults, InvalidCase if several match."""
    catalogs = load_catalogs([wanted])
    if len(catalogs) != 1:
        first = ", ".join(catalog.name for catalog in catalogs[:MAX_NAMED])
        more = ", …" if len(catalogs) > MAX_NAMED else ""
        raise InvalidCase(f"{wanted!r} is part of {len(catalogs)} names of catalogs, expected one: {first or 'none'}{more}")
    return catalogs[0]


def summary(catalog: Catalog) -> dict[str, Any]:
    """Returns a catalog's row in a list. ``calls`` is None for a shape sweep: no model is known to make its calls."""
    row = {
        "catalog": f"{catalog.head.kind}/{catalog.name}",
        "kind": catalog.head.kind,
        "lines": catalog.line_count,
        "calls": None,
        "title": catalog.title,
        "model": None,
        "input": None,
        "level": None,
    }
    if isinstance(catalog, CapturedCatalog):
        head = catalog.head
        row |= {"calls": head.counts.calls, "level": head.capture.level}
        row |= {"model": head.model.full_name, "input": catalog.input_size}
    elif isinstance(catalog, ImportedCatalog):
        row["calls"] = sum(line.n for lines in catalog.sections.values() for line in lines)
    return row


def catalog_files() -> dict[str, Path]:
    """Returns the file of each built-in catalog, by ``kind/name``, sorted."""
    files = (file for file in SHAPES_FOLDER.rglob("*") if file.suffix in SUFFIXES)
    return {f"{file.parent.name}/{file.stem}": file for file in sorted(files)}


def _select(selection: Selection) -> tuple[dict[Path, bool], list[str]]:
    """Returns the selected files in order, each with whether it is a built-in one, and a fault for each unknown name."""
    known = catalog_files()
    if not selection:
        return dict.fromkeys(known.values(), True), []
    files: dict[Path, bool] = {}
    faults = []
    for wanted in map(str, selection):
        built_in = _built_in(wanted, known)
        path = Path(wanted)
        paths = []
        if not exists(path) and (path.suffix in SUFFIXES or os.sep in wanted) and not built_in:
            faults.append(f"{path}: no such file")
            continue
        if not built_in and wanted and exists(path) and path.is_dir():
            paths = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
        elif not built_in and (path.suffix in SUFFIXES or os.sep in wanted or is_file(path)):
            paths = [path]
        if not built_in and not paths:
            message = unknown("catalog", wanted, (file.stem for file in known.values()))
            faults.append(f"{message}; ssinghal catalog list shows them")
        files |= {file: bool(built_in) for file in built_in or paths if file not in files}
    return files, faults


def _built_in(wanted: str, known: Mapping[str, Path]) -> list[Path]:
    """Returns the built-in catalogs that a text names, which come before files."""
    exact = [file for name, file in known.items() if wanted in (name, file.stem)]
    return exact or [file for name, file in known.items() if wanted and wanted in name]


def from_folder(selection: Sequence[str], folder: str) -> tuple[str, ...]:
    """Returns what names catalogs in the working folder ``folder`` as it names them in this one: files and folders by their
    path. What is not there stays as it is."""
    known = catalog_files()

    def here(wanted: str) -> str:
        path = Path(folder, wanted)
        return str(path) if wanted and not _built_in(wanted, known) and exists(path) else wanted

    return tuple(selection) if folder in ("", os.getcwd()) else tuple(map(here, selection))


class _FileReader:
    """Reads one file. ``catalog`` is set if there is nothing wrong with it, else there are ``faults``.

    Header and lines are checked one by one, so that a fault in one hides none in another. ``arithmetic``: also checks that
    every line is a complete call, and no other line's.
    """

    def __init__(self, file: Path, *, arithmetic: bool) -> None:
        self.file = file
        self._arithmetic = arithmetic
        self.catalog: Catalog | None = None
        self._document = MarkedYaml(file)
        if one_line(file.name) != file.name:
            self._fault((), "expected a file with a name of one line: records hold it")
        self._all_read = not any(fault.path.startswith(_LISTS) for fault in self.faults)
        if isinstance(self._document.data, dict):
            with suppress(TooManyFaults):
                self._read(dict(self._document.data))
        elif not self.faults:
            self._fault((), "expected a mapping with schema and kind")

    @property
    def faults(self) -> list[Fault]:
        return self._document.faults

    def _fault(self, location: Location, what: str, *, unknown_key: bool = False) -> None:
        self._document.fault(location, what, unknown_key=unknown_key)

    def _read(self, data: dict[str, Any]) -> None:
        """Reads the file by its kind; if that is wrong, by the kind that its lists belong to."""
        kind = data.get("kind")
        if kind not in _KINDS:
            self._fault(("kind",), unknown("kind", str(kind), _KINDS) if "kind" in data else "missing")
            lists = [name for name in ("ops", "origins", "operators") if name in data]
            kind = {"ops": "captured", "origins": "crossed", "operators": "imported"}[lists[0]] if lists else None
        if kind == "crossed":
            self._crossed({**data, "kind": kind})
        elif kind == "captured":
            self._captured({**data, "kind": kind})
        elif kind == "imported":
            self._imported({**data, "kind": kind})

    def _crossed(self, data: dict[str, Any]) -> None:
        head, listed = self._head(CrossedHead, data)
        origins = self._lines(ShapeOrigin, ("origins",), listed["origins"])
        sections = self._sections(CrossedLine, "operators", listed["operators"])
        placement = _part(PlacementModel, data.get("placement"))
        self._check_lines(sections, placement.placement() if placement else None)
        if isinstance(runs := data.get("runs", {}), dict):
            self._check_runs(runs, sections)
        if self._all_read:  # a line that could not be read may be the one that uses an origin, or holds it
            self._check_origins(origins, sections)
        if head and not self.faults:
            self.catalog = CrossedCatalog(self.file.stem, self.file, head, tuple(origins.values()), _plain(sections))

    def _imported(self, data: dict[str, Any]) -> None:
        head, listed = self._head(ImportedHead, data)
        sections = self._sections(ImportedLine, "operators", listed["operators"])
        placement = _part(PlacementModel, data.get("placement"))
        self._check_lines(sections, placement.placement() if placement else None)
        if head and not self.faults:
            self.catalog = ImportedCatalog(self.file.stem, self.file, head, _plain(sections))

    def _captured(self, data: dict[str, Any]) -> None:
        head, listed = self._head(CapturedHead, data)
        sections = self._sections(CapturedLine, "ops", listed["ops"])
        placement, given = _part(PlacementModel, data.get("placement")), _part(Input, data.get("input"))
        self._check_calls(sections, replace(placement.placement(), dtype=given.dtype) if placement and given else None)
        counts = _part(Counts, data.get("counts"))
        if counts and self._all_read:
            self._check_counts(counts, [line for section in sections.values() for line in section.values()])
        if head and not self.faults:
            self.catalog = CapturedCatalog(self.file.stem, self.file, head, _plain(sections))

    def _head(self, form: type[F], data: dict[str, Any]) -> tuple[F | None, dict[str, Any]]:
        """Returns the header and the lists, as they are written. The header comes first: a wrong key in it may be a list's."""
        listed = {name: data.pop(name, None) for name in form.read_apart}
        return self._form(form, (), data), listed

    def _form(self, form: type[F], location: Location, raw: Any) -> F | None:
        try:
            return form.model_validate(raw)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                place = (*location, *details["loc"])
                if details["type"] == "extra_forbidden":
                    known = _part_form(form, details["loc"][:-1]).keys()
                    self._fault(place, unknown("key", str(place[-1]), known), unknown_key=True)
                else:
                    self._fault(place, _explain(details))
            return None

    def _lines(self, form: type[F], location: Location, raw: Any) -> dict[int, F]:
        """Returns the correct lines by their index."""
        lines: dict[int, F] = {}
        if not isinstance(raw, list):
            self._fault(location, "missing" if raw is None else f"expected a list, got {raw!r}")
            self._all_read = False
            return lines
        for i, item in enumerate(raw):
            if line := self._form(form, (*location, i), item):
                lines[i] = line
            else:
                self._all_read = False
        return lines

    def _sections(self, form: type[F], key: str, raw: Any) -> dict[str, dict[int, F]]:
        if not isinstance(raw, dict):
            self._fault((key,), "missing" if raw is None else f"expected a mapping, got {raw!r}")
            self._all_read = False
            return {}
        for name, lines in raw.items():
            if lines == []:
                self._fault((key, name), "has no line")
        return {name: self._lines(form, (key, name), lines) for name, lines in raw.items()}

    def _check_lines(self, sections: _Sections[CrossedLine] | _Sections[ImportedLine], base: Placement | None) -> None:
        """Checks that every line is a call of its operator, and no other line's; without ``base``, only the names."""
        for name, lines in sections.items():
            try:
                find_operator(name)
            except InvalidCase as error:
                self._fault(("operators", name), str(error))
                continue
            if base is None or not self._arithmetic:
                continue
            seen: dict[str, Location] = {}
            for i, line in lines.items():
                location: Location = ("operators", name, i)
                try:
                    case = crossed_case(name, line, base, Source(self.file.stem))
                    unsharded_specs(case)
                except InvalidCase as error:
                    self._fault(location, str(error))
                else:
                    caller = (line.model, line.input) if isinstance(line, ImportedLine) else ()
                    self._once(seen, repr((case.call_json(), caller)), location)

    def _check_runs(self, runs: Mapping[str, Any], sections: _Sections[CrossedLine]) -> None:
        named = {line.oom.run for lines in sections.values() for line in lines.values() if line.oom}
        for run in sorted(named ^ set(runs)):
            self._fault(("runs", run), f"no oom names {run}" if run in runs else f"missing: an oom names {run}")

    def _check_origins(self, origins: Mapping[int, ShapeOrigin], sections: _Sections[CrossedLine]) -> None:
        """Checks that every line's first shape has one origin, and every origin but an artefact an operand."""
        known: dict[Shape, ShapeOrigin] = {}
        seen: dict[str, Location] = {}
        for i, origin in origins.items():
            known.setdefault(origin.shape, origin)
            self._once(seen, str(origin.shape), ("origins", i))
        used: set[Shape] = set()
        for name, lines in sections.items():
            for i, line in lines.items():
                used.update((line.first_shape, *(line.inputs or ())))
                if line.first_shape not in known:
                    self._fault(("operators", name, i), f"{list(line.first_shape)} has no entry in origins")
                elif artefact := known[line.first_shape].artefact:
                    self._fault(("operators", name, i), f"{list(line.first_shape)} is an artefact: {artefact}")
        for i, origin in origins.items():
            if origin.shape not in used and not origin.artefact:
                self._fault(("origins", i), f"no line uses {list(origin.shape)}")

    def _check_calls(self, sections: _Sections[CapturedLine], base: Placement | None) -> None:
        for overload, lines in sections.items():
            seen: dict[str, Location] = {}
            for i, line in lines.items():
                location: Location = ("ops", overload, i)
                self._once(seen, repr((line.inputs, line.w, sorted(line.args.items()), line.dtypes)), location)
                if base is None or not self._arithmetic:
                    continue
                try:
                    self._check_call(overload, line, base, location)
                except InvalidCase as error:
                    self._fault(location, str(error))

    def _check_call(self, overload: str, line: CapturedLine, base: Placement, location: Location) -> None:
        """Checks that the operator's arithmetic gives the shapes that torch gave.

        A scalar is [1] on a device, so that in a call with scalars only the sizes other than 1 must agree.
        """
        case = captured_case(overload, line, base, Source(self.file.stem))
        if isinstance(case, Unmapped):
            return
        call = bind(case)
        inferred = call.results[: len(line.out)]
        compared: Callable[[Iterable[Shape]], list[Shape]] = _without_ones if line.has_scalar else list
        if compared(inferred) != compared(line.out):
            self._fault(location, f"out is {_listed(line.out)}, but {call.info.name} gives {_listed(inferred)}")
        unsharded_specs(case)

    def _check_counts(self, counts: Counts, lines: Sequence[CapturedLine]) -> None:
        calls = sum(line.n for line in lines)
        if counts.cases != len(lines):
            self._fault(("counts", "cases"), f"is {counts.cases}, but ops has {len(lines)} lines")
        if counts.calls != calls:
            self._fault(("counts", "calls"), f"is {counts.calls}, but the n of all lines add up to {calls}")

    def _once(self, seen: dict[str, Location], content: str, location: Location) -> None:
        first = seen.setdefault(content, location)
        if first != location:
            self._fault(location, f"repeats line {self._document.line(first)}")


def _part(form: type[F], raw: Any) -> F | None:
    """Returns a part of a header, None if that part has faults: they are reported with the header."""
    try:
        return form.model_validate(raw)
    except ValidationError:
        return None


def _plain(sections: _Sections[F]) -> dict[str, tuple[F, ...]]:
    return {name: tuple(lines.values()) for name, lines in sections.items()}


def _listed(shapes: Sequence[Sequence[int]]) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)


def _without_ones(shapes: Iterable[Shape]) -> list[Shape]:
    return [tuple(size for size in shape if size != 1) for shape in shapes]


def _explain(error: ErrorDetails) -> str:
    """Returns a pydantic error in the words of a catalog's author."""
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    last = str(error["loc"][-1]) if error["loc"] else ""
    if kind == "missing":
        return "missing"
    if kind in ("enum", "literal_error"):
        return unknown(last, str(given), re.findall(r"\w+", context["expected"].replace(" or ", " ")))
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return f"expected {_PATTERNS[context['pattern']]}, got {given!r}"
    expected = _EXPECTED.get(kind)
    return f"expected {expected.format(**context)}, got {given!r}" if expected else error["msg"]


_EXPECTED = {
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "text",
    "tuple_type": "a list",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "too_short": "at least one",
    "greater_than_equal": "at least {ge}",
}


_PATTERNS = {PINNED: "name==version", FUNCTION: "package.module:function"}


def _part_form(form: type[CatalogModel], location: Location) -> type[CatalogModel]:
    """Returns the form of the part of a mapping at ``location``, where pydantic found a key that the part does not have."""
    for step in location:
        (field,) = (field for name, field in form.model_fields.items() if step == (field.alias or name))
        kinds = (field.annotation, *get_args(field.annotation))  # the second for ``X | None``
        form = next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, CatalogModel))
    return form
