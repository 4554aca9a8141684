"""The alerts and the dashboard of docs/operations: they name metrics that exist, fire under their fault, and are silent without one."""

import json
import re
import shutil
import subprocess
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
import trio
import yaml
from prometheus_client.parser import text_string_to_metric_families

import agentrail
from agentrail.errors import AgentrailError, BadRequest
from agentrail.plugins import HumanApproval
from agentrail.runtime import supervisor_gauges
from agentrail.runtime.supervisor_gauges import measured
from agentrail.stores.memory import MemoryStore
from agentrail.telemetry import reader as reader_module
from agentrail.telemetry.metric_totals import LABELS, METRICS
from agentrail.telemetry.metrics import Metrics
from agentrail.telemetry.reader import TelemetryReader
from agentrail.testing.cancelling import crash
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel, calls, fails, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from agentrail.tools.mcp.server_options import McpServer
from tests.conftest import SERVICES
from tests.pages import fences_of
from tests.runtime.rig import NoSandbox, on_bounded_time, on_virtual_time

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "operations"
ALERTS = FOLDER / "alerts.yml"
RULES = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
BOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]

_WORDS = frozenset(
    [
        "sum",
        "by",
        "rate",
        "increase",
        "delta",
        "min",
        "max",
        "min_over_time",
        "histogram_quantile",
        "le",
        "or",
        "instance",
    ]
)


def names_in(expression):
    """The metrics, labels and functions of an expression, without its strings and ranges."""
    bare = re.sub(r'"[^"]*"|\[[^]]*\]', "", expression)
    return set(re.findall(r"[A-Za-z_]\w*", bare)) - _WORDS


def known_names():
    made = {
        f"{name}{suffix}"
        for name, one in METRICS.items()
        if one.buckets
        for suffix in ("_bucket", "_sum", "_count")
    }
    return made | set(METRICS) | set(LABELS)


@pytest.mark.operation(16)
@pytest.mark.parametrize("expression", [*[rule["expr"] for rule in RULES], *QUERIES])
def test_an_expression_names_only_what_there_is(expression):
    """A renamed metric or label would make an alert silent, and Prometheus would not complain."""
    assert names_in(expression)
    assert names_in(expression) <= known_names()


@pytest.mark.operation(16)
def test_the_dashboard_shows_every_metric_and_its_panels_do_not_overlap():
    """Its only variable is the data source, so it can be imported anywhere."""
    shown = set().union(*map(names_in, QUERIES))
    assert [name for name in METRICS if not {name, f"{name}_bucket"} & shown] == []
    places = [tuple(panel["gridPos"].values()) for panel in BOARD["panels"]]
    assert len(set(places)) == len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    assert {one["name"] for one in BOARD["templating"]["list"]} == {"datasource"}


@pytest.mark.operation(16)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_names_the_section_that_says_what_to_do(rule):
    """The link ends in the heading with its name, and the severity is `page` or `ticket`."""
    page, _, anchor = rule["annotations"]["page"].partition("#")
    headings = re.findall(r"^### (\w+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert rule["alert"] in headings
    assert anchor == rule["alert"].lower()
    assert rule["labels"]["severity"] in {"page", "ticket"}


@pytest.mark.services("prometheus")
def test_promtool_accepts_the_alerts():
    """Syntax and templates, as checked by Prometheus itself."""
    done = subprocess.run([promtool(), "check", "rules", ALERTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(RULES)} rules found" in done.stdout
    assert len(RULES) == 10


@pytest.mark.services("prometheus")
def test_promtool_accepts_the_configuration_of_the_page(tmp_path):
    """With the file of rules and the file of the token that it names."""
    (shown,) = [one.body for one in fences_of("docs/how-to/metrics-and-alerts.md") if one.kind == "yaml"]
    (tmp_path / "prometheus.yml").write_text(shown)
    (tmp_path / "prometheus.token").write_text("a token")
    shutil.copy(ALERTS, tmp_path)
    command = [promtool(), "check", "config", tmp_path / "prometheus.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


# --- faults


@asynccontextmanager
async def opened(metrics, *consumers, **options):
    given = {"reader": TelemetryReader([metrics, *consumers]), **options}
    async with open_nameless(lambda _name, _root: NoSandbox(), **given) as supervisor:
        with measured(supervisor, metrics):
            yield supervisor


@asynccontextmanager
async def talking(metrics, answer=lambda _request: says("Hi."), *consumers, plugins=(), **options):
    """A session that answers, and what asks it again."""
    async with opened(metrics, *consumers, **options) as supervisor:
        session = await supervisor.start_session(model=FunctionModel(answer), plugins=plugins)

        async def ask():
            with suppress(AgentrailError):
                await session.ask("Hi")

        yield ask


@asynccontextmanager
async def lost_store(metrics):
    store = FaultyStore(MemoryStore(lease_ms=0))
    async with talking(metrics, store=store, store_patience=0.1) as ask:

        async def strike():
            store.go_away()
            await ask()

        yield strike
        store.mend()


@asynccontextmanager
async def crashing(metrics):
    async with opened(metrics) as supervisor:

        async def strike():
            session = await supervisor.start_session(model=FunctionModel(lambda _request: says("Hi.")))
            with suppress(AgentrailError):
                for _ in range(3):
                    crash(session)
                    await session.status()

        yield strike


@asynccontextmanager
async def unanswered(metrics):
    """An approval that nobody decides."""
    async with opened(metrics) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.start_session(
            model=FunctionModel(lambda _request: calls(("book", {}))),
            tools=[RecordingTool(name="book")],
            plugins=[(HumanApproval, {"require_approval_for": ["book"]})],
        )
        await session.prompt("Hi")
        yield trio.lowlevel.checkpoint
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def flooded(metrics):
    async with opened(metrics) as supervisor:
        slow = FunctionModel(lambda _request: says("Hi.", pause_seconds=100_000.0))
        session = await supervisor.start_session(model=slow)
        for _ in range(60):
            await session.prompt("Hi")
        yield trio.lowlevel.checkpoint


class Hanging:
    name, has_cursors, rejected = "spans", False, 0

    async def take(self, events):
        await trio.sleep_forever()

    def first_needed(self, scope, session_id):
        return None


FAILING = PuppetPlugin((read_rule("AfterResponse", "raise:a fuse blew"),), name="guard", priority=430)

FAULTS = {
    "none": (talking, set()),
    "store": (lost_store, {"AgentrailStoreUnavailable"}),
    "loop": (talking, {"AgentrailLoopHeld"}),
    "model": (
        lambda metrics: talking(metrics, lambda _request: fails(BadRequest("never"))),
        {"AgentrailCyclesFailing", "AgentrailModelFailing"},
    ),
    "crashes": (crashing, {"AgentrailSessionParked"}),
    "approvals": (unanswered, {"AgentrailApprovalsWaiting"}),
    "queue": (flooded, {"AgentrailQueueLong"}),
    "telemetry": (
        lambda metrics: talking(metrics, lambda _request: says("Hi."), Hanging()),
        {"AgentrailTelemetryBehind"},
    ),
    "plugin": (lambda metrics: talking(metrics, plugins=[FAILING]), {"AgentrailPluginFailing"}),
}


GROWING = "agentrail_parked_sessions"
"""A gauge that never falls."""


async def scrapes_of(fault):
    """Values of three scrapes: before a fault, and twice under it."""
    metrics, scrapes = Metrics(), []
    async with fault(metrics) as strike:
        for number in range(3):
            if number:
                for _ in range(3):
                    await strike()
            await trio.sleep(1)
            scrapes.append(await scrape(metrics))
    return scrapes


async def scrape(metrics):
    text = (await metrics.render())[1].decode()
    return {
        (one.name, *sorted(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def series_of(scrapes):
    """The scrapes as input of promtool, a minute apart, and an hour in which it goes on like between the last two."""
    for key, last in scrapes[-1].items():
        labels = ",".join(f'{name}="{value}"' for name, value in key[1:])
        values = [f"{one[key]:f}" if key in one else "_" for one in scrapes]
        is_gauge = key[0] in METRICS and METRICS[key[0]].kind == "gauge" and key[0] != GROWING
        growth = 0.0 if is_gauge else last - scrapes[-2].get(key, 0.0)
        yield {"series": f"{key[0]}{{{labels}}}", "values": f"{' '.join(values)}+{growth:f}x70"}


@on_virtual_time
@pytest.mark.operation(16)
@pytest.mark.services("prometheus")
@pytest.mark.parametrize("name", FAULTS)
async def test_each_alert_fires_under_its_fault_alone(name, monkeypatch, tmp_path):
    """Prometheus evaluates the rules on scrapes of a faulty supervisor. Without a fault, none fires."""
    fault, expected = FAULTS[name]
    if name == "telemetry":
        monkeypatch.setattr(reader_module, "QUEUE_EVENTS", 5)
    # Otherwise a busy machine, which may keep this process from running for a while, is a fault of its own.
    ticks = count(step=0.5 if name == "loop" else 0)
    monkeypatch.setattr(supervisor_gauges, "perf_counter", lambda: next(ticks))
    check_rules(tmp_path, await scrapes_of(fault), samples_of(expected))


@on_bounded_time
@pytest.mark.operation(16)
@pytest.mark.services("prometheus")
async def test_an_mcp_server_that_ends_again_and_again_fires_its_alert(tmp_path):
    """A real process, so on a real clock."""
    metrics, down = Metrics(), ("agentrail_mcp_servers", ("state", "restarting"))
    server = McpServer("files", command=["false"])
    async with agentrail.open_supervisor(mcp=[server], metrics=metrics) as supervisor:
        await supervisor.start_session(model=FunctionModel(lambda _request: says("Hi.")))
        while down not in (seen := await scrape(metrics)):  # noqa: ASYNC110 - it is seen from outside
            await trio.sleep(0.05)
    check_rules(tmp_path, [seen] * 3, samples_of({"AgentrailMcpServerDown"}))


def samples_of(alerts):
    return [{"labels": f'{{alertname="{one}"}}', "value": 1} for one in sorted(alerts)]


def check_rules(folder, scrapes, samples):
    test = {
        "rule_files": [f"{ALERTS}"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [*series_of(scrapes)],
                "promql_expr_test": [
                    {
                        "expr": 'group by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": "70m",
                        "exp_samples": samples,
                    }
                ],
            }
        ],
    }
    path = folder / "test.yml"
    path.write_text(yaml.safe_dump(test), encoding="utf-8")
    done = subprocess.run([promtool(), "test", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def promtool():
    return SERVICES["prometheus"]
