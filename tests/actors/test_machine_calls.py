"""Section K of the conformance scenarios, on running actors: how state machines begin, calls, stops and errors."""

from contextlib import suppress
from functools import partial
from typing import cast

import attrs
import pytest
import trio

from agentrail.actors import (
    Behaviour,
    InitStop,
    change_code,
    get_state,
    get_status,
    machine,
    replace_state,
    resume,
    suspend,
)
from agentrail.actors.actor_registry import Registry
from agentrail.actors.monitor import monitor
from agentrail.errors import (
    ActorDown,
    AgentrailError,
    CallTimeout,
    ChildNotFound,
    ChildStartFailed,
    NotSuspended,
    SupervisorGaveUp,
    SupervisorStopping,
)
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Crashed, InitFailed, NoProcess, Normal, Shutdown
from agentrail.otp.statem import (
    Call,
    Info,
    Init,
    Internal,
    Keep,
    NamedTimeout,
    NextEvent,
    NextState,
    Perform,
    Postpone,
    Reply,
    StateTimeout,
    Stop,
    StopAndReply,
)
from agentrail.testing.held import held
from tests.actors.rig import Boom, Tabled, boom, is_boom, on_virtual_time, settled
from tests.otp.rig import postpone, said


def echo(event):
    return Keep(actions=[Reply(event.to, said(event))] if isinstance(event, Call) else [])


async def ask_into(results, ask):
    """Ask somebody, and keep the answer or the error."""
    try:
        results.append(await ask())
    except AgentrailError as error:
        results.append(error)


@pytest.mark.scenario("S-166")
@on_virtual_time
async def test_call_timeout(stage):
    """The caller gets `CallTimeout`, also at the instant of the reply; the machine has lost nothing."""

    def late(event):
        match said(event):
            case "slow":
                return Keep(actions=[NamedTimeout("slow", 3.0, event.to)])
            case ("slow", to):
                return Keep(actions=[Reply(to, "too late")])
        return echo(event)

    machine = Tabled({"s1": late}, first=Init("s1", "data"))
    async with stage.play(machine) as handle:
        with pytest.raises(CallTimeout):
            await handle.call("slow", timeout_seconds=2)
        assert await get_state(handle) == ("s1", "data")
        await trio.sleep(0.5)
        assert await handle.call("next", timeout_seconds=10) == "next"
        await trio.sleep(5)
        assert await handle.call("after the late reply") == "after the late reply"
        with pytest.raises(CallTimeout):
            await handle.call("slow", timeout_seconds=3.0)


@pytest.mark.scenario("S-169")
@pytest.mark.parametrize("reason", [Normal(), Shutdown("x"), "crash"], ids=str)
@on_virtual_time
async def test_callee_ends_during_a_call(stage, reason):
    """The caller gets `ActorDown` with the reason, also with `Normal`."""

    def end(_event):
        if reason == "crash":
            boom("in the call")
        return Stop(reason)

    async with stage.play(Tabled({"s1": end})) as handle:
        with pytest.raises(ActorDown) as caught:
            await handle.call("x")
        assert caught.value.reason == handle.exit_reason
        assert is_boom(caught.value.reason) if reason == "crash" else caught.value.reason == reason


@pytest.mark.scenario("S-170", "S-171", "S-173")
@on_virtual_time
async def test_replies_that_nobody_takes(stage):
    """A second one is dropped and reported; one to a caller that was cancelled is dropped, and nothing else happens."""
    kept = []

    def twice(event):
        match said(event):
            case "keep":
                kept.append(event.to)
                return Keep()
            case "now":
                return Keep(actions=[Reply(kept[0], "late")])
        return Keep(actions=[Reply(event.to, said(event)), Reply(event.to, "again")])

    async with stage.play(Tabled({"s1": twice})) as handle:
        with trio.move_on_after(1) as scope:
            await handle.call("keep")
        assert scope.cancelled_caught
        handle.cast("now")
        await settled()
        assert stage.kinds() == []
        assert await handle.call("one") == "one"
        assert await handle.call("two") == "two"
        assert [kind for kind, _ in stage.kinds()] == ["duplicate_reply"] * 2


@pytest.mark.scenario("S-172")
@on_virtual_time
async def test_reply_from_elsewhere(stage):
    """A task that was given the `ReplyTo` answers, and the machine handled other events meanwhile."""
    results = []

    def pass_on(event):
        if said(event) != "ask":
            return echo(event)

        async def answer():
            await trio.sleep(3)
            event.to.reply("from elsewhere")

        return Keep(actions=[Perform(answer)])

    async with stage.play(Tabled({"s1": pass_on})) as handle, trio.open_nursery() as nursery:
        nursery.start_soon(ask_into, results, partial(handle.call, "ask"))
        await settled()
        assert await handle.call("meanwhile") == "meanwhile"
        assert results == []
    assert results == ["from elsewhere"]


async def test_a_reply_from_a_thread_of_its_own_is_refused_and_the_call_stays_open(stage):
    """As with all of Trio: the thread gets the error, and the caller the answer that comes later."""
    kept, results = [], []

    def keep(event):
        kept.append(event.to)
        return Keep()

    def answer():
        with pytest.raises(RuntimeError, match="async context"):
            kept[0].reply("from a thread")

    with trio.fail_after(60):
        async with stage.play(Tabled({"s1": keep})) as handle, trio.open_nursery() as nursery:
            nursery.start_soon(ask_into, results, partial(handle.call, "ask", timeout_seconds=None))
            await settled()
            await trio.to_thread.run_sync(answer)
            kept[0].reply("from its run")
    assert results == ["from its run"]


@pytest.mark.scenario("S-174")
@on_virtual_time
async def test_stop_and_reply(stage):
    """The callers have their replies before `terminate` is over, and so before any monitor sees `Down`."""
    order = []
    kept = []

    def end(event):
        kept.append(event.to)
        if len(kept) < 2:
            return Keep()
        return StopAndReply([Reply(to, said(event)) for to in kept], Shutdown("done"))

    class Slow(Tabled):
        async def terminate(self, reason, state, data):
            await trio.sleep(1)
            order.append("terminated")

    async with stage.play(Slow({"s1": end})) as handle:

        async def ask(name):
            order.append(await handle.call(name))

        async def watch():
            order.append((await monitor(handle).wait()).reason)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            nursery.start_soon(ask, "one")
            await settled()
            nursery.start_soon(ask, "two")
    assert order == ["two", "two", "terminated", Shutdown("done")]


@pytest.mark.scenario("S-136", "S-177")
@on_virtual_time
async def test_handler_raises(stage):
    """`terminate` runs, there is one `crash` report, `Down` has the reason, and what waited is gone."""
    results = []

    def crash(event):
        if said(event) == "crash":
            boom("in handle")
        return Keep(actions=[Postpone()])

    machine = Tabled({"s1": crash})
    async with stage.open(children=[ChildSpec("m", machine.start)]) as supervisor:
        handle = supervisor.handle("m")
        watch = monitor(handle)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_into, results, partial(handle.call, "postponed"))
            await settled()
            async with held(handle):
                handle.cast("crash")
                nursery.start_soon(ask_into, results, partial(handle.call, "queued"))
                await settled()
        down = await watch.wait()
        await settled()
        assert is_boom(down.reason, "in handle")
        assert machine.ends == [down.reason]
        assert [one.kind for one in stage.reports].count("crash") == 1
        assert [error.reason for error in results] == [down.reason] * 2
        assert supervisor.handle("m") is not handle
        assert machine.log == [("s1", "postponed"), ("s1", "crash")]


@pytest.mark.scenario("S-178")
@on_virtual_time
async def test_terminate_raises(stage):
    """Its error is the exit reason, and names, tasks and calls are released all the same."""
    results = []
    with Registry() as registry:
        machine = Tabled({"s1": postpone}, at_end=Boom("in terminate"), name=registry.name("door"))
        async with stage.play(machine) as handle:
            assert registry.lookup("door") is handle
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask_into, results, partial(handle.call, "x"))
                await settled()
                nursery.start_soon(handle.stop)
            assert is_boom(handle.exit_reason, "in terminate")
            assert [error.reason for error in results] == [handle.exit_reason]
            assert registry.lookup("door") is None


@pytest.mark.scenario("S-179")
@on_virtual_time
async def test_messages_during_init(stage):
    """They are handled after the events that init inserted."""
    with Registry() as registry:
        first = Init("s1", None, [NextEvent(Internal("inserted"))])
        machine = Tabled({"s1": Keep()}, first=first, init_seconds=2.0, name=registry.name("door"))
        async with stage.open() as supervisor, trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.start_child, ChildSpec("m", machine.start))
            await trio.sleep(1)
            registry.lookup("door").cast("by name")
            assert machine.log == []
            await trio.sleep(2)
            assert machine.log == [("s1", "inserted"), ("s1", "by name")]


@pytest.mark.scenario("S-180", "S-181")
@on_virtual_time
async def test_init_fails(stage):
    """The starter gets the reason, the name is free at that moment, nothing is left, and there is one report for each."""
    with Registry() as registry:
        machine = Tabled({"s1": Keep()}, first=Boom("in init"), name=registry.name("door"))
        slow = Tabled({"s1": Keep()}, init_seconds=60.0)
        async with stage.open() as supervisor:
            with pytest.raises(ChildStartFailed) as caught:
                await supervisor.start_child(ChildSpec("m", machine.start))
            assert registry.lookup("door") is None
            assert caught.value.reason.why == "raised"
            assert is_boom(caught.value.reason.cause, "in init")
            assert machine.ends == []

            began = trio.current_time()
            with pytest.raises(ChildStartFailed) as caught:
                await supervisor.start_child(ChildSpec("m", slow.start, start_timeout_seconds=2.0))
            assert isinstance(caught.value.reason, InitFailed)
            assert caught.value.reason.why == "timeout"
            assert trio.current_time() - began == 2.0
            assert await supervisor.which_children() == ()
    assert stage.kinds() == [("start_error", "m")] * 2


@pytest.mark.scenario("S-183", "S-184")
@on_virtual_time
async def test_suspend_and_replace_state(stage):
    """While suspended it handles nothing, and `get_state` works; a `replace_state` that fails changes nothing."""
    machine = Tabled({"s1": echo, "s2": echo}, first=Init("s1", "data"))
    async with stage.play(machine) as handle:
        await suspend(handle)
        for number in range(3):
            handle.cast(number)
        with pytest.raises(CallTimeout):
            await handle.call("x", timeout_seconds=1)
        assert machine.log == []
        assert await get_state(handle) == ("s1", "data")
        await resume(handle)
        await settled()
        assert [what for _, what in machine.log] == [0, 1, 2, "x"]

        def fails(_state, _data):
            boom("in the function")

        with pytest.raises(Boom, match="in the function"):
            await replace_state(handle, fails)
        assert await get_state(handle) == ("s1", "data")
        await replace_state(handle, lambda state, data: ("s2", [state, data]))
        assert await get_state(handle) == ("s2", ["s1", "data"])


@pytest.mark.scenario("S-185")
@on_virtual_time
async def test_code_change(stage):
    """State and data are transformed; nothing is entered or replayed, and running timers go on."""

    class Newer(Tabled):
        def code_change(self, old_version, state, data):
            return (f"{state} of {old_version}", [data])

    old = Tabled(
        {"s1": Keep(actions=[Postpone()])},
        Keep(),
        first=Init("s1", "data", [StateTimeout(5.0)]),
    )
    new = Newer({"s1 of v1": Keep()}, Keep())
    async with stage.play(old) as handle:
        handle.cast("p")
        await settled()
        with pytest.raises(NotSuspended, match="suspend it before its code changes"):
            await change_code(handle, new, "v1")
        await suspend(handle)
        await change_code(handle, new, "v1")
        assert await get_state(handle) == ("s1 of v1", ["data"])
        await resume(handle)
        await trio.sleep(10)
        assert new.log == [("s1 of v1", ("state", None))]


@pytest.mark.scenario("S-186")
@on_virtual_time
async def test_redaction(stage):
    """What `format_status` removes is neither in `get_status` nor in any report of a crash."""

    class Discreet(Tabled):
        def format_status(self, status):
            assert "hunter2" in repr(status)
            return attrs.evolve(
                status,
                **{
                    name: "withheld"
                    for name in ("state", "data", "event", "queue", "postponed")
                    if hasattr(status, name)
                },
            )

    def crash(event):
        if said(event) == "crash":
            boom("no secret in here")
        return Keep(actions=[Postpone()])

    async with stage.play(Discreet({"s1": crash}, first=Init("s1", "hunter2"))) as handle:
        handle.cast("hunter2, postponed")
        assert "hunter2" not in repr(await get_status(handle))
        handle.cast("crash")
        await handle.wait()
        await settled()
    assert any(one.kind == "crash" for one in stage.reports)
    assert "hunter2" not in repr(stage.reports)


# --- 2.6 and 2.7


@on_virtual_time
async def test_stop_of_an_instance(stage):
    """It overtakes what waits, ends through `terminate` with its reason, and the supervisor judges that as any other."""
    machine = Tabled({"s1": echo})
    async with stage.open(children=[ChildSpec("m", machine.start)]) as supervisor:
        handle = supervisor.handle("m")
        async with trio.open_nursery() as nursery, held(handle):
            for number in range(1000):
                handle.cast(number)
            nursery.start_soon(handle.stop, Shutdown("enough"))
            await settled()
        assert handle.exit_reason == Shutdown("enough")
        assert (machine.ends, machine.log) == ([Shutdown("enough")], [])
        await settled()
        assert supervisor.handle("m").incarnation == 2
        with pytest.raises(ActorDown) as caught:
            await handle.stop()
        assert caught.value.reason == NoProcess()


# --- nobody waits for an answer that cannot come


@pytest.mark.at(37)
@pytest.mark.parametrize("way", ["stop", "cancellation", "error", "giving up", "kill"])
@on_virtual_time
async def test_every_call_is_answered_while_a_supervisor_shuts_down(stage, way):
    """Calls that wait, are postponed or were passed on, and those that come on the way: a reply or a typed error for each."""
    kept = []

    def answer(event):
        match said(event):
            case "reply":
                return Keep(actions=[Reply(event.to, "well")])
            case "postpone":
                return Keep(actions=[Postpone()])
            case _:
                kept.append(event.to)
                return Keep()

    async def linger(*_):
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 2.0):  # noqa: ASYNC101 - two seconds
            await trio.sleep_forever()

    tabled = Tabled({"s1": answer})
    tabled.terminate = linger
    stage.cleanups["slow"] = 2.0
    sent, results = [], []

    async def keep_calling(nursery, handle, supervisor):
        for _ in range(60):  # for six seconds, and the stop takes four
            for request in ("reply", "postpone", "keep"):
                sent.append(request)
                nursery.start_soon(ask_into, results, partial(handle.call, request, timeout_seconds=None))
            for ask in (
                supervisor.which_children,
                supervisor.count_children,
                partial(supervisor.terminate_child, "slow"),
                partial(supervisor.start_child, stage.W(f"late {len(sent)}")),
            ):
                sent.append(ask)
                nursery.start_soon(ask_into, results, ask)
            await trio.sleep(0.1)

    began_at = trio.current_time()
    with trio.fail_after(60):
        async with trio.open_nursery() as callers:
            with suppress(Boom, SupervisorGaveUp), trio.CancelScope() as scope:
                children = [stage.W("slow"), ChildSpec("m", tabled.start), stage.W("fuse")]
                async with stage.open(children=children, intensity=0) as supervisor:
                    callers.start_soon(keep_calling, callers, supervisor.handle("m"), supervisor)
                    await trio.sleep(1.05)
                    match way:
                        case "stop":
                            await supervisor.stop()
                        case "cancellation":
                            scope.cancel(reason="the test")
                        case "error":
                            boom("body")
                        case "giving up":
                            stage.crash("fuse")
                        case "kill":
                            supervisor.kill()
                    if way != "stop":  # after which the body goes on
                        await trio.sleep_forever()
    assert trio.current_time() - began_at < 10
    assert len(results) == len(sent)
    refused = {type(result) for result in results if isinstance(result, Exception)}
    assert ActorDown in refused
    assert refused <= {ActorDown, SupervisorStopping, ChildNotFound, ChildStartFailed}


@pytest.mark.parametrize(
    ("answer", "why", "words"),
    [
        *(
            (answer, "raised", f"init returned {type(answer).__name__}")
            for answer in cast("tuple[object, ...]", (None, "s1", (), Keep()))
        ),
        (InitStop(Normal()), "stopped", "normal"),
        (InitStop(Shutdown("not today")), "stopped", "not today"),
        (InitStop(Crashed.of_rule("Closed", "no door")), "stopped", "no door"),
    ],
    ids=repr,
)
@on_virtual_time
async def test_inits_that_start_nothing(stage, answer, why, words):
    """A bad answer says what came and what is expected; the reason of `InitStop` is the very cause that its starter gets."""
    async with stage.open() as supervisor:
        with pytest.raises(ChildStartFailed, match=words) as caught:
            await supervisor.start_child(ChildSpec("m", Tabled({}, first=answer).start))
        assert caught.value.reason.why == why
        if why == "raised":
            assert "Init, IGNORE or InitStop" in caught.value.reason.cause.text
        else:
            assert caught.value.reason.cause == answer.reason
        assert await supervisor.which_children() == ()


class Bare(Behaviour[str, int]):
    """A behaviour of which each test leaves something out."""

    async def init(self):
        return Init("s1", None)


class Handling(Bare):
    """It asks for an effect, and cannot carry one out."""

    def handle(self, event, state, data):
        return Keep(actions=[Perform(said(event))])


@pytest.mark.parametrize(
    ("behaviour", "lacks"),
    [(Bare, "Bare has no handle"), (Handling, "Handling has no perform, but must carry out a str")],
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
