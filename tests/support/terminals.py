"""Commands whose standard error is a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import tempfile
from collections.abc import Sequence


def shown_on_a_terminal(command: Sequence[str], **environ: str) -> tuple[str, str]:
    """Returns what a command writes to standard output, which is a file, and to standard error, which is a terminal: there
    without the sequences that move the cursor or change colours."""
    terminal, theirs = pty.openpty()
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(command, stdout=output, stderr=theirs, env={**os.environ, **environ}):
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # a terminal that nobody has open any more
                while chunk := os.read(terminal, 4096):
                    shown += chunk
        os.close(terminal)
        output.seek(0)
        return output.read().decode(), without_sequences(shown.decode())


def without_sequences(text: str) -> str:
    """Returns a terminal's text with a line for each line that was overwritten."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n").replace("\r", "\n")
