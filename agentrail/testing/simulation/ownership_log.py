"""The log of a life as transitions of the model of ownership, for each session. A line that the model cannot make shows that they differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from agentrail.abc.store import Taken
from agentrail.core.protocol.effects import RunTool, SpawnChild, StartStream
from agentrail.errors import Fenced
from agentrail.testing.simulation.facts import NodeChange, SessionStep, StoreCall
from agentrail.testing.simulation.gods_eye import GONE
from agentrail.testing.simulation.log import LogLine
from agentrail.testing.simulation.ownership_model import (
    OWNERSHIP_RULES,
    OwnershipRule,
    OwnershipTransition,
    State,
    apply_transition,
)

_BEGINS: Final = (RunTool, StartStream, SpawnChild)
"""Effects that begin work which others can see."""


@frozen
class OwnershipLine:
    """A transition, and the line of the log that shows it.

    Attributes:
        line: Index of the line.
        session: The session, or empty for all: the transition is about a node.
    """

    line: int
    session: str
    transition: OwnershipTransition


def first_strange_line(
    lines: Sequence[OwnershipTransition], rules: frozenset[OwnershipRule] = OWNERSHIP_RULES
) -> int | None:
    """Return the index of the first line that the model cannot make, or None: the lines are a behaviour of the model.

    Args:
        lines: Transitions of one session in their order. Silent ones may be missing: a lease that passes, a claim, an answer that arrives.
        rules: Rules of the model.
    """
    states: Mapping[State, None] = {State(): None}
    for index, line in enumerate(lines):
        after = (apply_transition(state, line, rules) for state in _with_silence(states, line, rules))
        states = dict.fromkeys(state for state in after if state is not None)
        if not states:
            return index
    return None


def _with_silence(
    states: Iterable[State], line: OwnershipTransition, rules: frozenset[OwnershipRule]
) -> Iterator[State]:
    """Yield the states, and those after silent transitions that come before such a line."""
    known = dict.fromkeys(states)
    todo = list(known)
    for state in todo:
        yield state
        silent: tuple[OwnershipTransition, ...] = ()
        if line.name == "take":
            silent = (OwnershipTransition("lapse", state.owner), OwnershipTransition("claim", line.node))
        elif line.name in {"append", "effect", "stop"}:
            silent = (OwnershipTransition("outbox", line.node),)
        for one in silent:
            after = apply_transition(state, one, rules)
            if after is not None and after not in known:
                known[after] = None
                todo.append(after)


def strange_lines(log: Sequence[LogLine]) -> dict[str, int]:
    """Return the first line of a log that is not a behaviour of the model, for each session that has one."""
    lines = tuple(ownership_lines(log))
    found: dict[str, int] = {}
    for session in dict.fromkeys(one.session for one in lines if one.session):
        own = [one for one in lines if one.session in ("", session)]
        index = first_strange_line([one.transition for one in own])
        if index is not None:
            found[session] = own[index].line
    return found


def ownership_lines(log: Sequence[LogLine]) -> Iterator[OwnershipLine]:
    """Yield the transitions that a log shows. A session of which the store lost records is left out from there on."""
    reader = _Reader()
    for index, line in enumerate(log):
        for session, transition in reader.read(line):
            if session not in reader.lost:
                yield OwnershipLine(index, session, transition)


class _Reader:
    """What has to be remembered of earlier lines: lives of nodes, trees, and records of steps."""

    def __init__(self) -> None:
        self.lives: dict[str, int] = {}
        self.trees: dict[str, dict[str, None]] = {}
        self.epochs: dict[str, int] = {}
        self.steps: dict[tuple[str, str], list[SessionStep]] = {}
        self.lost: dict[str, None] = {}

    def node(self, place: str) -> str:
        return f"{place}/{self.lives.get(place, 0)}"

    def read(self, line: LogLine) -> Iterator[tuple[str, OwnershipTransition]]:
        node = self.node(line.place)
        match line.facts:
            case NodeChange(action="stopped"):
                yield "", OwnershipTransition("stop", node)
            case NodeChange(action="continued"):
                yield "", OwnershipTransition("continue", node)
            case NodeChange(action=action) if action in GONE:
                yield "", OwnershipTransition("gone", node)
                self.lives[line.place] = self.lives.get(line.place, 0) + 1
            case StoreCall(answer=answer) as call if call.is_executed and not isinstance(
                answer, BaseException
            ):
                yield from self._called(node, call.name, call.arguments, answer)
            case SessionStep(record=record) as step if record:
                self.steps.setdefault((line.session, node), []).append(step)
            case RunTool() | StartStream() | SpawnChild() as effect:
                yield from self._began(line.session, node, effect)
            case _:
                pass

    def _called(
        self, node: str, name: str, given: Mapping[str, Any], answer: Any
    ) -> Iterator[tuple[str, OwnershipTransition]]:
        match name:
            case "create":
                opening = given["opening"]
                session, tail = opening.session, opening.records[-1]
                if session not in self.epochs:
                    self.trees.setdefault(opening.root, {})[session] = None
                    self.epochs[session] = tail.epoch
                    yield session, OwnershipTransition("create", node, epoch=tail.epoch, last=tail.seq)
            case "append":
                for append, refusal in zip(given["batch"], answer, strict=True):
                    yield from self._appended(node, append, refusal)
            case "take":
                yield from self._taken(
                    node if given["node"] else "", answer, is_forced=given.get("force", False)
                )
            case "take_many":
                for wanted, taken in zip(given["wanted"], answer, strict=True):
                    if isinstance(taken, Taken):
                        yield from self._taken(node if wanted.node else "", taken, is_forced=wanted.force)
            case "release":
                for session in self.trees.get(given["root"], ()):
                    yield session, OwnershipTransition("release", node)
            case "beat":
                yield "", OwnershipTransition("beat", node)
            case "owned":
                yield "", OwnershipTransition("look", node)
            case "delete" | "erase":
                self.lost[given["session"]] = None
            case "fail_over" if answer:
                self.lost.update(dict.fromkeys(self.epochs))
            case _:
                pass

    def _appended(self, node: str, append: Any, refusal: object) -> Iterator[tuple[str, OwnershipTransition]]:
        first, last = append.records[0], append.records[-1]
        if refusal is None or isinstance(refusal, Fenced):
            said = "fenced" if refusal else "ok"
            line = OwnershipTransition(
                "append", node, epoch=first.epoch, first=first.seq, last=last.seq, answer=said
            )
            yield append.session, line
        else:
            self.lost[append.session] = None

    def _taken(
        self, node: str, taken: Taken, *, is_forced: bool
    ) -> Iterator[tuple[str, OwnershipTransition]]:
        for one in taken.sessions:
            epoch, last = one.tail.epoch, one.tail.seq
            if epoch > self.epochs.get(one.session, epoch):  # a session that has ended gets no record
                self.epochs[one.session] = epoch
                yield (
                    one.session,
                    OwnershipTransition("take", node, epoch=epoch, last=last, is_forced=is_forced),
                )

    def _began(self, session: str, node: str, effect: Any) -> Iterator[tuple[str, OwnershipTransition]]:
        steps = self.steps.get((session, node), [])
        for place, step in enumerate(steps):
            for number, one in enumerate(step.effects):
                if one is effect:
                    del steps[:place]  # outboxes are left in order
                    said = f"{step.record}/{number}"
                    yield session, OwnershipTransition("effect", node, first=step.record, effect=said)
                    return
