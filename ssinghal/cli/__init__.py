"""The command line: one module per command, each a thin layer over the library."""

from __future__ import annotations

import sys

import click

from ssinghal import __version__
from ssinghal.cli.capture import capture_command, recapture_command
from ssinghal.cli.catalog import baseline, catalog
from ssinghal.cli.compare import compare
from ssinghal.cli.diagnose import diagnose
from ssinghal.cli.edge import edge
from ssinghal.cli.exec_command import execute
from ssinghal.cli.history import history
from ssinghal.cli.inspect import doctor, estimate, operators
from ssinghal.cli.plan import plan_command
from ssinghal.cli.precision import precision
from ssinghal.cli.probe import probe
from ssinghal.cli.releases import releases
from ssinghal.cli.remedy import remedy
from ssinghal.cli.report import report
from ssinghal.cli.run import run
from ssinghal.cli.visualizer import export_visualizer
from ssinghal.errors import CatalogError, HarnessError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
def cli() -> None:
    """Which TTNN operator at which shape runs out of which memory on a Tenstorrent board, by how many bytes, and why.

    Without a card, TTNN itself runs on a virtual board: memory verdicts are real, values are not.
    """


for command in (
    doctor,
    operators,
    catalog,
    baseline,
    estimate,
    probe,
    run,
    execute,
    compare,
    history,
    report,
    export_visualizer,
    diagnose,
    remedy,
    edge,
    releases,
    plan_command,
    precision,
):
    cli.add_command(command)
for command in (capture_command, recapture_command):
    catalog.add_command(command)


def main() -> None:
    """Entry point. A HarnessError is the user's to mend, an OSError the machine's: said on standard error, exit code 2."""
    try:
        cli.main(prog_name="ssinghal")
    except (HarnessError, OSError) as error:
        prefix = "" if isinstance(error, CatalogError) else "ssinghal: "  # its lines begin with file:line:
        for line in str(error).splitlines():
            click.echo(f"{prefix}{line}", err=True)
        sys.exit(2)
