"""Values that grow at their end: every version stays what it was, whoever grows from it."""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.history import GrowingSet, Log

# A tree of versions: each number picks the version that the next item is added to.
branches = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=30)


@given(branches=branches)
def test_every_version_stays_what_it_was(branches):
    """Whatever version one adds to, it and all others hold what a plain tuple, or a plain set, in its place would hold."""
    versions: list[tuple[Log[int], tuple[int, ...]]] = [(Log(), ())]
    sets: list[GrowingSet[int]] = [GrowingSet()]
    for place, item in branches:
        log, model = versions[place % len(versions)]
        sets.append(sets[place % len(sets)].added(item))
        versions.append((log.appended(item), (*model, item)))
    for (log, model), grown in zip(versions, sets, strict=True):
        assert tuple(log) == log[:] == model
        assert len(log) == len(model)
        assert log == Log(model)
        assert {item for item in range(6) if item in grown} == set(model)
        assert len(grown) == len(set(model))


@given(branches=branches)
def test_what_a_log_grew_from_is_its_beginning(branches):
    """Told at once of a version and the one it was made from; never told of versions where it is not so."""
    versions: list[Log[int]] = [Log()]
    for place, item in branches:
        versions.append(versions[place % len(versions)].appended(item))
    for longer in versions:
        assert longer.grew_from(longer)
        for shorter in versions:
            if longer.grew_from(shorter):
                assert longer[: len(shorter)] == shorter[:]
    newest = Log([1])
    for item in range(5):
        older, newest = newest, newest.appended(item)
        assert newest.grew_from(older)
        assert not older.grew_from(newest)
        assert not Log(newest).grew_from(older)


def test_logs_and_sets_are_values():
    """Indexes count from both ends; equal ones have equal hashes, so they may be parts of a state that is compared and kept in a set."""
    log = Log("abc")
    log.appended("d")
    assert (log[0], log[-1], log[1:], log[::-1]) == ("a", "c", ("b", "c"), ("c", "b", "a"))
    assert "d" not in log
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"index {index} is outside of a log of 3"):
            log[index]

    assert hash(Log([1])) == hash(Log([2])) or Log([1]) != Log([2])
    assert hash(Log("ab")) == hash(Log("a").appended("b"))
    assert Log([1]) != [1]
    one, other = GrowingSet().added("a").added("b"), GrowingSet().added("a").added("b")
    assert one == other
    assert hash(one) == hash(other)
    assert one != GrowingSet().added("b").added("a")
    assert one != {"a", "b"}
    assert one.added("a") is one
