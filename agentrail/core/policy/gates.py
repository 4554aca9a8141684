"""The gates that a call passes inside the core: lookup, parse, validate. Each refusal is a text for the model.

Later gates (plugins, approvals) take their place behind these, in the order of docs/explanation/tools.md.
"""

import difflib
import hashlib
import re
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from agentrail.core.values.append_only import GrowingSet
from agentrail.core.values.toolbox import Toolbox, parse_arguments
from agentrail.frozen import canonical_json
from agentrail.messages import AssistantMessage, CallId, JsonObject, Message, StopReason, ToolCall

CUT_OFF: Final = "Not run: the call was cut off by the output limit. Send less in one call."
WITHHELD: Final = "Not run: this was the last turn of the task. Answer with what you have."

_MAX_NAME_SHOWN: Final = 200
_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Passed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The call may run.

    Attributes:
        arguments: Validated, with the schema's defaults filled in.
    """

    arguments: JsonObject


class Refused(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The call does not run.

    Attributes:
        text: What the model reads: what was wrong and what to do.
        unknown: Whether there is no such tool.
    """

    text: str
    unknown: bool = False


ValidatedCall: TypeAlias = Passed | Refused


def validate_call(
    call: ToolCall, tools: Toolbox, stop_reason: StopReason, *, withheld: bool
) -> ValidatedCall:
    """Take one call through the gates."""
    if withheld:
        return Refused(text=WITHHELD)
    spec = tools.get(call.name)
    if spec is None:
        return Refused(text=_unknown(call.name, tools), unknown=True)
    parsed = parse_arguments(call.malformed or "") if call.arguments is None else call.arguments
    if isinstance(parsed, str):
        return Refused(text=CUT_OFF if stop_reason == "max_tokens" else parsed)
    arguments = spec.with_defaults(parsed)
    faults = spec.faults(arguments)
    if faults:
        return Refused(text=f'Invalid arguments for "{call.name}": {"; ".join(faults)}')
    return Passed(arguments=arguments)


def settle_call_ids(
    calls: tuple[ToolCall, ...], used: GrowingSet[CallId], prefix: str
) -> tuple[tuple[CallId, ...], GrowingSet[CallId]]:
    """Give each call an id that is its own in the whole session.

    A vendor's id stays where it can. One that is empty, too long, of other characters or used before is replaced by
    one from `prefix` and position, which repeats on a replay.
    """
    settled: list[CallId] = []
    for position, call in enumerate(calls, start=1):
        call_id = call.call_id
        if not _CALL_ID.fullmatch(call_id) or call_id in used:
            call_id = CallId(f"call_{prefix}_{position}")
            while call_id in used:  # a vendor that makes up ids like ours
                call_id = CallId(f"{call_id}_")
        used = used.added(call_id)
        settled.append(call_id)
    return tuple(settled), used


def call_ids_of(messages: Iterable[Message]) -> GrowingSet[CallId]:
    """Give the ids of all calls that a conversation has."""
    used: GrowingSet[CallId] = GrowingSet()
    for message in messages:
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            used = used.added(call.call_id)
    return used


def hash_arguments(arguments: JsonObject) -> str:
    """Hash the canonical arguments (UTF-8 JSON, sorted keys, no spaces) with SHA-256, hexadecimal."""
    return hashlib.sha256(canonical_json(arguments)).hexdigest()


def operation_id_of(session_id: str, ordinal: int, name: str, arguments_hash: str) -> str:
    """Name an operation, so that a retry of a call can be told from another call with the same arguments."""
    return hashlib.sha256(f"{session_id}\0{ordinal}\0{name}\0{arguments_hash}".encode()).hexdigest()[:32]


def _unknown(name: str, tools: Toolbox) -> str:
    if not tools.names:
        return f'Unknown tool "{name}". There are no tools in this session: answer without.'
    name = name if len(name) <= _MAX_NAME_SHOWN else f"{name[:_MAX_NAME_SHOWN]}…"  # it may be a megabyte
    near = difflib.get_close_matches(name, tools.names, n=1)
    guess = f' Did you mean "{near[0]}"?' if near else ""
    return f'Unknown tool "{name}".{guess} Tools: {", ".join(tools.names)}.'
