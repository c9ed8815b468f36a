"""``ssinghal profile``: where the memory of the user's own program goes."""

from __future__ import annotations

import click

from ssinghal.cli.default_group import DefaultGroup
from ssinghal.cli.exec_command import path_of
from ssinghal.cli.profile_compare import compare
from ssinghal.cli.profile_export import export
from ssinghal.cli.profile_report import report
from ssinghal.cli.profile_run import run


class _ProgramOrCommand(DefaultGroup):
    def is_argument(self, word: str) -> bool:
        return path_of(word) is not None


@click.group(cls=_ProgramOrCommand, subcommand_metavar="[--] PROGRAM [ARGS]... | COMMAND [ARGS]...")
def profile() -> None:
    """Record where the memory of any TTNN program goes.

    \b
      ssinghal profile -- python my_model.py
      ssinghal profile --board p150 -o profiles/unet -- python unet.py
      ssinghal profile -- pytest my_tests
      ssinghal profile compare profiles/before profiles/after
      ssinghal profile export profiles/unet --format perfetto
      ssinghal profile report profiles/unet

    What follows -- is the program to run, whatever its name; the command run may be left out.
    """


for command in (run, compare, export, report):
    profile.add_command(command)
