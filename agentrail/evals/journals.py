"""Recorded sessions stepped with another stack: what it decides differently, without a model. Pure.

Two folds of one journal: that of the record, and that of the other stack, whose plugins are asked for every verdict again.
The comparison ends where the other stack needs an outcome that the journal does not have.
"""

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, Final, Literal, TypeAlias

import msgspec
from attrs import field, frozen, mutable

from agentrail.core.journal.fold import Sources, Walked, asked_by, drift_of, first_state, walk
from agentrail.core.journal.record import DRIFTED, REWOUND, Record, decode_rewound
from agentrail.core.journal.recorded_steps import outline
from agentrail.core.policy.calls import hash_arguments
from agentrail.core.policy.request_context import fixed_tokens_of
from agentrail.core.protocol import effects as e
from agentrail.core.protocol.actions import Continue
from agentrail.core.protocol.effects import Effect, Publish, Refuse, ReplyToCaller, StartStream
from agentrail.core.protocol.hooks import Hook, HookEvent
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    ChangePlugins,
    PluginRequestFinished,
    Recovered,
    Signal,
    UpdatePluginOpts,
)
from agentrail.core.session.machine import new_session, step
from agentrail.core.session.state import Interaction, SessionState
from agentrail.core.stack.loaded_stack import Member, PluginStates, Stack, load_stack
from agentrail.core.stack.plugin import Context
from agentrail.core.values.history import Log
from agentrail.errors import InternalError, OptionError
from agentrail.events import AgentAbort, AgentError, Event, PluginFailed, SessionStart, ToolBlocked
from agentrail.frozen import EMPTY
from agentrail.messages import CallId, Message
from agentrail.otp.crash_text import describe_bug

CallChange: TypeAlias = Literal["blocked", "asked about", "rewritten", "let through"]

_replace: Final = msgspec.structs.replace


@frozen(kw_only=True)
class OtherStack:
    """Changes to recorded sessions.

    Attributes:
        plugins: The plugins, or a function of the recorded ones. None keeps those.
        config: New values of fields of `SessionConfig`.
    """

    plugins: Any = None
    config: Mapping[str, Any] = EMPTY


@frozen(kw_only=True)
class ChangedCall:
    """A call that is judged differently. `by` is the plugin that decides now, otherwise the one that decided before."""

    record: int
    call_id: CallId
    tool: str
    change: CallChange
    by: str


class _SameMessages:
    """Compares two conversations. Messages of the last equal pair are not compared again."""

    def __init__(self) -> None:
        self._last: tuple[Log[Message], Log[Message]] = (Log(), Log())

    def __call__(self, recorded: Sequence[Message], other: Sequence[Message]) -> bool:
        if not (isinstance(recorded, Log) and isinstance(other, Log)):
            return recorded == other
        one, two = self._last
        known = len(one) if recorded.grew_from(one) and other.grew_from(two) else 0
        is_same: bool = recorded[known:] == other[known:]
        self._last = (recorded, other) if is_same else self._last
        return is_same


@mutable
class StackComparison:
    """A recorded session, compared with another stack record by record.

    Attributes:
        at: Number of the last record read.
        first: Number of the first record that differs. None if the session is the same.
        plugin: The plugin that decides differently there. Empty for limits and prompts.
        what: The difference, without texts of the conversation.
        calls: Calls that are judged differently, in order.
        aborted: Records at which the other stack ends a cycle that continued.
        tokens: Estimated tokens of its requests beyond the recorded ones.
        open_from: The record at which an outcome is missing. Nothing after it is compared.
        needs: That outcome.
        fault: Traceback of a plugin or the core. Empty if nothing raised.
    """

    records: Sequence[Record]
    sources: Sources
    other: OtherStack
    at: int = field(default=0, init=False)
    first: int | None = field(default=None, init=False)
    plugin: str = field(default="", init=False)
    what: str = field(default="", init=False)
    calls: list[ChangedCall] = field(factory=list, init=False)
    aborted: list[int] = field(factory=list, init=False)
    tokens: int = field(default=0, init=False)
    open_from: int | None = field(default=None, init=False)
    needs: str = field(default="", init=False)
    fault: str = field(default="", init=False)
    _is_same_conversation: _SameMessages = field(factory=_SameMessages, init=False)
    _recorded_verdicts: "dict[CallId, _Verdict]" = field(factory=dict, init=False)

    def steps(self) -> Iterator[tuple[Walked, Walked]]:
        """Compare the journal. Yields each step as recorded, and as the other stack makes it.

        Raises:
            OptionError: Your move: the code of the recorded stack has changed, so it no longer shows what was decided.
            JournalCorrupt, Erased, CodecError, PluginError: Same as `fold`.
        """
        self.sources = _replace(self.sources, keeps_verdicts=True)
        start = first_state(self.records, self.sources)
        state = self._with_other_stack(start)
        listeners = _Listeners(start.data.stack, state.data.stack)
        start = _with_stack(start, _replace(start.data.stack, by_hook=listeners), start.data.plugin_states)
        states: dict[int, SessionState] = {}
        settled = max((record.seq for record in self.records if record.kind == DRIFTED), default=0)
        for walked in walk(start, self.records, sources=self.sources):
            self.at = walked.record.seq
            if self.at <= settled:  # other code decided until there, and the record has its state
                state = self._with_other_stack(walked.after) if self.at == settled else state
            elif walked.signal is None:
                state = self._with_record(walked, state, states)
            else:
                mine = self._shared(walked, state, listeners) or self._step(walked, walked.signal, state)
                state = mine.after
                yield walked, mine
            if self.open_from is not None or self.fault:
                return
            states[self.at] = state
            listeners.were_asked = listeners.always

    def _with_other_stack(self, recorded: SessionState) -> SessionState:
        data, plugins = recorded.data, self.other.plugins
        stack, states = data.stack, data.plugin_states
        if plugins is not None:
            kept = {id(one.plugin): states[one.name] for one in stack.members}
            if callable(plugins):
                plugins = plugins([(one.plugin, one.options) for one in stack.members])
            stack, made = load_stack(plugins, ask=self.sources.ask)
            states = {one.name: kept.get(id(one.plugin), made[one.name]) for one in stack.members}
        config = _replace(data.config, **self.other.config)
        ledger = new_session(config, data.tools).data.ledger if "budget" in self.other.config else data.ledger
        changed = _replace(recorded, data=_replace(data, config=config, ledger=ledger))
        return _with_stack(changed, stack, states)

    def _with_record(
        self, walked: Walked, state: SessionState, states: Mapping[int, SessionState]
    ) -> SessionState:
        """Continue after a record that is not a signal: new code, a rewind, the end."""
        if walked.after is walked.before:
            return state
        if self.first is not None and not walked.after.ended:
            self._open("the conversation that the session continues with")
        after = _replace(walked.after, data=_replace(walked.after.data, config=state.data.config))
        if self.other.plugins is None:
            return after
        record = walked.record
        then = states[decode_rewound(record.body).number] if record.kind == REWOUND else state
        return _with_stack(after, state.data.stack, then.data.plugin_states)

    def _shared(self, walked: Walked, state: SessionState, listeners: "_Listeners") -> Walked | None:
        """Return the recorded step if the other stack has nothing to decide in it, so that it is not made twice."""
        if self.first is not None or self.other.config or drift_of(walked) is not None:
            return None
        if self.other.plugins is None:
            return None if walked.set_aside else walked
        is_free = walked.before.data.stack.by_hook is listeners and walked.after.data.stopping is None
        if not is_free or listeners.were_asked or isinstance(walked.signal, _OF_PLUGINS):
            return None
        after = _with_stack(walked.after, state.data.stack, state.data.plugin_states)
        return _replace(walked, before=state, after=after)

    def _step(self, walked: Walked, signal: Signal, state: SessionState) -> Walked:
        record = walked.record
        mine = Walked(record=record, before=state, signal=None, after=state)
        given = signal if self.first is None else _translated(signal, walked.before, state)
        if given is not None:  # otherwise it is about work that this side has not begun
            try:
                after, effects = step(state, given)
            except InternalError as error:
                self.first, self.what, self.fault = record.seq, str(error), traceback.format_exc()
                return mine
            mine = _replace(mine, signal=given, after=after, effects=effects)
        if (drift := drift_of(walked)) is not None:
            if self.first is None and drift_of(_replace(mine, does=outline(mine.effects))) is None:
                message = f"the code of its stack has changed; keep the old one to compare with: {drift}"
                raise OptionError([message])
            self._differ(walked, mine)
            self._open("the decisions of the recorded stack, whose code has changed")
        elif self.first is not None or not self._is_same(walked.effects, mine.effects):
            self._differ(walked, mine)
            self._judge(walked, mine)
            self._look_for_open(walked, mine)
        return mine

    # --- differences

    def _is_same(self, recorded: Sequence[Effect], effects: Sequence[Effect]) -> bool:
        if len(recorded) != len(effects):
            return False
        for one, other in zip(recorded, effects, strict=True):
            if isinstance(one, StartStream) and isinstance(other, StartStream):
                if not self._is_same_conversation(one.request.messages, other.request.messages):
                    return False
                one, other = _without_messages(one), _without_messages(other)  # noqa: PLW2901 - compared below
            if one != other and not _is_equal(one, other):
                return False
        return True

    def _differ(self, walked: Walked, mine: Walked) -> None:
        if self.first is not None:
            return
        faults: dict[str, str] = {}
        theirs, ours = self._answers(walked, {}), self._answers(mine, faults)
        by = [one[0] for one in ours if one not in theirs] + [one[0] for one in theirs if one not in ours]
        self.first, self.what = self.at, _difference(walked.effects, mine.effects)
        self.plugin = by[0] if by else ""
        for one in _events_in(mine):
            if isinstance(one, PluginFailed) and one.plugin in by and one.plugin in faults:
                self.plugin, self.what, self.fault = one.plugin, one.error.message, faults[one.plugin]
                return

    def _answers(self, walked: Walked, faults: dict[str, str]) -> list[tuple[str, object]]:
        """Repeat a step, and return what its plugins answered or raised."""
        answers: list[tuple[str, object]] = []

        def ask(member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
            try:
                answer = self.sources.ask(member, event, state, ctx)
            except BaseException as error:
                answers.append((member.name, describe_bug(error)))
                faults[member.name] = traceback.format_exc()
                raise
            if not isinstance(answer, Continue) or answer.context:
                answers.append((member.name, answer))
            return answer

        if walked.signal is not None:
            with suppress(InternalError):
                step(asked_by(walked.before, ask), walked.signal)
        return answers

    def _judge(self, walked: Walked, mine: Walked) -> None:
        self._recorded_verdicts.update(_verdicts_in(walked))
        named = {one.call_id for one in self.calls}
        for call_id, (kind, tool, digest, by) in _verdicts_in(mine):
            was = self._recorded_verdicts.get(call_id)
            if was is None or call_id in named or (kind, digest) == (was[0], was[2]):
                continue
            run: CallChange = "rewritten" if was[0] == "runs" else "let through"
            change = run if kind == "runs" else kind
            who = by or was[3] or self.plugin
            call = ChangedCall(record=self.at, call_id=call_id, tool=tool, change=change, by=who)
            if not self.calls and self.first == self.at and not self.fault:
                self.plugin, self.what = call.by, f"{tool} is {change}"
            self.calls.append(call)
        if _endings_in(mine) > _endings_in(walked):
            self.aborted.append(self.at)

    # --- outcomes that the journal does not have

    def _open(self, needs: str) -> None:
        self.open_from, self.needs = self.at, needs

    def _look_for_open(self, walked: Walked, mine: Walked) -> None:
        after, is_asked = mine.after.data, False
        known = {_key(one) for one in (*walked.after.data.interactions, *mine.before.data.interactions)}
        if any(_key(one) not in known for one in after.interactions):
            self._open("a user's answer")
            return
        owed = {None, *map(_owed, walked.effects)}
        recorded = next((one.request for one in walked.effects if isinstance(one, StartStream)), None)
        for effect in mine.effects:
            if isinstance(effect, StartStream):
                request, is_asked = effect.request, True
                if recorded is None or not self._is_same_conversation(recorded.messages, request.messages):
                    self._open("the answer of the model to another conversation")
                    return
                self.tokens += fixed_tokens_of(request.system, request.tools)
                self.tokens -= fixed_tokens_of(recorded.system, recorded.tools)
            elif _owed(effect) not in owed:
                self._open(f"the outcome of {type(effect).__name__}")
                return
        if recorded is not None and not is_asked and after.cycle is not None:
            self._open("the end of work that the journal does not have")


class _Listeners(dict[Hook, tuple[Member, ...]]):
    """The listeners of the recorded stack. Notes when a hook is called that has some in either stack."""

    def __init__(self, recorded: Stack, other: Stack) -> None:
        super().__init__(recorded.by_hook)
        self._heard = {*recorded.by_hook, *other.by_hook}
        self.always = (recorded.hiding, recorded.following) != (other.hiding, other.following)
        self.were_asked: bool = self.always

    def __bool__(self) -> bool:
        return bool(self._heard)

    def get(self, hook: Hook, otherwise: Any = None) -> Any:
        self.were_asked |= hook in self._heard
        return super().get(hook, otherwise)


_OF_PLUGINS: Final = (ChangePlugins, UpdatePluginOpts, PluginRequestFinished)


def _with_stack(state: SessionState, stack: Stack, states: PluginStates) -> SessionState:
    return _replace(state, data=_replace(state.data, stack=stack, plugin_states=states))


_Verdict: TypeAlias = tuple[Literal["runs", "asked about", "blocked"], str, str, str]
"""The verdict on a call, its tool, the digest of the arguments that run, and the plugin."""

_LET_THROUGH: Final = frozenset({"checking", "waiting", "running", "pausing", "awaiting"})


def _verdicts_in(walked: Walked) -> Iterator[tuple[CallId, _Verdict]]:
    for event in _events_in(walked):
        if isinstance(event, ToolBlocked):
            yield event.call_id, ("blocked", event.name, "", event.by)
    by = {one.asked.call_id: one.by or "" for one in walked.after.data.interactions}
    for call in walked.after.data.batch:
        call_id = call.call.call_id
        if call.stage in _LET_THROUGH:
            yield call_id, ("runs", call.call.name, hash_arguments(call.arguments), "")
        elif call.stage == "asking":
            yield call_id, ("asked about", call.call.name, "", by.get(call_id, ""))


def _events_in(walked: Walked) -> list[Event]:
    return [effect.event for effect in walked.effects if isinstance(effect, Publish)]


def _endings_in(walked: Walked) -> int:
    return sum(isinstance(event, AgentAbort | AgentError) for event in _events_in(walked))


def _is_equal(one: Effect, other: Effect) -> bool:
    """Compare two effects that are not the same. Some name the plugins of their stack."""
    match one, other:
        case Publish(event=SessionStart()), Publish(event=SessionStart()):
            return True
        case Refuse(), Refuse():
            return type(one.error) is type(other.error)
        case _:
            return isinstance(one, ReplyToCaller) and isinstance(other, ReplyToCaller)


def _owed(effect: Effect) -> object:
    """Return what must be the same for a recorded outcome to answer an effect. None for effects without an outcome."""
    match effect:
        case e.RunTool(call_id=call_id, name=name, arguments_hash=digest):
            return call_id, name, digest
        case e.SpawnChild(call_id=call_id, agent=agent, arguments=arguments):
            return call_id, agent, hash_arguments(arguments)
        case e.SetTimer(at_ms=at_ms):
            return at_ms
        case e.Teardown():
            return e.Teardown
        case (
            e.AskHost()
            | e.TellHost()
            | e.StartAgent()
            | e.ResumeChild()
            | e.RunPluginRequest()
            | e.GatherContext()
        ):
            return repr(_replace(effect, effect_id=EffectId("")))
        case _:
            return None


def _without_messages(effect: StartStream) -> StartStream:
    return _replace(effect, request=_replace(effect.request, messages=()))


def _difference(recorded: Sequence[Effect], effects: Sequence[Effect]) -> str:
    for one, other in zip_longest(recorded, effects):
        if one is None or other is None or (one != other and not _is_equal(one, other)):
            kinds: list[object] = [getattr(effect, "event", effect) for effect in (one, other)]
            was, now = ("nothing" if kind is None else type(kind).__name__ for kind in kinds)
            return f"{was} is {'another one' if was == now else now}"
    return "nothing"


# --- Both sides mint their own ids, so an outcome finds its effect by the owner of that.


def _key(one: Interaction) -> tuple[str, CallId]:
    return type(one.asked).__name__, one.asked.call_id


def _counterpart(effect_id: EffectId, recorded: SessionState, mine: SessionState) -> EffectId | None:
    owner, opened = recorded.data.open.get(effect_id), mine.data.open
    if opened.get(effect_id) == owner:
        return effect_id
    return None if owner is None else next((one for one, other in opened.items() if other == owner), None)


def _translated(signal: Signal, recorded: SessionState, mine: SessionState) -> Signal | None:
    """Return a signal with the ids of this side. None if its subject does not exist here."""
    changes: dict[str, Any] = {}
    effect_id = getattr(signal, "effect_id", None)
    if effect_id is not None:
        changes["effect_id"] = _counterpart(effect_id, recorded, mine)
    if isinstance(signal, Recovered):
        changes["open"] = tuple(filter(None, (_counterpart(one, recorded, mine) for one in signal.open)))
    for name in ("approval_id", "ref"):
        for pending in recorded.data.interactions:
            if pending.id == getattr(signal, name, None):
                same = (one.id for one in mine.data.interactions if _key(one) == _key(pending))
                changes[name] = next(same, None)
    return None if None in changes.values() else _replace(signal, **changes)
