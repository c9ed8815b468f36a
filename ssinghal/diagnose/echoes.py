"""Recognises errors that only report that another one happened: of an engine, a runtime or a launcher above TTNN.

Such a message says nothing about the cause, so it is neither a failure beside the one that it repeats nor proof that no memory
ran out.
"""

from __future__ import annotations

import re

from ssinghal.core.verdict import Status, Verdict

_CODE = r"(?:(?:INTERNAL|UNKNOWN|ABORTED|CANCELLED|UNAVAILABLE|RESOURCE_EXHAUSTED|FAILED_PRECONDITION)\b:? *)"
_MESSAGES = (
    # PJRT and XLA: a status code in place of the message
    rf"(?:Bad StatusOr access:? *)?{_CODE}?Error code:? \d{{1,3}}\b",
    rf"(?:Bad StatusOr access:? *)?{_CODE}$",
    r"Bad StatusOr access:? *$",
    rf"{_CODE}?Failed to (?:execute|submit|launch) (?:the )?(?:computation|executable|program|binary|graph)\b[^:]*$",
    r"(?:Failed|Unable) to (?:compile|run|execute|legalize|lower)(?: \w+){0,4}\W*$",
    # vLLM
    r"(?:EngineCore|Engine core|Engine process|Engine loop|Background loop|AsyncLLM|MQLLMEngine|LLMEngine)\b.{0,120}?"
    r"\b(?:fail(?:ed)?|fatal error|issue|died|dead|not running|stopped|errored)\b",
    r"Worker ?[Pp]roc(?:ess)?\b.{0,80}?\b(?:failed|died|dead|exited|terminated|unexpectedly)\b",
    r"Worker failed with error\W*$",
    r"Task finished unexpectedly\. This should never happen",
    r"Call to \w+ method failed\W*$",
    # launchers
    r"Command .{1,2000} (?:returned non-zero exit status|died with)\b",
    r"(?:-- )?Process \d+ terminated with the following error",
    r"(?:Process completed with|exited with|Command (?:exited|failed) with) (?:exit )?(?:code|status):? [^\W0]\d{0,2}\b",
)
_MESSAGE = re.compile("|".join(f"(?:{message})" for message in _MESSAGES), re.IGNORECASE)
_POINTS_ELSEWHERE = re.compile(
    r"\bsee (?:the )?(?:root cause|stack ?trace|traceback|logs?|error)s? ?(?:\(?above\b|for the)", re.IGNORECASE
)
_BUILD = re.compile(r"\w{1,40} build failed\b")  # of a kernel: the compiler or the linker printed why
_TYPES = (
    "EngineDeadError", "EngineGenerateError", "AsyncEngineDeadError", "MQEngineDeadError", "CalledProcessError",
    "ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "RayTaskError", "ActorDiedError",
    "RayActorError", "WorkerCrashedError", "BrokenProcessPool",
)  # fmt: skip


def is_echo(verdict: Verdict) -> bool:
    """Returns whether an error names no cause of its own.

    >>> is_echo(Verdict(Status.ERROR, error_type="RuntimeError", message="Bad StatusOr access: INTERNAL: Error code: 13"))
    True
    """
    message = verdict.message
    if verdict.status is not Status.ERROR or "memory" in message.lower():
        return False
    if verdict.thrown_at:
        return _BUILD.match(message) is not None
    return verdict.error_type in _TYPES or bool(
        _BUILD.match(message) or _MESSAGE.match(message) or _POINTS_ELSEWHERE.search(message)
    )
