"""Options that choose stored sessions: `--since` and `--where`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final

from attrs import frozen
from cyclopts import Parameter

from agentrail import outside
from agentrail.abc.store import Filters, Store, StoredSession
from agentrail.cli.store_access import all_sessions, state_of
from agentrail.errors import AgentrailError, OptionError
from agentrail.runtime.cost_table import begin_of, make_query
from agentrail.runtime.session_loader import opening_of


@Parameter(name="*")
@frozen(kw_only=True)
class ChosenSessions:
    since: Annotated[
        str | None,
        Parameter(
            help="Only sessions written since this day, such as 2026-11-01, or in the last days, such as 30d."
        ),
    ] = None
    where: Annotated[
        tuple[str, ...],
        Parameter(
            help="Only these sessions: profile, user, model, scope or outcome, such as profile=desk. Can be repeated.",
            negative="",
        ),
    ] = ()

    def found_in(self, store: Store, scope: str) -> Iterator[StoredSession]:
        """Yield the chosen sessions of a scope, or of all if it is empty, and unreadable ones, which may belong to them."""
        wanted = [_pair(one) for one in self.where]
        query = make_query(since=self.since, now_ms=int(outside.wall() * 1000))
        begin_ms = 0 if query.since is None else begin_of(query.since, query.zone)
        for stored in all_sessions(store, Filters(scope=scope or None)):
            if stored.written_at_ms >= begin_ms and all(_matches(store, stored, *pair) for pair in wanted):
                yield stored


EVERY_SESSION: Final = ChosenSessions()


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    if key not in _FACTS or not value:
        raise OptionError(
            [f"--where is {text!r:.80}: expected {', '.join(_FACTS)}, with a value, such as profile=desk"]
        )
    return key, value


def _matches(store: Store, stored: StoredSession, key: str, value: str) -> bool:
    try:
        return _FACTS[key](store, stored) == value
    except AgentrailError:
        return True


def _outcome(store: Store, stored: StoredSession) -> str:
    last = state_of(store, stored).state.data.last
    return "open" if last is None else last.outcome


_FACTS: Final[Mapping[str, Callable[[Store, StoredSession], object]]] = {
    "profile": lambda store, stored: opening_of(store, stored).config.user_data.get("agent_id"),
    "user": lambda store, stored: opening_of(store, stored).config.user_data.get("user_id"),
    "model": lambda store, stored: opening_of(store, stored).config.model.model,
    "scope": lambda _, stored: stored.scope,
    "outcome": _outcome,
}
