"""The story of one call from a session's events: its request, its arguments, the decisions, its run and its result. Pure."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field
from msgspec import Struct

from agentrail.events import (
    ApprovalRequired,
    ApprovalResolved,
    Event,
    LargeResultOffloaded,
    ResponseComplete,
    ToolBlocked,
    ToolCallUnknown,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolKilled,
    ToolSkippedForSteering,
    ToolTookEffect,
)
from agentrail.messages import JsonObject, ToolCall, ToolResult

StoryOutcome: TypeAlias = Literal["done", "error", "blocked", "killed", "skipped", "unknown"]

TELL_OF_CALLS: Final[frozenset[type[Event]]] = frozenset(
    {
        ApprovalRequired,
        ApprovalResolved,
        LargeResultOffloaded,
        ResponseComplete,
        ToolBlocked,
        ToolCallUnknown,
        ToolExecutionEnd,
        ToolExecutionStart,
        ToolKilled,
        ToolSkippedForSteering,
        ToolTookEffect,
    }
)
"""The kinds of events in a story."""


class CallGate(Struct, frozen=True, kw_only=True):
    """A decision about a call.

    Attributes:
        gate: Gate that decided: `approval`, `rule`, `plugin`, `policy`.
        verdict: Verdict such as `asked`, `approved`, `rejected`, `timeout`, `blocked`.
        by: Source of the decision: a plugin's name, `user` or `timeout`. None while undecided.
        reason: Reason in words, or None if none was given.
        at_ms: Time in milliseconds since 1970.
    """

    gate: str
    verdict: str
    by: str | None
    reason: str | None
    at_ms: int


@define(kw_only=True)
class CallStory:
    """The facts about one call so far.

    Attributes:
        effective: The arguments that ran, were refused, or are pending. None before they are known.
    """

    call: ToolCall
    seq: int
    at_ms: int
    effective: JsonObject | None = None
    gates: list[CallGate] = field(factory=list)
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    result: ToolResult | None = None
    outcome: StoryOutcome | None = None
    offloaded: str | None = None


def story_of_call(call_id: str, events: Iterable[Event]) -> CallStory | None:
    stories = dict[str, CallStory]()
    for event in events:
        tell_stories(stories, event)
    return stories.get(call_id)


def call_in(event: ResponseComplete, call_id: str) -> ToolCall | None:
    return next((one for one in event.message.calls if one.call_id == call_id), None)


def tell_stories(stories: dict[str, CallStory], event: Event) -> None:
    """Add an event to the stories by call id. A response begins those of its calls."""
    meta = event.meta
    at_ms, seq = (0, 0) if meta is None else (meta.at_ms, meta.seq)
    if isinstance(event, ResponseComplete):
        for call in event.message.calls:
            stories[call.call_id] = CallStory(call=call, seq=seq, at_ms=at_ms)
    elif type(event) in TELL_OF_CALLS:
        told: Any = getattr(event, "approval", event)
        story = stories.get(told.call_id)
        if story is not None:
            _tell_story(story, event, at_ms)


def _tell_story(story: CallStory, event: Event, at_ms: int) -> None:
    match event:
        case ApprovalRequired(approval=asked):
            story.effective = asked.arguments
            story.gates.append(
                CallGate(gate="approval", verdict="asked", by=None, reason=asked.hint, at_ms=at_ms)
            )
        case ApprovalResolved(status=status, by=by, user=user):
            gate = "rule" if by == "rule" else "approval"
            story.gates.append(CallGate(gate=gate, verdict=status, by=user or by, reason=None, at_ms=at_ms))
        case ToolBlocked(by=by, reason=reason):
            story.outcome = "blocked"
            story.gates.append(CallGate(gate="plugin", verdict="blocked", by=by, reason=reason, at_ms=at_ms))
        case ToolExecutionStart(arguments=arguments):
            story.effective, story.started_at_ms = arguments, at_ms
        case ToolKilled():
            story.outcome = "killed"
        case ToolSkippedForSteering():
            story.outcome = "skipped"
        case ToolCallUnknown():
            story.outcome = "unknown"
        case LargeResultOffloaded(path=path):
            story.offloaded = path
        case ToolExecutionEnd(result=result):
            story.result, story.ended_at_ms = result, at_ms
            story.outcome = story.outcome or ("error" if result.is_error else "done")
        case ToolTookEffect(result=result):
            story.result, story.ended_at_ms = result, at_ms
            story.outcome = "error" if result.is_error else "done"
        case _ as never:
            raise AssertionError(never)
