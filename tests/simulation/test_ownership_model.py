"""The model of ownership: its promises hold within its bounds, each rule is needed, and real lives are behaviours of it."""

import functools

import pytest
import trio
from attrs import evolve

from agentrail.messages import ToolMessage
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.simulation.life import run
from agentrail.testing.simulation.ownership_log import first_strange_line, ownership_lines, strange_lines
from agentrail.testing.simulation.ownership_model import (
    OWNERSHIP_RULES,
    OwnershipTransition,
    StateBounds,
    search,
)
from agentrail.testing.simulation.world import World
from tests.thinned import each, nightly


@pytest.mark.simulation(33)
def test_no_behaviour_within_the_bounds_breaks_a_promise():
    """Two nodes, three records, two pauses: fences hold, effects begin once, and what is acknowledged is durable."""
    found = search()
    assert (found.promise, found.story) == ("", ())
    assert found.states > 5_000


@nightly
@pytest.mark.simulation(33)
def test_no_lost_heartbeat_breaks_a_promise():
    """The same holds if heartbeats of a running node fail for two leases."""
    assert search(bounds=StateBounds(lost_beats=2)).promise == ""


@pytest.mark.simulation(13, 33)
def test_without_the_newest_epoch_an_old_owner_acts():
    """The first counter-example is known: an owner stands still, repeats its append after another took over, and begins the effect."""
    found = search(OWNERSHIP_RULES - {"newest epoch"})
    assert found.promise == "fences"
    assert [str(line) for line in found.story] == [
        "append node-0 record 1: stored",
        "stop node-0",
        "lapse node-0",
        "take node-1",
        "continue node-0",
        "beat node-0",
        "append node-0 record 1: already there",
        "outbox node-0",
        "effect node-0 of record 1",
    ]


@each(
    ("rule", "promise", "last"),
    [
        ("beats revive nothing", "fences", "effect node-0 of record 1"),
        ("claims end", "fences", "effect node-0 of record 1"),
        ("claims release nothing", "fences", "effect node-0 of record 1"),
        ("lease", "fences", "effect node-0 of record 1"),
        ("trust", "fences", "effect node-0 of record 1"),
        ("durable", "acknowledged is durable", "outbox node-0"),
        ("not run again", "at most once", "effect node-1 of record 1"),
    ],
)
@pytest.mark.simulation(33)
def test_each_rule_is_needed(rule, promise, last):
    """Without it a promise is broken within the same bounds."""
    found = search(OWNERSHIP_RULES - {rule})
    assert (found.promise, str(found.story[-1])) == (promise, last)


_MOVED = (
    OwnershipTransition("create", "a", epoch=1, last=1),
    OwnershipTransition("append", "a", epoch=1, first=2, last=3, answer="ok"),
    OwnershipTransition("effect", "a", first=3, effect="t1"),
    OwnershipTransition("stop", "a"),
    OwnershipTransition("take", "b", epoch=2, last=4),
    OwnershipTransition("append", "b", epoch=2, first=5, last=5, answer="ok"),
    OwnershipTransition("continue", "a"),
    OwnershipTransition("append", "a", epoch=1, first=2, last=3, answer="fenced"),
    OwnershipTransition("effect", "b", first=5, effect="t2"),
)


@pytest.mark.simulation(33)
def test_a_log_is_followed_to_its_end():
    """Silent transitions are inserted: the answer that arrives, and the lease that passes."""
    assert first_strange_line(_MOVED) is None
    assert first_strange_line(_MOVED, OWNERSHIP_RULES - {"newest epoch"}) == 7


@each(
    ("index", "changed"),
    [
        (1, {"first": 3}),
        (1, {"answer": "fenced"}),
        (2, {"first": 4}),
        (2, {"node": "b"}),
        (4, {"epoch": 3}),
        (4, {"last": 5}),
        (5, {"epoch": 1}),
        (6, {"name": "stop"}),
        (7, {"answer": "ok"}),
        (8, {"node": "a", "first": 3, "effect": "t2"}),
        (8, {"effect": "t1"}),
    ],
)
@pytest.mark.simulation(33)
def test_a_log_with_one_line_changed_is_no_behaviour(index, changed):
    """The changed line, or the next one that depends on it, is the first that the model cannot make."""
    lines = [*_MOVED]
    lines[index] = evolve(lines[index], **changed)
    found = first_strange_line(lines)
    assert found is not None
    assert found >= index


# --- real lives


def interrupted(world: World) -> None:
    """People on two nodes, whose first node stands still for two leases while tools run."""
    shop = world.ledger("shop")
    turns = {False: lambda: calls(("pay", {"amount": 1})), True: lambda: says("Paid.")}
    model = FunctionModel(lambda request: turns[isinstance(request.messages[-1], ToolMessage)]())
    world.profile("shop", model=model, tools=[shop.tool("pay", seconds=2.0)])
    world.people(3, "shop", pause=(0.5, 2.0))

    async def interrupt() -> None:
        for index in (0, 1):
            await trio.sleep(20)
            world.stop(index, 35)
            await trio.sleep(40)

    world.inhabit("operator", interrupt)


@functools.cache
def life(seed: int):
    return run(interrupted, seed, nodes=2, hours=0.04).log.lines


@pytest.mark.simulation(33)
def test_a_life_is_a_behaviour_of_the_model():
    """Sessions change their owner, old owners are fenced, and every line is one that the model can make."""
    names = {one.transition.name for one in ownership_lines(life(8))}
    assert {"create", "append", "take", "beat", "effect", "stop", "continue"} <= names
    assert strange_lines(life(8)) == {}


@each(
    ("name", "change"),
    [
        ("append", lambda line: evolve(line, answer="fenced" if line.answer == "ok" else "ok")),
        ("append", lambda line: evolve(line, epoch=line.epoch + 1)),
        ("append", lambda line: evolve(line, last=line.last + 1)),
        ("take", lambda line: evolve(line, epoch=line.epoch + 1)),
        ("take", lambda line: evolve(line, last=line.last + 1)),
        ("effect", lambda line: evolve(line, first=line.first + 1000)),
        ("effect", lambda line: evolve(line, node="node-9/0")),
    ],
)
@pytest.mark.simulation(33)
def test_a_life_with_one_line_changed_is_no_behaviour(name, change):
    """Whichever line of this kind is changed, the model cannot make the log any more."""
    lines = tuple(ownership_lines(life(8)))
    changed = 0
    for session in dict.fromkeys(one.session for one in lines if one.session):
        own = [one.transition for one in lines if one.session in ("", session)]
        for index in [index for index, line in enumerate(own) if line.name == name][:5]:
            assert first_strange_line([*own[:index], change(own[index]), *own[index + 1 :]]) is not None
            changed += 1
    assert changed > 0
