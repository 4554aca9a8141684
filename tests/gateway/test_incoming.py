"""Bodies are bounded while they come: in size, in time, and all together."""

import pytest
import trio

from agentrail.gateway.answers import CallRefused
from agentrail.gateway.reading import BodyReader, CallerLeft, judge_headers, wait_left
from tests.runtime.rig import on_virtual_time

LEFT = {"type": "http.disconnect"}


def piece(body, *, more=True):
    """A part of a body."""
    return {"type": "http.request", "body": body, "more_body": more}


def coming(*messages, every=0.0):
    """A connection on which these come, one after so many seconds; then nothing."""
    waiting = list(messages)

    async def receive():
        await trio.sleep(every)
        if not waiting:
            await trio.sleep_forever()
        return waiting.pop(0)

    receive.waiting = waiting
    return receive


async def refused(reader, receive, *, max_bytes=100, headers=None):
    """Status and code of what a body is refused with."""
    with pytest.raises(CallRefused) as caught:
        await reader.read(receive, headers or {}, max_bytes)
    assert reader.held_bytes == 0
    return caught.value.answer.status, caught.value.answer.code


@on_virtual_time
async def test_a_body_is_read_to_its_end_and_no_further():
    """In whatever pieces it comes; exactly as many bytes as are allowed may come."""
    receive = coming(piece(b"ab"), piece(b""), piece(b"c"), piece(b"d", more=False), LEFT)
    reader = BodyReader()
    assert await reader.read(receive, {}, 4) == b"abcd"
    assert receive.waiting == [LEFT]
    assert reader.held_bytes == 0
    assert await reader.read(coming({"type": "http.request"}), {}, 0) == b""


@on_virtual_time
async def test_a_body_that_says_that_it_is_too_large_is_not_read():
    """Whatever number that is; nor is one whose length is no number."""
    too_large, no_number = (413, "too_large"), (400, "bad_json")
    lengths = {
        "101": too_large,
        "9" * 19: too_large,
        "9" * 4_300: no_number,
        "-1": no_number,
        "1, 1": no_number,
    }
    for length, verdict in lengths.items():
        receive = coming(piece(b"x", more=False))
        assert await refused(BodyReader(), receive, headers={"content-length": length}) == verdict
        assert len(receive.waiting) == 1
    assert await BodyReader().read(coming(piece(b"x", more=False)), {"content-length": "100"}, 100) == b"x"


@on_virtual_time
async def test_a_body_that_grows_too_large_is_refused_as_soon_as_it_does():
    """Whatever it had said; the rest is not waited for."""
    receive = coming(piece(b"x" * 60), piece(b"x" * 41), piece(b"x"))
    assert await refused(BodyReader(), receive, headers={"content-length": "5"}) == (413, "too_large")
    assert len(receive.waiting) == 1


@on_virtual_time
async def test_a_body_that_does_not_come_is_not_waited_for():
    """30 s, and a second more for each 4 KiB that has come."""
    began = trio.current_time()
    assert await refused(BodyReader(), coming(piece(b"x"))) == (408, "too_slow")
    assert trio.current_time() - began == pytest.approx(30, abs=0.01)
    began = trio.current_time()
    steady = coming(*[piece(b"x" * 8_192)] * 99, piece(b"", more=False), every=1.0)
    assert len(await BodyReader().read(steady, {}, 1 << 20)) == 99 * 8_192
    assert trio.current_time() - began == 100


@on_virtual_time
async def test_one_byte_at_a_time_is_too_slow():
    """However many come: each is a message, and none brings time."""
    began = trio.current_time()
    assert await refused(BodyReader(), coming(*[piece(b"x")] * 90, every=1.0)) == (408, "too_slow")
    assert 29 < trio.current_time() - began < 31


@on_virtual_time
async def test_who_leaves_in_the_middle_is_not_answered():
    """What had come is forgotten."""
    reader = BodyReader()
    with pytest.raises(CallerLeft):
        await reader.read(coming(piece(b"x"), LEFT), {}, 100)
    assert reader.held_bytes == 0


@on_virtual_time
async def test_all_bodies_together_are_bounded():
    """One that finds no room is refused, and leaves that of the others alone."""
    reader = BodyReader(max_bytes_at_once=150)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.read, coming(piece(b"x" * 100), LEFT, every=5.0), {}, 100)
        await trio.sleep(6)
        assert reader.held_bytes == 100
        with pytest.raises(CallRefused) as caught:
            await reader.read(coming(piece(b"x" * 50), piece(b"x")), {}, 100)
        assert (caught.value.answer.status, caught.value.answer.code) == (503, "server_full")
        assert reader.held_bytes == 100
        assert await reader.read(coming(piece(b"x" * 50, more=False)), {}, 100) == b"x" * 50
        nursery.cancel_scope.cancel()
    assert reader.held_bytes == 0


@on_virtual_time
async def test_that_a_caller_leaves_is_noticed():
    """Whatever else comes before that."""
    receive = coming(piece(b"", more=False), LEFT, every=3.0)
    await wait_left(receive)
    assert trio.current_time() == 6


@pytest.mark.parametrize(
    ("headers", "good"),
    [
        ([], True),
        ([(b"a", b"b")] * 100, True),
        ([(b"a", b"b")] * 101, False),
        ([(b"a", b"b" * ((32 << 10) - 1))], True),
        ([(b"a", b"b" * (32 << 10))], False),
    ],
)
def test_headers_are_bounded_in_number_and_in_size(headers, good):
    """Before any of them is looked at."""
    answer = judge_headers({"headers": headers})
    assert answer is None if good else (answer.status, answer.code) == (431, "headers_too_large")
