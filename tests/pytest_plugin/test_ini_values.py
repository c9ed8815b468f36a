"""Values of the plugin's ini settings and options that nobody meant: one line, exit code 4, nothing that acts on a terminal."""

from __future__ import annotations

import pytest

from ssinghal.pytest_plugin.options import OPTIONS

pytest_plugins = ["pytester"]

HOSTILE = ("9" * 5_000, "1e999", "nan", "-1", "a\x1b]8;;x\x1b\\b", "x" * 5_000, "\u202e", "../../etc/passwd", "/dev/zero")
FREE = {"device", "results"}  # texts of other programs, and a folder


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.name not in FREE], ids=lambda option: option.name)
def test_each_is_refused_in_one_line(option, pytester):
    pytester.makepyfile("def test(): pass")
    for value in HOSTILE:
        pytester.makeini(f"[pytest]\n{option.key} = {value}\n")
        done = pytester.runpytest_inprocess("--collect-only", "-q", "-p", "no:cacheprovider")
        assert done.ret == 4, (option.name, value)
        lines = [line for line in done.errlines if line.strip()]
        assert len(lines) == 1, lines
        assert option.key in lines[0]
        assert not any(one in lines[0] for one in "\x1b\u202e")
        assert len(lines[0]) < 1_000
