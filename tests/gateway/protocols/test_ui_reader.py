"""One response as a stream: silence, readers that do not read, sessions that end, and what of ours fails in the middle."""

from contextlib import asynccontextmanager

import pytest
import trio

from agentrail.gateway import event_hub as hub_module
from agentrail.gateway.protocols.ai_ui_routes import WIRE
from agentrail.gateway.protocols.response_stream import ResponseReader
from agentrail.gateway.sse_frames import HEARTBEAT
from agentrail.protocols.ai_ui import NO_QUESTIONS
from agentrail.protocols.response_state import Bridged, Response
from agentrail.testing.models import ScriptedModel, says
from tests.gateway.protocols.ui_scenarios import parts_of
from tests.protocols.ui_client import UiClient
from tests.runtime.rig import on_virtual_time

pytestmark = on_virtual_time

SLOW = says("So", " it", " is.", pause_seconds=20)


def reader_of(subscription, ref=None, **given):
    """A reader of the response to a prompt."""
    return ResponseReader(subscription, WIRE, Bridged(Response(ref=ref), NO_QUESTIONS), **given)


@asynccontextmanager
async def reading(supervisor, *turns, buffer=4_096, **given):
    """A session that works on a prompt, and a reader of its response."""
    session = await supervisor.start_session(model=ScriptedModel(turns))
    async with session.subscribe(after=0, buffer=buffer) as events:
        receipt = await session.prompt("Hi")
        yield session, reader_of(events, receipt.ref, **given)


async def read_all(reader):
    with trio.fail_after(500):
        return b"".join([piece async for piece in reader]).decode()


def text_of(stream):
    client = UiClient()
    client.read(parts_of(stream))
    return client.told()


@pytest.mark.host("H-069", "H-115")
async def test_a_silent_response_gets_a_comment_every_fifteen_seconds(supervisor, hubs):
    """And is whole, with one end."""
    async with reading(supervisor, SLOW) as (_, reader):
        with hubs.watch_stream(reader), reader.scope:
            stream = await read_all(reader)
    assert text_of(stream) == [("text", "So it is.")]
    assert stream.count(HEARTBEAT.decode()) == 4
    assert reader.reason == "completed"
    assert hubs.statistics().readers == 0


@pytest.mark.host("H-068", "H-115")
async def test_all_responses_end_with_a_word_when_the_server_does(supervisor, hubs):
    """Those that are open, and those that are opened from then on."""
    async with reading(supervisor, SLOW) as (session, reader), trio.open_nursery() as nursery:
        streams = []

        async def read(one):
            with hubs.watch_stream(one), one.scope:
                streams.append(await read_all(one))

        nursery.start_soon(read, reader)
        await trio.sleep(25)
        await hubs.close("shutdown")
        async with session.subscribe(after=0) as events:
            await read(reader_of(events))
    lasts = [parts_of(stream)[-1] for stream in streams]
    assert [last["type"] for last in lasts] == ["error", "error"]
    assert "the server is going down" in lasts[0]["errorText"]
    for stream in streams:
        text_of(stream)


@pytest.mark.host("H-071", "H-115")
async def test_a_reader_that_does_not_read_is_cut(supervisor, hubs):
    """Its stream is over, and its write does not get through: cut within seconds; publishing waited for nobody."""
    cuts = []
    async with reading(supervisor, says("a")) as (_, reader):
        reader.on_cut = lambda: cuts.append(trio.current_time())
        with hubs.watch_stream(reader), reader.scope:
            async for _ in reader:
                pass
            ended_at = trio.current_time()
            await trio.sleep_forever()
    assert reader.scope.cancelled_caught
    assert cuts
    assert cuts[0] - ended_at <= hub_module.WRITE_GRACE_SECONDS + 2 * hub_module.CHECK_SECONDS


@pytest.mark.host("H-071", "H-115")
async def test_a_reader_that_fell_behind_is_told_and_has_every_word_that_it_was_given(supervisor):
    """Deltas are left out first: what it has is made whole. Where even the rest finds no room, the response says so."""
    many = says(*"abcdefghij", pause_seconds=1)
    async with reading(supervisor, many, buffer=12) as (_, reader):
        await trio.sleep(60)  # reads nothing while it is said
        assert text_of(await read_all(reader)) == [("text", "abcdefghij")]
    async with reading(supervisor, many, buffer=2) as (_, reader):
        await trio.sleep(60)
        last = parts_of(await read_all(reader))[-1]
        assert (last["type"], reader.reason) == ("error", "completed")
        assert "too slowly" in last["errorText"]


@pytest.mark.host("H-061", "H-115")
async def test_a_session_that_ends_without_a_word_ends_the_response(supervisor):
    """Nothing more comes of it."""
    async with reading(supervisor, says("a")) as (session, _):
        await session.stop()
        async with session.subscribe(after=0) as events:
            stream = await read_all(reader_of(events, "p-none"))
    assert parts_of(stream) == [{"type": "error", "errorText": "the session has ended"}]
