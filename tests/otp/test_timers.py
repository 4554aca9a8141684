"""The frozen map of timers, an `Index`: a plain dict is the model."""

from hypothesis import given, strategies as st

from agentrail.otp.timers import NO_TIMERS, Timer, TimerKey


def timer(epoch):
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
