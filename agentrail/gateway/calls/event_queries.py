"""Calls about published events. They wake no session, and secrets were removed before publication."""

from collections.abc import Sequence
from typing import Final

import msgspec

from agentrail import outside
from agentrail.core.journal.call_history import TELL_OF_CALLS, CallStory, call_in, story_of_call
from agentrail.core.journal.timeline import SpanItem, Timeline
from agentrail.core.policy.calls import hash_arguments
from agentrail.events import Event, ResponseComplete
from agentrail.frozen import canonical_json, thawed
from agentrail.gateway.calls.inspection import check_may_inspect
from agentrail.gateway.error_responses import refuse_call
from agentrail.gateway.event_pages import encode_event_page
from agentrail.gateway.inspection_replies import CallDetails, CallResult, SpanPage
from agentrail.gateway.request_parser import events_of_kinds
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host import Host, Principal
from agentrail.runtime.event_history import PageAsked
from agentrail.runtime.session_rows import hold_next_request
from agentrail.structs import picked_fields

MAX_EVENTS_OF_A_PAGE: Final = 1_000
MAX_RESULT_PART_BYTES: Final = 1 << 20
"""Maximum size of one part of a result."""

USUAL_RESULT_BYTES: Final = 256 << 10
"""Default size of a part."""

MAX_BYTES_OF_DETAILS: Final = 64 << 10

_LOOKED_AT_ONCE: Final = 5_000


def kinds_of_query(text: str | None) -> frozenset[type[Event]] | None:
    """Parse event kinds, separated by commas; None for all."""
    if text is None:
        return None
    names = [one for one in text.split(",") if one]
    return frozenset(events_of_kinds(names or [""]))


async def read_events(
    host: Host, principal: Principal, session_id: str, asked: PageAsked, *, is_whole: bool = False
) -> WholeAnswer:
    page = await host.read_events(session_id, principal, asked)
    return WholeAnswer(body=encode_event_page(page, is_forth=asked.after is not None, is_whole=is_whole))


async def read_call_details(  # noqa: PLR0913 - the call, and the part of its result
    host: Host,
    principal: Principal,
    session_id: str,
    call_id: str,
    *,
    result_from: int = 0,
    result_to: int | None = None,
) -> WholeAnswer:
    end = result_from + USUAL_RESULT_BYTES if result_to is None else result_to
    end = max(result_from, min(end, result_from + MAX_RESULT_PART_BYTES))
    story = await _story_of(host, principal, session_id, call_id)
    if story is None:
        refuse_call("unknown_call", "this session has no call with this id, or it can no longer be read")
    return answer_json(reply_of_story(story, result_from, end))


async def _story_of(host: Host, principal: Principal, session_id: str, call_id: str) -> CallStory | None:
    before: int | None = None
    behind: tuple[Event, ...] = ()
    while True:
        asked = PageAsked(before=before, limit=_LOOKED_AT_ONCE, kinds=TELL_OF_CALLS)
        page = await host.read_events(session_id, principal, asked)
        story = story_of_call(call_id, (*page.events, *behind))
        if story is not None or not page.more:
            return story
        # Only events of this call are kept while reading back: otherwise a long session would be in memory at
        # once.
        behind = (*(one for one in page.events if _tells_of(one, call_id)), *behind)
        before = page.first


# --- derived from events


async def read_context(host: Host, principal: Principal, session_id: str) -> WholeAnswer:
    session = await host.session(session_id, principal)
    await session.status()  # wakes a hibernated session, because only the session knows its next request
    draw = hold_next_request(session)
    if draw is None:
        refuse_call("session_ended", "the session has ended and sends no more requests")
    return answer_json(await outside.offload(draw, abandon_on_cancel=True))


async def inspect_spans(
    host: Host, principal: Principal, session_id: str, *, cycle: int | None = None
) -> WholeAnswer:
    check_may_inspect(principal)
    # The prompt comes before the cycle that it started, and the settlement of an abort after it.
    after = None if cycle is None else max(0, cycle - 2)
    page = await host.inspect_events(session_id, principal, PageAsked(after=after, limit=_LOOKED_AT_ONCE))
    timeline = Timeline()
    begins, more = page.first, page.more
    while True:
        for event in page.events:
            timeline.hear(event)
        has_ended = any(
            one.seq == cycle and one.kind == "cycle" and one.to_ms is not None for one in timeline.spans
        )
        if cycle is None or not page.more or has_ended:
            break
        page = await host.inspect_events(
            session_id, principal, PageAsked(after=page.last, limit=_LOOKED_AT_ONCE)
        )
    spans = timeline.spans if cycle is None else _of_cycle(timeline.spans, cycle)
    return answer_json(
        SpanPage(spans=tuple(spans), first=begins, last=page.last, more=more and cycle is None)
    )


def _of_cycle(spans: Sequence[SpanItem], cycle: int) -> tuple[SpanItem, ...]:
    """Return a cycle with its spans, parents first, except that a gate comes before its call."""
    below = {f"cycle:{cycle}"}
    grown = -1
    while grown != len(below):
        grown = len(below)
        below |= {one.key for one in spans if one.parent in below}
    return tuple([one for one in spans if one.key in below])


def _tells_of(event: Event, call_id: str) -> bool:
    if isinstance(event, ResponseComplete):
        return call_in(event, call_id) is not None
    approval = getattr(event, "approval", None)
    return getattr(event if approval is None else approval, "call_id", None) == call_id


def reply_of_story(story: CallStory, result_from: int, result_to: int) -> CallDetails:
    effective = story.effective
    return CallDetails(
        call_id=story.call.call_id,
        name=story.call.name,
        arguments=None if story.call.arguments is None else thawed(story.call.arguments),
        effective_arguments=None if effective is None else thawed(effective),
        arguments_text=None if effective is None else canonical_json(effective).decode(),
        arguments_hash=None if effective is None else hash_arguments(effective),
        gates=tuple(story.gates),
        result=_part_of_result(story, result_from, result_to),
        **picked_fields(story, "at_ms", "started_at_ms", "ended_at_ms", "outcome", "seq", "offloaded"),
    )


def _part_of_result(story: CallStory, start: int, end: int) -> CallResult | None:
    result = story.result
    if result is None:
        return None
    whole = result.text.encode("utf-8", "replace")
    start, end = _at_character(whole, start), _at_character(whole, end)
    details = None if result.details is None else thawed(result.details)
    if details is not None and len(msgspec.json.encode(details)) > MAX_BYTES_OF_DETAILS:
        details = None
    return CallResult(
        content=whole[start:end].decode(),
        error=result.is_error,
        size=len(whole),
        from_bytes=start,
        to_bytes=end,
        details=details,
    )


def _at_character(text: bytes, place: int) -> int:
    place = min(place, len(text))
    while place < len(text) and text[place] & 0xC0 == 0x80:  # noqa: PLR2004 - continuation bytes of a character
        place += 1
    return place
