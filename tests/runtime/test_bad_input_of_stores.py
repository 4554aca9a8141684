"""What a session with a store gets wrong, row by row of 9.9: the error says whose move it is, and its message what to do.

Rows of files, locks and versions stand in tests/stores/test_sqlite_files.py, that of a child in tests/runtime/test_looking_back.py; those
of several nodes come with them.
"""

import re
from types import SimpleNamespace

import pytest

import agentrail
from agentrail.abc.store import Node
from agentrail.errors import (
    AlreadyExists,
    HeldBy,
    NotAStore,
    OptionError,
    PluginError,
    SessionNotFound,
    StillNeeded,
    StoreUnavailable,
    Trimmed,
    Unrevivable,
)
from agentrail.stores.memory import MemoryStore
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.orphans import no_orphans
from agentrail.testing.plugins import PuppetPlugin
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import NoSandbox, on_bounded_time, saying

pytestmark = on_bounded_time


def open_over(store):
    """Open a supervisor over a store."""
    return open_nameless(lambda _name, _root: NoSandbox(), store=store)


class Guard(PuppetPlugin):
    """Defined where every process finds it."""

    version = "1.2"


async def open_named(**options):
    """Open a supervisor by the front door, and close it."""
    async with agentrail.open_supervisor(**options):
        pass


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"store": "mysql://x"}, OptionError, r"'mysql://x': expected 'memory:', 'sqlite:' or 'sqlite:PATH'"),
        ({"store": "postgres://x"}, OptionError, r"'postgres://x'.*'sqlite:PATH'"),
        ({"store": "sqlite:{path}/no/such.db"}, StoreUnavailable, r"no/such\.db.*does not exist.*--data-dir"),
        ({"store": "sqlite:{path}/text"}, NotAStore, "nothing in it was touched"),
        (
            {"store": "memory:", "store_patience": 0.01},
            OptionError,
            r"0\.01: expected finite seconds from 0\.1",
        ),
        (
            {"store": "memory:", "store_patience": float("inf")},
            OptionError,
            r"expected finite seconds from 0\.1",
        ),
    ],
    ids=["scheme", "later", "directory", "no store", "patience", "endless"],
)
async def test_what_names_no_store(tmp_path, options, error, words):
    """Names, places and patience."""
    (tmp_path / "text").write_text("of a person\n" * 1_000)
    before = (tmp_path / "text").read_bytes()
    named = {**options, "store": options["store"].format(path=tmp_path)}
    with pytest.raises(error, match=words):
        await open_named(**named)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["text"]
    assert (tmp_path / "text").read_bytes() == before


async def stored():
    """A store with a session at rest, that has a tool, a plugin from nowhere else, and a fork."""

    class Local(PuppetPlugin):
        version = "7"

    store, plugins = MemoryStore(), [Guard((), name="guard"), Local((), name="local")]
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(
            model=saying("a"), session_id="s-1", tools=[RecordingTool()], plugins=plugins
        )
        assert await session.ask("Hi") == "a"
        await session.fork(session_id="f-1", model=saying("b"))
    return SimpleNamespace(store=store, plugins=plugins)


@pytest.mark.parametrize("given", ["nothing", "a model", "all but the tool"])
async def test_what_it_had_and_has_no_more_is_named(given):
    """With its version where it has one, and where to give it."""
    made = await stored()
    options = {
        "nothing": {},
        "a model": {"model": saying("b"), "tools": [RecordingTool()]},
        "all but the tool": {"model": saying("b"), "plugins": made.plugins},
    }
    words = {
        "nothing": r"model 'scripted:object'.*resume_session.*`revive`",
        "a model": (
            r"plugin 'guard' \(version '1.2', from .*:Guard\).*plugin 'local' \(version '7', from .*Local\).*"
            r"resume_session.*`revive`"
        ),
        "all but the tool": r"tool 'record'.*resume_session.*`revive`",
    }
    async with open_over(made.store) as supervisor:
        with pytest.raises(Unrevivable, match=words[given]):
            await supervisor.resume_session("s-1", **options[given])


async def test_ids_that_are_unknown_taken_or_of_another_node():
    """The nearest, the way out, and the address."""
    made = await stored()
    store = made.store
    async with no_orphans(), open_over(store) as supervisor:
        with pytest.raises(SessionNotFound, match="there is no session 's-11': is it 's-1'"):
            await supervisor.resume_session("s-11", model=saying("b"))
        with pytest.raises(AlreadyExists, match=r"'s-1'.*resume_session.*another id"):
            await supervisor.start_session(model=saying("b"), session_id="s-1")
        with pytest.raises(StillNeeded, match="needed by f-1") as caught:
            await supervisor.delete_session("s-1")
        assert caught.value.by == ("f-1",)
    store.beat(Node(id="n-x", address="http://10.0.0.7:8700"))
    store.take("", "s-1", "n-x", "start")
    async with open_over(store) as supervisor:
        options = {"model": saying("b"), "tools": [RecordingTool()], "plugins": made.plugins}
        with pytest.raises(HeldBy, match=r"'n-x' at http://10\.0\.0\.7:8700") as held:
            await supervisor.resume_session("s-1", **options)
        assert (held.value.node, held.value.address) == ("n-x", "http://10.0.0.7:8700")


@pytest.mark.parametrize("number", [0, -1, 2**70, "last"])
async def test_a_number_of_no_record(number):
    """The range is in the message; nothing has changed."""
    store = MemoryStore()
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.ask("Hi")
        last = store.get("", "s-1").tail.seq
        asked = last + 1 if number == "last" else number
        words = re.escape(f"{asked}: expected one from 1 to {last}")
        for call in (session.state_at, lambda at: session.fork(at=at), lambda at: session.rewind(to=at)):
            with pytest.raises(OptionError, match=words):
                await call(asked)
        with pytest.raises(OptionError, match="turn is 9: expected one from 1 to 1"):
            await session.fork(turn=9)
        assert store.get("", "s-1").tail.seq == last
        assert len(supervisor.sessions()) == 1


async def test_a_number_in_front_of_a_trim():
    """The first one that can be asked for is there."""
    store = MemoryStore()
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
        await session.ask("Hi")
    async with open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("b"))
        (snapshot,) = store.snapshots("", "s-1")
        await session.ask("Again")
        await supervisor.trim_session("s-1", before=snapshot.seq)
        for call in (session.state_at, lambda at: session.fork(at=at), lambda at: session.rewind(to=at)):
            with pytest.raises(Trimmed) as caught:
                await call(2)
            assert caught.value.first == snapshot.seq


async def test_what_another_process_could_not_find_again():
    """A plugin and a tool that are defined in a function: the two ways out are in the message."""

    class Local(PuppetPlugin):
        pass

    class Tool(RecordingTool):
        pass

    async with open_over(FaultyStore(MemoryStore())) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        for call in (session.attach_plugin(Local((), name="local")), session.attach_tools(Tool())):
            with pytest.raises(OptionError, match=r"importable as package\.module:NAME.*store='memory:'"):
                await call


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"user_data": {"a": {"b": [1, object()]}}}, OptionError, r"user_data.*a\.b\[1\] is a object"),
        (
            {"plugins": [(Guard((), name="guard"), {"a": [object()]})]},
            PluginError,
            r"options\.a\[0\] is a object",
        ),
    ],
    ids=["user_data", "options"],
)
async def test_what_no_journal_can_hold(options, error, words):
    """Its path is in the message, and nothing was begun."""
    store = MemoryStore()
    async with open_over(store) as supervisor:
        with pytest.raises(error, match=words):
            await supervisor.start_session(model=saying("a"), session_id="s-1", **options)
        assert supervisor.sessions() == ()
    assert store.get("", "s-1") is None
