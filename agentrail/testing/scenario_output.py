"""The output of a scenario: effects, events and messages as text. The inputs are in `scenario_signals`."""

import json
from collections.abc import Iterable, Mapping
from typing import Final, NewType, assert_never, get_args

import msgspec
from msgspec.structs import replace

from agentrail import events as e
from agentrail.core.policy.budget import Budget
from agentrail.core.protocol import effects as asked
from agentrail.core.protocol.effects import Effect
from agentrail.core.session.agent_records import GENERAL_PURPOSE
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt, ToolsReceipt
from agentrail.core.session.views import Snapshot, Status
from agentrail.errors import ErrorInfo
from agentrail.messages import (
    AssistantMessage,
    Message,
    Text,
    TokenUsage,
    ToolCall,
    ToolMessage,
    ToolResult,
    TraceContext,
    UserMessage,
)
from agentrail.testing.scenario_signals import RECEIPT, SETTINGS_FORM, block_word
from agentrail.testing.scenario_syntax import Line, name_word, quote, unless

Group = NewType("Group", str)
GROUPS: Final = frozenset(
    map(
        Group,
        [
            "session",
            "cycle",
            "response",
            "deltas",
            "tools",
            "people",
            "context",
            "children",
            "plugins",
            "history",
            "refs",
        ],
    )
)
"""Values of `show`: groups of events, new messages of the history, and the prompt refs of terminal events."""

REFS: Final = Group("refs")
"""The prompt refs of terminal events. `all` leaves them out, because only a few scenarios are about them."""

_GROUP_OF_SECTION: Final = {
    "Session and cycle": Group("cycle"),
    "Response": Group("response"),
    "Tools": Group("tools"),
    "People": Group("people"),
    "Steering": Group("people"),
    "Context": Group("context"),
    "Sub-sessions": Group("children"),
    "Plans, memory, policy": Group("plugins"),
    "Plugins": Group("plugins"),
}
_GROUP_OF: Final = {
    event: _GROUP_OF_SECTION[section] for section, events in e.SECTIONS.items() for event in get_args(events)
}
_GROUP_OF.update(dict.fromkeys(e.EPHEMERAL, Group("deltas")))
_GROUP_OF.update(
    dict.fromkeys(
        (
            e.SessionStart,
            e.SessionRestarted,
            e.SessionRecovered,
            e.SessionParked,
            e.SessionEnd,
            e.SignalQuarantined,
        ),
        Group("session"),
    )
)

_NAMES: Final[Mapping[type[Effect], str]] = {
    asked.ReplyToCaller: "Reply",
    asked.ClearTimer: "CancelTimer",
}


def effect_name(kind: type[Effect]) -> str:
    """Return the word for an effect: usually its class name. Words in existing files do not change."""
    return _NAMES.get(kind, kind.__name__)


EFFECTS: Final[Mapping[type[Effect], Line]] = {
    asked.CancelStream: Line(asked.CancelStream, "effect_id"),
    asked.SetTimer: Line(asked.SetTimer, "effect_id at=at_ms"),
    asked.ClearTimer: Line(asked.ClearTimer, "effect_id"),
    asked.CancelPluginRequest: Line(asked.CancelPluginRequest, "effect_id"),
    asked.Teardown: Line(asked.Teardown, "effect_id stopped= survivors= committed= unknown="),
    asked.End: Line(asked.End, '"reason"'),
}
"""Effects that are written completely. The lines of the others contain only the relevant fields."""


def encode_effect(effect: Effect, show: frozenset[Group]) -> str | None:
    """Return an effect as text. None for an event of a group that is not shown."""
    match effect:
        case asked.StartStream(request=request):
            withheld = " tools=withheld" if request.tool_choice == "none" else ""
            system = f" system={quote(request.system)}" if request.system else ""
            points = ",".join(map(str, request.cache_points))
            cached = f" cached={points}" if points else ""
            added = f" context={effect.context}" if effect.context else ""
            wanted = "" if request.settings is None else f" settings={SETTINGS_FORM.encode(request.settings)}"
            return f"StartStream {request.attempt} messages={len(request.messages)}{system}{cached}{withheld}{added}{wanted}"
        case (
            asked.CancelStream()
            | asked.SetTimer()
            | asked.ClearTimer()
            | asked.CancelPluginRequest()
            | asked.Teardown()
            | asked.End()
        ):
            return " ".join((effect_name(type(effect)), *EFFECTS[type(effect)].write(effect)))
        case asked.RunTool(effect_id=effect_id, call_id=call_id, name=name, arguments=arguments):
            call = ToolCall(call_id=call_id, name=name, arguments=arguments)
            resumption = effect.resumption
            resumed = "" if resumption is None else f" {json.dumps(msgspec.to_builtins(resumption))}"
            return f"RunTool {effect_id} {block_word(call)}{resumed}"
        case asked.SpawnChild(effect_id=effect_id, call_id=call_id, name=name, arguments=arguments):
            call = ToolCall(call_id=call_id, name=name, arguments=arguments)
            who = unless(effect.agent == GENERAL_PURPOSE, f"agent={effect.agent}")
            wanted = "" if effect.wish is None else f" for={effect.wish.signal_id}"
            return f"SpawnChild {effect_id} {' '.join((block_word(call), *who))}{_budget_words(effect.budget)}{wanted}"
        case asked.AskHost(effect_id=effect_id, call_id=call_id, name=name, arguments=arguments):
            call = ToolCall(call_id=call_id, name=name, arguments=arguments)
            return f"AskHost {effect_id} {block_word(call)}"
        case asked.TellHost(effect_id=effect_id, call_id=call_id, name=name, arguments=arguments):
            call = ToolCall(call_id=call_id, name=name, arguments=arguments)
            return f"TellHost {effect_id} {block_word(call)} {_value_word(effect.result)} ran={effect.ran_ms}"
        case asked.ResumeChild(effect_id=effect_id, call_id=call_id, name=name, child_ids=child_ids):
            return " ".join(("ResumeChild", effect_id, f"{call_id}:{name}", *child_ids))
        case asked.StartAgent(effect_id=effect_id, name=name, agent=agent, task=task, child_id=child_id):
            again = "" if child_id is None else f" child={child_id} after={effect.after}"
            return f"StartAgent {effect_id} {name} {agent} {quote(task)}{_budget_words(effect.budget)}{again}"
        case asked.PromptAgent(effect_id=effect_id, text=text, budget=budget):
            return f"PromptAgent {effect_id} {quote(text)}{_budget_words(budget)}"
        case asked.CloseAgent(effect_id=effect_id, reason=reason):
            return f"CloseAgent {effect_id} {quote(reason)}"
        case asked.KillTools(effect_ids=effect_ids):
            return f"KillTools {' '.join(effect_ids)}"
        case asked.RunPluginRequest(effect_id=effect_id, wanted=wanted, refused=refused):
            answered = "" if refused is None else f" refused {refused.code}"
            return f"RunPluginRequest {effect_id} {type(wanted).__name__}{answered}"
        case asked.GatherContext(effect_id=effect_id, messages=messages):
            return f"GatherContext {effect_id} messages={len(messages)}"
        case asked.SetProviderOpts(model=model, provider_opts=opts):
            return f"SetProviderOpts {model} {json.dumps(opts)}"
        case asked.Publish(event=event):
            kind = type(event)
            if _GROUP_OF[kind] not in show:
                return None
            said = event if kind not in e.TERMINAL or REFS in show else replace(event, ref=None)
            return f"Publish {kind.__name__}{_fields_of(said)}"
        case asked.ReplyToCaller(to=to, value=value):
            return f"Reply {to} {_answer_words(value)}"
        case asked.Refuse(to=to, error=error):
            return f"Refuse {to} {type(error).__name__} {quote(str(error))}"
        case _:
            assert_never(effect)


def encode_message(message: Message) -> str:
    match message:
        case UserMessage(content=content, origin=origin, ref=ref):
            who = ref if origin == "prompt" else origin
            return " ".join(("+user", str(who), *(_value_word(block) for block in content)))
        case AssistantMessage(content=content, cut=cut):
            return " ".join(("+assistant", *map(block_word, content), *(("cut",) if cut else ())))
        case ToolMessage(results=results):
            return " ".join(("+results", *(f"{result.call_id}: {_value_word(result)}" for result in results)))
        case _:
            assert_never(message)


def _budget_words(budget: Budget | None) -> str:
    if budget is None:
        return ""
    limits = (("tokens", budget.max_total_tokens), ("usd", budget.max_cost_usd))
    return "".join(f" {name}={limit:g}" for name, limit in limits if limit is not None)


def _answer_words(value: object) -> str:
    match value:
        case PromptReceipt(queued=queued, position=position, request_id=request_id):
            return f"{f'queued {position}' if queued else 'started'}{_request_word(request_id)}"
        case SteerReceipt(status=status, request_id=request_id):
            return f"{status}{_request_word(request_id)}"
        case ToolsReceipt(attached=attached, detached=detached, missing=missing):
            lists = (("attached", attached), ("detached", detached), ("missing", missing))
            return " ".join(f"{name}={','.join(names)}" for name, names in lists if names) or "unchanged"
        case e.AbortReceipt(settled=settled):
            return " ".join(("settled" if settled else "unsettled", *RECEIPT.write(value)))
        case Status():
            return _status_words(value)
        case Snapshot(status=status, queued=queued, text=text):
            waiting = ",".join(one.ref for one in queued)
            return f"{_status_words(status)} inputs={waiting} text={quote(text)} seq={value.last_seq}"
        case str():
            return quote(value)
        case tuple():
            return f"messages={len(value)}"
        case _:
            return "ok"


def _request_word(request_id: str | None) -> str:
    return "" if request_id is None else f" request={request_id}"


def _status_words(status: Status) -> str:
    words = [
        f"{status.phase} turn={status.turn} queued={','.join(status.queued)} dropped={status.dropped_signals}"
    ]
    words += unless(not status.suspended, "suspended")
    if status.budget_left is not None:
        words.append(f"left={status.budget_left.tokens}")
    words += unless(not status.steers, f"steers={','.join(status.steers)}")
    waiting = [
        *(one.id for one in status.approvals),
        *(one.ref for one in status.questions),
        *(one.ref for one in status.client_calls),
    ]
    words += unless(not waiting, f"waiting={','.join(waiting)}")
    running = [
        f"{one.name}{'(survivor)' if one.survivor else '(stopping)' if one.stopping else ''}"
        for one in status.running_tools
    ]
    words += unless(not running, f"running={','.join(running)}")
    return " ".join(words)


_SAID: Final = frozenset(
    "text reason delta title description question response prompt summary note".split()  # noqa: SIM905 - as in GROUPS
)


_NAMED: Final = {"via": "via", "request_id": "request"}


def _fields_of(event: e.EventBase) -> str:
    # Generic rather than one arm per kind, so that a new event is shown at once. Fields with their default are left out.
    words: list[str] = []
    for field in msgspec.structs.fields(event):
        value = getattr(event, field.name)
        if field.name == "meta" or value == field.default:
            continue
        # The lines above contain the request of each turn, and the head the tools.
        if field.name == "effect_class" or (field.name == "turns" and isinstance(event, e.AgentEnd)):
            continue
        match value:
            case str() if field.name in _NAMED:
                words.append(f"{_NAMED[field.name]}={value}")
            case str() if field.name in _SAID:
                words.append(quote(value))
            case bool() | int() | float():
                words.append(f"{field.name}={value}")
            case TraceContext():
                words.append(f"trace={value.traceparent}")
            case TokenUsage():
                words += unless(value == TokenUsage(), f"usage={value.input}/{value.output}")
            case _:
                words.append(_value_word(value))
    return "".join(f" {word}" for word in words if word)


def _value_word(value: object) -> str:
    match value:
        case str() as name:
            return name if len(name) < 64 else f"{name[:8]}…"  # noqa: PLR2004 - a digest has 64 characters
        case ErrorInfo(code=code, message=message):
            return f"{code} {quote(message)}"
        case ToolResult(text=text, is_error=is_error, images=images):
            shown = " ".join(["", *(image.media_type for image in images)])
            return (f"error {quote(text)}" if is_error else quote(text)) + shown
        case AssistantMessage(content=content):
            return " ".join(map(block_word, content))
        case e.AbortReceipt():
            return " ".join(RECEIPT.write(value))
        case Text(text=text):
            return quote(text)
        case e.Approval(id=id, call_id=call_id, tool=tool, arguments=arguments, hint=hint):
            call = block_word(ToolCall(call_id=call_id, name=tool, arguments=arguments))
            return f"{id} {call}" + (f" {quote(hint)}" if hint else "") + _offered(value)
        case tuple() as several:
            return _several(several)
        case dict() as arguments:
            return json.dumps(arguments)
        case None:
            return ""
        case _:
            return _carried_word(value)


def _carried_word(value: object) -> str:
    """Return a value that only a few events carry as text. Of all other values, only the type is written."""
    match value:
        case e.Todo(id=todo_id, status=status):
            word = name_word(todo_id)  # the model chose it, and may have written a sentence
            return f"{word}{'=' if word == todo_id else ' '}{status}"
        case e.Plan(steps=steps):
            return f"done={sum(step.done for step in steps)}/{len(steps)}"
        case e.PlanStep(index=index, content=content):
            return f"{index} {quote(content)}"
        case e.Amount(value=number, unit=unit):
            return f"{number:g} {unit}"
        case e.RecoveryDecision(open=what, id=open_id, decision=decision):
            return f"{what} {open_id} {decision}"
        case e.WaitingFor(kind=kind, id=waiting_id):
            return f"{kind}:{waiting_id}"
        case e.EventBase():  # of a child
            return f"{type(value).__name__}{_fields_of(value)}"
        case _:
            return type(value).__name__.lower()


def _several(values: Iterable[object]) -> str:
    values = tuple(values)
    if any(isinstance(value, UserMessage | AssistantMessage | ToolMessage) for value in values):
        return f"messages={len(values)}"
    joint = "," if all(isinstance(value, str) for value in values) else " "
    return joint.join(map(_value_word, values))


def _offered(approval: e.Approval) -> str:
    """Return the options of an approval, if they are not the default ones, and the operator of a breakpoint."""
    options = approval.permission_options
    by = "" if approval.by is None else f" by={approval.by}"
    return by if options == e.PERMISSION_OPTIONS else f" options={','.join(options)}{by}"
