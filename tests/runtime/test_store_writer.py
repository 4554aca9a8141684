"""The writer: batches, and what becomes of them when a store fails. Its three moves are driven by hand here; its task in the last part."""

import itertools
import threading
from functools import partial

import pytest
import trio
import trio.testing

from agentrail.abc.store import Standing, Taken, TakeOver
from agentrail.core.journal.record import Record
from agentrail.errors import AgentrailError, Fenced, HeldBy, StoreUnavailable
from agentrail.runtime.store_writer import MAX_BATCH, Writer
from agentrail.stores.memory import MemoryStore
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import Inline, on_virtual_time, saying


class Heard:
    """A session that remembers what it is told."""

    def __init__(self) -> None:
        self.durable: list[int] = []
        self.errors: list[Exception] = []
        self.waits = 0

    def written(self, up_to):
        self.durable.append(up_to)

    def refused(self, error):
        self.errors.append(error)

    def kept_waiting(self):
        self.waits += 1

    def standing(self):
        return Standing()


class FakeStore:
    is_immediate = False

    def __init__(self, *answers) -> None:
        self.batches: list[list[list[int]]] = []
        self.answers = list(answers)

    def append(self, batch):
        self.batches.append([[record.seq for record in one.records] for one in batch])
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer or tuple(None for _ in batch)


def record(seq, session="s-1"):
    return Record(scope="", session=session, seq=seq, epoch=1, at_ms=0, kind="x", body=b"{}")


def writer_of(store, outside=None):
    return Writer(store, patience_seconds=5, outside=outside or Inline())


def drive(writer):
    """Make one round of the three moves, and say whether it was done."""
    batch = writer.take_batch()
    return writer.report(batch, writer.commit([job.append() for job in batch]))


async def test_a_batch_has_a_bound():
    """Who comes first is written first."""
    store = FakeStore()
    writer = writer_of(store)
    sessions = [Heard() for _ in range(MAX_BATCH + 3)]
    for session in sessions:
        writer.put(session, [record(1)])
    drive(writer)
    drive(writer)
    assert [len(batch) for batch in store.batches] == [MAX_BATCH, 3]
    assert all(session.durable == [1] for session in sessions)


async def test_one_that_is_fenced_takes_no_other_along():
    """And what it recorded since goes with it."""
    fenced = Fenced("s-1", durable_up_to=4)
    store, first, second = FakeStore((fenced, None)), Heard(), Heard()
    writer = writer_of(store)
    writer.put(first, [record(5)])
    writer.put(second, [record(1, "s-2")])
    batch = writer.take_batch()
    writer.put(first, [record(6)])
    writer.report(batch, writer.commit([job.append() for job in batch]))
    assert (first.errors, first.durable, second.durable) == ([fenced], [], [1])
    assert writer.take_batch() == ()


# --- its task


@pytest.fixture
async def running():
    async with trio.open_nursery() as nursery:

        def start(store, outside=None):
            writer = writer_of(store, outside)
            nursery.start_soon(writer.run)
            return writer

        yield start
        nursery.cancel_scope.cancel()


@on_virtual_time
async def test_it_tries_again_ever_slower_and_says_when_its_patience_is_over(running, caplog):
    """From 0.02 to 0.5 s; who waits is told once, after five, as is the log; and it goes on by itself when the store is back."""
    times = []

    class Away(FakeStore):
        def append(self, batch):
            times.append(trio.current_time())
            if times[-1] - times[0] < 12:
                message = "away"
                raise StoreUnavailable(message)
            return super().append(batch)

    session, late = Heard(), Heard()
    writer = running(Away())
    writer.put(session, [record(1)])
    began = trio.current_time()
    await trio.sleep(4.9)
    assert writer.is_available
    assert session.waits == len(caplog.messages) == 0
    await trio.sleep(0.2)
    assert not writer.is_available
    assert session.waits == 1
    assert "has not taken a record for 5 s (away)" in str(writer.unavailable_error())
    assert caplog.messages == [
        "the store has not taken a record for 5 s (away): sessions wait until it does, and can be stopped"
    ]
    with pytest.raises(StoreUnavailable):
        await writer.call(lambda: None)
    writer.put(late, [record(1, "s-2")])
    await writer.wait_available()
    await writer.wait_empty()
    assert trio.current_time() - began < 13
    assert (session.durable, late.durable) == ([1], [1])
    pauses = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert pauses[0] == pytest.approx(0.02)
    assert max(pauses) == pytest.approx(0.5)
    assert len(caplog.messages) == 1


@on_virtual_time
async def test_it_sleeps_when_its_last_records_were_dropped(running):
    """A session that is refused takes its later records along. The writer then waits for work, and does not spin."""
    store = FakeStore((Fenced("s-1", durable_up_to=0),))
    session, writer = Heard(), running(store, Slow())
    writer.put(session, [record(1)])
    await trio.testing.wait_all_tasks_blocked()
    writer.put(session, [record(2)])
    await writer.wait_empty()
    assert (len(session.errors), store.batches) == (1, [[[1]]])
    running_on = []
    for _ in range(50):
        await trio.lowlevel.checkpoint()
        running_on.append(trio.lowlevel.current_statistics().tasks_runnable)
    assert running_on[10:] == [0] * 40


@on_virtual_time
async def test_a_call_that_is_cancelled_before_it_begins_is_not_made(running):
    """Cancelled means not done."""
    made = []

    class Stuck(FakeStore):
        def append(self, batch):
            message = "away"
            raise StoreUnavailable(message)

    writer = running(Stuck())
    writer.put(Heard(), [record(1)])
    await trio.sleep(0.1)
    with trio.move_on_after(1):
        await writer.call(lambda: made.append(1))
    await trio.sleep(1)
    assert not made
    with pytest.raises(StoreUnavailable, match=r"did not answer within 5 s|has not taken"):
        await writer.call(lambda: made.append(1))
    assert not made


@on_virtual_time
async def test_records_do_not_wait_for_calls_that_keep_coming(running):
    """Under load there is always another creation. A record is durable after the call that runs, not after the last one."""
    store, heard = FakeStore(), Heard()
    writer = running(store, Slow())

    async def call_again():
        while not heard.durable:
            await writer.call(lambda: None)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(call_again)
        await trio.sleep(5)
        writer.put(heard, [record(1)])
        with trio.fail_after(10):
            while not heard.durable:  # noqa: ASYNC110 - what is waited for has no event
                await trio.sleep(0.1)


@on_virtual_time
async def test_a_posted_call_follows_the_records_before_it(running):
    """A release comes after the last record of its session, also if both wait for an earlier call. It does not wait for later records."""
    made, store = [], FakeStore()
    writer = running(store, Slow())

    def post(name):
        writer.post(lambda: made.append((name, store.batches.copy())))

    store.release = lambda *_: made.append(("release", store.batches.copy()))
    post("earlier")
    await trio.testing.wait_all_tasks_blocked()
    writer.put(Heard(), [record(1)])
    post("snapshot")
    writer.repeat("", "s-1", store.release)
    writer.put(Heard(), [record(1, "s-2")])
    await writer.wait_empty()
    assert made == [("earlier", []), ("snapshot", [[[1], [1]]]), ("release", [[[1], [1]]])]

    post("earlier")
    await trio.testing.wait_all_tasks_blocked()
    post("release")
    writer.put(Heard(), [record(2)])
    await writer.wait_empty()
    assert made[3:] == [("earlier", [[[1], [1]]]), ("release", [[[1], [1]]])]


def tree(name):
    return TakeOver(scope="", root=name, node="n1", cause="start")


class TakingStore(FakeStore):
    """Remembers what is taken together, and cannot bear some trees."""

    def __init__(self, *, bad=()):
        super().__init__()
        self.asked, self.bad = [], bad

    def take(self, scope, root, node, cause, *, force=False, silent=None, tail=None):  # noqa: PLR0913
        (answer,) = self.take_many([tree(root)])
        if isinstance(answer, AgentrailError):
            raise answer
        return answer

    def take_many(self, wanted):
        names = [one.root for one in wanted]
        self.asked.append("+".join(names))
        if found := [name for name in names if name in self.bad]:
            message = f"{found} cannot be read"
            raise StoreUnavailable(message)
        return tuple(
            HeldBy(name, node="n2", address="", seen_ago_ms=0)
            if name.startswith("held")
            else Taken(sessions=())
            for name in names
        )


class Slow(Inline):
    """A machine on which each call takes a second."""

    async def offload(self, function, /, *args, abandon_on_cancel=False, limiter=None):
        await trio.sleep(1)
        return function(*args)


async def taken_by(store, *steps, patience=60):
    """Ask for trees, and for what stands between them, behind a call that takes a second; give what came of each tree."""
    found = {}

    async def take(name):
        try:
            found[name] = await writer.take(tree(name))
        except AgentrailError as error:
            found[name] = error

    async with trio.open_nursery() as nursery:
        writer = Writer(store, patience_seconds=patience, outside=Slow())
        nursery.start_soon(writer.run)
        writer.post(lambda: None)
        async with trio.open_nursery() as callers:
            for step in steps:
                if callable(step):
                    writer.post(step)
                else:
                    callers.start_soon(take, step)
                await trio.testing.wait_all_tasks_blocked()
        await writer.wait_empty()
        nursery.cancel_scope.cancel()
    return found


@on_virtual_time
async def test_trees_that_wait_side_by_side_are_taken_in_one_call():
    """Each is taken or refused by itself; and what is asked for between two of them is done between them."""
    store = TakingStore()
    found = await taken_by(store, "a", "held", "b", lambda: store.asked.append("(release)"), "c", "d")
    assert store.asked == ["a+held+b", "(release)", "c+d"]
    assert sorted(name for name, one in found.items() if isinstance(one, Taken)) == ["a", "b", "c", "d"]
    assert isinstance(found["held"], HeldBy)


class ReleasingStore(TakingStore):
    """A store that does not answer the first releases."""

    def __init__(self, unanswered):
        super().__init__()
        self.unanswered = unanswered

    def release(self, node, scope, root):
        self.asked.append(f"release {root} of {node}")
        if len(self.asked) <= self.unanswered:
            message = "away"
            raise StoreUnavailable(message)


@on_virtual_time
@pytest.mark.parametrize("is_taken_again", [False, True])
async def test_a_release_is_repeated_until_the_store_answers(running, is_taken_again):
    """A node that lives on keeps no tree that it does not use. It keeps one that it has taken again in the meantime."""
    store = ReleasingStore(unanswered=3)
    writer = running(store)
    writer.repeat("", "s-1", partial(store.release, "n1", "", "s-1"))
    await writer.wait_empty()
    if is_taken_again:
        await writer.take(tree("s-1"))
    await trio.sleep(10)
    again = ["s-1"] if is_taken_again else ["release s-1 of n1"] * 3
    assert store.asked == ["release s-1 of n1", *again]


@on_virtual_time
async def test_a_repeated_call_ends_with_a_later_one_of_its_key(running):
    """Also if the later one was accepted before the store failed to answer the earlier one."""
    store, made = TakingStore(), []

    def note():
        made.append("note")
        message = "away"
        raise StoreUnavailable(message)

    writer = running(store)
    writer.repeat("behind", "s-1", note)
    writer.repeat("behind", "s-1", lambda: made.append("forget"))
    await trio.sleep(10)
    assert made == ["note", "forget"]


@on_virtual_time
async def test_a_tree_that_nobody_waits_for_any_more_is_not_tried_again():
    """Who was cancelled while many were taken gives back what was taken for it; behind that nothing is."""
    store = TakingStore(bad=["b"])
    async with trio.open_nursery() as nursery:
        writer = Writer(store, patience_seconds=60, outside=Slow())
        nursery.start_soon(writer.run)
        writer.post(lambda: None)
        async with trio.open_nursery() as callers:
            callers.start_soon(writer.take, tree("a"))
            callers.start_soon(writer.take, tree("b"))
            await trio.sleep(1.5)  # both are under way
            callers.cancel_scope.cancel()
        await writer.wait_empty()
        nursery.cancel_scope.cancel()
    assert [sorted(one.split("+")) for one in store.asked] == [["a", "b"]]


@on_virtual_time
@pytest.mark.parametrize("holds", [False, True])
async def test_a_call_that_fails_when_patience_is_over_is_not_waited_for(holds):
    """It is not tried again, so nothing would find out that the store is back: what comes next does. A record that is held does too, and is what is waited for."""

    def fail():
        message = "away"
        raise StoreUnavailable(message)

    class Slow(Inline):
        async def offload(self, function, /, *args, abandon_on_cancel=False, limiter=None):
            await trio.sleep(6)
            return function(*args)

    session = Heard()
    async with trio.open_nursery() as nursery:
        writer = Writer(FakeStore(), patience_seconds=5, outside=Slow())
        nursery.start_soon(writer.run)
        writer.post(fail)
        await trio.sleep(1)
        if holds:
            writer.put(session, [record(1)])
        await trio.sleep(4.5)
        assert not writer.is_available
        await trio.sleep(1)
        assert writer.is_available is not holds
        await writer.wait_available()
        assert trio.current_time() == pytest.approx(12 if holds else 6.5, abs=0.1)
        assert session.durable == [1] * holds
        nursery.cancel_scope.cancel()


async def test_what_takes_no_time_is_done_in_the_thread_of_the_loop():
    """Also where the store was not there at first, and the writer tries again: no thread is woken for it."""
    threads = []

    class Flaky(MemoryStore):
        def append(self, batch):
            """Note who calls; fail the second time, behind the start."""
            threads.append(threading.get_ident())
            if len(threads) == 2:
                message = "not now"
                raise StoreUnavailable(message)
            return super().append(batch)

    async with open_nameless(store=Flaky()) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        assert await session.ask("Hi") == "a"
    assert len(threads) > 2
    assert set(threads) == {threading.get_ident()}


@on_virtual_time
async def test_a_tree_that_the_store_cannot_bear_keeps_no_other_from_being_taken():
    """They are tried one by one, and who asked for it hears why."""
    store = TakingStore(bad=["b"])
    found = await taken_by(store, "a", "b", "c")
    assert store.asked == ["a+b+c", "a", "b", "c"]
    assert str(found.pop("b")) == "['b'] cannot be read"
    assert list(map(type, found.values())) == [Taken, Taken]
