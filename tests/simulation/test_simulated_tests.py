"""`simulation(...)`: a scenario as a test. The first one is such a test itself, collected by pytest."""

import inspect
import json
import warnings
from random import Random
from types import SimpleNamespace

import pytest
import trio

from agentrail.core.values.toolbox import ToolSpec
from agentrail.testing.seeded import NotRepeatable
from agentrail.testing.simulation import faults
from agentrail.testing.simulation.chatty_model import _call as chatty_call, chatty_model
from agentrail.testing.simulation.ledger import EffectLedger
from agentrail.testing.simulation.life import run
from agentrail.testing.simulation.log import LifeLog
from agentrail.testing.simulation.sim_files import replay
from agentrail.testing.simulation.simulated_tests import simulation
from agentrail.testing.simulation.world import World

LIVED: list[World] = []
"""Worlds of the tests below."""


def shop_of(world):
    shop = world.ledger("orders")
    world.profile("shop", model=chatty_model(), tools=[shop.tool("pay", effect_class="once")])
    world.people(2, profile="shop", pause=(1.0, 5.0))
    return shop


@simulation(nodes=2, store="postgres", hours=0.004, seeds=2)
async def test_orders(world: World) -> None:
    """The scenario of the specification: nothing is paid twice, whatever fails but the disk."""
    LIVED.append(world)
    await trio.lowlevel.checkpoint()
    shop = shop_of(world)
    world.faults(faults.EVERYTHING - faults.DAMAGE)

    @world.always
    def never_paid_twice() -> None:
        assert shop.each_once()


def test_a_test_lives_all_its_seeds():
    """It takes no argument, keeps its name and docstring, and returns nothing."""
    LIVED.clear()
    assert test_orders() is None
    assert [world.tape.seed for world in LIVED] == [0, 1]
    assert len(LIVED[0].nodes) == 2
    assert (test_orders.__name__, test_orders.__doc__[:12]) == ("test_orders", "The scenario")
    assert not [one for one in inspect.signature(test_orders).parameters.values() if one.default is one.empty]


@simulation(store="memory", hours=0.004, seeds=1)
def a_test_in_memory(world):
    """A kill would end sessions with their process."""
    LIVED.append(world)
    shop_of(world)
    world.faults([faults.KILL, faults.SLEEP], rate=4_000)


def test_no_fault_ends_a_process_in_whose_memory_sessions_are():
    """Whichever the scenario asks for. Other faults strike."""
    LIVED.clear()
    a_test_in_memory()
    (world,) = LIVED
    assert world.allowed_faults == (faults.SLEEP,)
    assert {line.facts.action for line in world.log.lines if line.kind == "fault"} == {"sleep"}


@simulation(hours=0.004, seeds=[7, 8], store="sqlite", max_lives=20)
def a_test_that_breaks(world):
    """Nobody may ask anything."""
    shop_of(world)
    assert world.disk(0) is not None

    @world.always
    def nobody_asks():
        said = "somebody asked"
        if any(line.kind == "person" for line in world.log.lines):
            raise AssertionError(said)


def test_a_broken_life_fails_the_test_with_its_story():
    """It is shrunk, and the last line plays it again. Nothing is written."""
    with pytest.raises(AssertionError) as caught:
        a_test_that_breaks()
    first, *_, last = str(caught.value).splitlines()
    assert first.startswith('seed 7 breaks "nobody_asks" (scenario=a_test_that_breaks, nodes=1; shrunk from')
    assert "← BROKEN: somebody asked" in str(caught.value)
    assert last == (
        f"play again: agentrail simulate --scenario {__name__}:a_test_that_breaks --seed 7 --nodes 1 --hours 0.004"
    )


def test_a_saved_life_names_the_test(tmp_path):
    """Its file finds the scenario, with its store, by the name of the test."""
    saving = simulation(hours=0.004, seeds=[7], store="sqlite", max_lives=0, save=tmp_path)
    with pytest.raises(AssertionError, match=r"test_seed_7\.py \(written\)"):
        saving(a_test_that_breaks)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotRepeatable)
        report = replay(tmp_path / "seed-7.sim")
    assert report.broken.said == "somebody asked"


@pytest.mark.parametrize(
    "options",
    [
        *({"nodes": 0}, {"nodes": 51}, {"hours": 0.0}, {"seeds": 0}, {"seeds": []}, {"store": "mysql"}),
        {"nodes": 2, "store": "sqlite"},
    ],
)
def test_wrong_options_are_refused_before_a_life(options):
    """At the decorator, with what is expected."""
    with pytest.raises(ValueError, match="expected"):
        simulation(**options)


def test_people_of_an_unknown_profile_are_refused():
    """All their calls would be, so that a misspelt scenario would hold."""

    def misspelt(world):
        shop_of(world)
        world.people(1, "shopp")

    with pytest.raises(LookupError, match="profile 'shopp' is unknown: expected one of shop"):
        run(misspelt, 1, hours=0.004)


def test_a_scenario_that_nothing_would_find_again_is_told_all_the_same(tmp_path):
    """The failure says why it was not saved."""

    def local(world):
        a_test_that_breaks(world)

    saving = simulation(hours=0.004, seeds=[7], store="sqlite", max_lives=0, save=tmp_path)
    with pytest.raises(AssertionError, match=r"BROKEN: somebody asked(.|\n)*not saved: scenario .*local"):
        saving(local)()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ({"type": "integer", "minimum": 5_000}, lambda value: value >= 5_000),
        ({"type": "integer", "maximum": -7}, lambda value: value <= -7),
        ({"type": "number", "minimum": 0.2, "maximum": 0.8}, lambda value: 0.2 <= value <= 0.8),
        ({"type": "string", "minLength": 20}, lambda value: len(value) >= 20),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, lambda value: value is None or value >= 0),
        ({"$ref": "#/$defs/Item"}, lambda value: isinstance(value["x"], bool)),
    ],
)
def test_a_chatty_model_calls_tools_of_the_usual_schemas(schema, fits):
    """A tool whose arguments never fit would never run, and every life of it would hold."""
    item = {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]}
    parameters = {"properties": {"a": schema}, "required": ["a"], "$defs": {"Item": item}}
    spec = ToolSpec(name="buy", description="Buy.", parameters={"type": "object", **parameters})
    random = Random(0)  # noqa: S311 - must be repeatable
    assert all(fits(json.loads(chatty_call(spec, random).arguments)["a"]) for _ in range(9))


@pytest.mark.parametrize(("effect_class", "holds"), [("once", False), ("reconcilable", True)])
def test_a_stalled_owner_may_repeat_an_effect_that_was_reconciled(effect_class, holds):
    """No lease excludes that. Under one owner it is repeated by a bug."""
    for epochs, expected in (((3, 4), holds), ((3, 3), False)):
        ledger = EffectLedger("bank", LifeLog())
        for epoch in epochs:
            called = SimpleNamespace(
                operation_id="o", call_id="c", attempt=1, arguments={}, fence=("s", epoch), session_id="s"
            )
            ledger.write(ledger.tool("pay", effect_class), called)
        assert ledger.each_once() is expected
