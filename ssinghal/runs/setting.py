"""The device mode, board and TTNN release of records, by which they are kept apart. Imports neither torch nor ttnn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Record


@dataclass(frozen=True)
class Setting:
    """The device mode, board and TTNN release of a record. Only records with the same ones are added up."""

    device_mode: DeviceMode
    board: str
    ttnn: str

    @classmethod
    def of(cls, record: Record) -> Setting:
        return _setting(record.device_mode, record.board, record.ttnn)

    @property
    def measures_memory(self) -> bool:
        """Golden functions give values alone."""
        return self.device_mode is not DeviceMode.GOLDEN

    def to_json(self) -> dict[str, str]:
        return {"device_mode": self.device_mode.value, "board": self.board, "ttnn": self.ttnn}

    def __str__(self) -> str:
        device = "no device," if self.device_mode is DeviceMode.NONE else self.device_mode
        return f"{device} {self.board}, ttnn {self.ttnn or 'not installed'}"


def numerics_text(setting: Setting, compared: int, cases: int) -> str:
    """Returns whether the values of the cases of a setting were compared with torch's."""
    if not setting.measures_memory:
        return (
            f"no device: TTNN's golden functions compared with torch for {compared:,} of {cases:,} cases; "
            "no memory was measured, and no kernel ran"
        )
    if not compared:
        return "numerics not run: memory verdicts only"
    return f"numerics compared for {compared:,} of {cases:,} cases"


@lru_cache(maxsize=256)
def _setting(device_mode: DeviceMode, board: str, ttnn: str) -> Setting:
    """Equal settings are one object: a large run keeps one for each of its records."""
    return Setting(device_mode, board, ttnn)
