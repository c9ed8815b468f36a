"""The options of a run as its ``run.json`` has them: how they are written, and taken again to resume it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ssinghal.cli.parameter_types import Seconds
from ssinghal.core.case_sets import Shard
from ssinghal.device.releases import Release
from ssinghal.errors import InvalidCase
from ssinghal.runs.option_types import FLAG, INTEGER, IS, LIST, NUMBER, TEXT, wrong_type

if TYPE_CHECKING:
    from ssinghal.catalog.choosing import Choice

# Of the options of a run, those that decide neither which cases it has nor how they end.
_CLUSTERS = {"scheduler", "cluster"}
_OF_THIS_COMMAND = {"resume", "results", "as_json", "ttnn_log", *_CLUSTERS}
MAY_BE_NEW = _OF_THIS_COMMAND | {"workers", "timeout"}
# Of these, what decides how the run goes on: not --resume itself, its folder, or what is printed.
_DECIDED_ANEW = MAY_BE_NEW - {"resume", "results", "as_json", "ttnn_log"}


def plain_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a run's options as JSON has them."""
    return {name: _plain(value) for name, value in values.items() if name != "resume"}


def _plain(value: Any) -> Any:
    if isinstance(value, Release):
        return value.version
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, (Path, Shard)) else value


def check_typed(context: click.Context) -> None:
    """Raises UsageError for an option beside --resume that is not in ``MAY_BE_NEW``."""
    new = [p.opts[0] for p in context.command.params if p.name in _DECIDED_ANEW]
    typed = [p for p in context.command.params if p.name and _is_typed(context, p.name)]
    fixed = [p.opts[0] if isinstance(p, click.Option) else "a catalog" for p in typed if p.name not in MAY_BE_NEW]
    if fixed:
        raise click.UsageError(f"--resume takes the options of the run, except {_and(new)}: leave out {fixed[0]}")


def _is_typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def values_of(context: click.Context, stored: Mapping[str, Any], file: str, folder: str) -> dict[str, Any]:
    """Returns the value of each parameter of the command: as typed, else as ``stored`` in ``file``, else its default. Where the
    cases run, and what becomes of the results, is not taken from the earlier command. ``folder``: its working folder, where
    catalogs are looked for first.

    Raises:
        InvalidCase, BadParameter: A stored value is not of the option's type, or means nothing here, such as a board or release
            that is gone.
    """
    check_stored(context, stored, file)
    values = dict(context.params)
    typed = {p.name for p in context.command.params if p.name and _is_typed(context, p.name)}
    anew = _OF_THIS_COMMAND | ({"workers"} if typed & _CLUSTERS else set())  # other processes than those of the run
    for parameter in context.command.params:
        name = parameter.name or ""
        if stored.get(name) not in (None, []) and name not in typed | anew:
            values[name] = parameter.type_cast_value(context, _typed(parameter, stored[name]))
    from ssinghal.catalog.loader import from_folder  # imports pydantic, which no help text needs

    return {**values, "catalogs": from_folder(values["catalogs"], folder)}


def check_stored(context: click.Context, stored: Mapping[str, Any], file: str) -> None:
    """Raises InvalidCase, with the name of the option, unless each value in ``file`` is of the type that a run writes."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in stored or name in _OF_THIS_COMMAND:
            continue
        value, kind = stored[name], _kind(parameter)
        has_default = kind in (LIST, FLAG) or isinstance(parameter.default, (str, int, float))
        is_absent = value is None and not has_default
        if not is_absent and not IS[kind](value):
            raise InvalidCase(f"{file}: {wrong_type(name, kind, value)}")


def _kind(parameter: click.Parameter) -> str:
    """Returns what JSON has for a parameter: what ``plain_options`` makes of its values."""
    if parameter.multiple or parameter.nargs != 1 or isinstance(parameter.default, tuple):
        return LIST
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return FLAG
    if isinstance(parameter.type, click.types.IntParamType):
        return INTEGER
    return NUMBER if isinstance(parameter.type, Seconds) else TEXT


def _typed(parameter: click.Parameter, stored: Any) -> Any:
    """Returns a value of JSON as it is typed, so that it is parsed, and refused, as if it had been."""
    listed = [str(one) for one in stored] if isinstance(stored, list) else [str(stored)]
    return listed if parameter.multiple or parameter.nargs != 1 else ",".join(listed)


def choice_of(values: Mapping[str, Any]) -> Choice:
    """Returns what chooses the cases of a run with these values of its parameters."""
    from ssinghal.catalog.choosing import Choice  # imports pydantic, which no help text needs

    return Choice(**{field.name: values[field.name] for field in fields(Choice) if field.name in values})
