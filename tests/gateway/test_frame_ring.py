"""Frames that many readers share by position: the last ones are kept, in order, within a bound."""

from hypothesis import given, settings, strategies as st

from agentrail.gateway.frame_ring import FrameRing, RingFrame


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
