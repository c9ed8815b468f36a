"""Turns the value of a setting, however it is written, into the one JSON form that a case keeps.

Forms: JSON with a ``type`` for config classes; the Python of ports, ``ttnn.SDPAProgramConfig(q_chunk_size=32, …)``; what TTNN
prints. In the JSON form cores are ``[columns, rows]``, core ranges a text as in memory configs (``8x8``, ``0,0-7,2``), and
members of enums have TTNN's names, dtypes ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ssinghal.core.memory_config import CoreRange, Cores
from ssinghal.core.parsing import dtype_named
from ssinghal.core.sharding import core_ranges
from ssinghal.errors import InvalidCase, cut, unknown
from ssinghal.operators.settings.notation import read
from ssinghal.operators.settings.table import Field, table

ACTIVATION = "UnaryWithParam"
# How TTNN prints members of enums whose names in Python differ.
PRINTED = {"DRAM_HEIGHT": "DRAMSliceHeight", "DRAM_WIDTH": "DRAMSliceWidth", "L1_FULL": "L1Full"}
CONSTANTS = {  # of config classes
    name: {"type": "Conv2dSliceConfig", "slice_type": "L1Full"} for name in ("Conv2dL1FullSliceConfig", "Op2DL1FullSliceConfig")
}
MAX_INT = 2**31 - 1
_DIGITS = re.compile(r" *[0-9]{1,20} *")
_FEW = 2  # names in one line of an error


def canonical(value: Any, field: Field, where: str) -> Any:
    """Returns ``value`` in the JSON form.

    Raises:
        InvalidCase: It is of none of the field's kinds; the text starts with ``where`` and states the rule.
    """
    lists = tuple(kind[:-1] for kind in field.kinds if kind.endswith("*"))
    if lists:
        return _listed(value, lists, field, where)
    return _one(value, field.kinds, where)


def _listed(value: Any, kinds: tuple[str, ...], field: Field, where: str) -> Any:
    if isinstance(value, str):
        value = _read(f"[{value}]", where)
        value = value[0] if len(value) == 1 and isinstance(value[0], list) else value
    if value is None and "None" in field.kinds:
        return None
    if not isinstance(value, (list, tuple)):
        value = [value]
    if kinds == (ACTIVATION,) and len(value) > 1 and isinstance(value[1], (int, float)):
        value = [value]  # one activation with its parameters
    return [_one(item, kinds, where) for item in value]


def _one(value: Any, kinds: tuple[str, ...], where: str) -> Any:
    if isinstance(value, str):
        value = _from_text(value, kinds, where)
    if isinstance(value, Mapping) and _short(value.get("name")) in CONSTANTS:
        value = CONSTANTS[_short(value["name"])]
    if value is None or (isinstance(value, bool) and "bool" in kinds):
        if value is None and "None" not in kinds:
            raise _wrong(None, kinds, where)
        return value
    for kind in kinds:
        reader = _READERS.get(kind)
        if reader is not None and (found := reader(value, where)) is not None:
            return found
    for kind in kinds:
        if kind in table().enums and (path := _path(value)) is not None:
            return _member(path, kind, where)
    classes = [kind for kind in kinds if kind in table().classes]
    if classes and isinstance(value, Mapping) and "name" not in value:
        return _config(value, classes, kinds, where)
    raise _wrong(value, kinds, where)


def _from_text(text: str, kinds: tuple[str, ...], where: str) -> Any:
    """Returns what a text says. One that is a value by itself stays a text: a name, cores, or an activation."""
    plain = text.strip()
    is_code = "(" in plain or "::" in plain or plain.startswith(("ttnn.", "{", "["))
    if not is_code and ("str" in kinds or {"CoreGrid", "CoreCoord", "CoreRangeSet"} & set(kinds)):
        return None if plain in ("None", "none") and "None" in kinds else plain
    return _read(plain, where)


def _read(text: str, where: str) -> Any:
    try:
        return read(text)
    except InvalidCase as error:
        raise InvalidCase(f"{where}: {error}; in {cut(text, 60)!r}") from None


def _wrong(value: Any, kinds: Iterable[str], where: str) -> InvalidCase:
    is_name = isinstance(value, Mapping) and "name" in value and not str(value["name"]).startswith("ttnn.")
    hint = "; if that is a variable, write out its value" if is_name else ""
    return InvalidCase(f"{where}: expected {_expected(kinds)}, got {cut(shown(value), 80)}{hint}")


_EXPECTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "None": "none",
    "CoreGrid": "a grid like 8x8 (columns x rows)",
    "CoreCoord": "a grid like 8x8 (columns x rows)",
    "CoreRangeSet": "core ranges like 8x8 or 0,0-7,2+0,3-2,3",
    ACTIVATION: "an activation like gelu or ttnn.UnaryWithParam(ttnn.UnaryOpType.GELU, 1.0)",
}


def _expected(kinds: Iterable[str]) -> str:
    classes = [kind for kind in kinds if kind.endswith("ProgramConfig")]
    words = [_EXPECTED.get(kind, kind) for kind in kinds if kind not in classes]
    return ", ".join([*([_few(classes)] if classes else []), *words])


def _few(names: Iterable[str]) -> str:
    """Returns some names in one line.

    >>> _few(["a", "b", "c", "d", "e"])
    'a, b and 3 others'
    """
    listed = list(names)
    more = len(listed) - _FEW
    return ", ".join(listed) if more <= 1 else f"{', '.join(listed[:_FEW])} and {more} others"


def shown(value: Any) -> str:
    """Returns a value of a setting as Python, as it can be typed again.

    >>> shown({"type": "SDPAProgramConfig", "q_chunk_size": 32})
    'SDPAProgramConfig(q_chunk_size=32)'
    """
    if isinstance(value, Mapping) and "type" in value:
        fields = ", ".join(f"{name}={shown(item)}" for name, item in value.items() if name != "type")
        return f"{value['type']}({fields})"
    if isinstance(value, Mapping) and set(value) == {"name"}:
        return str(value["name"])
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(shown, value))}]"
    return repr(value)


def _short(name: Any) -> str:
    return str(name).replace("::", ".").rsplit(".", 1)[-1]


# Numbers and cores ------------------------------------------------------------------------------------------------------


def _bool(value: Any, where: str) -> bool | None:
    """Takes 0 and 1 too, as TTNN prints them."""
    return bool(value) if isinstance(value, int) and value in (0, 1) else None


def _int(value: Any, where: str) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if not -MAX_INT <= value <= MAX_INT:
        raise InvalidCase(f"{where}: {value} is beyond 32 bits")
    return value


def _float(value: Any, where: str) -> float | None:
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else value


def _text(value: Any, where: str) -> str | None:
    return value if isinstance(value, str) else None


def _grid(value: Any, where: str) -> list[int] | None:
    """Reads columns and rows: 8x8, [8, 8], CoreCoord(8, 8), CoreGrid(y=8, x=8)."""
    if isinstance(value, str):
        value = [int(n) if _DIGITS.fullmatch(n) else n for n in value.replace("x", ",").split(",")]
    if isinstance(value, Mapping) and value.get("type") in ("CoreCoord", "CoreGrid"):
        fields = {name: item for name, item in value.items() if name not in ("type", "args")}
        if set(fields) - {"x", "y"}:
            return None
        value = [*_args(value), *(fields[name] for name in ("x", "y") if name in fields)]
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    if not all(isinstance(size, int) and not isinstance(size, bool) and 1 <= size <= MAX_INT for size in value):
        raise InvalidCase(f"{where}: a grid of {shown(value)}; expected columns and rows of at least 1, like 8x8")
    return list(value)


def _cores(value: Any, where: str) -> str | list[Any] | None:
    """Reads core ranges; an empty set stays an empty list."""
    if isinstance(value, str):
        return str(core_ranges(value, where))
    if isinstance(value, Mapping):
        if value.get("type") == "CoreRange":
            value = [value]
        elif value.get("type") == "CoreRangeSet":
            args = _args(value) or [[]]
            value = args[0] if len(args) == 1 else None
        elif value.get("type") == "CoreGrid" and (grid := _grid(value, where)):
            return str(Cores.grid(*grid))
        else:
            return None
    if not isinstance(value, (list, tuple)):
        return None
    if len(value) == 2 and all(isinstance(size, int) for size in value):
        return str(Cores.grid(*value))
    ranges = [_range(item[0] if isinstance(item, list) and len(item) == 1 else item, where) for item in value]
    return str(Cores(tuple(ranges))) if ranges else []


def _range(value: Any, where: str) -> CoreRange:
    if isinstance(value, Mapping):
        value = _args(value) or [value.get("start"), value.get("end")]
    ends = value
    if isinstance(ends, (list, tuple)) and len(ends) == 2:
        first, last = map(_coordinates, ends)
        if first and last:
            return first, last
    raise InvalidCase(f"{where}: {cut(shown(value), 60)} is no range of cores; expected its first and last core")


def _coordinates(value: Any) -> tuple[int, int] | None:
    if isinstance(value, Mapping) and value.get("type") == "CoreCoord":
        value = [*_args(value), *(value[name] for name in ("x", "y") if name in value)]
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    x, y = value
    return (x, y) if all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value) else None


# Enums and classes ------------------------------------------------------------------------------------------------------


def _path(value: Any) -> str | None:
    """Returns the name that a value is: a text, or the {"name": …} of Python notation."""
    if isinstance(value, Mapping) and set(value) == {"name"}:
        value = value["name"]
    return value if isinstance(value, str) else None


def _member(path: str, enum: str, where: str) -> str:
    """Returns a member of an enum by TTNN's name; of DataType the name that we have."""
    name = _short(path)
    if name in table().constants:
        owner, name = table().constants[name]
        if owner != enum:
            raise InvalidCase(f"{where}: {path} is a {owner}; expected a {enum}")
    name = PRINTED.get(name, name)
    if enum == "DataType":
        return dtype_named(name.lower(), where).value
    members = {member.lower(): member for member in table().enums[enum]}
    if name.lower() not in members:
        raise InvalidCase(f"{where}: {unknown(enum, name, table().enums[enum])}")
    return members[name.lower()]


def _activation(value: Any, where: str) -> dict[str, Any] | None:
    """Reads GELU, ttnn.UnaryOpType.GELU, (ttnn.UnaryOpType.GELU, 1.0), UnaryWithParam(…)."""
    if isinstance(value, Mapping) and "type" in value:
        if _class_name(value) != ACTIVATION:
            return None
        left = {name: item for name, item in value.items() if name not in ("type", "args")}
        args = _args(value)
        operation = left.pop("op_type", None)
        parameters = left.pop("params", left.pop("param", []))
        if left:
            raise InvalidCase(f"{where}: {unknown(f'field of {ACTIVATION}', next(iter(left)), ('op_type', 'params'))}")
        args = args[0] if len(args) == 1 and isinstance(args[0], list) else args
        value = [operation, *(parameters if isinstance(parameters, list) else [parameters])] if operation else args
    parts = value if isinstance(value, (list, tuple)) else [value]
    path = _path(parts[0]) if parts else None
    if path is None or not all(isinstance(n, (int, float)) for n in parts[1:]):
        return None
    name = _member(path, "UnaryOpType", where)
    return {"type": ACTIVATION, "op_type": name, **({"params": [float(n) for n in parts[1:]]} if parts[1:] else {})}


def _class_name(value: Mapping[str, Any]) -> str:
    written = str(value["type"])
    return table().aliases.get(written, written)


def _args(value: Mapping[str, Any]) -> list[Any]:
    """Returns the positional arguments of a call in Python notation; of JSON that is no list, none that fits."""
    args = value.get("args", [])
    return list(args) if isinstance(args, (list, tuple)) else [args]


def _config(value: Mapping[str, Any], classes: list[str], kinds: Iterable[str], where: str) -> dict[str, Any]:
    """Returns a config with its class and its fields in the order of the class; those that are None are left out."""
    written = value.get("type")
    if written is None and len(classes) > 1:
        raise InvalidCase(f"{where}: type is missing; expected one of {_few(classes)}")
    name = classes[0] if written is None else _class_name(value)
    if name not in classes:
        raise _other_class(name, classes, where)
    given = {key: item for key, item in value.items() if key != "type"}
    where = f"{where}: {name}"
    if written == "init_device_compute_kernel_config":
        given.pop("args", None)  # the architecture, which is the board's
        given.setdefault("math_fidelity", "LoFi")
    if given.pop("args", None):
        raise InvalidCase(f"{where} takes its fields by name")
    fields = table().classes[name]
    for key in given:
        if key not in fields:
            raise InvalidCase(f"{where}: {unknown('field', str(key), fields)}")
    read_fields = {key: canonical(given[key], field, f"{where}: {key}") for key, field in fields.items() if key in given}
    missing = [key for key, field in fields.items() if field.required and key not in read_fields]
    if missing:
        raise InvalidCase(f"{where}: {', '.join(missing)} is missing")
    least = 1 if name.endswith("ProgramConfig") else 0
    for key, item in read_fields.items():
        lowest = 0 if key.endswith("_chunk_size") else least  # 0: TTNN chooses, in decoding
        if isinstance(item, int) and not isinstance(item, bool) and item < lowest:
            raise InvalidCase(f"{where}: {key}={item}; expected at least {lowest}")
    return {"type": name, **{key: item for key, item in read_fields.items() if item is not None}}


def _other_class(name: str, classes: list[str], where: str) -> InvalidCase:
    known = table().classes
    if name not in known:
        return InvalidCase(f"{where}: {unknown('config class', name, known)}")
    takers = _few(f"ttnn.{function}" for function in table().takers(name)) or "another call"
    return InvalidCase(f"{where}: {name} is for {takers}; expected {_few(classes)}")


_READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "str": _text,
    "CoreGrid": _grid,
    "CoreCoord": _grid,
    "CoreRangeSet": _cores,
    ACTIVATION: _activation,
}
