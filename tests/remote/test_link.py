"""Connections that are lost: what is read goes on without a gap, what was not answered is sent again, and some ends are final."""

from contextlib import asynccontextmanager
from traceback import extract_tb

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agentrail.errors import AlreadyResolved, RemoteRefused, Unauthorized, Unreachable, YourMove
from agentrail.events import SessionEnd
from agentrail.remote.connect import open_remote
from agentrail.remote.dialer import keep_connected
from tests.remote.fake_server import FakeServer, committed
from tests.runtime.rig import on_virtual_time

pytestmark = on_virtual_time


@asynccontextmanager
async def remote(server, session_id="s-1", *, connect_seconds=30.0):
    with trio.fail_after(3_600):  # of virtual time: what is never answered fails, and does not hang
        async with open_remote(server.dial, session_id, None, connect_seconds) as session:
            yield session


async def take(events, count):
    """Read so many events; the numbers of those that are committed."""
    with trio.fail_after(600):
        found = [await anext(events) for _ in range(count)]
    return [event.meta.seq for event in found if not event.meta.ephemeral]


async def test_a_session_that_ends_ends_what_reads_it():
    """By its last event; and by the reply to the subscription where there is none."""
    server = FakeServer()
    async with remote(server) as session:
        async with session.subscribe() as events:
            await server.publish(committed(1), committed(2, SessionEnd(reason="done")))
            assert [event.meta.seq async for event in events] == [1, 2]
        async with session.subscribe(after=2) as events:
            asked = [frame for frame in server.commands if frame["type"] == "subscribe"][-1]
            await server.say(type="reply", id=asked["id"], ok=True, result=None)
            assert [event async for event in events] == []


async def test_a_decision_that_was_sent_twice_was_taken_once():
    """That it is decided by then was our own doing; sent once, it was another's."""
    server = FakeServer()
    decided = {"code": "already_resolved", "message": "is decided", "status": "approved", "by": "user"}
    resolved = {"error": decided}
    async with remote(server) as session:
        server.on_command = lambda frame: resolved
        with pytest.raises(AlreadyResolved) as caught:
            await session.approve("a-1")
        assert (caught.value.status, caught.value.by) == ("approved", "user")
        answers = [None, resolved]
        server.on_command = lambda frame: answers.pop(0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.approve, "a-1")
            await wait_all_tasks_blocked()
            await server.cut()
        answers = [None, resolved]
        async with trio.open_nursery() as nursery:

            async def reject():
                with pytest.raises(AlreadyResolved):  # it was approved, and not by us
                    await session.reject("a-1")

            nursery.start_soon(reject)
            await wait_all_tasks_blocked()
            await server.cut()


async def test_what_has_no_class_is_refused_with_what_came():
    """A code that no class has, a frame that the server would not take, and an answer of a plugin."""
    server = FakeServer()
    async with remote(server) as session:
        error = {"code": "too_many_requests", "message": "slow down", "status": 429, "retry_after": "7"}
        server.on_command = lambda frame: {"error": error}
        with pytest.raises(RemoteRefused) as caught:
            await session.prompt("Hi")
        refused = caught.value
        assert (refused.code, refused.status, refused.retry_after_seconds) == ("too_many_requests", 429, 7.0)
        server.limits["frame_bytes"] = 1_000
        await server.cut()
        await trio.sleep(1)
        with pytest.raises(RemoteRefused, match="accepts 1000"):
            await session.prompt("x" * 1_000)
        server.on_command = lambda frame: {"text": "hello from a slash command"}
        with pytest.raises(RemoteRefused) as caught:
            await session.prompt("/help")
        assert caught.value.more == {"text": "hello from a slash command"}


@pytest.mark.host("H-080")
async def test_a_token_that_is_not_taken_is_not_tried_again():
    """Not as an upgrade, by a close code, or later; a 403 with a reason is final too, and a 503 is retried until the time is over."""
    for prepare in ({"refuse_with": [(401, b"")]}, {"close_with": [4401]}):
        server = FakeServer()
        vars(server).update(prepare)
        with pytest.raises(Unauthorized):
            async with remote(server):
                pass
        await trio.sleep(60)
        assert len(server.dialled_at) == 1
    server = FakeServer()
    async with remote(server) as session, session.subscribe() as events:
        server.refuse_with = [(401, b"")]
        await server.cut()
        with pytest.raises(Unauthorized):
            await anext(events)
        with pytest.raises(Unauthorized):
            await session.prompt("Hi")
    server = FakeServer()
    server.refuse_with = [(503, b""), (403, b'{"error": {"code": "forbidden", "message": "not you"}}')]
    with pytest.raises(RemoteRefused, match="not you") as caught:
        async with remote(server):
            pass
    assert (caught.value.code, caught.value.status) == ("forbidden", 403)
    assert len(server.dialled_at) == 2
    server.refuse_with, began = [(503, b"")] * 100, trio.current_time()
    with pytest.raises(Unreachable, match="within 20 s"):
        async with remote(server, connect_seconds=20.0):
            pass
    assert trio.current_time() - began == pytest.approx(20, abs=0.1)


async def test_a_connection_over_which_nothing_comes_is_given_up():
    """After two heartbeats; a live one has a ping in each."""
    server = FakeServer()
    async with remote(server) as session, session.subscribe() as events:
        await trio.sleep(100)
        assert sum(frame["type"] == "ping" for frame in server.heard[0]) == 6
        assert len(server.heard) == 1
        server.is_silent = True
        await trio.sleep(31)
        server.is_silent = False
        await trio.sleep(15)
        assert len(server.heard) >= 2
        await server.publish(committed(1))
        assert await take(events, 1) == [1]


async def test_it_sends_no_more_a_second_than_closes_a_connection():
    """A burst is spread over time."""
    server, times = FakeServer(), []
    server.limits["commands_per_second"] = 20

    def note(frame):
        times.append(trio.current_time())
        return {}

    async with remote(server) as session:
        server.on_command = note
        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(session.abort_tool, f"c-{number}")
    busiest = max(sum(start <= one < start + 1 for one in times) for start in times)
    assert len(times) == 60
    assert busiest <= 20


async def test_behind_its_block_a_handle_says_so():
    """Nothing waits for ever: a call that comes later raises, and one that waits is cancelled with the block."""
    server = FakeServer()
    async with remote(server) as session:
        await session.subscribe().__aenter__()  # and is not left: a second one would need another connection
    with pytest.raises(YourMove, match="has ended"):
        await session.status()
    with pytest.raises(YourMove, match="has ended"):
        async with session.subscribe():
            pass


async def test_the_error_of_an_ended_connection_has_the_traceback_of_its_own_call():
    """It is one error for all calls, and once grew with each: with the frames of all that had raised it."""
    server = FakeServer()
    async with remote(server) as session:
        events = await session.subscribe().__aenter__()

    async def read_nowait():
        events.next_nowait()

    for call in (session.status, lambda: session.subscribe().__aenter__(), events.__anext__, read_nowait):
        depths = set()
        for _ in range(5):
            with pytest.raises(YourMove, match="has ended") as caught:
                await call()
            depths.add(len(extract_tb(caught.value.__traceback__)))
        assert len(depths) == 1


async def test_a_server_that_is_too_slow_gets_twice_the_time():
    """Up to a minute, and ten seconds again after an attempt that failed in time, and after a welcome.

    Otherwise a server with more clients than it admits in ten seconds admits none of them, ever.
    """
    given, ends = [], []
    server = FakeServer()

    @asynccontextmanager
    async def dial(within_seconds):
        given.append(within_seconds)
        if len(given) == 6:
            raise ConnectionRefusedError
        if len(given) == 8:
            async with server.dial() as connection:
                yield connection
            return
        with trio.fail_after(within_seconds):
            await trio.sleep_forever()
        yield None

    async def serve(_connection, terms, _nursery):
        assert terms.heartbeat > 0
        raise trio.TooSlowError  # silent for too long after its welcome, which is no slow handshake

    welcomed = iter([None] * 7)
    with trio.move_on_after(3_600):
        await keep_connected(
            dial, 15.0, serve, lambda: next(welcomed, trio.current_time()), lambda *end: ends.append(end)
        )
    assert given[:9] == [10, 20, 40, 60, 60, 60, 10, 20, 10]
    assert isinstance(ends[5][0], ConnectionRefusedError)


async def test_a_reader_waits_for_no_connection_that_is_closed_meanwhile():
    """One whose slow reader leaves before the server has confirmed that it paused."""
    server = FakeServer()
    async with remote(server) as session, session.subscribe(), trio.open_nursery() as nursery:
        left, read = trio.Event(), list[int]()

        async def read_slowly():
            async with session.subscribe(buffer=1):
                await left.wait()

        async def read_later():
            async with session.subscribe(after=0) as events:
                read.extend(await take(events, 3))

        nursery.start_soon(read_slowly)
        await wait_all_tasks_blocked()
        server.is_silent = True
        await server.publish(committed(1), committed(2), committed(3))
        nursery.start_soon(read_later)
        await wait_all_tasks_blocked()
        server.is_silent = False
        left.set()
    assert read == [1, 2, 3]
