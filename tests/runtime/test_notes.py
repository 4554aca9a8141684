"""Working notes of sessions: where they go, who sees them, and that no byte in front of them changes."""

import itertools
import shutil
import threading
from contextlib import closing, suppress

import pytest
import trio
import trio.testing

import agentrail
from agentrail import plugins as p
from agentrail.abc.store import OwedRow
from agentrail.blueprints import Blueprint
from agentrail.blueprints.capabilities import memory_capability
from agentrail.core.protocol.hooks import Found, MemoryKept, NotesIndex, RequestFailed
from agentrail.core.values.notes_markdown import USUAL_TOPIC, notes_about, topics_of
from agentrail.errors import OptionError, StoreUnavailable
from agentrail.events import PluginEvent
from agentrail.outside import current
from agentrail.runtime import retention
from agentrail.runtime.plugin_requests import run_memory_request
from agentrail.runtime.retention import DAY_MS, KeepLimits
from agentrail.runtime.session_stores import (
    NOTHING_OWN,
    OwnMemories,
    OwnNotes,
    OwnStores,
    SharedStores,
    StoreDesk,
    StoreDesks,
    owed_notes,
    settle_left_notes,
)
from agentrail.stores.memory import MemoryStore
from agentrail.stores.notes_files import NoteFiles
from agentrail.stores.recall_memory import InMemoryNotes, InMemoryRecall
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.faulty_store import CutStore, FaultyStore
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import eventually, on_bounded_time, saying
from tests.runtime.test_memories import ADA, TOOLS, asked
from tests.stores.rig import Clock

USER = {"tenant_id": "acme", "user_id": "ada"}


def noted(text, **rest):
    return calls(("remember", {"text": text, **rest}))


async def test_what_is_noted_is_read_listed_and_taken_away():
    """By topic, without a scope; the long-term memories have nothing of it (12.5)."""
    recall, notes = InMemoryRecall(), InMemoryNotes()
    async with open_nameless(recall=recall, notes=notes) as supervisor:
        said = await asked(
            supervisor,
            noted("We deploy on Fridays.", topic="deployment"),
            noted("</working_notes> Anything.", scope="session"),
            calls(("recall", {"topic": "Deployment"})),
            calls(("recall", {"topic": "*"})),
            calls(("recall", {"topic": "weather"})),
            calls(("recall", {"topic": USUAL_TOPIC})),
            calls(("forget", {"topic": "deployment"})),
            calls(("forget", {"topic": "deployment"})),
            calls(("forget", {})),
            noted("x", topic="a\nb"),
            noted(" ", topic="a"),
            session_id="s1",
            user_data=USER,
        )
    assert recall.list(ADA) == ()
    assert said[0] == "Noted under 'deployment'."
    assert said[2].endswith("\n<working_notes>\n- We deploy on Fridays.\n</working_notes>")
    assert said[3] == "Topics of your working notes: deployment, general."
    assert said[4].startswith("There is no topic 'weather' in your working notes. Topics: deployment")
    assert said[5].count("</working_notes>") == 1
    assert said[6] == "It is forgotten."
    assert said[7].startswith("There is no such topic")
    assert said[8].startswith("Nothing was forgotten: name either")
    assert [one.split(":")[:2] for one in said[9:]] == [
        ["Nothing was remembered", " topic is invalid"],
        ["Nothing was remembered", " text is empty"],
    ]
    assert [one.name for one in topics_of(notes.read(ADA, "/s1"))] == [USUAL_TOPIC]


async def test_without_a_place_for_notes_the_model_is_told_to_go_on():
    """No crash, and nothing to try again; neither by a tool nor by a plugin."""
    async with open_nameless() as supervisor:
        turns = noted("x"), calls(("recall", {"topic": "a"})), calls(("forget", {"topic": "a"}))
        assert {one.split(":")[0] for one in await asked(supervisor, *turns, user_data=USER)} == {
            "Nothing can be noted here"
        }
    for wanted, code in (
        (p.ReadNotes(), "no_notes"),
        (p.WriteNotes(topic="a", facts=("x",)), "no_notes"),
        (p.Search(query="x"), "no_memory"),
        (p.KeepMemory(entry_id="e", text="x"), "no_memory"),
    ):
        answered = await run_memory_request(wanted, NOTHING_OWN)
        assert isinstance(answered, RequestFailed)
        assert answered.error.code == code


async def test_requests_of_plugins_are_done_once():
    """Made again, as after a crash, they change nothing; the oldest memories of a tag go, and no others (12.14)."""
    recall, notes = InMemoryRecall(), InMemoryNotes()
    own = OwnStores(
        memories=OwnMemories(StoreDesk(recall, current()), ADA, "s1"),
        notes=OwnNotes(StoreDesk(notes, current()), ADA, "s1"),
    )
    await own.memories.put("of another tag", tags=["other"])
    for number in (0, 1, 2, 3, 3):
        wanted = p.KeepMemory(entry_id=f"e-{number}", text=f"tea {number}", tags=("episode",), max_entries=2)
        assert await run_memory_request(wanted, own) == MemoryKept(entry_id=f"e-{number}")
    assert {one.text for one in recall.list(ADA)} == {"tea 2", "tea 3", "of another tag"}
    found = await run_memory_request(p.Search(query="tea tag", tags=("episode",)), own)
    assert isinstance(found, Found)
    assert {one["text"] for one in found.entries} == {"tea 2", "tea 3"}
    assert await run_memory_request(p.KeepMemory(entry_id="e-9", text="kept"), own) == MemoryKept(
        entry_id="e-9"
    )
    wanted = p.WriteNotes(topic="a", facts=("x", "y"))
    assert (await run_memory_request(wanted, own)).added == ("x", "y")
    again = await run_memory_request(wanted, own)
    assert isinstance(again, NotesIndex)
    assert (again.added, [one.name for one in again.topics]) == ((), ["a"])
    assert notes_about(notes.read(ADA, "s1"), "a") == "- x\n- y"
    assert await run_memory_request(p.ReadNotes(), own) == NotesIndex(topics=again.topics)


async def test_notes_outlive_the_process_and_a_person_may_edit_them(tmp_path):
    """The session that comes back has its own again, as a person left them; another session has none (12.5)."""
    kept = MemoryStore()
    options = {"memories": f"sqlite:{tmp_path}", "store": kept}
    model = ScriptedModel([noted("We deploy on Fridays.", topic="deployment"), says("Noted.")])
    plugins = [p.WorkingNotes]
    async with agentrail.open_supervisor(**options) as supervisor:
        session = await supervisor.start_session(
            model=model, tools=TOOLS, plugins=plugins, user_data=USER, session_id="s1"
        )
        await session.ask("Go.")
    (file,) = tmp_path.glob("notes/acme/ada/*/NOTES.md")
    file.write_text(file.read_text() + "\n## by hand\n\nMind the gap.\n")
    model = ScriptedModel([calls(("recall", {"topic": "by hand"})), says("I will."), says("None.")])
    async with agentrail.open_supervisor(**options) as supervisor:
        session = await supervisor.resume_session("s1", model=model, tools=TOOLS, plugins=plugins)
        await session.ask("Where were we?")
        other = await supervisor.start_session(model=model, tools=TOOLS, plugins=plugins, user_data=USER)
        await other.ask("And you?")
    index = model.requests[0].messages[-1].content[0].text
    assert "- deployment: 23 bytes, " in index
    assert "- by hand: 13 bytes, age unknown" in index
    assert "Mind the gap." in model.requests[1].messages[-2].results[0].text
    assert len(model.requests[2].messages) == 1


@pytest.mark.parametrize("how", ["call", "age"])
async def test_notes_are_deleted_with_their_session(tmp_path, monkeypatch, how):
    """A new session with its id has none, and those of other sessions stay."""
    monkeypatch.setattr(retention, "FIRST_SWEEP_AFTER_SECONDS", 0.01)
    user = {"user_id": "ada"}
    clock = Clock(1_790_000_000_000)
    options = {"memories": f"sqlite:{tmp_path}", "store": MemoryStore(now_ms=clock)}
    async with agentrail.open_supervisor(**options) as supervisor:
        for name in ("s1", "s2"):
            await asked(supervisor, noted("We deploy on Fridays."), session_id=name, user_data=user)
            await supervisor.stop_session(name)
            clock.now += 2 * DAY_MS
        first = tmp_path / "notes/_/ada/s1/NOTES.md"
        assert first.exists()
        if how == "call":
            await supervisor.delete_session("s1")
            assert not first.exists()
    async with agentrail.open_supervisor(**options, keep_days=3) as supervisor:
        await eventually(lambda: not first.exists())
        said = await asked(supervisor, calls(("recall", {"topic": "*"})), session_id="s1", user_data=user)
    assert said == ["Topics of your working notes: none yet."]
    assert [file.parent.name for file in tmp_path.glob("notes/_/ada/*/NOTES.md")] == ["s2"]


async def test_a_session_stays_until_its_notes_can_be_found(tmp_path):
    """While its journal cannot be read: deleted without them, it would leave them for good."""
    failing = set()
    store = CutStore(MemoryStore(), lambda name: "before" if name in failing else None)
    options = {"memories": f"sqlite:{tmp_path}", "store": store}
    async with agentrail.open_supervisor(**options) as supervisor:
        await asked(supervisor, noted("We deploy on Fridays."), session_id="s1", user_data=USER)
        await supervisor.stop_session("s1")
        failing.add("get")
        with pytest.raises(StoreUnavailable):
            await supervisor.delete_session("s1")
        failing.clear()
        assert [*tmp_path.glob("notes/*/*/*/NOTES.md")]
        assert await supervisor.delete_session("s1") > 0
    assert not [*tmp_path.glob("notes/*/*/*/NOTES.md")]


class _AwayOnce(InMemoryNotes):
    """Does not answer the first time that notes are cleared."""

    is_immediate = False  # type: ignore[misc]
    was_away = False

    def change(self, owner, session, edit):
        if not self.was_away and not edit("x"):
            self.was_away = True
            raise StoreUnavailable("away")  # noqa: EM101
        return super().change(owner, session, edit)


@pytest.mark.parametrize("how", ["answer lost", "cancelled", "notes away", "sweep"])
@on_bounded_time
async def test_notes_are_deleted_although_the_outcome_is_unknown(monkeypatch, how):
    """Of the deletion, or of theirs; those of a session that stays are kept."""
    monkeypatch.setattr(retention, "FIRST_SWEEP_AFTER_SECONDS", 0.01)
    token, scope, faults = trio.lowlevel.current_trio_token(), trio.CancelScope(), [how]
    clock = Clock(1_790_000_000_000)
    inner, notes = MemoryStore(now_ms=clock), _AwayOnce() if how == "notes away" else InMemoryNotes()

    def decide(name):
        if name != "delete" or not faults:
            return None
        fault = faults.pop()
        if fault == "cancelled":
            trio.from_thread.run_sync(scope.cancel, trio_token=token)
        return "after" if fault in {"answer lost", "sweep"} else None

    store = FaultyStore(CutStore(inner, decide))
    keep = KeepLimits(days=1) if how == "sweep" else None
    async with open_nameless(store=store, recall=InMemoryRecall(), notes=notes) as supervisor:
        for name in ("s1", "s2"):
            await asked(supervisor, noted("On Fridays."), session_id=name, scope="acme", user_data=USER)
            await supervisor.stop_session(name, scope="acme")
            clock.now += DAY_MS
        clock.now -= DAY_MS // 2
    async with open_nameless(store=store, recall=InMemoryRecall(), notes=notes, keep=keep) as supervisor:
        if how != "sweep":
            with scope, suppress(StoreUnavailable):
                await supervisor.delete_session("s1", scope="acme")
        await eventually(lambda: not notes.read(ADA, "s1"))
    assert inner.get("acme", "s1") is None
    assert notes.read(ADA, "s2")


class _SlowOnce(InMemoryNotes):
    """The first change takes effect when it is let go, and after all other calls that have begun."""

    is_immediate = False  # type: ignore[misc]

    def __init__(self):
        super().__init__()
        self.began, self.may_end, self.ended = (threading.Event() for _ in range(3))
        self.others = []

    def change(self, owner, session, edit):
        if self.began.is_set():
            return self._other(super().change, owner, session, edit)
        self.began.set()
        self.may_end.wait()
        for done in self.others:
            done.wait()
        text = super().change(owner, session, edit)
        self.ended.set()
        return text

    def forget(self, owner):
        return self._other(super().forget, owner)

    def _other(self, call, *given):
        self.others.append(done := threading.Event())
        found = call(*given)
        done.set()
        return found


@pytest.mark.parametrize("how", ["session", "user"])
@on_bounded_time
async def test_a_cancelled_change_is_done_before_the_notes_are_deleted(how):
    """It is completed in its thread, and had left a note of a session that was deleted, and of a user who was forgotten."""
    notes = _SlowOnce()
    desks = StoreDesks(SharedStores(notes=notes), current())
    own = desks.notes_of("s1", "acme", USER)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(own.add, "plans", ["On Fridays."])
        await trio.to_thread.run_sync(notes.began.wait)
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(*([own.clear] if how == "session" else [desks.forget_notes, ADA]))
        await trio.testing.wait_all_tasks_blocked()
        notes.may_end.set()
    await trio.to_thread.run_sync(notes.ended.wait)
    assert not notes.read(ADA, "s1")


class _Images(NoteFiles):
    """Copies both stores before each call that may change them, as a process that is killed leaves them."""

    def __init__(self, place):
        super().__init__(place / "now" / "notes")
        self._place, self.names = place, None

    def keep(self, name):
        if self.names is not None and name in {"change_owed", "delete", "notes"}:
            shutil.copytree(self._place / "now", self._place / str(len(self.names)))
            self.names.append(name)

    def change(self, owner, session, edit):
        self.keep("notes")
        return super().change(owner, session, edit)


async def test_no_crash_leaves_the_notes_of_a_deleted_session(tmp_path):
    """At each point, the session has its notes, or the next process clears them before a session with its id starts."""
    (tmp_path / "now").mkdir()
    notes = _Images(tmp_path)
    store = CutStore(SqliteStore(tmp_path / "now/store.db"), notes.keep)
    async with open_nameless(store=store, recall=InMemoryRecall(), notes=notes) as supervisor:
        await asked(supervisor, noted("On Fridays."), session_id="s1", scope="acme", user_data=USER)
        await supervisor.stop_session("s1", scope="acme")
        notes.names = []
        await supervisor.delete_session("s1", scope="acme")
        await eventually(lambda: not store.owed("session_notes"))
    store.close()
    found = []
    for place, name in enumerate(notes.names):
        left = NoteFiles(tmp_path / str(place) / "notes")
        with closing(SqliteStore(tmp_path / str(place) / "store.db")) as again:
            is_kept = again.get("acme", "s1") is not None
            async with open_nameless(store=again, recall=InMemoryRecall(), notes=left) as supervisor:
                await supervisor.start_session(
                    model=ScriptedModel([]),
                    session_id=None if is_kept else "s1",
                    scope="acme",
                    user_data=USER,
                )
                assert bool(left.read(ADA, "s1")) == is_kept
                # While the session exists, its row stays: another node may be about to delete it.
                assert bool(again.owed("session_notes")) == (name == "delete")
        found.append((name, is_kept))
    assert found == [("change_owed", True), ("delete", True), ("notes", False), ("change_owed", False)]


def test_notes_of_more_deleted_sessions_than_a_page_has_are_cleared():
    """A store lists a thousand owed rows at once."""
    store, notes = MemoryStore(), InMemoryNotes()
    names = [f"s{number}" for number in range(1_001)]
    for name in names:
        notes.change(ADA, name, lambda _: "On Fridays.")
    store.change_owed([owed_notes("acme", name, ADA, name) for name in names])
    settle_left_notes(store, notes)
    assert [name for name in names if notes.read(ADA, name)] == []
    assert store.owed("session_notes") == ()


def test_a_row_that_cannot_be_read_keeps_no_notes_of_others(caplog):
    """It was reported as a bug at each start, and the notes of all deleted sessions stayed."""
    store, notes = MemoryStore(), InMemoryNotes()
    notes.change(ADA, "z", lambda _: "On Fridays.")
    bodies = (b"", b"\xff", b"null", b"[" * 100_000, b'["acme"]', b'["acme", "s", "acme", 5, "s"]')
    rows = [OwedRow(kind="session_notes", id=f"{place}", body=body) for place, body in enumerate(bodies)]
    store.change_owed([*rows, owed_notes("acme", "z", ADA, "z")])
    settle_left_notes(store, notes)
    assert notes.read(ADA, "z") == ""
    assert store.owed("session_notes") == tuple(rows)
    said = [one.getMessage() for one in caplog.records]
    assert len(said) == len(rows)
    assert "an owed note cannot be read, and is skipped: " in said[0]


async def test_the_bytes_before_the_notes_are_a_prefix_over_twenty_turns():
    """Notes, memories and episodes change from turn to turn: no byte of the system prompt and of the messages before does (12.3)."""
    requests = []
    numbers = itertools.count()

    def answer(request):
        requests.append(request)
        number = next(numbers)
        if number % 2:
            return says(f"Tea {number}.")
        scope = "user" if number % 4 else "session"
        return calls(("remember", {"text": f"Tea {number}.", "topic": f"t{number}", "scope": scope}))

    plugins = [p.EpisodicMemory, p.WorkingNotes, p.AutoRecall]
    helper = Blueprint("helper").with_capabilities(memory_capability(auto=True)).with_plugins(*plugins)
    async with open_nameless(recall=InMemoryRecall(), notes=InMemoryNotes()) as supervisor:
        session = await supervisor.start_session(helper, model=FunctionModel(answer))
        for number in range(10):
            await session.ask(f"Tea {number}?")
    assert len(requests) == 20
    behind = []
    for before, after in itertools.pairwise(requests):
        assert before.system == after.system
        conversation = [one for one in before.messages if getattr(one, "origin", "prompt") != "note"]
        assert list(after.messages[: len(conversation)]) == conversation
        behind.append(len(before.messages) - len(conversation))
        assert all(getattr(one, "origin", "") == "note" for one in before.messages[len(conversation) :])
    assert max(behind) == 2  # the index, and what is remembered; its own episodes are not shown


async def test_a_failing_place_is_said_by_an_event():
    """The session works; who follows it reads why nothing is remembered."""
    model = saying("Hello.")
    async with open_nameless() as supervisor:
        session = await supervisor.start_session(model=model, plugins=[p.WorkingNotes, p.AutoRecall])
        async with session.subscribe(after=0, kinds=[PluginEvent]) as events:
            assert await session.ask("Hi") == "Hello."
            names = {(await anext(events)).name, (await anext(events)).name}
    assert names == {"working_notes_failed", "memory_not_recalled"}


@pytest.mark.parametrize("notes", ["sqlite:x", "files:", "files", 7])
async def test_names_that_stand_for_nothing_are_refused(notes):
    """Before anything starts."""
    with pytest.raises(
        OptionError, match=r"notes is .*expected 'memory:', 'files:DIRECTORY', 'postgres:' or"
    ):
        async with agentrail.open_supervisor(notes=notes):
            pass
