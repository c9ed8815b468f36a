"""A group of commands whose modules are imported when they run: its help and completion need none of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from ssinghal.errors import unknown


class LazyCommand(NamedTuple):
    """``target`` is ``module:attribute``; ``summary`` is the first line of the command's own help."""

    target: str
    summary: str


Sections = Mapping[str, Mapping[str, LazyCommand]]


class LazyGroup(click.Group):
    """Click's pattern of that name, with the commands under headings in its help."""

    def __init__(self, *args: Any, sections: Sections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.lazy = {name: command for commands in sections.values() for name, command in commands.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        module, _, attribute = self.lazy[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.lazy:
            ctx.fail(unknown("command", args[0], self.lazy))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in self.sections.items():
            with formatter.section(heading):
                # the same column in all sections
                formatter.write_dl([(name.ljust(max(map(len, self.lazy))), row.summary) for name, row in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=row.summary) for name, row in self.lazy.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]
