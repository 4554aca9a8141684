"""Handing a session over to another of its agents: the same session goes on with the other's prompt, model and tools.

The history, the queue, the guards with their states and the agents in the background stay as they are; what is allowed is what
was allowed before and the other agent allows too. The call is answered when it is taken, and the session is handed over in front of the next request, when all other calls of its batch have ended; so
a cycle that is broken off in between is handed over with the next one.
"""

from typing import Final

from msgspec.structs import replace

from agentrail.core.protocol.signals import SignalId
from agentrail.core.session import calls
from agentrail.core.session.agent_state import ActingAgent, AgentSpec
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.projection import model_of
from agentrail.core.session.settings import say_tools_changed
from agentrail.core.session.step_context import StepContext
from agentrail.core.stack.narrowing import narrow_stack, replace_unsafe
from agentrail.core.stack.plugin_changes import ChangedStack
from agentrail.core.stack.plugin_code import find_code
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import ErrorInfo, PluginError
from agentrail.events import AgentChanged, ModelSwitched, PluginFailed

MAX_HANDOFF_CHARACTERS: Final = 4_000


def take_handoff(step: StepContext, state: CallState) -> CallState:
    """Answer a call of `handoff_to`, and note where the session goes."""
    data = step.data
    name, note = state.arguments.get("agent"), state.arguments.get("note")
    offered = [spec.name for spec in data.config.agents if spec.handoff and spec.name != data.acting.name]
    if data.acting.next is not None:
        return _refused(
            step, state, f"The session is handed over to {data.acting.next} already: once in a response."
        )
    if name not in offered:
        is_own = name is not None and name == data.acting.name
        who = f"This session works as {name} already" if is_own else f"There is no agent {name!r:.80}"
        return _refused(
            step, state, f"{who}, so nothing is handed over. Agents: {', '.join(offered) or 'none'}."
        )
    said = note if isinstance(note, str) and note.strip() else None
    if said is not None and len(said) > MAX_HANDOFF_CHARACTERS:
        return _refused(
            step,
            state,
            f"The note has {len(said)} characters, and at most {MAX_HANDOFF_CHARACTERS} are taken.",
        )
    try:
        _stack_of(step, _spec_of(step, name)[1])
    except PluginError as error:
        return _refused(step, state, f"Nothing is handed over: {error}")
    step.data.acting = replace(data.acting, next=name, note=said)
    return calls.answer(step, state, f"{name} goes on from here.", is_error=False)[0]


def hand_over(step: StepContext) -> None:
    """Go on as the agent that the session was handed over to, if there is one. What that one does not bring stays as it is."""
    acting = step.data.acting
    if acting.next is None:
        return
    place, spec = _spec_of(step, acting.next)
    try:
        change = _stack_of(step, spec)
    except PluginError as error:  # a plugin that went since the call was answered
        _stay(step, spec, error)
        return
    if change is not None:
        step.data.stack, step.data.plugin_states = change.stack, change.states
    prompt = acting.prompt if spec.system_prompt is None else spec.system_prompt
    step.data.acting = ActingAgent(name=spec.name, prompt=prompt)
    step.publish(AgentChanged(from_agent=acting.name, to_agent=spec.name, note=acting.note))
    _take_model(step, spec)
    if spec.tools is not None:
        _take_tools(step, spec.tools, generation_of_agent(place))


def generation_of_agent(place: int) -> int:
    """Say under which change of the session's tools those of an agent are kept, who stands at this place among its agents.

    Below zero, where no change that a caller makes ever comes.
    """
    return -1 - place


def change_of_agent(agent: str, plugin: str) -> SignalId:
    """Say under which name the code of an agent's plugin is kept, which no signal brings."""
    return SignalId(f"agent/{agent}/{plugin}")


def _spec_of(step: StepContext, name: object) -> tuple[int, AgentSpec]:
    return next((place, one) for place, one in enumerate(step.data.config.agents) if one.name == name)


def _stack_of(step: StepContext, spec: AgentSpec) -> ChangedStack | None:
    """Give the plugins with which the session goes on as an agent; None for those that it has.

    Raises:
        PluginError: One of them is not there, or nothing holds the permissions of the agent.
    """
    stack, states = step.data.stack, step.data.plugin_states
    change = None
    if spec.plugins is not None:
        entries = [
            (find_code(stack.ask, change_of_agent(spec.name, one.name), one), one.options or {})
            for one in spec.plugins
        ]
        change = replace_unsafe(stack, states, entries)
        stack, states = change.stack, change.states
    return change if spec.permissions is None else narrow_stack(stack, states, spec.permissions)


def _stay(step: StepContext, spec: AgentSpec, error: PluginError) -> None:
    """Go on as before: an agent without its guards is none to hand a session over to."""
    step.data.acting = replace(step.data.acting, next=None, note=None)
    failed = ErrorInfo(code="plugin_error", message=f"the session is not handed over to {spec.name}: {error}")
    step.publish(PluginFailed(plugin=spec.name, hook="Handoff", error=failed, policy="closed"))


def _take_model(step: StepContext, spec: AgentSpec) -> None:
    before = model_of(step.data).model  # where one has failed, that of the fallback
    if spec.model is None or spec.model.model == before == step.data.model.model:
        return
    step.data.model = spec.model
    cycle = step.cycle  # the fallbacks of the model before are not those of this one
    step.data.cycle = replace(cycle, attempts=replace(cycle.attempts, model=0))
    step.publish(ModelSwitched(from_model=before, to_model=spec.model.model, by="handoff"))


def _take_tools(step: StepContext, tools: Toolbox, generation: int) -> None:
    before = step.data.tools
    step.data.tools = before.handed_over(tools, generation)
    say_tools_changed(step, before, tools.names)


def _refused(step: StepContext, state: CallState, text: str) -> CallState:
    return calls.answer(step, state, text)[0]
