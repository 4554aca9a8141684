"""`GET /metrics` over HTTP: who may read it, in both formats, and what it says of a host."""

import re

import pytest
import trio
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from agentrail.gateway.metrics_routes import scrape_application
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.host import HostPlugin
from agentrail.host.hook_payloads import Principal
from agentrail.host.quotas import Limits
from agentrail.telemetry.metric_totals import METRICS
from agentrail.telemetry.metrics import Metrics
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.gateway import callers
from tests.gateway.callers import by
from tests.gateway.web import serving
from tests.runtime.rig import on_bounded_time

pytestmark = on_bounded_time

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
SCRAPER = Principal(tenant_id="ops", user_id="prometheus", scopes=("metrics",))


def auth(headers):
    return SCRAPER if headers.get("authorization") == "Bearer scraper" else callers.auth(headers)


def samples_of(text, parse=plain_text):
    """The values of a scrape by name and labels, as an official parser reads them."""
    return {
        (one.name, *sorted(one.labels.items())): one.value for family in parse(text) for one in family.samples
    }


async def scrape(web, **given):
    answer = await web.client.get("/metrics", **given)
    assert answer.status_code == 200, answer.text
    return answer


async def until(web, test):
    """Scrape until the reader of events has passed on what a test waits for."""
    with trio.fail_after(10):
        while not test(found := samples_of((await scrape(web)).text)):  # noqa: ASYNC110 - it is seen from outside
            await trio.sleep(0.05)
    return found


class Clumsy(HostPlugin):
    name = "clumsy"

    async def on_request_start(self, ctx):
        message = "a canary"
        raise RuntimeError(message)


@pytest.mark.operation(7)
async def test_both_formats_say_what_sessions_hooks_and_the_store_did(tmp_path):
    """Official parsers of Prometheus and OpenMetrics read the same values. Only OpenMetrics has exemplars, and no text of a hook's error is shown."""
    model = ScriptedModel([calls(("book", {})), says("Done."), says("Again.")])
    options = {
        "session_tools": [RecordingTool(name="book")],
        "store": f"sqlite:{tmp_path / 's.db'}",
        "metrics": Metrics(),
    }
    async with serving(model, Clumsy(), **options) as web:
        await web.chat()
        ended = ("agentrail_cycles_total", ("outcome", "ok"), ("profile", "desk"))
        behind = ("agentrail_telemetry_behind_events",)
        found = await until(web, lambda found: found.get(ended) and found.get(behind) == 0)
        expected = {
            ended: 1,
            ("agentrail_cycle_seconds_count",): 1,
            (
                "agentrail_model_requests_total",
                ("model", "object"),
                ("outcome", "ok"),
                ("provider", "scripted"),
            ): 2,
            ("agentrail_tool_calls_total", ("outcome", "ok"), ("tool", "book")): 1,
            ("agentrail_plugin_failures_total", ("hook", "on_request_start"), ("plugin", "clumsy")): 1,
            ("agentrail_host_hook_seconds_count", ("hook", "on_request_start"), ("plugin", "clumsy")): 1,
            ("agentrail_sessions", ("phase", "idle")): 1,
            ("agentrail_sessions", ("phase", "asleep")): 0,
            ("agentrail_subscribers", ("transport", "sse")): 0,
            ("agentrail_subscribers", ("transport", "websocket")): 0,
            ("agentrail_store_available",): 1,
            behind: 0,
            ("agentrail_events_dropped_total", ("reason", "queue_full")): 0,
            ("agentrail_parked_sessions",): 0,
            ("agentrail_approvals_pending",): 0,
            ("agentrail_queue_length",): 0,
            ("agentrail_survivors",): 0,
        }
        assert {key: found.get(key) for key in expected} == expected
        assert found["agentrail_journal_append_seconds_count",] >= 1
        assert found["agentrail_journal_bytes_total",] > 500
        assert 0 < found["agentrail_loop_lag_seconds",] < 30
        assert not [key for key in found if key[0].endswith("_created")]
        answer = await scrape(web, headers={"accept": OPEN_METRICS})
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        again = samples_of(answer.text, open_metrics)
        assert {key: again.get(key) for key in expected} == expected
        families = {one.name for one in open_metrics(answer.text)}
        assert families == {name.removesuffix("_total") for name in METRICS}
        assert re.search(r'agentrail_cycle_seconds_bucket.* # \{trace_id="[0-9a-f]{32}"\}', answer.text)
        assert "canary" not in answer.text


async def test_a_phase_that_no_session_is_in_any_more_is_not_reported():
    """Otherwise the gauge would show the stopped session indefinitely."""
    async with serving(ScriptedModel([says("Hi.")]), metrics=Metrics()) as web:
        await web.chat(session_id="main")
        await until(web, lambda found: found.get(("agentrail_sessions", ("phase", "idle"))) == 1)
        await web.host.supervisor.stop_session("main", scope="local")
        await until(web, lambda found: ("agentrail_sessions", ("phase", "idle")) not in found)


async def test_open_streams_are_subscribers():
    """They count by transport: a stream over HTTP is `sse`."""
    async with serving(ScriptedModel([says("Hi.")]), metrics=Metrics()) as web:
        await web.chat(session_id="main")
        async with web.client.stream("GET", "/sessions/main/events"):
            await until(web, lambda found: found["agentrail_subscribers", ("transport", "sse")] == 1)


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        (None, 401, "unauthorized"),
        ("boss", 403, "forbidden"),
        ("ann", 403, "forbidden"),
        ("scraper", 200, None),
    ],
)
async def test_only_a_token_for_metrics_may_read_them(name, status, code):
    """Metrics cover all tenants, so the scopes of an operator of one tenant are not enough."""
    async with serving(ScriptedModel([]), metrics=Metrics(), auth=auth) as web:
        answer = await web.client.get("/metrics", headers={} if name is None else by(name))
        assert answer.status_code == status
        assert code is None or answer.json()["error"]["code"] == code


async def test_a_caller_that_asks_again_and_again_is_refused():
    """Scrapes count as calls of the principal, with the same limit and `Retry-After`."""
    limits = Limits(calls_per_minute=1, calls_burst=5)
    async with serving(
        ScriptedModel([]), metrics=Metrics(), auth=auth, headers=by("scraper"), limits=limits
    ) as web:
        answers = [await web.client.get("/metrics") for _ in range(7)]
        assert {one.status_code for one in answers[:4]} == {200}
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) >= 1


async def test_without_metrics_there_is_nothing_at_this_path():
    """The answer is 404, not 403."""
    async with serving(ScriptedModel([])) as web:
        assert (await web.client.get("/metrics")).status_code == 404


async def test_an_address_of_its_own_serves_metrics_alone_and_needs_no_token():
    """A foreign `Host` is refused there too, and other routes do not exist."""
    async with serving(ScriptedModel([]), metrics=Metrics(), auth=auth) as web:
        listeners = await open_listeners("127.0.0.1", 0)
        base = f"http://127.0.0.1:{addresses_of(listeners)[0][1]}"
        async with trio.open_nursery() as nursery:
            application = scrape_application(web.served.gateway)
            nursery.start_soon(serve_app, application, listeners, trio.sleep_forever)
            answer = await web.client.get(f"{base}/metrics")
            assert (answer.status_code, answer.headers["content-type"][:24]) == (
                200,
                "text/plain; version=0.0.",
            )
            assert samples_of(answer.text)["agentrail_store_available",] == 1
            other = await web.client.get(f"{base}/metrics", headers={"host": "evil.example"})
            assert other.json()["error"]["code"] == "host_refused"
            assert (await web.client.get(f"{base}/sessions")).status_code == 404
            nursery.cancel_scope.cancel()
