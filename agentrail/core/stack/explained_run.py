"""A run of the pipeline as data: the plugins asked, their answers, the winner, and the losers. Pure."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from agentrail.core.stack.explanation import LAST_WINS, ExplainedAnswer, Explanation
from agentrail.core.stack.hook_outcome import Outcome, Unfit
from agentrail.errors import ErrorInfo
from agentrail.frozen import EMPTY, frozen_json
from agentrail.messages import JsonObject
from agentrail.structs import name_of_class

LinkVerdict: TypeAlias = Literal[
    "won", "kept", "lost", "silent", "ignored", "waits", "failed", "failed_closed"
]
"""The verdict on an answer.

- `won`: it stopped the rest, or is the only one that can count.
- `kept`: it counts together with others.
- `lost`: another one revoked or replaced it.
- `silent`: it had no content.
- `ignored`: the hook does not accept the action.
- `waits`: the run continues when its request is answered.
- `failed`: the plugin failed, and the rest was asked.
- `failed_closed`: it failed, which counts as a refusal.
"""

_VERDICTS: Final[Mapping[str, LinkVerdict]] = {
    "no answer": "silent",
    "ignored": "ignored",
    "waits": "waits",
    "no objection": "kept",
    "stops the rest": "won",
    "fails open": "failed",
    "fails closed, stops the rest": "failed_closed",
}

_SHOWN_BYTES: Final = 16_384
"""Longer values of an answer are replaced by their size."""


class ExplainedLink(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One answer.

    Attributes:
        plugin: The plugin.
        priority: Its priority. Lower ones are asked first.
        round: 0 in the first pass, then the number of the repeated judgement.
        action: The action, such as `BlockTool`. None for a plugin that failed.
        fields: The content of the answer, without the state. For a failure its `code` and `message`. A value of
            more than 16 KiB is `{"$cut": bytes}`.
        verdict: The verdict on it.
        lost_to: The plugin that revoked or replaced it. None if it counts.
    """

    plugin: str
    priority: int
    round: int
    action: str | None
    fields: JsonObject = EMPTY
    verdict: LinkVerdict
    lost_to: str | None = None


class ExplainedOutcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of a run.

    Attributes:
        end: `goes_on`: no action stopped it. `decided`: an action stopped it. `waits`: it continues when a request
            is answered.
        action: The action that stopped it, such as `BlockTool`, or `Unfit` for rewritten arguments that cannot run.
            Otherwise None.
        by: The plugin that decided or waits, otherwise None.
        fields: Its content, same as in `ExplainedLink`.
    """

    end: Literal["goes_on", "decided", "waits"]
    action: str | None = None
    by: str | None = None
    fields: JsonObject = EMPTY


class ExplainedRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One hook event and the plugins' answers.

    Attributes:
        hook: The hook event, such as `BeforeTool`.
        links: The answers, in the order in which the plugins were asked.
        not_asked: Listeners that were not asked, because the run had stopped before them, or waits.
        outcome: The outcome.
    """

    hook: str
    links: tuple[ExplainedLink, ...] = ()
    not_asked: tuple[str, ...] = ()
    outcome: ExplainedOutcome


def explained_run(explanation: Explanation) -> ExplainedRun:
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
    return "events", "emits", "context"  # of `Emit`, which is not a Struct


def _plain(value: Any) -> Any:
    plain = msgspec.to_builtins(value, enc_hook=name_of_class)
    try:
        size = len(msgspec.json.encode(plain))
    except UnicodeEncodeError:  # half of a surrogate pair, which the sender replaces
        return plain
    return plain if size <= _SHOWN_BYTES else {"$cut": size}
