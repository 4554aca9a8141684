"""State of each client: the owner of its lease, the expiry, and its operations, each of which runs once per number."""

from itertools import takewhile
from typing import Final, NoReturn

import trio
from attrs import define, field

from agentrail.abc import Sandbox
from agentrail.gateway.error_responses import CallRefused, ErrorAnswer
from agentrail.gateway.whole_answer import WholeAnswer
from agentrail.host.hook_payloads import Principal
from agentrail.sandboxes.remote.operations import LEASE_SECONDS

MAX_LEASES: Final = 64
"""Limit on leases at a time. Each may run commands."""

MAX_OPERATIONS: Final = 256
"""Limit on operations of one lease that are running or unconfirmed."""


@define(eq=False)
class OpenOperation:
    """An operation with side effects, from its arrival until the client confirms its outcome.

    Attributes:
        digest: Digest of the request; None if it was stopped before it arrived.
        reply: Its result; None while it runs, and if it was stopped.
    """

    digest: bytes | None
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    is_over: trio.Event = field(factory=trio.Event)
    reply: WholeAnswer | ErrorAnswer | None = None


@define(eq=False)
class Lease:
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
        if not self.scope.cancel_called:
            self.scope.deadline = now + LEASE_SECONDS

    @property
    def is_busy(self) -> bool:
        return self.reading > 0 or any(not one.is_over.is_set() for one in self.operations.values())

    def settle(self, number: int) -> None:
        """Forget the operations below a number, which can no longer start."""
        # Even if the number is unchanged: operations that were running before may have ended.
        self.settled = max(self.settled, number)
        for one in [one for one in self.operations if one < self.settled]:
            if self.operations[one].is_over.is_set():
                del self.operations[one]

    def arrive(self, number: int, digest: bytes) -> tuple[OpenOperation, bool]:
        known = self.operations.get(number)
        if known is not None:
            if known.digest != digest:
                refuse_late("another operation has this number, or this one was stopped before it started")
            return known, False
        if number < self.settled:
            refuse_late("its client no longer waits for it, so it was not started")
        return self._add(number, OpenOperation(digest)), True

    def stop(self, number: int) -> OpenOperation:
        """Stop an operation, and prevent its start if it has not arrived yet."""
        known = self.operations.get(number)
        if known is None:
            known = OpenOperation(None)
            known.is_over.set()
            if number >= self.settled:  # otherwise it cannot start anyway
                self._add(number, known)
        known.scope.cancel(reason="its client stopped it")
        return known

    def _add(self, number: int, operation: OpenOperation) -> OpenOperation:
        if len(self.operations) >= MAX_OPERATIONS:
            message = f"at most {MAX_OPERATIONS} operations of a client are running or unacknowledged"
            raise CallRefused(ErrorAnswer(status=429, code="too_many_requests", message=message))
        self.operations[number] = operation
        return operation


def refuse_late(why: str) -> NoReturn:
    raise CallRefused(ErrorAnswer(status=409, code="operation_refused", message=why))


def refuse_unknown() -> CallRefused:
    """Return the error for an unknown lease: the same for an ended one and another client's."""
    return CallRefused(ErrorAnswer(status=404, code="lease_unknown", message="there is no such workspace"))


@define(eq=False)
class Leases:
    by_id: dict[str, Lease] = field(factory=dict)
    last_used_at: float = field(factory=trio.current_time)

    def find(self, lease_id: str, owner: Principal, now: float) -> Lease:
        lease = self.by_id.get(lease_id)
        if lease is None or lease.owner != owner or lease.scope.cancel_called:
            raise refuse_unknown()
        self._check_alone(lease)
        lease.renew(now)
        return lease

    def begin(self, lease_id: str, owner: Principal, now: float) -> tuple[Lease, bool]:
        """Return a client's lease, and whether it is new."""
        if lease_id in self.by_id:
            return self.find(lease_id, owner, now), False
        if len(self.by_id) >= MAX_LEASES:
            message = f"the server keeps at most {MAX_LEASES} workspaces at a time"
            raise CallRefused(ErrorAnswer(status=503, code="server_full", message=message))
        lease = Lease(owner)
        self._check_alone(lease)
        self.by_id[lease_id] = lease
        lease.renew(now)
        return lease, True

    def _check_alone(self, lease: Lease) -> None:
        """Refuse a lease if another client began before it, and the commands of one of them could read the other's files."""
        earlier = takewhile(lambda one: one is not lease, self.by_id.values())
        others = [one.sandbox for one in earlier if one.owner != lease.owner]
        # Also after the start: both may have begun before the first one's sandbox was open.
        if others and any(getattr(one, "is_unconfined", False) for one in (lease.sandbox, *others)):
            lease.scope.cancel(reason="another client has files on this server")
            refuse_late("commands are not confined here, and another client has files on this server")

    @property
    def is_busy(self) -> bool:
        return any(one.is_busy for one in self.by_id.values())
