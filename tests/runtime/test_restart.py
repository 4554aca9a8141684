"""A session whose actor crashes comes back, and a few crashes later no more."""

import logging
import re

import pytest
import trio

from agentrail.errors import CycleFailed, SessionDown
from agentrail.events import SessionParked, SessionRestarted, ToolExecutionStart
from agentrail.runtime.supervisor import DISMISS_WITHIN_SECONDS
from agentrail.testing.cancelling import check_events, check_history, crash
from agentrail.testing.models import ScriptedModel
from agentrail.testing.tools import HangingTool, RecordingTool, StubbornTool
from tests.runtime.rig import calling, kinds, on_virtual_time, open_bare, rest, saying, until, wants


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
        with trio.fail_after(60):
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


@on_virtual_time
async def test_a_tool_that_shields_itself_does_not_keep_a_session_from_coming_back(caplog):
    """It is waited for within a bound, then named and left behind: it runs once, and what it says later is not heard."""
    stubborn = StubbornTool(deaf_seconds=60.0)
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=calling("stubborn", then="second"), tools=[stubborn])
        async with session.subscribe() as events:
            await session.prompt("first")
            await stubborn.started.wait()
            began_at = trio.current_time()
            with caplog.at_level(logging.WARNING, "agentrail.actors"):
                crash(session, "a cosmic ray")
                restarted = (await until(events, SessionRestarted))[-1]
            assert DISMISS_WITHIN_SECONDS <= trio.current_time() - began_at <= DISMISS_WITHIN_SECONDS + 1
            assert restarted.reason == "RuntimeError: a cosmic ray; left behind, still running: stubborn"
            assert "stuck: child 'stubborn'" in caplog.text
            assert await session.ask("second") == "second"
            await trio.sleep(60)
        messages = await session.messages()
    check_history(messages)
    unknown = "[Outcome unknown: the session crashed while this ran]"
    assert [result.text for result in messages[2].results] == [unknown]
    assert len(stubborn.calls) == 1


@pytest.mark.at(147)
@pytest.mark.parametrize("error", [RuntimeError("a bug of ours"), GeneratorExit("foreign")])
async def test_a_bug_in_what_carries_an_effect_out_crashes_the_session(supervisor, monkeypatch, error):
    """Whatever falls out of a task of the session is a crash of its actor: it comes back, and no sibling notices."""

    async def fall(*_: object) -> None:
        raise error

    sibling = await supervisor.start_session(model=saying("unharmed"))
    session = await supervisor.start_session(model=calling("record"), tools=[RecordingTool()])
    async with session.subscribe() as events:
        monkeypatch.setattr("agentrail.runtime.tool_calls.ToolCallRunner.run", fall)
        await session.prompt("Go")
        restarted = (await until(events, SessionRestarted))[-1]
    said = f"{type(error).__name__}: {error}"
    assert re.fullmatch(rf"{said} \(runtime/test_restart.py:\d+ in fall\)", restarted.reason)
    assert await sibling.ask("Hi") == "unharmed"
