"""The promises of `agentrail.testing.promises`, over each step of each live session. Only those are asked that the step may have broken."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final
from zlib import crc32

from agentrail.core.protocol.effects import StartStream
from agentrail.core.protocol.signals import Asked, ChunksArrived
from agentrail.testing.promises import (
    PROMISES,
    callers,
    conversation,
    effect_promises,
    observed_step,
    state_promises,
)
from agentrail.testing.simulation.facts import SessionStep
from agentrail.testing.simulation.gods_eye import Checker
from agentrail.testing.simulation.log import LineKind, LogLine


class Promises(Checker):
    """The promises of `agentrail.testing.promises`, over each step of each session."""

    name = "promises of each step"
    kinds: frozenset[LineKind] = frozenset({"step"})

    def judge(self, line: LogLine) -> str | None:
        step = line.facts
        if not isinstance(step, SessionStep):
            return None
        seen = observed_step.Seen(step.before, step.signal, step.after, step.effects)
        for promise in _promises_about(step):
            try:
                promise(seen)
            except AssertionError as error:
                said = (promise.__doc__ or "").split("\n", 1)[0]
                return (
                    f"{line.session}: {type(step.signal).__name__} breaks {promise.__name__} ({said}) {error}"
                )
        return None


_OF_CHUNKS: Final = (
    conversation.people_see_what_is_said_without_tags,
    conversation.event_numbers_are_dense,
    state_promises.steps_follow_the_table,
)
_WAITING: Final = ("queue", "held", "steers", "cycle.ref")
_CALLS: Final = ("batch", "survivors", "interactions")
_OF_FIELDS: Final[Mapping[Callable[[observed_step.Seen], None], tuple[str, ...]]] = MappingProxyType(
    {
        conversation.history_only_grows: ("history",),
        conversation.tool_events_come_in_pairs: _CALLS,
        state_promises.agents_are_as_written: ("agents", "acting"),
        state_promises.owners_are_as_written: (*_CALLS, "open", "stream", "held"),
        state_promises.calls_are_as_written: _CALLS,
        effect_promises.tools_run_once_and_only_from_waiting: _CALLS,
        effect_promises.effect_ids_are_new: ("open", "minted"),
        effect_promises.nothing_started_is_forgotten: ("open", "minted"),
        callers.prompts_are_never_lost: _WAITING,
        callers.steers_are_never_lost: _WAITING,
        callers.what_a_prompt_came_with_goes_with_it: _WAITING,
        callers.callers_are_answered_once: (*_WAITING, *_CALLS, "teardown", "wishes", "stoppers"),
    }
)
"""Promises about these fields: asked when one of them changed, and about each signal with a caller."""

_NAMED: Final = tuple(sorted({name for names in _OF_FIELDS.values() for name in names} - {"cycle.ref"}))

_OF_REQUESTS: Final = (effect_promises.requests_have_the_context_of_their_turn,)
_OF_SOME_REQUESTS: Final = (
    conversation.requests_are_of_a_closed_history,
    conversation.requests_speak_every_dialect,
    conversation.history_is_valid,
)
"""Promises that read the whole conversation: asked at one request of sixteen, since it only grows between."""

_ALWAYS: Final = tuple(
    one
    for one in PROMISES
    # `FoldEqualsLife` repeats each step from its bytes.
    if one
    not in (*_OF_FIELDS, *_OF_REQUESTS, *_OF_SOME_REQUESTS, state_promises.the_same_again_gives_the_same)
)


def _promises_about(step: SessionStep) -> Iterator[Callable[[observed_step.Seen], None]]:
    if isinstance(step.signal, ChunksArrived):
        yield from _OF_CHUNKS
        return
    yield from _ALWAYS
    was, now, is_asked = step.before.data, step.after.data, isinstance(step.signal, Asked)
    changed = {name for name in _NAMED if getattr(was, name) is not getattr(now, name)}
    if getattr(was.cycle, "ref", None) != getattr(now.cycle, "ref", None):
        changed.add("cycle.ref")
    for promise, fields in _OF_FIELDS.items():
        if is_asked or not changed.isdisjoint(fields):
            yield promise
    for effect in step.effects:
        if isinstance(effect, StartStream):
            yield from _OF_REQUESTS
            # Drawn by its name: sessions that do the same have requests with the same numbers.
            if crc32(f"{now.config.session_id}/{effect.request.attempt}".encode()) % 16 == 0:
                yield from _OF_SOME_REQUESTS
