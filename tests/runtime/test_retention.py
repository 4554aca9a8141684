"""Stored sessions that are too old, or too many bytes, are deleted; what is alive or needed never is (docs: keep and resume sessions)."""

import logging
from contextlib import asynccontextmanager

import pytest
import trio

from agentrail import tool
from agentrail.abc.store import Filters, Node
from agentrail.outside import current
from agentrail.runtime import retention
from agentrail.runtime.retention import DAY_MS, KeepLimits, Retention, StoredTree, SweepPlan
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.orphans import no_orphans
from agentrail.testing.store_rules.trial import Author, blob_name, snapshot_behind
from tests.runtime.rig import calling, eventually, on_bounded_time, open_over, saying
from tests.stores.rig import Clock

pytestmark = on_bounded_time


@pytest.fixture
def clock():
    return Clock(1_790_000_000_000)


@pytest.fixture
def store(clock):
    return MemoryStore(now_ms=clock)


def begin(store, session, *bodies, scope="", node="", **rest):
    author = Author(session, scope=scope)
    store.create(author.opening(*bodies, node=node, **rest))
    return author


def names(store):
    return [one.session for one in store.find(Filters(), limit=1_000)]


async def remove_now(_scope, _root, function):
    await trio.lowlevel.checkpoint()
    return function()


def sweeper(store, *, remove=remove_now, **limits):
    return Retention(store, KeepLimits(**limits), "n-me", current(), remove)


async def swept(store, **limits):
    one = sweeper(store, **limits)
    await one.sweep()
    return names(store)


# --- by bytes


def sized(store, session, size, **rest):
    """Store a session of so many bytes, and let a millisecond pass."""
    opened = len(b'{"version":1}')
    does = len("reply xxxxxxxxx")
    author = begin(store, session, "x" * (size - opened - does), **rest)
    assert store.size(author.scope, author.session) == size
    return author


async def test_of_too_many_bytes_the_oldest_go(store, clock):
    """As few as it takes; a tenant that writes much costs no other anything; what is too old goes before, and makes room."""
    for name in "cab":
        sized(store, name, 1_000)
        clock.now += 1
    assert await swept(store, size_bytes=3_000) == ["a", "b", "c"]
    assert await swept(store, size_bytes=2_999) == ["a", "b"]
    assert await swept(store, size_bytes=1_000) == ["b"]
    assert await swept(store, size_bytes=1) == []

    for name, scope in [("a", "one"), ("b", "one"), ("c", "two")]:
        sized(store, name, 1_000, scope=scope)
        clock.now += 1
    assert await swept(store, size_bytes=1_500) == ["b", "c"]
    assert await swept(store, size_bytes=1) == []

    sized(store, "old", 1_000)
    clock.now += 5 * DAY_MS
    sized(store, "new", 1_000)
    assert await swept(store, days=3, size_bytes=1_500) == ["new"]


async def test_a_store_of_notes_that_crashes_ends_a_sweep_and_nothing_else(store, clock, caplog):
    """Sweeps run beside all sessions. The bug is logged, and the next sweep goes on."""
    for name in "ab":
        begin(store, name)
    clock.now += 5 * DAY_MS
    one = sweeper(store, days=3)
    faults = [ZeroDivisionError("a bug of these notes")]

    @asynccontextmanager
    async def clearing_notes(_scope, _root):
        yield
        while faults:
            raise faults.pop()

    one.clearing_notes = clearing_notes
    await one.sweep()
    assert (names(store), one.deleted, one.sweeps) == (["b"], 1, 0)
    assert "a bug of these notes" in caplog.text
    await one.sweep()
    assert (names(store), one.deleted, one.sweeps) == ([], 2, 1)


async def test_a_tree_is_weighed_whole(store, clock):
    """With its children, large values and snapshots; those of a living session count too, and it stays."""
    root = sized(store, "root", 500)
    sized(store, "child", 500, root="root", parent="root")
    large = b"v" * 70_000
    clock.now += 1
    sized_with = begin(store, "large", blobs={blob_name(large): large})
    store.put_snapshot(snapshot_behind(root.records[0], b"s" * 300))
    clock.now += 1
    begin(store, "alive", "x" * 5_000, node="n-me")
    assert store.size("", sized_with.session) > 70_000
    assert await swept(store, size_bytes=76_200) == ["alive", "large"]
    assert await swept(store, size_bytes=76_200) == ["alive", "large"]
    assert await swept(store, size_bytes=100) == ["alive"]


async def test_what_did_not_change_is_measured_once(clock):
    """A sweep of many sessions that rest reads none of their records again; what went on is measured anew."""
    measured = []

    class Counting(MemoryStore):
        def size(self, scope, session):
            measured.append(session)
            return super().size(scope, session)

    store = Counting(now_ms=clock)
    author = begin(store, "a")
    begin(store, "b")
    begin(store, "mine", node="n-me")
    one = sweeper(store, size_bytes=10_000)
    await one.sweep()
    await one.sweep()
    assert sorted(measured) == ["a", "b", "mine", "mine"]
    store.append([author.write("more")])
    measured.clear()
    await one.sweep()
    assert sorted(measured) == ["a", "mine"]


# --- what stays


async def test_what_a_fork_needs_stays_and_is_told(store, clock, caplog):
    """It goes when its fork does: a chain of forks from its end."""
    for name, of in [("a", None), ("b", "a"), ("c", "b"), ("other", None)]:
        begin(store, name, forked_from=of and (of, 1))
        clock.now += DAY_MS
    author = Author("c", tail=store.get("", "c").tail)
    store.append([author.write("x")])
    with caplog.at_level(logging.INFO, logger="agentrail"):
        one = sweeper(store, days=1)
        clock.now += DAY_MS
        await one.sweep()
    assert names(store) == ["a", "b", "c"]
    assert one.still_needed == 2
    assert "session a is kept for now: it is needed by b" in caplog.text
    assert "session other was deleted" in caplog.text
    clock.now += DAY_MS
    for _ in range(2):  # the first one does not believe the jump of the clock
        await one.sweep()
    assert names(store) == []
    assert (one.deleted, one.still_needed) == (4, 0)


async def test_a_chain_of_forks_is_asked_about_twice_each():
    """And not once for each that goes: a long chain costs no more than a short one, per fork."""
    trees = [StoredTree(scope="", root=f"{n:04}", written_at_ms=n) for n in range(2_000)]
    plan = SweepPlan(trees, KeepLimits(days=1), 10 * DAY_MS)
    left, asked = {one.root for one in trees}, 0
    while (found := plan.next()) is not None:
        asked += 1
        tree, _ = found
        fork = f"{int(tree.root) + 1:04}"
        if fork in left:
            plan.refused(tree, [fork])
        else:
            left.discard(tree.root)
            plan.deleted(tree)
    assert not left
    assert asked <= 2 * 2_000


async def test_a_node_sweeps_unless_one_with_its_profiles_sorts_first(clock):
    """Servers have no limits of their own, so the program that has them does not wait for one that sorts first."""
    store = MemoryStore(now_ms=clock, is_shared=True)
    begin(store, "old", "does")
    clock.now += 2 * DAY_MS
    store.beat(Node(id="n-me"))
    store.beat(Node(id="n-a-server", digest="its profiles"))
    begin(store, "young", "does")
    assert await swept(store, days=1) == ["young"]
    clock.now += 2 * DAY_MS
    for node in ("n-me", "n-a-worker"):
        store.beat(Node(id=node))
    assert await swept(store, days=1) == ["young"], "left to the other one"


async def test_what_a_living_node_works_on_stays(store, clock):
    """This one or another; what it left goes."""
    begin(store, "mine", node="n-me")
    begin(store, "theirs", node="n-2")
    begin(store, "left", node="n-3")
    clock.now += 2 * DAY_MS
    store.beat(Node(id="n-2"))
    one = sweeper(store, days=1, size_bytes=1)
    await one.sweep()
    assert names(store) == ["mine", "theirs"]
    assert one.still_needed == 1


@pytest.mark.parametrize("who", ["n-me", "n-2", "neither"])
async def test_a_session_that_wakes_just_now_stays(clock, who):
    """Between the look and the deletion it is taken, here or elsewhere; or it was, wrote, and rests again."""

    class Waking(MemoryStore):
        def delete(self, scope, session, **rest):
            self.wake()
            return super().delete(scope, session, **rest)

        def get(self, scope, session):
            self.wake()
            return super().get(scope, session)

        def wake(self):
            if self.armed:
                self.armed = False
                node = "n-2" if who == "neither" else who
                self.beat(Node(id=node))
                self.take("", "s", node, "start")
                if who == "neither":
                    self.release(node, "", "s")

    store = Waking(now_ms=clock)
    store.armed = False
    begin(store, "s")
    clock.now += 9 * DAY_MS
    store.armed = True
    one = sweeper(store, days=1, size_bytes=1)
    await one.sweep()
    assert names(store) == ["s"]
    assert (one.deleted, one.sweeps) == (0, 1)


async def test_what_another_has_deleted_meanwhile_is_gone_and_no_error(store, clock):
    """It counts for the one that did it, and what needed it is free."""
    for name, of in [("a", None), ("b", None), ("c", "b")]:
        begin(store, name, forked_from=of and (of, 1))
        clock.now += 1
    clock.now += 9 * DAY_MS

    async def remove(scope, root, function):
        if "a" in names(store):
            store.delete("", "a")
        return await remove_now(scope, root, function)

    one = sweeper(store, days=1, remove=remove)
    await one.sweep()
    assert names(store) == []
    assert (one.deleted, one.sweeps, one.still_needed) == (2, 1, 0)


async def test_a_store_that_is_away_ends_a_sweep_and_is_told(clock, caplog):
    """The next one does what is left."""
    kept = FaultyStore(MemoryStore(now_ms=clock))
    begin(kept, "s")
    clock.now += 9 * DAY_MS
    one = sweeper(kept, days=1)
    for fault, said in [(kept.go_away, "the disk is full"), (kept.crash, "ZeroDivisionError")]:
        fault()
        caplog.clear()
        await one.sweep()
        assert said in caplog.text
        assert "stored sessions could not be swept" in caplog.text
        assert (one.sweeps, one.deleted) == (0, 0)
    kept.mend()
    await one.sweep()
    assert (names(kept), one.sweeps) == ([], 1)


async def test_a_clock_that_jumps_ahead_deletes_nothing_at_once(store, clock):
    """If it is set right again within the hour, nothing is lost. Otherwise the next sweep deletes."""
    begin(store, "young")
    one = sweeper(store, days=3)
    await one.sweep()
    clock.now += 9 * DAY_MS
    await one.sweep()
    clock.now -= 9 * DAY_MS
    await one.sweep()
    clock.now += 9 * DAY_MS
    await one.sweep()
    assert names(store) == ["young"]
    await one.sweep()
    assert names(store) == []


# --- in a supervisor


@pytest.fixture
def in_a_hurry(monkeypatch):
    """Let no test wait for an hour where threads have a hand in."""
    monkeypatch.setattr(retention, "FIRST_SWEEP_AFTER_SECONDS", 0.01)
    monkeypatch.setattr(retention, "SWEEP_EVERY_SECONDS", 0.02)


@pytest.mark.parametrize("kind", ["memory", "threads", "file"])
@pytest.mark.usefixtures("in_a_hurry")
async def test_a_supervisor_sweeps_and_its_sessions_live(tmp_path, clock, kind):
    """Some seconds after it was opened, and each hour; what it did is in its statistics. Its own sessions go on."""
    if kind == "file":
        kept = SqliteStore(tmp_path / "s.db", wall=lambda: clock.now / 1000)
    else:
        kept = MemoryStore(now_ms=clock)
    begin(kept, "old")
    begin(kept, "other")
    clock.now += 2 * DAY_MS
    given = FaultyStore(kept) if kind == "threads" else kept
    async with open_over(given, keep=KeepLimits(days=3)) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.ask("Hi")
        await trio.sleep(0.05)
        assert supervisor.statistics().deleted == 0
        clock.now += 9 * DAY_MS
        await eventually(lambda: supervisor.statistics().deleted == 2)
        assert supervisor.statistics().deleted_bytes > 0
        assert names(given) == ["s-1"]
        assert (await session.status()).phase == "idle"
    assert names(kept) == ["s-1"]
    kept.close()


async def sweeps(supervisor, count):
    found = supervisor._shared.keeping.retention  # noqa: SLF001 - a sweep without a deletion shows nowhere else
    await eventually(lambda: found.sweeps >= count)


@pytest.mark.usefixtures("in_a_hurry")
async def test_a_session_that_a_closing_supervisor_released_is_not_swept(clock):
    """Its limit passed while it lived. The next supervisor may resume it, however long the other sessions take to close."""
    kept, begun = MemoryStore(now_ms=clock), trio.Event()

    @tool
    async def linger() -> str:
        """Linger."""
        begun.set()
        with trio.CancelScope(shield=True):
            await trio.sleep(0.3)
        return "done"

    async with open_over(kept, keep=KeepLimits(days=1)) as supervisor:
        await (await supervisor.start_session(model=saying("a"), session_id="s-1")).ask("Hi")
        busy = await supervisor.start_session(model=calling("linger"), tools=[linger], session_id="s-2")
        await busy.prompt("Hi")
        await begun.wait()
        clock.now += 9 * DAY_MS
    assert names(kept) == ["s-1", "s-2"]


@pytest.mark.usefixtures("in_a_hurry")
async def test_what_comes_back_when_a_supervisor_is_opened_is_not_swept(clock):
    """Though it is too old by then: it has an owner before the first sweep."""
    kept = MemoryStore(now_ms=clock)
    async with open_over(kept) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.ask("Hi")

    def give(_opening):
        return {"model": saying("b")}

    limits = KeepLimits(days=1)
    for resume in ("all", "none"):
        clock.now += 9 * DAY_MS
        async with open_over(kept, keep=limits, resume=resume, revive=give) as supervisor:
            if resume == "none":
                await supervisor.resume_session("s-1")
            await sweeps(supervisor, 2)
            assert await supervisor.session("s-1").ask("And?") == "b"
    clock.now += 9 * DAY_MS
    async with open_over(kept, keep=limits) as supervisor:
        await sweeps(supervisor, 1)
        assert names(kept) == []


@pytest.mark.usefixtures("in_a_hurry")
async def test_a_supervisor_closes_in_the_middle_of_a_sweep(clock):
    """No deletion begins any more, and leaving does not wait for those that would have been."""
    kept = FaultyStore(MemoryStore(now_ms=clock))
    for number in range(50):
        begin(kept, f"s-{number}")
    kept.delay_seconds = 0.005
    clock.now += 9 * DAY_MS
    async with no_orphans(), open_over(kept, keep=KeepLimits(days=1)):
        await eventually(lambda: "delete" in kept.calls)
    gone = kept.calls.count("delete")
    assert gone < 40
    assert len(names(kept)) == 50 - gone
