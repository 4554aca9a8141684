"""Who inspects looks back: records that are found, states as data, why a step did what it did. No other tenant, no secret, no waiting."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from agentrail.core.journal.replay import explain_journal
from agentrail.core.journal.step_explanation import ExplainedStep, lines_of_step
from agentrail.runtime.session_loader import PluginFinder, fold_sources, read_after
from agentrail.runtime.tree_secrets import knowing
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import RecordingTool
from property_tests.core.test_patches_give_the_other_document import as_sent, carry_out
from tests.gateway.attacks.wire import FREE
from tests.gateway.callers import auth, by
from tests.gateway.web import Web, serving
from tests.host.hosting import answering, profile
from tests.runtime.rig import on_bounded_time

CANARY = "canary-of-a-key-4711"


def puppet(name: str, priority: int, rule: str, action: str) -> PuppetPlugin:
    """One with one rule, such as `BeforeTool.book`."""
    return PuppetPlugin((read_rule(rule, action),), name=name, priority=priority)


PLUGINS = [
    puppet("early", 400, "BeforeTool.book", 'args:{"day": "mon"}'),
    puppet("late", 410, "BeforeTool.book", 'args:{"day": "tue"}'),
    puppet("guard", 420, "BeforeTool.shred", "block:not today"),
    puppet("broken", 430, "AfterResponse", "raise:a fuse blew"),
]


@asynccontextmanager
async def booking(store: Any) -> AsyncIterator[Web]:
    """A session `main` of Ann that called two tools and answered."""
    tools = [RecordingTool(name="book"), RecordingTool(name="shred")]
    model = ScriptedModel([calls(("book", {"day": "sun"}), ("shred", {})), says("Booked."), says("Bye.")])
    async with serving(
        None,
        profiles=[profile(model, tools=tools, plugins=PLUGINS)],
        store=store,
        auth=auth,
        headers=by("boss"),
    ) as web:
        said = {"session_id": "main", "message": f"Book it, {CANARY}"}
        assert (await web.client.post("/chat", json=said, headers=by("ann"))).status_code == 200
        yield web


async def read(web: Web, what: str, status: int = 200, **query: Any) -> Any:
    named = {name.rstrip("_"): value for name, value in query.items()}
    answer = await web.client.get(f"/inspect/sessions/main/{what}", params=named)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.c(28)
@on_bounded_time
async def test_records_are_found_and_states_and_causes_are_told():
    """All that a page of a journal asks for, over HTTP."""
    store = MemoryStore()
    async with booking(store) as web:
        whole = await read(web, "trace")
        numbers = [one["number"] for one in whole["entries"]]
        last = whole["last"]
        assert numbers == [*range(1, last + 1)]
        assert (whole["first"], whole["next"], whole["previous"]) == (1, None, None)
        await _pages(web, last)
        await _searches(web, whole["entries"])
        await _states(web, last)
        await _causes(web, store, last)
        await _secrets(web)
        for query in ({"kinds": "promt"}, {"before": 0}, {"q": "x" * 201}, {"bodies": "no"}):
            error = (await read(web, "trace", 422, **query))["error"]
            assert (error["code"], error["field"]) == ("field_invalid", *query)
        assert "did you mean 'prompt'" in (await read(web, "trace", 422, kinds="promt"))["error"]["message"]
        for what in ("state", "explain"):
            assert (await read(web, what, 422))["error"]["field"] == "at"
            error = (await read(web, what, 422, at=last + 1))["error"]
            assert error["code"] == "option_error"
            assert f"expected 1 to {last}" in error["message"]


async def _pages(web: Web, last: int) -> None:
    """From the end to the beginning, each record once; and without what they say."""
    seen: list[int] = []
    before: int | None = last + 1
    while before is not None:
        page = await read(web, "trace", before=before, limit=4)
        seen = [one["number"] for one in page["entries"]] + seen
        assert len(page["entries"]) <= 4
        before = page["previous"]
    assert seen == [*range(1, last + 1)]
    middle = await read(web, "trace", after=2, before=6, bodies="false")
    assert [one["number"] for one in middle["entries"]] == [3, 4, 5]
    assert (middle["next"], middle["previous"]) == (5, 3)
    assert all(one["body"] == {} and one["kind"] for one in middle["entries"])


async def _searches(web: Web, entries: list[Any]) -> None:
    """By kind, by what stands in them, by a plugin that said something."""
    found = await read(web, "trace", kinds="response_completed,prompt")
    assert {one["kind"] for one in found["entries"]} == {"response_completed", "prompt"}
    assert [one["number"] for one in found["entries"]] == [
        one["number"] for one in entries if one["kind"] in ("response_completed", "prompt")
    ]
    (first,) = (await read(web, "trace", kinds="response_completed", limit=1))["entries"]
    backwards = await read(web, "trace", kinds="response_completed", before=99, limit=1)
    assert backwards["entries"][0]["number"] > first["number"]
    assert backwards["previous"] == backwards["entries"][0]["number"]
    assert [one["kind"] for one in (await read(web, "trace", q="BOOK IT"))["entries"]] == ["prompt"]
    assert [one["kind"] for one in (await read(web, "trace", q='"day":"sun"'))["entries"]] == []
    assert (await read(web, "trace", q="RUN_TOOL"))["entries"]
    by_plugin = {name: await read(web, "trace", plugin=name) for name in ("late", "guard", "broken", "none")}
    assert [one["number"] for one in by_plugin["late"]["entries"]] == [first["number"]]
    assert [one["number"] for one in by_plugin["guard"]["entries"]] == [first["number"]]
    assert len(by_plugin["broken"]["entries"]) >= 2  # on a slow machine it is also reported as slow
    assert (by_plugin["none"]["entries"], by_plugin["none"]["next"]) == ([], None)
    (latest,) = (await read(web, "trace", plugin="broken", before=99, limit=1))["entries"]
    assert latest["number"] == by_plugin["broken"]["entries"][-1]["number"]


async def _states(web: Web, last: int) -> None:
    """At each record; and the patch between two of them makes one the other, in both directions."""
    states = [(await read(web, "state", at=number))["state"] for number in range(1, last + 1)]
    assert states[0]["messages"] == []
    assert states[-1]["messages"][-1]["content"][0]["text"] == "Booked."
    assert states[-1]["plugins"]["guard"] == {"version": "0", "state": 0}
    for since, number in ((1, last), (last, 3), (4, 4)):
        told = await read(web, "state", at=number, from_=since)
        made = json.loads(json.dumps(states[since - 1]))
        for step in told["patch"]:
            made = carry_out(made, step)
        assert as_sent(made) == as_sent(told["state"]) == as_sent(states[number - 1])
    assert (await read(web, "state", at=2))["patch"] is None


async def _causes(web: Web, store: Any, last: int) -> None:
    """What `agentrail replay --explain` tells of the same journal, word for word."""
    stored = store.get("acme", "main")
    sources = fold_sources(store, stored, PluginFinder({one.name: one for one in PLUGINS}), _plainly)
    lines = list(explain_journal(read_after(store, "acme", stored.session, 0), sources))
    told = [await read(web, "explain", at=number) for number in range(1, last + 1)]
    steps = [msgspec.convert(one, ExplainedStep) for one in told]
    assert [line for step in steps for line in lines_of_step(step)] == lines
    assert "    lost to late, priority 400" in lines
    assert any(one["signal"]["begun_by"] for one in told)
    (run,) = [run for one in told for run in one["runs"] if run["outcome"]["action"] == "BlockTool"]
    assert run["links"][-1]["fields"] == {"reason": "not today"}


def _plainly(member: Any, event: Any, state: Any, ctx: Any) -> Any:
    return member.plugin.handle(event, state, ctx)


async def _secrets(web: Web) -> None:
    """What is known as a secret by now does not leave, and no one finds it by asking for one character after the other."""
    assert CANARY in (await web.client.get("/inspect/sessions/main/state?at=3&from=1")).text
    with knowing([CANARY]):
        for path in ("trace", "trace?bodies=false", "state?at=3", "state?at=3&from=1", "explain?at=3"):
            assert CANARY not in (await web.client.get(f"/inspect/sessions/main/{path}")).text
        assert (await read(web, "trace", q="Book it, Secret"))["entries"]
        for part in (CANARY, CANARY[:4], CANARY[-4:]):
            assert (await read(web, "trace", q=part, kinds="prompt"))["entries"] == []


@on_bounded_time
async def test_what_was_trimmed_is_told_by_its_first_number(tmp_path):
    """410 with it; the list begins there, and goes back no further."""
    store = MemoryStore()
    async with booking(store):
        pass
    tools = [RecordingTool(name="book"), RecordingTool(name="shred")]
    profiles = [profile(answering("x"), tools=tools, plugins=PLUGINS)]
    async with serving(None, profiles=profiles, store=store, auth=auth, headers=by("boss")) as web:
        (snapshot,) = store.snapshots("acme", "main")
        await web.host.supervisor.trim_session("main", before=snapshot.seq, scope="acme")
        for what, query, first in (
            ("state", {"at": 2}, snapshot.seq),
            ("state", {"at": snapshot.seq, "from_": 2}, snapshot.seq),
            ("trace", {"after": 0}, snapshot.seq),
            ("explain", {"at": 2}, snapshot.seq + 1),
            ("explain", {"at": snapshot.seq}, snapshot.seq + 1),
        ):
            error = (await read(web, what, 410, **query))["error"]
            assert (error["code"], error["first"]) == ("trimmed", first), (what, query)
        kept = await read(web, "trace", before=9_999)
        assert kept["first"] == kept["entries"][0]["number"] == snapshot.seq
        assert kept["previous"] is None
        assert (await read(web, "state", at=snapshot.seq))["state"]["messages"]
        assert (await read(web, "trace", before=9_999, kinds="prompt"))["previous"] is None


@on_bounded_time
async def test_a_fork_at_an_event_of_the_first_remaining_record():
    """That record and the state after it are still there. What was dropped is told by the first number."""
    store = MemoryStore()
    async with serving(
        None,
        profiles=[profile(FunctionModel(lambda _: says("x")))],
        store=store,
        limits=FREE,
        auth=auth,
        headers=by("ann"),
    ) as web:
        for _ in range(70):
            assert (await web.chat(session_id="main")).status_code == 200
        snapshot = store.snapshots("acme", "main")[0]
        await web.host.supervisor.trim_session("main", before=snapshot.seq, scope="acme")
        (first,) = store.read("acme", "main", snapshot.seq - 1, 1)
        assert first.does.startswith("publish")
        made = await web.post("/sessions/main/fork", {"event": first.events})
        assert (made.status_code, made.json()["at"]) == (201, snapshot.seq)
        dropped = await web.post("/sessions/main/fork", {"event": 1})
        assert (dropped.status_code, dropped.json()["error"]["first"]) == (410, snapshot.seq)
