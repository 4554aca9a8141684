"""Schedule of webhooks: in order per session, one in flight at a time, retried until settled. Pure."""

import heapq
from collections import Counter, OrderedDict, deque
from typing import Final, Literal, TypeAlias

from attrs import define, field, frozen
from msgspec.structs import replace

from agentrail.host.webhook_message import WebhookMessage

TRY_SECONDS: Final = 10.0
"""Time limit for a receiver's answer, in seconds."""

RETRY_SECONDS: Final = (5, 60, 600, 3_600, 21_600)
"""Pause after each failed attempt, in seconds. After the last one the message is given up."""

MAX_TRIES_AT_ONCE: Final = 64
MAX_TRIES_OF_A_TENANT: Final = 16

TryVerdict: TypeAlias = Literal["delivered", "gone", "again", "dropped", "moved"]
"""Result of an attempt: accepted, no longer wanted by its receiver, due again, given up, or sent by another node."""

Lane: TypeAlias = tuple[str, str]


@frozen(kw_only=True)
class TryAnswer:
    """Answer to an attempt.

    Attributes:
        status: HTTP status. None without an answer.
        is_moved: Whether nothing was sent, because the message is no longer this node's.
    """

    status: int | None = None
    why: str = ""
    is_refused: bool = False
    is_moved: bool = False

    def __str__(self) -> str:
        return self.why or f"status {self.status}"


def decide_again(
    message: WebhookMessage, answer: TryAnswer, now_ms: int
) -> tuple[TryVerdict, WebhookMessage]:
    if answer.is_moved:
        return "moved", message
    status = answer.status
    if status is not None and 200 <= status < 300:  # noqa: PLR2004 - the family of HTTP
        return "delivered", message
    if status == 410:  # noqa: PLR2004 - Gone
        return "gone", message
    after = replace(message, tries=message.tries + 1)
    if message.tries >= len(RETRY_SECONDS):
        return "dropped", after
    return "again", replace(after, due_at_ms=now_ms + RETRY_SECONDS[message.tries] * 1000)


def on_time(message: WebhookMessage, now_ms: int) -> WebhookMessage:
    pause = RETRY_SECONDS[min(message.tries, len(RETRY_SECONDS)) - 1] if message.tries else 0
    return replace(message, due_at_ms=min(message.due_at_ms, now_ms + pause * 1000))


@frozen(kw_only=True)
class Settled:
    """Effect of an attempt."""

    verdict: TryVerdict
    message: WebhookMessage
    ended: tuple[WebhookMessage, ...] = ()


@define
class _Tenant:
    under_way: int = 0
    ready: deque[Lane] = field(factory=deque)


@define(eq=False, repr=False, kw_only=True)
class WebhookQueue:
    _max_at_once: int = MAX_TRIES_AT_ONCE
    _max_of_a_tenant: int = MAX_TRIES_OF_A_TENANT
    _lanes: dict[Lane, deque[WebhookMessage]] = field(init=False, factory=dict)
    _under_way: dict[str, WebhookMessage] = field(init=False, factory=dict)
    _ids: set[str] = field(init=False, factory=set)
    # The first message of each lane, unless ready or in flight.
    _due: list[tuple[int, int, Lane]] = field(init=False, factory=list)
    _tenants: dict[str, _Tenant] = field(init=False, factory=dict)
    # Tenants with ready messages and free capacity.
    _turns: OrderedDict[str, None] = field(init=False, factory=OrderedDict)
    _owed_of: Counter[str] = field(init=False, factory=Counter)
    _number: int = field(init=False, default=0)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    @property
    def untried(self) -> int:
        """Number of messages never attempted, or in flight. Counted on access."""
        return sum(
            one.tries == 0 or one.id in self._under_way for lane in self._lanes.values() for one in lane
        )

    def owed_of(self, tenant_id: str) -> int:
        return self._owed_of[tenant_id]

    def has_lane(self, lane: Lane) -> bool:
        return lane in self._lanes

    def owe(self, message: WebhookMessage) -> WebhookMessage | None:
        if message.id in self._ids:
            return None
        self._number = max(self._number + 1, message.number)
        message = replace(message, number=message.number or self._number)
        self._ids.add(message.id)
        self._owed_of[message.tenant_id] += 1
        lane = self._lanes.setdefault(message.lane, deque())
        lane.append(message)
        if len(lane) == 1:
            self._wait(message)
        return message

    def begin(self, now_ms: int) -> tuple[WebhookMessage, ...]:
        while self._due and self._due[0][0] <= now_ms:
            lane = heapq.heappop(self._due)[2]
            tenant = self._tenants.setdefault(lane[0], _Tenant())
            tenant.ready.append(lane)
            self._give_turn(lane[0], tenant)
        begun: list[WebhookMessage] = []
        while self._turns and len(self._under_way) < self._max_at_once:
            name, _ = self._turns.popitem(last=False)
            tenant = self._tenants[name]
            message = self._lanes[tenant.ready.popleft()][0]
            self._under_way[message.id] = message
            tenant.under_way += 1
            self._give_turn(name, tenant)
            begun.append(message)
        return tuple(begun)

    def next_due_ms(self) -> int | None:
        """Return when `begin` next has messages. None while only results in flight can change that."""
        return self._due[0][0] if self._due else None

    def settle(self, message_id: str, answer: TryAnswer, now_ms: int) -> Settled:
        message = self._under_way.pop(message_id)
        tenant = self._tenants[message.tenant_id]
        tenant.under_way -= 1
        verdict, after = decide_again(message, answer, now_ms)
        lane = self._lanes[message.lane]
        ended: tuple[WebhookMessage, ...] = ()
        if verdict == "again":
            lane[0] = after
        else:
            lane.popleft()
            ended = (after,)
        if verdict == "gone":
            ended = (*ended, *(one for one in lane if one.request_id == message.request_id))
            lane = deque([one for one in lane if one.request_id != message.request_id])
            self._lanes[message.lane] = lane
        for one in ended:
            self._forget(one)
        if lane:
            self._wait(lane[0])
        else:
            del self._lanes[message.lane]
        self._give_turn(message.tenant_id, tenant)
        if not (tenant.ready or tenant.under_way):
            del self._tenants[message.tenant_id]
        return Settled(verdict=verdict, message=after, ended=ended)

    def _wait(self, message: WebhookMessage) -> None:
        heapq.heappush(self._due, (message.due_at_ms, message.number, message.lane))

    def _give_turn(self, name: str, tenant: _Tenant) -> None:
        if tenant.ready and tenant.under_way < self._max_of_a_tenant and name not in self._turns:
            self._turns[name] = None

    def _forget(self, message: WebhookMessage) -> None:
        self._ids.discard(message.id)
        self._owed_of[message.tenant_id] -= 1
        if not self._owed_of[message.tenant_id]:
            del self._owed_of[message.tenant_id]
