"""The routes of sessions over a socket: what they take, what they answer, which sessions an earlier life of the process left, and how a user is forgotten (G-014)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import trio
from msgspec.structs import replace

from agentrail.abc import FileBytes
from agentrail.abc.recall import MemoryEntry, MemoryOwner
from agentrail.abc.store import Filters, StoredSession
from agentrail.errors import SessionDown
from agentrail.gateway.app import ROUTES
from agentrail.gateway.path_endpoint import CallRoute
from agentrail.host import Limits
from agentrail.messages import SessionId
from agentrail.plugins import HumanApproval
from agentrail.runtime.session_files import open_files
from agentrail.stores.memory import MemoryStore
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.stores.recall_sqlite import SqliteRecall
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from tests.gateway.attacks.test_other_peoples import VALUES
from tests.gateway.attacks.wire import by_header
from tests.gateway.callers import auth, by
from tests.gateway.web import Web, error_of, serving
from tests.host.hosting import answering, profile, spoil
from tests.runtime.rig import eventually, on_bounded_time

pytestmark = on_bounded_time


def caller(name: str) -> dict[str, str]:
    """The header of one, `tenant/user`, who may inspect too."""
    return {"authorization": f"Bearer {name}+"}


ANN = caller("acme/ann")
MANY = ("Hi",) * 40

BODIES: dict[str, dict[str, Any]] = {
    "prompt": {"message": "Hi"}, "steer": {"message": "Hi"}, "model": {"model": "demo:"}, "rewind": {"to": 1},
    "approve": {"approval_id": "main/1"}, "reject": {"approval_id": "main/1"}, "respond": {"ref": "main/1", "response": "x"},
    "breakpoints": {"tool": "nothing"},
}  # fmt: skip


ON_A_SESSION = [route for route in ROUTES if "{session_id}" in route.path]


async def call(web: Web, route: CallRoute, session_id: str, who: dict[str, str]) -> httpx.Response:
    """Make a call as it is meant, about a session."""
    path = route.path.replace("{session_id}", session_id)
    for name, value in VALUES.items():
        path = path.replace(f"{{{name}}}", f"{value}").replace(f"{{{name}:path}}", f"{value}")
    said = BODIES.get(path.rpartition("/")[2], {}) if route.method == "POST" else None
    needed = {"at": "1"} if path.endswith(("/state", "/explain")) else None
    return await web.client.request(route.method, path, json=said, headers=who, params=needed)


@pytest.mark.host("H-085")
async def test_an_id_that_is_none_is_refused_on_every_route():
    """It is not repeated in the answer; nor where it stands in a body."""
    async with serving(answering(*MANY), auth=by_header) as web:
        for number, route in enumerate(ON_A_SESSION):
            who = caller(f"acme/{number}")  # so many calls are more than one may make at once
            for name in ("a..b", "a b", "x" * 129, "a%00b", "a@b", "-a", "%0Aa"):
                response = await call(web, route, name, who)
                error_of(response, 422, "id_invalid")
                assert name not in response.text
        for name in ("a/b", "a..b", "a\0", "a b", "a" * 129, "-a", "\na"):
            said = {"message": "Hi", "session_id": name}
            error_of(await web.post("/chat", said, headers=ANN), 422, "id_invalid")


async def test_a_session_of_a_profile_that_is_not_served_any_more_is_refused_as_the_page_says():
    """On every route. Leaving the server compares its answers with `/openapi.json`."""
    store = MemoryStore(lease_ms=0)
    async with serving(store=store, profiles=[profile(answering("Hi."), name="old")], auth=by_header) as web:
        await web.post("/chat", {"message": "Hi", "session_id": "s-1"}, headers=ANN)
    async with serving(answering(), store=store, auth=by_header) as web:
        shown = await web.client.get("/sessions/s-1", headers=ANN)
        assert "'old'" in error_of(shown, 404, "profile_unknown")["message"]
        for route in ON_A_SESSION:
            assert (await call(web, route, "s-1", ANN)).status_code < 500, route.path


async def test_a_call_is_approved_over_http_with_what_was_shown():
    """Another hash is refused; the request tells its end to who waits for it, and is not cancelled behind it."""
    tool = RecordingTool(name="shell")
    model = ScriptedModel([calls(("shell", {"command": "ls"})), says("Done")])
    async with serving(model, session_tools=[tool], session_plugins=[HumanApproval]) as web:
        waits = (await web.chat(session_id="main")).json()
        asked = (await web.client.get("/sessions/main")).json()["status"]["approvals"][0]
        wrong = {"approval_id": asked["id"], "arguments_hash": "other"}
        held = error_of(await web.post("/sessions/main/approve", wrong), 409, "approval_mismatch")
        assert held["arguments_hash"] == asked["arguments_hash"]
        right = wrong | {"arguments_hash": asked["arguments_hash"]}
        (await web.post("/sessions/main/approve", right)).raise_for_status()
        place = f"/sessions/main/requests/{waits['request_id']}"
        ended = (await web.client.get(f"{place}?wait=5")).json()
        assert (ended["status"], ended["text"], len(tool.calls)) == ("completed", "Done", 1)
        error_of(await web.post(f"{place}/cancel"), 409, "request_over")
        error_of(await web.client.get(f"{place}?wait=301"), 422, "field_invalid")
        receipt = await web.post("/sessions/main/abort?wait=true")
        assert (receipt.status_code, receipt.json()["settled"]) == (200, True)
        assert (await web.post("/sessions/main/abort")).status_code == 202


@pytest.mark.host("H-112")
async def test_a_page_comes_as_an_attachment_and_never_renders():
    """Whatever its name is; a path that leaves the workspace is as one that is not there."""
    async with serving(answering("Hi")) as web:
        await web.post("/sessions", {"session_id": "main"})
        files = {"page.html": b"<script>", 'odd "ü".txt': b"x"}
        session = next(iter(web.host.supervisor.sessions()))
        async with open_files(session) as sandbox:
            await sandbox.upload([FileBytes(path=path, content=held) for path, held in files.items()])
        for path, held in files.items():
            found = await web.client.get(f"/sessions/main/files/{path}")
            assert (found.status_code, found.content) == (200, held)
            assert found.headers["content-disposition"].startswith("attachment; filename=")
            assert found.headers["content-type"] == "application/octet-stream"
            assert found.headers["x-content-type-options"] == "nosniff"
            assert found.headers["etag"].startswith('"')
        assert found.headers["content-disposition"].startswith('attachment; filename="odd____.txt";')
        assert "filename*=UTF-8''odd%20%22%C3%BC%22.txt" in found.headers["content-disposition"]
        for path in ("..%2fsecret", "%2fetc%2fpasswd", "none", "a%00b"):
            error_of(await web.client.get(f"/sessions/main/files/{path}"), 404, "file_unknown")
        listed = (await web.client.get("/sessions/main/files?path=")).json()
        assert sorted(one["path"] for one in listed["entries"]) == sorted(files)


@pytest.mark.host("H-113")
async def test_what_is_answered_is_as_the_page_says():
    """Of the calls that other tests here make no success of; each is held against it by `serving`."""
    async with serving(answering(*MANY), auth=by_header, store=MemoryStore()) as web:
        await web.post("/chat", {"message": "Hi", "session_id": "main"}, headers=ANN)
        looks = ("sessions", "tree", "plugins", "sessions/main/trace?limit=1000", "sessions/main/messages")
        made = [await web.client.get(f"/inspect/{path}", headers=ANN) for path in looks]
        made.append(await web.client.get("/sessions/main/files", headers=ANN))
        for call_name in ("model", "compact", "fork", "rewind"):
            said = BODIES.get(call_name, {})
            made.append(await web.post(f"/sessions/main/{call_name}", said, headers=ANN))
        assert [one.status_code for one in made] == [200] * 7 + [202, 201, 200]
        assert made[-2].headers["location"] == f"/sessions/{made[-2].json()['session_id']}"


async def test_a_dry_rewind_tells_what_is_behind_and_goes_nowhere():
    """The calls that stay done, and their arguments; a fork goes to a record or an event, also of a session that has ended."""
    tool = RecordingTool(name="pay")
    model = ScriptedModel([says("Hello"), calls(("pay", {"order": 4411})), says("Paid")])
    async with serving(model, session_tools=[tool], store=MemoryStore()) as web:
        await web.chat(session_id="main")
        seq = len((await web.client.get("/inspect/sessions/main/trace")).json()["entries"])
        await web.chat(session_id="main")
        before = (await web.client.get("/sessions/main")).json()
        told = (await web.post("/sessions/main/rewind", {"to": seq, "dry": True})).json()
        (one,) = told["calls"]
        assert (one["name"], one["effect_class"], one["outcome"]) == ("pay", "once", "done")
        assert (one["summary"], one["number"] > seq, told["dry"]) == ('{"order":4411}', True, True)
        assert (await web.client.get("/sessions/main")).json()["messages"] == before["messages"]
        both = {"to": seq, "event": 1}
        error_of(await web.post("/sessions/main/rewind", both), 422, "field_invalid")
        error_of(await web.post("/sessions/main/rewind", {}), 422, "field_invalid")
        error_of(await web.post("/sessions/main/rewind", {"event": 10_000}), 422, "option_error")
        entries = (await web.client.get("/inspect/sessions/main/trace?limit=1000")).json()["entries"]
        for event in {one["events"] for one in entries if one["events"]}:
            known = min(one["number"] for one in entries if one["events"] >= event)
            told_of = (await web.post("/sessions/main/rewind", {"event": event, "dry": True})).json()
            assert told_of["at"] == known
        event = entries[seq - 1]["events"]
        number = min(one["number"] for one in entries if one["events"] >= event)
        fork = await web.post("/sessions/main/fork", {"event": event})
        assert fork.json()["at"] == number
        went = (await web.post("/sessions/main/rewind", {"to": seq})).json()
        assert (went["calls"], "dry" in went) == (told["calls"], False)
        assert len((await web.client.get("/sessions/main")).json()["messages"]) == 2
        # Of one that has ended the past is all that it has, and a reader knows it by events.
        await web.host.supervisor.stop_session("main", "done", scope="local")
        for place in ({"event": event}, {"at": number}):
            fork = await web.post("/sessions/main/fork", place)
            assert (fork.status_code, fork.json()["at"]) == (201, number), fork.text
        error_of(await web.post("/sessions/main/fork", {"event": event, "at": number}), 422, "field_invalid")


@asynccontextmanager
async def life(path: Any, *turns: Turn) -> AsyncIterator[Web]:
    """One life of a process over a file."""
    tools = [RecordingTool(name="shell"), *builtin("ask_user")]
    desk = profile(ScriptedModel(turns), tools=tools, plugins=[HumanApproval])
    options = {"store": f"sqlite:{path}/a.db", "limits": Limits(messages_burst=100)}
    async with serving(None, profiles=[desk], auth=auth, headers=by("ann"), **options) as web:
        yield web


@pytest.mark.parametrize("ending", ["approve", "reject", "respond", "abort", "cancel"])
async def test_what_waited_for_a_person_in_an_earlier_life_goes_on_with_their_word(tmp_path, ending):
    """What waits is known behind the restart, with the request; a decision wakes it, and the request ends by it."""
    asks = ("ask_user", {"question": "Which?"}) if ending == "respond" else ("shell", {"command": "ls"})
    async with life(tmp_path, calls(asks)) as web:
        waiting = await web.chat(session_id="main")
        assert (waiting.status_code, waiting.json()["status"]) == (202, "waiting")
        request_id = waiting.json()["request_id"]
    async with life(tmp_path, says("Done.")) as web:
        (listed,) = (await web.client.get("/sessions")).json()["sessions"]
        assert listed["waits_for"] == 1
        (pending,) = waiting.json()["pending"]
        base = "/sessions/main"
        place, said = {
            "approve": (f"{base}/approve", {"approval_id": pending["id"], "auto_resume": True}),
            "reject": (f"{base}/reject", {"approval_id": pending["id"], "auto_resume": True}),
            "respond": (f"{base}/respond", {"ref": pending["id"], "response": "this"}),
            "abort": (f"{base}/abort?wait=true", {}),
            "cancel": (f"{base}/requests/{request_id}/cancel", {}),
        }[ending]
        response = await web.post(place, said)
        assert response.status_code in (200, 202), response.text
        told = (await web.client.get(f"{base}/requests/{request_id}?wait=5")).json()
        outcome = "aborted" if ending in ("abort", "cancel") else "completed"
        assert (told["status"], told["session_id"]) == (outcome, "main")


@pytest.mark.check  # a session that is put to rest is waited for, two seconds, on a clock that threads share
async def test_what_was_at_work_in_an_earlier_life_works_again_at_once(tmp_path):
    """Without a word: its cycle was cut, so it goes on when the next life begins; one that was idle sleeps on."""
    turns = iter([says("So", " it", " is.", pause_seconds=60.0)])
    desk = profile(FunctionModel(lambda _: next(turns, says("Again."))))
    options = {"store": f"sqlite:{tmp_path}/a.db", "profiles": [desk], "drain_timeout": 0.0}
    async with serving(None, **options) as web:
        await web.post("/sessions", {"session_id": "idle"})
        await web.post("/sessions", {"session_id": "busy"})
        sent = (await web.post("/sessions/busy/prompt", {"message": "Hi"})).json()
        await trio.sleep(0.1)
    async with serving(None, **options) as web:
        listed = (await web.client.get("/sessions")).json()["sessions"]
        assert {"idle": "asleep"}.items() <= {one["session_id"]: one["phase"] for one in listed}.items()
        web.host.supervisor.session("busy", scope="local")
        told = (await web.client.get(f"/sessions/busy/requests/{sent['request_id']}?wait=5")).json()
        assert (told["status"], told["text"]) == ("completed", "Again.")
        with pytest.raises(SessionDown):
            web.host.supervisor.session("idle", scope="local")


CANARY = "kingfisher4711"
LARGE = f"{CANARY} sat there. " * 5_000
TOOLS = builtin("remember", "recall", "forget")


OWN, OTHERS, FOREIGN = by("ann"), by("bob"), by("eve")


async def chat(web, who, session_id, message):
    """Say something in a session, and wait for the answer."""
    return await web.post("/chat", {"message": message, "session_id": session_id}, headers=who)


def files_with_canary(directory):
    """The files that hold the canary, in any of the forms in which a store could have cut it."""
    files = [one for one in directory.rglob("*") if one.is_file()]
    assert any(one.name.endswith("-wal") for one in files), "no server has these files open"
    return [one.name for one in files if CANARY.encode() in one.read_bytes().lower()]


async def test_forgetting_a_user_leaves_nothing_of_a_canary_in_any_file_of_a_running_server(tmp_path):
    """G-014: not in the database, its log, the index of a user with 1 % of the rows, journals, snapshots or large values."""
    fact = {"text": f"Ann saw a {CANARY}.", "tags": [CANARY], "scope": "user"}
    noted = {"text": f"Look for the {CANARY}.", "topic": CANARY}
    told = [calls(("remember", fact), ("remember", noted)), says(f"A {CANARY}!")]
    model = ScriptedModel([*told, says(f"Of the {CANARY}: " + LARGE), says("Once more."), says("Hello Bob")])
    memories = SqliteRecall(tmp_path / "memories")
    rows = [(f"u{n % 9}", MemoryEntry(id=f"m{n}", text=f"likes tea {n}", at_ms=n)) for n in range(300)]
    memories.put_all("acme", rows)
    for number in range(3):
        memories.put(
            MemoryOwner(tenant="acme", user="ann"), MemoryEntry(id=f"a{number}", text=CANARY, at_ms=number)
        )
    options = {"auth": auth, "store": f"sqlite:{tmp_path / 'sessions.db'}", "memories": memories}
    options["notes"] = f"files:{tmp_path / 'notes'}"
    async with serving(model, session_tools=TOOLS, **options) as web:
        (await chat(web, OWN, "s1", f"Remember: I saw a {CANARY}.")).raise_for_status()
        (await chat(web, OWN, "s1", LARGE)).raise_for_status()
        assert (await web.post("/sessions/s1/fork", {"session_id": "f1"}, headers=OWN)).status_code == 201
        (await chat(web, OWN, "f1", f"And the {CANARY}?")).raise_for_status()
        (await chat(web, OTHERS, "b1", "Hi")).raise_for_status()
        assert {"sessions.db-wal", "NOTES.md"} < {*files_with_canary(tmp_path), "sessions.db"}
        answer = await web.client.delete("/users/ann/memory", headers=OWN)
        assert answer.status_code == 200, answer.text
        assert files_with_canary(tmp_path) == []
        said = answer.json()
        assert (said["memories"], said["notes"], said["sessions"]) == (4, 1, 2)
        assert (said["is_overwritten"], said["left"]) == (True, [])
        assert said["records"] > 10
        assert said["blobs"] >= 1
        assert "backups" in " ".join(said["not_reached"])
        again = (await web.client.delete("/users/ann/memory", headers=OWN)).json()
        assert (again["memories"], again["sessions"], again["records"]) == (0, 0, 0)
        assert (again["is_overwritten"], again["left"]) == (True, [])
        for path in ("", "/messages", "/events"):
            error_of(await web.client.get(f"/sessions/s1{path}", headers=OWN), 404, "session_unknown")
        assert (await web.client.get("/sessions?ended=true", headers=OWN)).json()["sessions"] == []
        messages = (await web.client.get("/sessions/b1/messages", headers=OTHERS)).json()["messages"]
        assert len(messages) == 2
        assert len(memories.list(MemoryOwner(tenant="acme", user="u1"))) == 34
        # The user may begin anew.
        error_of(await chat(web, OWN, "s1", "Hi"), 409, "already_exists")
    assert [
        one.name for one in tmp_path.rglob("*") if one.is_file() and CANARY.encode() in one.read_bytes()
    ] == []
    memories.close()


async def test_each_user_is_forgotten_by_who_speaks_for_them():
    """Themselves, and a token of their tenant that names them; never a colleague, and never another tenant's of the same name."""
    memories = InMemoryRecall()
    ann = MemoryOwner(tenant="acme", user="ann")
    memories.put(ann, MemoryEntry(id="m1", text="tea", at_ms=1))
    tenant = by("team")
    async with serving(answering("Hi", "Hi"), auth=auth, store=MemoryStore(), memories=memories) as web:
        await chat(web, OWN, "s1", "Hi")
        refused = error_of(
            await web.client.delete("/users/ann/memory", headers=OTHERS), 403, "principal_mismatch"
        )
        assert "ann" not in refused["message"]
        error_of(await web.client.delete("/users/a..b/memory", headers=OWN), 422, "id_invalid")
        error_of(await web.client.delete("/users/ann/memory"), 401, "unauthorized")
        other = await web.client.delete("/users/eve/memory", headers=FOREIGN)
        assert (other.status_code, other.json()["sessions"]) == (200, 0)
        assert len(memories.list(ann)) == 1
        for_bob = await web.client.delete("/users/ann/memory", headers={**tenant, "x-agentrail-user": "bob"})
        error_of(for_bob, 403, "principal_mismatch")
        told = (await web.client.delete("/users/ann/memory", headers=tenant)).json()
        assert (told["memories"], told["sessions"]) == (1, 1)
        assert memories.list(ann) == ()


PAST = [
    {"role": "user", "content": [{"kind": "text", "text": "Look."}]},
    {"role": "assistant", "model": "m", "content": [{"kind": "tool_call", "call_id": "c1", "name": "look", "arguments": {}}]},
    {"role": "tool", "results": [{"call_id": "c1", "name": "look", "text": "a cat"}]},
]  # fmt: skip
REPAIRS = [
    {"code": "call_id", "position": 4, "call_id": "c1"},
    {"code": "missing_result", "position": 4, "call_id": "c1"},
]


async def test_a_new_session_starts_from_a_given_history():
    """In the form in which its messages are read; repaired and told; 413 for 1,001 messages, 409 for a session that exists (11.13)."""
    twice = [*PAST, PAST[0], PAST[1]]
    async with serving(answering(*MANY)) as web:
        made = await web.post("/sessions", {"session_id": "main", "history": twice})
        assert (made.status_code, made.json()["repairs"]) == (201, REPAIRS)
        held = (await web.client.get("/sessions/main/messages")).json()["messages"]
        again = await web.post("/sessions", {"history": held})
        assert again.json()["repairs"] == []
        copied = (await web.client.get(f"/sessions/{again.json()['session_id']}/messages")).json()
        assert copied["messages"] == held
        plain = await web.post("/sessions", {})
        assert "repairs" not in plain.json()
        for path, given in (
            ("/sessions", {"session_id": "main"}),
            ("/chat", {"message": "Hi", "session_id": "main"}),
            ("/sessions/main/prompt", {"message": "Hi"}),
        ):
            error_of(await web.post(path, given | {"history": PAST}), 409, "already_exists")
            error_of(await web.post(path, given | {"history": [PAST[0]] * 1_001}), 413, "too_large")
            error_of(await web.post(path, given | {"history": [{"role": "system"}]}), 422, "field_invalid")
        chat = await web.post("/chat", {"message": "And?", "history": twice})
        assert (chat.status_code, chat.headers["x-history-repairs"]) == (200, "2")
        assert "x-history-repairs" not in (await web.post("/chat", {"message": "Hi"})).headers


async def test_a_session_that_is_not_kept_is_in_no_list_and_goes_when_it_ends():
    """Made without a message, and by one; read by its id until then."""
    store = MemoryStore()
    async with serving(answering(*MANY), store=store) as web:
        made = await web.post("/sessions", {"session_id": "a", "keep": False})
        assert made.status_code == 201
        (await web.post("/chat", {"message": "Hi", "session_id": "b", "keep": False})).raise_for_status()
        await web.post("/sessions", {"session_id": "c"})
        listed = (await web.client.get("/sessions")).json()
        assert [one["session_id"] for one in listed["sessions"]] == ["c"]
        for name in ("a", "b"):
            assert (await web.client.get(f"/sessions/{name}")).status_code == 200
            (await web.client.delete(f"/sessions/{name}")).raise_for_status()
        await eventually(lambda: [one.session for one in store.find(Filters())] == ["c"])
        error_of(await web.client.get("/sessions/a"), 404, "session_unknown")
        error_of(await web.post("/sessions", {"keep": "no"}), 422, "field_invalid")


@pytest.mark.parametrize("is_ended_before", [False, True])
@pytest.mark.parametrize("store", [MemoryStore, lambda: None])
async def test_nothing_of_a_purged_session_can_be_read(store, is_ended_before):
    """Neither its events, as a stream and as a page, nor its calls: the five minutes of an ended session are not for it."""
    async with serving(answering(*MANY), store=store()) as web:
        (await web.post("/chat", {"message": "Hi", "session_id": "a"})).raise_for_status()
        if is_ended_before:
            (await web.client.delete("/sessions/a")).raise_for_status()
        assert (await web.client.delete("/sessions/a?purge=true")).status_code == 204
        for path in (
            "",
            "/messages",
            "/events",
            "/events?after=0",
            "/events?after=0&format=json",
            "/calls/c",
        ):
            error_of(await web.client.get(f"/sessions/a{path}"), 404, "session_unknown")
        error_of(await web.client.delete("/sessions/a?purge=true"), 404, "session_unknown")
        (await web.post("/chat", {"message": "Hi", "session_id": "a"})).raise_for_status()


async def test_a_session_that_cannot_be_read_is_told_as_that_and_can_be_deleted():
    """Each of its routes answered `500 internal`, also `DELETE`. To other users it does not exist."""
    store = MemoryStore()
    given = {"store": store, "auth": auth}
    async with serving(answering("Hi"), **given) as web:
        for name in ("a", "z"):
            (await web.post("/sessions", {"session_id": name}, headers=by("ann"))).raise_for_status()
    spoil(store, "a")
    async with serving(answering("Hi"), **given) as web:
        for path in ("", "/messages", "/events?format=json"):
            answer = await web.client.get(f"/sessions/a{path}", headers=by("ann"))
            assert error_of(answer, 503, "session_unreadable")["request_id"].startswith("e-")
        sent = {"message": "Hi", "session_id": "a"}
        error_of(await web.post("/chat", sent, headers=by("ann")), 503, "session_unreadable")
        told = error_of(await web.client.delete("/sessions/a", headers=by("ann")), 503, "session_unreadable")
        assert "DELETE with purge=true" in told["hint"]
        for who in ("bob", "eve"):
            error_of(
                await web.client.delete("/sessions/a?purge=true", headers=by(who)), 404, "session_unknown"
            )
        answer = error_of(await web.post("/chat", sent, headers=by("bob")), 404, "session_unknown")
        assert answer["hint"] == "omit session_id to get a generated id"
        assert (await web.client.delete("/sessions/a?purge=true", headers=by("ann"))).status_code == 204
        assert [one.session for one in store.find(Filters(scope="acme"))] == ["z"]
        error_of(await web.client.get("/sessions/a", headers=by("ann")), 404, "session_unknown")


class RowsOfAnotherRoot(MemoryStore):
    """A store in which each session is a sub-agent of one that there is not."""

    def get(self, scope: str, session: SessionId) -> StoredSession | None:
        found = super().get(scope, session)
        return None if found is None else replace(found, root=SessionId("boss"))


async def test_a_row_that_names_another_root_is_refused_as_the_page_has_it():
    """Only some routes had the code, and the rig compares each answer with the page."""
    store = RowsOfAnotherRoot()
    async with serving(answering("Hi."), auth=auth, store=store, headers=by("ann")) as web:
        said = {"session_id": "main", "message": "Hi"}
        assert (await web.client.post("/chat", json=said)).status_code == 200
    async with serving(answering(), auth=auth, store=store) as web:
        for route in ON_A_SESSION:
            if route.path.endswith(("/abort", "/reject", "/breakpoints")):
                refused = await call(web, route, "main", by("ann"))
                assert error_of(refused, 409, "session_is_child")["root_id"] == "boss"
