"""How a machine begins, or does not: the answers of `init`, and behaviours that lack a part."""

import pytest
import trio

from agentrail.actors import (
    Behaviour,
    InitStop,
    change_code,
    get_state,
    machine,
    resume,
    suspend,
)
from agentrail.errors import ChildStartFailed
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Crashed, InitFailed, Normal, Shutdown, describe
from agentrail.otp.statem import Info, Init, Keep, NextState, Perform
from tests.actors.rig import Tabled, on_virtual_time, settled
from tests.otp.rig import said


@pytest.mark.parametrize(
    "reason", [Normal(), Shutdown("not today"), Crashed.of_rule("Closed", "no door")], ids=repr
)
@on_virtual_time
async def test_init_that_wants_no_start(stage, reason):
    """`InitStop(reason)` fails the start: its starter is told this very reason as the cause, and nothing is kept."""
    async with stage.open() as supervisor:
        with pytest.raises(ChildStartFailed) as caught:
            await supervisor.start_child(ChildSpec("m", Tabled({}, first=InitStop(reason)).start))
        assert caught.value.reason == InitFailed("stopped", cause=reason)
        assert describe(reason) in str(caught.value)
        assert await supervisor.which_children() == ()


@pytest.mark.parametrize("answer", [None, "s1", ("s1", None), Keep()], ids=repr)
@on_virtual_time
async def test_bad_answer_of_init(stage, answer):
    """The start fails, and the message has what came and what is expected."""
    async with stage.open() as supervisor:
        with pytest.raises(ChildStartFailed) as caught:
            await supervisor.start_child(ChildSpec("m", Tabled({}, first=answer).start))
        assert caught.value.reason.why == "raised"
        for word in (f"init returned {type(answer).__name__}", "Init, IGNORE or InitStop"):
            assert word in caught.value.reason.cause.text


class Bare(Behaviour[str, int]):
    """A behaviour of which each test leaves something out."""

    async def init(self):
        """Begin, with nothing."""
        return Init("s1", None)


class Handling(Bare):
    """It asks for an effect, and cannot carry one out."""

    def handle(self, event, state, data):
        """Make an effect of what was said."""
        return Keep(actions=[Perform(said(event))])


@pytest.mark.parametrize(
    ("behaviour", "lacks"),
    [(Bare, "Bare has no handle"), (Handling, "Handling has no perform, and was to carry out a str")],
)
@on_virtual_time
async def test_behaviour_that_lacks_a_part(stage, behaviour, lacks):
    """It crashes when the part is needed, and the reason has its name and what is missing."""
    async with stage.open(children=[ChildSpec("m", machine(behaviour), restart="temporary")]) as supervisor:
        handle = supervisor.handle("m")
        handle.cast("work")
        reason = await handle.wait()
        assert isinstance(reason, Crashed)
        assert lacks in reason.text


@on_virtual_time
async def test_new_code_may_perform_what_the_old_could_not(stage):
    """A machine without `perform` is given one by `change_code`, and its effects are carried out from then on."""

    class Performing(Handling):
        def handle(self, event, state, data):
            match event:
                case Info(message):
                    return NextState("done", message)
            return super().handle(event, state, data)

        async def perform(self, effect, context):
            await trio.sleep(1)
            return f"{effect} done by {context.handle.id}"

    async with stage.open(children=[ChildSpec("m", machine(Handling), restart="temporary")]) as supervisor:
        handle = supervisor.handle("m")
        await suspend(handle)
        handle.cast("work")
        await change_code(handle, Performing())
        await resume(handle)
        await trio.sleep(2)
        assert handle.exit_reason is None
        assert await get_state(handle) == ("done", "work done by m")
        handle.cast("unfinished")
        await settled()
        assert (await handle.stop()).reason == Normal()
