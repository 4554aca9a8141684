"""Sessions go from one store to another as they were, and to people as text."""

import json

import pytest
from msgspec.structs import replace

from agentrail.abc.store import Filters
from agentrail.cli.store_access import journal_of
from agentrail.core.journal.exports import EXPORT_BEGINS, encode_export, read_export
from agentrail.core.journal.record import Draft, Tail, first_broken, sealed
from agentrail.errors import AlreadyExists, JournalCorrupt, OptionError, SessionNotFound, Trimmed, Unrevivable
from agentrail.events import ApprovalRequired
from agentrail.messages import SessionId
from agentrail.plugins import Continue, HumanApproval, plugin
from agentrail.runtime.session_export import export_stored, fork_stored
from agentrail.runtime.tree_secrets import knowing
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import on_bounded_time, open_over, saying
from tests.stores.rig import opening

pytestmark = on_bounded_time


async def lived(store):
    """A session that was taken over once, with a large value and a sub-agent in it."""
    model = ScriptedModel([calls(("task", {"description": "Look."})), says("below"), says("A canary sings.")])
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.start_session(
            model=model, tools=[TaskTool()], session_id="s-1", user_data={"who": "canary"}
        )
        await session.ask("x" * 70_000)
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("b"), tools=[TaskTool()])
        await session.ask("Again, canary")
        return await supervisor.export_session("s-1"), await session.messages()


def journals(store):
    return {one.session: store.read(one.scope, one.session) for one in store.find(Filters())}


async def test_all_sub_agents_are_exported():
    """However many a session has had."""
    store = MemoryStore()
    for one in ("s", *(f"c-{number}" for number in range(10_001))):
        store.create(opening(one, root="s", parent="" if one == "s" else "s"))
    heads = [one for one in export_stored(store, store.get("", "s")) if one.startswith(EXPORT_BEGINS)]
    assert len(heads) == 10_002


@pytest.mark.journal(24)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_imported_session_is_the_same_and_goes_on(kind, tmp_path):
    """Equal hashes in another kind of store, a replay without a difference, and a next prompt."""
    first = MemoryStore()
    data, messages = await lived(first)
    other = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "other.db")
    try:
        async with open_over(other) as supervisor:
            assert set(await supervisor.import_session(data)) == set(journals(first))
            assert (await supervisor.import_session(data))[0] == "s-1"
            assert await supervisor.export_session("s-1") == data
            stored = {one.session: one for one in await supervisor.find()}
            assert {one.node for one in stored.values()} == {""}
            assert stored["s-1"].tail == first.get("", "s-1").tail
            session = await supervisor.resume_session("s-1", model=saying("c"), tools=[TaskTool()])
            assert await session.messages() == messages
            assert await session.ask("And now?") == "c"
            with pytest.raises(AlreadyExists, match="'s-1' was resumed after this export: delete it"):
                await supervisor.import_session(data)
        for name, records in journals(first).items():
            there = journals(other)[name]
            assert there[: len(records)] == records
            assert first_broken(there) is None
    finally:
        other.close()


@pytest.mark.journal(24)
async def test_a_changed_export_is_refused_whole():
    """The number of the record is said, and nothing is written."""
    data, _ = await lived(MemoryStore())
    changed = data.replace(b"A canary sings.", b"A canary sinks.")
    store = MemoryStore()
    async with no_orphans(), open_over(store) as supervisor:
        with pytest.raises(JournalCorrupt) as raised:
            await supervisor.import_session(changed)
        assert raised.value.seq > 1
        for bad, said in ((b"", "empty"), (b"hello\n", "not an export")):
            with pytest.raises(OptionError, match=said):
                await supervisor.import_session(bad)
        with pytest.raises(OptionError, match="expected the bytes"):
            await supervisor.import_session("text")
        assert await supervisor.find() == ()
        await supervisor.start_session(model=saying("a"), session_id="s-1")
        with pytest.raises(AlreadyExists, match="s-1"):
            await supervisor.import_session(data)


@pytest.mark.journal(25)
async def test_an_export_without_content_holds_no_word():
    """The canary was in prompts, answers and data; without content there is who, how much and when. A child alone needs its root."""
    store = MemoryStore()
    await lived(store)
    words = (b"canary", b"xxxx", b"below", b"Look.", b"Again")
    async with no_orphans(), open_over(store) as supervisor:
        for form, count, known in (
            ("markdown", 5, b"## User\n\n70000 characters"),
            ("otlp", 5, b'"execute_tool task"'),
            ("jsonl", 2, b'"size_bytes":'),
        ):
            assert b"canary" in await supervisor.export_session("s-1", format=form)
            data = await supervisor.export_session("s-1", format=form, content=False)
            assert [word for word in words[:count] if word in data] == [], form
            assert known in data
        assert data.count(b'"kind":"prompt"') == 3
        spans = await supervisor.export_session("s-1", format="otlp")
        assert await supervisor.export_session("s-1", format="otlp") == spans
        root, below = (
            json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"] for line in spans.splitlines()
        )
        assert below[0]["parentSpanId"] in [one["spanId"] for one in root if one["name"] == "invoke_agent"]
        (child,) = [one.session for one in store.find(Filters()) if one.parent]
        alone = await supervisor.export_session(child)
        with pytest.raises(OptionError, match="without content"):
            await supervisor.import_session(data)
    async with no_orphans(), open_over(MemoryStore()) as supervisor:
        with pytest.raises(SessionNotFound):
            await supervisor.import_session(alone)


async def test_half_of_a_secret_is_in_no_span():
    """An attribute is cut at 8 KiB; the secret that lies across the cut is replaced before."""
    key = "sk-canary-0123456789abcdef"
    with knowing([key]):
        async with no_orphans(), open_over(MemoryStore()) as supervisor:
            session = await supervisor.start_session(model=saying("a"), session_id="s-1")
            await session.ask("x" * 8_130 + key + "y" * 1_000)
            data = await supervisor.export_session("s-1", format="otlp")
    assert b"xxxx" in data
    assert b"sk-canary" not in data


async def test_what_cannot_be_exported_is_said():
    """An unknown id, another format, no store, a trimmed journal, code that is not there."""
    store = MemoryStore()
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.ask("One")
        with pytest.raises(SessionNotFound):
            await supervisor.export_session("s-2")
        with pytest.raises(OptionError, match="'jsonl', 'markdown' or 'otlp'"):
            await supervisor.export_session("s-1", format="pdf")
    async with no_orphans(), open_over(store) as supervisor:

        @plugin(init=tuple)
        def local(_event, state, _ctx):
            return Continue(state)

        await supervisor.start_session(model=saying("a"), plugins=[local], session_id="s-3")
        with pytest.raises(Unrevivable, match="plugin"):
            await supervisor.export_session("s-3", format="otlp")
    async with no_orphans(), open_over(store) as supervisor:
        (snapshot,) = store.snapshots("", "s-1")
        await supervisor.trim_session("s-1", before=snapshot.seq)
        with pytest.raises(Trimmed):
            await supervisor.export_session("s-1")
        with pytest.raises(Trimmed):
            await supervisor.export_session("s-1", format="otlp")
        assert b'"seq":' in await supervisor.export_session("s-1", content=False)
    async with no_orphans(), open_nameless() as supervisor:
        with pytest.raises(OptionError, match="needs a store"):
            await supervisor.export_session("s-1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, value)
            for name in ("session", "root")
            for value in ("", "../x", "a b", "s\x1b[2J", "s\n", "x" * 129)
        ),
        ("parent", "a/b"),
        ("forked_from", ("$(reboot)", 1)),
        *(("scope", value) for value in ("..", "a/b", "\x1b[2J", "x" * 129)),
    ],
)
async def test_an_export_with_a_name_that_no_session_has_is_refused(name, value):
    """A command shows it, also within one to paste into a shell, and paths are made of it."""
    (head,) = [one.head for one in read_export((await lived(MemoryStore()))[0]) if not one.head.parent]
    head = replace(head, **{name: value})
    records = sealed(
        [Draft(at_ms=1, kind="opened", body=b"{}")], Tail(), scope=head.scope, session=head.session
    )[0]
    data = b"".join(encode_export(head, records, {}.get))
    store = MemoryStore()
    async with open_over(store) as supervisor:
        expected = "scope is" if name == "scope" else "session_id is"
        with pytest.raises(OptionError, match=f"{expected} .* of A-Z a-z 0-9"):
            await supervisor.import_session(data)
    assert not store.find(Filters())


async def test_an_imported_session_runs_what_was_approved_and_a_fork_of_it_does_not():
    """What the pages warn of: nobody is asked again for a call that somebody else approved, and that waited for a slot."""

    def tools():
        return {"tools": [HangingTool(), RecordingTool(name="shell")], "plugins": [HumanApproval()]}

    both = ScriptedModel([calls(("hang", {}), ("shell", {"command": "rm -r notes"}))])
    async with open_over(MemoryStore()) as supervisor:
        session = await supervisor.start_session(model=both, session_id="s", max_parallel_tools=1, **tools())
        await session.prompt("Go")
        async with session.subscribe(after=0) as events:
            async for event in events:
                if isinstance(event, ApprovalRequired):
                    await session.approve(event.approval.id)
                    break
        data = await supervisor.export_session("s")
        await session.abort("it is exported")
    store = MemoryStore()
    async with open_over(store) as supervisor:
        await supervisor.import_session(data)
        stored = store.get("", "s")
        fork_stored(store, journal_of(store, stored), stored.tail.seq, SessionId("fork"), 1)
        ran = {}
        for name in ("s", "fork"):
            given = tools()
            session = await supervisor.resume_session(name, model=saying("a", "b"), **given)
            await session.ask("And?")
            ran[name] = [dict(one) for one in given["tools"][1].calls]
        assert ran == {"s": [{"command": "rm -r notes"}], "fork": []}
