"""The supervisor: it starts, finds and ends sessions, and none outlives it."""

from contextlib import suppress

import pytest
import trio

from agentrail import plugins as p
from agentrail.errors import SessionDown
from agentrail.events import AbortSettled, LeftBehind, SessionEnd
from agentrail.testing.orphans import no_orphans
from agentrail.testing.tools import HangingTool, RecordingTool, StubbornTool
from tests.runtime.rig import NoSandbox, calling, on_virtual_time, only, open_bare, open_with, rest, saying


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


class Toucher(RecordingTool):
    """A tool that wants the sandbox."""

    async def execute(self, arguments, ctx):
        await ctx.sandbox.list_dir(".")
        return await super().execute(arguments, ctx)


class Leaving(NoSandbox):
    """Has something to put away when it is closed, and notes when it had."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.is_done = False

    async def aclose(self) -> None:
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
