"""Handing a session over to another of its agents, as data: when it takes effect, what changes with it, and what does not (12.2.8)."""

import msgspec
import pytest

from agentrail.core.protocol.effects import StartStream
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.protocol.signals import AbortCycle, SignalId, TeardownFinished, ToolFinished
from agentrail.core.session import machine
from agentrail.core.session.agent_records import AgentSpec
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.events import AbortReceipt, AgentChanged, PluginFailed, ToolExecutionEnd
from agentrail.messages import ToolMessage
from agentrail.plugins import OutputFilter, Permissions, Planning
from agentrail.testing.check_dialects import check_dialects
from tests.core.worlds import TOOLS, completed, new_session, prompt, run, walk

HANDOFF = ToolSpec(
    name="handoff_to", description="Hand over.", parameters={"type": "object"}, answered_by="machine"
)
LOOK = ToolSpec(name="look", description="Looks.", parameters={"type": "object"})
AGENTS = (
    AgentSpec(
        name="clerk",
        description="Pays.",
        handoff=True,
        system_prompt="You pay.",
        model=ModelFacts(model="scripted:small"),
        tools=Toolbox([LOOK]),
    ),
    AgentSpec(name="poet", description="Writes.", handoff=True),
    AgentSpec(name="scout", description="Looks.", background=True),
)


def session(**options):
    """A session with two agents that it may be handed over to, and one for the background."""
    return new_session(
        Toolbox([*TOOLS, HANDOFF]),
        system_prompt="You lead.",
        **({"max_turns": 9, "agents": AGENTS} | options),
    )


def hand(number, agent, **more):
    given = {"agent": agent, **more}
    return read_call(f"h{number}", "handoff_to", msgspec.json.encode(given).decode())


def said(seen, kind):
    return [event for one in seen for event in one.events if isinstance(event, kind)]


def last_request(seen):
    return [start.request for one in seen for start in one.of(StartStream)][-1]


def results(seen):
    """What was answered to the calls of the last batch."""
    messages = seen[-1].after.data.history.messages
    (last,) = [one for one in messages[-2:] if isinstance(one, ToolMessage)]
    return [result.text for result in last.results]


def test_the_others_of_its_batch_end_first_with_the_tools_they_began_with():
    """It takes effect in front of the next request, and not before."""
    script = [prompt("p"), completed("r1", hand(1, "clerk"), read_call("c1", "read", "{}"))]
    seen = list(walk(script, session()))
    assert not said(seen, AgentChanged)
    assert seen[-1].after.data.acting.next == "clerk"
    (call,) = [one for one in seen[-1].after.data.batch if one.stage == "running"]
    ended = ToolFinished(at_ms=5, effect_id=call.effect_id, text="text", started_at_ms=1)
    seen = list(walk([ended], seen[-1].after))
    assert len(said(seen, AgentChanged)) == 1
    assert results(seen) == ["clerk goes on from here.", "text"]


def test_calls_of_tools_that_are_listed_no_more_stand_in_the_conversation():
    """A tool of the agent before is unknown to the session (G-009), and every format takes its calls in the next request (12.14, trap 8)."""
    script = [prompt("p"), completed("r1", hand(1, "clerk")), completed("r2", read_call("c2", "read", "{}"))]
    seen = list(walk(script, session()))
    (text,) = results(seen)
    assert text.startswith('There is no tool "read".') or "read" in text
    assert said(seen, ToolExecutionEnd)[-1].result.is_error

    script = [prompt("p"), completed("r1", read_call("c1", "read", "{}"), hand(1, "clerk"))]
    state = run(script, session())
    (call,) = [one for one in state.data.batch if one.stage == "running"]
    ended = ToolFinished(at_ms=5, effect_id=call.effect_id, text="text", started_at_ms=1)
    request = last_request(list(walk([ended], state)))
    assert "read" not in request.tools.names
    assert any(call.name == "read" for message in request.messages for call in getattr(message, "calls", ()))
    check_dialects(request)


def test_to_itself_twice_and_with_a_note_that_is_too_long():
    """Each is refused, and the first that was good stands."""
    calls = (hand(1, "poet", note="x" * 4_001), hand(2, "poet"), hand(3, "clerk"))
    seen = list(walk([prompt("p"), completed("r1", *calls)], session(max_parallel_tools=3)))
    assert results(seen) == [
        "The note has 4001 characters, and at most 4000 are allowed.",
        "poet goes on from here.",
        "The session is handed over to poet already: once in a response.",
    ]
    seen = list(walk([completed("r2", hand(4, "poet"))], seen[-1].after))
    assert results(seen) == ["This session works as poet already, so nothing is handed over. Agents: clerk."]


@pytest.mark.parametrize("is_found", [True, False])
def test_plugins_and_permissions_are_looked_at_again_when_it_takes_effect(is_found):
    """What held them went in between: the session stays what it was, and says so. A guard's state goes on where it is there (12.2.8)."""
    own = PluginRecord(name="OutputFilter", version="0", origin="x:y", options={})
    holds = {"permissions": {"deny": ["read"]}, "plugins": (own,)}
    spec = AgentSpec(name="clerk", description="Pays.", handoff=True, **holds)
    found = {own.name: OutputFilter}

    def ask(member, event, state, ctx):
        return member.plugin.handle(event, state, ctx)

    ask.find = lambda change, record: found.get(record.name) if change == "agent/clerk/OutputFilter" else None
    stack, states = load_stack([(Permissions, {"allow": ["handoff_to"]}), Planning], ask=ask)
    settings = session(agents=(spec,)).data.config
    start = machine.new_session(settings, Toolbox([*TOOLS, HANDOFF]), stack, states)
    script = [prompt("p"), completed("r1", hand(1, "clerk"), read_call("c1", "read", "{}"))]
    state = run([*script, AbortCycle(at_ms=5, signal_id=SignalId("a"), reason="no")], start)
    assert state.data.acting.next == "clerk"
    if not is_found:
        found.clear()
    if state.data.teardown is not None:
        gone = state.data.teardown.effect_id
        state = run([TeardownFinished(at_ms=8, effect_id=gone, receipt=AbortReceipt())], state)
    seen = list(walk([prompt("p2", at_ms=9)], state))
    after = seen[-1].after.data
    assert after.acting.next is None
    if is_found:
        assert after.stack.names == ("Permissions", "OutputFilter")
        assert after.plugin_states["Permissions"].within[0].deny[0].text == "read"
        assert after.acting.name == "clerk"
        return
    (failed,) = said(seen, PluginFailed)
    assert (failed.plugin, failed.hook, failed.policy) == ("clerk", "Handoff", "closed")
    assert "is missing" in failed.error.message
    assert (after.stack.names, after.acting.name) == (("Permissions", "Planning"), None)
    attempt = last_request(seen).attempt
    refused = list(walk([completed(attempt, hand(2, "clerk"))], seen[-1].after))
    assert results(refused)[0].startswith("Nothing is handed over: ")
