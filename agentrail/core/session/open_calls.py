"""The calls of one response while they are open: where each stands, and all of them in their order, as one frozen value.

A model may ask for thousands of calls in one response, and each of them changes its stage four or five times. So no
question that is asked for each call goes through all of them: which one is next, which one is meant, how many run,
whether all are done. What a stage leads to stands in `batch`.

A handful of calls, as nearly all responses have, is a plain tuple: to go through it costs less than one change of a table.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, overload

import msgspec

from agentrail.core.protocol.request import EffectId
from agentrail.core.values.toolbox import ToolSpec
from agentrail.events import PermissionOption
from agentrail.messages import CallId, JsonObject, SessionId, ToolCall, ToolResult
from agentrail.otp.tables import Table

Stage: TypeAlias = Literal[
    "checking", "asking", "awaiting", "waiting", "pausing", "running", "stopping", "reporting", "done"
]
"""Where a call stands: `checking`, while the host is asked; `asking` a person; `awaiting` agents, or a time; `waiting` for a slot;
`pausing` before another attempt; `running`; `stopping`, when it is answered already but its task has not ended yet; `reporting`, when it is answered and
the host is told; `done`."""


_A_FEW: Final = 32


class WantedApproval(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An approval that a call needs, as long as no person is asked for it yet.

    Attributes:
        hint: Why a person is asked.
        timeout_ms: How long it waits; None for ever.
        options: The answers that are taken.
        by: The plugin that wants it; None where that was not kept.
    """

    hint: str | None
    timeout_ms: int | None
    options: tuple[PermissionOption, ...]
    by: str | None = None


class HostCheck(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a call while the host is asked about it, and of one that a person is shown again because of the host.

    Attributes:
        wanted: The approval that is asked for behind the verdict; of arguments that a person wrote only where they are others
            by then.
        always: Whether the person who wrote the arguments allows all that is like them; only where they stay as they are.
        changed_by: Who changed last what the person wrote; empty where they stand as written.
        rounds: How often the arguments were changed again after they had been judged, or shown.
    """

    wanted: WantedApproval | None = None
    always: bool = False
    changed_by: str = ""
    rounds: int = 0


class CallState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call of the batch.

    Attributes:
        call: As it stands in the history.
        spec: The tool that it began with, also when another took its name since; None when there was no such tool.
        generation: Of that tool.
        arguments: What will run: validated, defaults filled in. Of a call that was refused, what the model sent.
        stage: Where it stands.
        started: Whether its start event is out.
        edited: Whether a person changed the arguments.
        attempt: 1 for the first.
        operation_id: The same for all attempts; empty before the first.
        bound_to: The hash of the arguments that a person decided to let run, taken when they were shown or written; nothing
            else runs. None where no person was asked.
        arguments_hash: Of what ran, since the first attempt; empty before.
        began_at_ms: When its last attempt was started; 0 before the first.
        child_ids: The sessions that work for it, or did: one where it is answered by one, any number where its tool asks them.
        effect_id: Of what it waits for: the attempt that runs, the timer of a pause, what the host is asked or told; None
            while nothing is open.
        result: Set exactly when it is stopping, reporting or done.
        check: Set while it is checking; kept where a person is shown again what the host made of an edit.
        due_at_ms: Of a pause: when it is over; 0 elsewhere.
        judged_by: Of a call that waits for an approval: the plugins that have judged these very arguments, sorted.
        detached: Of a survivor: whether its tool has answered it and goes on in the background, and no abort had to spare it.
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

    @property
    def wants_child(self) -> bool:
        """Whether a session of its own works for it."""
        return self.spec is not None and self.spec.answered_by == "child"

    @property
    def is_put_to_people(self) -> bool:
        """Whether it waits for an answer, of the user or of the client, and never for a slot."""
        return self.spec is not None and self.spec.answered_by in {"user", "client"}

    @property
    def is_of_machine(self) -> bool:
        """Whether the session itself answers it: it takes no slot."""
        return self.spec is not None and self.spec.answered_by == "machine"


class OpenCalls(Sequence[CallState]):
    """Calls in the order of the model, each found by its id. A change costs no copy of the whole."""

    __slots__ = ("_calls", "_counts", "_few", "_ids", "_places", "_stages", "_waiting", "_waiting_children")

    def __init__(self, calls: Iterable[CallState] = ()) -> None:
        """Take calls, each id once."""
        states = tuple(calls)
        self._few: tuple[CallState, ...] | None = states if len(states) <= _A_FEW else None
        if self._few is not None:
            # Beside the calls, so that the C code of tuples looks for them: no index of so few is as quick.
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
        """Return these calls with one of them in another state; these stay as they are."""
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
        """Find a call by its id."""
        if self._few is not None:
            return self._few[self._ids.index(call_id)] if call_id in self._ids else None
        place = self._places.get(call_id)
        return None if place is None else self[place]

    def next_waiting(self) -> CallState | None:
        """Give the first call that waits for a slot."""
        if self._few is not None:
            return self._few[self._stages.index("waiting")] if "waiting" in self._stages else None
        found = self._waiting.first()
        return None if found is None else found[1]

    def count(self, *stages: Stage) -> int:
        """Count the calls in some stages."""
        if self._few is not None:
            return sum(map(self._stages.count, stages))
        return sum(self._counts.get(stage, 0) for stage in stages)

    def has_any(self, stages: frozenset[Stage]) -> bool:
        """Say whether a call is in one of some stages; stops at the first one."""
        if self._few is not None:
            return not stages.isdisjoint(self._stages)
        return any(self._counts.get(stage) for stage in stages)

    @property
    def waiting_children(self) -> int:
        """How many of them wait for a slot and for a session of their own."""
        if self._few is not None:
            return sum(state.stage == "waiting" and state.wants_child for state in self._few)
        return self._waiting_children

    def __len__(self) -> int:
        """Count them."""
        return len(self._places if self._few is None else self._few)

    def __iter__(self) -> Iterator[CallState]:
        """Give them in the order of the model, as they stand in this value."""
        return iter(self._few) if self._few is not None else (state for _, state in self._calls.items())

    @overload
    def __getitem__(self, index: int) -> CallState: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CallState, ...]: ...
    def __getitem__(self, index: int | slice) -> CallState | tuple[CallState, ...]:
        """Give one, or a tuple of some."""
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
        """They are equal when they hold equal calls in the same order."""
        if not isinstance(other, OpenCalls) or len(self) != len(other):
            return False
        return self._calls == other._calls if self._few is None else self._few == other._few

    def __hash__(self) -> int:
        """Hash by their ids."""
        return hash(tuple(state.call.call_id for state in self))

    def __repr__(self) -> str:
        """Show where each stands."""
        return f"OpenCalls({', '.join(f'{state.call.call_id}: {state.stage}' for state in self)})"

    def _enter(self, place: int, state: CallState) -> None:
        self._calls = self._calls.put(place, state)
        self._counts = {**self._counts, state.stage: self._counts.get(state.stage, 0) + 1}
        if state.stage == "waiting":
            self._waiting = self._waiting.put(place, state)
            self._waiting_children += state.wants_child


NO_CALLS: Final = OpenCalls()
"""Nothing is open."""
