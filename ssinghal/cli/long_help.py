"""Commands with many options: their help begins with the few that are needed first."""

from __future__ import annotations

from typing import Any

import click

FIRST, OTHERS = "Options to start with", "All other options"
WIDEST = 30  # click puts longer options on a line of their own


class LongHelp(click.Command):
    """A command whose help has the options ``first`` before all others, in this order."""

    def __init__(self, *args: Any, first: tuple[str, ...], **kwargs: Any) -> None:
        """
        Raises:
            ValueError: The command has no such option.
        """
        super().__init__(*args, **kwargs)
        by_name = {name: one for one in self.params if isinstance(one, click.Option) for name in one.opts}
        missing = [name for name in first if name not in by_name]
        if missing:
            raise ValueError(f"{self.name} has no option {missing[0]}")
        self.first = [by_name[name] for name in first]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        others = [one for one in self.get_params(ctx) if isinstance(one, click.Option) and one not in self.first]
        sections = [
            (heading, [row for one in some if (row := one.get_help_record(ctx)) is not None])
            for heading, some in ((FIRST, self.first), (OTHERS, others))
        ]
        width = min(WIDEST, max(len(name) for _, rows in sections for name, _ in rows))  # the same column in both
        for heading, rows in sections:
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])
