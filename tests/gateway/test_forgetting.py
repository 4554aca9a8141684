"""A user is forgotten while the server runs (G-014), by whom that may be said, and what the answer says."""

from agentrail.abc.recall import MemoryEntry, MemoryOwner
from agentrail.stores.memory import MemoryStore
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.stores.recall_sqlite import SqliteRecall
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools import builtin
from tests.gateway.callers import auth, by
from tests.gateway.web import error_of, serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time

CANARY = "kingfisher4711"
LARGE = f"{CANARY} sat there. " * 5_000
TOOLS = builtin("remember", "recall", "forget")


ANN, BOB, EVE = by("ann"), by("bob"), by("eve")


async def chat(web, who, session_id, message):
    """Say something in a session, and wait for the answer."""
    return await web.post("/chat", {"message": message, "session_id": session_id}, headers=who)


def files_with_canary(directory):
    """The files that hold the canary, in any of the forms in which a store could have cut it."""
    files = [one for one in directory.rglob("*") if one.is_file()]
    assert any(one.name.endswith("-wal") for one in files), "no server has these files open"
    return [one.name for one in files if CANARY.encode() in one.read_bytes().lower()]


@on_bounded_time
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
        (await chat(web, ANN, "s1", f"Remember: I saw a {CANARY}.")).raise_for_status()
        (await chat(web, ANN, "s1", LARGE)).raise_for_status()
        assert (await web.post("/sessions/s1/fork", {"session_id": "f1"}, headers=ANN)).status_code == 201
        (await chat(web, ANN, "f1", f"And the {CANARY}?")).raise_for_status()
        (await chat(web, BOB, "b1", "Hi")).raise_for_status()
        assert {"sessions.db-wal", "NOTES.md"} < {*files_with_canary(tmp_path), "sessions.db"}
        answer = await web.client.delete("/users/ann/memory", headers=ANN)
        assert answer.status_code == 200, answer.text
        assert files_with_canary(tmp_path) == []
        said = answer.json()
        assert (said["memories"], said["notes"], said["sessions"]) == (4, 1, 2)
        assert (said["is_overwritten"], said["left"]) == (True, [])
        assert said["records"] > 10
        assert said["blobs"] >= 1
        assert "backups" in " ".join(said["not_reached"])
        again = (await web.client.delete("/users/ann/memory", headers=ANN)).json()
        assert (again["memories"], again["sessions"], again["records"]) == (0, 0, 0)
        assert (again["is_overwritten"], again["left"]) == (True, [])
        for path in ("", "/messages", "/events"):
            error_of(await web.client.get(f"/sessions/s1{path}", headers=ANN), 404, "session_unknown")
        assert (await web.client.get("/sessions?ended=true", headers=ANN)).json()["sessions"] == []
        messages = (await web.client.get("/sessions/b1/messages", headers=BOB)).json()["messages"]
        assert len(messages) == 2
        assert len(memories.list(MemoryOwner(tenant="acme", user="u1"))) == 34
        # The user may begin anew.
        error_of(await chat(web, ANN, "s1", "Hi"), 409, "already_exists")
    assert [
        one.name for one in tmp_path.rglob("*") if one.is_file() and CANARY.encode() in one.read_bytes()
    ] == []
    memories.close()


@on_bounded_time
async def test_each_user_is_forgotten_by_who_speaks_for_them():
    """Themselves, and a token of their tenant that names them; never a colleague, and never another tenant's of the same name."""
    memories = InMemoryRecall()
    ann = MemoryOwner(tenant="acme", user="ann")
    memories.put(ann, MemoryEntry(id="m1", text="tea", at_ms=1))
    tenant = by("team")
    async with serving(answering("Hi", "Hi"), auth=auth, store=MemoryStore(), memories=memories) as web:
        await chat(web, ANN, "s1", "Hi")
        refused = error_of(
            await web.client.delete("/users/ann/memory", headers=BOB), 403, "principal_mismatch"
        )
        assert "ann" not in refused["message"]
        error_of(await web.client.delete("/users/a..b/memory", headers=ANN), 422, "id_invalid")
        error_of(await web.client.delete("/users/ann/memory"), 401, "unauthorized")
        other = await web.client.delete("/users/eve/memory", headers=EVE)
        assert (other.status_code, other.json()["sessions"]) == (200, 0)
        assert len(memories.list(ann)) == 1
        for_bob = await web.client.delete("/users/ann/memory", headers={**tenant, "x-agentrail-user": "bob"})
        error_of(for_bob, 403, "principal_mismatch")
        told = (await web.client.delete("/users/ann/memory", headers=tenant)).json()
        assert (told["memories"], told["sessions"]) == (1, 1)
        assert memories.list(ann) == ()
