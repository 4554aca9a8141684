"""Views of a journal for users: replay, the state at a number, causes, and the first difference of two journals. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from agentrail.core.journal.fold import (
    NO_SOURCES,
    Sources,
    Walked,
    asked_by,
    drift_of,
    first_state,
    fold_journal,
    walk,
)
from agentrail.core.journal.record import DRIFTED, OPENED, TAKEN, Record, Tail, decode_opened, join_blobs
from agentrail.core.journal.recorded_steps import effects_named, whole_body
from agentrail.core.journal.step_explanation import ExplainedStep, explained_step, lines_of_step
from agentrail.core.protocol.effects import stall_timer_of
from agentrail.core.protocol.hooks import HookEvent
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import EffectOutcome
from agentrail.core.session.state import SessionState
from agentrail.core.session.state_codec import begun_in, encode_session
from agentrail.core.stack.explained_run import ExplainedRun, explained_run
from agentrail.core.stack.explanation import Explanation
from agentrail.core.stack.loaded_stack import Ask, Member
from agentrail.core.stack.plugin import Context
from agentrail.errors import OptionError


class HookAnswer(msgspec.Struct, frozen=True, gc=False):
    """A plugin's answer to one hook event, within one step."""

    plugin: str
    hook: str
    answer: str

    def __str__(self) -> str:
        return f"{self.plugin} on {self.hook}: {self.answer}"


class ReplayStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One replayed record.

    Attributes:
        runs: Each hook event of it, with each plugin's answer and the outcome. Empty unless requested.
        caused_by: The number of the record that began the effect of this outcome. None for a signal from outside.
    """

    walked: Walked
    asked: tuple[HookAnswer, ...] = ()
    runs: tuple[ExplainedRun, ...] = ()
    caused_by: int | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The point where a replay differs from the record."""

    seq: int
    kind: str
    what: str
    asked: tuple[HookAnswer, ...]
    diff: str

    def __str__(self) -> str:
        plugins = "".join(f"\n  asked {one}" for one in self.asked)
        return f"record {self.seq} ({self.kind}): {self.what} differs{plugins}\n{self.diff}"


class Replayed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of a replay."""

    state: SessionState
    records: int
    difference: Difference | None = None


NO_SNAPSHOTS: Final[Mapping[int, bytes]] = MappingProxyType({})


def replay(
    records: Sequence[Record], sources: Sources = NO_SOURCES, snapshots: Mapping[int, bytes] = NO_SNAPSHOTS
) -> Replayed:
    """Replay a journal, and compare decisions, event numbers, and states where there are snapshots."""
    state, found = first_state(records, sources), None
    settled = max((record.seq for record in records if record.kind == DRIFTED), default=0)
    for one in steps(records, sources):
        state, seq = one.walked.after, one.walked.record.seq
        if found is None and seq > settled:
            found = _difference_in(one, snapshots.get(seq))
    return Replayed(state=asked_by(state, sources.ask), records=len(records), difference=found)


def state_at(records: Sequence[Record], number: int, sources: Sources = NO_SOURCES) -> SessionState:
    """Return the state of a session after a record, with its open effects and pending interactions."""
    if not 0 < number <= len(records):
        message = f"the number is {number}: expected 1 to {len(records)}, the existing records"
        raise OptionError([message])
    return fold_journal(records[:number], sources).state


def steps(
    records: Sequence[Record], sources: Sources = NO_SOURCES, *, explains: bool = False
) -> Iterator[ReplayStep]:
    """Iterate over a journal, one record at a time, with the plugins called and the cause of each record."""
    yield from steps_from(first_state(records, sources), records, sources=sources, explains=explains)


def steps_from(
    start: SessionState,
    records: Sequence[Record],
    *,
    tail: Tail = Tail(),  # noqa: B008 - frozen
    sources: Sources = NO_SOURCES,
    explains: bool = False,
) -> Iterator[ReplayStep]:
    """Iterate over the end of a journal same as `steps`. Earlier records are not named as causes."""
    watch = (_Explaining if explains else _Watch)(sources.ask)
    then = sources.state_at
    state_at = None if then is None else lambda number: asked_by(then(number), watch)
    watched = replace(sources, ask=watch, state_at=state_at)
    began: dict[EffectId, int] = {}
    for walked in walk(asked_by(start, watch), records, tail=tail, sources=watched):
        signal, seq = walked.signal, walked.record.seq
        caused_by = began.get(signal.effect_id) if isinstance(signal, EffectOutcome) else None
        began |= dict.fromkeys(_begun_in(walked.record.does), seq)
        yield ReplayStep(walked=walked, asked=watch.take(), runs=watch.take_runs(), caused_by=caused_by)


def explain_steps(records: Sequence[Record], sources: Sources = NO_SOURCES) -> Iterator[ExplainedStep]:
    for one in steps(records, sources, explains=True):
        yield explained_step(one.walked, one.runs, one.caused_by)


def explain_journal(records: Sequence[Record], sources: Sources = NO_SOURCES) -> Iterator[str]:
    """Yield the causes of each record, in lines: the record, its cause, the plugins called, and the result.

    Texts of users, models and tools are left out. Reasons of plugins are included in their words.
    """
    for one in explain_steps(records, sources):
        yield from lines_of_step(one)


def begins(does: str, effect_id: EffectId) -> bool:
    return effect_id in _begun_in(does)


class Parting(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The first difference between two journals.

    Attributes:
        one: The number of the record in the first journal. None if that one has ended.
        other: The number in the second.
        diff: `-` the first, `+` the second, for users.
    """

    one: int | None
    other: int | None
    what: str
    diff: str

    def __str__(self) -> str:
        return f"they diverge at record {self.one} and {self.other}: {self.what}\n{self.diff}"


def where_they_part(
    one: Sequence[Record], other: Sequence[Record], sources: Sources = NO_SOURCES
) -> Parting | None:
    """Return where two runs differ, such as one prompt with two versions of a plugin, or None.

    Times, ids drawn by a shell, and owners of a session are ignored: they differ in every run.
    """
    pairs = zip_longest(_told_of(one), _told_of(other))
    for first, second in pairs:
        if first is None or second is None:
            ended = f"- {_kind_of(first)}\n+ {_kind_of(second)}"
            return Parting(one=_seq_of(first), other=_seq_of(second), what="end", diff=ended)
        what, diff = "kind", _diff(first.kind, second.kind)
        if not diff:
            what, diff = "body", _diff_of_json(_lasting(first, sources), _lasting(second, sources))
        if not diff:
            what, diff = "does", _diff(_lasting_does(first.does), _lasting_does(second.does))
        if diff:
            return Parting(one=first.seq, other=second.seq, what=what, diff=diff)
    return None


# --- causes

_TIMED: Final = re.compile(r"^(?:set_timer|teardown) (\S+)", re.MULTILINE)


def _begun_in(does: str) -> Iterator[EffectId]:
    """Yield all effects that owe an outcome: work, timers, and the timers of streams."""
    yield from map(EffectId, _TIMED.findall(does))
    for effect_id in sorted(effects_named(does)):
        yield effect_id
        if effect_id.startswith("r"):
            yield stall_timer_of(effect_id)


# --- called plugins


class _Watch:
    """Wraps the way handlers are called, and records their answers."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._asked: list[HookAnswer] = []

    def __call__(self, member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
        hook = type(event).__name__
        try:
            answer = self._ask(member, event, state, ctx)
        except BaseException as error:
            self._asked.append(HookAnswer(member.name, hook, type(error).__name__))
            raise
        self._asked.append(HookAnswer(member.name, hook, type(answer).__name__))
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ask, name)  # `find` and `call`, if there are any

    def take(self) -> tuple[HookAnswer, ...]:
        asked = tuple(self._asked)
        self._asked.clear()
        return asked

    def take_runs(self) -> tuple[ExplainedRun, ...]:
        return ()


class _Explaining(_Watch):
    """Also records the outcome of each answer."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        self._runs: list[ExplainedRun] = []

    def tell_run(self, explanation: Explanation) -> None:
        self._runs.append(explained_run(explanation))

    def take_runs(self) -> tuple[ExplainedRun, ...]:
        runs = tuple(self._runs)
        self._runs.clear()
        return runs


# --- differences


def _difference_in(step: ReplayStep, snapshot: bytes | None) -> Difference | None:
    record = step.walked.record
    drift = drift_of(step.walked)
    if drift is not None:
        return Difference(
            seq=record.seq,
            kind=record.kind,
            what=drift.what,
            asked=step.asked,
            diff=_diff(drift.recorded, drift.folded),
        )
    if snapshot is None:
        return None
    state = encode_session(step.walked.after, begun=begun_in(snapshot) or None)
    if state == snapshot:
        return None
    diff = _diff_of_json(msgspec.json.decode(snapshot), msgspec.json.decode(state))
    return Difference(seq=record.seq, kind=record.kind, what="state", asked=step.asked, diff=diff)


def _diff(one: str, other: str) -> str:
    """Return two texts from the first different line on. Empty if they are equal."""
    pairs = list(zip_longest(one.split("\n"), other.split("\n")))
    same = next((place for place, (left, right) in enumerate(pairs) if left != right), len(pairs))
    lines: list[str] = []
    for sign, side in (("-", 0), ("+", 1)):
        lines += [f"{sign} {pair[side]}" for pair in pairs[same:] if pair[side] is not None]
    return "\n".join(lines)


_MISSING: Final = object()
_MOST_SHOWN: Final = 200


def _diff_of_json(one: Any, other: Any) -> str:
    """Return the first place where two documents differ. Empty if they are equal."""
    todo: list[tuple[str, Any, Any]] = [("$", one, other)]
    while todo:
        path, left, right = todo.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            names = sorted({*left, *right}, reverse=True)
            todo += [
                (f"{path}.{name}", left.get(name, _MISSING), right.get(name, _MISSING)) for name in names
            ]
        elif isinstance(left, list) and isinstance(right, list):
            pairs = list(enumerate(zip_longest(left, right, fillvalue=_MISSING)))
            todo += [(f"{path}[{place}]", *pair) for place, pair in reversed(pairs)]
        elif left != right:
            return f"- {path}: {_shown(left)}\n+ {path}: {_shown(right)}"
    return ""


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "(nothing)"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


# --- comparable parts of two runs

_PASSING: Final = frozenset(
    {"at_ms", "signal_id", "ref", "jitter", "pinged_at_ms", "started_at_ms", "ran_ms", "version", "engine"}
)
"""Fields of signals that differ from run to run."""

_OWN: Final = frozenset({"session_id", "path", "scope", "group_id"})
"""Fields of a configuration that differ from run to run."""


def _told_of(records: Sequence[Record]) -> Iterator[Record]:
    return (record for record in records if record.kind not in {TAKEN, DRIFTED})


def _kind_of(record: Record | None) -> str:
    return "(ended)" if record is None else record.kind


def _seq_of(record: Record | None) -> int | None:
    return None if record is None else record.seq


def _lasting(record: Record, sources: Sources) -> Any:
    body = join_blobs(record.body, sources.blob)
    if record.kind != OPENED:
        whole = whole_body(record.kind, record.at_ms, body)  # the body may be of an earlier version
        return _without(msgspec.json.decode(whole), _PASSING)
    state = msgspec.json.decode(bytes(decode_opened(body).state))
    data = state["session_state"]["data"]
    data["config"] = _without(data["config"], _OWN)
    return state


def _without(fields: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _lasting_does(does: str) -> str:
    """Return an outline without times, and without values that contain the id of its session."""
    kept: list[str] = []
    for line in does.split("\n"):
        words = line.split(" ")
        if words[0] == "set_timer":
            words = words[:2]
        kept.append(" ".join(word for word in words if not word.startswith("op=")))
    return "\n".join(kept)
