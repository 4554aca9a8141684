"""The readiness checks of every host: its store, its supervisor and its plugins."""

from collections.abc import Callable, Mapping

import trio
from attrs import frozen

from agentrail.errors import AgentrailError, HostDraining
from agentrail.host.host_sessions import HostSessions
from agentrail.host.options import ReadinessCheck
from agentrail.host.plugin_life import PluginLife


@frozen(eq=False)
class OwnChecks:
    """The checks of a host by name.

    Attributes:
        sessions: Its sessions.
        life: Its plugins.
        given: The operator's own checks.
        is_leaving: Whether it is being closed.
    """

    sessions: HostSessions
    life: PluginLife
    given: Mapping[str, ReadinessCheck]
    is_leaving: Callable[[], bool]

    def __call__(self) -> Mapping[str, ReadinessCheck]:
        """Return all of them; the store is among them where there is one."""
        own: dict[str, ReadinessCheck] = {
            "supervisor": self._check_supervisor,
            "plugins": self._check_plugins,
        }
        if self.sessions.has_store:
            own = {"store": self._check_store, **own}
        return {**own, **self.given}

    async def _check_store(self) -> None:
        await self.sessions.supervisor.check_store()

    async def _check_supervisor(self) -> None:
        if self.is_leaving() or self.sessions.supervisor.is_closing:
            message = "the host is being closed"
            raise HostDraining(message)
        await trio.lowlevel.checkpoint()

    async def _check_plugins(self) -> None:
        await trio.lowlevel.checkpoint()
        failed = self.life.failed_backgrounds
        if failed:
            message = f"these plugins do nothing in the background any more: {', '.join(failed)}"
            raise AgentrailError(message)
