"""Only Trio's own cancellation, `KeyboardInterrupt` and `SystemExit` leave an actor. All else is its own crash."""

import asyncio

import pytest
import trio

from agentrail.actors import Behaviour, Init, machine, subtree, worker
from agentrail.errors import ChildStartFailed
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Crashed, InitFailed, Normal
from agentrail.otp.statem import Keep, NextState, Perform, Stop
from tests.actors.rig import on_virtual_time


class Mine(BaseException):
    """A class of somebody's own that is no `Exception`."""


MAKES = {
    "GeneratorExit": GeneratorExit,
    "asyncio's": asyncio.CancelledError,
    "a foreign one": Mine,
    "a group of one": lambda: BaseExceptionGroup("of one", [Mine()]),
    "a group beside an error": lambda: BaseExceptionGroup("two", [ValueError(), GeneratorExit()]),
}
PLACES = ["init", "handle", "enter", "perform", "terminate"]


class Breaks(Behaviour[str, None]):
    """Raises in one of its functions; "go" leads to all of them."""

    state_enter = True

    def __init__(self, place, make, log):
        self.place, self.make, self.log = place, make, log

    def fail_in(self, place):
        if place == self.place:
            raise self.make()

    async def init(self):
        self.fail_in("init")
        return Init("s1", None)

    def handle(self, event, state, data):
        self.fail_in("handle")
        match self.place:
            case "enter":
                return NextState("s2")
            case "perform":
                return Keep(actions=[Perform("work")])
        return Stop()

    def enter(self, old_state, state, data):
        if state == "s2":
            self.fail_in("enter")
        return Keep()

    async def perform(self, effect, context):
        await trio.lowlevel.checkpoint()
        self.fail_in("perform")

    async def terminate(self, reason, state, data):
        self.log.append(type(reason))
        self.fail_in("terminate")


@pytest.mark.at(147)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", MAKES)
@on_virtual_time
async def test_of_a_machine(stage, place, what):
    """Wherever it is raised it is the crash of this actor: it cleans up, its sibling does not notice, its monitor hears."""
    log = []
    async with stage.open(children=[stage.W("b")]) as supervisor:
        spec = ChildSpec("m", machine(lambda: Breaks(place, MAKES[what], log)), "temporary")
        if place == "init":
            with pytest.raises(ChildStartFailed) as caught:
                await supervisor.start_child(spec)
            assert isinstance(caught.value.reason, InitFailed)
            reason = caught.value.reason.cause
        else:
            started = await supervisor.start_child(spec, monitor=True)
            started.handle.cast("go")
            reason = (await started.monitor.wait()).reason
            assert log == [Normal if place == "terminate" else Crashed]
            assert ("crash", "m") in stage.kinds()
        assert isinstance(reason, Crashed)
        assert reason.type.rpartition(".")[2] == type(MAKES[what]()).__name__
        assert supervisor.handle("b").exit_reason is None


@pytest.mark.at(147)
@pytest.mark.parametrize("place", ["init", "life", "init of a subtree"])
@pytest.mark.parametrize("what", MAKES)
@on_virtual_time
async def test_of_a_worker_or_subtree(stage, place, what):
    """So too of a function, and of one that says which children there are; a permanent one is restarted."""

    async def fail(task_status=None):
        if place == "life":
            task_status.started()
        await trio.lowlevel.checkpoint()
        error = MAKES[what]()
        raise error

    async def find():
        await fail()

    async with stage.open(children=[stage.W("b")], intensity=3) as supervisor:
        if place == "life":
            started = await supervisor.start_child(ChildSpec("w", worker(fail), "temporary"), monitor=True)
            assert isinstance((await started.monitor.wait()).reason, Crashed)
        else:
            start = worker(fail) if place == "init" else subtree(find)
            with pytest.raises(ChildStartFailed) as caught:
                await supervisor.start_child(ChildSpec("w", start))
            assert isinstance(caught.value.reason.cause, Crashed)
        assert supervisor.handle("b").exit_reason is None


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("place", PLACES)
@on_virtual_time
async def test_what_is_meant_for_the_process_leaves(stage, kind, wrap, place):
    """As itself, also out of a group, after an ordered stop."""

    def make():
        return BaseExceptionGroup("g", [ValueError(), kind()]) if wrap else kind()

    async def live():
        async with stage.open(children=[stage.W("b")]) as supervisor:
            spec = ChildSpec("m", machine(Breaks, place, make, []), "temporary")
            (await supervisor.start_child(spec)).handle.cast("go")
            await trio.sleep_forever()

    with pytest.raises(kind):
        await live()
    assert stage.seen("gone") == ["gone b"]


@on_virtual_time
async def test_a_cancellation_that_somebody_kept_is_a_crash(stage):
    """One of another scope and another day cancels nobody: whoever raises it has a bug."""
    kept = []
    with trio.CancelScope() as other:
        other.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            kept.append(cancelled)
            raise

    async def raise_it():
        await trio.lowlevel.checkpoint()
        raise kept[0]

    async with stage.open(children=[stage.W("b")]) as supervisor:
        started = await supervisor.start_child(ChildSpec("w", worker(raise_it), "temporary"), monitor=True)
        reason = (await started.monitor.wait()).reason
        assert isinstance(reason, Crashed)
        assert reason.type == "trio.Cancelled"
        assert supervisor.handle("b").exit_reason is None
