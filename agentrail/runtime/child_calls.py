"""A child session that works for a call: start it, follow it, and stop it when the call ends."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, TypeAlias

import trio
from attrs import frozen
from msgspec.structs import replace

from agentrail.abc import Error, Ok, Provider, Tool, ToolOutcome
from agentrail.core.protocol.effects import ResumeChild
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ChildPublished, ChildStarted, Signal
from agentrail.core.session.approval_rules import rule_below
from agentrail.core.session.child_sessions import sources_said_by
from agentrail.core.session.machine import new_session
from agentrail.core.session.views import own_prompt_of
from agentrail.core.stack.inherited_stack import entries_now, narrow_stack, narrowing_of, narrows
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.plugin_changes import ChangedStack
from agentrail.core.values.sources import WITHOUT_SOURCES, more_sources
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.errors import AgentrailError, SessionDown
from agentrail.events import TERMINAL, AgentAbort, AgentEnd, AgentError, Event, EventsLost, ResponseComplete
from agentrail.messages import AssistantMessage, Message, SessionId
from agentrail.plugins.permission_state import unlimited_options
from agentrail.plugins.permissions import Permissions
from agentrail.runtime.base_prompt import decide_inherited
from agentrail.runtime.cycle_reply import raise_failure
from agentrail.runtime.event_subscription import Subscription
from agentrail.runtime.journal_events import subscribed_in_the_end
from agentrail.runtime.model_lookup import facts_of, provide_model
from agentrail.runtime.ports import GENERAL, AgentWork, ChildWork, ReadyAgent
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session
from agentrail.runtime.tool_calls import clean_text
from agentrail.runtime.trace_reader import trace_of_child
from agentrail.runtime.tree_secrets import handles_in

MAX_SESSION_ID_CHARACTERS: Final = 128

OpenChild: TypeAlias = Callable[[ChildWork], AbstractAsyncContextManager[Session]]
"""Starts a child. Leaving the block stops it and waits for its end, shielded and with a time limit."""

Deliver: TypeAlias = Callable[[Signal], None]


async def run_for_call(
    task: ChildWork, open_child: OpenChild, deliver: Deliver, timeout_seconds: float
) -> ToolOutcome:
    """Run a child for a call, and return its last text as the result.

    Cancellation: The child and its work are aborted and stopped before the cancellation propagates.
    """
    listener = _Listener(task.effect.effect_id, deliver)
    with trio.move_on_after(timeout_seconds):
        try:
            async with open_child(task) as child:
                end = await listener.ask(child, task.request.prompt)
                return decide_answer(end, listener.last_text, sources=listener.sources)
        except AgentrailError as error:
            return Error(text=clean_text(f"The sub-agent could not work: {error}"))
    return _decide_late(timeout_seconds, listener.last_text)


async def run_for_tool(task: ChildWork, open_child: OpenChild, deliver: Deliver) -> Ok:
    async with open_child(task) as child:
        end = await _Listener(task.effect.effect_id, deliver).ask(child, task.request.prompt)
        raise_failure(end)
        if not isinstance(end, AgentEnd):
            raise SessionDown(child.session_id, "it ended before it had an answer")
        return Ok(text=last_text_of(end.messages))


@frozen(kw_only=True)
class SeenOfChild:
    after: int = 0
    heard: int = 0
    is_over: bool = False


async def resume_for_call(
    effect: ResumeChild, child: Session, seen: SeenOfChild, deliver: Deliver, timeout_seconds: float
) -> ToolOutcome:
    listener = _Listener(effect.effect_id, deliver)
    with trio.move_on_after(timeout_seconds):
        async with subscribed_in_the_end(partial(child.subscribe, after=seen.after)) as events:
            end = await listener.follow(child, events, seen)
            if isinstance(end, EventsLost):
                unknown = f"[Outcome unknown: the session that worked for {effect.name} had ended, and its journal does not say how]"
                return Error(text=unknown)
            return decide_answer(end, listener.last_text, sources=listener.sources)
    return _decide_late(timeout_seconds, listener.last_text)


def _decide_late(seconds: float, last_text: str) -> Error:
    last = f" Its last text: {last_text}" if last_text else ""
    return Error(text=clean_text(f"The sub-agent did not finish within {seconds:g} s and was stopped.{last}"))


class _Listener:
    def __init__(self, effect_id: EffectId, deliver: Deliver) -> None:
        self._effect_id = effect_id
        self._deliver = deliver
        self.last_text = ""
        self.sources = WITHOUT_SOURCES

    async def ask(self, child: Session, prompt: str) -> Event | None:
        """Prompt the child and wait for the end of that cycle. Returns None if the session ended first."""
        self._deliver(
            ChildStarted(
                at_ms=now_ms(), effect_id=self._effect_id, child_id=child.session_id, description=prompt
            )
        )
        async with child.subscribe(after=0) as events:
            await child.prompt(prompt)
            return await self.follow(child, events, SeenOfChild())

    async def follow(self, child: Session, events: Subscription, seen: SeenOfChild) -> Event | None:
        """Forward unseen events up to the end of the cycle. Of a child that is over, `EventsLost` is the end."""
        async for event in events:
            if isinstance(event, EventsLost):
                if seen.is_over:
                    return event
                continue
            if event.meta is not None and event.meta.seq > seen.heard:
                self._deliver(published_by(child.session_id, self._effect_id, event))
            self.sources = more_sources(self.sources, sources_said_by(event))
            if isinstance(event, ResponseComplete):
                self.last_text = event.message.text or self.last_text
            if type(event) in TERMINAL:
                return event
        return None


def published_by(child_id: SessionId, effect_id: EffectId, event: Event) -> ChildPublished:
    return ChildPublished(at_ms=now_ms(), effect_id=effect_id, event=event, child_id=child_id)


def last_text_of(messages: Sequence[Message]) -> str:
    said = [message.text for message in messages if isinstance(message, AssistantMessage)]
    return clean_text(next((text for text in reversed(said) if text), "[no output]"))


def decide_answer(end: Event | None, last_text: str, *, sources: tuple[str, ...] = ()) -> ToolOutcome:
    match end:
        case None:
            return Error(text="The sub-agent ended before it had an answer.")
        case AgentEnd(messages=messages):
            return Ok(text=last_text_of(messages), details={"sources": list(sources)} if sources else None)
        case AgentError(error=error):
            return Error(text=clean_text(f"The sub-agent failed: {error.message}"))
        case AgentAbort(reason=reason):
            last = f" Its last text: {last_text}" if last_text else ""
            return Error(text=clean_text(f"The sub-agent was stopped: {reason or 'aborted'}.{last}"))
        case _:
            message = f"{type(end).__name__} does not end a cycle"
            raise AssertionError(message)


def assemble_child(parent: SessionCell, task: ChildWork | AgentWork, fresh_id: str) -> SessionCell:
    data, ports, request = parent.state.data, parent.ports, task.request
    agent = ports.agents.get(task.effect.agent, GENERAL)
    own_id = f"{ports.session_id}{task.own_name}"
    session_id = SessionId(own_id if len(own_id) <= MAX_SESSION_ID_CHARACTERS else fresh_id)
    path = (*data.config.path, session_id)
    toolbox, tools = _tools_of(parent, agent, request.tools, len(path) - 1)
    model = agent.spec.model or data.model
    if request.model is not None:
        model = facts_of(request.model, provide_model(request.model, ports))
    config = replace(
        data.config,
        session_id=session_id,
        path=path,
        model=model,
        system_prompt=request.system_prompt
        or agent.spec.system_prompt
        or decide_inherited(own_prompt_of(data)),
        max_turns=min(
            filter(None, (request.max_turns, agent.given.max_turns)), default=data.config.max_turns
        ),
        budget=task.effect.budget,
        prompt_mode="task" if data.config.prompt_mode == "full" else data.config.prompt_mode,
        gathers_context=False,  # minimal context, like its system prompt
        wake_on_background_end=False,  # the parent pays for each of its cycles and starts them
        agents=data.config.agents
        if data.ledger is None
        else tuple([replace(one, wake=False) for one in data.config.agents]),
        rules=frozenset(rule_below(one, data.tools) for one in data.rules),
        response_format=agent.result,  # not the session's own, which belongs to the session's caller
        user_data=handles_in(agent.data_below(ports.user_data)),
        replaced_sections=data.config.replaced_sections
        if agent.given.replace_sections is None
        else agent.given.replace_sections,
    )
    change = _stack_of(parent, agent)
    # The agent's own texts and tools came with the options rather than by a signal.
    withheld = ports.withheld
    state = new_session(
        withheld.in_value(config), withheld.in_tools(toolbox), change.stack, withheld.in_value(change.states)
    )
    own_ports = replace(
        ports,
        session_id=session_id,
        tools=tools,
        providers=first_provider(model.model, ports.providers),
        provider_opts=dict(ports.provider_opts),
        context_providers=(),
        user_data=agent.data_below(ports.user_data),
        deps=agent.deps_below(ports.deps),
        parent_trace=trace_of_child(data, session_id),
    )
    return SessionCell(state, own_ports)


def _tools_of(
    parent: SessionCell, agent: ReadyAgent, wanted: Iterable[str] | None, depth: int
) -> tuple[Toolbox, dict[tuple[str, int], Tool]]:
    data, ports = parent.state.data, parent.ports
    specs: Sequence[ToolSpec] = data.tools.specs
    names = None if wanted is None else frozenset(wanted)
    given = {spec.name: ports.tools[spec.name, data.tools.generation_of(spec.name)] for spec in specs}
    if agent.tools is not None and agent.spec.tools is not None:
        specs, given = agent.spec.tools.specs, dict(agent.tools)
    chosen = [
        spec
        for spec in specs
        if names is None or spec.name in names
        if (deepest := getattr(given[spec.name], "max_depth", None)) is None or depth < deepest
    ]
    return Toolbox(chosen), {(spec.name, 0): given[spec.name] for spec in chosen}


def first_provider(model: str, providers: Mapping[str, Provider]) -> dict[str, Provider]:
    if model not in providers:
        return dict(providers)
    return {model: providers[model], **{name: one for name, one in providers.items() if name != model}}


def _stack_of(parent: SessionCell, agent: ReadyAgent) -> ChangedStack:
    """Load the child's plugins, with its own state: the parent's guards, plus the agent's other plugins if it has any."""
    above, permissions = parent.state.data.stack, agent.spec.permissions
    entries = entries_now(above, parent.state.data.plugin_states)
    if agent.plugins is not None:
        guards = {one.name: entry for one, entry in zip(above.members, entries, strict=True) if one.guards}
        entries = (*guards.values(), *[entry for entry in agent.plugins if entry[0].name not in guards])
    if permissions is not None and not narrows(above):
        entries = (*entries, (Permissions, unlimited_options(os.path.expanduser("~"))))  # noqa: PTH111 - as a text
    stack, states = load_stack(entries, ask=above.ask)
    changed = ChangedStack(stack=stack, states=states)
    # Updates that wait until the session is idle apply below immediately.
    waiting = [narrowing_of(above, one.plugin, one.options) for one in parent.state.data.updates]
    for rules in (permissions, *waiting):
        if rules is not None:
            changed = narrow_stack(changed.stack, changed.states, rules)
    return changed
