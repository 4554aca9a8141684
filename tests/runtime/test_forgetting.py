"""Forgetting a user: which journals hold what they said, the order in which these go, and what a supervisor does with its sessions."""

from functools import partial

import msgspec
import pytest
import trio
from hypothesis import given, settings, strategies as st

import agentrail
from agentrail.abc.recall import MemoryEntry, MemoryOwner
from agentrail.abc.store import Filters, Node
from agentrail.core.journal.record import ERASED, first_broken
from agentrail.errors import AlreadyExists, Erased, OptionError, SessionDown, StoreUnavailable
from agentrail.runtime.erasure_report import UserTrees, erase_trees, forks_first, trees_of_user
from agentrail.stores.memory import MemoryStore
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.testing.models import ScriptedModel, says

ADA = MemoryOwner(tenant="acme", user="ada")


def data_of(user, tenant="acme"):
    """What a host writes of whose a session is."""
    return {"tenant_id": tenant, "user_id": user}


def begin(supervisor, session_id, user="ada", scope="acme", **options):
    model = ScriptedModel([says(f"{number}") for number in range(9)])
    return supervisor.start_session(
        session_id=session_id, model=model, user_data=data_of(user), scope=scope, **options
    )


def kinds_of(store, session, scope="acme"):
    records = store.read(scope, session)
    assert first_broken(records) is None
    return {one.kind for one in records}


# --- which journals, and in which order


@settings(max_examples=60)
@given(st.lists(st.integers(0, 7), min_size=8, max_size=8), st.sets(st.integers(0, 7), min_size=1))
def test_forks_go_before_what_they_were_forked_from(parents, own):
    """All that was forked from a user's trees, and from that, goes, each once; in circles, which only a forged import has, too."""
    origins = {("", str(n)): ("", str(parent)) for n, parent in enumerate(parents) if parent != n}
    given_trees = [("", str(n)) for n in sorted(own)]
    order = forks_first(given_trees, origins)
    expected = set(given_trees)
    while more := {fork for fork, origin in origins.items() if origin in expected} - expected:
        expected |= more
    assert (len(order), set(order)) == (len(expected), expected)
    places = {key: place for place, key in enumerate(order)}
    for fork, origin in origins.items():
        if fork in places and origin in places and not _is_in_circle(fork, origins):
            assert places[fork] < places[origin]


def _is_in_circle(key, origins):
    seen = [key]
    while seen[-1] in origins and origins[seen[-1]] not in seen:
        seen.append(origins[seen[-1]])
    return seen[-1] in origins


async def test_journals_of_a_user_are_found_by_whose_memories_they_have():
    """By tenant and user, in any scope; with forks that others own, without what a fork came from; what names nobody is nobody's."""
    store = MemoryStore()
    async with agentrail.open_supervisor(store=store) as supervisor:
        ada, bob = await begin(supervisor, "a1"), await begin(supervisor, "b1", "bob")
        await ada.ask("Hi")
        await bob.ask("Hi")
        of_ada = await ada.fork(session_id="f1", user_data=data_of("bob"))
        await of_ada.fork(session_id="f2", user_data=data_of("bob"))
        await bob.fork(session_id="f3", user_data=data_of("ada"))
        await begin(supervisor, "elsewhere", scope="other")
        await begin(supervisor, "a1", scope="same-id", user="bob")
        await supervisor.start_session(
            model=ScriptedModel([]), session_id="number", user_data={"user_id": 7}, scope="acme"
        )
        found = trees_of_user(store, ADA)
    assert set(found.trees) == {
        *(("acme", "a1"), ("acme", "f1"), ("acme", "f2"), ("acme", "f3"), ("other", "elsewhere")),
    }
    assert [root for _, root in found.trees if root in {"a1", "f1", "f2"}] == ["f2", "f1", "a1"]
    assert found.unread == {}
    told = erase_trees(store, found)
    assert (told.sessions, told.left, told.is_done) == (5, (), True)
    assert kinds_of(store, "b1") > {"opened", "prompt"}
    assert kinds_of(store, "f2") == {ERASED, "closed"}
    assert trees_of_user(store, ADA) == UserTrees(trees=(), unread={})


async def test_what_cannot_be_read_is_told_and_what_is_at_work_elsewhere_is_left():
    """Nothing is passed over in silence: the operator hears of each."""
    store = MemoryStore()
    async with agentrail.open_supervisor(store=store) as supervisor:
        await (await begin(supervisor, "a1")).ask("Hi")
        await begin(supervisor, "newer")
        await begin(supervisor, "gone")
    journal = store._journals["acme", "newer"]  # noqa: SLF001 - no public way writes what is newer
    first = journal.records[0]
    journal.records[0] = msgspec.structs.replace(first, body=b'{"version":99}')
    for session in ("a1", "gone"):
        store._journals["acme", session].standing = type(journal.standing)()  # noqa: SLF001 - as if it were at work
    store.take("acme", "a1", "n2", "start")
    store.beat(Node(id="n2"))
    found = trees_of_user(store, ADA)
    store.delete("acme", "gone")
    told = erase_trees(store, found)
    assert (told.sessions, told.is_done) == (0, False)
    assert [line.partition(":")[0] for line in told.left] == [
        "session 'newer'",
        "session 'a1' is running and was not erased",
    ]


# --- a supervisor


async def test_sessions_of_a_user_end_and_cannot_be_read_any_more():
    """Awake, and in the store alone; those of others go on. Again finds nothing, and the user may begin anew."""
    store, memories = MemoryStore(), InMemoryRecall()
    for owner in (ADA, MemoryOwner(tenant="acme", user="bob")):
        memories.put(owner, MemoryEntry(id="m1", text="likes tea", at_ms=1))
    async with agentrail.open_supervisor(store=store) as supervisor:
        await (await begin(supervisor, "old")).ask("Hi")
    async with agentrail.open_supervisor(store=store, memories=memories) as supervisor:
        awake, other = await begin(supervisor, "awake"), await begin(supervisor, "b1", "bob")
        await awake.ask("Hi")
        told = await supervisor.forget_user("ada", tenant_id="acme")
        assert (told.sessions, told.memories, told.is_done) == (2, 1, True)
        with pytest.raises(SessionDown):
            await awake.ask("Still there?")
        assert supervisor.last_words("awake", scope="acme") is None
        for session in ("old", "awake"):
            assert await supervisor.facts_of(session, scope="acme") is None
            for call in (
                partial(supervisor.stored_state, session, scope="acme"),
                partial(supervisor.plain_state_at, session, 2, scope="acme"),
                partial(supervisor.explain_record, session, 2, scope="acme"),
            ):
                with pytest.raises(Erased):
                    await call()
            with pytest.raises(SessionDown):
                await supervisor.resume_session(session, scope="acme")
            with pytest.raises(AlreadyExists):
                await begin(supervisor, session)
        assert await other.ask("Hi") == "0"
        assert memories.list(MemoryOwner(tenant="acme", user="bob"))
        again = await supervisor.forget_user("ada", tenant_id="acme")
        assert (again.sessions, again.memories, again.is_done) == (0, 0, True)
        assert await (await begin(supervisor, "new")).ask("Hi") == "0"


async def test_what_was_used_is_known_as_long_as_the_process_lives(caplog):
    """So nobody has a new budget for the day by being forgotten; and no look at it warns of a journal that was erased."""
    store = MemoryStore()
    async with agentrail.open_supervisor(store=store) as supervisor:
        await (await begin(supervisor, "a1")).ask("Hi")
        (before,) = await supervisor.spendings(scope="acme")
        await supervisor.forget_user("ada", tenant_id="acme")
        (after,) = await supervisor.spendings(scope="acme")
        assert (after.user_id, after.spendings, after.fault) == ("ada", before.spendings, None)
    async with agentrail.open_supervisor(store=store) as supervisor:
        (later,) = await supervisor.spendings(scope="acme")
        assert (later.user_id, later.spendings, later.fault) == ("", (), None)
    assert not [one for one in caplog.records if "cannot be read" in one.getMessage()]


async def test_a_session_that_sleeps_is_woken_to_be_ended(autojump_clock):
    """Its journal is closed, and it does not come back."""
    store = MemoryStore()
    async with agentrail.open_supervisor(store=store, hibernate_after=1.0) as supervisor:
        session = await begin(supervisor, "a1")
        await session.ask("Hi")
        await trio.sleep(5)
        assert supervisor.sessions() == ()
        told = await supervisor.forget_user("ada", tenant_id="acme")
        assert (told.sessions, told.left) == (1, ())
        await trio.sleep(5)
        assert kinds_of(store, "a1") == {ERASED, "closed"}
        assert store.find(Filters(is_working=True)) == ()


class _Slow(MemoryStore):
    """Readers stand in the way for a while."""

    def __init__(self, busy):
        super().__init__()
        self.busy = busy

    def overwrite_removed(self):
        self.busy -= 1
        return self.busy < 0


@pytest.mark.parametrize(("busy", "is_overwritten"), [(3, True), (99, False)])
async def test_a_reader_in_the_way_is_waited_for_and_then_told(autojump_clock, busy, is_overwritten):
    """Some seconds; what is erased is erased all the same."""
    async with agentrail.open_supervisor(store=_Slow(busy)) as supervisor:
        await begin(supervisor, "a1")
        told = await supervisor.forget_user("ada", tenant_id="acme")
        assert (told.sessions, told.is_overwritten, told.is_done) == (1, is_overwritten, is_overwritten)


async def test_wrong_input_and_a_store_that_is_away_are_told():
    """Nothing is begun for nobody; what is done stays done, and is gone on with."""
    store = MemoryStore()
    async with agentrail.open_supervisor(store=store) as supervisor:
        await begin(supervisor, "a1")
        await begin(supervisor, "a2")
        for user, tenant in (("", "acme"), (7, "acme"), ("ada", None)):
            with pytest.raises(OptionError):
                await supervisor.forget_user(user, tenant_id=tenant)
        erase, calls = store.erase, []

        def once(*given):
            calls.append(given)
            if len(calls) == 2:
                message = "the disk is full"
                raise StoreUnavailable(message)
            return erase(*given)

        store.erase = once
        with pytest.raises(StoreUnavailable):
            await supervisor.forget_user("ada", tenant_id="acme")
        assert (await supervisor.forget_user("ada", tenant_id="acme")).sessions == 1
        assert kinds_of(store, "a1") == kinds_of(store, "a2") == {ERASED, "closed"}


async def test_without_a_store_sessions_end():
    """What they knew goes with them."""
    async with agentrail.open_supervisor() as supervisor:
        mine, other = await begin(supervisor, "a1"), await begin(supervisor, "b1", "bob")
        told = await supervisor.forget_user("ada", tenant_id="acme")
        assert (told.sessions, told.memories, told.is_done) == (1, 0, True)
        with pytest.raises(SessionDown):
            await mine.ask("Hi")
        assert await other.ask("Hi") == "0"
