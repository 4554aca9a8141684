"""A handle that another Trio run uses, in another thread: `NoTrioRun`, and its own run notices nothing."""

import gc
import weakref
from functools import partial

import pytest
import trio

from agentrail.actors import PoolFlags, get_state, link, monitor, open_pool
from agentrail.errors import NoTrioRun
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Shutdown
from agentrail.otp.statem import Call, Keep, Reply
from tests.actors.rig import Tabled
from tests.otp.rig import said


async def twice(number):
    return 2 * number


async def test_a_call_from_another_run_is_refused_before_anything_is_sent(stage):
    """The actor, its supervisor and the pool still answer in their own run: a stop was lost, or a caller waited without end."""
    heard = []

    def echo(event):
        heard.append(said(event))
        return Keep(actions=[Reply(event.to, said(event))] if isinstance(event, Call) else [])

    async def use(handle, address, supervisor, pool):
        for call in (
            lambda: handle.call("foreign"),
            lambda: handle.send("foreign"),
            handle.stop,
            handle.wait,
            lambda: monitor(handle).wait(),
            lambda: get_state(handle),
            lambda: address.call("foreign"),
            lambda: supervisor.start_child(stage.W("foreign")),
            supervisor.stop,
            lambda: pool.run(1),
            pool.stop,
        ):
            with pytest.raises(NoTrioRun, match="belongs to another Trio run"), trio.fail_after(5):
                await call()
        for send in (
            partial(handle.cast, "foreign"),
            partial(handle.info, "foreign"),
            partial(handle.exit, Shutdown()),
            handle.kill,
            partial(link, handle, handle),
            partial(address.cast, "foreign"),
            partial(supervisor.start_child_soon, stage.W("foreign")),
            partial(pool.submit_nowait, 1),
        ):
            with pytest.raises(NoTrioRun, match="belongs to another Trio run"):
                send()

    async def submit(pool):
        job = trio.Event()
        held = weakref.ref(job)
        with pytest.raises(NoTrioRun):
            pool.submit_nowait(job)
        del job
        gc.collect()
        assert held() is None, "the pool keeps a job that it refused"

    async def read(handle):
        return await handle.wait()

    spec = ChildSpec("m", Tabled({"s1": echo}).start, restart="temporary")
    with trio.fail_after(60):
        async with stage.open(children=[spec]) as supervisor, open_pool(twice, PoolFlags(size=1)) as pool:
            handle, address = supervisor.handle("m"), supervisor.address("m")
            await trio.to_thread.run_sync(trio.run, use, handle, address, supervisor, pool)
            await trio.to_thread.run_sync(trio.run, submit, pool)
            assert await address.call("own") == "own"
            assert (heard, await pool.run(2)) == (["own"], 4)
            assert [child.id for child in await supervisor.which_children()] == ["m"]
            await handle.stop(Shutdown("enough"))
            # An ended actor needs no run.
            assert await trio.to_thread.run_sync(trio.run, read, handle) == Shutdown("enough")
