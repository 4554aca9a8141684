"""A node's trust in its own ownership, and its view of other nodes' heartbeats. Plain data and functions: no Trio, no store and no clock.

Other nodes count a lease from the last heartbeat of an owner that reached the store. So the owner counts from the moment at which it sent that heartbeat, and
never from an append: appends may succeed while heartbeats fail. All times are seconds of the node's own monotonic clock, unless they end in `_ms`.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from attrs import evolve, frozen

from agentrail.abc.store import Beat, Heartbeats, Node

SAFE_LEASE_SECONDS: Final = 10.0
"""A shorter lease is logged: a third of it is the margin for a pause of the process, and pauses of over two seconds were measured."""

_Verdict: TypeAlias = Literal["begin", "hold", "stop"]
"""Whether work may begin, must wait, or must also be stopped."""


def beat_seconds(lease_seconds: float) -> float:
    """Return the interval between two heartbeats: a third of a lease."""
    return lease_seconds / 3


@frozen(kw_only=True)
class Trust:
    """Trust of a node in its own ownership.

    Attributes:
        lease_seconds: Time after a heartbeat after which other nodes may take its sessions.
        sent_at: Time at which the last successful heartbeat was sent. None before the first.
        doubts: How often a lease may have passed between two heartbeats. A session begins work only if the store confirmed its owner after the last of them.
    """

    lease_seconds: float
    sent_at: float | None = None
    doubts: int = 0


def after_beat(trust: Trust, sent_at: float, answer: Beat) -> Trust:
    """Return the trust after a successful heartbeat.

    Both clocks judge the gap: the store's clock may have been set back, and the process may have stopped between the reading of its own clock and the heartbeat.
    """
    if trust.sent_at is None:
        return evolve(trust, sent_at=sent_at)
    own_gap = sent_at - trust.sent_at
    store_gap = (answer.at_ms - answer.before_ms) / 1000
    is_doubtful = answer.was_gone or max(own_gap, store_gap) >= trust.lease_seconds
    return evolve(trust, sent_at=sent_at, doubts=trust.doubts + is_doubtful)


def decide_work(trust: Trust, confirmed: int, now: float) -> _Verdict:
    """Decide about the work of one session.

    Args:
        trust: Trust of its node.
        confirmed: `doubts` at the time when the last append or look that confirmed the session's owner was sent.
        now: Current time.
    """
    age = float("inf") if trust.sent_at is None else now - trust.sent_at
    if age >= trust.lease_seconds:
        return "stop"
    if age >= trust.lease_seconds * 2 / 3 or confirmed < trust.doubts:
        return "hold"
    return "begin"


def stops_at(trust: Trust) -> float:
    """Return the time at which work that must not run twice is stopped, unless another heartbeat succeeds."""
    return float("inf") if trust.sent_at is None else trust.sent_at + trust.lease_seconds


@frozen(kw_only=True)
class NodeSilence:
    """The heartbeats of other nodes, as this node has seen them.

    Attributes:
        lease_seconds: Time without a change after which a node is silent.
        looked_at: Time at which the last look was sent. None before the first.
        unchanged: For each node: time of its last heartbeat on the store's clock, and when a look that showed it first was answered, or later if its
            own lease is longer, by the difference.
    """

    lease_seconds: float
    looked_at: float | None = None
    unchanged: Mapping[str, tuple[int, float]] = MappingProxyType({})


def after_look(
    silence: NodeSilence, sent_at: float, answered_at: float, nodes: Iterable[Node]
) -> NodeSilence:
    """Return the view after a look at the nodes. A gap between looks that is longer than a heartbeat starts all over.

    Otherwise an absence of the store would make all living nodes look dead.
    """
    last = silence.looked_at
    is_gap = last is None or answered_at - last > beat_seconds(silence.lease_seconds)
    unchanged: dict[str, tuple[int, float]] = {}
    for node in nodes:
        seen = silence.unchanged.get(node.id)
        is_same = seen is not None and not is_gap and seen[0] == node.seen_at_ms
        longer = max(node.lease_ms / 1000 - silence.lease_seconds, 0.0)
        unchanged[node.id] = seen if is_same and seen is not None else (node.seen_at_ms, answered_at + longer)
    return evolve(silence, looked_at=sent_at, unchanged=unchanged)


def is_living(node: Node, silent: Collection[str] = ()) -> bool:
    """Whether a node is neither reported gone nor silent for a lease."""
    return not node.gone_at_ms and node.id not in silent


def silent_nodes(silence: NodeSilence) -> Heartbeats:
    """Return the nodes whose heartbeat has not changed for a whole lease, each with the time of that heartbeat."""
    at = silence.looked_at
    if at is None:
        return {}
    return {
        node: seen for node, (seen, since) in silence.unchanged.items() if at - since >= silence.lease_seconds
    }
