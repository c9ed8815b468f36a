"""Every signal that can end a process has a name."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from ssinghal.core.signals import signal_name


@pytest.mark.parametrize("number", sorted(signal.valid_signals()))
def test_each_signal_has_a_name(number):
    known = {**{int(one): one.name for one in signal.Signals}}
    assert signal_name(number) == known.get(number, f"signal {number}")


def test_a_process_can_be_ended_by_one_that_python_has_no_name_for():
    ended = subprocess.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 35)"], timeout=60)
    assert signal_name(-ended.returncode) == "signal 35"
