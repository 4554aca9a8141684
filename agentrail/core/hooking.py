"""Where the session asks its plugins, and how it carries out what they answer. The pipeline itself stands in `pipeline`.

A hook to which nobody listens costs one look into a mapping. What an answer means at its place is decided there; what
it means everywhere (states, events, interventions, another model, sections of the system prompt, errands) is done here.
An abort is not carried out here: whoever asked finds it in the outcome, stops what it was doing, and returns `BreakOff`.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from agentrail.core.actions import CallModel
from agentrail.core.effects import RunErrand, SetProviderOpts
from agentrail.core.hooks import (
    BeforeTool,
    Hook,
    HookEvent,
    ModelAnswer,
    RequestDone,
    RequestFailed,
    RequestResult,
)
from agentrail.core.outcome import Errand, Outcome, Switch
from agentrail.core.owners import OfHeldHook, OfPluginRequest
from agentrail.core.pipeline import Fit, deliver, end, judge_again, resume, run
from agentrail.core.plugin import Context
from agentrail.core.projection import model_of
from agentrail.core.request import EffectId, ModelFacts
from agentrail.core.seeded import SeededRandom
from agentrail.core.signals import ErrandFinished
from agentrail.core.spending import book, reserve_errand
from agentrail.core.work import Work
from agentrail.errors import ErrorInfo
from agentrail.events import ModelSwitched
from agentrail.frozen import frozen_json

CANNOT_WAIT = RequestFailed(
    error=ErrorInfo(
        code="cannot_wait",
        message="this hook cannot wait for an answer: ask with wait=False, the answer comes as RequestDone",
    )
)


def somebody_listens(work: Work, hook: Hook) -> bool:
    """Say whether a hook event is worth making."""
    stack = work.data.stack
    return bool(stack.listeners(hook)) if stack.by_hook else False


def ask(work: Work, event: HookEvent, *, fit: Fit | None = None, edited_by: str | None = None) -> Outcome:
    """Ask the plugins, and carry out what their answers mean wherever they are given.

    Args:
        work: The step.
        event: What happened, or is about to.
        fit: On `BeforeTool`: judges rewritten arguments by the tool's schema.
        edited_by: On `BeforeTool`: who changed the arguments outside of the pipeline. Then only guards are asked.

    Returns:
        What they said; the decision is the caller's to carry out, an abort too.
    """
    outcome = consult(work, event, fit=fit, edited_by=edited_by)
    take(work, outcome)
    return outcome


def ask_patiently(work: Work, event: HookEvent) -> Outcome:
    """Ask the plugins on a hook that can wait. With `waiting` in the outcome, its errand has still to be opened."""
    return _heeded(work, run(work.data.stack, event, work.data.plugin_states, context_of(work)))


def ask_further(work: Work, outcome: Outcome, result: RequestResult) -> Outcome:
    """Go on asking where a run waited, as `ask_patiently` does."""
    data = work.data
    return _heeded(work, resume(data.stack, outcome, result, data.plugin_states, context_of(work)))


def _heeded(work: Work, outcome: Outcome) -> Outcome:
    take_so_far(work, outcome)
    if outcome.waiting is None:
        take_decision(work, outcome)
    return outcome


def consult(work: Work, event: HookEvent, *, fit: Fit | None = None, edited_by: str | None = None) -> Outcome:
    """Ask the plugins as `ask` does, and carry out nothing: the caller publishes something first, and then calls `take`."""
    data = work.data
    ctx = context_of(work)
    if edited_by is not None and isinstance(event, BeforeTool):
        outcome = judge_again(data.stack, event, data.plugin_states, ctx, by=edited_by, fit=fit)
    else:
        outcome = run(data.stack, event, data.plugin_states, ctx, fit=fit)
    while outcome.waiting is not None:
        # Not a suspended step: a step is over when it returns. Whoever asks where nothing can wait is told so at once.
        told = resume(data.stack, outcome, CANNOT_WAIT, outcome.states, ctx, fit=fit, may_wait=False)
        outcome = msgspec.structs.replace(
            told, events=(*outcome.events, *told.events), errands=(*outcome.errands, *told.errands)
        )
    return outcome


def take(work: Work, outcome: Outcome) -> None:
    """Carry out what an outcome means on every hook."""
    take_so_far(work, outcome)
    take_decision(work, outcome)


def take_so_far(work: Work, outcome: Outcome) -> None:
    """Carry out what counts although the run may wait: what plugins remember, publish, and want done meanwhile."""
    if outcome.states is not work.data.plugin_states:
        work.data.plugin_states = outcome.states
    for event in outcome.events:
        work.publish(event)
    for errand in outcome.errands:
        open_errand(work, errand, OfPluginRequest(errand.by, errand.tag))


def take_decision(work: Work, outcome: Outcome) -> None:
    """Carry out what a run came to when it was over, but for an abort."""
    if outcome.interventions and work.data.cycle is not None:
        work.data.interventions = (*work.data.interventions, *outcome.interventions)
    if outcome.switch is not None:
        _switch(work, outcome.switch)
    if outcome.context:
        work.data.sections = _changed(work.data.sections, outcome.context)


def open_errand(work: Work, errand: Errand, owner: OfPluginRequest | OfHeldHook) -> EffectId:
    """Have something done for a plugin."""
    effect_id = work.mint("e")
    wanted, refused = errand.effect, None
    if isinstance(wanted, CallModel):
        wanted = msgspec.structs.replace(wanted, model=wanted.model or model_of(work.data).model)
        refused = reserve_errand(work, effect_id, wanted)
    # Refused by way of the shell: a plugin that asks again at once would never let this step end.
    work.start(RunErrand(effect_id=effect_id, wanted=wanted, refused=refused), owner)
    return effect_id


def book_errand(work: Work, effect_id: EffectId, result: RequestResult | None = None) -> None:
    """Count what a model took for an errand that is done, or given up, like all that the session uses."""
    # A file has cost nothing: no reservation is there that could be booked.
    usage = result.usage if isinstance(result, ModelAnswer | RequestFailed) else None
    book(work, effect_id, usage)


def errand_finished(work: Work, asked: OfPluginRequest, signal: ErrandFinished) -> None:
    """Give a plugin the answer that it asked for."""
    book_errand(work, signal.effect_id, signal.result)
    _tell_plugin(work, asked, signal.result)


def errands_lost(work: Work, lost: Iterable[OfPluginRequest], error: ErrorInfo) -> None:
    """Tell plugins that what they asked for will not be done: whoever did it is gone."""
    for asked in lost:
        _tell_plugin(work, asked, RequestFailed(error=error))


def _tell_plugin(work: Work, asked: OfPluginRequest, result: RequestResult) -> None:
    done = RequestDone(tag=asked.tag, result=result)
    outcome = deliver(work.data.stack, asked.by, done, work.data.plugin_states, context_of(work))
    take(work, outcome)


def say_goodbye(work: Work) -> None:
    """Let every plugin take its last look."""
    if work.data.stack.members:
        for event in end(work.data.stack, work.data.plugin_states, context_of(work)):
            work.publish(event)


def context_of(work: Work) -> Context:
    """Show plugins their session as it stands in this moment of the step."""
    data = work.data
    config = data.config
    return Context(
        session_id=config.session_id,
        working_dir=config.working_dir,
        model=model_of(data).model,
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
        tools=data.tools.names,
        prompt_mode=config.prompt_mode,
        user_data=config.user_data,
        group_id=config.group_id,
        depth=len(config.path) - 1,
        now_ms=work.at_ms,
        random=SeededRandom((config.session_id, data.seq, work.at_ms)),
    )


def _switch(work: Work, switch: Switch) -> None:
    before = model_of(work.data).model
    if switch.model == before and switch.provider_opts is None:  # a router says so before each request
        return
    work.data.model = ModelFacts(model=switch.model)
    cycle = work.cycle  # no hook outside of one may switch
    attempts = msgspec.structs.replace(cycle.attempts, model=0)
    work.data.cycle = msgspec.structs.replace(cycle, attempts=attempts)
    changed = switch.provider_opts is not None
    if switch.provider_opts is not None:
        work.ask(SetProviderOpts(model=switch.model, provider_opts=switch.provider_opts))
    work.publish(
        ModelSwitched(from_model=before, to_model=switch.model, provider_opts_changed=changed, by=switch.by)
    )


def _changed(sections: Mapping[str, str], changes: Mapping[str, str | None]) -> Mapping[str, str]:
    merged: dict[str, Any] = {**sections, **changes}
    return MappingProxyType({key: text for key, text in merged.items() if text is not None})
