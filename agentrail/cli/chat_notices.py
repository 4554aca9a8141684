"""One-line notices about a session: everything except the model's text and results of calls."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, assert_never

from agentrail import events
from agentrail.cli.exit_codes import describe_failure
from agentrail.core.values.question_forms import describe_field, fields_of
from agentrail.errors.advice import without_advice
from agentrail.events import (
    PERMISSION_OPTIONS,
    AbortReceipt,
    Amount,
    Approval,
    Event,
    LeftBehind,
    PermissionOption,
    RecoveryDecision,
)
from agentrail.messages import JsonObject, JsonValue

_SOURCES: Final[Mapping[events.ToolSourceState, str]] = MappingProxyType(
    {
        "restarting": "stopped and is being restarted",
        "parked": "stopped too often; its tools are unavailable",
        "needs_login": "requires a login",
        "changed": "has changed its tools",
    }
)
"""State changes of tool sources that the user must know."""
_STOPS: Final = {
    "max_tokens": "the answer was cut off: it reached the model's output limit",
    "max_turns": "it stopped at --max-turns",
    "refused": "the model declined to answer",
    "context_window": "the answer was cut off: the model's window is full",
}


_DECISIONS: Final[Mapping[str, str]] = {
    "sent_again": "is sent again",
    "run_again": "runs again, under the same operation id",
    "begun": "had not begun: it runs now",
    "asked": "is asked for its outcome",
    "done": "had been done",
    "not_done": "had not been done: it runs now",
    "unknown": "is not run again: whether it took effect is not known",
    "kept": "is unchanged",
    "expired": "has expired",
    "resumed": "is resumed",
    "given_up": "is given up",
}
"""Recovery decisions, as text for the user."""

_OPEN: Final[Mapping[str, str]] = {
    "request": "the request to",
    "tool": "the tool",
    "timer": "a timer",
    "approval": "an approval",  # its question, which is shown again, names the call
    "question": "a question",
    "client_call": "a call of the client",
    "prompt": "a queued prompt",
    "steer": "a pending steer",
    "child": "the sub-agent",
    "plugin_request": "a plugin's request",
    "host": "a request to the host",
    "context": "the context of a request",
    "teardown": "a call that was being stopped",
}


_Silent: TypeAlias = (
    events.SessionStart
    | events.SessionEnd
    | events.PromptReceived
    | events.PromptQueued
    | events.AgentStart
    | events.AgentSuspended  # each pending request already has its own line
    | events.AgentResumed
    | events.RequestStart
    | events.MessageStart
    | events.MessageDelta
    | events.ThinkingStart
    | events.ThinkingDelta
    | events.StatusUpdate  # arrives within the model's text, which a notice would split
    | events.StreamStalled  # same
    | events.TitleGenerated
    | events.ResponseComplete
    | events.StreamError
    | events.ToolCalls
    | events.ToolExecutionStart
    | events.ToolProgress
    | events.ToolExecutionEnd
    | events.ToolExecutionMetrics
    | events.ToolBlocked
    | events.ToolKilled
    | events.ToolSkippedForSteering
    | events.ToolRetry
    | events.ToolCallUnknown
    | events.ToolAttached
    | events.ToolDetached
    | events.ToolsUpdated
    | events.LargeResultOffloaded
    | events.ApprovalResolved
    | events.ToolApprovedAlways
    | events.UserResponded
    | events.UserDeclined
    | events.PromptTaken  # its decision has its own notice
    | events.SteeringReceived
    | events.SteeringApplied
    | events.CompactDue
    | events.CompactStart
    | events.CompactSkipped
    | events.SubagentStart
    | events.SubagentEnd
    | events.SubagentEvent
    | events.TodoChange
    | events.PlanGenerated
    | events.PlanStepCompleted
    | events.PlanCompleted
    | events.MemoryFlushed
    | events.SkillOpened
    | events.SkillClosed
    | events.Intervention
    | events.PluginOptsUpdated
    | events.PluginSlow
    | events.ActionIgnored
)
"""Events without a notice."""


def notice_of(event: Event) -> str | None:  # one arm per kind: mypy reports a missing one
    """Return the notice for an event, or None for most, which have none or are shown elsewhere."""
    if isinstance(event, _Silent):
        return None
    match event:
        case events.AgentEnd(stop_reason=reason):
            return _STOPS.get(reason)
        case events.AgentError(error=error):
            return f"error: {describe_failure(error)}"
        case events.AgentAbort(reason=reason):
            return f"aborted: {reason}" if reason else "aborted"
        case events.AbortSettled(receipt=receipt):
            return show_receipt(receipt)
        case events.MaxTurnsReached(turns=turns):
            return f"the last of {turns} turns: tools are withheld"
        case events.SessionRestarted(reason=reason):
            return f"the session crashed and was restarted: {reason}"
        case events.SessionRecovered(decisions=decisions):
            told = "; ".join(map(show_decision, decisions))
            return f"the session was interrupted and resumed: {told}" if told else None
        case events.SessionParked(reason=reason):
            return f"the session crashed too often and was given up: {reason}"
        case events.SignalQuarantined(error=error):
            return f"a bug in agentrail, please report it: {error.message}"
        case events.EventsLost(from_seq=first, to_seq=last):
            return f"events {first} to {last} are no longer stored"
        case events.PromptDropped():
            return "a queued prompt was dropped"
        case events.PromptRejected(reason=reason):
            return f"the prompt was refused: {reason}"
        case events.Retry(delay_ms=delay_ms, error=error):
            failed = without_advice(error.message).rstrip(".")  # advice is for a lasting failure
            return f"{failed}; trying again in {show_milliseconds(delay_ms)}"
        case events.ContextOverflow():
            return "the conversation is longer than the model's window"
        case events.ModelSwitched(to_model=model, by=by):
            return f"the model is {model} from now on ({by})"
        case events.AgentChanged(to_agent=agent):
            return f"{agent} takes over from here"
        case events.LoopDetected(name=name, count=count):
            return f"{name} repeats itself, {count} times so far"
        case events.ToolSourceChanged(source=source, state=state, reason=reason):
            said = _SOURCES.get(state)
            return None if said is None else f"{source} {said}{f': {reason}' if reason else ''}"
        case events.ToolTookEffect(name=name):
            return f"{name} was stopped too late: it took effect"
        case events.PluginEvent(name=name, payload=payload):
            return _rules_that_always_makes(name, payload)
        case events.ApprovalRequired(approval=approval):
            hint = f" ({approval.hint})" if approval.hint else ""
            return f"may {approval.tool} run with {dict(approval.arguments)}?{hint} {show_offered(approval)}"
        case events.ToolBlocked(name=name, reason=reason, by=by, approved=True):
            return f"{name} was not run although you approved it: {reason} ({by})"
        case events.AskUser(question=question, options=options, schema=schema, url=url):
            listed = "".join(f" {place}) {option}" for place, option in enumerate(options, start=1))
            return f"{question}{listed}{show_form(schema, url)} /answer or /decline"
        case events.ClientCall(name=name):
            return f"{name} is for the client to run, and this one runs no tools"
        case events.CompactEnd(removed=removed):
            return f"a summary replaces the first {removed} messages"
        case events.ContentPolicyViolated(summary=summary):
            return f"against the content policy: {summary}"
        case events.CitationUnknown(citations=citations):
            return f"cited without a matching source: {', '.join(citations)}"
        case events.BudgetWarning(spent=spent, limit=limit):
            return f"{show_amount(spent)} of {show_amount(limit)} are spent"
        case events.PluginFailed(plugin=plugin, error=error):
            return f"the plugin {plugin} failed: {error.message}"
        case _:
            assert_never(event)


def innermost(event: Event) -> Event:
    """Return the event of a sub-agent at any depth, or any other event itself."""
    while isinstance(event, events.SubagentEvent):
        event = event.event
    return event


def is_for_user(event: Event) -> bool:
    """Whether an event asks the user, or prepares a question."""
    is_asked = isinstance(event, events.PluginEvent) and event.name == "permission_asked"
    return is_asked or isinstance(event, events.ApprovalRequired | events.AskUser)


def show_decision(decision: RecoveryDecision) -> str:
    name = f" {decision.name}" if decision.name else ""
    return f"{_OPEN[decision.open]}{name} {_DECISIONS[decision.decision]}"


def show_receipt(receipt: AbortReceipt) -> str:
    """Return the result of an abort: what it stopped, what would not stop, and what is still running."""
    ended = _counted(receipt.tasks_ended, "task was stopped", "tasks were stopped")
    parts = [f"{ended} in {show_milliseconds(receipt.milliseconds)}"]
    if receipt.processes_reaped:
        parts.append(_counted(receipt.processes_reaped, "process was ended", "processes were ended"))
    if receipt.stuck:
        parts.append(f"would not stop: {_show_left_behind(receipt.stuck)}")
    if receipt.abandoned:
        parts.append(f"left behind, still running: {_show_left_behind(receipt.abandoned)}")
    if receipt.committed:
        parts.append(_counted(len(receipt.committed), "call was done already", "calls were done already"))
    if receipt.unknown:
        parts.append(
            _counted(len(receipt.unknown), "call may have taken effect", "calls may have taken effect")
        )
    if receipt.survivors:
        parts.append(f"still running: {len(receipt.survivors)}")
    return "; ".join(parts)


def _rules_that_always_makes(name: str, payload: JsonValue) -> str | None:
    """Return the rules that `Permissions` would save if the user always allowed the call of its next request."""
    rules: Any = (
        payload.get("always") if name == "permission_asked" and isinstance(payload, Mapping) else None
    )
    if not isinstance(rules, list | tuple) or not rules:
        return None
    from agentrail.cli.always_text import with_others  # needs the core, unlike the rest of this module

    return f"/approve always would keep: {with_others([str(rule) for rule in rules])}"


def _counted(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _show_left_behind(left: tuple[LeftBehind, ...]) -> str:
    return ", ".join(
        f"{one.name} ({show_milliseconds(one.age_ms)}{'' if one.pid is None else f', process {one.pid}'})"
        for one in left
    )


def show_milliseconds(milliseconds: int) -> str:
    """Format a duration, in milliseconds below a second."""
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"  # noqa: PLR2004 - ms in a s


def show_amount(amount: Amount) -> str:
    return f"${amount.value:.2f}" if amount.unit == "usd" else f"{amount.value:,.0f} tokens"


_LINES: Final[Mapping[PermissionOption, str]] = MappingProxyType(
    {
        "approve": "/approve",
        "always": "/approve always",
        "edit": "/edit",
        "reject": "/reject",
        "respond": "/answer",
    }
)


def show_form(schema: JsonObject | None, url: str | None) -> str:
    fields = () if schema is None else fields_of(schema).items()
    described = ", ".join(describe_field(name, field) for name, field in fields)
    return (f" [{described}]" if described else "") + (f" see {url}" if url else "")


def show_offered(approval: Approval) -> str:
    """Return the commands that answer a call: the two common ones if all are offered, otherwise exactly the offered ones."""
    if approval.permission_options == PERMISSION_OPTIONS:
        return "/approve or /reject"
    *most, last = (_LINES[option] for option in approval.permission_options)
    return f"{', '.join(most)} or {last}" if most else last
