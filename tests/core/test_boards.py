"""Names of boards: they come from records, settings and command lines of others, and name files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssinghal.core.boards import board_note, cluster_descriptor, load_board, own_boards_home
from ssinghal.errors import InvalidCase

NO_NAMES = [
    "", "n151", "@", "x@", "x@..", "x@../secret", "../n150", "n150/", "/etc/passwd", "x@" + "a" * 300, "n" * 5000, "x@a\nb",
    "x@n150\0", "\0", "x@\udcbd", "x@ABCDEF012345", "x@0123456789ab@../secret",
]  # fmt: skip


@pytest.mark.parametrize("name", NO_NAMES, ids=ascii)
@pytest.mark.parametrize("read", [load_board, board_note, cluster_descriptor])
def test_what_is_no_name_of_a_board_is_refused(read, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it would name a file that exists."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own_boards_home().mkdir(parents=True, exist_ok=True)
    for file in ("secret.yaml", "secret.cluster.yaml"):
        (own_boards_home().parent / file).write_text("arch: wormhole_b0\n")
    with pytest.raises(InvalidCase, match="board") as refused:
        read(name)
    assert len(str(refused.value)) < 1000


def test_a_board_of_a_descriptor_that_is_not_here_names_the_file() -> None:
    with pytest.raises(InvalidCase, match=r"board mine\.yaml@0123456789ab is not known here; .*PATH/mine\.yaml$"):
        load_board("mine.yaml@0123456789ab")
