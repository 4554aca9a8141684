"""Child sessions of a call, or of its running tool: their start, and their events in this session.

Both are started by one effect, `SpawnChild`, get a share of the remaining budget, and return the rest with their one
outcome.
"""

from typing import Final

from msgspec.structs import replace

from agentrail.core.protocol.effects import SpawnChild
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ChildPublished, ChildStarted, ToolWantsChild
from agentrail.core.session import agent_pool, approval_rules, call_results
from agentrail.core.session.agent_records import GENERAL_PURPOSE, find_agent, kinds_of
from agentrail.core.session.cycle import MAX_ASKERS
from agentrail.core.session.effect_owners import OfAgent, OfCall, OfChild, OfSurvivor
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.reservations import lend_to_child
from agentrail.core.session.step_context import StepContext
from agentrail.core.values.sources import more_sources, sources_in
from agentrail.errors import AgentrailError, ChildRefused, CycleAborted, ErrorInfo, OptionError
from agentrail.events import Event, SubagentEvent, SubagentStart, ToolExecutionEnd
from agentrail.frozen import frozen_json

MAX_SESSION_DEPTH: Final = 8
"""Maximum depth of nested sessions. Otherwise a tool that starts a session would be in that one too, and so on."""


def wanted(step: StepContext, signal: ToolWantsChild) -> None:
    """Start a child session for a running tool, now or when budget is available, or refuse it."""
    refused = _refusal(step, signal)
    if refused is not None:
        step.refuse(signal.signal_id, refused)
        return
    step.data.wishes = (*step.data.wishes, signal)
    _spawn_wished(step)


def look_after(step: StepContext) -> None:
    """Follow up after each step: abandon the children of tools that have ended, and start children that waited for budget."""
    for effect_id in step.data.loans:
        owner = step.data.open.get(effect_id)
        if isinstance(owner, OfChild) and _running(step, owner.attempt) is None:
            step.give_up(effect_id)
    if step.data.wishes:
        _spawn_wished(step)


def _spawn_wished(step: StepContext) -> None:
    """Start the children that running tools wait for, oldest first, while budget is available.

    A tool keeps waiting while amounts are lent or reserved, because some may be returned. Otherwise it is refused.
    A tool whose call has ended is refused in any case.
    """
    wishes: list[ToolWantsChild] = []
    for wish in step.data.wishes:
        if _running(step, wish.effect_id) is None:
            step.refuse(wish.signal_id, CycleAborted("the call that asks was stopped"))
        else:
            wishes.append(wish)
    while wishes:
        step.data.wishes = tuple(wishes)
        refused = _spawn(step, wishes[0])
        ledger = step.data.ledger
        if refused is not None and ledger is not None and ledger.open:
            return
        if refused is not None:
            step.refuse(wishes[0].signal_id, ChildRefused(refused.message))
        del wishes[0]
    step.data.wishes = ()


def shares(step: StepContext) -> int:
    """Return the number of equal shares of the budget: the calls and tools that still wait for a child."""
    return step.data.batch.waiting_children + len(step.data.wishes)


def kind_fault(step: StepContext, kind: str) -> str | None:
    """Return an error text if no agent has this name, otherwise None."""
    kinds = kinds_of(step.data.config.agents)
    return None if kind in kinds else f"There is no sub-agent of type {kind!r}. Types: {', '.join(kinds)}."


def depth_fault(step: StepContext) -> str | None:
    """Return why this session must not have children, or None."""
    if len(step.data.config.path) < MAX_SESSION_DEPTH:
        return None
    return f"{MAX_SESSION_DEPTH} sessions stand above one another already: give the innermost ones no tool that asks for more"


def child_started(step: StepContext, signal: ChildStarted) -> None:
    owner = step.data.open.get(signal.effect_id)
    if isinstance(owner, OfAgent):
        _agent_started(step, owner.name, signal)
        return
    state = _of(step, signal)
    called = replace(state, child_ids=(*state.child_ids, signal.child_id))
    if step.data.batch.find(state.call.call_id) is state:
        call_results.put(step, called)
    step.data.survivors = tuple(called if one is state else one for one in step.data.survivors)
    description = signal.description
    if description is None:
        description = str(state.arguments.get("description", ""))
    step.publish(SubagentStart(child_id=signal.child_id, call_id=state.call.call_id, description=description))


def child_published(step: StepContext, signal: ChildPublished) -> None:
    owner = step.data.open.get(signal.effect_id)
    if isinstance(owner, OfAgent):
        _agent_published(step, owner.name, signal)
        return
    state = _of(step, signal)
    child_id = signal.child_id or state.child_ids[0]  # a child reports its start before any event
    inner = signal.event
    approval_rules.hear_of_child(step, inner)
    depth = inner.depth + 1 if isinstance(inner, SubagentEvent) else 1
    step.publish(SubagentEvent(call_id=state.call.call_id, child_id=child_id, depth=depth, event=inner))


def _agent_started(step: StepContext, name: str, signal: ChildStarted) -> None:
    state = step.data.agents.find(name)
    # An agent that survived a crash of this session has started before.
    if state is not None and state.child_id is None:
        agent_pool.put_agent(step, replace(state, child_id=signal.child_id))
        step.publish(SubagentStart(child_id=signal.child_id, call_id=state.call_id, description=state.task))


def _agent_published(step: StepContext, name: str, signal: ChildPublished) -> None:
    state = step.data.agents.find(name)
    if state is None or state.child_id is None:
        return
    inner = signal.event
    approval_rules.hear_of_child(step, inner)
    # After a crash of this session, only later events are passed on.
    if inner.meta is not None and inner.meta.seq > state.seen:
        sources = more_sources(state.sources, sources_said_by(inner))
        agent_pool.put_agent(step, replace(state, seen=inner.meta.seq, sources=sources))
    depth = inner.depth + 1 if isinstance(inner, SubagentEvent) else 1
    step.publish(SubagentEvent(call_id=state.call_id, child_id=state.child_id, depth=depth, event=inner))


def sources_said_by(event: Event) -> tuple[str, ...]:
    while isinstance(event, SubagentEvent):
        event = event.event
    if not isinstance(event, ToolExecutionEnd) or event.result.is_error:
        return ()
    return sources_in(event.result.details)


def _spawn(step: StepContext, wish: ToolWantsChild) -> ErrorInfo | None:
    """Start the child that a tool waits for, or return why no budget can be lent."""
    state = _running(step, wish.effect_id)
    assert state is not None  # noqa: S101 - the caller checked it
    effect_id = step.mint("t")
    # Next to a tool of a batch no model request is sent. Next to a survivor it is, and needs a share, too.
    is_beside = isinstance(step.data.open.get(wish.effect_id), OfSurvivor)
    budget = lend_to_child(step, effect_id, shares(step) + is_beside)
    if isinstance(budget, ErrorInfo):
        step.unmint()
        return budget
    step.start(
        SpawnChild(
            effect_id=effect_id,
            call_id=state.call.call_id,
            name=state.call.name,
            agent=wish.agent or GENERAL_PURPOSE,
            arguments=frozen_json({"description": wish.prompt}),
            budget=budget,
            wish=wish,
        ),
        OfChild(wish.effect_id),
    )
    return None


def _refusal(step: StepContext, signal: ToolWantsChild) -> AgentrailError | None:
    data = step.data
    if _running(step, signal.effect_id) is None:
        return CycleAborted("the call that asks was stopped")
    too_deep = depth_fault(step)
    if too_deep is not None:
        return ChildRefused(too_deep)
    at_work = sum(isinstance(owner, OfChild) for owner in data.open.values())
    if at_work + len(data.wishes) >= MAX_ASKERS:
        message = f"{MAX_ASKERS} sub-agents already belong to tools of session {data.config.session_id!r}: wait until some have ended"
        return ChildRefused(message)
    agent = None if signal.agent is None else find_agent(data.config.agents, signal.agent)
    known = (data.tools if agent is None or agent.tools is None else agent.tools).names
    unknown = [name for name in signal.tools or () if name not in known]
    faults = [f"tools has {unknown}: expected names of {', '.join(known) or 'none'}"] if unknown else []
    if signal.agent is not None and agent is None:
        names = ", ".join(kinds_of(data.config.agents))
        faults = [f"agent is {signal.agent!r:.80}: expected one of {names}"]
    if signal.max_turns is not None and signal.max_turns < 1:
        faults.append(f"max_turns is {signal.max_turns}: expected 1 or more")
    return OptionError(faults) if faults else None


def _of(step: StepContext, signal: ChildStarted | ChildPublished) -> CallState:
    owner = step.data.open.get(signal.effect_id)
    found = _running(step, owner.attempt if isinstance(owner, OfChild) else signal.effect_id)
    assert found is not None  # noqa: S101 - `verdict` dropped the signal otherwise
    return found


def _running(step: StepContext, attempt: EffectId) -> CallState | None:
    """Return the call of a running attempt, in the batch or among the survivors."""
    match step.data.open.get(attempt):
        case OfCall(call_id):
            return call_results.one_of_batch(step, call_id)
        case OfSurvivor(call_id):
            return next(one for one in step.data.survivors if one.call.call_id == call_id)
        case _:
            return None
