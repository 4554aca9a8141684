"""The frozen map of timers, an `Index`: a plain dict is the model."""

import pytest
from hypothesis import given, strategies as st

from agentrail.otp.timers import EVENT_TIMER, NO_TIMERS, Timer, TimerKey


class Clash:
    """A name whose hash is that of all its like."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return isinstance(other, Clash) and self.number == other.number


def timer(epoch):
    """Any timer with this epoch."""
    return Timer(epoch, 1.0, None)


def test_change_leaves_older_versions_alone():
    """Each `put` and `drop` gives a new map; those before still have what they had."""
    versions = [NO_TIMERS]
    for number in range(3_000):
        versions.append(versions[-1].put(TimerKey("named", number), timer(number)))
    for number in range(3_000):
        versions.append(versions[-1].drop(TimerKey("named", number)))
    for number, version in enumerate(versions[:3_000:271]):
        assert {key.name for key, _ in version.items()} == set(range(number * 271))
    assert [version.count for version in versions] == [*range(3_000), *range(3_000, -1, -1)]


def test_empty_again_is_the_empty_one():
    """What was filled and emptied leaves no residue: it is `NO_TIMERS` itself."""
    timers = NO_TIMERS
    for number in range(1_000):
        timers = timers.put(TimerKey("named", number), timer(number))
    for number in range(1_000):
        timers = timers.drop(TimerKey("named", number))
    assert timers is NO_TIMERS


def test_tree_shrinks_as_it_grew():
    """After ten thousand timers and back to one, the map is a single small leaf again."""
    timers = NO_TIMERS.put(EVENT_TIMER, timer(0))
    for number in range(10_000):
        timers = timers.put(TimerKey("named", number), timer(number))
    assert isinstance(timers._root, tuple)  # noqa: SLF001 - residue is what cannot be seen from outside
    for number in range(10_000):
        timers = timers.drop(TimerKey("named", number))
    assert timers._root == {EVENT_TIMER: timer(0)}  # noqa: SLF001 - as above


def test_names_with_one_hash_are_kept_apart():
    """Names that all have the same hash are found, replaced and dropped like others."""
    timers = NO_TIMERS
    for number in range(100):
        timers = timers.put(TimerKey("named", Clash(number)), timer(number))
    timers = timers.put(TimerKey("named", Clash(5)), timer(500)).drop(TimerKey("named", Clash(6)))
    assert timers.count == 99
    assert timers.get(TimerKey("named", Clash(5))) == timer(500)
    assert timers.get(TimerKey("named", Clash(6))) is None
    assert timers.get(TimerKey("named", Clash(99))) == timer(99)


def test_equality_is_that_of_the_contents():
    """Maps with the same entries are equal however they came about, and equal to nothing else; none is hashable."""
    one = NO_TIMERS.put(EVENT_TIMER, timer(1))
    grown = one
    for number in range(100):
        grown = grown.put(TimerKey("named", number), timer(number))
    shrunk = grown
    for number in range(100):
        shrunk = shrunk.drop(TimerKey("named", number))
    assert shrunk == one
    assert grown != one
    assert one.put(EVENT_TIMER, timer(2)) != one
    assert one != {EVENT_TIMER: timer(1)}
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    assert repr(one) == f"Index({dict(one.items())!r})"


names = st.integers(-5, 60) | st.text(max_size=2)


@given(script=st.lists(st.tuples(st.booleans(), names), max_size=200))
def test_map_does_what_a_dict_does(script):
    """After any sequence of changes the map has the entries of a dict that went through the same."""
    model = {}
    timers = NO_TIMERS
    for epoch, (puts, name) in enumerate(script):
        key = TimerKey("named", name)
        if puts:
            model[key] = timer(epoch)
            timers = timers.put(key, timer(epoch))
        elif key in model:
            del model[key]
            timers = timers.drop(key)
        assert timers.get(key) == model.get(key)
        assert timers.count == len(model)
    assert dict(timers.items()) == model
