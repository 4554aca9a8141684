"""The calls of a supervisor for people who look after all of its sessions: what was given up, how plugins do, what was used.

They read, change nothing and wake no session.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

import trio
from attrs import frozen

from agentrail.core.stack.loading import Ask
from agentrail.core.stack.plugin import Plugin
from agentrail.errors import AgentrailError, Authentication, ModelNotFound
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.runtime.arguments import refuse
from agentrail.runtime.assembly import Dependencies
from agentrail.runtime.hook_times import HookCount, LastFailure
from agentrail.runtime.keeping import Keeping
from agentrail.runtime.options import SessionOptions
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.reviving import PluginFinder
from agentrail.runtime.scopes import fault_of_scope, key_of
from agentrail.runtime.session_reports import ReportBoard, SessionReport
from agentrail.runtime.sessions_below import SessionEntry
from agentrail.runtime.spending_book import SessionSpending, SpendingBook

LOGGER: Final = Logger("agentrail.runtime")

_NANO: Final = 1_000_000_000
_REGISTRY: Final = "registry:"


@frozen(kw_only=True)
class PluginUse:
    """How the plugins of one name do, over all sessions of a scope that lived since the supervisor was opened.

    Attributes:
        name: Which ones.
        sessions: How many sessions have one now.
        hooks: Of each hook that one was called on: how often, how long, how often it raised.
        last_failure: What one raised last; None where none did.
    """

    name: str
    sessions: int
    hooks: tuple[HookCount, ...]
    last_failure: LastFailure | None


@frozen(kw_only=True)
class BudgetUse:
    """What a session has spent of its budget of money.

    Attributes:
        session_id: Which session.
        used_usd: What was booked, of children too.
        limit_usd: What may be spent.
    """

    session_id: SessionId
    used_usd: float
    limit_usd: float


class InspectingDoor(ABC):
    """The calls of a supervisor that look at all of its sessions."""

    _dependencies: Dependencies
    _entries: dict[str, SessionEntry]
    _board: ReportBoard
    _book: SpendingBook | None
    _booking: trio.Lock

    def _begin_inspecting(self) -> None:
        self._book = None
        self._booking = trio.Lock()

    def parked_sessions(self, *, scope: str | None = None) -> tuple[SessionReport, ...]:
        """Say which sessions crashed too often and were given up, the last hundred, the newest last.

        Args:
            scope: Only those of this scope, `""` for those without one; None for all.

        Raises:
            OptionError: Your move: a scope that can be none.
        """
        refuse(None if scope is None else fault_of_scope("scope", scope))
        return tuple([one for one in self._board.parked if scope in (None, one.scope)])

    def plugin_use(self, *, scope: str) -> tuple[PluginUse, ...]:
        """Say how the plugins of sessions do, by name.

        Args:
            scope: Of the sessions of this scope, `""` for those without one.

        Raises:
            OptionError: Your move: a scope that can be none.
        """
        refuse(fault_of_scope("scope", scope) if scope else None)
        having: Counter[str] = Counter()
        for entry in self._entries.values():
            cell = entry.cell
            if cell.ports.scope == scope and not cell.is_asleep and not cell.state.ended:
                having.update(cell.state.data.stack.names)
        tally = self._dependencies.tallies.of(scope)
        return tuple([
            PluginUse(
                name=name,
                sessions=having[name],
                hooks=tally.hooks_of(name),
                last_failure=tally.last_failure_of(name),
            )
            for name in dict.fromkeys((*tally.names, *having))
        ])  # fmt: skip

    def fault_of_model(self, options: SessionOptions) -> str | None:
        """Say why no session of these options could ask its model, such as a key that is not set; None where nothing speaks against it.

        Nothing is connected, and no server is asked: whether a key is a right one is shown by the first request.

        Args:
            options: Those of a session that is not started; of their models only the first one is looked at.
        """
        model = options.model
        if not isinstance(model, str) or model.startswith(_REGISTRY):
            return None  # an object is there already, and what a registry has is found out when it is asked
        try:
            self._dependencies.resolve_provider(model, options.provider_opts)
        except (Authentication, ModelNotFound) as error:
            return f"{error}"
        except AgentrailError as error:
            # What is said of options may have some of them in it.
            LOGGER.warning("model %s cannot be asked: %s", model, error)
            return f"{model} cannot be asked with the options that it has: the log says why"
        return None

    def budget_use(self, *, scope: str) -> tuple[BudgetUse, ...]:
        """Say what sessions that are awake have spent of their budgets of money, those nearest to their limits first.

        Args:
            scope: Of the sessions of this scope, `""` for those without one. Those that work for others are left out: they spend
                what they were lent.

        Raises:
            OptionError: Your move: a scope that can be none.
        """
        refuse(fault_of_scope("scope", scope) if scope else None)
        found: list[BudgetUse] = []
        for entry in self._entries.values():
            cell = entry.cell
            if cell.ports.scope != scope or cell.is_asleep or len(cell.state.data.config.path) > 1:
                continue
            ledger = cell.state.data.ledger
            limit = None if ledger is None else ledger.budget.max_cost_usd
            if ledger is not None and limit is not None:
                used = ledger.spent_nano_usd / _NANO
                found.append(BudgetUse(session_id=cell.ports.session_id, used_usd=used, limit_usd=limit))
        return tuple(sorted(found, key=lambda one: one.used_usd / one.limit_usd, reverse=True))

    async def spendings(
        self, *, scope: str | None = None, since_ms: int | None = None
    ) -> tuple[SessionSpending, ...]:
        """Say what sessions have used, from their journals: also those that have ended, and each that works for another by itself.

        Args:
            scope: Only sessions of this scope, `""` for those without one; None for all.
            since_ms: Only sessions that were written since, in milliseconds since 1970; None for all.

        Raises:
            OptionError: Your move: there is no store, or a scope that can be none.
            StoreUnavailable: The store cannot be read now.

        Cancellation: At once; what was read by then is kept for the next look. It is worked out in a thread, one look at a time, and of
            what was read before only what was written since is read.
        """
        refuse(fault_of_scope("scope", scope) if scope else None)
        await trio.lowlevel.checkpoint()
        keeping = self._store_of("spendings")
        live = {
            entry.cell.ports.key: tuple(entry.cell.plugins)
            for entry in self._entries.values()
            if not entry.cell.is_asleep
        }
        async with self._booking:
            # A look that was cancelled may still be at it, in its thread: its book is left to it.
            book, self._book = self._book or SpendingBook(keeping.store), None
            book.find_code_with(partial(self._code_of, live))
            told = await keeping.fold(partial(book.look, scope, since_ms))
            self._book = book
        return told

    def _code_of(
        self, live: Mapping[str, tuple[Plugin, ...]], scope: str, session_id: SessionId
    ) -> tuple[PluginFinder, Ask]:
        """Find the code of plugins as a session that is awake has it, else where it was defined; with a watch of its own, for a thread."""
        watch = QuietWatch(session_id, {}, self._dependencies.outside)
        finder = PluginFinder({plugin.name: plugin for plugin in live.get(key_of(scope, session_id), ())})
        watch.find_others(finder)
        return finder, watch

    @abstractmethod
    def _store_of(self, call: str) -> Keeping: ...
