"""One call, in a cancel scope of its own: what it returns, raises or never gives becomes exactly one outcome.

What an outcome says is decided by plain functions; `run_tool` awaits and asks them.
"""

import hashlib
import re
from typing import Final

import msgspec
import trio
from attrs import frozen

from agentrail.abc import Error, Ok, Tool, ToolContext, ToolOutcome
from agentrail.core.effects import RunTool
from agentrail.errors import ToolContractError
from agentrail.messages import JsonObject
from agentrail.otp.exits import leaves

MAX_RESULT_BYTES: Final = 1 << 20
MAX_CRASH_CHARACTERS: Final = 1000
CHANGED: Final = "Not run: the arguments changed after they were checked."

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


@frozen(kw_only=True)
class Attempt:
    """What the runner needs beside the effect.

    Attributes:
        tool: The object that the call started with; a later change of the session's tools does not touch it.
        context: What the tool is given.
        timeout_seconds: How long it may take.
    """

    tool: Tool
    context: ToolContext
    timeout_seconds: float


async def run_tool(effect: RunTool, attempt: Attempt, scope: trio.CancelScope) -> tuple[ToolOutcome, bool]:
    """Run one attempt and return its outcome, whatever the tool does, and whether it raised: that may be tried again.

    Args:
        effect: The call.
        attempt: The tool and its context.
        scope: The scope of this call alone; who cancels it stops the call. It carries the timeout as its deadline.

    Raises:
        trio.Cancelled: Only when something around the call was cancelled, never by `scope`.
    """
    arguments = decide_arguments(effect)
    if arguments is None:
        return Error(text=CHANGED), False
    try:
        with scope:
            return decide_outcome(attempt.tool, await attempt.tool.execute(arguments, attempt.context)), False
    except Exception as error:  # noqa: BLE001 - the edge of a tool: its crash is a result, and no sibling notices
        return decide_crash(attempt.tool, error), not isinstance(error, ToolContractError)
    except BaseExceptionGroup as group:
        raise decide_what_travels(group) from None
    return decide_timeout(attempt), False


def decide_arguments(effect: RunTool) -> JsonObject | None:
    """Give the tool a copy of exactly what was hashed; None when that is not what was checked.

    A copy, because a tool that changes its arguments would change the conversation.
    """
    canonical = msgspec.json.encode(effect.arguments, order="deterministic")
    if hashlib.sha256(canonical).hexdigest() != effect.arguments_hash:
        return None
    copied: JsonObject = msgspec.json.decode(canonical)
    return copied


def decide_outcome(tool: Tool, returned: object) -> ToolOutcome:
    """Take what a tool returned, if it may return that."""
    match returned:
        case Ok(text=text, details=details):
            return Ok(text=clean_text(text) or "[no output]", details=details)
        case Error(text=text, details=details):
            return Error(text=clean_text(text) or "[no output]", details=details)
        case _:
            kind = type(returned).__name__
            return Error(text=f'Tool "{tool.name}" is broken: execute returned {kind}, expected Ok or Error.')


def decide_crash(tool: Tool, error: Exception) -> ToolOutcome:
    """Say what was raised: type and message for the model, no traceback."""
    return Error(
        text=clean_text(f'Tool "{tool.name}" crashed: {describe_crash(error)}'[:MAX_CRASH_CHARACTERS])
    )


def decide_timeout(attempt: Attempt) -> ToolOutcome:
    """Say that the time was up, and whether something may have happened all the same."""
    text = f"Timed out after {attempt.timeout_seconds:g} s."
    if attempt.tool.effect_class in {"pure", "idempotent"}:
        return Error(text=text)
    return Error(text=f"{text} It may have taken effect; check before repeating.")


def clean_text(text: str) -> str:
    """Make a text fit for every wire: no lone surrogates, no control characters, at most 1 MiB."""
    cleaned = _CONTROL.sub("", _SURROGATE.sub("\ufffd", text))
    size = len(cleaned.encode())
    if size <= MAX_RESULT_BYTES:
        return cleaned
    encoded = cleaned.encode()
    half = MAX_RESULT_BYTES // 2
    head, tail = encoded[:half].decode(errors="ignore"), encoded[-half:].decode(errors="ignore")
    return f"{head}\n[… {size - 2 * half:,} bytes left out …]\n{tail}"


def decide_what_travels(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Keep of a group what is not the author's crash: the cancellation from outside, `KeyboardInterrupt`.

    What crashed while it was being cancelled has nobody left to tell, and may not crash the session instead.
    """
    _, rest = group.split(Exception)
    return group if rest is None else rest


def describe_crash(error: BaseException) -> str:
    """Say what crashed in one line; no exception is kept."""
    return "; ".join(f"{type(leaf).__name__}: {_words_of(leaf)}" for leaf in leaves(error))


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an author's exception that cannot even be printed is still only a crash
        return "<no message: its __str__ raises>"
