"""One call, in a cancel scope of its own: what it returns, raises or never gives becomes exactly one outcome.

What an outcome says is decided by plain functions; `run_tool` awaits and asks them.
"""

import json
import re
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import trio

from agentrail.abc import (
    MAX_RESULT_BYTES,
    Done,
    Error,
    NotDone,
    Ok,
    Tool,
    ToolContext,
    ToolOutcome,
    ToolUpdate,
    Unknown,
    effect_class_of,
)
from agentrail.core.policy.calls import hash_arguments
from agentrail.core.protocol.changes import Change
from agentrail.core.protocol.effects import RunTool
from agentrail.core.session.batch import ARGUMENTS_CHANGED
from agentrail.errors import QuestionDeclined, ToolContractError
from agentrail.frozen import MAX_LEVELS, frozen_value, thawed, too_large
from agentrail.messages import Image, JsonObject, JsonValue
from agentrail.otp.edges import leaves
from agentrail.otp.leaving import describe_crash, words_of
from agentrail.runtime.crashes import TRAVELS_FROM_A_TOOL, log_crash, what_travels
from agentrail.runtime.scrubbing import without_secrets
from agentrail.runtime.withheld import Withheld

MAX_CRASH_CHARACTERS: Final = 1000
_OUTCOME_UNKNOWN: Final = "[Outcome unknown: an attempt failed, and whether it took effect cannot be found out. Check before repeating.]"

_OUTCOMES: Final = (Ok, Error, ToolUpdate)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What the runner needs beside the effect.

    Attributes:
        tool: The object that the call started with; a later change of the session's tools does not touch it.
        context: What the tool is given.
        timeout_seconds: How long it may take.
        withheld: What may not be in what it says.
        refusal: Says right before it runs why it does not, for what no step could know; None where there is nothing to ask.
    """

    tool: Tool
    context: ToolContext
    timeout_seconds: float
    withheld: Withheld = msgspec.field(default_factory=Withheld)
    refusal: Callable[[], Awaitable[str | None]] | None = None

    def without_secrets(self, text: str) -> str:
        """Give what is said of a crash without the secrets of its session, the short ones too."""
        return without_secrets(self.withheld.replaced(text), self.context.user_data)


class AttemptEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended.

    Attributes:
        text: What the model may read.
        is_error: Whether it failed.
        details: JSON for people.
        changes: What it wants changed in the session.
        crashed: Whether it raised, so that it may be made once more.
        late: What the tool gave although it had been stopped or its time was up.
        images: Pictures that the model may see.
        ran: Whether code of the tool ran at all.
    """

    text: str
    is_error: bool = False
    details: JsonValue = None
    changes: tuple[Change, ...] = ()
    crashed: bool = False
    late: "AttemptEnd | None" = None
    images: tuple[Image, ...] = ()
    ran: bool = True


async def run_tool(effect: RunTool, attempt: Attempt, scope: trio.CancelScope) -> AttemptEnd:
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
        return AttemptEnd(text=ARGUMENTS_CHANGED, is_error=True, ran=False)
    late: AttemptEnd | None = None
    try:
        with scope:
            refused = None if attempt.refusal is None else await attempt.refusal()
            if refused is not None:
                return AttemptEnd(
                    text=clean_text(attempt.withheld.replaced(refused)), is_error=True, ran=False
                )
            if effect.attempt == 1:
                returned: object = await attempt.tool.execute(arguments, attempt.context)
            else:
                returned = await _execute_again(effect, attempt, arguments)
            ended = decide_outcome(attempt, returned)
            if not scope.cancel_called:
                return ended
            late = ended
        return decide_timeout(attempt, late=late)
    except BaseException as error:  # noqa: ASYNC103 - the edge of a tool: its crash is a result, and no sibling notices
        leaving = what_travels(error, TRAVELS_FROM_A_TOOL)
        if leaving is error:
            raise
        if leaving is not None:
            raise leaving from None  # noqa: ASYNC104 - what travels was asked
        declined = decide_declined(error)
        if declined is not None:
            return declined  # noqa: ASYNC104 - what travels was asked
        log_tool_crash(effect.name, attempt, error)
        return decide_crash(effect.name, error, attempt)  # noqa: ASYNC104 - what travels was asked


async def _execute_again(effect: RunTool, attempt: Attempt, arguments: JsonObject) -> object:
    reconcile = getattr(attempt.tool, "reconcile", None)
    if effect_class_of(attempt.tool) == "reconcilable" and reconcile is not None:
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
            return Error(text=_OUTCOME_UNKNOWN)
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


def decide_outcome(attempt: Attempt, returned: object) -> AttemptEnd:
    """Take what a tool returned, if it may return that.

    Raises:
        ToolContractError: The tool author's move: its details are no JSON, or too large.
    """
    tool = attempt.tool
    if not isinstance(returned, _OUTCOMES):
        kind = type(returned).__name__
        text = f'Tool "{tool.name}" is broken: execute returned {kind}, expected Ok, Error or Effect.'
        return AttemptEnd(text=text, is_error=True)
    max_bytes = getattr(tool, "max_result_bytes", MAX_RESULT_BYTES)
    images = returned.images if isinstance(returned, Ok) else ()
    return AttemptEnd(
        # Before its middle is cut out: half of a secret is not recognised.
        text=clean_text(attempt.withheld.replaced(returned.text), max_bytes=max_bytes)
        or _without_words(images),
        is_error=isinstance(returned, Error),
        details=plain_details(tool.name, returned.details),
        changes=returned.changes if isinstance(returned, ToolUpdate) else (),
        images=images,
    )


def _without_words(images: tuple[Image, ...]) -> str:
    """Say what a result without a text is."""
    if not images:
        return "[no output]"
    return "[1 image]" if len(images) == 1 else f"[{len(images)} images]"


def plain_details(name: str, details: object) -> JsonValue:
    """Copy details, so that what was published cannot change any more.

    Raises:
        ToolContractError: The author's move, of the tool of this name: they are no JSON, too large, or nested too deeply.
    """
    if details is None:
        return None
    size = too_large(details)
    if size is not None:
        message = (
            f"tool {name!r} returned details of {size}: "
            "write them to a file, and give its path in the details"
        )
        raise ToolContractError(message)
    try:
        return frozen_value(json.loads(json.dumps(details, allow_nan=False)))
    except RecursionError:  # `TooDeep` is one
        message = (
            f"tool {name!r} returned details nested more deeply than {MAX_LEVELS} levels: "
            "flatten them, or write them to a file, and give its path in the details"
        )
        raise ToolContractError(message) from None
    except (TypeError, ValueError) as error:
        message = f"tool {name!r} returned details that are not JSON: {error}"
        raise ToolContractError(message) from None


def decide_crash(name: str, error: BaseException, attempt: Attempt) -> AttemptEnd:
    """Say what was raised: type and message for the model, no traceback and no secret of the application.

    A tool that ends the program, as argparse does over wrong input, has ended its call: an error and no crash, because
    the same input would end it again.
    """
    found = leaves(error)
    exited = all(isinstance(leaf, SystemExit) for leaf in found)
    said = "; ".join(decide_exit(leaf) for leaf in found) if exited else f"crashed: {describe_crash(error)}"
    text = attempt.without_secrets(f'Tool "{name}" {said}')
    return AttemptEnd(
        text=clean_text(text[:MAX_CRASH_CHARACTERS]),
        is_error=True,
        crashed=not exited and not isinstance(error, ToolContractError),
    )


def decide_declined(error: BaseException) -> AttemptEnd | None:
    """Say that the user declined to answer, where a tool lets nothing but that travel: no crash, and no second attempt."""
    found = leaves(error)
    if not all(isinstance(leaf, QuestionDeclined) for leaf in found):
        return None
    return AttemptEnd(text=clean_text(str(found[0])), is_error=True)


def decide_exit(error: BaseException) -> str:
    """Say how a tool wanted to end the program: with a status, or with a message."""
    said = words_of(error)
    is_status = not said or said == "None" or said.lstrip("-").isdigit()
    return f"exited with status {0 if said in {'', 'None'} else said}" if is_status else f"exited: {said}"


def log_tool_crash(name: str, attempt: Attempt, error: BaseException) -> None:
    """Give the log the traceback, which no model reads."""
    context = attempt.context
    what = (
        f"tool {name!r} crashed in call {context.call_id} of session {context.session_id}, "
        f"attempt {context.attempt}"
    )
    log_crash(what, error, attempt.without_secrets)


def decide_timeout(attempt: Attempt, *, late: AttemptEnd | None = None) -> AttemptEnd:
    """Say that the time was up, and whether something may have happened all the same."""
    text = f"Timed out after {attempt.timeout_seconds:g} s."
    if effect_class_of(attempt.tool) not in {"pure", "idempotent"}:
        text = f"{text} It may have taken effect; check before repeating."
    return AttemptEnd(text=text, is_error=True, late=late)


def clean_text(text: str, *, max_bytes: int = MAX_RESULT_BYTES) -> str:
    """Make a text fit for every wire: no lone surrogates, no control characters, its middle cut out when it is too long."""
    if type(text) is str and len(text) <= max_bytes and text.isascii() and text.isprintable():
        return text  # as most are that are one line: nothing in it has to be looked for
    if len(text) > 2 * max_bytes:
        # Only what stays is looked at. Of ten megabytes each look at all would keep every session waiting, from a thread
        # as well: a regular expression does not let others run. What is left out is counted as it came.
        size_bytes = len(text.encode("utf-8", "surrogatepass"))
        head, tail = (_cleaned(part).encode() for part in (text[:max_bytes], text[-max_bytes:]))
    else:
        cleaned = _cleaned(text)
        head = tail = cleaned.encode()
        size_bytes = len(head)
        if size_bytes <= max_bytes:
            return cleaned
    half = max_bytes // 2
    begin, end = head[:half].decode(errors="ignore"), tail[-half:].decode(errors="ignore")
    return f"{begin}\n[… {size_bytes - 2 * half:,} bytes left out …]\n{end}"


def _cleaned(text: str) -> str:
    return _CONTROL.sub("", _SURROGATE.sub("\ufffd", text))
