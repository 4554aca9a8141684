"""`GET /metrics`, with a token of its own scope, or on an address of its own without one."""

from typing import Final

from attrs import evolve
from starlette.applications import Starlette

from agentrail.gateway.path_endpoint import CallRoute, Gateway, RouteCall, starlette_routes
from agentrail.gateway.route_errors import BY_PLACE
from agentrail.gateway.whole_answer import WholeAnswer
from agentrail.telemetry.metric_totals import OPEN_METRICS, PLAIN_TEXT


async def _metrics(call: RouteCall) -> WholeAnswer:
    metrics = call.host.options.metrics
    assert metrics is not None  # noqa: S101 - the route exists only with metrics
    content_type, text = await metrics.render(call.head.headers.get("accept", ""))
    return WholeAnswer(body=text, content_type=content_type)


METRICS_ROUTES: Final = (
    CallRoute(
        "GET",
        "/metrics",
        _metrics,
        does="returns metrics of all tenants in the formats of Prometheus",
        scope="metrics",
        needs_user=False,
        content=(PLAIN_TEXT, OPEN_METRICS),
        replies={},
    ),
)


def scrape_application(gateway: Gateway) -> Starlette:
    """Create an application that serves `/metrics` alone, without a token, while the gateway's host is open."""
    routes = [
        evolve(one, scope=None, is_guarded=True, refusals=f"{BY_PLACE} not_started") for one in METRICS_ROUTES
    ]
    return Starlette(routes=starlette_routes(gateway, routes))
