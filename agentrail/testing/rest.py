"""The world answers all that is open, until a session rests; and what is promised of a whole run, counted from outside.

Promises about one step stand in `promises`. Those here need the end of the story: that every caller was answered, that every
prompt was said or dropped, and that a session that hears nothing any more comes to rest at all.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from agentrail.core.policy.budget import NOTHING_SPENT
from agentrail.core.protocol.effects import Publish, Refuse, ReplyToCaller, SpawnChild
from agentrail.core.protocol.hooks import RequestFailed
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    AgentEnded,
    AgentIdled,
    Asked,
    ContextGathered,
    HostJudged,
    HostTold,
    PluginRequestFinished,
    Prompt,
    ResponseCompleted,
    Signal,
    Steer,
    TeardownFinished,
    TimerFired,
    ToolFinished,
)
from agentrail.core.session import machine
from agentrail.core.session.owners import OfChild, OfContext, OfHostCheck, OfHostReport, owned_by
from agentrail.core.session.state import Phase, SessionState
from agentrail.errors import ErrorInfo
from agentrail.events import (
    TERMINAL,
    AbortReceipt,
    AgentStart,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptTaken,
)
from agentrail.messages import AssistantMessage, PromptRef, Text, TokenUsage, UserMessage
from agentrail.testing.open_places import timers_of
from agentrail.testing.promises import Seen
from agentrail.testing.promises.seen import plugin_requests_of, teardowns_of

LATER_MS: Final = 1_000_000
"""Behind all that a script does."""

MANY: Final = 200
"""More answers than a session can need that asks for something new only when a caller speaks."""

_NOTHING_THERE: Final = RequestFailed(
    error=ErrorInfo(code="not_there", message="there is nothing behind this")
)


def answer_what_is_open(state: SessionState) -> Signal | None:
    """Give the outcome of one effect that is open, a good one; None when nothing is."""
    data = state.data
    running = [
        call.effect_id for call in (*data.batch, *data.survivors) if call.stage in {"running", "stopping"}
    ]
    if plugin_requests_of(state):
        return PluginRequestFinished(
            at_ms=LATER_MS, effect_id=plugin_requests_of(state)[0], result=_NOTHING_THERE
        )
    for effect_id, _ in owned_by(data.open, OfHostCheck):
        return HostJudged(at_ms=LATER_MS, effect_id=effect_id)
    for effect_id, _ in owned_by(data.open, OfHostReport):
        return HostTold(at_ms=LATER_MS, effect_id=effect_id)
    gathering = [effect_id for effect_id, _ in owned_by(data.open, OfContext)]
    if gathering:
        return ContextGathered(at_ms=LATER_MS, effect_id=gathering[0])
    below = [effect_id for effect_id, _ in owned_by(data.open, OfChild)]
    if below:  # the session of a tool ends before the tool
        return ToolFinished(at_ms=LATER_MS, effect_id=below[0], text="done", started_at_ms=0)
    if data.compaction is not None and data.compaction.summary is not None:
        return PluginRequestFinished(
            at_ms=LATER_MS, effect_id=data.compaction.effect_id, result=_NOTHING_THERE
        )
    if data.compaction is not None:
        return _all_right(data.compaction.effect_id)
    leaving = [agent for agent in data.agents.states if agent.status in {"closing", "stopping"}]
    if leaving:
        return AgentEnded(at_ms=LATER_MS, effect_id=leaving[0].effect_id, reason="closed")
    working = [agent for agent in data.agents.states if agent.status == "working"]
    if working:
        return AgentIdled(
            at_ms=LATER_MS,
            effect_id=working[0].effect_id,
            outcome="finished",
            text="done",
            turns=1,
            spent=NOTHING_SPENT,
        )
    if teardowns_of(state):
        return TeardownFinished(at_ms=LATER_MS, effect_id=teardowns_of(state)[0], receipt=AbortReceipt())
    if timers_of(state) and not running:
        return TimerFired(at_ms=LATER_MS, effect_id=timers_of(state)[0])
    if data.stream is not None and not data.stream.pausing:
        return _all_right(data.stream.effect_id)
    if running:
        return ToolFinished(at_ms=LATER_MS, effect_id=EffectId(str(running[0])), text="done", started_at_ms=0)
    return None


def come_to_rest(state: SessionState) -> Iterator[Seen]:
    """Let the world answer whatever is open, and show every step, until nothing is. It takes a few steps per prompt.

    Raises:
        AssertionError: It does not end.
    """
    for _ in range(MANY):
        signal = answer_what_is_open(state)
        if signal is None:
            return
        before, (state, effects) = state, machine.step(state, signal)
        yield Seen(before, signal, state, effects)
    message = f"after {MANY} answers the session still has something open: {answer_what_is_open(state)}"
    raise AssertionError(message)


def run_is_complete(run: Sequence[Seen]) -> None:
    """Hold what is promised of a run that has come to rest: counted from outside, without a look into the state."""
    if not run:
        return
    end = run[-1].after
    assert end.ended or end.phase is Phase.IDLE
    alive = [seen for seen in run if not seen.before.ended]
    asked = [seen.signal.signal_id for seen in alive if isinstance(seen.signal, Asked)]
    asked += [by for seen in alive if (by := getattr(seen.signal, "asked_by", None)) is not None]
    answered = [
        effect.to for seen in run for effect in seen.effects if isinstance(effect, ReplyToCaller | Refuse)
    ]
    wishes = [effect.wish for seen in run for effect in seen.of(SpawnChild)]
    answered += [wish.signal_id for wish in wishes if wish is not None]
    assert Counter(answered) == Counter(asked)
    events = [effect.event for seen in run for effect in seen.effects if isinstance(effect, Publish)]
    accepted = [event.ref for event in events if isinstance(event, PromptReceived | PromptQueued)]
    dropped = [
        event.ref for event in events if isinstance(event, PromptDropped | PromptRejected | PromptTaken)
    ]
    said = Counter[PromptRef | None]()
    for history in {id(seen.after.data.history): seen.after.data.history for seen in run}.values():
        # Not at the end only: a summary may stand for what was said early.
        said |= Counter(
            m.ref for m in history.messages if isinstance(m, UserMessage) and m.origin == "prompt"
        )
    # One that was judged when the session crashed is received, and then queued: it is one prompt all the same.
    assert said + Counter(dropped) == Counter(set(accepted))
    accepted = [ref for ref in accepted if not ref.startswith("wake/")]  # no one said these
    assert set(accepted) <= {seen.signal.ref for seen in alive if isinstance(seen.signal, Prompt | Steer)}
    running = 0
    for event in events:
        running += isinstance(event, AgentStart)
        running -= type(event) in TERMINAL and running > 0
        assert running <= 1
    assert running == 0


def _all_right(effect_id: EffectId) -> ResponseCompleted:
    message = AssistantMessage(content=(Text(text="all right"),), model="scripted:model", stop_reason="end")
    usage = TokenUsage(input=1, output=1)
    return ResponseCompleted(
        at_ms=LATER_MS, effect_id=effect_id, message=message, usage=usage, stop_reason="end"
    )
