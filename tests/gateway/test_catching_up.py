"""What was published before a client came, over a socket: in frames of many events for who asks for them, each once, and never too fast."""

import json

import pytest
import trio
from attrs import evolve

from agentrail.events import Envelope, MaxTurnsReached
from agentrail.gateway import socket_connection
from agentrail.gateway.socket_connection import MAX_REPLAY_BYTES, ReplaySocket, send_past
from agentrail.gateway.socket_frames import Subscribe, socket_event_frame
from agentrail.messages import SessionId
from agentrail.runtime.event_bus import EventBus
from agentrail.runtime.event_subscription import decide_terms
from tests.gateway.callers import CALLERS, auth
from tests.gateway.socket_client import socket_of
from tests.gateway.web import serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time, on_virtual_time
from tests.wire.test_forms import SNAPSHOT

MAIN = SessionId("main")


async def numbers(client, last):
    """The numbers of all events up to one, and the frames that they came in."""
    seqs, frames = [], []
    while not seqs or seqs[-1] < last:
        frame = await client.next()
        if frame["type"] in {"event", "events"}:
            events = frame["events"] if frame["type"] == "events" else [frame["event"]]
            seqs += [event["seq"] for event in events if not event.get("ephemeral")]
            frames.append(frame["type"])
    return seqs, frames


@pytest.mark.c(3)
@on_bounded_time
async def test_the_past_comes_in_one_frame_for_who_asks_and_event_by_event_for_others():
    """The same events, in the same order, each once; behind it what is live comes as it always did."""
    async with serving(answering(*("Hello",) * 9), auth=auth) as web:
        session = await web.host.create(CALLERS["ann"], session_id="main")
        for _ in range(3):
            await session.ask("Hi")
        last = (await session.snapshot()).last_seq
        async with socket_of(web, by="ann") as old, socket_of(web, by="ann") as new:
            await new.send(type="hello", replay_frames=True)
            assert (await new.next())["type"] == "welcome"
            for client in (old, new):
                await client.send(type="subscribe", id="s", session_id="main", after=2)
                assert (await client.next())["type"] == "subscribed"
            assert (await numbers(old, last))[0] == list(range(3, last + 1))
            assert await numbers(new, last) == (list(range(3, last + 1)), ["events"])
            await new.send(type="prompt", id="p", session_id="main", message="Hi")
            kinds = set()
            while "agent_end" not in kinds:
                kinds.add((await new.until("event"))["event"]["kind"])
            await new.send(type="unsubscribe", id="u", session_id="main")
            await new.until("reply", id="u")
            await new.send(type="subscribe", id="t", session_id="main")
            told = await new.until("subscribed", id="t")
            assert {"title", "agent_id", "children", "first_seq", "live", "context", "effects"} <= set(
                told["snapshot"]
            )
            assert (told["snapshot"]["agent_id"], told["snapshot"]["live"]) == ("desk", None)


def event(seq):
    """A committed event."""
    return MaxTurnsReached(turns=seq, meta=Envelope(MAIN, seq, 1, (MAIN,)))


class Told:
    """A socket that writes down what it is given, and is open or closes."""

    def __init__(self, *, is_open=True):
        self.frames, self.seqs, self._is_open = [], [], is_open

    async def send(self, _session_id, seq, frame):
        """Take a frame."""
        await trio.lowlevel.checkpoint()
        self.frames.append(json.loads(frame))
        self.seqs.append(seq)
        return self._is_open

    @property
    def socket(self):
        """As `send_past` is given one."""
        return ReplaySocket(frame_of=socket_event_frame, send=self.send)

    @property
    def numbers(self):
        """Of all events that came in frames of many."""
        return [one["seq"] for frame in self.frames if frame["type"] == "events" for one in frame["events"]]


def no_snapshot():
    """A session that nothing is known of."""
    raise AssertionError


def filled(count, *, keep):
    """A bus with so many events."""
    bus = EventBus(Envelope(MAIN, 0, 1, (MAIN,)), keep=keep)
    for seq in range(1, count + 1):
        bus.publish(event(seq))
    return bus


def subscribed(bus, after, *, buffer=8, snapshot=no_snapshot):
    """A subscription of it, with little room for what is live."""
    terms = decide_terms(kinds=None, deltas=True, buffer=buffer)
    return bus.subscribe(terms, after=after, take_snapshot=lambda: snapshot)


@on_virtual_time
async def test_a_frame_is_bounded_and_the_next_is_made_when_it_has_gone_out(monkeypatch):
    """No frame is larger than the bound; each says to which number it goes. A socket that closes is given nothing more."""
    monkeypatch.setattr(socket_connection, "MAX_REPLAY_BYTES", 1_000)
    asked = Subscribe(id=1, session_id="main", after=0)
    bus, told = filled(100, keep=1_000), Told()
    async with subscribed(bus, 0) as events:
        assert await send_past(told.socket, asked, events, agent_id=None) is None
    assert told.numbers == list(range(1, 101))
    assert len(told.frames) > 5
    assert [frame["events"][-1]["seq"] for frame in told.frames] == told.seqs
    assert all(len(json.dumps(frame)) < 1_400 for frame in told.frames)
    assert MAX_REPLAY_BYTES == 256 << 10
    closes = Told(is_open=False)
    async with subscribed(bus, 0) as events:
        await send_past(closes.socket, asked, events, agent_id=None)
    assert len(closes.frames) == 1


@pytest.mark.c(6)
@on_virtual_time
async def test_what_is_lost_is_said_and_the_snapshot_follows():
    """One line and the snapshot, from whose number the client goes on."""
    bus, told = filled(50, keep=10), Told()
    async with subscribed(bus, 5, snapshot=lambda: evolve(SNAPSHOT, last_seq=50)) as events:
        await send_past(told.socket, Subscribe(id=1, session_id="main", after=5), events, agent_id="desk")
    lost, begin = told.frames
    wanted = {"kind": "events_lost", "from_seq": 6, "to_seq": 50}
    assert wanted.items() <= lost["event"].items()
    assert (begin["type"], begin["seq"], begin["snapshot"]["agent_id"]) == ("subscribed", 50, "desk")
    assert told.seqs == [None, 50]
