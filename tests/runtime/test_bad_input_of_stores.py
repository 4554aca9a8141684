"""What a session with a store gets wrong, row by row of 9.9: the error says whose move it is, and its message what to do.

Rows of files, locks and versions stand in tests/stores/test_sqlite_files.py, that of a child in tests/runtime/test_looking_back.py; those
of several nodes come with them.
"""

from types import SimpleNamespace

import pytest

import agentrail
from agentrail.abc.store import Filters, Node
from agentrail.errors import (
    AlreadyExists,
    HeldBy,
    NotAStore,
    OptionError,
    PluginError,
    SessionNotFound,
    StillNeeded,
    StoreUnavailable,
    Unrevivable,
)
from agentrail.stores.memory import MemoryStore
from agentrail.testing.orphans import no_orphans
from agentrail.testing.plugins import PuppetPlugin
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import on_bounded_time, open_over, saying

pytestmark = on_bounded_time


class Guard(PuppetPlugin):
    """Defined where every process finds it."""

    version = "1.2"


async def test_what_names_no_store(tmp_path):
    """Names, places and patience."""
    (tmp_path / "text").write_text("of a person\n" * 1_000)
    before = (tmp_path / "text").read_bytes()
    for store, patience, error, words in (
        ("mysql://x", 5, OptionError, r"'mysql://x': expected 'memory:', 'sqlite:', 'sqlite:PATH' or"),
        (
            "postgres://nobody@127.0.0.1:1/x",
            5,
            StoreUnavailable,
            r"try: psql postgres://nobody@127\.0\.0\.1:1/x",
        ),
        (f"sqlite:{tmp_path}/no/such.db", 5, StoreUnavailable, r"no/such\.db.*does not exist.*--data-dir"),
        (f"sqlite:{tmp_path}/text", 5, NotAStore, "; it was not modified."),
        ("memory:", 0.01, OptionError, r"0\.01: expected finite seconds >= 0\.1"),
        ("memory:", float("inf"), OptionError, r"expected finite seconds >= 0\.1"),
    ):
        with pytest.raises(error, match=words):
            async with agentrail.open_supervisor(store=store, store_patience=patience):
                pass
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


@pytest.mark.journal(17)
async def test_what_it_had_and_has_no_more_is_named_and_nothing_is_touched():
    """Each with its version where it has one, and where to give it; with all of them it is back."""
    made = await stored()
    tools, plugins = [RecordingTool()], made.plugins
    before = made.store.read("", "s-1")
    rows = (
        ({}, r"model 'scripted:object'.*resume_session.*`revive`"),
        ({"tools": tools, "plugins": plugins}, r"model 'scripted:object'.*resume_session.*`revive`"),
        (
            {"model": saying("b"), "tools": tools},
            r"plugin 'guard' \(version '1.2', from .*:Guard\).*plugin 'local' \(version '7', from .*Local\).*`revive`",
        ),
        ({"model": saying("b"), "plugins": plugins}, r"tool 'record'.*resume_session.*`revive`"),
    )
    async with no_orphans(), open_over(made.store) as supervisor:
        for given, words in rows:
            with pytest.raises(Unrevivable, match=words):
                await supervisor.resume_session("s-1", **given)
        assert made.store.read("", "s-1") == before
        assert supervisor.sessions() == ()
        session = await supervisor.resume_session("s-1", model=saying("b"), tools=tools, plugins=plugins)
        assert await session.ask("Hi") == "b"


async def test_ids_that_are_unknown_taken_or_of_another_node():
    """The nearest, the way out, and the address."""
    made = await stored()
    store = made.store
    async with no_orphans(), open_over(store) as supervisor:
        with pytest.raises(SessionNotFound, match="there is no session 's-11': is it 's-1'") as unknown:
            await supervisor.resume_session("s-11", model=saying("b"))
        assert unknown.value.nearest == ("s-1",)
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


SEARCHES = [
    (lambda s: s.find(5), "filters is 5: expected Filters(…)"),
    (lambda s: s.find(after=5), "after is 5: expected scope and id as a tuple, or None"),
    (lambda s: s.find(after=("", 5)), "after is ('', 5): expected scope and id as a tuple, or None"),
    (lambda s: s.find(limit=10**400), f"limit is {10**400!r:.200}: expected a whole number from 0 to "),
    (lambda s: s.newest(None), "filters is None: expected Filters(…)"),
    (lambda s: s.newest(Filters(), before=("1", "s-1")), "before is ('1', 's-1'): expected time and id as a tuple"),
    (lambda s: s.newest(Filters(), limit="x"), "limit is 'x': expected a whole number from 0 to "),
    (lambda s: s.tree(after="x"), "after is 'x': expected a whole number >= 0"),
    (lambda s: s.tree(limit="x"), "limit is 'x': expected a whole number from 0 to "),
    (lambda s: s.tree(limit=2**64), f"limit is {2**64}: expected a whole number from 0 to "),
    (lambda s: s.spendings(scope=5), "scope is 5: expected '' or 1 to 128"),
    (lambda s: s.spendings(since_ms="x"), "since_ms is 'x': expected a whole number >= 0"),
    (lambda s: s.events_page("s-1", kinds=5), "kinds is 5: expected classes of events, such as [AgentEnd], or None"),
    (lambda s: s.events_page("s-1", kinds=[int]), "kinds has <class 'int'>: expected classes of events"),
    (lambda s: s.events_page("s-1", limit="x"), "limit is 'x': expected a whole number from 1 to 5000"),
    (lambda s: s.events_page("s-1", after="x"), "before or after is 'x': expected a whole number >= 0"),
    (lambda s: s.stored_state("s-1", plugins=None), "plugins is None: expected a sequence of plugins"),
    (lambda s: s.find_records("s-1", None), "wanted is None: expected WantedRecords(…)"),
    (lambda s: s.wait_for_tools(b"s-1"), "session_id is b's-1': expected a text"),
]  # fmt: skip


async def test_a_search_of_a_wrong_type_is_named():
    """`OptionError` at the caller, not what the store or a comparison makes of it."""
    async with open_over(MemoryStore()) as supervisor:
        await supervisor.start_session(model=saying("fine"), session_id="s-1")
        for call, words in SEARCHES:
            with pytest.raises(OptionError) as caught:
                await call(supervisor)
            assert str(caught.value).startswith(words)


async def test_what_no_journal_can_hold():
    """Its path is in the message, and nothing was begun."""
    store, guard = MemoryStore(), (Guard((), name="guard"), {"a": [object()]})
    async with open_over(store) as supervisor:
        for options, error, words in (
            ({"user_data": {"a": {"b": [1, object()]}}}, OptionError, r"user_data.*a\.b\[1\] is a object"),
            ({"plugins": [guard]}, PluginError, r"options\.a\[0\] is a object"),
        ):
            with pytest.raises(error, match=words):
                await supervisor.start_session(model=saying("a"), session_id="s-1", **options)
        assert supervisor.sessions() == ()
    assert store.get("", "s-1") is None
