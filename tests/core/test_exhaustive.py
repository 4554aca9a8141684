"""Bounded worlds are walked until they are closed, and the abstraction by which states are told apart is checked."""

import pytest
from attrs import evolve

from agentrail.core.protocol import signals as s
from agentrail.testing.exhaustive import Explorer, NotAnAbstraction
from tests.core.bounded_worlds import WORLDS
from tests.thinned import nightly

SMALL = "a crash"
"""The world with the fewest classes."""
FEW = (SMALL,)
"""Worlds that are walked in every change. Together the others take about two minutes of one core."""


@pytest.mark.simulation(32)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FEW else nightly) for name in WORLDS]
)
def test_a_bounded_world_is_closed_and_keeps_every_promise(name):
    """Each class is left by every signal, each step keeps the promises, and no two states of one key differ."""
    found = Explorer(is_strict=True).explore(WORLDS[name])
    assert found.is_closed
    assert str(found).startswith(f"closed at {found.classes} classes: ")
    assert (found.splits, found.looks) == (0, 1)
    assert found.met > found.classes > 200


def forgetting(name, field):
    """A bounded world whose abstraction forgets one field more."""
    world = WORLDS[name]
    forgets = world.abstraction.forgets | {field}
    return evolve(world, abstraction=evolve(world.abstraction, forgets=forgets))


@pytest.mark.simulation(32)
@pytest.mark.parametrize("field", ["teardown", "cycle", "stream"])
def test_a_field_that_the_abstraction_forgets_is_noticed(field):
    """A strict walk fails, and names the signal that is answered differently."""
    explorer = Explorer(is_strict=True, promises=())
    with pytest.raises(NotAnAbstraction, match="differently after"):
        explorer.explore(forgetting(SMALL, field))


@pytest.mark.simulation(32)
def test_a_key_is_split_where_its_states_differ():
    """Without the field the same behaviours are found, by keys that are split until nothing more differs."""
    explorer = Explorer(promises=())
    few = {name: WORLDS[SMALL].calls[name] for name in ("prompt", "abort")}
    whole, split = (
        explorer.explore(evolve(world, calls=few)) for world in (WORLDS[SMALL], forgetting(SMALL, "teardown"))
    )
    assert split.is_closed
    assert split.splits > 0
    assert split.looks > 1
    assert split.classes <= whole.classes


@pytest.mark.simulation(32)
def test_an_unfinished_walk_says_so():
    """Its depth is that of the shortest path that was not walked."""
    found = Explorer(promises=(), max_steps=500).explore(WORLDS[SMALL])
    assert not found.is_closed
    assert str(found).startswith(f"open at depth {found.depth}: ")


@pytest.mark.simulation(32)
def test_a_broken_promise_is_told_with_the_signals_before_it():
    """The walk ends at the first one. Its note has the shortest way there."""

    def nobody_aborts(seen):
        assert not isinstance(seen.signal, s.AbortCycle), "an abort"

    with pytest.raises(AssertionError, match="an abort") as caught:
        Explorer(promises=(nobody_aborts,)).explore(WORLDS[SMALL])
    (note,) = caught.value.__notes__
    assert note.startswith("after ")
    assert note.endswith("AbortCycle")
    assert "," not in note
