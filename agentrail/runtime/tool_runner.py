"""One call, in a cancel scope of its own: what it returns, raises or never gives becomes exactly one outcome.

What an outcome says is decided by plain functions; `run_tool` awaits and asks them.
"""

import json
import logging
import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Final

import trio
from attrs import frozen

from agentrail.abc import (
    MAX_RESULT_BYTES,
    Done,
    Effect,
    Error,
    NotDone,
    Ok,
    Secret,
    Tool,
    ToolContext,
    ToolOutcome,
    Unknown,
)
from agentrail.core.batch import CHANGED
from agentrail.core.changes import Change
from agentrail.core.effects import RunTool
from agentrail.core.gates import hash_arguments
from agentrail.errors import ToolContractError
from agentrail.frozen import thawed
from agentrail.messages import JsonObject, JsonValue
from agentrail.otp.edges import contain
from agentrail.otp.exits import leaves

LOGGER: Final = logging.getLogger("agentrail.runtime")

MAX_CRASH_CHARACTERS: Final = 1000
UNKNOWN: Final = "[Outcome unknown: an attempt failed, and whether it took effect cannot be found out. Check before repeating.]"

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


@frozen(kw_only=True)
class Ended:
    """How an attempt ended.

    Attributes:
        text: What the model may read.
        is_error: Whether it failed.
        details: JSON for people.
        changes: What it wants changed in the session.
        crashed: Whether it raised, so that it may be made once more.
        late: Whether the tool gave a value although it had been stopped; nobody sees that value.
    """

    text: str
    is_error: bool = False
    details: JsonValue = None
    changes: tuple[Change, ...] = ()
    crashed: bool = False
    late: bool = False


async def run_tool(effect: RunTool, attempt: Attempt, scope: trio.CancelScope) -> Ended:
    """Run one attempt and say how it ended, whatever the tool does.

    Args:
        effect: The call.
        attempt: The tool and its context.
        scope: The scope of this call alone; who cancels it stops the call. It carries the timeout as its deadline.

    Raises:
        trio.Cancelled: Only when something around the call was cancelled, never by `scope`.
    """
    arguments = decide_arguments(effect)
    if arguments is None:
        return Ended(text=CHANGED, is_error=True)
    late = False
    try:
        with scope:
            ended = decide_outcome(attempt.tool, await _execute(effect, attempt, arguments))
            late = scope.cancel_called
            if not late:
                return ended
    except Exception as error:  # noqa: BLE001 - the edge of a tool: its crash is a result, and no sibling notices
        log_crash(attempt, error)
        return decide_crash(attempt.tool, error, attempt.context.user_data)
    except BaseExceptionGroup as group:
        raise decide_what_travels(group) from None
    return decide_timeout(attempt, late=late)


async def _execute(effect: RunTool, attempt: Attempt, arguments: JsonObject) -> object:
    reconcile = getattr(attempt.tool, "reconcile", None)
    if effect.attempt > 1 and attempt.tool.effect_class == "reconcilable" and reconcile is not None:
        found = decide_reconciled(attempt.tool, await reconcile(effect.operation_id, attempt.context))
        if found is not None:
            return found
    return await attempt.tool.execute(arguments, attempt.context)


def decide_reconciled(tool: Tool, found: object) -> ToolOutcome | None:
    """Say what follows from what a tool found out about its earlier attempt; None: it runs again.

    Raises:
        ToolContractError: The tool author's move: that is no answer.
    """
    match found:
        case Done(result=result):
            return result
        case NotDone():
            return None
        case Unknown():
            return Error(text=UNKNOWN)
        case _:
            kind = type(found).__name__
            message = f"reconcile of tool {tool.name!r} returned {kind}, expected Done(result), NotDone() or Unknown()"
            raise ToolContractError(message)


def decide_arguments(effect: RunTool) -> JsonObject | None:
    """Give the tool a copy of exactly what was hashed; None when that is not what was checked.

    A copy that can be written to, because a tool that changes its arguments may do so; what the session has is frozen.
    """
    if hash_arguments(effect.arguments) != effect.arguments_hash:
        return None
    copied: JsonObject = thawed(effect.arguments)
    return copied


def decide_outcome(tool: Tool, returned: object) -> Ended:
    """Take what a tool returned, if it may return that.

    Raises:
        ToolContractError: The tool author's move: its details are no JSON.
    """
    if not isinstance(returned, Ok | Error | Effect):
        kind = type(returned).__name__
        text = f'Tool "{tool.name}" is broken: execute returned {kind}, expected Ok, Error or Effect.'
        return Ended(text=text, is_error=True)
    max_bytes = getattr(tool, "max_result_bytes", MAX_RESULT_BYTES)
    return Ended(
        text=clean_text(returned.text, max_bytes=max_bytes) or "[no output]",
        is_error=isinstance(returned, Error),
        details=_plain(tool, returned.details),
        changes=returned.changes if isinstance(returned, Effect) else (),
    )


def _plain(tool: Tool, details: object) -> JsonValue:
    """Copy details, so that what was published cannot change any more."""
    if details is None:
        return None
    try:
        plain: JsonValue = json.loads(json.dumps(details, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"tool {tool.name!r} returned details that are not JSON: {error}"
        raise ToolContractError(message) from None
    return plain


def decide_crash(tool: Tool, error: Exception, user_data: Mapping[str, object]) -> Ended:
    """Say what was raised: type and message for the model, no traceback and no secret of the application."""
    text = without_secrets(f'Tool "{tool.name}" crashed: {describe_crash(error)}', user_data)
    return Ended(
        text=clean_text(text[:MAX_CRASH_CHARACTERS]),
        is_error=True,
        crashed=not isinstance(error, ToolContractError),
    )


def log_crash(attempt: Attempt, error: Exception) -> None:
    """Give the log the traceback, which no model reads."""
    context = attempt.context
    lines = contain(lambda _: ["<no traceback>"], traceback.format_exception, error)
    LOGGER.error(
        "tool %r crashed in call %s of session %s, attempt %d\n%s",
        attempt.tool.name,
        context.call_id,
        context.session_id,
        context.attempt,
        clean_text(without_secrets("".join(lines), context.user_data)),  # a log is a terminal as well
    )


def without_secrets(text: str, user_data: Mapping[str, object]) -> str:
    """Show the secrets that a tool was given as they show themselves, however they came into a text."""
    values = {secret.reveal() for secret in _secrets_in(user_data)} - {""}
    for value in sorted(values, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(value, repr(Secret(value)))
    return text


def _secrets_in(value: object) -> Iterator[Secret]:
    match value:
        case Secret():
            yield value
        case Mapping():
            for item in value.values():
                yield from _secrets_in(item)
        case list() | tuple():
            for item in value:
                yield from _secrets_in(item)
        case _:
            pass


def decide_timeout(attempt: Attempt, *, late: bool = False) -> Ended:
    """Say that the time was up, and whether something may have happened all the same."""
    text = f"Timed out after {attempt.timeout_seconds:g} s."
    if attempt.tool.effect_class not in {"pure", "idempotent"}:
        text = f"{text} It may have taken effect; check before repeating."
    return Ended(text=text, is_error=True, late=late)


def clean_text(text: str, *, max_bytes: int = MAX_RESULT_BYTES) -> str:
    """Make a text fit for every wire: no lone surrogates, no control characters, its middle cut out when it is too long."""
    cleaned = _CONTROL.sub("", _SURROGATE.sub("\ufffd", text))
    encoded = cleaned.encode()
    if len(encoded) <= max_bytes:
        return cleaned
    half = max_bytes // 2
    head, tail = encoded[:half].decode(errors="ignore"), encoded[-half:].decode(errors="ignore")
    return f"{head}\n[… {len(encoded) - 2 * half:,} bytes left out …]\n{tail}"


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
    # An author's exception that cannot even be printed is still only a crash.
    return contain(lambda _: "<no message: its __str__ raises>", str, error)
