"""A session whose actor crashes comes back, and a few crashes later no more."""

import pytest
import trio

from agentrail.errors import CycleFailed, SessionDown
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    SessionEnd,
    SessionParked,
    SessionRestarted,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agentrail.testing.cancelling import crash
from agentrail.testing.expectations import check_events, check_history
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.runtime.rig import kinds, rest, saying, until, wants


async def test_a_crash_in_the_middle_of_a_batch(supervisor):
    """The session comes back: history valid, handle good, numbers dense, and the prompt that waited starts."""
    record, hang = RecordingTool(), HangingTool()
    script = ScriptedModel([wants("record", "hang"), says("to the second")])
    session = await supervisor.start_session(model=script, tools=[record, hang])
    async with session.subscribe() as events:
        await session.prompt("first")
        await until(events, ToolExecutionEnd)  # one call is done, the other hangs
        second = await session.prompt("second")
        crash(session, "a cosmic ray")
        seen = await until(events, AgentEnd)
        restarted = next(event for event in seen if isinstance(event, SessionRestarted))
        assert (restarted.reason, restarted.incarnation) == ("RuntimeError: a cosmic ray", 2)
        assert [event.error.code for event in seen if isinstance(event, AgentError)] == ["session_restarted"]
        numbers = [event.meta.seq for event in seen if not event.meta.ephemeral]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert kinds(seen)[-1] == "AgentEnd"
    messages = await session.messages()
    check_history(messages)
    unknown = "[Outcome unknown: the session crashed while this ran]"
    assert [result.text for result in messages[2].results] == ["recorded", unknown]
    assert messages[3].ref == second.ref
    assert hang.stopped == 1
    assert (await session.status()).restarts == 1


async def test_a_tool_that_crashes_with_its_session_is_not_the_reason(supervisor):
    """It is cancelled from outside and raises on its way: the reason of the restart names the crash, and only that."""

    class Messy(HangingTool):
        async def execute(self, arguments, ctx):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(super().execute, arguments, ctx)
                try:
                    await trio.sleep_forever()
                finally:
                    message = "while leaving"
                    raise ValueError(message)

    messy = Messy()
    session = await supervisor.start_session(model=ScriptedModel([wants("hang")]), tools=[messy])
    async with session.subscribe() as events:
        await session.prompt("Hi")
        await messy.started.wait()
        crash(session, "a cosmic ray")
        restarted = (await until(events, SessionRestarted))[-1]
    assert restarted.reason == "RuntimeError: a cosmic ray"


async def test_callers_wait_across_a_crash(supervisor):
    """Who asked for the cycle hears that it failed; who asked for something else gets an answer."""
    hang = HangingTool()
    session = await supervisor.start_session(
        model=ScriptedModel([wants("hang"), says("second")]), tools=[hang]
    )
    answers = []

    async def ask(text: str) -> None:
        try:
            answers.append(await session.ask(text))
        except CycleFailed as failure:
            answers.append(failure.error.code)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "first")
            await hang.started.wait()
            nursery.start_soon(ask, "second")
            await session.status()
            crash(session)
            assert (await session.status()).restarts == 1
    assert answers == ["session_restarted", "second"]


async def test_messages_not_yet_read_are_not_lost(supervisor):
    """What lay behind the letter that crashed the actor is read by the next one."""
    session = await supervisor.start_session(model=saying("one", "two"))
    answers = []

    async def ask(text: str) -> None:
        answers.append(await session.ask(text))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            crash(session)
            nursery.start_soon(ask, "a")
            nursery.start_soon(ask, "b")
    assert sorted(answers) == ["one", "two"]


async def test_a_crash_during_a_stop_still_ends_the_session(supervisor):
    """Nothing is left to tear down, so the end comes at once, and the caller of `stop` returns."""
    hang = HangingTool()
    session = await supervisor.start_session(model=ScriptedModel([wants("hang")]), tools=[hang])
    async with session.subscribe() as events:
        await session.prompt("Hi")
        await hang.started.wait()
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.stop, "enough")
                await until(events, AgentAbort)
                crash(session)
        seen = await rest(events)
    assert seen[-1] == SessionEnd(reason="enough")


async def test_beyond_the_restart_limit_a_session_is_parked(supervisor):
    """`SessionParked` with the reason, then `SessionEnd`; callers get `SessionDown`, and no sibling notices."""
    sibling = await supervisor.start_session(model=saying("unharmed"))
    session = await supervisor.start_session(model=saying(), session_id="s-1")
    async with session.subscribe() as events:
        for restarts in (1, 2, 3):
            crash(session)
            assert (await session.status()).restarts == restarts
        crash(session, "once too often")
        with pytest.raises(SessionDown, match="parked: RuntimeError: once too often"):
            await session.status()
        seen = await rest(events)
    check_events(seen)
    assert kinds(seen)[-2:] == ["SessionParked", "SessionEnd"]
    assert seen[-2] == SessionParked(reason="RuntimeError: once too often")
    with pytest.raises(SessionDown, match="there is no live session"):
        supervisor.session("s-1")
    assert await sibling.ask("Hi") == "unharmed"


async def test_parked_in_the_middle_of_a_cycle(supervisor):
    """Whoever waits for the cycle or behind it is told, each prompt that waited is dropped aloud."""
    hang = HangingTool()
    session = await supervisor.start_session(
        model=ScriptedModel([wants("hang") for _ in range(5)]), tools=[hang]
    )
    failures = []

    async def ask(text: str) -> None:
        try:
            await session.ask(text)
        except (CycleFailed, SessionDown) as failure:
            failures.append(type(failure).__name__)

    async with session.subscribe() as events:
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                for text in "abcdef":
                    nursery.start_soon(ask, text)
                for _ in range(4):
                    await until(events, ToolExecutionStart)
                    crash(session)
        seen = await rest(events)
    assert sorted(failures) == ["CycleFailed"] * 4 + ["SessionDown"] * 2
    assert kinds(seen)[-1] == "SessionEnd"
    assert kinds(seen).count("PromptDropped") == 2


async def test_an_event_half_published_is_not_lost(supervisor):
    """The actor crashes between two effects of one step; what the step decided is still published, with its number."""
    session = await supervisor.start_session(model=saying("one"))
    async with session.subscribe() as events, session.subscribe() as bad:
        await session.status()
        offer = bad.offer

        def explode_once(event) -> None:
            bad.offer = offer
            message = f"on {type(event).__name__}"
            raise RuntimeError(message)

        bad.offer = explode_once
        with trio.fail_after(10), pytest.raises(CycleFailed):
            await session.ask("Hi")
        await session.stop()
        seen = await rest(events)
    check_events(seen)
    assert "SessionRestarted" in kinds(seen)
