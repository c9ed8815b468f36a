"""``ssinghal completion``: the script that makes a shell complete commands and their arguments."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)), metavar="SHELL")
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
      ssinghal completion bash > ~/.local/share/bash-completion/completions/ssinghal
      ssinghal completion zsh > ~/.zfunc/_ssinghal  # a folder of $fpath
      ssinghal completion fish > ~/.config/fish/completions/ssinghal.fish

    Commands, options, operators, boards, releases and catalogs are completed.
    """
    program = click.get_current_context().find_root()
    name = str(program.info_name)
    click.echo(SHELLS[shell](program.command, {}, name, f"_{name.upper()}_COMPLETE").source())
