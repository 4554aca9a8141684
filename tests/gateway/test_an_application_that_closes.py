"""An application that is told to stop: one budget for its drain and its close, whatever hangs, and what is owed in it."""

import trio

from agentrail.abc.store import Filters
from agentrail.gateway.app import create_app
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, says
from tests.host.hosting import ANN, answering, asked, hosting, profile
from tests.host.rig import hang, plugin
from tests.runtime.rig import on_virtual_time

SLOW = says("So", " it", " is.", pause_seconds=10.0)


def served_by(*plugins, **options):
    """What serves a host of one profile, without a socket."""
    options.setdefault("store", None)
    app = create_app(profiles=[profile(ScriptedModel([SLOW]))], plugins=plugins, **options)
    return app.state.host


@on_virtual_time
async def test_a_drain_and_the_close_behind_it_have_one_budget(caplog):
    """Whatever hangs: cycles, the hook of an end, the stop of a plugin, which has a second of its own."""
    slow = plugin("slow", on_request_end=hang, stop=hang, timeouts={"on_request_end": 1000, "stop": 1000})
    served = served_by(slow, drain_delay=5, drain_timeout=1000, shutdown_timeout=40)
    with caplog.at_level("WARNING", logger="agentrail.host"):
        async with served.open() as host:
            await asked(host)
            began = trio.current_time()
            await served.drain()
            assert trio.current_time() - began <= 40 * 0.95
    assert trio.current_time() - began == 41
    assert "no time left for plugin 'slow' to stop" in caplog.text


@on_virtual_time
async def test_with_a_store_sessions_rest_behind_the_hooks_that_read_them():
    """None of them ends; also where a cycle is cut, and a hook takes all the time that there is."""
    store, read = MemoryStore(), []

    async def look(ctx):
        read.append(len(await ctx.reader.messages()))
        await trio.sleep(1000)

    slow = plugin("slow", on_request_end=look, timeouts={"on_request_end": 1000})
    served = served_by(slow, store=store, drain_timeout=1, shutdown_timeout=20)
    async with served.open() as host:
        await asked(host, session_id="main")
        await trio.sleep(1)
        began = trio.current_time()
    assert trio.current_time() - began <= 20
    assert read == [1]
    [stored] = store.find(Filters(), limit=10)
    assert not stored.standing.has_ended
    async with hosting(answering("Again."), store=store) as host:
        assert [one.session_id for one in await host.list_sessions(ANN)] == ["main"]
