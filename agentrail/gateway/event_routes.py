"""The routes that show: events of a session as a stream, what this server is, and whether it works.

Nothing is changed here. `/`, `/health` and `/ready` ask for no token, and say nothing that a stranger may not know.
"""

import math
from typing import Final

from agentrail.gateway.queries import check_id, cursor_of
from agentrail.gateway.replies import CheckReply, HealthReply, ReadyReply, as_given
from agentrail.gateway.routing import CallRoute, Result, RouteCall, StreamAnswer, WholeAnswer, answer_json
from agentrail.gateway.stream_reader import StreamReader
from agentrail.gateway.streams import finish_with
from agentrail.host.readiness import CheckResult

_NOT_READY: Final = 503


async def answer_events(call: RouteCall) -> Result:
    """Show what a session publishes, from a number on or from now on; to the end of a request, where one is named."""
    session_id = call.params["session_id"]
    after = cursor_of(call.head.headers.get("last-event-id"), call.query.get("after"))
    request_id = call.query.get("request_id")
    host, principal = call.host, call.principal
    session = await host.session_to_read(session_id, principal)
    if request_id is None:
        return StreamAnswer(session=session, after=after)
    check_id("request_id", request_id)
    await host.request(session_id, request_id, principal)

    async def follow(reader: StreamReader) -> None:
        record = await host.wait_for_request(session_id, request_id, principal, within=math.inf)
        finish_with(reader, record)

    return StreamAnswer(session=session, after=after, follow=follow)


async def answer_root(call: RouteCall) -> WholeAnswer:  # noqa: ASYNC124 - the handler of a route, which is awaited
    """Say what this is, and where the rest of it is described: for who opens the address that `serve` prints. It names no version."""
    base = call.head.path.rstrip("/")
    told = {
        "service": "agentrail",
        "interface": f"{base}/openapi.json",
        "health": f"{base}/health",
        "ready": f"{base}/ready",
        "socket": f"{base}/ws",
    }
    return answer_json(told)


async def answer_health(_: RouteCall) -> WholeAnswer:  # noqa: ASYNC124 - the handler of a route, which is awaited
    """Say that the process answers."""
    return answer_json(HealthReply(status="ok"))


async def answer_ready(call: RouteCall) -> WholeAnswer:
    """Run all checks, and say which of them failed; why stands in the log alone."""
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
    )


EVENT_ROUTES: Final = (
    CallRoute(
        "GET",
        "/sessions/{session_id}/events",
        answer_events,
        does="shows what a session publishes as server-sent events",
        query=("after", "request_id"),
        is_stream=True,
    ),
    CallRoute("GET", "/", answer_root, does="says what this is, and where it is described", scope=None),
    CallRoute("GET", "/health", answer_health, does="says that the process answers", scope=None),
    CallRoute("GET", "/ready", answer_ready, does="says whether the server can do its work", scope=None),
)
