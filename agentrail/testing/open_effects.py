"""Generated signals fitted to a state: the open effects, timers, calls and interactions that they name. Needs no hypothesis."""

from collections.abc import Iterable
from typing import Final, TypeVar

from msgspec.structs import replace

from agentrail.core.protocol import signals as s
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Recovered
from agentrail.core.session.effect_owners import OfChild, OfContext, OfHostCheck, OfHostReport, owned_by
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.state import Phase, SessionState
from agentrail.messages import (
    ApprovalId,
    AssistantMessage,
    CallId,
    ClientCallRef,
    PromptRef,
    QuestionRef,
    SteerRef,
)
from agentrail.testing.promises.observed_step import plugin_requests_of, teardowns_of

# A strategy generates a position (`0`, `1`, `late`), which becomes an id here. So a shortened script still names the open
# effects of its state.


_OF_TOOLS: Final[tuple[type[s.Signal], ...]] = (
    *(s.ToolFinished, s.ToolProgressed, s.ToolEmitted, s.ToolAnsweredEarly, s.ToolAsked, s.ToolWantsChild),
)
_OF_AGENTS: Final[tuple[type[s.Signal], ...]] = (s.AgentIdled, s.AgentEnded, s.ChildStarted, s.ChildPublished)
_PREFIXES: Final[dict[type, str]] = {
    **dict.fromkeys(_OF_TOOLS, "t"),
    **dict.fromkeys(_OF_AGENTS, "a"),
    s.TeardownFinished: "d",
    s.TimerFired: "w",
    s.PluginRequestFinished: "e",
    s.ContextGathered: "g",
    **dict.fromkeys((s.HostJudged, s.HostTold), "h"),
}
"""The first letter of an effect's id by its outcomes. Those of requests have an r."""


def id_at(outcome: s.EffectOutcome | s.ToolAsked | s.ToolWantsChild, state: SessionState) -> EffectId:
    """Return the effect at the generated position. For `late`, or without any, an id that is no longer open."""
    ids = open_ids(outcome, state)
    if outcome.effect_id == "late" or not ids:
        return EffectId(f"{_PREFIXES.get(type(outcome), 'r')}{max(state.data.minted - 1, 0)}")
    return ids[int(outcome.effect_id) % len(ids)]


def open_ids(
    outcome: s.EffectOutcome | s.ToolAsked | s.ToolWantsChild, state: SessionState
) -> list[EffectId]:
    """Return the open effects that such an outcome may belong to."""
    data = state.data
    match outcome:
        case _ if isinstance(outcome, _OF_TOOLS):
            ends_some_time = {"running", "stopping"}
            running = ids_of(call for call in (*data.batch, *data.survivors) if call.stage in ends_some_time)
            of_tools = [effect_id for effect_id, _ in owned_by(data.open, OfChild)]
            return [*running, *of_tools] if isinstance(outcome, s.ToolFinished) else running
        case _ if isinstance(outcome, _OF_AGENTS):
            return [agent.effect_id for agent in data.agents.alive]
        case s.TeardownFinished():
            return teardowns_of(state)
        case s.TimerFired():
            return timers_of(state)
        case s.PluginRequestFinished():
            return plugin_requests_of(state)
        case s.HostJudged():
            return [effect_id for effect_id, _ in owned_by(data.open, OfHostCheck)]
        case s.HostTold():
            return [effect_id for effect_id, _ in owned_by(data.open, OfHostReport)]
        case s.ContextGathered():
            return [effect_id for effect_id, _ in owned_by(data.open, OfContext)]
        case _:
            return [data.stream.effect_id] if data.stream and not data.stream.pausing else []


def can_go_on(state: SessionState) -> bool:
    """Return whether the conversation ends with a message that a model could answer without a new prompt."""
    data, messages = state.data, state.data.history.messages
    rests = state.phase is Phase.IDLE and data.cycle is None and data.teardown is None and not state.ended
    return rests and bool(messages) and not isinstance(messages[-1], AssistantMessage)


def timers_of(state: SessionState) -> list[EffectId]:
    """Return the ids of all timers of a session: for interactions, pauses, waiting hooks, and waits for agents."""
    data = state.data
    waiting = [interaction.timer for interaction in data.interactions if interaction.timer is not None]
    pausing = ids_of(call for call in data.batch if call.stage == "pausing")
    between = [data.stream.effect_id] if data.stream is not None and data.stream.pausing else []
    holding = [data.held.timer] if data.held is not None else []
    for_agents = [wait.timer for wait in data.agents.waits if wait.timer is not None]
    return [*waiting, *pausing, *between, *holding, *for_agents]


def ids_of(calls: Iterable[CallState]) -> list[EffectId]:
    return [call.effect_id for call in calls if call.effect_id is not None]


def interaction_at(place: str, state: SessionState) -> str:
    """Return the pending interaction at this position. For `late`, or without any, the last decided or an unknown one."""
    ids = [str(interaction.id) for interaction in state.data.interactions]
    if place == "late" or not ids:
        ids = [resolved.id for resolved in state.data.resolved[-1:]] or ["unknown/a0"]
        return ids[0]
    return ids[int(place) % len(ids)]


def call_at(place: str, state: SessionState) -> CallId:
    """Return the call at this position. For `late`, or without any, an unknown one."""
    calls = [call.call.call_id for call in (*state.data.batch, *state.data.survivors)]
    return calls[int(place) % len(calls)] if calls and place != "late" else CallId("c0")


S = TypeVar("S", bound=s.Signal)

_MUCH_LATER_MS: Final = 200_000


def fit(signal: S, state: SessionState, number: int) -> S:
    changes: dict[str, object] = {"at_ms": 10 * number}
    match signal:
        case s.Asked():
            changes["signal_id"] = s.SignalId(f"s{number}")
        case s.EffectOutcome():
            changes["effect_id"] = id_at(signal, state)
        case s.Restarted():
            changes["incarnation"] = state.data.incarnation + 1
        case s.Recovered():
            changes |= _fitting_recovery(signal, state, number)
        case _:
            pass
    match signal:
        case s.Prompt() | s.GoOn():
            changes["ref"] = PromptRef(f"s{number}")
        case s.Steer():
            changes["ref"] = SteerRef(f"s{number}")
        case s.Approve(approval_id=place) | s.Reject(approval_id=place):
            changes["approval_id"] = ApprovalId(interaction_at(place, state))
        case s.ToolAsked() | s.ToolWantsChild():
            changes["effect_id"] = id_at(signal, state)
        case s.AnswerCall(ref=place):
            changes["ref"] = ClientCallRef(interaction_at(place, state))
        case s.Respond(ref=place) | s.Decline(ref=place):
            changes["ref"] = QuestionRef(interaction_at(place, state))
        case s.AbortTool(call_id=place):
            changes["call_id"] = call_at(place, state)
        case s.RevokeRule(breakpoint=change) if state.data.rules and change != "set":
            rule = min(state.data.rules, key=lambda one: (one.tool, one.family or "", one.breaks))
            change = "end" if rule.breaks else None
            changes |= {
                "tool": rule.tool,
                "command_family": rule.family,
                "exact": rule.exact,
                "breakpoint": change,
            }
        case s.ChangeTools():
            changes["generation"] = number
        case _:
            pass
    return replace(signal, **changes)


def _fitting_recovery(drawn: Recovered, state: SessionState, number: int) -> dict[str, object]:
    """Return the open effects named by a record, and a time. Every other one comes after all deadlines."""
    at_ms = 10 * number if number % 2 else _MUCH_LATER_MS + 10 * number
    return {"open": _begun(drawn.open, state), "at_ms": at_ms}


def _begun(places: tuple[EffectId, ...], state: SessionState) -> tuple[EffectId, ...]:
    ids = sorted(state.data.open)
    match places:
        case ("all",):
            return tuple(ids)
        case ("some",):
            return tuple(ids[::2])
        case _:
            return tuple(EffectId("t0") if place == "late" else place for place in places)
