"""The history check of `make crash-nodes`: the store's records and the ledger of the tools against each other. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from attrs import frozen

from agentrail.core.journal.record import TAKEN, TakenBody

TOOLS: Final = ("charge", "store_note", "look")
"""Tools by name: `once`, `idempotent` and `pure`."""

TENANT: Final = "crash"
USER_PREFIX: Final = "user-"
RUN: Final = "CRASH_RUN"
"""Environment variable with the name of the run, in all of its processes."""

STALL_MS: Final = 250
"""A tool's run is written that long after its decision at most, unless the process is stalled between the two."""


class LedgerLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a tool, written at its start.

    Attributes:
        node: Name of the node.
        session: Session of the call.
        epoch: Epoch of its owner, from `ctx.fence`.
        operation: Key of the call, equal for all attempts.
        tool: Name of the tool.
        at_ms: Time.
    """

    node: str
    session: str
    epoch: int
    operation: str
    tool: str
    at_ms: int


@frozen(kw_only=True)
class StoredRecord:
    """A record of the store, without its content unless it is a `taken` record."""

    session: str
    seq: int
    epoch: int
    at_ms: int
    kind: str
    body: bytes = b""

    @property
    def taken(self) -> TakenBody | None:
        """The body of a `taken` record."""
        return msgspec.json.decode(self.body, type=TakenBody) if self.kind == TAKEN else None


def history_faults(records: Iterable[StoredRecord], ledger: Sequence[LedgerLine]) -> list[str]:
    """Return what is wrong with the records of all sessions, and with the runs of their tools.

    Args:
        records: All records, by session and number.
        ledger: All runs of tools, in the order in which they were written.
    """
    by_session: dict[str, list[StoredRecord]] = defaultdict(list)
    for one in records:
        by_session[one.session].append(one)
    faults: list[str] = []
    for name, own in by_session.items():
        faults += [f"session {name}: {fault}" for fault in _record_faults(own)]
    return faults + _ledger_faults(by_session, ledger)


def _record_faults(records: Sequence[StoredRecord]) -> list[str]:
    faults = []
    numbers = [one.seq for one in records]
    if numbers != list(range(1, len(numbers) + 1)):
        faults.append(f"its numbers are not dense: {numbers[:3]} … {numbers[-3:]}, {len(numbers)} records")
    epoch = records[0].epoch
    for one in records[1:]:
        if one.epoch < epoch:
            faults.append(f"the epoch falls from {epoch} to {one.epoch} at record {one.seq}")
        elif one.epoch > epoch and one.taken is None:
            faults.append(f"record {one.seq} has epoch {one.epoch} after {epoch}, and is no `taken`")
        elif one.epoch == epoch and one.taken is not None:
            faults.append(f"epoch {epoch} has a second owner, {one.taken.node}, at record {one.seq}")
        epoch = one.epoch
    return faults


def _ledger_faults(
    by_session: Mapping[str, Sequence[StoredRecord]], ledger: Sequence[LedgerLine]
) -> list[str]:
    faults: list[str] = []
    runs = Counter(one.operation for one in ledger if one.tool == "charge")
    faults += [
        f"operation {operation} is `once` and ran {count} times"
        for operation, count in runs.items()
        if count > 1
    ]
    taken = {name: [one for one in own if one.kind == TAKEN] for name, own in by_session.items()}
    owners: dict[tuple[str, int], str] = {}
    for line in ledger:
        where = f"session {line.session}: operation {line.operation} ({line.tool}) on {line.node} of epoch {line.epoch}"
        owner = owners.setdefault((line.session, line.epoch), line.node)
        if owner != line.node:
            faults.append(f"{where}, which is the epoch of {owner}")
        if line.session not in taken:
            faults.append(f"{where}: the session is not stored")
        later = [
            one
            for one in taken.get(line.session, ())
            if one.epoch > line.epoch and one.at_ms + STALL_MS < line.at_ms
        ]
        if later:
            faults.append(f"{where} ran {line.at_ms - later[0].at_ms} ms after epoch {later[0].epoch} began")
    return faults


def takeover_times(
    records: Iterable[StoredRecord], sessions: Iterable[str], began_ms: int, until_ms: int
) -> dict[str, float]:
    """Return how many seconds after a fault each session was taken from a dead owner. Others are left out.

    Args:
        records: All records.
        sessions: The working sessions of the node that the fault hit.
        began_ms: Begin of the fault.
        until_ms: Latest time of a take that counts.
    """
    wanted, found = {*sessions}, {}
    for one in records:
        is_new = one.session in wanted and one.session not in found and began_ms <= one.at_ms <= until_ms
        if is_new and one.taken is not None and one.taken.cause in ("lease_over", "gone"):
            found[one.session] = (one.at_ms - began_ms) / 1000
    return found
