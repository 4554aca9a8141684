"""Watches over real sockets and of a made-up source: who sees which rows, what is told when they change, and what a slow reader gets."""

import random
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings, strategies as st

from agentrail.gateway import row_watches as watches_module, socket_connection as open_socket_module
from agentrail.gateway.error_responses import CallRefused
from agentrail.gateway.row_watches import Watches, WatchKind
from agentrail.gateway.watch_window import PART_BYTES, WatchWindow
from agentrail.host import row_sources
from agentrail.host.hook_payloads import Principal
from agentrail.host.row_sources import ChangeLog, TakenRows
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from agentrail.wire.rows import RowFilter, SessionRow, WaitingCounts, row_fits
from tests.gateway.callers import CALLERS, Rows, auth, by
from tests.gateway.socket_client import socket_of
from tests.gateway.web import serving
from tests.host.hosting import answering, profile
from tests.runtime.rig import on_virtual_time


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
        one._is_low.unpark_all()  # noqa: SLF001 - as above
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
        assert "see the log" in faults["wrong"]
        assert "secret-place" not in faults["wrong"]


async def test_lists_are_searched_filtered_and_sorted():
    """By words, outcome, what waits, the end; in each order, over pages."""
    model = ScriptedModel([says("words " * 50), says("words"), calls(("shell", {"command": "ls"}))])
    options = {"session_tools": [RecordingTool(name="shell")], "session_plugins": [HumanApproval]}
    async with serving(model, **options) as web:

        async def listed(**query):
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


KEYS = [f"k{number}" for number in range(8)]


class Told:
    """The rows that one client has, made of the parts that it was told."""

    def __init__(self):
        self.rows = {}
        self.total = 0
        self.parts = []

    def take(self, part):
        self.parts.append(part)
        self.total = part.total
        assert sum(map(len, part.rows[:-1])) < PART_BYTES
        for text in part.rows:
            row = msgspec.json.decode(text)
            self.rows[row["session_id"]] = row
        for key in part.gone:
            del self.rows[key]  # nothing is taken away that was not told


class Given(dict[str, Any]):
    """Rows by key, the one that changed last behind all others."""

    def written(self, key):
        value = self.get(key)
        return None if value is None else msgspec.json.encode({"session_id": key, "value": value})


def catch_up(window, given, told, most=10_000):
    for _ in range(most):
        part = window.next_part(given.written)
        if part is None:
            return
        told.take(part)


@settings(max_examples=150)
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 3), st.booleans(), st.integers(0, 2)),
        max_size=40,
    ),
    limit=st.integers(1, 10),
)
def test_a_client_ends_with_the_rows_that_changed_last(changes, limit):
    """Whatever changed, came and went, and however seldom it was told; never more than the limit."""
    given_rows, window, told = Given(), WatchWindow(RowFilter(limit=limit)), Told()
    matching = {}
    for key, value, is_wanted, parts in changes:
        given_rows.pop(key, None)
        matching.pop(key, None)
        if value is not None:
            given_rows[key] = value
            if is_wanted:
                matching[key] = value
        window.note(key, is_wanted=key in matching)
        window.close_gaps()
        catch_up(window, given_rows, told, parts)
        assert window.total == len(matching)
    catch_up(window, given_rows, told)
    last = dict(list(matching.items())[-limit:])
    assert {key: row["value"] for key, row in told.rows.items()} == last
    assert not window.has_more
    if told.parts:
        assert len(told.rows) <= limit


def test_a_log_forgets_the_oldest_changes_and_says_so(monkeypatch):
    """Whoever has seen fewer looks at all rows again."""
    monkeypatch.setattr(row_sources, "MAX_CHANGES", 3)
    log = ChangeLog()
    for key in "abcab":
        log.note(key)
    assert log.since(0) == ["b", "a", "c"]
    assert log.since(4) == ["b"]
    log.note("d")
    log.note("e")
    assert log.since(0) is None
    assert log.since(log.version) == []


# --- watches of a source that is made up


class People(TakenRows):
    """Rows that belong to users, for a test to change."""

    def __init__(self):
        super().__init__(self.all_rows, every_seconds=0.05)
        self.now = {}

    async def all_rows(self):
        return dict(self.now)

    def is_of(self, key, user_id):
        row = self.row(key)
        return row is not None and row.user == user_id

    def fits(self, row, wanted):
        return row_fits(row, wanted)


def kind(source, scope="use"):
    return WatchKind(name="people", open_feed=lambda host, tenant: source, scope=scope)


def row_of(key, user, **more):
    none = WaitingCounts(approvals=0, questions=0)
    return SessionRow(session_id=key, phase="idle", waiting=none, changed_at_ms=1, user=user, **more)


@pytest.mark.parametrize("seed", range(6))
@on_virtual_time
async def test_watchers_of_all_kinds_end_with_what_they_may_see(seed):
    """Owners, filters, limits and slow readers at random: no one is told of another's row, and all are level in the end."""
    chance = random.Random(seed)  # noqa: S311 - of a test
    source, people = People(), {}
    users = ["ann", "bob", "boss"]
    async with trio.open_nursery() as nursery:
        row_watches = Watches(None, nursery, kinds={"people": kind(source)}, has_inspector=True)
        for number in range(9):
            user = chance.choice(users)
            wanted = RowFilter(
                agent_id=chance.choice([None, None, "desk"]),
                phase=chance.choice([None, None, "idle"]),
                q=chance.choice([None, None, "refund"]),
                ended=chance.choice([None, False]),
                limit=chance.choice([3, 500]),
            )
            scopes = ("use", "inspect") if user == "boss" else ("use",)
            principal = Principal(tenant_id="acme", user_id=user, scopes=scopes)
            told = people[number, user] = Told(), wanted
            nursery.start_soon(_watch_slowly, row_watches, principal, told, chance)
        keys = [f"s{number}" for number in range(12)]
        for _ in range(300):
            await trio.sleep(chance.choice([0, 0.01, 0.2]))
            key = chance.choice(keys)
            if chance.random() < 0.2:
                source.now.pop(key, None)
            else:
                source.now[key] = row_of(
                    key,
                    chance.choice(users),
                    agent_id=chance.choice(["desk", "eval"]),
                    title=chance.choice([None, "Refund 4411", "Import"]),
                    ended=chance.random() < 0.2,
                )
        await trio.sleep(60)
        for (_, user), (told, wanted) in people.items():
            may_see = {
                key for key, row in source.now.items() if row_fits(row, wanted) and user in ("boss", row.user)
            }
            assert told.total == len(may_see)
            assert told.rows.keys() <= may_see
            assert len(told.rows) == min(len(may_see), wanted.limit)
            for key, row in told.rows.items():
                assert row == msgspec.to_builtins(source.now[key])
        assert row_watches.open_feeds == 1
        assert source._written.keys() <= source.now.keys()  # noqa: SLF001 - what rows that are gone would leave
        nursery.cancel_scope.cancel()


async def _watch_slowly(watches, principal, told_and_wanted, chance):
    told, wanted = told_and_wanted

    async def wait_room():
        await trio.sleep(chance.choice([0, 0, 0.5, 5]))

    async def tell(part):
        for text in part.rows:
            row = msgspec.json.decode(text)
            assert row["user"] == principal.user_id or "inspect" in principal.scopes
        told.take(part)

    found = watches.kind_of("people", principal)
    await watches.watch(found, wanted, principal, wait_room=wait_room, begin=tell, tell=tell)


@on_virtual_time
async def test_a_feed_is_followed_once_and_let_go_with_the_last_watcher():
    """One that fails ends its watches with an error, and the next watch begins a new one."""
    made = []

    class Failing(People):
        async def run(self, up):
            up.set()
            await trio.sleep(5)
            raise ValueError

    def open_feed(host, tenant):
        made.append(Failing() if len(made) == 1 else People())
        return made[-1]

    known = WatchKind(name="people", open_feed=open_feed)
    ann = Principal(tenant_id="acme", user_id="ann")
    async with trio.open_nursery() as nursery:
        row_watches = Watches(None, nursery, kinds={"people": known}, has_inspector=False)
        silent = {"wait_room": trio.lowlevel.checkpoint, "begin": _ignore, "tell": _ignore}
        watch = partial(row_watches.watch, known, RowFilter(), ann, **silent)
        with trio.move_on_after(1):
            async with trio.open_nursery() as inner:
                inner.start_soon(watch)
                inner.start_soon(watch)
        assert (len(made), row_watches.open_feeds) == (1, 0)
        with pytest.raises(CallRefused) as raised:
            await watch()
        assert raised.value.answer.code == "internal"
        assert (len(made), row_watches.open_feeds) == (2, 0)
        with trio.move_on_after(1):
            await watch()
        assert (len(made), row_watches.open_feeds) == (3, 0)


async def _ignore(part):  # noqa: RUF029 - in the place of one that waits
    pass


def test_a_kind_needs_its_scope_and_the_inspector():
    """What is for those who inspect is refused without the scope, and unknown where there is no inspector."""
    use, inspect = (
        Principal(tenant_id="t", user_id="u", scopes=scopes) for scopes in (("use",), ("use", "inspect"))
    )
    kinds = {"people": kind(People(), scope="inspect")}
    there = Watches(None, None, kinds=kinds, has_inspector=True)
    assert there.kind_of("people", inspect).scope == "inspect"
    with pytest.raises(CallRefused) as refused:
        there.kind_of("people", use)
    assert refused.value.answer.code == "forbidden"
    assert "inspect" in refused.value.answer.message
    absent = Watches(None, None, kinds=kinds, has_inspector=False)
    with pytest.raises(CallRefused) as unknown:
        absent.kind_of("people", inspect)
    assert unknown.value.answer.code == "field_invalid"
    assert watches_module.ROUND_SECONDS >= 0.25
