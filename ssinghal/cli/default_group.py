"""A group of commands of which one, ``run``, may be left out."""

from __future__ import annotations

import difflib

import click
from click.shell_completion import CompletionItem

RUN = "run"


class DefaultGroup(click.Group):
    """``GROUP WORD…`` is short for ``GROUP run WORD…`` where the first word is not one of its commands."""

    def is_argument(self, word: str) -> bool:
        """Whether the command run could use this word, and not only a mistyped name of another command."""
        raise NotImplementedError

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            near = difflib.get_close_matches(args[0], self.commands, n=1, cutoff=0.75)
            if near and not args[0].startswith("-") and not self.is_argument(args[0]):
                ctx.fail(f"no command {args[0]!r}; did you mean {near[0]}?")
            args = [RUN, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        own = [param for param in self.commands[RUN].params if isinstance(param, click.Option)]
        records = [record for option in own if (record := option.get_help_record(ctx)) is not None]
        with formatter.section(f"Options of {RUN}"):
            formatter.write_dl(records)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        items = super().shell_complete(ctx, incomplete)
        known = {item.value for item in items}
        return [*items, *(i for i in self.commands[RUN].shell_complete(ctx, incomplete) if i.value not in known)]
