"""Calls of the session to its plugins, and the effects of their answers."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from agentrail.core.protocol.actions import CallModel, Wanted
from agentrail.core.protocol.effects import RunPluginRequest, SetProviderOpts
from agentrail.core.protocol.hooks import (
    BeforeTool,
    HookEvent,
    ModelAnswer,
    RequestDone,
    RequestFailed,
    RequestResult,
)
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.protocol.signals import PluginRequestFinished
from agentrail.core.session.effect_owners import OfHeldHook, OfPluginRequest
from agentrail.core.session.recorded_calls import lenient_ask
from agentrail.core.session.reservations import book, book_lost_question, reserve_plugin_request
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.views import model_of, tools_of
from agentrail.core.stack.hook_outcome import Outcome, PluginRequest, Switch
from agentrail.core.stack.pipeline import (
    Fit,
    deliver,
    end,
    judge_decided,
    rerun_before_tool,
    resume_hook,
    run_hook,
)
from agentrail.core.stack.plugin import Context
from agentrail.core.values.seeded_random import SeededRandom
from agentrail.errors import ErrorInfo
from agentrail.events import ModelSwitched
from agentrail.frozen import frozen_json

CANNOT_WAIT = RequestFailed(
    error=ErrorInfo(
        code="cannot_wait",
        message="this hook cannot wait for an answer: ask with wait=False, the answer comes as RequestDone",
    )
)


LOST = RequestFailed(
    error=ErrorInfo(
        code="process_stopped",
        message="the process stopped during this request, and its outcome is unknown: ask again",
        retryable=True,
    )
)


def ask_plugins(
    step: StepContext,
    event: HookEvent,
    *,
    fit: Fit | None = None,
    edited_by: str | None = None,
    judged_by: Collection[str] | None = None,
) -> Outcome:
    """Ask the plugins, and apply the parts of their answers that mean the same on every hook."""
    outcome = consult(step, event, fit=fit, edited_by=edited_by, judged_by=judged_by)
    apply_outcome(step, outcome)
    return outcome


def ask_patiently(step: StepContext, event: HookEvent) -> Outcome:
    """Ask the plugins on a hook that can wait. With `waiting` in the outcome, the caller must open its request."""
    return _heeded(step, run_hook(step.data.stack, event, step.data.plugin_states, context_of(step)))


def ask_further(step: StepContext, outcome: Outcome, result: RequestResult) -> Outcome:
    """Continue a run that waited, same as `ask_patiently`."""
    data = step.data
    return _heeded(step, resume_hook(data.stack, outcome, result, data.plugin_states, context_of(step)))


def _heeded(step: StepContext, outcome: Outcome) -> Outcome:
    apply_so_far(step, outcome)
    if outcome.waiting is None:
        apply_decision(step, outcome)
    return outcome


def consult(  # noqa: PLR0913 - what is asked, and how
    step: StepContext,
    event: HookEvent,
    *,
    fit: Fit | None = None,
    edited_by: str | None = None,
    judged_by: Collection[str] | None = None,
    is_lenient: bool = False,
) -> Outcome:
    """Ask the plugins, but apply nothing: the caller first publishes something, then calls `apply_outcome`."""
    data = step.data
    ctx = context_of(step)
    stack = data.stack
    if is_lenient:
        stack = replace(stack, ask=lenient_ask(stack.ask))
    if judged_by is not None and isinstance(event, BeforeTool):
        outcome = judge_decided(
            stack, event, data.plugin_states, ctx, judged_by=judged_by, edited_by=edited_by, fit=fit
        )
    elif edited_by is not None and isinstance(event, BeforeTool):
        outcome = rerun_before_tool(stack, event, data.plugin_states, ctx, by=edited_by, fit=fit)
    else:
        outcome = run_hook(stack, event, data.plugin_states, ctx, fit=fit)
    while outcome.waiting is not None:
        # Not a suspended step: a step ends when it returns. A plugin that asks where nothing can wait is
        # refused at once.
        told = resume_hook(stack, outcome, CANNOT_WAIT, outcome.states, ctx, fit=fit, may_wait=False)
        outcome = replace(
            told,
            events=(*outcome.events, *told.events),
            plugin_requests=(*outcome.plugin_requests, *told.plugin_requests),
        )
    return outcome


def apply_outcome(step: StepContext, outcome: Outcome) -> None:
    apply_so_far(step, outcome)
    apply_decision(step, outcome)


def apply_so_far(step: StepContext, outcome: Outcome) -> None:
    """Apply the parts that count even if the run waits: states of plugins, their events, and their requests."""
    if outcome.states is not step.data.plugin_states:
        step.data.plugin_states = outcome.states
    for event in outcome.events:
        step.publish(event)
    for plugin_request in outcome.plugin_requests:
        owner = OfPluginRequest(plugin_request.by, plugin_request.tag, plugin_request.effect)
        open_plugin_request(step, plugin_request, owner)


def apply_decision(step: StepContext, outcome: Outcome) -> None:
    """Apply the decision of a finished run, except an abort."""
    if outcome.interventions and step.data.cycle is not None:
        step.data.interventions = (*step.data.interventions, *outcome.interventions)
    if outcome.switch is not None:
        _switch(step, outcome.switch)
    if outcome.context:
        step.data.sections = changed_sections(step.data.sections, outcome.context)


def open_plugin_request(
    step: StepContext, plugin_request: PluginRequest, owner: OfPluginRequest | OfHeldHook
) -> EffectId:
    effect_id = step.mint("e")
    wanted, refused = plugin_request.effect, None
    if isinstance(wanted, CallModel):
        wanted = replace(wanted, model=wanted.model or model_of(step.data).model)
        refused = reserve_plugin_request(step, effect_id, wanted)
    # Refused through the shell: otherwise a plugin that asks again at once would never let this step end.
    step.start(RunPluginRequest(effect_id=effect_id, wanted=wanted, refused=refused), owner)
    return effect_id


def book_plugin_request(
    step: StepContext, effect_id: EffectId, wanted: Wanted | None, result: RequestResult | None = None
) -> None:
    usage = result.usage if isinstance(result, ModelAnswer | RequestFailed) else None
    if usage is None and isinstance(wanted, CallModel):
        book_lost_question(step, effect_id, wanted)
    else:  # a file costs nothing, so it has no reservation
        book(step, effect_id, usage)


def plugin_request_finished(step: StepContext, asked: OfPluginRequest, signal: PluginRequestFinished) -> None:
    book_plugin_request(step, signal.effect_id, asked.wanted, signal.result)
    _tell_plugin(step, asked, signal.result)


def request_again(step: StepContext, effect_id: EffectId, asked: OfPluginRequest) -> None:
    """Repeat a plugin's request that was running when the process stopped, and book its possible usage."""
    step.ended(effect_id)
    book_plugin_request(step, effect_id, asked.wanted)
    if asked.wanted is None:  # stored before owners had it
        _tell_plugin(step, asked, LOST)
    else:
        open_plugin_request(step, PluginRequest(by=asked.by, tag=asked.tag, effect=asked.wanted), asked)


def plugin_requests_lost(step: StepContext, lost: Iterable[OfPluginRequest], error: ErrorInfo) -> None:
    for asked in lost:
        _tell_plugin(step, asked, RequestFailed(error=error))


def _tell_plugin(step: StepContext, asked: OfPluginRequest, result: RequestResult) -> None:
    done = RequestDone(tag=asked.tag, result=result)
    outcome = deliver(step.data.stack, asked.by, done, step.data.plugin_states, context_of(step))
    apply_outcome(step, outcome)


def tell_session_ending(step: StepContext) -> None:
    if step.data.stack.members:
        for event in end(step.data.stack, step.data.plugin_states, context_of(step)):
            step.publish(event)


def context_of(step: StepContext) -> Context:
    data = step.data
    config = data.config
    facts = model_of(data)
    return Context(
        session_id=config.session_id,
        working_dir=config.working_dir,
        model=facts.model,
        context_window=facts.context_window,
        turn=data.cycle.turn if data.cycle is not None else 0,
        messages=data.history.messages,
        repairs=data.repairs,
        total_tokens=data.usage.total,
        cost_usd=data.usage.cost_usd,
        todos=tuple(
            frozen_json({"id": todo.id, "content": todo.content, "status": todo.status})
            for todo in data.todos
        )
        if data.todos
        else (),
        tools=tools_of(data).names,
        plugins=data.stack.names,
        prompt_mode=config.prompt_mode,
        user_data=config.user_data,
        group_id=config.group_id,
        depth=len(config.path) - 1,
        now_ms=step.at_ms,
        random=SeededRandom((config.session_id, data.seq, step.at_ms)),
    )


def _switch(step: StepContext, switch: Switch) -> None:
    before = model_of(step.data).model
    if switch.model == before and switch.provider_opts is None:  # a router returns this before each request
        return
    step.data.model = ModelFacts(model=switch.model)
    cycle = step.cycle  # no hook outside of a cycle may switch
    attempts = replace(cycle.attempts, model=0)
    step.data.cycle = replace(cycle, attempts=attempts)
    changed = switch.provider_opts is not None
    if switch.provider_opts is not None:
        step.ask(SetProviderOpts(model=switch.model, provider_opts=switch.provider_opts))
    step.publish(
        ModelSwitched(from_model=before, to_model=switch.model, provider_opts_changed=changed, by=switch.by)
    )


def changed_sections(sections: Mapping[str, str], changes: Mapping[str, str | None]) -> Mapping[str, str]:
    merged: dict[str, Any] = {**sections, **changes}
    return MappingProxyType({key: text for key, text in merged.items() if text is not None})
