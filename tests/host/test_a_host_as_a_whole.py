"""A host as a whole: what its answers say of the model, whether it is ready, and how it is closed."""

import pytest
import trio
from attrs import evolve

from agentrail.abc import Capabilities
from agentrail.errors import HostDraining
from agentrail.host.readiness import Readiness
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, says
from tests.host.hosting import answering, asked, hosting, profile
from tests.host.rig import hang, shielded
from tests.runtime.rig import on_virtual_time


class OfNoKnownWindow(ScriptedModel):
    def capabilities(self, model: str) -> Capabilities:
        return evolve(super().capabilities(model), context_window=None)


@on_virtual_time
@pytest.mark.parametrize(
    ("said", "model", "told"),
    [
        (9_000, ScriptedModel([says("a")]), 9_000),
        (None, ScriptedModel([says("a")]), 128_000),
        (None, OfNoKnownWindow([says("a")]), None),
    ],
    ids=["of the profile", "of the model", "of neither"],
)
async def test_the_window_is_the_profiles_else_the_models(said, model, told):
    """And no guess: what is known of neither is not said. The same behind a restart, for one who sends it again."""
    desk, store = evolve(profile(model), context_window=said), MemoryStore()
    async with hosting(None, profiles=[desk], store=store) as host:
        request = await asked(host, client_id="order-5")
        await request.outcome()
        assert (request.record.context_window, request.record.last_usage.input > 0) == (told, True)
    async with hosting(None, profiles=[desk], store=store) as host:
        again = await asked(host, client_id="order-5")
        await again.outcome()
        assert (again.is_repeat, again.record.context_window) == (True, told)


@on_virtual_time
async def test_who_asks_meanwhile_is_given_the_same_answer():
    """A check runs once for all callers, also when the first one left. A check that hangs delays no other and never runs twice."""
    runs = []

    async def check():
        runs.append(trio.current_time())
        await trio.sleep(1)

    async with hosting(answering(), readiness_checks={"mail": check}) as host:
        told = []

        async def ask():
            told.append(await host.ready())

        with trio.move_on_after(0.5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(host.ready)
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
        assert len(runs) == 1
        assert all(one is told[0] or one == told[0] for one in told)
        assert {one.name: one.duration_ms for one in told[0]}["mail"] == 1_000
        assert [one.name for one in await host.ready()] == ["supervisor", "plugins", "mail"]
        assert len(runs) == 2

    runs = []

    async def check():
        runs.append(trio.current_time())
        await shielded(30)()

    async with hosting(answering(), readiness_checks={"held": check}) as host:
        for _ in range(3):
            began = trio.current_time()
            assert {one.name: one.error for one in await host.ready()}["held"] == "timeout"
            assert trio.current_time() - began <= 2.5
        assert len(runs) == 1
        await trio.sleep(30)
        await host.ready()
        assert len(runs) == 2


@on_virtual_time
async def test_of_a_closed_host_it_is_said_that_it_is_closed():
    """Who waits is told when it closes, in whatever way it goes down; nothing is run any more."""
    told, checks = [], {"mail": hang}

    async def ask(look):
        with pytest.raises(HostDraining):
            await look()
        told.append("closed")

    async with (
        trio.open_nursery() as nursery,
        hosting(answering(), readiness_checks=checks, check_timeout=60.0) as host,
    ):
        nursery.start_soon(ask, host.ready)
        await trio.sleep(1)
    assert told == ["closed"]
    with pytest.raises(HostDraining):
        await host.ready()

    async with trio.open_nursery() as callers, trio.open_nursery() as nursery:
        readiness = Readiness(lambda: checks, 60.0, nursery)
        callers.start_soon(ask, readiness.look)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert told == ["closed"] * 2
