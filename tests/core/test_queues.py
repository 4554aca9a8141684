"""What waits for a session has a limit, and a stated policy for what happens at it; `make lint-repository` has the list of queues."""

from collections import Counter

import pytest

from agentrail.core.protocol.effects import Refuse
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.protocol.signals import Prompt, ReplyQuery, SignalId, Steer
from agentrail.core.session.cycle import MAX_ASKERS
from agentrail.core.session.machine import new_session, step
from agentrail.core.session.state import SessionConfig
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import MailboxFull, PromptQueueFull, SteeringQueueFull
from agentrail.messages import PromptRef, SessionId, SteerRef, Text


@pytest.mark.at(86)
def test_what_waits_for_a_session_has_a_limit_and_is_refused_beyond_it():
    """Prompts, steers, callers who wait for a reply or for the end: one more hears that it is full, and the rest goes on."""
    session_id = SessionId("s")
    config = SessionConfig(
        session_id=session_id,
        path=(session_id,),
        model=ModelFacts(model="scripted:model"),
        max_prompt_queue=3,
        max_steering_queue=2,
    )
    prompts = [
        Prompt(at_ms=1, signal_id=SignalId(f"p{n}"), ref=PromptRef(f"p{n}"), content=(Text(text="go"),))
        for n in range(6)
    ]
    steers = [Steer(at_ms=1, signal_id=SignalId(f"s{n}"), ref=SteerRef(f"s{n}"), text="go") for n in range(4)]
    callers = [ReplyQuery(at_ms=1, signal_id=SignalId(f"q{n}")) for n in range(MAX_ASKERS + 2)]
    state, refused = new_session(config, Toolbox()), Counter[type[Exception]]()
    for signal in (*prompts, *steers, *callers):
        state, effects = step(state, signal)
        refused.update(type(effect.error) for effect in effects if isinstance(effect, Refuse))
    assert refused == {PromptQueueFull: 2, SteeringQueueFull: 2, MailboxFull: 2}
    assert (len(state.data.queue), len(state.data.steers)) == (3, 2)
    assert state.data.cycle is not None
    assert len(state.data.cycle.askers) == MAX_ASKERS
