"""Forgetting a caller of a host: what its supervisor does, and what the host itself still knows of their sessions."""

from collections.abc import Callable, Iterable

from agentrail.host.carrying import HostParts
from agentrail.host.intake import Intake
from agentrail.host.payloads import Principal
from agentrail.host.requests import key_of_requests
from agentrail.host.session_feed import SessionFeed
from agentrail.runtime.forgetting import ForgottenUser


class UsersOfHost:
    """What a host does for its users besides their sessions; `Host.users`."""

    def __init__(self, parts: HostParts, intake: Intake, feeds: Callable[[], Iterable[SessionFeed]]) -> None:
        """Made by the host.

        Args:
            parts: What it works with.
            intake: Says who is calling.
            feeds: Gives who follows its sessions.
        """
        self._parts = parts
        self._intake = intake
        self._feeds = feeds

    async def forget(self, principal: Principal) -> ForgottenUser:
        """Forget a caller: end their sessions, erase what was said in them, and remove what is remembered of them. Again is fine.

        Args:
            principal: Who is calling, and is forgotten.

        Returns:
            What was erased, what could not be, and where more may be.

        Raises:
            StoreUnavailable: A store takes nothing for now: call again.

        Cancellation: What is done stays done: call again.
        """
        owner, sessions = self._intake.owner_of(principal), self._parts.sessions
        told = await sessions.supervisor.forget_user(owner.user_id, tenant_id=owner.tenant_id)
        for scope, session_id in told.trees:
            sessions.list.forget(scope, session_id)
            self._parts.book.forget_session(key_of_requests(owner, session_id))
            for feed in self._feeds():
                if feed.tenant_id == scope:
                    feed.forget(session_id)
        return told
