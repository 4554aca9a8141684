"""A session as who looks after it sees it: its journal, what it was, and why it did what it did. It is neither woken nor taken.

Who may look was decided before: a `Inspected` is made for a session of the tenant of its caller alone, see `Host.inspected`.
"""

from collections.abc import Awaitable, Callable, Sequence

from attrs import frozen

from agentrail.core.journal.explaining import ExplainedStep
from agentrail.core.stack.loading import PluginEntry
from agentrail.messages import SessionId
from agentrail.runtime.inspecting import InspectedState, JournalPage, WantedRecords
from agentrail.runtime.supervisor import SessionSupervisor


@frozen(kw_only=True)
class Inspected:
    """A session of any user of a tenant, for who may inspect it.

    Attributes:
        session_id: Which one.
        tenant_id: Of which tenant.
        supervisor: Who keeps it.
        plugins: Gives the code of its plugins, as its profile has it now.
    """

    session_id: SessionId
    tenant_id: str
    supervisor: SessionSupervisor
    plugins: Callable[[], Awaitable[Sequence[PluginEntry]]]

    async def find_records(self, wanted: WantedRecords) -> JournalPage:
        """Find records in its journal.

        Raises:
            Exception: As of `SessionSupervisor.find_records`.
        """
        # Where no plugin is asked for, a profile that is gone keeps no journal from being read.
        plugins = () if wanted.plugin is None else await self.plugins()
        return await self.supervisor.find_records(
            self.session_id, wanted, scope=self.tenant_id, plugins=plugins
        )

    async def plain_state_at(self, number: int, *, since: int | None = None) -> InspectedState:
        """Say what it was behind a record as plain data, and what changed since another one.

        Raises:
            Exception: As of `SessionSupervisor.plain_state_at`.
        """
        return await self.supervisor.plain_state_at(
            self.session_id, number, since=since, scope=self.tenant_id, plugins=await self.plugins()
        )

    async def explain_record(self, number: int) -> ExplainedStep:
        """Say what a record came to, and why.

        Raises:
            Exception: As of `SessionSupervisor.explain_record`.
        """
        return await self.supervisor.explain_record(
            self.session_id, number, scope=self.tenant_id, plugins=await self.plugins()
        )
