"""It really serves: Hypercorn's worker for Trio, a port of the loopback, two users with tokens of their own."""

import hashlib
import json
import sqlite3
from functools import partial

import httpx
import pytest
import trio
from agentrail import UserMessage
from agentrail.gateway import TokenEntry, Tokens
from agentrail.testing.models import FunctionModel, calls, says
from httpx_sse import aconnect_sse
from hypercorn.config import Config
from hypercorn.trio import serve

import support_desk

USERS = ("ann", "bob")


def answer(request):
    """A model that looks up what it is asked about, and pays back what it is asked to."""
    last = request.messages[-1]
    if not isinstance(last, UserMessage):
        return says(last.results[0].text)
    word, _, number = last.content[0].text.partition(" ")
    match word:
        case "find":
            return calls(("find_order", {"number": int(number)}))
        case "refund":
            return calls(("refund", {"number": int(number)}))
        case _:
            return says("How can we help?")


@pytest.fixture
def tokens():
    """A token for each user, as `agentrail token new acme ann` makes them."""
    entries = [
        TokenEntry(digest=hashlib.sha256(user.encode()).digest(), tenant_id="acme", user_id=user)
        for user in USERS
    ]
    return Tokens(entries)


@pytest.fixture
async def desk(nursery, tmp_path, tokens):
    """A client for each user of a desk that is served, and takes four messages of each."""
    app = support_desk.make_app(FunctionModel(answer), folder=str(tmp_path), auth=tokens, messages=4)
    config, stop, ended = Config(), trio.Event(), trio.Event()
    config.bind, config.graceful_timeout = ["127.0.0.1:0"], 1

    async def run(task_status):
        await serve(app, config, shutdown_trigger=stop.wait, task_status=task_status)
        ended.set()

    (url,) = await nursery.start(run)
    make = partial(httpx.AsyncClient, base_url=url, timeout=20, trust_env=False)
    async with (
        make(headers={"authorization": "Bearer ann"}) as ann,
        make(headers={"authorization": "Bearer bob"}) as bob,
    ):
        yield ann, bob
    stop.set()
    await ended.wait()


async def chat(client, text, **said):
    """A message, and its answer."""
    return await client.post("/chat", json={"message": text, **said})


async def wait_for(client, answer):
    """How a request ended that was waited for."""
    where = f"/sessions/{answer['session_id']}/requests/{answer['request_id']}"
    return (await client.get(where, params={"wait": 10})).json()


async def test_a_day_at_the_desk(desk, tmp_path):
    """A chat, a stream, an approval, and the rows that the audit has of them."""
    ann, bob = desk
    first = await chat(ann, "find 17", session_id="kettle")
    assert (first.status_code, first.json()["text"]) == (200, "a kettle, 39.90 EUR")

    async with aconnect_sse(
        bob, "POST", "/stream", json={"message": "find 18", "session_id": "lamp"}
    ) as source:
        events = [event async for event in source.aiter_sse()]
    assert [event.event for event in events][-2:] == ["agent_end", "done"]
    assert json.loads(events[-1].data)["reason"] == "completed"

    waiting = await chat(ann, "refund 17", agent_id="billing", session_id="money")
    assert waiting.status_code == 202
    (pending,) = waiting.json()["pending"]
    # Another user sees nothing of it.
    theirs = await bob.post("/sessions/money/approve", json={"approval_id": pending["id"]})
    assert (theirs.status_code, theirs.json()["error"]["code"]) == (404, "session_unknown")
    assert (await ann.post("/sessions/money/approve", json={"approval_id": pending["id"]})).status_code == 200
    ended = await wait_for(ann, waiting.json())
    assert (ended["status"], ended["text"]) == ("completed", "Order 17 is paid back.")

    with trio.fail_after(10):
        # A file tells no one when it grows.
        while (rows := support_desk.read_audit(str(tmp_path / "audit.db")))[-1][2] != "end" or len(rows) < 12:  # noqa: ASYNC110 - see above
            await trio.sleep(0.01)
    assert [row[:3] for row in rows if row[1] == "money"] == [
        ("ann", "money", "request"),
        ("ann", "money", "call"),
        ("ann", "money", "result"),
        ("ann", "money", "end"),
    ]
    details = {what: detail for _, session, what, detail in rows if session == "money"}
    assert details["request"] == {"kind": "chat", "profile": "billing"}
    assert details["call"] == {"tool": "refund", "input": {"number": 17}}
    assert details["result"]["is_error"] is False
    assert details["end"] == {"outcome": "completed"}
    assert [row[2] for row in rows if row[0] == "bob"] == ["request", "call", "result", "end"]


async def test_the_quota_answers_429_to_one_user_and_not_to_the_other(desk, tmp_path):
    """On every route; the refused messages are no requests, so the audit has none of them."""
    ann, bob = desk
    for _ in range(4):
        assert (await chat(ann, "Hello", agent_id="night", session_id="night")).status_code == 200
    for path in ("/chat", "/stream", "/sessions/night/prompt"):
        refused = await ann.post(path, json={"message": "Hello"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "desk_quota"), path
        assert 3590 < int(refused.headers["retry-after"]) <= 3600
    assert (await chat(bob, "Hello")).status_code == 200
    rows = support_desk.read_audit(str(tmp_path / "audit.db"))
    assert [row[2] for row in rows if row[0] == "ann"].count("request") == 4


async def test_what_the_audit_cannot_note_does_not_run(desk, tmp_path):
    """The call is denied, and the model is told who denied it."""
    ann, _ = desk
    with sqlite3.connect(tmp_path / "audit.db") as connection:
        connection.execute("alter table audit rename to elsewhere")
    connection.close()
    told = await chat(ann, "find 17")
    assert "audit" in told.json()["text"]
    assert "kettle" not in told.json()["text"]


async def test_the_profiles_are_three_and_no_more(desk):
    """What there is not is said with what there is."""
    ann, _ = desk
    refused = await chat(ann, "Hello", agent_id="sales")
    assert refused.status_code == 404
    assert "front, billing, night" in refused.json()["error"]["message"]
