"""Connections that are lost: what is read goes on without a gap, what was not answered is sent again, and some ends are final."""

from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agentrail.errors import (
    AlreadyResolved,
    PromptQueueFull,
    RemoteRefused,
    SessionUnknown,
    Unauthorized,
    Unreachable,
    YourMove,
)
from agentrail.events import EventsLost, MessageDelta, SessionEnd
from agentrail.remote.connecting import open_remote
from tests.remote.fake_server import FakeServer, committed, delta
from tests.runtime.rig import on_virtual_time

RECEIPT = {"request_id": "q-1", "ref": "p-1", "seq": 3, "queued": False, "position": 0}


@asynccontextmanager
async def remote(server, session_id="s-1", *, connect_seconds=30.0):
    """A client of a fake server."""
    with trio.fail_after(3_600):  # of virtual time: what is never answered fails, and does not hang
        async with open_remote(server.dial, session_id, None, connect_seconds) as session:
            yield session


async def take(events, count):
    """Read so many events; the numbers of those that are committed."""
    with trio.fail_after(600):
        found = [await anext(events) for _ in range(count)]
    return [event.meta.seq for event in found if not event.meta.ephemeral]


def names(frames):
    """Which frames there were, without the question that opening a session asks."""
    return [frame["type"] for frame in frames if frame["type"] not in ("hello", "ping", "status")]


# --- what is read


@pytest.mark.host("H-079")
@on_virtual_time
async def test_a_subscription_shows_each_committed_event_once_over_any_number_of_connections():
    """The socket dies three times: what came meanwhile comes behind what was read, and nothing comes twice."""
    server = FakeServer()
    async with remote(server) as session, session.subscribe() as events:
        for start in (1, 4, 7):
            await server.publish(committed(start), delta(start), committed(start + 1))
            await wait_all_tasks_blocked()
            await server.cut()
            await server.publish(committed(start + 2))  # nobody hears it
            await trio.sleep(1)
        assert await take(events, 12) == list(range(1, 10))
    assert [frame.get("after") for frame in server.commands if frame["type"] == "subscribe"] == [
        None,
        2,
        5,
        8,
    ]


@on_virtual_time
async def test_what_a_server_sends_twice_is_shown_once():
    """A server that goes on too early is put right by numbers."""
    server = FakeServer()
    async with remote(server) as session, session.subscribe() as events:
        await server.publish(committed(1), committed(2))
        await server.say(
            type="event",
            event={"kind": "session_end", "reason": "x", "seq": 2, "session_id": "s-1", "at_ms": 0},
        )
        await server.publish(committed(3))
        assert await take(events, 3) == [1, 2, 3]


@on_virtual_time
async def test_a_reader_who_is_behind_loses_deltas_alone():
    """What has no room is asked for again behind what was kept; the connection is never held up by it."""
    server = FakeServer()
    async with remote(server) as session, session.subscribe(buffer=4) as events:
        for number in range(1, 31):
            await server.publish(committed(number), delta(number))
        await wait_all_tasks_blocked()
        server.on_command = lambda frame: RECEIPT
        assert (await session.prompt("Hi")).ref == "p-1"  # others are served meanwhile
        with trio.fail_after(60):
            found = [one async for one in _until(events, 30)]
        assert [one.meta.seq for one in found if not one.meta.ephemeral] == list(range(1, 31))
        assert events.dropped_deltas > 0


async def _until(events, last):
    async for event in events:
        yield event
        if event.meta.seq >= last and not event.meta.ephemeral:
            return


@on_virtual_time
async def test_two_readers_of_a_session_see_everything():
    """The second one has a connection of its own, since a server lets each read a session once; it closes behind it."""
    server = FakeServer()
    async with remote(server) as session, session.subscribe() as first:
        await server.publish(committed(1), committed(2))
        async with session.subscribe(after=0) as second:
            assert await take(second, 2) == [1, 2]
            assert len(server.heard) == 2
            await server.publish(committed(3))
            assert await take(second, 1) == [3]
        assert await take(first, 3) == [1, 2, 3]
        await wait_all_tasks_blocked()
        assert len(server._open) == 1  # noqa: SLF001 - the fake is ours


@on_virtual_time
async def test_one_reader_behind_another_shares_the_connection():
    """The second waits until the server has heard that the first has left."""
    server = FakeServer()
    await server.publish(committed(1), committed(2))
    async with remote(server) as session:
        for _ in range(3):
            async with session.subscribe(after=0) as events:
                assert await take(events, 2) == [1, 2]
    assert len(server.heard) == 1
    assert names(server.commands)[:5] == ["subscribe", "unsubscribe"] * 2 + ["subscribe"]


@on_virtual_time
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


@on_virtual_time
async def test_a_session_that_is_unknown_by_now_says_so():
    """On a connection after the first: what waits is read, then the reason is raised."""
    server = FakeServer()
    async with remote(server) as session, session.subscribe() as events:
        await server.publish(committed(1))
        await wait_all_tasks_blocked()
        del server.events["s-1"]
        await server.cut()
        assert await take(events, 1) == [1]
        with pytest.raises(SessionUnknown):
            await anext(events)


# --- what is asked


@on_virtual_time
async def test_a_command_without_an_answer_is_sent_again_under_its_name():
    """The answer of the second is the answer; a cancelled one is not sent again."""
    server, answers = FakeServer(), [None, RECEIPT]
    async with remote(server) as session, trio.open_nursery() as nursery:
        server.on_command = lambda frame: answers.pop(0)
        got = []

        async def prompt():
            got.append(await session.prompt("Hi"))

        nursery.start_soon(prompt)
        await wait_all_tasks_blocked()
        with trio.move_on_after(0):
            await session.prompt("cancelled before it was sent")
        await server.cut()
        await trio.sleep(1)
    assert [one.request_id for one in got] == ["q-1"]
    first, again = [frame for frame in server.commands if frame["type"] == "prompt"]
    assert first == again
    assert first["client_id"].startswith("r-")


@on_virtual_time
async def test_a_decision_that_was_sent_twice_was_taken_once():
    """That it is decided by then was our own doing; sent once, it was another's."""
    server = FakeServer()
    resolved = {
        "error": {"code": "already_resolved", "message": "is decided", "status": "approved", "by": "user"}
    }
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


@on_virtual_time
async def test_errors_have_the_class_of_their_code():
    """And a code that no class has is `RemoteRefused`, with what came."""
    server = FakeServer()
    async with remote(server) as session:
        server.on_command = lambda frame: {"error": {"code": "queue_full", "message": "as many wait as may"}}
        with pytest.raises(PromptQueueFull, match="as many wait as may"):
            await session.prompt("Hi")
        error = {
            "code": "too_many_requests",
            "message": "slow down",
            "status": 429,
            "retry_after": "7",
            "hint": "wait",
        }
        server.on_command = lambda frame: {"error": error}
        with pytest.raises(RemoteRefused) as caught:
            await session.prompt("Hi")
        refused = caught.value
        assert (refused.code, refused.status, refused.retry_after_seconds) == ("too_many_requests", 429, 7.0)
        server.limits["frame_bytes"] = 1_000
        await server.cut()
        await trio.sleep(1)
        with pytest.raises(RemoteRefused, match="takes 1000"):
            await session.prompt("x" * 1_000)
        server.on_command = lambda frame: {"text": "hello from a slash command"}
        with pytest.raises(RemoteRefused) as caught:
            await session.prompt("/help")
        assert caught.value.more == {"text": "hello from a slash command"}


# --- connections


@on_virtual_time
async def test_it_comes_back_with_growing_delays():
    """From a quarter of a second, doubled up to ten; and from the first again when a connection has lasted."""
    server = FakeServer()
    async with remote(server) as session:
        await trio.sleep(60)
        server.refuse_with = [(503, b"")] * 8
        await server.cut()
        await trio.sleep(120)
        gaps = [later - one for one, later in zip(server.dialled_at[1:], server.dialled_at[2:], strict=False)]
        most = [0.5, 1, 2, 4, 8, 10, 10, 10]
        assert len(gaps) == 8
        assert all(bound / 2 <= gap <= bound for gap, bound in zip(gaps, most, strict=True))
        await session.abort_tool("c-1")
        before = len(server.dialled_at)
        await server.cut()
        await trio.sleep(0.3)
        assert len(server.dialled_at) == before + 1


@pytest.mark.host("H-080")
@on_virtual_time
async def test_a_token_that_is_not_taken_is_not_tried_again():
    """Not as an upgrade, not with a close code, and not later: all who wait are told."""
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


@on_virtual_time
async def test_a_refusal_that_stays_is_told():
    """403 with a reason is final; 503 is not."""
    server = FakeServer()
    server.refuse_with = [(503, b""), (403, b'{"error": {"code": "forbidden", "message": "not you"}}')]
    with pytest.raises(RemoteRefused, match="not you") as caught:
        async with remote(server):
            pass
    assert (caught.value.code, caught.value.status) == ("forbidden", 403)
    assert len(server.dialled_at) == 2


@on_virtual_time
async def test_a_server_that_never_answers_is_unreachable():
    """After the time that was given, and not before."""
    server, began = FakeServer(), trio.current_time()
    server.refuse_with = [(503, b"")] * 100
    with pytest.raises(Unreachable, match="within 20 s"):
        async with remote(server, connect_seconds=20.0):
            pass
    assert trio.current_time() - began == pytest.approx(20, abs=0.1)


@on_virtual_time
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


@on_virtual_time
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


@on_virtual_time
async def test_behind_its_block_a_handle_says_so():
    """Nothing waits for ever: a call that comes later raises, and one that waits is cancelled with the block."""
    server = FakeServer()
    async with remote(server) as session:
        pass
    with pytest.raises(YourMove, match="was left"):
        await session.status()
    with pytest.raises(YourMove, match="was left"):
        async with session.subscribe():
            pass


@on_virtual_time
async def test_losses_come_with_their_snapshot_and_are_not_lost_with_a_connection():
    """`EventsLost` is shown when its snapshot is there; the numbers go on behind it."""
    server = FakeServer()
    async with remote(server) as session, session.subscribe(after=0) as events:
        await server.publish(committed(1))
        lost = {
            "kind": "events_lost",
            "from_seq": 2,
            "to_seq": 9,
            "seq": 9,
            "session_id": "s-1",
            "at_ms": 0,
            "ephemeral": True,
        }
        await server.say(type="event", event=lost)
        assert await take(events, 1) == [1]
        asked = [frame for frame in server.commands if frame["type"] == "subscribe"][-1]
        await server.say(type="subscribed", id=asked["id"], session_id="s-1", seq=9, snapshot={"seq": 9})
        event = await anext(events)
        assert isinstance(event, EventsLost)
        await server.publish(committed(9), committed(10))
        assert await take(events, 1) == [10]
        await server.say(type="event", event=delta_json(10))
        assert isinstance(await anext(events), MessageDelta)


def delta_json(seq):
    """The wire form of an ephemeral event."""
    return {
        "kind": "message_delta",
        "delta": "x",
        "seq": seq,
        "session_id": "s-1",
        "at_ms": 0,
        "ephemeral": True,
    }
