"""Undoes what carries a message: mark-up, character entities, the escapes of strings, the separators of thousands.

It also blanks what is no message: the errors of objects that could not be shown.
"""

from __future__ import annotations

import html
import re

_ODD = re.compile(r"[*`&\\<^\u00a0\u2009\u200b\u202f\u2502\u2503\u241b]")
_TAG = re.compile(r"</?(?:b|strong|em|i|u|code|pre|tt|p|div|span|td|tr|th|li|font|a)(?:\s[^<>]{0,200})?/?>", re.IGNORECASE)
_LINE_TAG = re.compile(r"<br\s{0,3}/?>", re.IGNORECASE)
_COLOUR = re.compile(r"(?:\\{1,8}(?:x1b|x1B|u001b|u001B|033|e)|\^\[|\u241b)(?:\[[\d;]{0,20}m)?")
_NEWLINE = re.compile(r"(?:\\{1,8}r)?\\{1,8}n")
_TAB = re.compile(r"\\{1,8}t(?=\s|[A-Z\d])")
_CHARACTER = re.compile(r"\\{1,8}u00([0-7][\da-fA-F])")
_ESCAPED = re.compile(r"\\{1,8}([\"'/_*\[\]()#`<>{}|-])")
_BOLD = re.compile(r"(?<![\w)\]])\*{1,3}(?=[\w\"'(\[])|(?<=[\w.)\]\"':,])\*{1,3}(?![\w(\[*])|\*\*")
_GLUED_MARK = re.compile(r"(?<=\S)E {5,}")  # of pytest, where the line ends before it were lost
_OTHER = str.maketrans({"`": None, "\u200b": None, "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2502": " ", "\u2503": " "})

_IN_REPR = " raised in repr()]"  # put by pytest: <[RuntimeError('…') raised in repr()] Tensor object at 0x7f…>
_UNSHOWN = re.compile(r"<\[[A-Za-z_][\w.]{0,80}(?: exception )?\(")
_REPR_ERROR = re.compile(r"<repr-error (?:'[^'\n]*'|\"[^\"\n]*\")>")  # put by rich

_GROUPED = re.compile(
    r"(?<![\w.,'])[1-9]\d{0,2}"
    r"(?:(?:,\d{3})+|(?:_\d{3})+|(?:'\d{3})+|(?: \d{3})+)(?!\d)"
)


def plainly(text: str) -> str:
    """Returns ``text`` as the program printed it, without the mark-up and the escapes of what shows it.

    >>> plainly("**L1** buffer across `64` banks &gt; 3\\\\n\\\\u003cnum\\\\u003e")
    'L1 buffer across 64 banks > 3\\n<num>'
    """
    if "E     " in text:
        text = _GLUED_MARK.sub("\n", text)
    if not _ODD.search(text):
        return text
    if "\\" in text or "^[" in text or "\u241b" in text:
        text = _COLOUR.sub("", text)
        text = _CHARACTER.sub(lambda found: chr(int(found[1], 16)), text)
        text = _ESCAPED.sub(r"\1", _TAB.sub(" ", _NEWLINE.sub("\n", text)))
    if "&" in text and ";" in text:
        text = html.unescape(text)
    if "<" in text:
        text = _TAG.sub("", _LINE_TAG.sub("\n", text))
    if "*" in text:
        text = _BOLD.sub("", text)
    return text.translate(_OTHER)


def without_separators(text: str) -> str:
    """Returns ``text`` with its numbers as plain digits, where they have separators of thousands.

    >>> without_separators("26,542,080 B across 48 banks of 1 329 888 B, [0,128]")
    '26542080 B across 48 banks of 1329888 B, [0,128]'
    """
    return _GROUPED.sub(lambda found: re.sub(r"\D", "", found[0]), text)


def without_unshown(text: str) -> str:
    """Returns ``text`` with blanks for the errors of objects that a report of another error could not show; equally long.

    >>> without_unshown("x = <[RuntimeError('TT_FATAL') raised in repr()] Tensor object at 0x7f>")
    'x = <                          raised in repr()] Tensor object at 0x7f>'
    """
    if _IN_REPR in text:
        *parts, rest = text.split(_IN_REPR)
        text = _IN_REPR.join([*map(_blanked, parts), rest])
    if "<repr-error " in text:
        text = _REPR_ERROR.sub(lambda found: " " * len(found[0]), text)
    return text


def _blanked(part: str) -> str:
    """Returns the text before the mark of a failed ``repr`` without its error."""
    found = _UNSHOWN.search(part)
    return part if found is None else part[: found.start() + 1] + " " * (len(part) - found.start() - 1)
