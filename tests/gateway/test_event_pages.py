"""Pages of events over HTTP, forth and back: what is in them, what is cut out of them, and what is told of one call."""

import hashlib
import json

import pytest
import trio
from hypothesis import given, strategies as st

import agentrail
from agentrail.core.journal.fold import walk
from agentrail.core.journal.rewound_events import counts, range_after, range_before
from agentrail.core.wire.codec import decode_event
from agentrail.events import Envelope, PluginEvent
from agentrail.gateway.event_pages import CUT, MAX_PAGE_BYTES, MAX_VALUE_BYTES, encode_event_page
from agentrail.messages import SessionId
from agentrail.plugins import HumanApproval
from agentrail.runtime import event_history
from agentrail.runtime.event_history import PageOfEvents
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.core.journal.timelines import timeline_of
from tests.gateway.attacks.wire import by_header
from tests.gateway.web import error_of, serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time


async def page(web, query="", session_id="main"):
    response = await web.client.get(f"/sessions/{session_id}/events?format=json{query}")
    response.raise_for_status()
    return response.json()


def seqs(told):
    return [event["seq"] for event in told["events"]]


async def lived(web, *, cycles=3):
    """A session with some cycles; gives its last number."""
    for _ in range(cycles):
        (await web.post("/chat", {"message": "Hi", "session_id": "main"})).raise_for_status()
    return (await web.client.get("/sessions/main")).json()["seq"]


async def timeline(web):
    """The spans of a session of three cycles: folded from its events, all at once and cycle by cycle."""
    path = "/inspect/sessions/main/spans"
    spans = (await web.client.get(path)).json()["spans"]
    assert [span["kind"] for span in spans] == ["cycle", "request"] * 3
    events = (await page(web, "&limit=1000"))["events"]
    folded = timeline_of(decode_event(json.dumps(event)) for event in events)
    assert [span["key"] for span in spans] == [span.key for span in folded]
    for span in spans[::2]:
        below = [one for one in spans if span["key"] in (one["key"], one["parent"])]
        assert (await web.client.get(f"{path}?cycle={span['seq']}")).json()["spans"] == below
    assert (await web.client.get(f"{path}?cycle=1")).json()["spans"] == []
    return spans


@pytest.mark.c(29)
@pytest.mark.parametrize("has_store", [True, False])
@on_bounded_time
async def test_pages_back_and_forth_give_each_event_once(has_store):
    """In both directions the same, without a gap, also of a session that has ended."""
    options = {"store": MemoryStore()} if has_store else {}
    async with serving(answering(*("Hello",) * 3), **options) as web:
        last = await lived(web)
        back, before = [], ""
        while True:
            told = await page(web, f"&limit=7{before}")
            back = seqs(told) + back
            assert told["kept_from"] == 1
            if not told["more"]:
                break
            before = f"&before={told['first']}"
        forth, after = [], 0
        while True:
            told = await page(web, f"&limit=7&after={after}")
            forth += seqs(told)
            after = told["last"]
            if not told["more"]:
                break
        assert back == forth == list(range(1, last + 1))
        told = await page(web, "&kinds=agent_end,agent_start&limit=3")
        assert [event["kind"] for event in told["events"]] == ["agent_end", "agent_start", "agent_end"]
        assert told["more"]
        assert (await page(web, f"&after={last}"))["events"] == []
        nothing = {"events": [], "first": 1, "last": 0, "more": False, "kept_from": 1}
        assert await page(web, "&before=1") == nothing
        spans = await timeline(web) if has_store else None
        (await web.client.delete("/sessions/main")).raise_for_status()
        if has_store:
            assert (await web.client.get("/inspect/sessions/main/spans")).json()["spans"] == spans
        told = await page(web, "&limit=1000")
        assert told["events"][-1]["kind"] == "session_end"
        assert seqs(told) == list(range(1, told["last"] + 1))


@on_bounded_time
async def test_a_page_is_asked_for_strictly_and_has_nothing_large():
    """Wrong queries are refused by name; a text of more than 16 KiB is replaced by its size, and given on request."""
    long = "x" * (MAX_VALUE_BYTES + 1)
    async with serving(answering(long), store=MemoryStore()) as web:
        await lived(web, cycles=1)
        for query, name in (
            ("format=json&before=3&after=1", "before"),
            ("format=json&kinds=nothing", "kinds"),
            ("format=json&kinds=", "kinds"),
            ("format=json&limit=0", "limit"),
            ("format=json&limit=1001", "limit"),
            ("format=json&whole=true", "whole"),
            ("format=json&request_id=r-1", "request_id"),
            ("format=xml", "format"),
            ("before=3", "before"),
            ("kinds=agent_end", "kinds"),
        ):
            response = await web.client.get(f"/sessions/main/events?{query}")
            assert error_of(response, 422, "field_invalid")["field"] == name, query
        answer, end = (await page(web, "&after=0&kinds=response_complete,agent_end"))["events"]
        assert answer["message"]["content"] == [{"kind": "text", "text": {CUT: len(long) + 2}}]
        assert end["messages"][-1]["content"] == answer["message"]["content"]
        whole = await page(web, f"&after={answer['seq'] - 1}&limit=1&whole=true")
        assert whole["events"][0]["message"]["content"][0]["text"] == long


def test_a_page_is_bounded_whatever_is_in_it():
    """1 MiB: of what is left out the page says where it is, forth and back; and a page has one event at least."""
    metas = [Envelope(SessionId("s"), seq, 1, (SessionId("s"),)) for seq in range(1, 201)]
    events = tuple(PluginEvent(name="n", payload=["ab" * 7_000], meta=one) for one in metas)
    whole = PageOfEvents(events=events, first=1, last=200, more=False)
    for is_forth in (True, False):
        body = encode_event_page(whole, is_forth=is_forth)
        told = json.loads(body)
        assert MAX_PAGE_BYTES / 2 < len(body) <= MAX_PAGE_BYTES + 1_000
        assert told["more"]
        assert seqs(told) == list(range(told["first"], told["last"] + 1))
        assert (told["first"] if is_forth else 201 - told["last"]) == 1
    deep = PluginEvent(name="n", payload=["a" * 15_000] * 200, meta=events[0].meta)
    single = PageOfEvents(events=(deep,), first=1, last=1, more=False)
    alone = json.loads(encode_event_page(single, is_forth=True))
    assert alone["events"][0]["payload"][CUT] > 200 * 15_000
    assert not alone["more"]


@on_bounded_time
async def test_what_a_rewind_has_undone_is_in_no_page():
    """Its numbers are left out: the page goes on in front of them."""
    async with serving(answering(*("Hello",) * 4), store=MemoryStore()) as web:
        first = await lived(web, cycles=1)
        trace = (await web.client.get("/inspect/sessions/main/trace")).json()["entries"]
        number = next(one["number"] for one in reversed(trace) if one["events"] == first)
        undone = await lived(web, cycles=1)
        (await web.post("/sessions/main/rewind", {"to": number})).raise_for_status()
        last = await lived(web, cycles=1)
        told = await page(web, "&limit=1000")
        assert last > undone > first
        stays = [*range(1, first + 1), *range(undone + 1, last + 1)]
        assert [seq for seq in seqs(told) if seq <= first or seq > undone] == seqs(told)
        assert set(seqs(told)) <= set(stays)
        assert seqs(told)[0] == 1
        back = await page(web, f"&limit=4&before={undone + 1}")
        assert seqs(back) == list(range(first - 3, first + 1))
        forth = await page(web, f"&limit=2&after={first}")
        assert all(seq > undone for seq in seqs(forth))


class CountingStore(MemoryStore):
    """Counts how often it is read."""

    reads = 0

    def read(self, *args, **given):
        self.reads += 1
        return super().read(*args, **given)


@pytest.mark.parametrize("is_trimmed", [False, True])
async def test_numbers_that_a_session_does_not_have_are_passed_at_once(is_trimmed):
    """A fork begins after the numbers of its parent, a trimmed session after those of its dropped records, in both directions."""
    store, model = CountingStore(), answering(*("Hello",) * 42)
    async with agentrail.open_supervisor(store=store) as supervisor:
        session = await supervisor.start_session(model=model, sandbox="memory")
        for _ in range(40):
            await session.ask("Hi")
        if not is_trimmed:
            session = await session.fork(100)
            await session.ask("Hi")
    session_id = session.session_id
    if is_trimmed:
        async with agentrail.open_supervisor(store=store) as supervisor:
            await (await supervisor.resume_session(session_id, model=answering("Hello"))).ask("Hi")
            shot = store.snapshots("", session_id)[-1].seq
            assert await supervisor.trim_session(session_id, before=shot) > 50
    async with agentrail.open_supervisor(store=store) as supervisor:
        store.reads = 0
        first = await supervisor.events_page(session_id, after=0, limit=1)
        own = first.events[0].meta.seq
        assert own > 50
        assert (first.first, first.last, first.more) == (1, own, True)
        before = await supervisor.events_page(session_id, before=own, limit=1)
        assert (before.events, before.more) == ((), False)
        assert first.kept_from == before.kept_from == (own if is_trimmed else 1)
        whole = await supervisor.events_page(session_id, limit=5_000)
        assert [event.meta.seq for event in whole.events] == list(range(own, whole.last + 1))
        assert store.reads < 20


async def test_pages_forward_fold_each_record_about_once(monkeypatch):
    """A page begins at the state where the one before ended, if the journal is still the same there."""
    folded = []

    def counted(*args, **given):
        for walked in walk(*args, **given):
            folded.append(walked)
            yield walked

    monkeypatch.setattr(event_history, "walk", counted)
    store, model = MemoryStore(), answering(*("Hello",) * 12)
    async with agentrail.open_supervisor(store=store) as supervisor:
        session = await supervisor.start_session(model=model, sandbox="memory", session_id="main")
        for _ in range(12):
            await session.ask("Hi")
    records = len(store.read("", "main", 0, 1_000))
    async with agentrail.open_supervisor(store=store) as supervisor:
        for limit in (3, 7):
            folded.clear()
            forth, after, more = [], 0, True
            while more:
                told = await supervisor.events_page("main", after=after, limit=limit)
                forth += [event.meta.seq for event in told.events]
                after, more = told.last, told.more
            assert forth == list(range(1, after + 1))
            assert records <= len(folded) < 2 * records


async def until(web, fits):
    with trio.fail_after(60):
        while True:
            status = (await web.client.get("/sessions/main")).json()["status"]
            if fits(status):
                return status
            await trio.sleep(0.03)


@on_bounded_time
async def test_all_of_a_call_is_told_with_its_result_in_parts():
    """What the model wrote, what a person made of it, who decided, and what it came to, byte by byte."""
    text = "ä" * 1_000

    def answer(_arguments):
        return text

    tool = RecordingTool(name="shell", answer=answer)
    model = [calls(("shell", {"command": "ls"}), text="ok"), says("done")]
    async with serving(
        ScriptedModel(model), session_tools=[tool], session_plugins=[HumanApproval], store=MemoryStore(), auth=by_header,
    ) as web:  # fmt: skip
        web.client.headers["authorization"] = "Bearer acme/ann"
        (await web.post("/sessions", {"session_id": "main"})).raise_for_status()
        await web.post("/sessions/main/prompt", {"message": "Hi"})
        (approval,) = (await until(web, lambda status: status["approvals"]))["approvals"]
        call_id = approval["call_id"]
        waits = (await web.client.get(f"/sessions/main/calls/{call_id}")).json()
        assert waits["result"] is None
        assert [gate["verdict"] for gate in waits["gates"]] == ["asked"]
        assert waits["arguments_hash"] == approval["arguments_hash"]
        edited = {"approval_id": approval["id"], "arguments": {"command": "pwd"}}
        (await web.post("/sessions/main/approve", edited)).raise_for_status()
        await until(web, lambda status: status["phase"] == "idle" and not status["suspended"])
        told = (await web.client.get(f"/sessions/main/calls/{call_id}?result_from=1&result_to=5")).json()
        assert (told["name"], told["arguments"]) == ("shell", {"command": "ls"})
        assert told["effective_arguments"] == {"command": "pwd"}
        assert told["arguments_text"] == '{"command":"pwd"}'
        assert told["arguments_hash"] == hashlib.sha256(told["arguments_text"].encode()).hexdigest()
        assert [(gate["gate"], gate["verdict"], gate["by"]) for gate in told["gates"]] == [
            ("approval", "asked", None),
            ("approval", "approved", "ann"),
        ]
        assert told["outcome"] == "done"
        assert told["at_ms"] <= told["started_at_ms"] <= told["ended_at_ms"]
        whole = (await web.client.get(f"/sessions/main/calls/{call_id}")).json()
        assert whole["result"]["content"].endswith(text)
        start = whole["result"]["size"] - 2_000
        query = f"result_from={start + 1}&result_to={start + 5}"
        part = (await web.client.get(f"/sessions/main/calls/{call_id}?{query}")).json()["result"]
        assert (part["content"], part["from_bytes"], part["to_bytes"]) == ("ää", start + 2, start + 6)
        error_of(await web.client.get("/sessions/main/calls/c-none"), 404, "unknown_call")
        for query in ("result_from=-1", "result_to=x"):
            error_of(await web.client.get(f"/sessions/main/calls/{call_id}?{query}"), 422, "field_invalid")


RANGES = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5)), max_size=4)


@given(RANGES, st.integers(0, 40), st.integers(1, 9))
def test_a_page_is_counted_around_what_does_not_count(drawn, edge, limit):
    """Against plain lists of all numbers."""
    numbers = {seq for low, more in drawn for seq in range(low, low + more + 1)}
    undone, last = tuple(runs(numbers)), 35
    alive = [seq for seq in range(1, last + 1) if counts(seq, undone)]
    low, high = range_before(min(edge, last + 1), limit, undone)
    wanted = [seq for seq in alive if seq < min(edge, last + 1)][-limit:]
    assert [seq for seq in alive if low <= seq <= high] == wanted
    low, high = range_after(edge, last, limit, undone)
    assert [seq for seq in alive if low <= seq <= high] == [seq for seq in alive if seq > edge][:limit]


def runs(numbers):
    for seq in sorted(numbers):
        if seq - 1 not in numbers:
            end = seq
            while end + 1 in numbers:
                end += 1
            yield seq, end
