"""Read-only routes: events of a session, a description of the server, and its health."""

import math
from typing import Any, Final

from agentrail.core.session.request_preview import ContextReply
from agentrail.gateway.calls import event_queries
from agentrail.gateway.chat_routes import finish_with
from agentrail.gateway.console_files import lead_to_console, wants_page
from agentrail.gateway.inspection_replies import CallDetails, EventPageReply, SpanPage
from agentrail.gateway.path_endpoint import (
    CallAim,
    CallRoute,
    Result,
    RouteCall,
    aim_nowhere,
    aim_of_call,
)
from agentrail.gateway.request_parser import (
    check_id,
    cursor_of,
    refuse_field,
    whole_number,
    yes_or_no,
)
from agentrail.gateway.response_bodies import CheckReply, HealthReply, ReadyReply, as_given
from agentrail.gateway.session_routes import in_path, number_in_query, runs
from agentrail.gateway.stream_reader import StreamReader
from agentrail.gateway.streams import EventStream
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host.readiness import CheckResult
from agentrail.runtime.event_history import PageAsked

_NO_CONTENT: Final = 204
_NOT_READY: Final = 503


async def answer_events(call: RouteCall) -> Result:
    session_id = call.params["session_id"]
    if _format_of(call) == "json":
        return await _answer_page(call, session_id)
    after = cursor_of(call.head.headers.get("last-event-id"), call.query.get("after"))
    request_id = call.query.get("request_id")
    host, principal = call.host, call.principal
    session = await host.session_to_read(session_id, principal)
    if request_id is None:
        return EventStream(session=session, after=after)
    check_id("request_id", request_id)
    record = await host.request(session_id, request_id, principal)
    is_read = record.has_ended and after is not None and after >= (record.end_seq or 0)
    if is_read and "last-event-id" in call.head.headers:
        return WholeAnswer(status=_NO_CONTENT, headers={"cache-control": "no-store"})

    async def follow(reader: StreamReader) -> None:
        record = await host.wait_for_request(session_id, request_id, principal, within=math.inf)
        finish_with(reader, record)

    return EventStream(session=session, after=after, follow=follow)


_OF_A_PAGE: Final = ("before", "limit", "kinds", "whole")
"""Query parameters of a page that a stream does not accept."""


def _format_of(call: RouteCall) -> str:
    told = call.query.get("format", "stream")
    if told not in ("json", "stream"):
        refuse_field("format", f"is {told!r:.40}: expected json or stream")
    wrong = [one for one in _OF_A_PAGE if told == "stream" and one in call.query]
    if wrong:
        refuse_field(wrong[0], "works only for pages: add format=json")
    if told == "json" and "request_id" in call.query:
        refuse_field("request_id", "works only for streams: omit it, or omit format=json")
    return told


def _aim_of_events(call: RouteCall) -> CallAim:
    """Any node reads a page from the store. A stream needs the session's own node."""
    return aim_nowhere(call) if call.query.get("format") == "json" else aim_of_call(call)


async def _answer_page(call: RouteCall, session_id: str) -> WholeAnswer:
    query = call.query
    numbers: Any = {one: whole_number(one, query[one], 0) for one in ("before", "after") if one in query}
    if len(numbers) > 1:
        refuse_field("before", "and after are given: give one of them, or none for the last page")
    limit = whole_number("limit", query.get("limit"), 200, least=1, most=event_queries.MAX_EVENTS_OF_A_PAGE)
    is_whole = yes_or_no("whole", query.get("whole"))
    if is_whole and limit != 1:
        refuse_field("whole", "works only for a single event: add limit=1")
    asked = PageAsked(limit=limit, kinds=event_queries.kinds_of_query(query.get("kinds")), **numbers)
    made = await event_queries.read_events(call.host, call.principal, session_id, asked, is_whole=is_whole)
    return WholeAnswer(body=made.body, headers={"cache-control": "no-store"})


_call_details: Final = runs(
    event_queries.read_call_details,
    in_path("session_id"),
    in_path("call_id"),
    result_from=number_in_query("result_from", 0),
    result_to=number_in_query("result_to"),
)
_context: Final = runs(event_queries.read_context, in_path("session_id"))
_spans: Final = runs(
    event_queries.inspect_spans, in_path("session_id"), cycle=number_in_query("cycle", least=1)
)


async def answer_root(call: RouteCall) -> WholeAnswer:  # noqa: RUF029 - the handler of a route, which is awaited
    """Describe the server without its version. Browsers are redirected to the console."""
    if call.gateway.has_console and wants_page(call.head.headers):
        return lead_to_console()
    base = call.head.path.rstrip("/")
    told = {
        "service": "agentrail",
        "interface": f"{base}/openapi.json",
        "health": f"{base}/health",
        "ready": f"{base}/ready",
        "socket": f"{base}/ws",
    }
    return answer_json(told, headers={"vary": "Accept"})


async def answer_health(_: RouteCall) -> WholeAnswer:  # noqa: RUF029 - the handler of a route, which is awaited
    return answer_json(HealthReply(status="ok"))


async def answer_ready(call: RouteCall) -> WholeAnswer:
    """Run all readiness checks and report the failed ones. Only the log has the causes."""
    host = call.gateway.host
    if host is None:
        return answer_json(ReadyReply(status="not_started", checks=()), _NOT_READY)
    results = await host.ready()
    is_ready = all(one.is_ready for one in results)
    told = ReadyReply(status="ready" if is_ready else "not_ready", checks=tuple(map(_told, results)))
    return answer_json(told, 200 if is_ready else _NOT_READY)


def _told(result: CheckResult) -> CheckReply:
    return CheckReply(
        name=result.name,
        status="ready" if result.is_ready else "not_ready",
        duration_ms=result.duration_ms,
        error=as_given(result.error),
        reason=as_given(result.reason or None),
    )


EVENT_ROUTES: Final = (
    CallRoute(
        "GET",
        "/sessions/{session_id}/events",
        answer_events,
        does="streams the events of a session, or returns a page of them as JSON",
        query=("after", "request_id", "format", *_OF_A_PAGE),
        is_stream=True,
        aim=_aim_of_events,
        replies={200: EventPageReply, 204: ()},
        refusals="cursor_invalid request_unknown option_error",
    ),
    CallRoute(
        "GET",
        "/sessions/{session_id}/calls/{call_id}",
        _call_details,
        does="shows a call and its result in parts",
        query=("result_from", "result_to"),
        replies={200: CallDetails},
        refusals="unknown_call",
    ),
    CallRoute(
        "GET",
        "/sessions/{session_id}/context",
        _context,
        does="shows the next request to the model, part by part",
        replies={200: ContextReply},
    ),
    CallRoute(
        "GET",
        "/inspect/sessions/{session_id}/spans",
        _spans,
        does="shows the timeline of a session or of one cycle",
        query=("cycle",),
        scope="inspect",
        aim=aim_nowhere,
        replies={200: SpanPage},
    ),
    CallRoute(
        "GET",
        "/",
        answer_root,
        does="names the server and its documentation",
        scope=None,
        replies={302: ()},
    ),
    CallRoute(
        "GET",
        "/health",
        answer_health,
        does="reports that the process is alive",
        scope=None,
        replies={200: HealthReply},
    ),
    CallRoute(
        "GET",
        "/ready",
        answer_ready,
        does="reports whether the server is ready",
        scope=None,
        replies={200: ReadyReply, 503: ReadyReply},
    ),
)
