"""Watches over real sockets: who sees which rows, what is told when they change, and that a slow reader is told of no past."""

import pytest
import trio

from agentrail.gateway import socket_connection as open_socket_module
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from tests.gateway.callers import CALLERS, Rows, auth, by
from tests.gateway.socket_client import socket_of
from tests.gateway.web import serving
from tests.host.hosting import answering, profile


async def test_a_watcher_sees_its_own_sessions_come_work_and_go():
    """What there is comes first, then each change as a whole row; a session that takes an old id starts with nothing of it."""
    model = answering("<title>A refund</title>words", "words")
    async with (
        serving(model, auth=auth) as web,
        socket_of(web, by="ann") as client,
        socket_of(web, by="boss") as boss,
    ):
        await client.done("create", session_id="s-1")
        rows, of_boss = await Rows(client).begin(), await Rows(boss).begin()
        assert set(rows.rows) == {"s-1"}
        row = rows.rows["s-1"]
        assert (row["phase"], row["user"], row["agent_id"], row["ended"]) == ("idle", "ann", "desk", False)
        await client.done("create", session_id="s-2")
        await rows.until(lambda all_of: "s-2" in all_of)
        await client.done("prompt", session_id="s-2", message="Refund   order 4411")
        worked = await rows.until(lambda all_of: all_of["s-2"]["outcome"] == "completed")
        assert (worked["s-2"]["first_words"], worked["s-2"]["title"]) == ("Refund order 4411", "A refund")
        assert worked["s-2"]["tokens"] > 0
        await client.done("stop", session_id="s-1")
        ended = await rows.until(lambda all_of: all_of["s-1"]["ended"])
        assert ended["s-1"]["phase"] == "ended"
        assert web.served.gateway.watches.open_feeds == 1
        await client.send(type="unwatch", id="w")
        assert (await client.until("reply", id="w"))["ok"]

        await of_boss.until(lambda all_of: "s-2" in all_of and all_of["s-2"]["first_words"])
        await web.host.delete_session("s-2", CALLERS["ann"])
        await web.host.create(CALLERS["bob"], session_id="s-2")
        row = (await of_boss.until(lambda all_of: all_of["s-2"]["user"] == "bob"))["s-2"]
        assert (row["first_words"], row["outcome"], row["ended"], row["tokens"]) == (None, None, False, 0)
        assert "s-2" not in (await Rows(client, "again").begin()).rows
    assert web.served.gateway.watches is None


@pytest.mark.c(34)
async def test_what_waits_is_told_with_what_a_person_has_to_know_and_goes_when_it_is_decided():
    """An approval and a question, also those of a child session, which is shown with its task."""
    shell, question = ("shell", {"command": "rm   -r build"}), ("ask_user", {"question": "Which account?"})
    below = [calls(("task", {"description": "Look for  it."})), calls(shell), says("Found"), says("Done")]
    model = ScriptedModel([calls(shell), says("Done"), calls(question), says("Thanks"), *below])
    options = {
        "session_tools": [RecordingTool(name="shell"), *builtin("ask_user", "task")],
        "session_plugins": [(HumanApproval, {"require_approval_for": ["shell"]})],
    }
    async with serving(model, auth=auth, **options) as web, socket_of(web, by="ann") as client:
        waiting = await Rows(client).begin("waiting")
        assert waiting.rows == {}
        sessions = await Rows(client, "s").begin("sessions", waiting=True)
        await client.done("create", session_id="s-1")
        await client.done("prompt", session_id="s-1", message="Clean up")
        (row,) = (await waiting.until(bool)).values()
        assert (row["kind"], row["tool"], row["summary"]) == ("approval", "shell", "rm -r build")
        assert row["path"] == [{"session_id": "s-1", "title": None}]
        assert row["first_words"] == "Clean up"
        assert len(row["arguments_hash"]) == 64
        counted = await sessions.until(bool)
        assert counted["s-1"]["waiting"] == {"approvals": 1, "questions": 0}
        async with socket_of(web, by="bob") as other:
            assert (await Rows(other).begin("waiting")).rows == {}
        async with socket_of(web, by="boss") as other:
            assert list((await Rows(other).begin("waiting")).rows) == [row["key"]]
        await client.done("approve", session_id="s-1", approval_id=row["approval_id"])
        await waiting.until(lambda rows: not rows)
        await client.done("prompt", session_id="s-1", message="And now?")
        (asked,) = (await waiting.until(bool)).values()
        assert (asked["kind"], asked["summary"], asked["tool"]) == ("question", "Which account?", None)
        await client.done("respond", session_id="s-1", ref=asked["ref"], response="the first")
        await waiting.until(lambda rows: not rows)
        await sessions.until(lambda rows: not rows)

        await client.done("prompt", session_id="s-1", message="Search")
        (row,) = (await waiting.until(bool)).values()
        root, child = row["path"]
        assert root == {"session_id": "s-1", "title": None}
        assert (child["title"], child["first_words"]) == (None, "Look for it.")
        place = f"/sessions/s-1/approvals/{row['approval_id']}"
        shown = (await web.client.get(place, headers=by("ann"))).json()
        assert (shown["path"], shown["first_words"]) == (row["path"], "Clean up")
        await client.done("approve", session_id="s-1", approval_id=row["approval_id"])
        await waiting.until(lambda rows: not rows)


async def test_a_watch_that_cannot_be_is_refused_and_the_socket_goes_on(monkeypatch):
    """Nothing is followed for it; nor for one too many, or a second of one id. `unwatch` of what is not watched is fine, and all go with the socket."""
    monkeypatch.setattr(open_socket_module, "MAX_WATCHES", 2)
    async with serving(answering(), auth=auth) as web:
        async with socket_of(web, by="ann") as client:
            for frame, code in (
                ({"what": "moon"}, "field_invalid"),
                ({"what": "sessions", "filter": {"limit": 0}}, "field_invalid"),
                ({"what": "sessions", "filter": {"limit": 5_001}}, "field_invalid"),
                ({"what": "sessions", "filter": {"q": "x" * 201}}, "field_invalid"),
                ({"what": "sessions", "filter": {"phase": "busy"}}, "field_invalid"),
                ({"what": "sessions", "filter": {"of": "bob"}}, "field_invalid"),
                ({"what": "sessions", "filter": {"agent_id": ".."}}, "id_invalid"),
                ({"what": "sessions", "user": "bob"}, "field_unknown"),
                ({}, "field_invalid"),
            ):
                assert await client.refused("watch", **frame) == (422, code), frame
            await client.send(type="ping", n=1)
            await client.until("pong")
            assert web.served.gateway.watches.open_feeds == 0
            await Rows(client, "a").begin()
            await Rows(client, "b").begin("waiting")
            for name, code in (("a", "already_started"), ("c", "too_many_streams")):
                await client.send(type="watch", id=name, what="sessions")
                assert (await client.until("reply", id=name))["error"]["code"] == code
            for name in ("zzz", "a"):
                await client.send(type="unwatch", id=name)
                assert (await client.until("reply", id=name))["ok"]
            await Rows(client, "a").begin()
            assert web.served.gateway.watches.open_feeds == 1
        with trio.fail_after(60):
            while web.served.gateway.watches.open_feeds:  # noqa: ASYNC110 - nothing tells of it
                await trio.sleep(0.01)


async def test_a_reader_that_does_not_read_is_told_of_the_present_when_it_does(monkeypatch):
    """Its socket stays open, its queue stays short, and what was replaced meanwhile it never sees."""
    async with serving(answering(*["words"] * 400), auth=auth) as web, socket_of(web, by="ann") as client:
        session = await web.host.create(CALLERS["ann"], session_id="s-1")
        rows = await Rows(client).begin()
        (one,) = web.served.sockets._open  # noqa: SLF001 - the queue of one socket has no other door
        monkeypatch.setattr(type(one.queue), "is_low", property(lambda _: False))
        await client.send(type="ping", n=0)
        await client.until("pong")
        client.seen.clear()
        for _ in range(3):
            await session.ask("Hi")
            await trio.sleep(0.4)
        await client.send(type="ping", n=1)
        await client.until("pong")
        assert not [frame for frame in client.seen if frame["type"] == "changed"]
        monkeypatch.undo()
        one._is_low.set()  # noqa: SLF001 - as above
        used = (await session.status()).usage
        await rows.until(lambda all_of: all_of["s-1"]["tokens"] == used.input + used.output)
        assert rows.frames == 2  # the first one, and one of all that came


async def test_what_sleeps_in_the_store_has_rows_and_what_waits_there_too(tmp_path):
    """A server that was started again tells of sessions that no one has woken, and of their questions; purged ones go at once."""
    store = f"sqlite:{tmp_path / 'kept.db'}"
    model = ScriptedModel([calls(("ask_user", {"question": "Which account?"})), says("Thanks")])
    options = {"session_tools": [*builtin("ask_user")], "store": store, "auth": auth}
    async with serving(model, **options) as web:
        await web.post("/sessions", {"session_id": "quiet"}, headers=by("ann"))
        await web.post("/chat", {"message": "Pay", "session_id": "s-1"}, headers=by("ann"))
    async with serving(answering("words"), **options) as web, socket_of(web, by="ann") as client:
        sessions = await Rows(client).begin("sessions")
        assert {key: row["phase"] for key, row in sessions.rows.items()} == {
            "quiet": "asleep",
            "s-1": "asleep",
        }
        waiting = await Rows(client, "w2").begin("waiting")
        (row,) = waiting.rows.values()
        assert (row["session_id"], row["summary"]) == ("s-1", "Which account?")
        assert sessions.rows["s-1"]["waiting"] == {"approvals": 0, "questions": 1}
        assert (await web.client.delete("/sessions/quiet?purge=true", headers=by("ann"))).status_code == 204
        await sessions.until(lambda rows: "quiet" not in rows)


async def test_a_console_is_told_which_profile_lacks_its_key():
    """With what to do; one whose model is not known here says so too, and what is wrong in options is told to the log alone."""
    models = {
        "good": {"model": "demo:"},
        "keyless": {"model": "anthropic:claude-sonnet-4-5"},
        "keyed": {"model": "anthropic:claude-sonnet-4-5", "provider_opts": {"api_key": "k"}},
        "unknown": {"model": "nowhere:x"},
        "wrong": {"model": "openai:gpt", "provider_opts": {"api_key": "k", "base_url": "secret-place"}},
    }
    desks = [profile(name=name, **given) for name, given in models.items()]
    async with serving(None, profiles=desks, environ={}, auth=auth) as web:
        told = (await web.client.get("/console/info", headers=by("ann"))).json()
        faults = {one["agent_id"]: one["fault"] for one in told["profiles"]}
        assert (faults["good"], faults["keyed"]) == (None, None)
        assert "needs a key" in faults["keyless"]
        assert "ANTHROPIC_API_KEY" in faults["keyless"]
        assert "nowhere" in faults["unknown"]
        assert "the log says why" in faults["wrong"]
        assert "secret-place" not in faults["wrong"]


async def test_lists_are_searched_filtered_and_sorted():
    """By words, outcome, what waits, the end; in each order, over pages."""
    model = ScriptedModel([says("words " * 50), says("words"), calls(("shell", {"command": "ls"}))])
    options = {"session_tools": [RecordingTool(name="shell")], "session_plugins": [HumanApproval]}
    async with serving(model, **options) as web:

        async def listed(**query):
            """The ids of a list."""
            answer = await web.client.get("/sessions", params=query)
            assert answer.status_code == 200, answer.text
            return [one["session_id"] for one in answer.json()["sessions"]]

        for name, message in (("a", "Refund order 4411"), ("b", "Import the accounts"), ("c", "List them")):
            await web.chat(message, session_id=name)
        await web.post("/sessions", {"session_id": "d"})
        await web.client.delete("/sessions/d")
        assert await listed() == ["c", "b", "a"]
        assert await listed(q="REFUND") == ["a"]
        assert await listed(outcome="completed") == ["b", "a"]
        assert await listed(waiting=True) == ["c"]
        assert await listed(waiting=False) == ["b", "a"]
        assert await listed(agent_id="other") == []
        assert await listed(sort="title") == ["b", "c", "a"]
        assert await listed(sort="-title") == ["a", "c", "b"]
        assert await listed(sort="created") == ["a", "b", "c"]
        assert await listed(sort="-changed") == ["c", "b", "a"]
        for sort in ("created", "-created", "title", "-title", "tokens", "-cost", "changed"):
            cursor, seen = None, []
            while True:
                more = {} if cursor is None else {"cursor": cursor}
                page = (await web.client.get("/sessions", params={"sort": sort, "limit": 1, **more})).json()
                seen += [one["session_id"] for one in page["sessions"]]
                if (cursor := page["next_cursor"]) is None:
                    break
            assert seen == await listed(sort=sort), sort
        (item,) = (await web.client.get("/sessions", params={"q": "list"})).json()["sessions"]
        assert item["waiting"] == {"approvals": 1, "questions": 0}
        assert (item["suspended"], item["ended"], item["first_words"]) == (True, False, "List them")
