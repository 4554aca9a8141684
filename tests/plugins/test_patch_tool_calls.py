"""`PatchToolCalls`: what was repaired in an imported conversation is told once."""

import trio
from hypothesis import given, strategies as st

import agentrail
from agentrail.core.protocol.effects import Publish, StartStream
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.protocol.signals import Prompt, SignalId
from agentrail.core.session import machine
from agentrail.core.session.state import SessionConfig
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.import_history import NO_RESULT, import_messages
from agentrail.core.values.toolbox import Toolbox
from agentrail.events import PluginEvent, SessionStart
from agentrail.messages import PromptRef, SessionId, Text
from agentrail.plugins.patch_tool_calls import PatchToolCalls
from agentrail.testing import strategies
from agentrail.testing.models import ScriptedModel, says
from tests.plugins.rig import said, user


def prompted(messages):
    """What the first prompt of a session leads to that goes on with these messages."""
    session_id = SessionId("s")
    config = SessionConfig(session_id=session_id, path=(session_id,), model=ModelFacts(model="x:y"))
    stack, states = load_stack([PatchToolCalls])
    state = machine.new_session(config, Toolbox(), stack, states, messages)
    content = (Text(text="Go on."),)
    prompt = Prompt(at_ms=1, signal_id=SignalId("p"), ref=PromptRef("p"), content=content, reply="receipt")
    return machine.step(state, prompt)[1]


async def test_a_session_goes_on_with_a_broken_conversation_and_says_what_was_repaired():
    """The request is valid, and `history_repaired` has each change with its place in the messages (AT-007)."""
    effects = prompted([user("Look."), said("", c1={"command": "ls"})])
    (request,) = [effect.request for effect in effects if isinstance(effect, StartStream)]
    assert request.messages[2].results[0].text == NO_RESULT
    (event,) = [e.event for e in effects if isinstance(e, Publish) and isinstance(e.event, PluginEvent)]
    assert event.name == "history_repaired"
    assert event.payload["repairs"] == [{"code": "missing_result", "position": 1, "call_id": "c1"}]

    options = {"messages": [said("", c1={"command": "ls"})], "plugins": [PatchToolCalls]}
    with trio.fail_after(60):
        async with agentrail.open_supervisor() as supervisor:
            session = await supervisor.start_session(model=ScriptedModel([says("On I go.")]), **options)
            async with session.subscribe(after=0, kinds=[SessionStart, PluginEvent]) as events:
                await session.ask("Go on")
                assert isinstance(await anext(events), SessionStart)
                event = await anext(events)
    assert (event.name, event.payload["count"]) == ("history_repaired", 1)
    assert event.payload["repairs"] == [{"code": "missing_result", "position": 0, "call_id": "c1"}]


@given(messages=st.lists(strategies.messages(), max_size=6))
def test_it_speaks_if_and_only_if_something_was_changed(messages):
    """Whatever a session begins with: each repair is in the event, and of a valid conversation there is none."""
    events = [
        e.event for e in prompted(messages) if isinstance(e, Publish) and isinstance(e.event, PluginEvent)
    ]
    _, repairs = import_messages(messages)
    told = [repair for event in events for repair in event.payload["repairs"]]
    assert told == [
        {"code": repair.code, "position": repair.position, "call_id": repair.call_id} for repair in repairs
    ]
    assert len(events) == bool(repairs)
