"""How a run of the pipeline is told as data: who was asked, what each answered, what won, and to whom the others lost. Pure.

The value is for people and programs alike: a command draws it, a route sends it. No state of a plugin enters: states may be long, and
concern only their plugin. Who asks the plugins, and how an `Explanation` comes about, stands in `pipeline`.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from agentrail.core.stack.explanation import LAST_WINS, ExplainedAnswer, Explanation
from agentrail.core.stack.outcome import Outcome, Unfit
from agentrail.errors import ErrorInfo
from agentrail.frozen import EMPTY, frozen_json
from agentrail.messages import JsonObject

LinkVerdict: TypeAlias = Literal[
    "won", "kept", "lost", "silent", "ignored", "waits", "failed", "failed_closed"
]
"""What became of an answer. `won`: it stops the rest, or stands where only one can stand. `kept`: it counts beside others. `lost`: another
took it back, or came later. `silent`: nothing was said. `ignored`: the hook takes no such action. `waits`: the run goes on when its request
has an answer. `failed`: the plugin failed, and the rest is asked. `failed_closed`: it failed, and that counts as a refusal."""

_VERDICTS: Final[Mapping[str, LinkVerdict]] = {
    "nothing to say": "silent",
    "ignored": "ignored",
    "waits": "waits",
    "no objection": "kept",
    "stops the rest": "won",
    "fails open": "failed",
    "fails closed, stops the rest": "failed_closed",
}

_SHOWN_BYTES: Final = 16_384
"""Longer values of an answer are told by their size."""


class ExplainedLink(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One answer.

    Attributes:
        plugin: Who answered.
        priority: Its priority; lower ones are asked first.
        round: 0 in the first pass; then which time the arguments are judged again.
        action: What it answered, such as `BlockTool`; None of a plugin that failed.
        fields: What stood in the answer, without the state; of a failure its `code` and `message`. A value of more than 16 KiB is
            `{"$cut": bytes}`.
        verdict: What became of it.
        lost_to: Who took it back, or came later; None where it stands.
    """

    plugin: str
    priority: int
    round: int
    action: str | None
    fields: JsonObject = EMPTY
    verdict: LinkVerdict
    lost_to: str | None = None


class ExplainedOutcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a run came to.

    Attributes:
        end: `goes_on`: nothing stopped it. `decided`: an action stopped it. `waits`: it goes on when a request has its answer.
        action: What stopped it, such as `BlockTool`; `Unfit` of rewritten arguments that cannot run; else None.
        by: The plugin that said so, or that waits; else None.
        fields: What stood in it, as of `ExplainedLink`.
    """

    end: Literal["goes_on", "decided", "waits"]
    action: str | None = None
    by: str | None = None
    fields: JsonObject = EMPTY


class ExplainedRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One hook event, and what the plugins made of it.

    Attributes:
        hook: The hook event, such as `BeforeTool`.
        links: The answers, in the order in which the plugins were asked.
        not_asked: Listeners that were not asked, because the run had stopped before them, or waits.
        outcome: What came of it.
    """

    hook: str
    links: tuple[ExplainedLink, ...] = ()
    not_asked: tuple[str, ...] = ()
    outcome: ExplainedOutcome


def explained_run(explanation: Explanation) -> ExplainedRun:
    """Tell a run as data."""
    return ExplainedRun(
        hook=explanation.hook,
        links=tuple([_link_of(explanation, link) for link in explanation.links]),
        not_asked=tuple([name for name, _ in explanation.not_asked]),
        outcome=_outcome_of(explanation.outcome),
    )


def _link_of(explanation: Explanation, link: ExplainedAnswer) -> ExplainedLink:
    lost_to = explanation.lost_to(link)
    is_error = isinstance(link.answer, ErrorInfo)
    return ExplainedLink(
        plugin=link.plugin,
        priority=link.priority,
        round=link.round,
        action=None if is_error else type(link.answer).__name__,
        fields=_fields_of(link.answer),
        verdict=_verdict_on(link, lost_to),
        lost_to=lost_to,
    )


def _verdict_on(link: ExplainedAnswer, lost_to: str | None) -> LinkVerdict:
    if lost_to is not None:
        return "lost"
    stands: LinkVerdict = "won" if isinstance(link.answer, LAST_WINS) else "kept"
    return _VERDICTS.get(link.verdict, stands)


def _outcome_of(outcome: Outcome) -> ExplainedOutcome:
    if outcome.waiting is not None:
        asked = outcome.waiting.plugin_request
        fields = frozen_json({"effect": _plain(asked.effect), "tag": asked.tag})
        return ExplainedOutcome(end="waits", by=asked.by, fields=fields)
    decision = outcome.decision
    if decision is None:
        return ExplainedOutcome(end="goes_on")
    action = decision.action
    name = "Unfit" if isinstance(action, Unfit) else type(action).__name__
    return ExplainedOutcome(end="decided", action=name, by=decision.by, fields=_fields_of(action))


def _fields_of(answer: Any) -> JsonObject:
    if isinstance(answer, ErrorInfo):
        return frozen_json({"code": answer.code, "message": answer.message})
    names = [name for name in _names_of(answer) if name != "state"]
    found = {name: getattr(answer, name) for name in names}
    told = {name: _plain(item) for name, item in found.items() if item is not None and item != ()}
    return frozen_json(told)


def _names_of(answer: Any) -> tuple[str, ...]:
    if isinstance(answer, msgspec.Struct):
        return answer.__struct_fields__
    return "events", "emits", "context"  # of `Emit`, which is no struct


def _plain(value: Any) -> Any:
    plain = msgspec.to_builtins(value, enc_hook=_name_of_class)
    try:
        size = len(msgspec.json.encode(plain))
    except UnicodeEncodeError:  # half of a character, which who sends it replaces
        return plain
    return plain if size <= _SHOWN_BYTES else {"$cut": size}


def _name_of_class(value: object) -> str:
    return (
        f"{type(value).__name__}(…)"  # a payload of an event may be of any class; nothing else is told of it
    )
