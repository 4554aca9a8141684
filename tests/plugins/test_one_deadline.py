"""One deadline for approvals, the session's, and none unless an operator sets it; journals of before keep the one that they were lived with."""

import msgspec
import pytest
import trio

from agentrail import open_supervisor
from agentrail.core.protocol.effects import Publish, SetTimer
from agentrail.core.protocol.signal_base import SignalId
from agentrail.core.protocol.signals import Prompt, SessionBegan
from agentrail.core.session import machine
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.events import AgentSuspended, ApprovalRequired
from agentrail.messages import CallId, PromptRef, Text, ToolCall
from agentrail.plugins import HumanApproval, Permissions
from agentrail.runtime.session_options import SessionOptions
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.core.worlds import TOOLS, completed, config, stream_of

ASKERS = [HumanApproval, Permissions]


@pytest.mark.parametrize("plugin", ASKERS)
@pytest.mark.parametrize("semantics", [0, 1])
def test_a_journal_of_before_folds_with_the_deadline_that_it_was_lived_with(plugin, semantics):
    """Its timer took an id, so without it all ids behind it would be other ones."""
    entry = (HumanApproval, {"require_approval_for": ["deploy"]}) if plugin is HumanApproval else plugin
    stack, states = load_stack([entry])
    state = machine.new_session(config(approval_timeout_ms=None), TOOLS, stack, states)
    old = msgspec.structs.replace(state.data, semantics=semantics)
    state = msgspec.structs.replace(state, data=old)
    script = (
        SessionBegan(at_ms=0),
        Prompt(at_ms=1, signal_id=SignalId("p1"), ref=PromptRef("p1"), content=(Text(text="Go"),)),
    )
    for signal in script:
        state, _ = machine.step(state, signal)
    call = ToolCall(call_id=CallId("c1"), name="deploy", arguments={"path": "a"})
    _, effects = machine.step(state, completed(stream_of(state), call, at_ms=10))
    timers = [one.at_ms for one in effects if isinstance(one, SetTimer)]
    assert [type(one.event) for one in effects if isinstance(one, Publish)][-1] is AgentSuspended
    assert timers == ([120_010] if semantics == 0 else [])


@pytest.mark.parametrize("plugin", ASKERS)
async def test_the_deadline_of_the_session_is_that_of_its_plugins(plugin, autojump_clock):
    """`approval_timeout_seconds`, and no number of a plugin."""
    model = ScriptedModel([calls(("shell", {"command": "make"})), says("x")])
    async with open_supervisor() as supervisor:
        session = await supervisor.start_session(
            model=model, tools=[RecordingTool(name="shell")], plugins=[plugin], approval_timeout_seconds=7
        )
        async with session.subscribe(kinds=[ApprovalRequired]) as events:
            began = trio.current_time()
            assert await session.ask("Go") == "x"
            assert 7 <= trio.current_time() - began < 8
            asked = (await anext(events)).approval
        assert asked.expires_at_ms - asked.requested_at_ms == 7_000


@pytest.mark.parametrize("plugin", ASKERS)
async def test_without_a_word_of_an_operator_an_approval_waits_until_it_is_decided(plugin, autojump_clock):
    """A day is nothing."""
    assert SessionOptions(model="demo:").approval_timeout_seconds == 0
    model = ScriptedModel([calls(("shell", {"command": "make"})), says("x")])
    async with open_supervisor() as supervisor:
        session = await supervisor.start_session(
            model=model, tools=[RecordingTool(name="shell")], plugins=[plugin]
        )
        await session.prompt("Go")
        await session.wait_for(AgentSuspended)
        await trio.sleep(86_400)
        (asked,) = (await session.status()).approvals
        assert asked.expires_at_ms is None
        await session.approve(asked.id)
        assert await session.collect_reply() == "x"
