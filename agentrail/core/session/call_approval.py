"""The gates between a call's arguments and its slot: the plugins, the host, the user, and the final report to the host.

The order is that of docs/explanation/tools.md.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from agentrail.core.policy.calls import hash_arguments
from agentrail.core.protocol.actions import BlockTool, RequireApproval
from agentrail.core.protocol.effects import AskHost, TellHost
from agentrail.core.protocol.hooks import BeforeTool
from agentrail.core.protocol.signals import HostHook, HostJudged, ToolAnsweredEarly, ToolFinished
from agentrail.core.session import approval_rules, call_results, interactions
from agentrail.core.session.effect_owners import OfHostCheck, OfHostReport
from agentrail.core.session.open_calls import CallState, HostCheck, WantedApproval
from agentrail.core.session.plugin_hooks import apply_outcome, ask_plugins, consult
from agentrail.core.session.step_context import StepContext, has_listeners
from agentrail.core.stack.hook_outcome import Outcome, Unfit
from agentrail.core.stack.pipeline import Fit
from agentrail.events import PERMISSION_OPTIONS, Approval, ToolBlocked
from agentrail.frozen import same_json
from agentrail.messages import JsonObject, ToolResult

MAX_LATE_CHANGES: Final = 3
"""Maximum number of changes of a call's arguments after they were judged or shown. Then the call is refused."""

_ENDLESS_SECONDS: Final = 1e18
_OVER_SECONDS: Final = -1e15  # in the past, and still a time that a store can keep
_DENIED: Final = "The host does not allow this call."


def check_call(step: StepContext, state: CallState) -> tuple[CallState, str | None]:
    """Check a call with valid arguments with the plugins, the host and the user, as configured."""
    wanted = None
    if _is_judged(step):
        outcome = _ask_plugins(step, state)
        state = _as_judged(step, state, outcome)
        if state.result is not None or outcome.abort is not None:
            return state, outcome.abort
        wanted = _wanted_by(step, outcome)
    if "before_tool" in step.data.config.host_hooks:
        return _ask_host(step, state, HostCheck(wanted=wanted)), None
    wanted = _behind_breakpoints(step, state, wanted) if step.data.rules else wanted
    return (state, None) if wanted is None else _wait_for_approval(step, state, wanted)


def check_decided(
    step: StepContext, state: CallState, asked: Approval, *, always: bool = False, is_edited: bool = False
) -> tuple[CallState, str | None]:
    """Ask every plugin that has not judged an approved call as it will run, and the host if its arguments are new.

    The user is not asked again about the same decision, but sees any later change of the arguments.
    """
    if is_edited:
        state = replace(state, bound_to=hash_arguments(state.arguments))
    state, abort, changed_by = _judge_rest(step, state, is_edited=is_edited)
    if state.result is not None or abort is not None:
        return state, abort
    is_new = state.check is not None and state.check.is_new
    if not is_edited and not changed_by and not is_new:
        return state, None
    waits_ms = None if asked.expires_at_ms is None else asked.expires_at_ms - asked.requested_at_ms
    wanted = WantedApproval(hint=asked.hint, timeout_ms=waits_ms, options=asked.permission_options)
    if "before_tool" in step.data.config.host_hooks:
        rounds = state.check.rounds if state.check is not None else 0
        check = HostCheck(wanted=wanted, always=always, changed_by=changed_by, rounds=rounds)
        return _ask_host(step, state, check), None
    return _show_again(step, state, wanted, changed_by) if changed_by else state, None


def take_verdict(step: StepContext, state: CallState, signal: HostJudged) -> tuple[CallState, str | None]:
    """Continue a call after the host's verdict and its changes."""
    check = state.check
    assert check is not None  # noqa: S101 - it is checking
    state = replace(state, stage="waiting", effect_id=None, check=None)
    if signal.deny is not None:
        reason = signal.deny or _DENIED
        blocked = ToolBlocked(name=state.call.name, call_id=state.call.call_id, reason=reason, by=signal.by)
        return call_results.answer(step, state, reason, blocked)[0], None
    wanted_arguments = state.arguments if signal.arguments is None else signal.arguments
    fitted = wanted_arguments if signal.arguments is None else _fit_of(state)(wanted_arguments)
    if isinstance(fitted, str):
        state = replace(state, arguments=wanted_arguments)
        return _unfit(step, state, fitted, signal.by), None
    if same_json(fitted, state.arguments):
        return _behind_the_host(step, state, check)
    state = replace(state, arguments=fitted, judged_by=())
    check = replace(check, changed_by=signal.by)
    if _is_judged(step):
        outcome = _ask_plugins(step, state, by=signal.by)
        state = _as_judged(step, state, outcome)
        if state.result is not None or outcome.abort is not None:
            return state, outcome.abort
        # All changes to arguments written by the user are shown, whether guards require it or not.
        wanted = check.wanted if state.bound_to is not None else _wanted_by(step, outcome) or check.wanted
        check = replace(check, wanted=wanted, changed_by=outcome.rewritten_by[-1])
        # A guard changed the arguments, and the host has not seen that.
        if not same_json(fitted, state.arguments):
            return _ask_host_again(step, state, check), None
    return _behind_the_host(step, state, check)


def report_call(
    step: StepContext, state: CallState, result: ToolResult, signal: ToolFinished | ToolAnsweredEarly
) -> CallState:
    """Report the result of a call to the host, if the host wants it and the code of the tool has ended."""
    ended = replace(state, stage="done", effect_id=None, result=result)
    if signal.ran_ms is None or "after_tool" not in step.data.config.host_hooks:
        return ended
    effect_id = step.mint("h")
    step.start(
        TellHost(
            effect_id=effect_id,
            call_id=state.call.call_id,
            name=state.call.name,
            arguments=state.arguments,
            result=result,
            ran_ms=signal.ran_ms,
            path=step.data.config.path,
            request_id=_request_of(step, state),
        ),
        OfHostReport(state.call.call_id),
    )
    return replace(ended, stage="reporting", effect_id=effect_id)


def take_host_hooks(step: StepContext, hooks: Iterable[HostHook]) -> None:
    """Ask new gates of the host from now on, also about calls that have not begun: at once, or after their approval."""
    config = step.data.config
    step.data.config = replace(config, host_hooks=config.host_hooks | frozenset(hooks))
    if "before_tool" in step.data.config.host_hooks - config.host_hooks:
        for state in step.data.batch:
            if state.stage == "waiting":
                call_results.put(step, _ask_host(step, state, HostCheck()))
            elif state.stage == "asking":
                check = replace(state.check or HostCheck(), is_new=True)
                call_results.put(step, replace(state, check=check))


def ask_host_anew(step: StepContext, state: CallState) -> CallState:
    """Ask the host again about a call whose verdict was lost when the process stopped."""
    assert state.effect_id is not None  # noqa: S101 - it is checking
    assert state.check is not None  # noqa: S101 - as above
    step.ended(state.effect_id)
    return _ask_host(step, state, state.check)


def _ask_host(step: StepContext, state: CallState, check: HostCheck) -> CallState:
    effect_id = step.mint("h")
    step.start(
        AskHost(
            effect_id=effect_id,
            call_id=state.call.call_id,
            name=state.call.name,
            arguments=state.arguments,
            path=step.data.config.path,
            request_id=_request_of(step, state),
        ),
        OfHostCheck(state.call.call_id),
    )
    return replace(state, stage="checking", effect_id=effect_id, check=check)


def _request_of(step: StepContext, state: CallState) -> str | None:
    cycle = step.data.cycle
    if cycle is None or step.data.batch.find(state.call.call_id) is None:
        return None
    return cycle.request_id


def _ask_host_again(step: StepContext, state: CallState, check: HostCheck) -> CallState:
    rounds = check.rounds + 1
    if rounds == MAX_LATE_CHANGES:
        return _unstable(step, state, check.changed_by)
    return _ask_host(step, state, replace(check, rounds=rounds))


def _behind_the_host(step: StepContext, state: CallState, check: HostCheck) -> tuple[CallState, str | None]:
    """Continue a call that the host allows: to its slot, or to the user."""
    if state.bound_to is None:
        wanted = _behind_breakpoints(step, state, check.wanted) if step.data.rules else check.wanted
        if wanted is None:
            return state, None
        return _wait_for_approval(step, state, wanted, rounds=check.rounds)
    if hash_arguments(state.arguments) == state.bound_to:
        return state, allow_from_now_on(step, state) if check.always else None
    assert check.wanted is not None  # noqa: S101 - it is the approval in which the user wrote them
    rounds = check.rounds + 1
    if rounds == MAX_LATE_CHANGES:
        return _unstable(step, state, check.changed_by), None
    state = replace(state, check=HostCheck(rounds=rounds))
    return _show_again(step, state, check.wanted, check.changed_by), None


def allow_from_now_on(step: StepContext, approved: CallState) -> str | None:
    """Create a rule from an approval, and release pending calls that it covers, if the plugins allow them."""
    abort = None
    for interaction in interactions.allow_always(step, approved):
        asked = interaction.asked
        assert isinstance(asked, Approval)  # noqa: S101 - a rule decides nothing else
        state, why = check_decided(step, call_results.one_of_batch(step, asked.call_id), asked)
        call_results.put(step, state)
        abort = abort or why
    return abort


def _judge_rest(
    step: StepContext, state: CallState, *, is_edited: bool = False
) -> tuple[CallState, str | None, str]:
    """Ask every plugin that has not judged an approved call as it will run."""
    # In version 0 an approval was final, and an edit was judged by the guards alone.
    is_old = step.data.semantics == 0
    if not _is_judged(step) or (is_old and not is_edited):
        return state, None, ""
    by, judged_by = ("user", ()) if is_edited else (None, state.judged_by)
    outcome = _ask_plugins(step, state, by=by, judged_by=None if is_old else judged_by)
    before, state = state, _as_judged(step, state, outcome, is_approved=not is_old)
    is_changed = not same_json(before.arguments, state.arguments)
    return state, outcome.abort, outcome.rewritten_by[-1] if is_changed else ""


def _ask_plugins(
    step: StepContext, state: CallState, *, by: str | None = None, judged_by: tuple[str, ...] | None = None
) -> Outcome:
    """Ask the plugins: only the guards if the arguments were changed elsewhere, only the others if the call is approved."""
    call = state.call
    event = BeforeTool(name=call.name, arguments=state.arguments, call_id=call.call_id)
    fit = _fit_of(state)
    if step.recorded is None:
        return ask_plugins(step, event, fit=fit, edited_by=by, judged_by=judged_by)
    outcome = consult(step, event, fit=fit, edited_by=by, judged_by=judged_by)
    outcome = step.recorded.judged(
        state,
        outcome,
        lambda: consult(step, event, fit=fit, edited_by=by, judged_by=judged_by, is_lenient=True),
    )
    apply_outcome(step, outcome)
    return outcome


def _is_judged(step: StepContext) -> bool:
    return has_listeners(step, BeforeTool) or step.recorded is not None


def _as_judged(
    step: StepContext, state: CallState, outcome: Outcome, *, is_approved: bool = False
) -> CallState:
    """Apply the plugins' arguments to a call, and answer it if they refuse it."""
    call = state.call
    if outcome.arguments is not None:
        state = replace(state, arguments=outcome.arguments)
    decision = outcome.decision
    match decision and decision.action:
        case BlockTool(reason=reason):
            assert decision is not None  # noqa: S101 - it has an action
            blocked = ToolBlocked(
                name=call.name, call_id=call.call_id, reason=reason, by=decision.by, approved=is_approved
            )
            return call_results.answer(step, state, reason, blocked)[0]
        case Unfit(text=text):
            return call_results.answer(step, state, f'Invalid arguments for "{call.name}": {text}')[0]
        case RequireApproval() if step.data.semantics:
            return replace(state, judged_by=tuple(sorted(outcome.seen_by)))
        case _:
            return state


def _wanted_by(step: StepContext, outcome: Outcome) -> WantedApproval | None:
    decision = outcome.decision
    if decision is None or not isinstance(decision.action, RequireApproval):
        return None
    asked = decision.action
    seconds = asked.expires_seconds
    if seconds is None and step.data.semantics == 0:
        seconds = asked.former_expires_seconds
    timeout_ms = step.data.config.approval_timeout_ms
    if seconds is not None:  # infinity is no limit
        timeout_ms = round(min(_ENDLESS_SECONDS, max(seconds, _OVER_SECONDS)) * 1000) or None
    return WantedApproval(
        hint=asked.hint, timeout_ms=timeout_ms, options=asked.permission_options, by=decision.by
    )


def _behind_breakpoints(
    step: StepContext, state: CallState, wanted: WantedApproval | None
) -> WantedApproval | None:
    """Return the approval that an allowed call needs, because of a plugin or of an operator's breakpoint."""
    if not any(rule.breaks and rule.tool in {state.call.name, "*"} for rule in step.data.rules):
        return wanted
    asked = wanted or WantedApproval(
        hint=None, timeout_ms=step.data.config.approval_timeout_ms, options=PERMISSION_OPTIONS
    )
    # No rule: it would allow what the breakpoint stops. An answer other than these could not approve the call.
    options = dict.fromkeys("approve" if one == "always" else one for one in asked.options)
    hint = "breakpoint" if asked.hint is None else f"breakpoint: {asked.hint}"
    return replace(asked, hint=hint, options=(*options,), by="operator")


def _wait_for_approval(
    step: StepContext, state: CallState, wanted: WantedApproval, *, rounds: int = 0
) -> tuple[CallState, str | None]:
    """Hold a call for the user, unless a rule allows it and no plugin refuses it."""
    if _is_allowed(step, state, wanted):
        state, abort, changed_by = _judge_rest(step, state)
        if state.result is not None or abort is not None or not changed_by:
            return state, abort
        if "before_tool" in step.data.config.host_hooks:
            check = HostCheck(wanted=wanted, changed_by=changed_by, rounds=rounds)
            return _ask_host_again(step, state, check), None
        if _is_allowed(step, state, wanted):
            return state, None
    interactions.require_approval(step, state, wanted)
    return replace(state, stage="asking"), None


def _is_allowed(step: StepContext, state: CallState, wanted: WantedApproval) -> bool:
    """Whether a rule allows a call. It counts only if the answer *always* is accepted."""
    if step.recorded is not None:
        return step.recorded.has_begun(state)
    return "always" in wanted.options and approval_rules.is_allowed(
        step.data.rules, state.call.name, state.arguments, approval_rules.shown_text(step, state)
    )


def _show_again(step: StepContext, state: CallState, wanted: WantedApproval, changed_by: str) -> CallState:
    """Show the user the changes to its arguments. No rule applies, because it allowed something else."""
    hint = f"{changed_by} changed what you {'wrote' if state.edited else 'allowed'}"
    interactions.require_approval(step, state, replace(wanted, hint=hint, by=changed_by or None))
    return replace(state, stage="asking", bound_to=hash_arguments(state.arguments))


def _unstable(step: StepContext, state: CallState, changed_by: str) -> CallState:
    return _unfit(
        step,
        state,
        f"arguments_unstable, they were changed again in each of {MAX_LATE_CHANGES} rounds",
        changed_by,
    )


def _unfit(step: StepContext, state: CallState, fault: str, changed_by: str) -> CallState:
    text = (
        f'Invalid arguments for "{state.call.name}": {fault} (the arguments were rewritten by {changed_by!r})'
    )
    return call_results.answer(step, state, text)[0]


def _fit_of(state: CallState) -> Fit:
    spec = state.spec
    assert spec is not None  # noqa: S101 - a call without a tool is refused before any plugin is asked

    def fit(arguments: JsonObject) -> JsonObject | str:
        completed = spec.with_defaults(arguments)
        return "; ".join(spec.faults(completed)) or completed

    return fit
