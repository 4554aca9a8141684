"""Section M of the conformance scenarios: what holds for every tree, whatever happens to it."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from property_tests.actors.driver import Leaf, Script, Step, Tree, play, scripts

restarting = st.lists(st.sampled_from([0.0, 0.3, 1.0, 2.5, 5.0, 7.0]), max_size=12)


@pytest.mark.scenario("S-214")
@given(script=scripts)
def test_no_orphan(script):
    """After any sequence of start, crash, stop, terminate, kill and cancellation nothing is left."""
    stage = play(script)  # checks tasks, descriptors and timers itself
    assert stage.alive_leaves() == []


@pytest.mark.scenario("S-215")
@given(script=scripts)
def test_one_instance_per_id(script):
    """Between two inits of one id there is always the end of the first."""
    alive = Counter()
    for line in play(script).trace:
        match line.split():
            case [_, "init", name]:
                alive[name] += 1
                assert alive[name] == 1, f"two instances of {name}"
            case [_, "gone", name]:
                alive[name] -= 1


@pytest.mark.scenario("S-216")
@given(script=scripts)
def test_every_monitor_fires_once(script):
    """One `Down` for each monitor, no more and no less."""
    stage = play(script)
    assert len(stage.downs) == stage.watched
    assert set(stage.downs.values()) <= {1}


@pytest.mark.scenario("S-218")
@given(
    intensity=st.integers(0, 3), waits=restarting, later=st.lists(st.sampled_from(["up", "fail"]), max_size=6)
)
def test_budget_holds(intensity, waits, later):
    """No window of the period contains more restarts than the intensity."""
    tree = Tree(
        "one_for_one",
        intensity,
        (Leaf("permanent", 5.0, None, tuple(later)), Leaf("transient", 5.0, None, ())),
    )
    steps = tuple(Step("crash", place, wait) for place, wait in enumerate(waits))
    trace = play(Script(tree, steps, "end of block")).trace
    starts = [float(line.split()[0]) for line in trace if line.split()[1:2] == ["init"]]
    restarts = starts[2:]  # the first two were the initial ones
    assert all(
        later_one - first > 5.0 for first, later_one in zip(restarts, restarts[intensity:], strict=False)
    )


@pytest.mark.scenario("S-219")
@given(script=scripts)
def test_reverse_order(script):
    """An ordered stop goes through the leaves in the reverse of their start order; who is killed unasked says nothing."""
    stage = play(script)
    if stage.order_before is not None:  # else it gave up before its end, or was killed
        asked = [name for name in reversed(stage.order_before) if name in set(stage.order_of_stop)]
        assert stage.order_of_stop == asked


@pytest.mark.scenario("S-220")
@given(script=scripts, schedule=st.integers(0, 1000))
def test_reproducible(script, schedule):
    """Two runs with the same seed give the same trace, byte for byte."""
    one, two = ("\n".join(play(script, schedule=schedule).trace).encode() for _ in range(2))
    assert one == two


def test_the_driver_reaches_restarts():
    """A check of the driver itself: a plain crash leads to a second instance, and the stop is seen."""
    tree = Tree("one_for_all", 3, (Leaf("permanent", 5.0, None, ()), Leaf("permanent", 5.0, None, ())))
    stage = play(Script(tree, (Step("crash", 0, 0.0),), "stop"))
    assert [len(lives) for lives in stage.instances.values()] == [2, 2]
    assert (
        stage.order_of_stop
        == [*reversed(stage.order_before)]
        == [*itertools.islice(reversed(stage.instances), 2)]
    )
