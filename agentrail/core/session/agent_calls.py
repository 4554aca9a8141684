"""Calls that the session answers itself: start, prompt, await and close an agent, hand the session over, sleep.

Each function takes a call that has passed all gates, and returns it answered, or `awaiting`.
"""

import re
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from agentrail.core.protocol.effects import CloseAgent, StartAgent
from agentrail.core.protocol.signals import AgentCommand
from agentrail.core.session import agent_pool, agent_records, call_results
from agentrail.core.session.agent_records import AgentSpec, AgentState, AgentWait
from agentrail.core.session.cycle import take_handoff
from agentrail.core.session.effect_owners import OfAgent
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.reservations import lend_to_agent
from agentrail.core.session.step_context import StepContext
from agentrail.errors import ErrorInfo, OptionError
from agentrail.messages import CallId
from agentrail.structs import struct_from

MAX_INPUTS: Final = 100
"""Maximum number of pending inputs of one agent."""

DEFAULT_WAIT_SECONDS: Final = 600.0

MAX_SLEEP_SECONDS: Final = 300
"""Maximum duration of a call of `sleep`, in seconds."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of a call or a command."""

    name: str = ""
    text: str = ""
    fault: str | None = None


def take_call(step: StepContext, state: CallState) -> CallState:
    state = call_results.publish_start(step, state)
    match state.call.name:
        case "spawn_agent":
            return _spawn(step, state)
        case "send_input":
            return _told(step, state, _sent(step, _text(state, "name"), _text(state, "text")))
        case "wait_agents":
            return _wait(step, state)
        case "close_agent":
            return _close(step, state)
        case agent_records.HANDOFF_TOOL:
            return take_handoff(step, state)
        case agent_records.SLEEP_TOOL:
            return _sleep(step, state)
        case name:
            return _refused(step, state, f"No session answers a call of {name!r}.")


def obey(step: StepContext, signal: AgentCommand) -> None:
    """Carry out a command of the program, same as a call of the model, and reply with the name of the agent."""
    text = signal.text or ""
    match signal.action:
        case "spawn":
            call_id = CallId(f"agents/{signal.signal_id}")
            answer = _started_agent(step, agent=signal.agent, task=text, wanted=signal.name, call_id=call_id)
        case "send":
            answer = _sent(step, signal.name, text)
        case "close":
            answer = _closed(step, signal.name, text, is_now=signal.now)
        case _:
            assert_never(signal.action)
    if answer.fault is not None:
        step.refuse(signal.signal_id, OptionError([answer.fault]))
    else:
        step.reply(signal.signal_id, answer.name)


# --- start


def _spawn(step: StepContext, state: CallState) -> CallState:
    return _told(
        step,
        state,
        _started_agent(
            step,
            agent=_text(state, "agent"),
            task=_text(state, "task"),
            wanted=_text(state, "name"),
            call_id=state.call.call_id,
        ),
    )


def _started_agent(step: StepContext, *, agent: str, task: str, wanted: str, call_id: CallId) -> _Answer:
    config, team = step.data.config, step.data.agents
    spec = next((one for one in config.agents if one.name == agent and one.background), None)
    if spec is None:
        names = ", ".join([one.name for one in config.agents if one.background]) or "none"
        return _Answer(fault=f"There is no agent {agent!r} for the background. Agents: {names}.")
    if not task.strip():
        return _Answer(fault="The task is empty: say what the agent is to do.")
    known = team.find(wanted) if wanted else None
    if known is not None and known.status != "ended" and (known.agent, known.task) == (agent, task):
        return _Answer(name=known.name, text=f"{known.name} works on that already ({known.status}).")
    fault = _name_fault(step, wanted, known) or _limit_fault(step)
    if fault is not None:
        return _Answer(fault=fault)
    name = wanted or _fresh_name(step)
    new = AgentState(name=name, agent=agent, task=task, call_id=call_id, effect_id=step.mint("a"))
    return _start(step, spec, new)


def _start(step: StepContext, spec: AgentSpec, new: AgentState) -> _Answer:
    team = step.data.agents
    budget = lend_to_agent(step, new.effect_id, len(team.alive) + 2, spec.budget)
    if isinstance(budget, ErrorInfo):
        step.unmint()
        return _Answer(fault=budget.message)
    cycle = step.data.cycle
    if cycle is not None:
        team = replace(team, cycle=cycle.ref, started=_started(step) + 1)
    step.data.agents = replace(team, names=team.names.added(new.name))
    agent_pool.put_agent(step, replace(new, loan=new.effect_id))
    step.start(
        struct_from(StartAgent, new, budget=budget, after=new.seen),
        OfAgent(new.name),
    )
    text = f"{new.name} has begun. wait_agents gives its answer, send_input tells it more."
    return _Answer(name=new.name, text=text)


def _name_fault(step: StepContext, wanted: str, known: AgentState | None) -> str | None:
    if not wanted:
        return None
    if not _NAME.fullmatch(wanted):
        return f"An agent cannot be named {wanted!r:.80}: take 1 to 64 of A-Z a-z 0-9 _ -"
    if known is not None and known.status != "ended":
        return f"{wanted!r} is at work on another task: choose another name, or tell it more with send_input."
    if wanted in step.data.agents.names:
        return (
            f"{wanted!r} was the name of an agent that has ended: names are never used twice, choose another."
        )
    return None


def _limit_fault(step: StepContext) -> str | None:
    limits, alive = step.data.config.agent_limits, step.data.agents.alive
    if len(step.data.config.path) > limits.max_depth:
        return (
            f"Agents may work {limits.max_depth} deep, and this session is as deep already: do it yourself."
        )
    if len(alive) >= limits.max_agents:
        return f"{len(alive)} agents are alive, at most {limits.max_agents} may be: {agent_pool.standing_of(alive)}. Close one first."
    if _started(step) >= limits.max_agents_total:
        return (
            f"{limits.max_agents_total} agents were started in this cycle, and no more may be. "
            f"Alive: {agent_pool.standing_of(alive)}."
        )
    return None


def _started(step: StepContext) -> int:
    team, cycle = step.data.agents, step.data.cycle
    return team.started if cycle is not None and team.cycle == cycle.ref else 0


def _fresh_name(step: StepContext) -> str:
    names = step.data.agents.names
    number = len(names) + 1
    while f"agent-{number}" in names:
        number += 1
    return f"agent-{number}"


# --- send, wait, close


def _sent(step: StepContext, name: str, text: str) -> _Answer:
    agent = step.data.agents.find(name)
    if agent is None or agent.status in {"closing", "stopping", "ended"}:
        return _Answer(fault=_not_there(step, name, agent))
    if not text.strip():
        return _Answer(fault="The text is empty: say something.")
    if agent.status == "working":
        if len(agent.inputs) >= MAX_INPUTS:
            return _Answer(fault=f"{MAX_INPUTS} inputs wait for {name} already: wait until it is idle.")
        agent_pool.put_agent(step, replace(agent, inputs=(*agent.inputs, text)))
        return _Answer(name=name, text=f"{name} is at work, and reads this when it is idle.")
    refused = agent_pool.prompt_agent(step, agent, text)
    if refused is not None:
        return _Answer(fault=refused.message)
    return _Answer(name=name, text=f"{name} works on.")


def _wait(step: StepContext, state: CallState) -> CallState:
    team, arguments = step.data.agents, state.arguments
    listed = arguments.get("names")
    given = listed if isinstance(listed, list | tuple) else ()
    names = tuple(dict.fromkeys(map(str, given))) or tuple([one.name for one in team.alive])
    unknown = [name for name in names if name not in team.names]
    if unknown:
        return _refused(step, state, _not_there(step, unknown[0], None))
    seconds = arguments.get("timeout_seconds", DEFAULT_WAIT_SECONDS)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= 86_400:  # noqa: PLR2004 - a day
        return _refused(step, state, "timeout_seconds must be above 0 and at most 86400.")
    if not names:
        return _done(step, state, "No agent is alive: there is nothing to wait for.")
    return _await(
        step,
        state,
        AgentWait(
            call_id=state.call.call_id,
            names=names,
            match="any" if arguments.get("match") == "any" else "all",
            until="closed" if arguments.get("until") == "closed" else "idle",
            expires_at_ms=step.at_ms + round(seconds * 1000),
        ),
    )


def _sleep(step: StepContext, state: CallState) -> CallState:
    seconds = state.arguments.get("seconds")
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= MAX_SLEEP_SECONDS:  # type: ignore[operator]  # it is one
        return _refused(step, state, f"seconds must be above 0 and at most {MAX_SLEEP_SECONDS}.")
    expires_at_ms = step.at_ms + round(seconds * 1000)  # type: ignore[operator, arg-type]  # as above
    wait = AgentWait(call_id=state.call.call_id, names=(), until="time", expires_at_ms=expires_at_ms)
    return _await(step, state, wait)


def _close(step: StepContext, state: CallState) -> CallState:
    name, is_now = _text(state, "name"), state.arguments.get("now") is True
    answer = _closed(step, name, _text(state, "reason"), is_now=is_now)
    if answer.fault is not None:
        return _told(step, state, answer)
    return _await(step, state, AgentWait(call_id=state.call.call_id, names=(name,), until="closed"))


def _closed(step: StepContext, name: str, reason: str, *, is_now: bool) -> _Answer:
    agent = step.data.agents.find(name)
    if agent is None or agent.status == "ended":
        return _Answer(fault=_not_there(step, name, agent))
    is_now = is_now or agent.status == "idle"
    if agent.status in {"working", "idle"} or (agent.status == "closing" and is_now):
        agent_pool.put_agent(step, replace(agent, status="stopping" if is_now else "closing", inputs=()))
        if is_now:
            step.ask(CloseAgent(effect_id=agent.effect_id, reason=reason or "closed"))
    return _Answer(name=name)


def _await(step: StepContext, state: CallState, wait: AgentWait) -> CallState:
    """Start the wait of a call, unless its condition is met already."""
    call_results.put(step, replace(state, stage="awaiting"))
    agent_pool.open_wait(step, wait)
    agent_pool.decide_waits(step)
    return call_results.one_of_batch(step, state.call.call_id)


def _not_there(step: StepContext, name: str, known: AgentState | None) -> str:
    how = "never was one" if known is None else f"it is {known.status}"
    if known is None and name in step.data.agents.names:
        how = "it ended long ago"
    return f"There is no agent {name!r:.80} to work with, {how}. Alive: {agent_pool.standing_of(step.data.agents.alive)}."


def _text(state: CallState, key: str) -> str:
    value = state.arguments.get(key)
    return value if isinstance(value, str) else ""


def _told(step: StepContext, state: CallState, answer: _Answer) -> CallState:
    return _done(step, state, answer.text) if answer.fault is None else _refused(step, state, answer.fault)


def _done(step: StepContext, state: CallState, text: str) -> CallState:
    return call_results.answer(step, state, text, is_error=False)[0]


def _refused(step: StepContext, state: CallState, text: str) -> CallState:
    return call_results.answer(step, state, text)[0]
