"""The chain behind an outcome, for users: the plugins asked, their answers, the winner and the losers."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from attrs import frozen

from agentrail.core.protocol.actions import (
    Abort,
    BlockTool,
    Emit,
    Intervene,
    ReplaceMessages,
    ReplaceResponse,
    ReplaceToolArgs,
    ReplaceToolResult,
    Request,
    RequireApproval,
    ResolveApproval,
    Skip,
    SwitchModel,
)
from agentrail.core.protocol.hooks import HookEvent
from agentrail.core.stack.hook_outcome import Outcome, Unfit
from agentrail.core.stack.loaded_stack import Member, Stack
from agentrail.errors import ErrorInfo

LAST_WINS = (ReplaceToolArgs, SwitchModel, ReplaceToolResult, ReplaceResponse, ReplaceMessages)


@frozen(kw_only=True)
class ExplainedAnswer:
    """One answer.

    Attributes:
        round: 0 in the first pass, then the number of the repeated judgement.
        answer: The action, or the error of a plugin that failed.
    """

    plugin: str
    priority: int
    round: int
    answer: Any
    verdict: str


@frozen(kw_only=True)
class Explanation:
    """A run of the pipeline, answer by answer. `str()` of it is a text for a terminal.

    Attributes:
        links: The answers, in the order in which the plugins were asked.
        not_asked: Names and priorities of the listeners that were not asked.
        outcome: The outcome, same as from `run_hook`.
    """

    hook: str
    links: tuple[ExplainedAnswer, ...]
    not_asked: tuple[tuple[str, int], ...]
    outcome: Outcome

    def lost_to(self, link: ExplainedAnswer) -> str | None:
        decision = self.outcome.decision
        if link.verdict == "stops the rest" and decision is not None and decision.action is not link.answer:
            return decision.by
        if link.verdict != "accepted":
            return None
        skipped_by = self._taken_back_by(link)
        if skipped_by is not None or not isinstance(link.answer, LAST_WINS):
            return skipped_by
        later = (one for one in self.links[self.links.index(link) + 1 :] if one.verdict == "accepted")
        same = (one for one in later if type(one.answer) is type(link.answer))
        return next((one.plugin for one in same if self._taken_back_by(one) is None), None)

    def _taken_back_by(self, accepted: ExplainedAnswer) -> str | None:
        match accepted.answer:
            case ReplaceToolArgs():
                is_taken_back = accepted.plugin not in self.outcome.rewritten_by
            case ReplaceMessages():
                is_taken_back = accepted.plugin not in self.outcome.replaced_by
            case answer:
                is_taken_back = isinstance(answer, Intervene | SwitchModel)
        stops = (one for one in self.links if one.verdict == "stops the rest")
        skips = (one.plugin for one in stops if type(one.answer) is Skip)
        return next(skips, None) if is_taken_back else None

    def __str__(self) -> str:
        return "\n".join([self.hook, *self._lines()])

    def _lines(self) -> Iterator[str]:
        for link in self.links:
            lost_to = self.lost_to(link)
            verdict = link.verdict if lost_to is None else f"lost to {lost_to!r}"
            again = f" (judging again, round {link.round})" if link.round else ""
            yield f"  {link.priority:>4} {link.plugin}{again}: {_in_words(link.answer)} → {verdict}"
        for name, priority in self.not_asked:
            yield f"  {priority:>4} {name}: not asked"
        yield f"  = {_result(self.outcome)}"


Tell: TypeAlias = Callable[[Explanation], None]
"""Called with a finished run. If `Stack.ask` has a `tell_run`, it is called with each of them."""


class RunListener:
    """Records each answer of one run, and passes the chain on when it is over."""

    def __init__(self, event: HookEvent, listeners: tuple[Member, ...], tell: Tell | None = None) -> None:
        self._event = event
        self._listeners = listeners
        self._tell = tell
        self._links: list[ExplainedAnswer] = []

    def __call__(self, member: Member, rounds: int, answer: object, verdict: str) -> None:
        self._links.append(
            ExplainedAnswer(
                plugin=member.name, priority=member.priority, round=rounds, answer=answer, verdict=verdict
            )
        )

    def explained(self, outcome: Outcome) -> Explanation:
        asked = {link.plugin for link in self._links}
        silent = [(member.name, member.priority) for member in self._listeners if member.name not in asked]
        return Explanation(
            hook=type(self._event).__name__,
            links=tuple(self._links),
            not_asked=tuple(silent),
            outcome=outcome,
        )

    def over(self, outcome: Outcome) -> None:
        if self._tell is not None:
            self._tell(self.explained(outcome))


def listener_of(stack: Stack, event: HookEvent, listeners: tuple[Member, ...]) -> RunListener | None:
    """Return a listener if the caller of the handlers wants runs reported, as a replay does. A live session does not."""
    tell = getattr(stack.ask, "tell_run", None)
    return None if tell is None else RunListener(event, listeners, tell)


def told_of(hearing: RunListener | None, outcome: Outcome) -> Outcome:
    if hearing is not None:
        hearing.over(outcome)
    return outcome


def _in_words(answer: Any) -> str:
    """Describe an answer without its state: states may be long, and concern only their plugin."""
    match answer:
        case ErrorInfo(message=message):
            return f"failed, {message}"
        case (
            Intervene(prompt=text)
            | Abort(reason=text)
            | BlockTool(reason=text)
            | RequireApproval(hint=text)
            | ReplaceResponse(text=text)
        ):
            return f"{type(answer).__name__}({text!r})"
        case ReplaceToolArgs(arguments=value) | ReplaceToolResult(result=value) | SwitchModel(model=value):
            return f"{type(answer).__name__}({value!r})"
        case ReplaceMessages(messages=messages):
            return f"ReplaceMessages({len(messages)} messages)"
        case ResolveApproval(approval_id=approval_id, decision=decision):
            return f"ResolveApproval({approval_id!r}, {decision!r})"
        case Request(effect=effect, tag=tag):
            return f"Request({effect!r}, {tag!r})"
        case Emit(events=events):
            return f"Emit({events!r})"
        case _:  # Continue and Skip
            return type(answer).__name__


def _result(outcome: Outcome) -> str:
    if outcome.waiting is not None:
        plugin_request = outcome.waiting.plugin_request
        return f"waits for {plugin_request.effect!r}, asked for by {plugin_request.by!r}"
    decision = outcome.decision
    if decision is None:
        return "goes on"
    said = decision.action.text if isinstance(decision.action, Unfit) else _in_words(decision.action)
    return f"{said}, by {decision.by!r}"
