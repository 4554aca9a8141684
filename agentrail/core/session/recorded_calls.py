"""Recorded verdicts: in the fold that restores a session, the records decide whether a call ran, and newer guards do not. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias, final

from msgspec.structs import replace

from agentrail.core.policy.calls import hash_arguments
from agentrail.core.protocol.actions import Abort, BlockTool, Continue, RequireApproval
from agentrail.core.protocol.hooks import HookEvent
from agentrail.core.session.agent_records import agent_wanted
from agentrail.core.session.open_calls import CallState
from agentrail.core.stack.hook_outcome import Decision, Outcome
from agentrail.core.stack.loaded_stack import Ask, Member
from agentrail.core.stack.plugin import Context
from agentrail.messages import JsonObject

BeganCall: TypeAlias = tuple[str, str]
"""A call named by a record: its tool and the digest of its arguments. For a child session, the agent and an empty digest."""

Guess: TypeAlias = Literal["as_said", "asked", "refused", "aborted", "allowed"]
"""The assumed outcome of a call that no record names: its guards' current refusal, otherwise one of the others."""

GUESSES: Final[tuple[Guess, ...]] = ("as_said", "asked", "refused", "aborted", "allowed")

_BEGAN: Final = re.compile(
    r"^(?:run_tool \S+ (\S+)(?: op=\S*)? args=(\S+)|spawn_child \S+ (\S+))", re.MULTILINE
)
_NEXT_TURN: Final = re.compile(r"^start_stream ", re.MULTILINE)
_BY: Final = "journal"
_NOT_RUN: Final = "Not run: the journal of this session says that this call did not begin."
DIGITS: Final = 12
"""Digits of an arguments digest in an outline."""


def began_in(does: str) -> Iterator[BeganCall]:
    for tool, arguments, agent in _BEGAN.findall(does):
        yield (tool, arguments) if tool else (agent, "")


def began_call(state: CallState, arguments: JsonObject) -> BeganCall:
    if state.wants_child:
        return name_in_outline(agent_wanted(arguments)), ""
    return name_in_outline(state.call.name), hash_arguments(arguments)[:DIGITS]


def name_in_outline(text: str) -> str:
    """Return a name as one word of an outline. It cannot be confused with another word or another line."""
    return text if text.isprintable() and " " not in text and text else ascii(text).replace(" ", "\\x20")


@final
class RecordedCalls:
    """The records about calls, from one step on."""

    __slots__ = ("_does", "_place", "guess", "set_aside", "was_asked")

    def __init__(self, does: Sequence[str], place: int, guess: Guess = "as_said") -> None:
        """Store the outlines of all records, and the index of the one that is folded."""
        self._does = does
        self._place = place
        self.guess: Guess = guess
        self.was_asked: bool = False
        self.set_aside: list[str] = []

    def judged(self, state: CallState, outcome: Outcome, ask_leniently: Callable[[], Outcome]) -> Outcome:
        self.was_asked = True
        spec = state.spec
        is_named_by_records = spec is None or spec.answered_by in {"code", "child"}
        if outcome.decision is None and (
            not is_named_by_records or began_call(state, arguments_of(outcome, state)) in self._now()
        ):
            return outcome if self.guess in {"as_said", "allowed"} else self._guessed(outcome, outcome)
        lenient = replace(ask_leniently(), decision=None)
        if not is_named_by_records:
            return outcome if self.guess == "as_said" else self._guessed(outcome, lenient)
        ran, is_later = self._ran(state, lenient)
        if ran is None:
            allowed = outcome.decision is None
            return outcome if self.guess == "as_said" and not allowed else self._guessed(outcome, lenient)
        if is_later and isinstance(outcome.decision and outcome.decision.action, RequireApproval):
            return outcome
        if is_later and self.guess == "asked":
            return self._guessed(outcome, ran)
        if outcome.decision is not None:
            self.set_aside.append(outcome.decision.by)
        return ran

    def ran_unjudged(self, name: str, arguments: JsonObject) -> bool:
        """Whether a call that the gates refuse today began in this step, with these arguments."""
        key = name_in_outline(name), hash_arguments(arguments)[:DIGITS]
        if key not in self._now():
            return False
        self.was_asked = True
        self.set_aside.append(_BY)
        return True

    def has_begun(self, state: CallState) -> bool:
        return began_call(state, state.arguments) in self._now()

    def _ran(self, state: CallState, lenient: Outcome) -> tuple[Outcome | None, bool]:
        """Return the outcome with the arguments of a call that ran, or None, and whether a later record names it."""
        for began, is_later in ((self._now(), False), (self._later(), True)):
            if began_call(state, arguments_of(lenient, state)) in began:
                return lenient, is_later
            if began_call(state, state.arguments) in began:
                event = replace(lenient.event, arguments=state.arguments)
                return replace(lenient, event=event, rewritten_by=()), is_later
        return None, False

    def _guessed(self, outcome: Outcome, lenient: Outcome) -> Outcome:
        """Return the assumed outcome of a call that no record names."""
        action: Any
        match self.guess:
            case "asked":
                action = RequireApproval(_NOT_RUN, None)
            case "aborted":
                action = Abort(_NOT_RUN, None)
            case "allowed" if outcome.decision is not None:
                self.set_aside.append(outcome.decision.by)
                return lenient
            case _:
                action = BlockTool(_NOT_RUN, None)
        self.set_aside.append(_BY if outcome.decision is None else outcome.decision.by)
        decision = Decision(action=action, by=_BY)
        return replace(lenient, decision=decision)

    def _now(self) -> frozenset[BeganCall]:
        return frozenset(began_in(self._does[self._place]))

    def _later(self) -> frozenset[BeganCall]:
        """Return the calls that began before the next request to the model: the calls of one response stay open until then."""
        found: set[BeganCall] = set()
        for place in range(self._place + 1, len(self._does)):
            does = self._does[place]
            found.update(began_in(does))
            if _NEXT_TURN.search(does):
                break
        return frozenset(found)


def arguments_of(outcome: Outcome, state: CallState) -> JsonObject:
    return state.arguments if outcome.arguments is None else outcome.arguments


def lenient_ask(ask: Ask) -> Ask:

    def call(member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
        answer = ask(member, event, state, ctx)
        if isinstance(answer, BlockTool | RequireApproval | Abort):
            return Continue(answer.state)
        return answer

    return call
