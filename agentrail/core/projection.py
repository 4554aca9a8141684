"""What others see of the state: the request to the model, and the status for clients. Reads only; decides nothing."""

import hashlib
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from agentrail.core.request import EffectId, ModelRequest
from agentrail.core.state import Phase, SessionData
from agentrail.messages import CallId, Message, PromptRef, SessionId, Text, TokenUsage, UserMessage

LAST_TURN_NOTE: Final = (
    "[This is the last turn of this task: no tool can be called any more. Answer now with what you have, and say what "
    "is missing.]"
)


@frozen(kw_only=True)
class RunningTool:
    """A call that runs.

    Attributes:
        call_id: The call.
        name: The tool.
        survivor: Whether an abort let it run on.
    """

    call_id: CallId
    name: str
    survivor: bool = False


@frozen(kw_only=True)
class Status:
    """How a session stands.

    Attributes:
        session_id: Which one.
        phase: One of the four, in lower case.
        turn: Of the running cycle, from 1; 0 in idle.
        model: The model string.
        queued: The prompts that wait, in order.
        running_tools: The calls that run.
        tearing_down: Whether what an abort stopped is not gone yet.
        messages: How many the history holds.
        usage: Of the whole session.
        last_seq: The number of the last committed event.
        uptime_ms: Since it first came up.
        restarts: How often it crashed and came back.
        dropped_signals: Late outcomes that nobody waited for.
        quarantined_signals: Signals that crashed the core.
    """

    session_id: SessionId
    phase: str
    turn: int
    model: str
    queued: tuple[PromptRef, ...]
    running_tools: tuple[RunningTool, ...]
    tearing_down: bool
    messages: int
    usage: TokenUsage
    last_seq: int
    uptime_ms: int
    restarts: int
    dropped_signals: int
    quarantined_signals: int


def status_of(phase: Phase, data: SessionData, at_ms: int) -> Status:
    """Say how a session stands at a time."""
    running = [
        RunningTool(call_id=call.call.call_id, name=call.call.name)
        for call in data.batch
        if call.stage == "running"
    ]
    surviving = [
        RunningTool(call_id=call.call.call_id, name=call.call.name, survivor=True) for call in data.survivors
    ]
    return Status(
        session_id=data.config.session_id,
        phase=phase.value,
        turn=data.cycle.turn if data.cycle else 0,
        model=data.config.model,
        queued=tuple(prompt.ref for prompt in data.queue),
        running_tools=(*running, *surviving),
        tearing_down=data.teardown is not None,
        messages=len(data.history),
        usage=data.usage,
        last_seq=data.seq,
        uptime_ms=at_ms - data.started_at_ms,
        restarts=data.incarnation - 1,
        dropped_signals=data.dropped,
        quarantined_signals=data.quarantined,
    )


def request_of(data: SessionData, attempt: EffectId, *, last_turn: bool) -> ModelRequest:
    """Make the request for the next turn.

    The history goes along as it is, shared and not copied, except on the last turn of a cycle: then a note that never
    enters the history asks for an answer, and the tools are withheld. They stay in the list, because a provider's
    prompt cache begins with it.
    """
    messages: Sequence[Message] = data.history.messages
    if last_turn:
        messages = (*messages, UserMessage(content=(Text(text=LAST_TURN_NOTE),), origin="note"))
    return ModelRequest(
        attempt=attempt,
        model=data.config.model,
        system=data.config.system_prompt,
        messages=messages,
        tools=data.tools,
        tool_choice="none" if last_turn else "auto",
        max_output_tokens=data.config.max_output_tokens,
    )


def digest_of(notes: Sequence[str]) -> str:
    """Name what was added to one request only, so that two requests can be compared; empty when nothing was."""
    return hashlib.sha256("\0".join(notes).encode()).hexdigest() if notes else ""
