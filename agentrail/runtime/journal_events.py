"""Old events of a session, rebuilt from its journal for a returning subscriber. The event loop is used only to wait."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeVar

import trio
from attrs import define, field

from agentrail.abc.store import Store, StoredSession
from agentrail.core.journal.fold import drift_of, first_state, walk
from agentrail.core.journal.record import REWOUND
from agentrail.core.session.state import SessionState
from agentrail.core.stack.loaded_stack import Ask
from agentrail.errors import AgentrailError, StoreUnavailable
from agentrail.events import Event
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.otp.guarded_calls import call_guarded
from agentrail.outside import Outside
from agentrail.runtime.event_subscription import Subscription, number_of
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.session_loader import (
    PluginFinder,
    committed_events_of,
    fold_sources,
    newest_snapshot,
    read_after,
)
from agentrail.runtime.store_writer import LONGEST_PAUSE_SECONDS
from agentrail.runtime.tree_secrets import Withheld

T = TypeVar("T")

LOGGER: Final = Logger("agentrail.runtime")

MAX_OLD_EVENTS: Final = 100_000
"""Maximum number of events rebuilt for one subscriber. One that is further behind gets `EventsLost`."""


@define(eq=False, repr=False, slots=False)
class OldEvents:
    """Rebuilds events from journals. Closed with its supervisor, whose owner closes the store next."""

    _store: Store
    _outside: Outside
    _limiter: trio.CapacityLimiter
    _patience_seconds: float
    is_closed: bool = field(init=False, default=False)

    async def read(
        self, state: SessionState, after: int, before: int, *, withheld: Withheld | None = None
    ) -> tuple[Event, ...]:
        """Return the events of a session between two numbers, without those that are never replayed.

        Raises:
            StoreUnavailable: The store could not be read for longer than its patience. The events are not lost.
        """
        if before - after > MAX_OLD_EVENTS:
            await trio.lowlevel.checkpoint()
            return ()
        config = state.data.config
        watch = QuietWatch(config.session_id, config.user_data, self._outside, withheld=withheld)
        finder = PluginFinder({member.name: member.plugin for member in state.data.stack.members})
        watch.find_others(finder)
        make = partial(
            old_events,
            self._store,
            config.scope,
            config.session_id,
            after=after,
            before=before,
            finder=finder,
            ask=watch,
        )
        gives_up_at = trio.current_time() + self._patience_seconds
        while True:
            try:
                return await self._outside.offload(make, abandon_on_cancel=True, limiter=self._limiter)
            except StoreUnavailable:
                if self.is_closed:
                    return ()
                if trio.current_time() >= gives_up_at:
                    raise
            await trio.sleep(LONGEST_PAUSE_SECONDS)


async def read_in_the_end(read: Callable[[], Awaitable[T]]) -> T:
    """Read the past of a session. Waits for a store that is away, for callers that record an outcome if they find nothing."""
    while True:
        with suppress(StoreUnavailable):
            return await read()
        await trio.sleep(LONGEST_PAUSE_SECONDS)


@asynccontextmanager
async def subscribed_in_the_end(subscribe: Callable[[], Subscription]) -> AsyncIterator[Subscription]:
    """Enter a subscription with `after`. Waits like `read_in_the_end`."""
    async with AsyncExitStack() as stack:
        yield await read_in_the_end(lambda: stack.enter_async_context(subscribe()))


def old_events(  # noqa: PLR0913 - the requested range
    store: Store, scope: str, session: SessionId, *, after: int, before: int, finder: PluginFinder, ask: Ask
) -> tuple[Event, ...]:
    """Fold the required part of a journal. Same arguments and result as `OldEvents.read`. This blocks. Raises only `StoreUnavailable`."""

    def read() -> tuple[Event, ...]:
        stored = store.get(scope, session)
        return () if stored is None else _folded(store, stored, after, before, finder, ask)

    def refuse(error: BaseException) -> tuple[Event, ...]:
        if isinstance(error, StoreUnavailable):
            raise error
        # Of a bug only its class: its message may contain anything, and the caller's own store may have raised it.
        why = error if isinstance(error, AgentrailError) else f"reading them raised {type(error).__name__}"
        LOGGER.warning("session %s: its events after %s are not available: %s", session, after, why)
        return ()

    return call_guarded(refuse, read)


def _folded(  # noqa: PLR0913, PLR0917 - same arguments
    store: Store, stored: StoredSession, after: int, before: int, finder: PluginFinder, ask: Ask
) -> tuple[Event, ...]:
    sources = fold_sources(store, stored, finder, ask)
    start, tail, _ = newest_snapshot(store, stored, finder, ask, last_event=after)
    records = read_after(store, stored.scope, stored.session, tail.seq)
    if any(one.kind == REWOUND and one.events > after for one in records):
        return ()  # the session was rewound past some of them, so they no longer count
    needed = next((place for place, one in enumerate(records, 1) if one.events >= before - 1), len(records))
    records = records[:needed]
    events: list[Event] = []
    begun = first_state(records, sources) if start is None else start
    for walked in walk(begun, records, tail=tail, sources=sources):
        if drift_of(walked) is not None:
            return ()
        events += [event for event in committed_events_of(walked) if after < number_of(event) < before]
    numbers = [number_of(event) for event in events]
    return tuple(events) if numbers == list(range(after + 1, before)) else ()
