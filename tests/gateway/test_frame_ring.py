"""Frames that many readers share by position: the last ones are kept, in order, within a bound."""

import pytest
from hypothesis import given, settings, strategies as st

from agentrail.events import SessionRecovered
from agentrail.gateway import frame_ring
from agentrail.gateway.frame_ring import FrameMemory, FrameRing, RingFrame


def frame(size):
    """A frame of so many bytes."""
    return RingFrame(b"x" * size, size)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 40),
    st.lists(st.one_of(st.tuples(st.just("append"), st.integers(0, 30)), st.tuples(st.just("drop"), st.integers(0, 40)))),
)  # fmt: skip
def test_a_ring_is_the_end_of_a_list(most, most_bytes, steps):
    """Against a plain list: the same frames at the same positions, and never more than it may hold, but for the last one."""
    ring, all_of_them, first = FrameRing(max_frames=most, max_bytes=most_bytes), [], 0
    for kind, number in steps:
        if kind == "append":
            all_of_them.append(frame(number))
            ring.append(all_of_them[-1])
            first = max(first, len(all_of_them) - most)
            while (
                sum(len(one.data) for one in all_of_them[first:]) > most_bytes
                and len(all_of_them) - first > 1
            ):
                first += 1
        else:
            ring.drop_before(number)
            first = max(first, min(number, len(all_of_them)))
        assert (ring.first, ring.end) == (first, len(all_of_them))
        assert [ring.at(place) for place in range(ring.first, ring.end)] == all_of_them[first:]
        assert ring.size_bytes == sum(len(one.data) for one in all_of_them[first:])


def test_a_frame_is_found_by_its_very_event():
    """Not by an equal one: events are equal when all but their number is, and another number would be sent."""
    memory, event, equal = FrameMemory(), SessionRecovered(decisions=()), SessionRecovered(decisions=())
    assert event == equal
    memory.keep(event, b"frame")
    assert (memory.find(event), memory.find(equal)) == (b"frame", None)
    memory.age()
    assert memory.find(event) == b"frame"
    memory.age()
    assert memory.find(event) is None


@pytest.mark.parametrize(("most", "bytes_"), [(3, 1 << 20), (1 << 20, 3)])
def test_what_is_remembered_is_bounded(monkeypatch, most, bytes_):
    """In number and in bytes, each in two generations."""
    monkeypatch.setattr(frame_ring, "MAX_RING_FRAMES", most)
    monkeypatch.setattr(frame_ring, "MAX_RING_BYTES", bytes_)
    memory = FrameMemory()
    for _ in range(50):
        memory.keep(SessionRecovered(decisions=()), b"x")
        assert len(memory) <= 6
