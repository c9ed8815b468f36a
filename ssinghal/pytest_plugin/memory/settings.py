"""The values of the options ``--tt-memory…`` in force."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.parsing import seconds, whole_number
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.pytest_plugin.memory.options import BASELINE, MEMORY, TIMEOUT, TOLERANCE, TOP, UPDATE
from ssinghal.pytest_plugin.options import Option, value_of


def percentage(text: str) -> Fraction:
    """Returns the fraction that a text such as ``1%`` states."""
    try:
        number = Fraction(text.strip().removesuffix("%").strip())
    except (ValueError, ZeroDivisionError):
        number = Fraction(-1)
    if number < 0 or not text.strip().endswith("%"):
        raise InvalidCase(f"expected a percentage from 0%, such as 1%, got {text!r}")
    return number / 100


class MemorySettings:
    """The options in force. ``enabled``: whether ``--tt-memory`` is; without it, marks alone have an effect.

    Raises:
        HarnessError: A value that cannot be used; one line.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.enabled = bool(value_of(config, MEMORY))
        self.update = bool(value_of(config, UPDATE))
        self.top: int = self._read(TOP, whole_number)
        self.tolerance: Fraction = self._read(TOLERANCE, percentage)
        self.timeout_s: float = self._read(TIMEOUT, seconds)
        baseline = value_of(config, BASELINE)
        self.baseline = Path(config.invocation_params.dir, baseline) if baseline else None
        for option in (BASELINE, UPDATE):
            if value_of(config, option) and not self.enabled:
                raise HarnessError(f"{self._origin(option)}: needs --tt-memory")
        if self.update and self.baseline is None:
            raise HarnessError(f"{self._origin(UPDATE)}: needs --tt-memory-baseline FILE")

    def _read(self, option: Option, parse: Any) -> Any:
        text = value_of(self._config, option)
        try:
            return parse(str(option.default if text in (None, "") else text))
        except InvalidCase as error:
            raise HarnessError(f"{self._origin(option)}: {error}") from error

    def _origin(self, option: Option) -> str:
        given = self._config.getoption(option.key) is not None
        return option.flag if given else f"{option.key} in {self._config.inipath}"
