"""A session whose actor crashes comes back, and a few crashes later no more."""

import logging
import re

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
from agentrail.runtime.restart_rules import BACKOFF, MAX_RESTARTS, PERIOD_SECONDS
from agentrail.runtime.supervisor import DISMISS_WITHIN_SECONDS
from agentrail.testing.cancelling import crash
from agentrail.testing.expectations import check_events, check_history
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.tools import HangingTool, RecordingTool, StubbornTool
from tests.runtime.rig import calling, kinds, on_virtual_time, open_bare, rest, saying, until, wants


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


@pytest.mark.at(150)
async def test_beyond_the_restart_limit_a_session_is_parked(supervisor):
    """`SessionParked` with the reason, then `SessionEnd`; callers get `SessionDown`, and no sibling notices."""
    sibling = await supervisor.start_session(model=saying("unharmed"))
    session = await supervisor.start_session(model=saying(), session_id="s-1")
    async with session.subscribe() as events:
        for restarts in (1, 2):
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
        model=ScriptedModel([wants("hang") for _ in range(4)]), tools=[hang]
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
                for _ in range(3):
                    await until(events, ToolExecutionStart)
                    crash(session)
        seen = await rest(events)
    assert sorted(failures) == ["CycleFailed"] * 3 + ["SessionDown"] * 3
    assert kinds(seen)[-1] == "SessionEnd"
    assert kinds(seen).count("PromptDropped") == 3


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


@on_virtual_time
async def test_a_restart_waits_a_little_longer_each_time():
    """Back-off: the first wait, with chance on top, and then twice as long."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=saying())
        waits = []
        async with session.subscribe() as events:
            for _ in range(MAX_RESTARTS):
                began_at = trio.current_time()
                crash(session)
                await until(events, SessionRestarted)
                waits.append(trio.current_time() - began_at)
    first, most = BACKOFF.initial_seconds, 1 + BACKOFF.jitter
    assert first <= waits[0] <= first * most
    assert 2 * first <= waits[1] <= 2 * first * most


@on_virtual_time
async def test_crashes_that_are_far_apart_never_park():
    """Only those within the period count, and each session has a budget of its own."""
    async with open_bare() as supervisor:
        first = await supervisor.start_session(model=saying("one"))
        second = await supervisor.start_session(model=saying("two"))
        for _ in range(4):
            for session in (first, second):
                crash(session)
            await trio.sleep(PERIOD_SECONDS / MAX_RESTARTS + 0.1)
        assert (await first.ask("Hi"), await second.ask("Hi")) == ("one", "two")
        assert supervisor.statistics().restarts == 8


@on_virtual_time
async def test_a_tool_that_shields_itself_does_not_keep_a_session_from_coming_back(caplog):
    """It is waited for within a bound, then named and left behind: it runs once, and what it says later is not heard."""
    stubborn = StubbornTool(deaf_seconds=60.0)
    async with open_bare() as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([wants("stubborn"), says("second")]), tools=[stubborn]
        )
        async with session.subscribe() as events:
            await session.prompt("first")
            await stubborn.started.wait()
            began_at = trio.current_time()
            with caplog.at_level(logging.WARNING, "agentrail.actors"):
                crash(session, "a cosmic ray")
                restarted = (await until(events, SessionRestarted))[-1]
            assert DISMISS_WITHIN_SECONDS <= trio.current_time() - began_at <= DISMISS_WITHIN_SECONDS + 1
            assert restarted.reason == "RuntimeError: a cosmic ray; left behind, still at work: stubborn"
            assert "stuck: child 'stubborn'" in caplog.text
            assert await session.ask("second") == "second"
            await trio.sleep(60)
        messages = await session.messages()
    check_history(messages)
    unknown = "[Outcome unknown: the session crashed while this ran]"
    assert [result.text for result in messages[2].results] == [unknown]
    assert len(stubborn.calls) == 1


async def test_a_temporary_session_is_parked_by_its_first_crash(supervisor):
    """`restart="temporary"` never comes back; it says why, and its id is free."""
    session = await supervisor.start_session(model=saying(), session_id="s-1", restart="temporary")
    async with session.subscribe() as events:
        crash(session, "once")
        seen = await rest(events)
    assert seen[-2:] == [
        SessionParked(reason="RuntimeError: once"),
        SessionEnd(reason="parked: RuntimeError: once"),
    ]
    assert (await session.monitor().wait()).reason == "parked: RuntimeError: once"
    await supervisor.start_session(model=saying(), session_id="s-1")


@pytest.mark.parametrize("restart", ["permanent", "transient"])
async def test_a_session_that_was_stopped_stays_away(supervisor, restart):
    """A session ends cleanly only because somebody wants it to: that is no end to be restarted after."""
    session = await supervisor.start_session(model=saying("ok"), restart=restart)
    async with session.subscribe() as events:
        crash(session)
        await until(events, SessionRestarted)
    await supervisor.stop_session(session.session_id)
    assert (await supervisor.tree()).children == ()


@pytest.mark.at(147)
async def test_a_bug_in_what_carries_an_effect_out_crashes_the_session(supervisor, monkeypatch):
    """Whatever falls out of a task of the session is a crash of its actor: it comes back, and no sibling notices."""

    async def fall(*_: object) -> None:
        message = "a bug of ours"
        raise RuntimeError(message)

    sibling = await supervisor.start_session(model=saying("unharmed"))
    session = await supervisor.start_session(model=calling("record"), tools=[RecordingTool()])
    async with session.subscribe() as events:
        monkeypatch.setattr("agentrail.runtime.tool_calls.ToolCallRunner.run", fall)
        await session.prompt("Go")
        restarted = (await until(events, SessionRestarted))[-1]
    assert re.fullmatch(
        r"RuntimeError: a bug of ours \(runtime/test_restart.py:\d+ in fall\)", restarted.reason
    )
    assert await sibling.ask("Hi") == "unharmed"
