"""Readers of streams: each committed event once and in order, one `done` at the end, and no reader that others wait for."""

import math
import re

import pytest
import trio

from agentrail.errors import CursorAhead, SessionDown, StoreUnavailable
from agentrail.gateway import event_hub as hub_module
from agentrail.gateway.event_hub import Hub, open_hubs
from agentrail.gateway.frame_ring import FrameRing
from agentrail.gateway.sse_frames import event_frame
from agentrail.stores.memory import MemoryStore
from agentrail.testing.cancelling import crash
from agentrail.testing.supervisors import open_nameless
from tests.gateway.sse import comments, parse
from tests.runtime.rig import NoSandbox, on_bounded_time, on_virtual_time, saying

pytestmark = on_virtual_time


async def read_all(reader, *, seconds=30):
    stream = b""
    with trio.fail_after(seconds):
        async for piece in reader:
            stream += piece
    return stream


def numbers(stream):
    return [int(frame.id) for frame in parse(stream) if frame.id is not None]


def check_end(stream, reason):
    """There is one `done`, it stands last, and its number is that of the last committed event. Gives its data."""
    frames = parse(stream)
    assert [frame.event for frame in frames].count("done") == 1
    assert frames[-1].event == "done"
    assert frames[-1].data["reason"] == reason
    given = numbers(stream) or [frame.data["seq"] for frame in frames if frame.event == "snapshot"]
    if given:
        assert frames[-1].data["seq"] == given[-1]
    return frames[-1].data


# --- what a stream holds


@pytest.mark.host("H-067")
async def test_a_stream_has_a_retry_a_snapshot_and_what_is_live(supervisor, hubs):
    """Numbers rise by one on committed events; ephemeral ones have none."""
    session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
    await session.ask("Hi")
    last = (await session.snapshot()).last_seq
    async with hubs.open_reader(session) as reader:
        await session.ask("And?")
        await session.stop()
        stream = await read_all(reader)
    assert re.match(rb"retry: \d{3,4}\nevent: ", stream)
    frames = parse(stream)
    assert (frames[0].event, frames[0].data["seq"]) == ("snapshot", last)
    assert frames[0].data["messages"][-1]["content"][0]["text"] == "a"
    assert numbers(stream) == list(range(last + 1, last + 1 + len(numbers(stream))))
    assert {frame.event for frame in frames if frame.id is None} == {"snapshot", "message_delta", "done"}
    assert check_end(stream, "session_ended")["session_id"] == "s-1"
    assert hubs.statistics() == hub_module.HubStatistics(hubs=0, readers=0, frames=0, frame_bytes=0)


@pytest.mark.host("H-070")
async def test_a_cursor_of_the_future_is_refused_and_one_too_old_begins_anew(supervisor, hubs):
    """409 by its exception; `events_lost`, and right behind it the snapshot that it goes on from."""
    session = await supervisor.start_session(model=saying("a", "b"), event_buffer_size=4)
    await session.ask("Hi")
    last = (await session.snapshot()).last_seq
    with pytest.raises(CursorAhead):
        async with hubs.open_reader(session, after=last + 1):
            pass
    assert hubs.statistics().hubs == 0
    async with hubs.open_reader(session, after=1) as reader:
        await session.ask("And?")
        await session.stop()
        stream = await read_all(reader)
    frames = parse(stream)
    assert [frame.event for frame in frames[:2]] == ["events_lost", "snapshot"]
    assert (frames[0].data["from_seq"], frames[0].data["to_seq"], frames[1].data["seq"]) == (2, last, last)
    assert numbers(stream)[0] == last + 1


async def test_a_reader_that_has_seen_all_wakes_no_hibernated_session(hubs):
    """It comes back after its last event, and gets what follows when others wake the session."""
    make = {"store": MemoryStore(lease_ms=0), "hibernate_after": 10.0}
    async with open_nameless(lambda _name, _root: NoSandbox(), **make) as supervisor:
        session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
        await session.ask("Hi")
        last = (await session.snapshot()).last_seq
        await trio.sleep(30)
        async with hubs.open_reader(session, after=last) as reader:
            await trio.sleep(1)
            assert supervisor.statistics().asleep == 1
            await session.ask("And?")
            await session.stop()
            stream = await read_all(reader)
    assert numbers(stream) == list(range(last + 1, last + 1 + len(numbers(stream))))
    check_end(stream, "session_ended")


async def follow(hubs, session, found, delay, after=None):
    await trio.sleep(delay)
    async with hubs.open_reader(session, after=after) as reader:
        found.append((after, await read_all(reader)))


async def test_a_hub_that_falls_behind_goes_on_where_it_was(supervisor, hubs, monkeypatch):
    """Its own buffer is full, and it is cut like any subscriber: its readers do not notice."""
    monkeypatch.setattr(hub_module, "HUB_BUFFER", 1)
    session = await supervisor.start_session(model=saying("a", "b", "c"))
    found = []
    async with trio.open_nursery() as nursery:
        for number in range(12):
            nursery.start_soon(follow, hubs, session, found, 0, number % 2 or None)
        for text in ("x", "y", "z"):
            await trio.sleep(0.1)
            await session.ask(text)
        await session.stop()
    for after, stream in found:
        begins = after or parse(stream)[0].data["seq"]
        assert numbers(stream) == list(range(begins + 1, begins + 1 + len(numbers(stream))))
        check_end(stream, "session_ended")


@pytest.mark.host("H-070")
@on_bounded_time
async def test_a_session_that_goes_back_gives_its_readers_a_snapshot_to_begin_anew_from():
    """Right behind the word of the loss, and numbers go on: what was read before does not count any more."""
    found = []
    async with (
        open_nameless(store=MemoryStore()) as supervisor,
        open_hubs() as hubs,
        trio.open_nursery() as nursery,
    ):
        session = await supervisor.start_session(model=saying("a", "b", "c"))
        for number in range(3):
            nursery.start_soon(follow, hubs, session, found, 0, None if number else 0)
        await until_joined(hubs, 3)
        await session.ask("one")
        await session.ask("two")
        await session.rewind(turn=1)
        await session.ask("three")
        await session.stop()
    for _, stream in found:
        frames = parse(stream)
        (lost,) = [place for place, frame in enumerate(frames) if frame.event == "events_lost"]
        snapshot = frames[lost + 1]
        assert snapshot.event == "snapshot"
        assert [one["content"][0]["text"] for one in snapshot.data["messages"]] == ["one", "a"]
        later = [int(frame.id) for frame in frames[lost + 2 :] if frame.id]
        assert later == list(range(snapshot.data["seq"] + 1, snapshot.data["seq"] + 1 + len(later)))
        check_end(stream, "session_ended")


async def until_joined(hubs, count):
    while hubs.statistics().readers < count:
        await trio.lowlevel.checkpoint()


async def test_readers_of_two_sessions_of_one_name_do_not_meet(supervisor, hubs):
    """In two scopes; and behind the end of one, another of the same id, which may live before the hub has heard of the end."""
    sessions = [
        await supervisor.start_session(model=saying("a"), session_id="s", scope=scope) for scope in ("x", "y")
    ]
    async with hubs.open_reader(sessions[0]) as one, hubs.open_reader(sessions[1]) as other:
        assert hubs.statistics().hubs == 2
        await sessions[0].ask("for x")
        await sessions[0].stop()
        again = await supervisor.start_session(model=saying("new"), session_id="s", scope="x")
        async with hubs.open_reader(again) as third:
            await again.ask("again")
            await again.stop()
            await sessions[1].stop()
            streams = [await read_all(reader) for reader in (one, other, third)]
    assert [b"for x" in stream for stream in streams] == [True, False, False]
    assert [b"again" in stream for stream in streams] == [False, False, True]
    session = await supervisor.start_session(model=saying("a"), session_id="t")
    async with trio.open_nursery() as nursery:
        event_hub = Hub(session, FrameRing())
        nursery.start_soon(event_hub.run)
        await event_hub.wait_level()
        await session.stop()
        again = await supervisor.start_session(model=saying("a"), session_id="t")
        async with again.subscribe() as own:
            assert event_hub.begin_reader(own, None) is None
        assert event_hub.ended == "session_ended"


# --- how a stream ends


@pytest.mark.host("H-068")
@pytest.mark.parametrize("reason", ["completed", "aborted", "failed", "refused", "dropped"])
async def test_a_stream_ends_behind_its_request(supervisor, hubs, reason):
    """With everything up to the number of its end and nothing behind that; the first word holds."""
    session = await supervisor.start_session(model=saying("a", "b"))
    async with hubs.open_reader(session, after=0) as reader:
        await session.ask("Hi")
        last = (await session.snapshot()).last_seq
        await session.ask("And?")
        reader.finish(reason, behind=last, request_id="r-1", detail="why")
        reader.finish("shutdown")
        stream = await read_all(reader)
        assert (reader.reason, reader.seq) == (reason, last)
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
    done = check_end(stream, reason)
    assert (done["seq"], done["request_id"], done["detail"]) == (last, "r-1", "why")
    assert numbers(stream) == list(range(1, last + 1))


@pytest.mark.host("H-068")
async def test_a_stream_that_waits_ends_when_it_is_told(supervisor, hubs):
    """Its reader is woken; where the number is to come yet, it waits for that, or for the end of the session."""
    session = await supervisor.start_session(model=saying("a"))
    found = []

    async def follow_one(behind):
        async with hubs.open_reader(session) as reader:
            readers.append(reader)
            found.append((behind, await read_all(reader)))

    readers = []
    async with trio.open_nursery() as nursery:
        for behind in (0, 3, 10_000):
            nursery.start_soon(follow_one, behind)
            await trio.sleep(1)
            with pytest.raises(trio.BusyResourceError):  # two tasks would share its position
                await anext(readers[-1])
            readers[-1].finish("completed", behind=behind)
        await trio.sleep(1)
        assert [behind for behind, _ in found] == [0]
        await session.ask("Hi")
        await trio.sleep(1)
        assert [behind for behind, _ in found] == [0, 3]
        await session.stop()
    for _, stream in found:
        check_end(stream, "completed")


@pytest.mark.host("H-068")
@pytest.mark.parametrize(
    ("how", "reason"), [("stop", "session_ended"), ("park", "failed"), ("rest", "shutdown")]
)
async def test_a_stream_ends_with_its_session(supervisor, hubs, how, reason):
    """For those that wait, for those that have not read all, and for those that come back behind the end."""
    session = await supervisor.start_session(model=saying("a"), session_id="s-1", restart="temporary")
    await session.ask("Hi")
    async with hubs.open_reader(session, after=0) as slow, hubs.open_reader(session) as quick:
        await anext(quick)
        if how == "stop":
            await session.stop()
        elif how == "park":
            crash(session, "a cosmic ray")
            await session.monitor().wait()
        else:
            await supervisor.rest("s-1")
        streams = [await read_all(reader) for reader in (slow, quick)]
    check_end(streams[0], reason)
    assert parse(streams[1])[-1].data["reason"] == reason
    handle = supervisor.last_words("s-1").session
    async with hubs.open_reader(handle, after=2) as late:
        stream = await read_all(late)
    check_end(stream, reason)
    assert numbers(stream) == list(range(3, 3 + len(numbers(stream))))
    with pytest.raises(SessionDown):
        async with hubs.open_reader(handle):
            pass


@pytest.mark.host("H-068")
@pytest.mark.parametrize("reason", ["shutdown", "moved"])
async def test_all_streams_end_when_the_server_goes_down(supervisor, hubs, reason):
    """Each with its own number; one that is opened from then on ends at once; one that is stuck in a write is cut."""
    session = await supervisor.start_session(model=saying("a"))
    await session.ask("Hi")
    last = (await session.snapshot()).last_seq
    found, began = [], trio.current_time()

    async def stuck():
        async with hubs.open_reader(session) as reader:
            await anext(reader)
            await trio.sleep(math.inf)
        cut.append(trio.current_time() - began)

    cut = []
    async with trio.open_nursery() as nursery:
        for number in range(150):
            nursery.start_soon(follow, hubs, session, found, 0, number % 3)
        nursery.start_soon(stuck)
        await trio.sleep(1)
        await hubs.close(reason)
    assert cut == [1 + hub_module.WRITE_GRACE_SECONDS]
    assert {check_end(stream, reason)["seq"] for _, stream in found} == {last}
    async with hubs.open_reader(session, after=0) as reader:
        check_end(await read_all(reader), reason)


@pytest.mark.host("H-068")
@pytest.mark.parametrize(
    "error", [StoreUnavailable("away"), RuntimeError("a bug"), None], ids=["away", "bug", "event"]
)
async def test_a_hub_that_cannot_go_on_ends_its_streams_and_no_other(
    supervisor, hubs, monkeypatch, caplog, error
):
    """A journal or an event that cannot be read or written, or a bug: readers would miss something, so their streams end as failed."""
    follow_session = Hub._follow  # noqa: SLF001 - where a bug of ours would be

    async def fail(hub, subscription):
        if hub.session is bad and error is not None:
            await trio.sleep(1)
            raise error
        await follow_session(hub, subscription)

    def broken(event):
        if b"poison" in (frame := event_frame(event)):
            message = "a bug"
            raise RuntimeError(message)
        return frame

    monkeypatch.setattr(Hub, "_follow", fail)
    monkeypatch.setattr(hub_module, "event_frame", broken)
    good = await supervisor.start_session(model=saying("a"))
    bad = await supervisor.start_session(model=saying("a", "b"))
    async with hubs.open_reader(good) as other, hubs.open_reader(bad) as reader:
        if error is None:
            await bad.ask("poison")
        assert parse(await read_all(reader))[-1].data["reason"] == "failed"
        await good.ask("Hi")
        await good.stop()
        check_end(await read_all(other), "session_ended")
    assert "end, because its events cannot be read: " in caplog.text
    monkeypatch.setattr(Hub, "_follow", follow_session)
    async with hubs.open_reader(bad, after=(await bad.snapshot()).last_seq) as reader:
        await bad.ask("fine")
        await bad.stop()
        check_end(await read_all(reader), "session_ended")


@pytest.mark.host("H-069")
async def test_a_silent_stream_sends_a_comment_every_15_seconds(supervisor, hubs):
    """Counted from the last write, of each stream by itself."""
    session = await supervisor.start_session(model=saying("a"))
    beats = {0.0: [], 4.0: []}

    async def listen(delay):
        await trio.sleep(delay)
        async with hubs.open_reader(session) as reader:
            began = trio.current_time()
            async for piece in reader:
                if comments(piece):
                    assert piece == b":\n"
                    beats[delay].append(round(trio.current_time() - began, 3))

    async with trio.open_nursery() as nursery:
        for delay in beats:
            nursery.start_soon(listen, delay)
        await trio.sleep(50)
        await session.ask("Hi")
        await trio.sleep(20)
        nursery.cancel_scope.cancel()
    assert beats == {0.0: [15, 30, 45, 65], 4.0: [15, 30, 45, 61]}


@pytest.mark.host("H-071")
async def test_a_reader_that_never_reads_is_cut_and_delays_no_other(supervisor):
    """The ring stays bounded, the others get everything, and the session does not wait."""
    texts = [f"{number}" for number in range(60)]
    session = await supervisor.start_session(model=saying(*texts))
    cut, found = [], []
    async with open_hubs(max_frames=40) as hubs, trio.open_nursery() as nursery:

        async def never_reads():
            broken = trio.Event()
            async with hubs.open_reader(session, after=0, on_cut=broken.set) as reader:
                with trio.CancelScope(shield=True):  # as the write of a server that is deaf to cancellation
                    await broken.wait()
                await trio.sleep(math.inf)
            cut.append((reader.reason, trio.current_time()))

        nursery.start_soon(never_reads)
        for _ in range(3):
            nursery.start_soon(follow, hubs, session, found, 0, 0)
        await trio.sleep(0.1)
        began = trio.current_time()
        for text in texts:
            await session.ask(text)
            assert hubs.statistics().frames <= 40
        assert trio.current_time() == began
        await trio.sleep(11)
        assert [reason for reason, _ in cut] == [None]
        await session.stop()
    whole = [numbers(stream) for _, stream in found]
    assert whole == [list(range(1, len(whole[0]) + 1))] * 3
    assert len(whole[0]) > 300


@pytest.mark.host("H-071")
async def test_a_reader_that_is_overtaken_and_reads_again_is_told_so(supervisor):
    """With the number that it has, from which it comes back and misses nothing."""
    session = await supervisor.start_session(model=saying(*"abcdefghij"))
    async with open_hubs(max_frames=10) as hubs:
        async with hubs.open_reader(session, after=0) as reader, hubs.open_reader(session):
            first = await anext(reader)
            for text in "abcdefghij":
                await session.ask(text)
            stream = first + await read_all(reader)
        done = check_end(stream, "slow_reader")
        await session.stop()
        async with hubs.open_reader(
            supervisor.last_words(session.session_id).session, after=done["seq"]
        ) as reader:
            stream += await read_all(reader)
    assert numbers(stream) == list(range(1, len(numbers(stream)) + 1))


@pytest.mark.host("H-118")
async def test_readers_are_woken_in_slices(supervisor, hubs):
    """Between two slices every other task gets a turn, such as the listener that takes new connections."""
    session = await supervisor.start_session(model=saying("a"))
    lately, got, most = set(), set(), 0

    async def count(number):
        async with hubs.open_reader(session) as reader:
            async for _ in reader:
                lately.add(number)

    async with trio.open_nursery() as nursery:
        for number in range(300):
            nursery.start_soon(count, number)
        await trio.sleep(1)
        lately.clear()
        nursery.start_soon(session.ask, "Hi")
        while len(got) < 300:
            await trio.lowlevel.checkpoint()
            most = max(most, len(lately))
            got |= lately
            lately.clear()
        nursery.cancel_scope.cancel()
    assert 0 < most <= 2 * hub_module.TURN_EVERY  # one pass, or two
