"""Recognises lines that look like a memory failure in words that no table has.

They are shown as such: a log in which one stands is not free of failures. Prose about memory, source code, tests that passed,
settings and counts are ordinary lines.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ssinghal.core.verdict import Status, Verdict
from ssinghal.device.error_patterns import OPENING, translate_error
from ssinghal.diagnose.parse.paraphrases import paraphrase
from ssinghal.diagnose.parse.refused_shards import refusal

LINE_CHARS = 1_000  # of a line that are looked at

_WORDS = ("memory", "l1", "dram", "sram", "oom", "exhausted", "circular", "cb", "dfb", "dataflow", "kernel", "runtime",
          "trace", "cache", "alloc", "shard", "gridshape", "bank",
          "program size", "region")  # fmt: skip
_NOUN = (
    r"(?:\b(?:L1(?:_SMALL)?|SRAM|KV[- ]cache|heap)\b|\bDRAM\b(?! (?:bandwidth|BW|util\w*|channels?|reads?|writes?|cores?)\b)"
    r"|\bmemory\b(?![- _]?(?:layout|config|bandwidth|barrier))|\b(?:circular|dataflow) buffers?\b|\bCBs?\b|\bDFBs?\b"
    r"|\bkernel[- _]config|\bruntime[- _]?arg|\btrace (?:region|buffer))"
)
_NOT = r"(?:\b(?:can|could|do|does|did|will|would)(?: ?not|n['\u2019]?t)|\bcan['\u2019]t|\bunable to|\bfail(?:ed|s|ure)? to)"
_LACK = (
    r"(?:\bnot enough\b|\binsufficient\b|\bno (?:more |free |available )*(?:space(?! left on device)|room|memory)\b"
    r"|\br[au]n(?:s|ning)? out\b"
    r"|\btoo (?:small|large|big|much)\b|\bbut only\b|\bneeds? [^;]{1,40}?\b(?:but|has|have)\b"
    r"|\bonly [^;]{0,40}?\b(?:available|free|left)\b"
    rf"|{_NOT} (?:be )?(?:alloc\w*|reserve|place|fit)|\ballocation (?:\w+ ){{0,4}}?fail|\bfailed (?:\w+ )?allocation"
    r"|\bnot fit\b"
    r"|\bexceed(?:s|ed|ing)?\b|\boverflow(?:s|ed)?\b|\bbeyond\b|\b(?:larger|greater|bigger) than\b|\bclash(?:es|ed)?\b"
    r"|\d\)? ?(?:[KMG]?i?B|bytes)? ?(?:needed |required |requested )?(?:>|&gt;) ?\(?\d)"
)
_NEAR = r"(?:[^.;]|\.(?! )){0,70}?"
# What is about failures in general, such as the title or a column of a report.
_ABOUT = (
    r"\)?[ -](?:\(OOM\) )?(?:failures|errors|issues|shapes?|counts?|analys[ie]s|reports?|thresholds?|data|mapping|lists?"
    r"|summary|stat\w*|results?|tests?|suites?|catalogs?|killer|score|faster|handl\w+|failure mapping)\b"
)
_OF = r"(?:(?:device|host|L1|DRAM|GPU|CPU|system|trace|chip|on-chip) )?"
# Parts of TTNN's own messages, where the rest is cut off.
_PARTS = (
    r"\bStatically allocated [cdCD]|\bNot enough space (?:to allocate|after considering)|\bbut bank size is\b"
    r"|\bwhere each bank needs to store\b|\bB (?:L1|L1_SMALL|DRAM|TRACE) buffer across\b"
    r"|\bL1 buffer allocated at \d|\bstatic \w+ buffer region\b|\bbeyond max L1\b|\bProgram size \(\d|\bkernel config buffer \("
    r"|\b(?:L1|L1_SMALL|DRAM) bank needs \d|\b(?:circular|dataflow|program) buffers (?:end at|need) \d"
    r"|\bwill not fit in region\b|\bunique\+common runtime args\b|\bCreating trace buffers of size\b"
    r"|\bis allocated for trace region\b"
)
_LOOKS = re.compile(
    rf"{_PARTS}|(?<![\w./-])out[ -]of[ -]{_OF}(?:memory|L1|DRAM)\b(?!{_ABOUT})"
    rf"|\bOut[-_]?Of[-_]?Memory(?:Error|Exception)?\b(?!\.\w|{_ABOUT})"
    r"|\bRESOURCE_EXHAUSTED\b|\bno (?:more |free |available )+memory\b|\b(?:not enough|insufficient) memory\b"
    rf"|(?<![\w./=-])(?-i:OOM)(?:s|ed|'d|ing)?(?![\w/=]|-\w|{_ABOUT})"
    rf"|\b(?:got|gets?|hit|hits|ran into|caused?|causes|with|an?|L1|DRAM) ooms?\b(?!{_ABOUT})"
    r"|\booms? (?:error|when|on|in|at|during|while)\b"
    rf"|{_NOUN}{_NEAR}{_LACK}|{_LACK}{_NEAR}{_NOUN}|{_NOT} alloc\w*{_NEAR}(?:\bbuffer|\bbytes|\d ?(?:[KMGTP]i?)?B\b)"
    r"|\blow on (?:resource: )?memory\b",
    re.IGNORECASE,
)
# The mark of a line that reports an error.
_ERROR = re.compile(
    r"\b\w*(?:Error|Exception|Failure)\b ?[:(]|\b(?:error|fatal|failed|failure):|\b(?:ERROR|FATAL|CRITICAL|FAILED|FAIL)\b"
    r"|\bTT_(?:FATAL|THROW)\b ?[:@]|[\u274c\u2717]|\*\*\* "
)

# What is no failure, also where a line has the mark of an error.
_PASSED = re.compile(r"\b(?:PASSED|SKIPPED|SKIP|XFAIL|XPASS|XFAILED|XPASSED|skipped|xfailed)\b|\bexpected OOM\b")
_COUNT = re.compile(
    r"\b(?:max(?:imum)?|largest|total|worst) OOMs?\b|\b\d[\d,]* (?:L1 |DRAM )?(?:oom|out[ -]of[ -]memory)s?\b(?! on| in| at|:)"
    r"|\b(?:ooms?|out[ -]of[ -]memory)"
    r"(?: (?:events?|errors?|kills?|failures?|count|tests?|cases?))?[\"']? ?[:=|] ?\d{1,6}(?![\d,_]| ?(?:B\b|bytes|>))",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:no|not|non|without|zero|never|avoids?|is(?: not|n't)|d(?:id|oes|o)(?: not|n't)|wo(?:n't)|will not)\b[ -]"
    r"(?:an? |any |L1 |DRAM |runs? |running |more |further |longer |being )*"
    r"(?:OOMs?\b|out[ -]of[ -]|memory (?:error|failure|leak)|exceed|beyond|overflow|clash|larger than|greater than)"
    r"|\bno memory ran out\b|\bnumber of (?:\w+ )?(?:buffers|CBs|DFBs|banks|cores)\b"
    r"|\b(?:index|id|count|slot) \(?\d+\)?(?: which)? (?:exceeds?|does not fit)\b"
    r"|\b(?:must|can|may|should|shall)(?: ?not|n't) (?:be )?(?:exceed|larger|greater|bigger)",
    re.IGNORECASE,
)
_GPU = re.compile(r"\b(?:CUDA|HIP|ROCm|XPU|MPS backend)\b")
# Source code, commands, and what prose about failures has and a report of one has not.
_CODE = re.compile(
    r"\s*(?:#|//|/\*|<!--|\"\"\"|\'\'\'|(?:def|class|import|from|return|raise|assert|with|except|if|elif|else|while|for|throw|catch"
    r"|print|yield|grep|rg|sed|git|pytest|@pytest)\b[ (:.]"
    r"|>>> |\$ |[+-]{3} |(?!loc\()\w+(?:\.\w+)*\(|\w+ = |[rf]?\"[^\"]*\"[,)]+$)"
    r"|.*?(?:pytest\.(?:raises|skip|xfail|mark|param)|\bmatch=|\bre\.(?:search|match|compile)\(|\bin str\(|\bgrep\b)"
)
_GENERAL = re.compile(
    r"\b(?:if|may|might|(?:could|would)(?! ?not|n't)|should|must|avoid\w*|prevent\w*|reduc\w+|how to|in case|unless|instead"
    r"|can(?= (?:also )?(?:cause|lead|result|exceed|run|overflow|OOM|happen|fail|occur|help))|without|whether|never|longer|todo"
    r"|fix\w*|risk\w*|possibl\w+|potential\w*|likely|handl\w+|check\w*|expect\w*|ignor\w+|guard\w*|skip\w*|e\.g\.|example"
    r"|so that|says|manual|tests|means?|usually|often|typically|whenever|tested|testing|warn\w*|downgrad\w+|spill\w*|known"
    r"|disabled|fall\w* back|fallback"
    r"|(?:that|which|what|calls|cases|operators|models|programs|tensors) (?:\w+ )?(?:r[au]ns?|do(?:es)?|did|exceeds?"
    r"|OOMs?|(?:is|are|was) out))\b"
    r"|^\W*(?:when|note|tip|set|use|see|make|try|increase|lower)\b",
    re.IGNORECASE,
)


def is_of_another_device(text: str) -> bool:
    """Returns whether a message about memory is about that of a GPU."""
    return _GPU.search(text, 0, LINE_CHARS) is not None and _LOOKS.search(text, 0, LINE_CHARS) is not None


def _looks_like_memory(text: str, *, raised: bool) -> bool:
    counted = _COUNT.sub(" ", text)
    if not _LOOKS.search(counted) or _NEGATED.search(text) or is_of_another_device(text):
        return False
    return raised or _ERROR.search(text) is not None or _GENERAL.search(text) is None


def _quoted(text: str) -> Verdict | None:
    """Returns the memory failure whose message, with figures, stands after other words, None where none does."""
    for opening in OPENING.finditer(text):
        quoted = translate_error("RuntimeError", text[opening.start() :])
        if quoted.status is Status.OOM and any(isinstance(value, int) for value in vars(quoted).values()):
            return quoted
    return None


def may_be_about_memory(text: str) -> bool:
    """Returns whether a line has a word of memory: a cheap test that most lines of a log do not pass."""
    return any(map(text[:LINE_CHARS].lower().__contains__, _WORDS))


def understood(verdict: Verdict, *, raised: bool = True) -> tuple[Verdict, bool]:
    """Returns what the words of an error that no table has are, and whether they are a suspect.

    A memory failure where they state memory and figures unmistakably, ``unsupported`` where they refuse shards, a suspect where
    they look like a memory failure. ``raised``: they are the message of an error, or marked as one.
    """
    text = verdict.message[:LINE_CHARS]
    if verdict.status is not Status.ERROR or not may_be_about_memory(text):
        return verdict, False
    if _PASSED.search(text) or (not raised and _CODE.match(text)):
        return verdict, False
    refused = refusal(verdict)
    if refused.status is Status.UNSUPPORTED:
        return refused, False
    if not _looks_like_memory(text, raised=raised):
        return verdict, False
    stated = _quoted(text) or paraphrase(text)
    if stated is None:
        return verdict, True
    return replace(stated, error_type=verdict.error_type, thrown_at=verdict.thrown_at), False
