"""The supervisor: it starts, finds and ends sessions, and none outlives it."""

from contextlib import suppress

import pytest
import trio

from agentrail import plugins as p
from agentrail.errors import AlreadyStarted, SessionDown
from agentrail.events import AbortSettled, LeftBehind, SessionEnd
from agentrail.testing.orphans import no_orphans
from agentrail.testing.tools import HangingTool, RecordingTool, StubbornTool
from tests.runtime.rig import NoSandbox, calling, on_virtual_time, only, open_bare, open_with, rest, saying


async def test_a_session_is_found_by_its_id(supervisor):
    """Any number of handles; all are to the same session."""
    session = await supervisor.start_session(model=saying("ok"), session_id="s-1")
    assert await supervisor.session("s-1").ask("Hi") == "ok"
    assert len(await session.messages()) == 2


async def test_an_unknown_id_is_down(supervisor):
    """There is no session, and the message says so."""
    with pytest.raises(SessionDown, match="session 'nobody' is down: there is no live session of this id"):
        supervisor.session("nobody")
    with pytest.raises(SessionDown):
        await supervisor.stop_session("nobody")


async def test_a_live_id_cannot_be_started_again(supervisor):
    """`AlreadyStarted` has the handle of the live one."""
    await supervisor.start_session(model=saying("ok"), session_id="s-1")
    with pytest.raises(AlreadyStarted, match="'s-1' is alive already") as caught:
        await supervisor.start_session(model=saying(), session_id="s-1")
    assert await caught.value.handle.ask("Hi") == "ok"


async def test_an_id_is_free_when_its_session_has_ended(supervisor):
    """As soon as `stop` returns, and not a step later."""
    for number in range(50):
        session = await supervisor.start_session(model=saying(str(number)), session_id="s-1")
        assert await session.ask("Hi") == str(number)
        await session.stop()
        with pytest.raises(SessionDown):
            supervisor.session("s-1")


@on_virtual_time
async def test_an_id_is_free_while_a_tool_of_the_old_session_will_not_stop():
    """The old session has ended; what clings to life belongs to nobody's id."""
    async with open_bare() as supervisor:
        stubborn = StubbornTool()
        old = await supervisor.start_session(model=calling("stubborn"), tools=[stubborn], session_id="s-1")
        await old.prompt("Hi")
        await stubborn.started.wait()
        await old.stop()
        new = await supervisor.start_session(model=saying("new"), session_id="s-1")
        assert await new.ask("Hi") == "new"
        with pytest.raises(SessionDown):
            await old.status()
        await trio.sleep(60)
        assert supervisor.sessions() != ()


async def test_sessions_are_listed_oldest_first(supervisor):
    """Those that live, and no others."""
    for name in ("a", "b", "c"):
        await supervisor.start_session(model=saying(), session_id=name)
    await supervisor.stop_session("b", "enough")
    assert [session.session_id for session in supervisor.sessions()] == ["a", "c"]


async def test_closing_ends_all_sessions():
    """Each publishes its end, with its tools stopped; later calls get `SessionDown`."""
    hang = HangingTool()
    async with open_bare() as inner:
        session = await inner.start_session(model=calling("hang"), tools=[hang], session_id="s-1")
        subscription = session.subscribe()
        await subscription.__aenter__()
        await session.prompt("Hi")
        await hang.started.wait()
    assert hang.stopped == 1
    assert (await rest(subscription))[-1] == SessionEnd(reason="the supervisor was closed")
    with pytest.raises(SessionDown, match="the supervisor was closed"):
        await session.prompt("Hi")
    with pytest.raises(SessionDown, match="the supervisor was closed"):
        await inner.start_session(model=saying())
    with pytest.raises(SessionDown, match="the supervisor was closed"):
        inner.session("s-1")


async def test_an_exception_of_the_body_leaves_as_itself():
    """Not in a group, and after the ordered stop."""
    hang = HangingTool()
    mine = KeyError("mine")
    with pytest.raises(KeyError) as caught:  # noqa: PT012 - the block is what is tested
        async with no_orphans(), open_bare() as supervisor:
            session = await supervisor.start_session(model=calling("hang"), tools=[hang])
            subscription = session.subscribe()
            await subscription.__aenter__()
            await session.prompt("Hi")
            await hang.started.wait()
            raise mine
    assert caught.value is mine
    assert isinstance((await rest(subscription))[-1], SessionEnd)


async def test_cancelling_the_body_from_outside_still_stops_in_order():
    """The cancellation travels on, but only when every session has said its end."""
    hang = HangingTool()
    async with no_orphans():
        with trio.CancelScope() as scope:
            async with open_bare() as supervisor:
                session = await supervisor.start_session(model=calling("hang"), tools=[hang])
                subscription = session.subscribe()
                await subscription.__aenter__()
                await session.prompt("Hi")
                await hang.started.wait()
                scope.cancel()
                await trio.sleep_forever()
    assert scope.cancelled_caught
    assert hang.stopped == 1
    assert (await rest(subscription))[-1] == SessionEnd(reason="the supervisor was closed")


async def test_two_supervisors_do_not_know_each_other(supervisor):
    """The same id lives in both; ending one leaves the other alone."""
    async with open_bare() as other:
        mine = await supervisor.start_session(model=saying("mine"), session_id="s-1")
        theirs = await other.start_session(model=saying("theirs"), session_id="s-1")
        assert (await mine.ask("Hi"), await theirs.ask("Hi")) == ("mine", "theirs")
    assert len(await mine.messages()) == 2


class Toucher(RecordingTool):
    """A tool that wants the sandbox."""

    async def execute(self, arguments, ctx):
        """Look into it."""
        await ctx.sandbox.list_dir(".")
        return await super().execute(arguments, ctx)


class Leaving(NoSandbox):
    """Has something to put away when it is closed, and notes when it had."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.is_done = False

    async def aclose(self) -> None:
        """Take the time."""
        await super().aclose()
        await trio.sleep(self.seconds)
        self.is_done = True


@pytest.mark.at(21)
@pytest.mark.parametrize(("seconds", "takes"), [(1.5, 1.5), (60.0, 2.0)], ids=["short", "endless"])
@pytest.mark.parametrize("interrupt", ["KeyboardInterrupt", "cancelled"])
@on_virtual_time
async def test_work_at_the_end_of_a_session_has_a_grace_period(interrupt, seconds, takes, caplog):
    """After Ctrl-C it goes on shielded; when its time is over it is cut, and that is reported."""
    sandbox = Leaving(seconds)
    async with no_orphans():
        with trio.CancelScope() as scope, suppress(KeyboardInterrupt):
            async with open_with([sandbox]) as supervisor:
                session = await supervisor.start_session(
                    model=calling("record"), tools=[Toucher()], session_id="s-1"
                )
                await session.ask("Hi")
                began_at = trio.current_time()
                if interrupt == "cancelled":  # what the command does
                    scope.cancel()
                    await trio.sleep_forever()
                raise KeyboardInterrupt  # what Trio does, where nobody receives the signal
    assert trio.current_time() - began_at == takes
    assert sandbox.closed == 1
    assert sandbox.is_done == (seconds == takes)
    reported = "shutdown_error: child 'sandbox' of 's-1': killed" in caplog.text
    assert reported == (seconds > takes)


@pytest.mark.at(21)
@on_virtual_time
async def test_a_tool_that_ignores_an_interrupt_is_cut_off_and_named(caplog):
    """Its cycle is ended at once, it has five seconds, and then the session ends without it."""
    stubborn = StubbornTool(deaf_seconds=60)
    with trio.CancelScope() as scope:
        async with open_bare() as supervisor:
            session = await supervisor.start_session(model=calling("stubborn"), tools=[stubborn])
            subscription = only(session, AbortSettled, SessionEnd)
            await subscription.__aenter__()
            await session.prompt("Hi")
            await stubborn.started.wait()
            scope.cancel()
            await trio.sleep_forever()
    settled, _ = await rest(subscription)
    assert settled.receipt.stuck == (LeftBehind(name="stubborn", age_ms=5000),)
    assert settled.receipt.milliseconds == 5000


async def test_a_sandbox_made_for_a_session_is_closed_with_it():
    """Once, and only where a tool had wanted it; one that was given is left to whoever gave it."""
    made, given = NoSandbox(), NoSandbox()
    async with open_with([made]) as supervisor:
        idle = await supervisor.start_session(model=saying("ok"))
        await idle.ask("Hi")
        own = await supervisor.start_session(model=calling("record"), tools=[Toucher()])
        await own.ask("Hi")
        other = await supervisor.start_session(model=calling("record"), tools=[Toucher()], sandbox=given)
        await other.ask("Hi")
        await supervisor.stop_session(own.session_id)
        assert made.closed == 1
    assert (made.closed, given.closed) == (1, 0)


async def test_what_the_process_is_told_is_not_kept_from_it():
    """`SystemExit` from a plugin is no crash: it ends the supervisor in order, and leaves it as itself."""

    class Leaves(p.Plugin[int]):
        def init(self) -> int:
            return 0

        @p.on(p.BeforePrompt)
        def leave(self, event: p.BeforePrompt, state: int, ctx: p.Context) -> p.Action:
            raise SystemExit(3)

    with pytest.raises(SystemExit) as caught:  # noqa: PT012 - the block is what is tested
        async with open_bare() as supervisor:
            session = await supervisor.start_session(model=saying("ok"), plugins=[Leaves])
            await session.ask("Hi")
    assert caught.value.code == 3


class Unhashable(RecordingTool):
    """A tool that is equal to another by its values, and therefore no key of anything."""

    __hash__ = None  # type: ignore[assignment]


async def test_a_tool_need_not_be_hashable(supervisor):
    """What a tool says of itself is kept where it can be, and asked anew where it cannot."""
    tool = Unhashable(name="note")
    for _ in range(2):
        session = await supervisor.start_session(model=calling("note"), tools=[tool])
        assert await session.ask("Go") == "done"


async def test_a_tool_that_says_something_else_is_looked_at_again(supervisor):
    """The second session sees the new description, the first one keeps what it was started with."""
    tool = RecordingTool(name="note")
    first, second = saying("one"), saying("two")
    await (await supervisor.start_session(model=first, tools=[tool])).ask("Go")
    tool.description = "Something else."
    await (await supervisor.start_session(model=second, tools=[tool])).ask("Go")
    assert first.requests[0].tools.get("note").description != "Something else."
    assert second.requests[0].tools.get("note").description == "Something else."


async def test_a_sandbox_that_cannot_be_closed_is_told_to_the_log(caplog):
    """The session that it belonged to is gone all the same, the next of its id is left alone, and so is everybody else."""

    class Jammed(NoSandbox):
        async def aclose(self) -> None:
            await super().aclose()
            message = "it is jammed"
            raise OSError(message)

    made = Jammed()
    with caplog.at_level("WARNING", "agentrail.actors"):
        async with open_with([made]) as supervisor:
            old = await supervisor.start_session(model=calling("record"), tools=[Toucher()], session_id="s-1")
            await old.ask("Hi")
            await old.stop()
            new = await supervisor.start_session(model=saying("unharmed"), session_id="s-1")
            assert (await old.monitor().wait()).reason == "stopped"
            with trio.fail_after(10):
                while len((await supervisor.tree()).children) > 1:
                    await trio.lowlevel.checkpoint()
            assert await new.ask("Hi") == "unharmed"
            assert supervisor.statistics().restarts == 0
    assert "OSError: it is jammed" in caplog.text
    assert made.closed == 1
