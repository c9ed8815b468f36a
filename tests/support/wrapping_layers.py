"""More ways in which an error's text is shown: carriers, prefixes, line breaks and cuts, alone and on top of each other.

A wrapping maps a sample of ``wrapped_messages`` to a text. Layers map the lines of one text to those of another.
"""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.wrapped_messages import pytest_lines, raised, traceback

Sample = dict[str, Any]
Wrapping = Callable[[Sample], str]
Layer = Callable[[str], str]


def then(first: Wrapping, *layers: Layer) -> Wrapping:
    def wrapping(sample: Sample) -> str:
        text = first(sample)
        for layer in layers:
            text = layer(text)
        return text

    return wrapping


# ---- layers ----


def before(prefix: str) -> Layer:
    """Each line has the prefix; ``{n}`` in it is the last digit of the number of the line."""
    return lambda text: "".join(f"{prefix.format(n=n % 10)}{line}\n" for n, line in enumerate(text.rstrip("\n").split("\n"), 1))


def folded(columns: int, indent: str = "") -> Layer:
    """A terminal's lines: broken after so many characters wherever that is."""

    def fold(line: str) -> str:
        room = columns - len(indent)
        first, rest = line[:columns], line[columns:]
        return "\n".join([first, *(indent + rest[i : i + room] for i in range(0, len(rest), room))])

    return lambda text: "\n".join(fold(line) for line in text.split("\n"))


def filled(columns: int, indent: str = "") -> Layer:
    """Broken between words; what continues a line is indented."""

    def fill(line: str) -> str:
        return textwrap.fill(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)

    return lambda text: "\n".join(fill(line) for line in text.split("\n"))


def coloured(text: str) -> str:
    return "\n".join(f"\x1b[31;1m{line}\x1b[0m" for line in text.split("\n"))


def quoted(text: str) -> str:
    return "".join(f"> {line}\n" for line in text.rstrip("\n").split("\n"))


# ---- carriers ----


def one_line(sample: Sample) -> str:
    return raised(sample).replace("\n", " ") + "\n"


def glued(sample: Sample) -> str:
    """pytest's lines, their ends lost in a copy."""
    first, *rest = raised(sample).split("\n")
    return "E       " + first + "".join(f"E       {line}" for line in rest) + "\n"


def broken_header(sample: Sample) -> str:
    """Each part of TTNN's header on a line of its own."""
    text = raised(sample).replace("TT_FATAL @ ", "TT_FATAL\n@ ").replace("TT_THROW @ ", "TT_THROW\n@ ")
    return text.replace(": false\ninfo:", ":\nfalse\ninfo:").replace("tt::exception\ninfo:", "\ntt::exception\ninfo:") + "\n"


def without_info(sample: Sample) -> str:
    return raised(sample).replace("\ninfo:\n", "\n") + "\n"


def in_braces(sample: Sample) -> str:
    return (
        f"{{{raised(sample).removeprefix('RuntimeError: ')}\nbacktrace:\n --- f()\n}}\n"
        if "type" not in sample
        else traceback(sample)
    )


def as_repr(sample: Sample) -> str:
    kind = sample.get("type", "RuntimeError")
    return f"ERROR 05-05 19:27:47 engine.py:159] {kind}({sample['text']!r})\n"


def json_line(sample: Sample) -> str:
    return json.dumps({"level": "error", "msg": raised(sample), "ts": 1767610000.5}) + "\n"


def json_twice(sample: Sample) -> str:
    return json.dumps({"log": json_line(sample), "stream": "stderr"}) + "\n"


def json_lines(sample: Sample) -> str:
    """A container runtime's file: each line in an object of its own."""
    lines = traceback(sample).rstrip("\n").split("\n")
    return "".join(
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": f"2026-01-05T10:00:0{n % 10}.123Z"}) + "\n"
        for n, line in enumerate(lines)
    )


def json_list(sample: Sample) -> str:
    return json.dumps({"exception": raised(sample).split("\n")}, separators=(",", ":")) + "\n"


def csv_cell(sample: Sample) -> str:
    text = raised(sample).replace('"', '""')
    return f'test,status,message,seconds\ntest_add[1],failed,"{text}",3.5\n'


def table_cell(sample: Sample) -> str:
    text = raised(sample).replace("\n", "<br>").replace("|", "\\|")
    return f"| test | board | message |\n|---|---|---|\n| test_add | n150 | {text} |\n"


def bold(sample: Sample) -> str:
    return f"Fails on main:\n\n**{raised(sample).replace(chr(10), '** **')}**\n"


def code_words(sample: Sample) -> str:
    return f"It prints `{raised(sample)}` here.\n"


def in_html(sample: Sample) -> str:
    return f"<pre><code>{html.escape(raised(sample))}</code></pre>\n"


def xml_attribute(sample: Sample) -> str:
    text = html.escape(raised(sample)).replace("\n", "&#10;")
    return f'<testcase name="test_add[1]" time="3.5"><failure message="{text}"/></testcase>\n'


def typographic_quotes(sample: Sample) -> str:
    return f"The run ends with \u201c{raised(sample)}\u201d on both boards.\n"


def remote(sample: Sample) -> str:
    return f"ray.exceptions.RayTaskError(RuntimeError): ray::Worker.run() (pid=123, ip=10.0.0.1)\n{traceback(sample)}"


def framework(sample: Sample) -> str:
    text = raised(sample).replace("RuntimeError: ", "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: ", 1)
    return f"{text}\n"


PREFIXES: Mapping[str, str] = {
    "server": "[SERVER] ERROR 10-27 19:32:3{n} [engine.py:187] ",
    "engine": "(EngineCore_DP0 pid=340) ERROR 04-20 18:51:3{n} [core.py:940] ",
    "old engine": "ERROR 06-05 19:19:37 core.py:10{n}] ",
    "named engine": "[tt-inference-server-52e5d497] (EngineCore_DP0 pid=292) ERROR 06-05 19:19:37 core.py:1035] ",
    "pod": "I 2026-01-05 10:00:0{n} pod/vllm-0 app: ",
    "loguru": "2026-01-05 10:00:0{n}.123 | ERROR    | models.tt.generator:prefill:81 - ",
    "composed": "vllm-tt-1  | 2026-01-05 10:00:0{n} | ERROR | tt.worker:execute:214 - ",
    "composed, plain": "vllm-tt-1  | ",
    "actor": "(RayWorkerWrapper pid=1234, ip=10.0.0.1) ",
    "glog": "E0105 10:00:00.12345{n} 140 pjrt_client.cc:45] ",
    "XLA": "2026-01-05 10:00:00.12345{n}: E external/xla/xla/pjrt/client.cc:45] ",
    "system": "Jan  5 10:00:0{n} host42 tt-worker[9{n}1]: ",
    "container": "2026-01-05T10:00:00.12345678{n}Z stderr F ",
    "job": "build (n150)\tRun tests\t2026-01-05T10:00:00.123456{n}Z ",
    "numbered": "{n:6d}\t",
    "grep": "logs/run.log:{n}:",
    "group": "  | ",
    "dash": "worker 3 - ",
    "rank tag": "[rank3]: ",
    "bracketed": "[2026-01-05 10:00:0{n},123] [ERROR] [tt.runner] ",
    "MPI": "[1,0]<stderr>:",
    "slurm": "3: ",
    "box": "\u2502 ",
    "diff": "+ ",
}
CARRIERS: Mapping[str, Wrapping] = {
    "one line": one_line,
    "glued": glued,
    "header in parts": broken_header,
    "no info": without_info,
    "braces": in_braces,
    "repr": as_repr,
    "JSON": json_line,
    "JSON twice": json_twice,
    "JSON lines": json_lines,
    "JSON list": json_list,
    "CSV": csv_cell,
    "table": table_cell,
    "bold": bold,
    "code words": code_words,
    "HTML": in_html,
    "XML": xml_attribute,
    "typographic quotes": typographic_quotes,
    "remote": remote,
    "framework": framework,
}
COMBINED: Mapping[str, Wrapping] = {
    **{f"folded at {n}": then(traceback, folded(n)) for n in (50, 72, 90, 111)},
    **{f"filled at {n}": then(traceback, filled(n)) for n in (40, 60, 100)},
    "folded and indented": then(traceback, folded(80, "    ")),
    "filled and indented": then(traceback, filled(90, "        ")),
    "prefix, then folded": then(traceback, before(PREFIXES["server"]), folded(100)),
    "folded, then prefix": then(traceback, folded(100), before(PREFIXES["server"])),
    "filled, then prefix": then(traceback, filled(80), before(PREFIXES["pod"])),
    "prefix, then filled": then(traceback, before(PREFIXES["engine"]), filled(120)),
    "prefix, folded, quoted": then(traceback, before(PREFIXES["loguru"]), folded(110), quoted),
    "coloured prefix": then(traceback, before(PREFIXES["composed"]), coloured),
    "prefix before colours": then(traceback, coloured, before(PREFIXES["job"])),
    "pytest in a job": then(pytest_lines, before(PREFIXES["job"])),
    "pytest in a job, folded": then(pytest_lines, before(PREFIXES["container"]), folded(120)),
    "quoted twice": then(traceback, quoted, quoted),
    "repr, folded": then(as_repr, folded(80)),
    "JSON, folded": then(json_line, folded(132)),
    "JSON in a pod": then(json_line, before(PREFIXES["pod"])),
    "header in parts with a prefix": then(broken_header, before(PREFIXES["server"])),
    "one line, filled": then(one_line, filled(80)),
    "one line, quoted and folded": then(one_line, folded(80), quoted),
    "no info, with a prefix": then(without_info, before(PREFIXES["bracketed"])),
}
LAYERED: dict[str, Wrapping] = {
    **{f"prefix {name}": then(traceback, before(prefix)) for name, prefix in PREFIXES.items()},
    **CARRIERS,
    **COMBINED,
}
