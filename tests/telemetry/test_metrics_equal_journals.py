"""Counters equal what the journals say, after a thousand cycles that end in all the ways there are."""

from collections import Counter
from contextlib import suppress
from random import Random

import pytest
import trio
from attrs import evolve
from prometheus_client.parser import text_string_to_metric_families

from agentrail import errors, events as e
from agentrail.abc import Error
from agentrail.core.policy.budget import Price
from agentrail.errors import AgentrailError
from agentrail.messages import TokenUsage
from agentrail.runtime.supervisor_gauges import measured
from agentrail.stores.memory import MemoryStore
from agentrail.telemetry.metrics import Metrics
from agentrail.telemetry.reader import TelemetryReader
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, fails, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import NoSandbox, on_virtual_time

SESSIONS, CYCLES = 25, 40
ENDS = e.AgentEnd | e.AgentError | e.AgentAbort | e.Retry | e.StreamError | e.ResponseComplete


class Priced(FunctionModel):
    def capabilities(self, model):
        return evolve(super().capabilities(model), price=Price(input=1_000, output=3_000))


def talker(seed):
    """A model that answers, at once or slowly, calls tools, or fails for a while or for good."""
    draw = Random(seed)  # noqa: S311 - a test

    def answer(_request):
        usage = TokenUsage(input=draw.randrange(90), output=draw.randrange(9), cache_read=draw.randrange(5))
        turns = [
            Turn(text=("Done.",), usage=usage),
            Turn(text=("Done.",), usage=usage, pause_seconds=2.0),
            calls(("book", {}), ("break", {}), ("missing", {})),
            fails(errors.Overloaded("later")),
            fails(errors.BadRequest("never")),
        ]
        return draw.choice(turns)

    return Priced(answer)


async def chat(supervisor, seed, draw):
    tools = [RecordingTool(name="book"), RecordingTool(name="break", answer=Error(text="no"))]
    session = await supervisor.start_session(
        model=talker(seed), session_id=f"s-{seed}", tools=tools, user_data={"agent_id": "desk"}
    )
    for _ in range(CYCLES):
        with trio.move_on_after(draw.choice([1.0, 3600.0])) as scope:
            with suppress(AgentrailError):
                await session.ask("Hi")
        if scope.cancelled_caught:
            await session.abort()


async def events_of(supervisor, session_id):
    found, last = [], 0
    while page := (await supervisor.events_page(session_id, after=last, limit=5_000)).events:
        found, last = [*found, *page], page[-1].meta.seq
    return found


def told_by(events):
    """What an accountant who reads the events by hand would count."""
    count, blocked = Counter(), set()
    asked, is_asking = 0, False
    for event in events:
        match event:
            case e.AgentEnd():
                count["cycles", "ok"] += 1
            case e.AgentError():
                count["cycles", "failed"] += 1
                count["requests", "failed"] += is_asking
            case e.AgentAbort() if event.ref is not None:
                count["cycles", "aborted"] += 1
            case e.RequestStart():
                asked, is_asking = asked + 1, True
                continue
            case e.Retry():
                count["requests", "failed"] += is_asking
            case e.ResponseComplete(usage=usage):
                count["requests", "ok"] += 1
                for direction in ("input", "output", "cache_read", "cache_write"):
                    count["tokens", direction] += getattr(usage, direction)
                count["cost"] += usage.cost_usd
            case e.StreamError():
                count["requests", "failed"] += 1
            case e.ToolBlocked(call_id=call_id):
                blocked.add(call_id)
            case e.ToolExecutionEnd(name=name, result=result):
                name = "other" if name == "missing" else name
                count["tools", name, "failed" if result.is_error else "ok"] += 1
            case e.AbortSettled():
                count["aborts"] += 1
        is_asking = is_asking and not isinstance(event, ENDS)
    count["requests", "aborted"] = asked - count["requests", "ok"] - count["requests", "failed"]
    return count


def told_by_metrics(text):
    count = Counter()
    named = {
        "agentrail_cycles_total": lambda at: ("cycles", at["outcome"]),
        "agentrail_model_requests_total": lambda at: ("requests", at["outcome"]),
        "agentrail_tokens_total": lambda at: ("tokens", at["direction"]),
        "agentrail_tool_calls_total": lambda at: ("tools", at["tool"], at["outcome"]),
        "agentrail_cost_dollars_total": lambda at: "cost",
        "agentrail_abort_seconds_count": lambda at: "aborts",
    }
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name in named:
                count[named[one.name](one.labels)] += one.value
    return count


@on_virtual_time
@pytest.mark.operation(7)
async def test_counters_equal_the_journals_after_a_thousand_cycles():
    """Both are counted separately: by the metrics while sessions run, and from the stored events afterwards."""
    metrics, draw = Metrics(), Random(7)  # noqa: S311 - a test
    async with open_nameless(
        lambda _name, _root: NoSandbox(), store=MemoryStore(lease_ms=0), reader=TelemetryReader([metrics])
    ) as supervisor:
        with measured(supervisor, metrics):
            async with trio.open_nursery() as nursery:
                for seed in range(SESSIONS):
                    nursery.start_soon(chat, supervisor, seed, draw)
            await trio.sleep(10)
            said = sum(
                [told_by(await events_of(supervisor, f"s-{seed}")) for seed in range(SESSIONS)], Counter()
            )
            counted = told_by_metrics((await metrics.render())[1].decode())
    assert min(said["cycles", one] for one in ("ok", "failed", "aborted")) > 100
    assert min(said["requests", one] for one in ("ok", "failed", "aborted")) > 100
    assert counted.pop("cost") == pytest.approx(said.pop("cost"), abs=1e-9)
    assert +counted == +said


@on_virtual_time
async def test_a_session_that_ends_at_once_is_counted_under_its_own_names():
    """The events of a sub-agent, or of a single answer, are counted after it has ended."""
    metrics = Metrics()
    async with open_nameless(
        lambda _name, _root: NoSandbox(), reader=TelemetryReader([metrics])
    ) as supervisor:
        with measured(supervisor, metrics):
            model = ScriptedModel([calls(("book", {})), says("Done.")])
            session = await supervisor.start_session(model=model, tools=[RecordingTool(name="book")])
            await session.ask("Hi")
            await session.stop()
            await trio.sleep(1)
    counted = {series: total.value for series, total in metrics.totals.by_series.items()}
    assert counted["agentrail_tool_calls_total", "book", "ok"] == 1
    assert counted["agentrail_model_requests_total", "scripted", "object", "ok"] == 2
