"""The open calls of one response: the stage of each, in order, as one frozen value."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, overload

import msgspec

from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.tool_questions import Resumption
from agentrail.core.values.toolbox import ToolSpec
from agentrail.events import PermissionOption
from agentrail.messages import CallId, JsonObject, SessionId, ToolCall, ToolResult
from agentrail.otp.persistent_maps import Table

Stage: TypeAlias = Literal[
    "checking", "asking", "awaiting", "waiting", "pausing", "running", "stopping", "reporting", "done"
]
"""Stage of a call.

`checking` by the host, `asking` the user, `awaiting` agents or a time, `waiting` for a slot, `pausing` before
a retry, `running`, `stopping` (answered, but its task has not ended), `reporting` (answered, and the host is
notified), `done`.
"""


_A_FEW: Final = 32


class WantedApproval(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An approval that a call needs, before the user is asked.

    Attributes:
        timeout_ms: How long it waits, in milliseconds. None waits indefinitely.
        by: The plugin that requires it. None if it was not stored.
    """

    hint: str | None
    timeout_ms: int | None
    options: tuple[PermissionOption, ...]
    by: str | None = None


class HostCheck(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The state of a call while the host is asked about it, or while the user sees it again because of the host.

    Attributes:
        wanted: The approval to request after the host's verdict. For arguments written by the user, only if they
            have changed by then.
        always: Whether the user who wrote the arguments always allows them. Only if they stay unchanged.
        changed_by: The source of the last change to the user's arguments. Empty if they are unchanged.
        rounds: How often the arguments were changed after they had been judged or shown.
        is_new: Whether the host has not seen the call that waits for its user.
    """

    wanted: WantedApproval | None = None
    always: bool = False
    changed_by: str = ""
    rounds: int = 0
    is_new: bool = False


class CallState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call of the batch.

    Attributes:
        spec: The tool that it began with, even if another tool has its name since. None if there was no such tool.
        arguments: The arguments to run: validated, with defaults filled in. For a refused call, those that the
            model sent.
        attempt: 1 for the first.
        operation_id: The same for all attempts. Empty before the first.
        bound_to: Hash of the arguments that the user approved, taken when they were shown or written. No other
            arguments run. None if the user was not asked.
        arguments_hash: Hash of the arguments that ran, since the first attempt. Empty before.
        began_at_ms: When its last attempt was started. 0 before the first.
        child_ids: Its child sessions, running or ended: one if it is answered by one, any number if its tool
            requests them.
        effect_id: The effect that it waits for: the running attempt, the timer of a pause, or the host's check or
            report. None while no effect is open.
        result: Set exactly when it is stopping, reporting or done.
        check: Set while it is checking. Kept while the user sees the host's changes to an edit.
        due_at_ms: End of a pause. 0 in other stages.
        judged_by: For a call that waits for an approval: the plugins that have judged these very arguments, sorted.
        resumption: The last question of its tool, whose answer it waits for or has. None if its tool asked none that way.
        detached: For a survivor: whether its tool has answered it and continues in the background. No abort had to
            spare it.
    """

    call: ToolCall
    spec: ToolSpec | None = None
    generation: int = 0
    arguments: JsonObject
    stage: Stage
    started: bool = False
    edited: bool = False
    attempt: int = 1
    operation_id: str = ""
    bound_to: str | None = None
    arguments_hash: str = ""
    began_at_ms: int = 0
    child_ids: tuple[SessionId, ...] = ()
    effect_id: EffectId | None = None
    result: ToolResult | None = None
    check: HostCheck | None = None
    due_at_ms: int = 0
    detached: bool = False
    judged_by: tuple[str, ...] = ()
    resumption: Resumption | None = None

    @property
    def wants_child(self) -> bool:
        return self.spec is not None and self.spec.answered_by == "child"

    @property
    def is_put_to_people(self) -> bool:
        """Whether it waits for an answer of the user or the client, and never for a slot."""
        return self.spec is not None and self.spec.answered_by in {"user", "client"}

    @property
    def is_of_machine(self) -> bool:
        """Whether the session itself answers it. It takes no slot."""
        return self.spec is not None and self.spec.answered_by == "machine"


class OpenCalls(Sequence[CallState]):
    """Calls in the order of the model, each found by its id. A change does not copy the whole."""

    __slots__ = ("_calls", "_counts", "_few", "_ids", "_places", "_stages", "_waiting", "_waiting_children")

    def __init__(self, calls: Iterable[CallState] = ()) -> None:
        states = tuple(calls)
        self._few: tuple[CallState, ...] | None = states if len(states) <= _A_FEW else None
        if self._few is not None:
            # Next to the calls, so that the C code of tuples searches them: no index of so few entries is as
            # fast.
            self._ids: tuple[CallId, ...] = tuple([state.call.call_id for state in states])
            self._stages: tuple[Stage, ...] = tuple([state.stage for state in states])
            return
        self._calls: Table[CallState] = Table()
        self._waiting: Table[CallState] = Table()
        self._places: Mapping[CallId, int] = {state.call.call_id: place for place, state in enumerate(states)}
        self._counts: Mapping[Stage, int] = {}
        self._waiting_children = 0
        for place, state in enumerate(states):
            self._enter(place, state)

    def changed(self, state: CallState) -> "OpenCalls":
        after: OpenCalls = OpenCalls.__new__(OpenCalls)
        after._few = None
        if self._few is not None:
            place = self._ids.index(state.call.call_id)
            few = list(self._few)
            few[place] = state
            after._few, after._stages, after._ids = tuple(few), self._stages, self._ids
            if self._stages[place] != state.stage:
                stages = list(self._stages)
                stages[place] = state.stage
                after._stages = tuple(stages)
            return after
        place = self._places[state.call.call_id]
        before = self[place]
        after._calls, after._waiting = self._calls, self._waiting
        after._places, after._counts = self._places, self._counts
        after._waiting_children = self._waiting_children - (before.stage == "waiting" and before.wants_child)
        if before.stage == "waiting" and state.stage != "waiting":
            after._waiting = after._waiting.drop(place)
        after._counts = {**after._counts, before.stage: after._counts[before.stage] - 1}
        after._enter(place, state)
        return after

    def find(self, call_id: CallId) -> CallState | None:
        if self._few is not None:
            return self._few[self._ids.index(call_id)] if call_id in self._ids else None
        place = self._places.get(call_id)
        return None if place is None else self[place]

    def next_waiting(self) -> CallState | None:
        """Return the first call that waits for a slot, or None."""
        if self._few is not None:
            return self._few[self._stages.index("waiting")] if "waiting" in self._stages else None
        found = self._waiting.first()
        return None if found is None else found[1]

    def count(self, *stages: Stage) -> int:
        if self._few is not None:
            return sum(map(self._stages.count, stages))
        return sum(self._counts.get(stage, 0) for stage in stages)

    def has_any(self, stages: frozenset[Stage]) -> bool:
        if self._few is not None:
            return not stages.isdisjoint(self._stages)
        return any(self._counts.get(stage) for stage in stages)

    @property
    def waiting_children(self) -> int:
        if self._few is not None:
            return sum(state.stage == "waiting" and state.wants_child for state in self._few)
        return self._waiting_children

    def __len__(self) -> int:
        return len(self._places if self._few is None else self._few)

    def __iter__(self) -> Iterator[CallState]:
        """Iterate in the order of the model, over the states in this value."""
        return iter(self._few) if self._few is not None else (state for _, state in self._calls.items())

    @overload
    def __getitem__(self, index: int) -> CallState: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CallState, ...]: ...
    def __getitem__(self, index: int | slice) -> CallState | tuple[CallState, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        place = index if index >= 0 else len(self) + index
        if self._few is None:
            found = self._calls.get(place)
        else:
            found = self._few[place] if 0 <= place < len(self._few) else None
        if found is None:
            message = f"index {index} is outside of {len(self)} calls"
            raise IndexError(message)
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpenCalls) or len(self) != len(other):
            return False
        return self._calls == other._calls if self._few is None else self._few == other._few

    def __hash__(self) -> int:
        return hash(tuple(state.call.call_id for state in self))

    def __repr__(self) -> str:
        return f"OpenCalls({', '.join(f'{state.call.call_id}: {state.stage}' for state in self)})"

    def _enter(self, place: int, state: CallState) -> None:
        self._calls = self._calls.put(place, state)
        self._counts = {**self._counts, state.stage: self._counts.get(state.stage, 0) + 1}
        if state.stage == "waiting":
            self._waiting = self._waiting.put(place, state)
            self._waiting_children += state.wants_child


NO_CALLS: Final = OpenCalls()
"""No open calls."""
