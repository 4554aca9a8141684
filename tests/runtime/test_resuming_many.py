"""Many stored sessions come back: in pages by key, eight side by side, many trees taken in one call; and what is not used is given back."""

from collections import Counter
from functools import partial

import msgspec
import pytest
import trio

from agentrail.abc.store import Node
from agentrail.core.journal.record import TAKEN
from agentrail.errors import HeldBy, OptionError, StoreUnavailable
from agentrail.outside import installed
from agentrail.runtime.hibernation import RESUMED_AT_ONCE
from agentrail.stores.memory import MemoryStore
from agentrail.testing.faulty_store import FaultyStore
from tests.runtime.rig import Inline, on_virtual_time, open_over, saying

pytestmark = on_virtual_time

_PAGE = 100


class Counting(FaultyStore):
    def __init__(self, inner):
        super().__init__(inner)
        self.counted, self.limits = Counter(), []

    def orphans(self, limit=100, *, after=None):
        return self._look(limit, partial(self.inner.orphans, limit, after=after))

    def find(self, filters, *, after=None, limit=100):
        """Count those that look for roots: a tree is looked at once for each."""
        call = partial(self.inner.find, filters, after=after, limit=limit)
        return self._look(limit, call) if filters.only_roots else call()

    def _look(self, limit, call):
        self.counted["look"] += 1
        self.limits.append(limit)
        return call()

    def _call(self, name, *args, **options):
        self.counted[name] += 1
        return super()._call(name, *args, **options)


async def stored(count):
    inner = MemoryStore(lease_ms=0)
    async with open_over(inner) as supervisor:
        for number in range(count):
            await supervisor.start_session(model=saying("a"), session_id=f"s-{number:05}")
    return inner


def give(_opening):
    return {"model": saying("b")}


@pytest.mark.parametrize("count", [10, 110, pytest.param(300, marks=pytest.mark.check)])
@pytest.mark.parametrize("which", ["all", "working"])
async def test_what_is_asked_of_the_store_grows_with_pages_and_not_with_sessions(count, which):
    """A look for each page of a hundred, all of one size, and one that finds nothing; and one call takes eight trees, or nearly."""
    inner = await stored(count)
    if which == "working":
        for key, journal in inner._journals.items():  # noqa: SLF001 - each would have to be killed at work
            inner._stand(key, journal, msgspec.structs.replace(journal.standing, is_working=True))  # noqa: SLF001
    store = Counting(inner)
    with installed(Inline()):
        async with open_over(store, resume=which, revive=give) as supervisor:
            counted, limits = store.counted.copy(), set(store.limits)
            assert sorted(one.session_id for one in supervisor.sessions()) == [
                f"s-{n:05}" for n in range(count)
            ]
    assert counted["look"] == -(-count // _PAGE) + 1
    assert limits == {_PAGE}
    assert counted["take"] == 0
    pages = [_PAGE] * (count // _PAGE) + [count % _PAGE]
    fewest = sum(-(-page // RESUMED_AT_ONCE) for page in pages)
    assert fewest <= counted["take_many"] <= fewest + len(pages)


async def test_one_that_is_held_keeps_no_other_from_coming_back():
    """It is named, with who holds it; the others are alive."""
    inner = await stored(5)
    inner._lease_ms = 60_000  # noqa: SLF001 - from here on who lives holds what it has
    inner.beat(Node(id="n-other", address="http://10.0.0.7:8700"))
    inner.take("", "s-00002", "n-other", "start")
    store = Counting(inner)
    with installed(Inline()):
        async with open_over(store, revive=give) as supervisor:
            with pytest.raises(OptionError, match="expected 'none', 'working' or 'all'"):
                await supervisor.resume_all("some")
            (failed,) = await supervisor.resume_all("all")
            assert failed.session_id == "s-00002"
            assert isinstance(failed.error, HeldBy)
            assert failed.error.node == "n-other"
            alive = sorted(one.session_id for one in supervisor.sessions())
            assert alive == ["s-00000", "s-00001", "s-00003", "s-00004"]
    assert store.counted["take_many"] == 1
    assert inner.get("", "s-00002").node == "n-other"


class Stopping(Inline):
    """Calls back before the n-th thing that is done in a worker thread, or behind it."""

    def __init__(self, number, stop, *, behind):
        super().__init__()
        self.left, self.stop, self.behind = number, stop, behind

    async def offload(self, function, /, *args, abandon_on_cancel=False, limiter=None):
        self.left -= 1
        stops = self.left == 0
        if stops and not self.behind:
            self.stop()
        await trio.lowlevel.checkpoint()
        value = function(*args)
        if stops and self.behind:
            self.stop()
        return value


@pytest.mark.parametrize("behind", [False, True])
async def test_wherever_it_is_cancelled_no_tree_has_an_owner_that_does_not_run_it(behind):
    """What was taken and did not begin is given back, by a node that lives on and would hold it for ever; and each can be resumed again."""
    number = 0
    while True:
        number += 1
        inner = await stored(3)
        scope = trio.CancelScope()
        machine = Stopping(10_000, scope.cancel, behind=behind)
        with installed(machine):
            async with open_over(FaultyStore(inner), revive=give) as supervisor:
                machine.left = number
                with scope:
                    await supervisor.resume_all("all")
                await supervisor._shared.keeping.writer.wait_empty()  # noqa: SLF001 - for what is given back
                alive = {one.session_id for one in supervisor.sessions()}
                owned = {one.session for one in inner.find() if one.node}
                assert owned == alive
                machine.left = 10_000
                for name in {"s-00000", "s-00001", "s-00002"} - alive:
                    await supervisor.resume_session(name, model=saying("c"))
        if not scope.cancel_called:
            break
    assert number > 5


async def test_what_cannot_be_read_once_it_is_taken_is_given_back(monkeypatch):
    """The store goes away between the two: nobody runs it, and nobody owns it when the store is back."""
    inner = await stored(1)
    store = FaultyStore(inner)

    read, failed = inner.read, list[int]()

    def fail(*given, **rest):
        if "take" in store.calls and not failed:
            failed.append(1)
            message = "the disk is full"
            raise StoreUnavailable(message)
        return read(*given, **rest)

    monkeypatch.setattr(inner, "read", fail)
    with installed(Inline()):
        async with open_over(store, revive=give) as supervisor:
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                await supervisor.resume_session("s-00000", model=saying("b"))
            await supervisor._shared.keeping.writer.wait_empty()  # noqa: SLF001 - for what is given back
            assert inner.read("", "s-00000")[-1].kind == TAKEN
            assert inner.get("", "s-00000").node == ""
            session = await supervisor.resume_session("s-00000", model=saying("b"))
            assert await session.ask("Hi") == "b"
