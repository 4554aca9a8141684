"""Agents in the background: started by a call and outliving it, prompted, awaited as data, closed.

They outlive the cycle that starts them, but never the session.
"""

from typing import Final

from msgspec.structs import replace

from agentrail.core.policy.budget import spent_since
from agentrail.core.protocol.effects import (
    ClearTimer,
    CloseAgent,
    KillTools,
    PromptAgent,
    SetTimer,
    StartAgent,
)
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import AgentEnded, AgentIdled
from agentrail.core.session import call_results
from agentrail.core.session.agent_records import AgentSpec, AgentState, AgentWait, find_agent
from agentrail.core.session.effect_owners import OfAgent, OfAgentWait
from agentrail.core.session.reservations import lend_to_agent, settle_agent
from agentrail.core.session.state import QueuedPrompt
from agentrail.core.session.step_context import StepContext
from agentrail.core.values.sources import more_sources
from agentrail.errors import ErrorInfo
from agentrail.events import PromptQueued, SubagentEnd
from agentrail.messages import CallId, JsonValue, PromptRef, Text, ToolResult
from agentrail.structs import struct_from

MAX_NOTE_CHARACTERS: Final = 2_000
"""Maximum length of an agent's answer in a note. `wait_agents` returns the rest."""

MAX_ENDED: Final = 64
"""Maximum number of ended agents that are remembered with their answers."""

MAX_NOTES: Final = 64
"""Maximum number of notes that wait for the next turn. The oldest are dropped first."""

_DONE: Final = frozenset({"idle", "ended"})


# --- outcomes of agents


def idled(step: StepContext, name: str, signal: AgentIdled) -> None:
    """Handle the end of an agent's cycle: book its usage, send its pending inputs, and answer the calls that wait for it."""
    state = _of(step, name)
    settle_agent(step, state.loan, spent_since(signal.spent, state.spent))
    before = state.status
    state = replace(
        state,
        status="idle" if before == "working" else before,
        outcome=signal.outcome,
        answer=signal.text,
        turns=signal.turns,
        spent=signal.spent,
        loan=None,
    )
    put_agent(step, state)
    if before == "closing":
        step.ask(CloseAgent(effect_id=state.effect_id, reason="closed"))
    elif before == "working" and state.inputs:
        _drain(step, state)
    is_waited_for = any(name in wait.names for wait in step.data.agents.waits)
    decide_waits(step)
    if before == "working" and not is_waited_for and _of(step, name).status == "idle":
        _tell(step, state)


def ended(step: StepContext, name: str, signal: AgentEnded) -> None:
    state = _of(step, name)
    settle_agent(step, state.loan, None if signal.spent is None else spent_since(signal.spent, state.spent))
    was_told = state.status in {"closing", "stopping"}
    state = replace(
        state,
        status="ended",
        loan=None,
        inputs=(),
        reason=signal.reason,
        spent=state.spent if signal.spent is None else signal.spent,
    )
    put_agent(step, state)
    _forget_old(step)
    if state.child_id is not None:
        result = ToolResult(
            call_id=state.call_id,
            name="spawn_agent",
            text=state.answer or f"[{signal.reason}]",
            is_error=signal.is_lost,
        )
        step.publish(SubagentEnd(child_id=state.child_id, call_id=state.call_id, result=result))
    is_waited_for = any(name in wait.names for wait in step.data.agents.waits)
    decide_waits(step)
    if not is_waited_for and not was_told:
        _tell(step, state)


def stop_all(step: StepContext) -> tuple[EffectId, ...]:
    ids: list[EffectId] = []
    for state in step.data.agents.alive:
        if state.status != "stopping":
            put_agent(step, replace(state, status="stopping", inputs=()))
            ids.append(state.effect_id)
    if ids:
        step.ask(KillTools(effect_ids=tuple(ids)))
    return tuple(ids)


def restart_all(step: StepContext) -> None:
    """Reconnect to the agents that survived a crash of this session. Those that were closing are closed again."""
    for state in step.data.agents.alive:
        effect_id = step.mint("a")
        again = replace(state, effect_id=effect_id)
        put_agent(step, again)
        step.start(struct_from(StartAgent, again, budget=None, after=again.seen), OfAgent(state.name))
        if state.status in {"closing", "stopping"}:
            step.ask(CloseAgent(effect_id=effect_id, reason="closed"))
    team = step.data.agents
    if team.waits:
        step.data.agents = replace(team, waits=tuple([_armed(step, wait) for wait in team.waits]))


def forget_all(step: StepContext, reason: str) -> None:
    """Mark all agents as ended, because the session ends."""
    for state in step.data.agents.alive:
        put_agent(step, replace(state, status="ended", loan=None, inputs=(), reason=reason))
        if step.ended(state.effect_id) is not None:
            step.ask(CloseAgent(effect_id=state.effect_id, reason=reason))
    for wait in step.data.agents.waits:
        _close_wait(step, wait)


# --- waiting


def open_wait(step: StepContext, wait: AgentWait) -> None:
    team = step.data.agents
    step.data.agents = replace(team, waits=(*team.waits, _armed(step, wait)))


def withdraw_wait(step: StepContext, call_id: CallId) -> None:
    """End the wait of a call that is answered otherwise."""
    for wait in step.data.agents.waits:
        if wait.call_id == call_id:
            _close_wait(step, wait)


def decide_waits(step: StepContext) -> None:
    for wait in step.data.agents.waits:
        if wait.until == "time":
            continue
        states = [step.data.agents.find(name) for name in wait.names]
        met = [_is_met(wait, state) for state in states]
        if any(met) if wait.match == "any" else all(met):
            _close_wait(step, wait)
            _answer(step, wait, report_of(step, wait.names))


def expire_wait(step: StepContext, call_id: CallId) -> None:
    """Answer a call at its time limit, and list the agents that are still working."""
    wait = next(one for one in step.data.agents.waits if one.call_id == call_id)
    team = step.data.agents
    step.data.agents = replace(team, waits=tuple([one for one in team.waits if one is not wait]))
    if wait.until == "time":
        _answer(step, wait, f"[Slept {_seconds(step, wait):g} s]")
        return
    late = _late(step, wait)
    _answer(
        step, wait, f"[The time is up. Still at work: {', '.join(late)}]\n\n{report_of(step, wait.names)}"
    )


def wake_waits(step: StepContext) -> None:
    """Answer all waiting calls with the status of their agents, because of a steer. Calls that close an agent keep waiting."""
    for wait in step.data.agents.waits:
        if wait.until == "time":
            _wake_sleeper(step, wait)
            continue
        if call_results.one_of_batch(step, wait.call_id).call.name != "wait_agents":
            continue
        late = _late(step, wait)
        _close_wait(step, wait)
        head = f"[The user has something to say. Still at work: {', '.join(late)}]"
        _answer(step, wait, f"{head}\n\n{report_of(step, wait.names)}")


def report_of(step: StepContext, names: tuple[str, ...]) -> str:
    return "\n\n".join([_report(name, step.data.agents.find(name)) for name in names])


def standing_of(states: tuple[AgentState, ...]) -> str:
    return ", ".join([f"{state.name} ({state.status})" for state in states]) or "none"


def put_agent(step: StepContext, state: AgentState) -> None:
    team = step.data.agents
    is_new = team.find(state.name) is None
    states = (
        (*team.states, state)
        if is_new
        else tuple([state if one.name == state.name else one for one in team.states])
    )
    step.data.agents = replace(team, states=states)


# --- helpers


def prompt_agent(step: StepContext, state: AgentState, text: str) -> ErrorInfo | None:
    """Prompt an idle agent with a share of the budget. Return the error if no budget can be lent, or None."""
    others = sum([one.name != state.name for one in step.data.agents.alive])
    budget = lend_to_agent(step, state.effect_id, others + 2, agent_spec_of(step, state).budget)
    if isinstance(budget, ErrorInfo):
        return budget
    put_agent(step, replace(state, status="working", loan=state.effect_id, inputs=()))
    step.ask(PromptAgent(effect_id=state.effect_id, text=text, budget=budget))
    return None


def agent_spec_of(step: StepContext, state: AgentState) -> AgentSpec:
    return find_agent(step.data.config.agents, state.agent) or AgentSpec(name=state.agent, description="")


def _drain(step: StepContext, state: AgentState) -> None:
    refused = prompt_agent(step, state, "\n\n".join(state.inputs))
    if refused is not None:
        put_agent(step, replace(state, inputs=()))
        add_note(step, f"[What was sent to agent {state.name} was dropped: {refused.message}]")


def _of(step: StepContext, name: str) -> AgentState:
    state = step.data.agents.find(name)
    assert state is not None  # noqa: S101 - an open agent is in the list, which the property tests check
    return state


def _is_met(wait: AgentWait, state: AgentState | None) -> bool:
    # A forgotten agent has ended long ago.
    return state is None or state.status == "ended" or (wait.until == "idle" and state.status in _DONE)


def _wake_sleeper(step: StepContext, wait: AgentWait) -> None:
    seconds, left_ms = _seconds(step, wait), max((wait.expires_at_ms or 0) - step.at_ms, 0)
    slept = max(round(seconds - left_ms / 1000), 0)
    _close_wait(step, wait)
    _answer(step, wait, f"[Woken after {slept} of {seconds:g} s: the user has something to say]")


def _seconds(step: StepContext, wait: AgentWait) -> float:
    """Return the duration of a call of `sleep`, in seconds. No other call waits for a time alone."""
    seconds: float = call_results.one_of_batch(step, wait.call_id).arguments["seconds"]  # type: ignore[assignment]  # as its schema says
    return seconds


def _late(step: StepContext, wait: AgentWait) -> list[str]:
    return [name for name in wait.names if not _is_met(wait, step.data.agents.find(name))]


def _armed(step: StepContext, wait: AgentWait) -> AgentWait:
    if wait.expires_at_ms is None:
        return wait
    timer = step.mint("w")
    step.start(SetTimer(effect_id=timer, at_ms=wait.expires_at_ms), OfAgentWait(wait.call_id))
    return replace(wait, timer=timer)


def _close_wait(step: StepContext, wait: AgentWait) -> None:
    team = step.data.agents
    step.data.agents = replace(team, waits=tuple([one for one in team.waits if one is not wait]))
    if wait.timer is not None:
        step.cancel(ClearTimer(effect_id=wait.timer))


def _answer(step: StepContext, wait: AgentWait, text: str) -> None:
    state = call_results.one_of_batch(step, wait.call_id)
    read: tuple[str, ...] = ()
    for name in wait.names:
        agent = step.data.agents.find(name)
        read = more_sources(read, () if agent is None else agent.sources)
    details: JsonValue = {"sources": list(read)} if read else None
    call_results.put(step, call_results.answer(step, state, text, is_error=False, details=details)[0])


def _report(name: str, state: AgentState | None) -> str:
    if state is None:
        return f"[{name} ended long ago]"
    used = state.spent.usage
    cost = "" if not used.cost_usd else f", ${used.cost_usd:.4f}"
    how = {
        None: "",
        "finished": "",
        "aborted": ", its last cycle was aborted",
        "failed": ", its last cycle failed",
    }
    why = f": {state.reason}" if state.reason else ""
    head = f"[{name} ({state.agent}) is {state.status}{why}{how[state.outcome]}; {state.turns} turns, {used.total} tokens{cost}]"
    return f"{head}\n{state.answer}" if state.answer else head


def _tell(step: StepContext, state: AgentState) -> None:
    """Add a note about an agent that no call waits for. An agent that may wake an idle session makes it its next prompt."""
    text = _report(state.name, state)
    if len(text) > MAX_NOTE_CHARACTERS:
        more = "… [wait_agents gives the rest]"
        text = text[: MAX_NOTE_CHARACTERS - len(more)] + more
    if agent_spec_of(step, state).wake:
        tell_or_wake(step, state.name, text)
    else:
        add_note(step, text)


def tell_or_wake(step: StepContext, source: str, text: str) -> None:
    """Queue background news as the next prompt of an idle session. Otherwise add a note that wakes it if no turn reads it."""
    if may_be_woken(step):
        _wake(step, source, text)
        return
    add_note(step, text)
    step.data.agents = replace(step.data.agents, is_waking=True)


def wake_after_cycle(step: StepContext) -> None:
    """Start another cycle for news of the last turn. The caller has asked `may_be_woken`."""
    _wake(step, "background", "\n\n".join(take_notes(step)))


def take_notes(step: StepContext) -> tuple[str, ...]:
    notes = step.data.agents.notes
    if notes:
        step.data.agents = replace(step.data.agents, notes=(), is_waking=False)
    return notes


def may_be_woken(step: StepContext) -> bool:
    """Whether the session is idle, goes on, and has no queued prompt that would read the notes."""
    return step.data.cycle is None and step.data.stopping is None and not step.data.queue


def _wake(step: StepContext, source: str, text: str) -> None:
    ref = PromptRef(f"wake/{source}/{step.data.seq}")
    content = (Text(text=text),)
    step.data.queue = (QueuedPrompt(ref=ref, content=content),)
    step.publish(PromptQueued(ref=ref, content=content, position=0))


def add_note(step: StepContext, note: str) -> None:
    """Add a note that the model reads before its next turn."""
    team = step.data.agents
    step.data.agents = replace(team, notes=(*team.notes, note)[-MAX_NOTES:])


def _forget_old(step: StepContext) -> None:
    team = step.data.agents
    gone = [state for state in team.states if state.status == "ended"]
    if len(gone) > MAX_ENDED:
        step.data.agents = replace(team, states=tuple([one for one in team.states if one is not gone[0]]))
