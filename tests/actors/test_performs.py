"""What a machine performs: how its outcome comes back, and that nothing it raises takes the end out of its hands."""

import logging
from functools import partial

import pytest
import trio

from agentrail.actors import ActorExit, Link, Send, Watch
from agentrail.otp.exits import Crashed, Normal, Shutdown
from agentrail.otp.statem import Cast, Info, Init, Keep, NextEvent, Perform, Stop
from tests.actors.rig import Boom, Tabled, boom, on_virtual_time, settled
from tests.otp.rig import obey


async def fails_in_its_clean_up(error=None):
    """Work in a nursery, and raise while that is cancelled: the group has a cancellation in it, and an error."""

    async def connection():
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("closing failed") if error is None else error

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection)
        nursery.start_soon(trio.sleep_forever)


async def fails_plainly():
    try:
        await trio.sleep_forever()
    finally:
        boom("closing failed")


async def fails_deep_down():
    """Raise a group that is deeper than Python recurses, with the cancellation at its bottom."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled as cancelled:
        parts = [cancelled]
    try:
        boom("closing failed")
    except Boom as failed:
        parts.append(failed)
    error = BaseExceptionGroup("g", parts)
    for _ in range(1500):
        error = BaseExceptionGroup("g", [error])
    raise error


def performing(*effects):
    """Make a machine that performs these from its start."""
    return Tabled({"s1": obey}, first=Init("s1", None, [Perform(effect) for effect in effects]))


@pytest.mark.parametrize("effect", [fails_in_its_clean_up, fails_plainly, fails_deep_down])
@on_virtual_time
async def test_terminate_runs_though_a_perform_fails_in_its_clean_up(stage, effect, caplog):
    """A stop stays a stop: `terminate` runs once, for the reason that was given, and the log tells what failed."""
    machine = performing(effect)
    with caplog.at_level(logging.ERROR, "agentrail.actors"):
        async with stage.play(machine) as handle:
            await settled()
            await handle.stop(Shutdown("enough"))
            assert handle.exit_reason == Shutdown("enough")
            assert machine.ends == [Shutdown("enough")]
    (record,) = caplog.records
    assert "closing failed" in record.getMessage()
    assert "test_performs.py" in record.getMessage()
    assert stage.kinds() == []


@on_virtual_time
async def test_every_perform_is_cancelled_and_each_failure_is_told(stage, caplog):
    """Three of them fail in their clean-up, a fourth exits on purpose, a fifth is only cancelled."""

    async def leaves():
        try:
            await trio.sleep_forever()
        finally:
            raise ActorExit(Normal())

    machine = performing(fails_plainly, fails_in_its_clean_up, leaves, fails_plainly, trio.sleep_forever)
    async with stage.play(machine) as handle:
        await settled()
        await handle.stop()
        assert machine.ends == [Normal()]
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 3


@pytest.mark.parametrize("kind", [partial(Send, message="m"), Watch, Link])
@on_virtual_time
async def test_terminate_runs_though_an_effect_cannot_be_carried_out(stage, kind):
    """An effect on what is no actor is a bug of the machine: it ends as one that raised in `handle` does."""
    machine = performing()
    async with stage.play(machine) as handle:
        handle.cast(Keep(actions=[Perform(kind("no handle"))]))
        reason = await handle.wait()
    assert isinstance(reason, Crashed)
    assert machine.ends == [reason]
    assert ("crash", "m") in stage.kinds()


@on_virtual_time
async def test_an_effect_that_cannot_be_carried_out_in_the_last_step_is_told(stage, caplog):
    """The machine has stopped by then, with a reason of its own."""
    machine = performing()
    async with stage.play(machine) as handle:
        last = NextEvent(Cast(Stop(Normal())))
        handle.cast(Keep(actions=[Perform(Watch("no handle")), last]))
        assert await handle.wait() == Normal()
    assert machine.ends == [Normal()]
    assert "is not an ActorHandle" in caplog.text


@pytest.mark.parametrize(
    "error", [ActorExit(Shutdown("x")), ExceptionGroup("g", [ActorExit(Shutdown("x"))])], ids=repr
)
@on_virtual_time
async def test_an_exit_in_a_perform_is_the_reason(stage, error):
    """Also out of a nursery of its own, which wraps it in a group."""

    async def leaves():
        raise error

    machine = performing(leaves)
    async with stage.play(machine) as handle:
        assert await handle.wait() == Shutdown("x")
    assert machine.ends == [Shutdown("x")]


@on_virtual_time
async def test_results_carry_the_tag_of_their_effect(stage):
    """An `Info` comes as it is. `None` says nothing without a tag, and that the effect is over with one."""
    seen = []

    async def same():
        return "same"

    async def nothing():
        return None

    async def info():
        return Info("own", "its own tag")

    async def done():
        return Info(None, "done")

    wanted = [
        *((same, "a"), (same, "b"), (same, None)),
        *((nothing, ("c", 1)), (nothing, None)),
        *((info, "d"), (info, None), (done, None)),
    ]
    machine = Tabled(
        {"s1": lambda event: seen.append(event) or Keep()},
        first=Init("s1", None, [Perform(effect, tag) for effect, tag in wanted]),
    )
    async with stage.play(machine):
        await settled()
    assert {event.tag: event.message for event in seen} == {
        "a": "same",
        "b": "same",
        None: "same",
        ("c", 1): None,
        "d": "own",
        "its own tag": "own",
        "done": None,
    }
    assert len(seen) == 7
    assert Info("same") in seen
    assert repr(Info("same")) == "Info(message='same')"
    match seen[0]:
        case Info(message):
            assert message in {"same", "own", None}
