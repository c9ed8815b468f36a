"""All commands of the program."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ssinghal.cli import cli

Path = tuple[str, ...]


def walk(group: click.Group, path: Path = ()) -> Iterator[tuple[Path, click.Command]]:
    """Yields every command below a group, the groups among them, with its path."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from walk(command, (*path, name))


COMMANDS = dict(walk(cli))


def options(command: click.Command) -> dict[str, click.Option]:
    """Returns a command's options by their long names."""
    return {max(option.opts, key=len): option for option in command.params if isinstance(option, click.Option)}
