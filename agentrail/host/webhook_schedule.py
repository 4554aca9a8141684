"""When a webhook is sent, and again: in order per session, and each message until it is taken, given up, or not wanted any more.

Pure: no clock, no task and no network enters; who asks says what time it is, and what came of a try. A session has one message under way
at a time, so a later one never overtakes. How many there are at once is bounded, and of one tenant too: its receivers may all be slow.
"""

import heapq
from collections import OrderedDict, deque
from typing import Final, Literal, TypeAlias

from attrs import define, evolve, field, frozen

from agentrail.host.webhook_message import WebhookMessage

TRY_SECONDS: Final = 10.0
"""How long a receiver may take to answer."""

RETRY_SECONDS: Final = (5, 60, 600, 3_600, 21_600)
"""How long after each failed try the next one comes; behind the last of them it is given up."""

MAX_TRIES_AT_ONCE: Final = 64
MAX_TRIES_OF_A_TENANT: Final = 16

TryVerdict: TypeAlias = Literal["delivered", "gone", "again", "dropped"]
"""What a try came to: it was taken, its receiver wants no more of this request, it is due again, or it was the last one."""

Lane: TypeAlias = tuple[str, str]


@frozen(kw_only=True)
class TryAnswer:
    """What came of a try.

    Attributes:
        status: Of HTTP; None where there was no answer.
        why: Why not, in words that hold no address; empty where there was one.
        is_refused: Whether nothing was sent, because of where it would have gone.
    """

    status: int | None = None
    why: str = ""
    is_refused: bool = False

    def __str__(self) -> str:
        """Say it in a word or two."""
        return self.why or f"status {self.status}"


def decide_again(
    message: WebhookMessage, answer: TryAnswer, now_ms: int
) -> tuple[TryVerdict, WebhookMessage]:
    """Say what becomes of a message behind a try."""
    status = answer.status
    if status is not None and 200 <= status < 300:  # noqa: PLR2004 - the family of HTTP
        return "delivered", message
    if status == 410:  # noqa: PLR2004 - Gone
        return "gone", message
    after = evolve(message, tries=message.tries + 1)
    if message.tries >= len(RETRY_SECONDS):
        return "dropped", after
    return "again", evolve(after, due_at_ms=now_ms + RETRY_SECONDS[message.tries] * 1000)


def on_time(message: WebhookMessage, now_ms: int) -> WebhookMessage:
    """Bring a message of an earlier process to this one's clock, which may stand elsewhere: never later than its pause from now."""
    pause = RETRY_SECONDS[min(message.tries, len(RETRY_SECONDS)) - 1] if message.tries else 0
    return evolve(message, due_at_ms=min(message.due_at_ms, now_ms + pause * 1000))


@frozen(kw_only=True)
class Settled:
    """What a try has changed.

    Attributes:
        message: The one that was tried, as it stands now.
        ended: Messages that are owed no longer, that one among them where it is.
    """

    verdict: TryVerdict
    message: WebhookMessage
    ended: tuple[WebhookMessage, ...] = ()


@define
class _Tenant:
    under_way: int = 0
    ready: deque[Lane] = field(factory=deque)


class WebhookQueue:
    """All messages that are owed. No call but `untried` takes a time that depends on how many there are beside the session in question."""

    def __init__(
        self, *, max_at_once: int = MAX_TRIES_AT_ONCE, max_of_a_tenant: int = MAX_TRIES_OF_A_TENANT
    ) -> None:
        """Begin with none."""
        self._max_at_once = max_at_once
        self._max_of_a_tenant = max_of_a_tenant
        self._lanes: dict[Lane, deque[WebhookMessage]] = {}
        self._under_way: dict[str, WebhookMessage] = {}
        self._ids: set[str] = set()
        self._due: list[
            tuple[int, int, Lane]
        ] = []  # of each lane its first message, unless that is ready or under way
        self._tenants: dict[str, _Tenant] = {}
        self._turns: OrderedDict[str, None] = (
            OrderedDict()
        )  # tenants that have something ready, and may begin it
        self._owed_of: dict[str, int] = {}
        self._number = 0

    def __len__(self) -> int:
        """Say how many are owed."""
        return len(self._ids)

    @property
    def under_way(self) -> int:
        """How many tries are under way."""
        return len(self._under_way)

    @property
    def untried(self) -> int:
        """How many were never tried, or are being tried now. Counted, so not for each message."""
        return sum(
            one.tries == 0 or one.id in self._under_way for lane in self._lanes.values() for one in lane
        )

    def owed_of(self, tenant_id: str) -> int:
        """Say how many are owed of a tenant."""
        return self._owed_of.get(tenant_id, 0)

    def owe(self, message: WebhookMessage) -> WebhookMessage | None:
        """Take a message, behind all of its session."""
        if message.id in self._ids:
            return None
        self._number = max(self._number + 1, message.number)
        message = evolve(message, number=message.number or self._number)
        self._ids.add(message.id)
        self._owed_of[message.tenant_id] = self.owed_of(message.tenant_id) + 1
        lane = self._lanes.setdefault(message.lane, deque())
        lane.append(message)
        if len(lane) == 1:
            self._wait(message)
        return message

    def begin(self, now_ms: int) -> tuple[WebhookMessage, ...]:
        """Give the messages that are to be sent now; what came of each is told to `settle`."""
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
        """Say when `begin` has something that it has not now; None while only what is under way can change that."""
        return self._due[0][0] if self._due else None

    def settle(self, message_id: str, answer: TryAnswer, now_ms: int) -> Settled:
        """Say what a try has changed."""
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
        left = self.owed_of(message.tenant_id) - 1
        if left:
            self._owed_of[message.tenant_id] = left
        else:
            del self._owed_of[message.tenant_id]
