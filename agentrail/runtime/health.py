"""Health of sessions, for operators: parked sessions, plugin statistics, unusable models, and spent budgets."""

from collections import Counter
from typing import Final

from attrs import frozen

from agentrail.errors import AgentrailError, Authentication, ModelNotFound
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.runtime.arguments import fault_of, refuse
from agentrail.runtime.session_keys import fault_of_scope
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.session_reports import SessionReport
from agentrail.runtime.shared_resources import Shared
from agentrail.wire.inspection_rows import FailureNote, HookRow

LOGGER: Final = Logger("agentrail.runtime")

_NANO: Final = 1_000_000_000
_REGISTRY: Final = "registry:"


@frozen(kw_only=True)
class PluginUse:
    """Statistics of the plugins with one name, over all sessions of a scope since the supervisor was opened.

    Attributes:
        hooks: For each hook that was called: number of calls, their duration, and number of exceptions.
        last_failure: The last exception. None if there was none.
    """

    name: str
    sessions: int
    hooks: tuple[HookRow, ...]
    last_failure: FailureNote | None


@frozen(kw_only=True)
class BudgetUse:
    """Spending of a session against its money budget.

    Attributes:
        used_usd: Amount booked, including children.
    """

    session_id: SessionId
    used_usd: float
    limit_usd: float


class Health:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def parked_sessions(self, *, scope: str | None = None) -> tuple[SessionReport, ...]:
        """Return the last hundred sessions that crashed too often and were parked, newest last.

        Args:
            scope: Same as `sessions`.

        Raises:
            OptionError: Your move: an invalid scope.
        """
        refuse(None if scope is None else fault_of_scope("scope", scope))
        return tuple([one for one in self._shared.board.parked if scope in (None, one.scope)])

    def plugin_use(self, *, scope: str) -> tuple[PluginUse, ...]:
        """Return statistics of the plugins of sessions, by name.

        Args:
            scope: Only sessions of this scope, `""` for those without one.

        Raises:
            OptionError: Your move: an invalid scope.
        """
        refuse(None if scope == "" else fault_of_scope("scope", scope))
        having: Counter[str] = Counter()
        for entry in self._shared.entries.values():
            cell = entry.cell
            if cell.ports.scope == scope and not cell.is_asleep and not cell.state.ended:
                having.update(cell.state.data.stack.names)
        tally = self._shared.dependencies.tallies.of(scope)
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
        """Return why no session with these options could use its model, such as a missing key. None if no fault is found.

        No connection is made.

        Args:
            options: Options of a session that has not started. Only the first of its models is checked.
        """
        refuse(fault_of("options", options, SessionOptions))
        model = options.model
        if not isinstance(model, str) or model.startswith(_REGISTRY):
            return None  # an object already exists, and a registry is checked when it is used
        try:
            self._shared.dependencies.resolve_provider(model, options.provider_opts)
        except (Authentication, ModelNotFound) as error:
            return f"{error}"
        except AgentrailError as error:
            # An error message may contain option values.
            LOGGER.warning("model %s cannot be reached: %s", model, error)
            return f"{model} cannot be used with its options: see the log"
        return None

    def budget_use(self, *, scope: str) -> tuple[BudgetUse, ...]:
        """Return the spending of awake sessions against their money budgets, those nearest to their limits first.

        Args:
            scope: Only sessions of this scope, `""` for those without one. Child sessions are left out.

        Raises:
            OptionError: Your move: an invalid scope.
        """
        refuse(None if scope == "" else fault_of_scope("scope", scope))
        found: list[BudgetUse] = []
        for entry in self._shared.entries.values():
            cell = entry.cell
            if cell.ports.scope != scope or cell.is_asleep or len(cell.state.data.config.path) > 1:
                continue
            ledger, budget = cell.state.data.ledger, cell.state.data.config.budget
            # The limit of a cycle is not a budget of its session.
            limit = None if budget is None else budget.max_cost_usd
            if ledger is not None and limit is not None:
                used = ledger.spent_nano_usd / _NANO
                found.append(BudgetUse(session_id=cell.ports.session_id, used_usd=used, limit_usd=limit))
        return tuple(sorted(found, key=lambda one: one.used_usd / one.limit_usd, reverse=True))
