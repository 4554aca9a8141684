"""What a server keeps for each client: whose it is, how long still, and which operations have begun, have ended, or may not begin any more.

An operation that changes something is carried out once for its number, apart from the connection that brought it: who asks again under the
number gets the same answer. It is remembered until the client says that it has heard. Decided here in plain functions; no byte is read or sent.
"""

from collections.abc import Callable
from typing import Final, NoReturn

import trio
from attrs import define, field, frozen

from agentrail.abc import Sandbox
from agentrail.gateway.answers import CallRefused, ErrorAnswer
from agentrail.host.payloads import Principal
from agentrail.sandboxes.remote.operations import LEASE_SECONDS

MAX_LEASES: Final = 64
"""At a time; each may run commands."""

MAX_OPERATIONS: Final = 256
"""Of one lease that are under way, or whose end its client has not heard of yet."""


@frozen(kw_only=True)
class LeaseReply:
    """What is sent for an operation.

    Attributes:
        body: All of it.
        content_type: Of that.
    """

    body: bytes
    content_type: str


@define(eq=False)
class OpenOperation:
    """An operation that changes something, from its arrival until its client has heard of its end.

    Attributes:
        digest: Of what was asked; None for one that was stopped before it arrived.
        scope: It runs in.
        is_over: Whether nothing of it is left.
        reply: What it came to; None for one that was stopped, and while it runs.
    """

    digest: bytes | None
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    is_over: trio.Event = field(factory=trio.Event)
    reply: LeaseReply | ErrorAnswer | None = None


@define(eq=False)
class Lease:
    """What is kept for one client.

    Attributes:
        owner: Whose it is: no other client learns that there is one of this name.
        scope: Its life; its deadline is put off by whatever its client says.
        is_ready: Whether the workspace is there, or `failure` says that there will be none.
        is_gone: Whether nothing of it is left.
        sandbox: Its files and commands, once it is ready.
        nursery: Its operations run in.
        failure: Whether no workspace could be made.
        settled: Its client has heard of the end of all operations below this number.
        operations: By number, those from `settled` on that change something.
        reading: How many others are under way.
    """

    owner: Principal
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    is_ready: trio.Event = field(factory=trio.Event)
    is_gone: trio.Event = field(factory=trio.Event)
    sandbox: Sandbox | None = None
    nursery: trio.Nursery | None = None
    failure: bool = False
    settled: int = 0
    operations: dict[int, OpenOperation] = field(factory=dict)
    reading: int = 0

    def renew(self, now: float) -> None:
        """Keep it for its time from now on."""
        if not self.scope.cancel_called:
            self.scope.deadline = now + LEASE_SECONDS

    @property
    def is_busy(self) -> bool:
        """Whether something of it is under way."""
        return self.reading > 0 or any(not one.is_over.is_set() for one in self.operations.values())

    def settle(self, number: int) -> None:
        """Hear from its client that it waits for nothing below a number: that is forgotten, and does not begin any more."""
        # Also when it says nothing new: what was still at work the last time may be over by now.
        self.settled = max(self.settled, number)
        for one in [one for one in self.operations if one < self.settled]:
            if self.operations[one].is_over.is_set():
                del self.operations[one]

    def arrive(self, number: int, digest: bytes) -> tuple[OpenOperation, bool]:
        """Take an operation that changes something."""
        known = self.operations.get(number)
        if known is not None:
            if known.digest != digest:
                refuse_late("another operation came under this number, or it was stopped before it began")
            return known, False
        if number < self.settled:
            refuse_late("its client does not wait for it any more, so it was not begun")
        return self._add(number, OpenOperation(digest)), True

    def stop(self, number: int) -> OpenOperation:
        """End an operation, and see that it does not begin if it has not arrived yet."""
        known = self.operations.get(number)
        if known is None:
            known = OpenOperation(None)
            known.is_over.set()
            if number >= self.settled:  # else it does not begin anyway
                self._add(number, known)
        known.scope.cancel(reason="its client stopped it")
        return known

    def _add(self, number: int, operation: OpenOperation) -> OpenOperation:
        if len(self.operations) >= MAX_OPERATIONS:
            message = f"at most {MAX_OPERATIONS} operations of a client are under way, or not heard of yet"
            raise CallRefused(ErrorAnswer(status=429, code="too_many_requests", message=message))
        self.operations[number] = operation
        return operation


def refuse_late(why: str) -> NoReturn:
    """Refuse an operation that is not carried out, for good."""
    raise CallRefused(ErrorAnswer(status=409, code="operation_refused", message=why))


def refuse_unknown() -> CallRefused:
    """Make the answer to a lease that there is not: never was, has ended, or is another client's, without a difference."""
    return CallRefused(ErrorAnswer(status=404, code="lease_unknown", message="there is no such workspace"))


@define(eq=False)
class Leases:
    """All leases of a server.

    Attributes:
        by_id: Those that there are.
        last_used_at: When something was asked of one that is more than a beat, on Trio's clock.
    """

    by_id: dict[str, Lease] = field(factory=dict)
    last_used_at: float = field(factory=trio.current_time)

    def find(self, lease_id: str, owner: Principal, now: float) -> Lease:
        """Find the lease of a client, and keep it for longer."""
        lease = self.by_id.get(lease_id)
        if lease is None or lease.owner != owner or lease.scope.cancel_called:
            raise refuse_unknown()
        lease.renew(now)
        return lease

    def begin(
        self, lease_id: str, owner: Principal, start: Callable[[str, Lease], None], now: float
    ) -> Lease:
        """Find a lease, or begin it."""
        if lease_id in self.by_id:
            return self.find(lease_id, owner, now)
        if len(self.by_id) >= MAX_LEASES:
            message = f"the server keeps at most {MAX_LEASES} workspaces at a time"
            raise CallRefused(ErrorAnswer(status=503, code="server_full", message=message))
        others = [one.sandbox for one in self.by_id.values() if one.owner != owner]
        if any(getattr(one, "is_unconfined", False) for one in others):
            refuse_late("commands are not confined here, and there are files of another client")
        lease = self.by_id[lease_id] = Lease(owner)
        lease.renew(now)
        start(lease_id, lease)
        return lease

    @property
    def is_busy(self) -> bool:
        """Whether something is under way for any client."""
        return any(one.is_busy for one in self.by_id.values())
