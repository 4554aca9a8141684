"""The health of sessions, for operators: what was parked, how plugins do, which models cannot be asked, what of budgets is spent.

Nothing here changes or wakes a session.
"""

from collections import Counter
from typing import Final

from attrs import frozen

from agentrail.errors import AgentrailError, Authentication, ModelNotFound
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.runtime.arguments import refuse
from agentrail.runtime.hook_times import HookCount, LastFailure
from agentrail.runtime.scopes import fault_of_scope
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.session_reports import SessionReport
from agentrail.runtime.shared import Shared

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


class Health:
    """The part of a supervisor that reports how its sessions do."""

    def __init__(self, shared: Shared) -> None:
        """Look at the state of a supervisor."""
        self._shared = shared

    def parked_sessions(self, *, scope: str | None = None) -> tuple[SessionReport, ...]:
        """Say which sessions crashed too often and were given up, the last hundred, the newest last.

        Args:
            scope: Only those of this scope, `""` for those without one; None for all.

        Raises:
            OptionError: Your move: a scope that can be none.
        """
        refuse(None if scope is None else fault_of_scope("scope", scope))
        return tuple([one for one in self._shared.board.parked if scope in (None, one.scope)])

    def plugin_use(self, *, scope: str) -> tuple[PluginUse, ...]:
        """Say how the plugins of sessions do, by name.

        Args:
            scope: Of the sessions of this scope, `""` for those without one.

        Raises:
            OptionError: Your move: a scope that can be none.
        """
        refuse(fault_of_scope("scope", scope) if scope else None)
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
        """Say why no session of these options could ask its model, such as a key that is not set; None where nothing speaks against it.

        Nothing is connected, and no server is asked: whether a key is a right one is shown by the first request.

        Args:
            options: Those of a session that is not started; of their models only the first one is looked at.
        """
        model = options.model
        if not isinstance(model, str) or model.startswith(_REGISTRY):
            return None  # an object is there already, and what a registry has is found out when it is asked
        try:
            self._shared.dependencies.resolve_provider(model, options.provider_opts)
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
        for entry in self._shared.entries.values():
            cell = entry.cell
            if cell.ports.scope != scope or cell.is_asleep or len(cell.state.data.config.path) > 1:
                continue
            ledger = cell.state.data.ledger
            limit = None if ledger is None else ledger.budget.max_cost_usd
            if ledger is not None and limit is not None:
                used = ledger.spent_nano_usd / _NANO
                found.append(BudgetUse(session_id=cell.ports.session_id, used_usd=used, limit_usd=limit))
        return tuple(sorted(found, key=lambda one: one.used_usd / one.limit_usd, reverse=True))
