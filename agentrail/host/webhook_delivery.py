"""Delivery of webhooks: receives changes, sends due messages, and updates the store. Contains no rules."""

import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import httpx
import msgspec
import trio
from attrs import frozen
from msgspec.structs import replace

from agentrail import outside
from agentrail.abc.living_nodes import Departures
from agentrail.abc.store import OwedRow, decoded_rows
from agentrail.core.wire.normalize import mended_text
from agentrail.errors import QuotaReached, StoreUnavailable, WebhookInvalid
from agentrail.host.hook_payloads import DayBudgetWarning
from agentrail.host.requests import RequestTrack, is_without_session
from agentrail.host.webhook_address import read_address
from agentrail.host.webhook_message import (
    WebhookMessage,
    WebhookWatch,
    decide_webhook,
    message_of_warning,
    signed,
)
from agentrail.host.webhook_schedule import TRY_SECONDS, Settled, TryAnswer, WebhookQueue, on_time
from agentrail.host.webhooks import SendWebhook, SignedWebhook, Webhooks
from agentrail.logs import Logger
from agentrail.otp.crash_text import describe_bug
from agentrail.runtime.crashes import raise_what_travels
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.structs import decoder_of
from agentrail.web.backend import (
    NO_ROOTS,
    WEB_CONNECT_SECONDS,
    GuardedBackend,
    context_of_system,
)
from agentrail.web.dns import LookUp, SystemNames
from agentrail.web.transport import GuardedTransport
from agentrail.web.url_policy import AddressRefused, AllowedPlaces, WebAddress, judge_found

# Stored form of webhooks: watched requests, and messages that no receiver has accepted. Pure. Written rows
# stay readable indefinitely: each row has a version, golden rows in the tests fix the format, and a row of a
# newer version is left in place.

T = TypeVar("T")
WATCHES: Final = "webhook_watch"
MESSAGES: Final = "webhook"


_WATCHES: Final = decoder_of(WebhookWatch)
_MESSAGES: Final = decoder_of(WebhookMessage)


def encode_awaited(watch: WebhookWatch) -> OwedRow:
    row = replace(watch, agent_id=mended_text(watch.agent_id))
    return OwedRow(kind=WATCHES, id="/".join(watch.key), body=msgspec.json.encode(row))


def decode_awaited(row: OwedRow) -> WebhookWatch:
    return _WATCHES.decode(row.body)


def encode_owed_message(message: WebhookMessage) -> OwedRow:
    return OwedRow(kind=MESSAGES, id=message.id, body=msgspec.json.encode(message))


def decode_owed_message(row: OwedRow) -> WebhookMessage:
    return _MESSAGES.decode(row.body)


_MAX_ANSWER_BYTES: Final = 65_536
"""Of the head of an answer, with all interim ones before it."""


# Sends one webhook over HTTP: resolves its name once, judges the result, and connects only to what was
# judged. No schedule and no store. No library resolves the name a second time, redirects are not followed,
# proxy variables are ignored, and the body of the answer is not read: a stranger controls all of these.


class WebhookSender:
    """Sends webhooks from this machine."""

    def __init__(
        self, allowed: AllowedPlaces, *, resolve: LookUp | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._allowed = allowed
        self._resolve: LookUp = resolve or SystemNames()
        self._tls = tls

    async def __call__(self, signed: SignedWebhook) -> int:
        """Send a webhook and return the status. Time limits are the caller's and three seconds per address."""
        # The allowed addresses may have changed since it was named.
        address = read_address(signed.url, self._allowed)
        request = httpx.Request(
            "POST",
            address.url,
            headers=[("host", address.host_header), ("connection", "close"), *signed.headers],
            content=signed.body,
            extensions={
                "timeout": {
                    "connect": WEB_CONNECT_SECONDS,
                    "read": TRY_SECONDS,
                    "write": TRY_SECONDS,
                    "pool": TRY_SECONDS,
                }
            },
        )
        backend = GuardedBackend(partial(self._judge, address), self._resolve, max_bytes=_MAX_ANSWER_BYTES)
        # One pool per attempt, and no client of the library: a client would follow redirects and log the
        # address, which may contain the receiver's secret token.
        async with GuardedTransport(backend, await self._context(address)) as transport:
            response = await transport.handle_async_request(request)
            await response.aclose()
            return response.status_code

    def _judge(self, address: WebAddress, _host: str, _port: int, found: Sequence[str]) -> Sequence[str]:
        return judge_found(address, found, self._allowed)

    async def _context(self, address: WebAddress) -> ssl.SSLContext:
        if address.scheme == "http":
            return NO_ROOTS
        if self._tls is None:
            self._tls = await outside.offload(context_of_system)  # takes 30 ms, which would block the loop
        return self._tls


def why_not(error: BaseException) -> str:
    """Return why an attempt got no answer, without text from strangers."""
    if isinstance(error, AddressRefused):
        return f"not sent: {error}"
    if isinstance(error, socket.gaierror):
        return "its host name cannot be resolved"
    return f"no answer ({type(error).__name__})"


LOGGER: Final = Logger("agentrail.host")

MAX_OWED_OF_A_TENANT: Final = 10_000
"""Limit of undelivered messages and watched requests per tenant, so that failing receivers do not fill memory."""

CLOSING_SECONDS: Final = 5.0
"""Time for a closing host to wait for running attempts, and for first attempts of messages without a store, in seconds."""

_PAGE: Final = 1_000
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0


@frozen(kw_only=True)
class WebhookStatistics:
    """Webhook statistics since the host was opened.

    Attributes:
        owed: Messages not accepted yet.
        awaited: Requests with outstanding notifications.
        delivered: Accepted messages.
        failed_tries: Failed attempts.
        refused: Failed attempts that sent nothing because the address is not allowed.
        gone: Messages no longer wanted by their receiver.
        dropped: Messages given up: retries exhausted, too many messages, or no store.
    """

    owed: int = 0
    awaited: int = 0
    delivered: int = 0
    failed_tries: int = 0
    refused: int = 0
    gone: int = 0
    dropped: int = 0


class WebhookDelivery:
    """The webhooks of one host."""

    def __init__(self, webhooks: Webhooks, supervisor: SessionSupervisor, *, survives: bool) -> None:
        self._webhooks = webhooks
        self._supervisor = supervisor
        self._survives = survives
        self.is_shared: bool = survives and bool(supervisor.shared_node)  # other nodes deliver webhooks too
        self._send: SendWebhook = webhooks.send or WebhookSender(webhooks.allowed)
        self._queue = WebhookQueue()
        self._watches: dict[tuple[str, str, str, str], WebhookWatch] = {}
        self._watches_of: Counter[str] = Counter()
        self._counts = Counter[str]()  # as `WebhookStatistics` names them
        self._is_sooner = trio.Event()
        self._is_settled = trio.lowlevel.ParkingLot()
        self._changes: dict[tuple[str, str], OwedRow | None] = {}
        self._writing: dict[tuple[str, str], OwedRow | None] = {}
        self._departures = Departures(supervisor.shared_node)
        self._unread = 1  # adopted messages, and those of an earlier process
        self._has_changes = trio.Event()
        self._is_written = trio.lowlevel.ParkingLot()

    def statistics(self) -> WebhookStatistics:
        return WebhookStatistics(owed=len(self._queue), awaited=len(self._watches), **self._counts)

    # --- before a message reaches its session

    def check(self, url: str) -> None:
        try:
            read_address(url, self._webhooks.allowed)
        except AddressRefused as error:
            message = f"webhook cannot be used: {error}"
            raise WebhookInvalid(message) from None

    async def watch(self, watch: WebhookWatch) -> None:
        """Register a request for notification. If cancelled, the caller must call `forget`."""
        if not watch.url:
            if self._webhooks.url is None:
                return
            watch = replace(watch, url=self._webhooks.url, names_owner=True)
        tenant_id = watch.tenant_id
        if self._watches_of[tenant_id] + self._queue.owed_of(tenant_id) >= MAX_OWED_OF_A_TENANT:
            # The operator's receiver is failing, but that must not block work.
            if watch.names_owner:
                self._drop(1, "too many webhooks are pending")
                return
            message = f"{MAX_OWED_OF_A_TENANT:,} webhooks are pending for receivers that do not accept them: omit webhook"
            raise QuotaReached(message)
        self._note(watch)
        if self._survives:
            await self._supervisor.change_owed([encode_awaited(watch)], own=True)

    def forget(self, key: tuple[str, str, str, str]) -> None:
        if key in self._watches:
            self._change(self._end_watch(key))

    # --- outcomes

    def hear(self, track: RequestTrack, key: tuple[str, str, str, str], *, is_certain: bool = False) -> None:
        """Process a change of a request. Synchronous, and never fails.

        Args:
            track: The request.
            key: Its tenant, user, session and id.
            is_certain: Whether the store confirms that its session has ended. Otherwise another node may continue it.
        """
        watch = self._watches.get(key)
        if watch is None or not (track.standing.has_ended or track.standing.status == "waiting"):
            return
        if self.is_shared and not is_certain and is_without_session(track.standing):
            words = self._supervisor.last_words(watch.session_id, scope=watch.tenant_id)
            if words is None or words.how != "parked":
                return
        news = decide_webhook(
            watch, track.record, track.standing.seq, at_ms=now_ms(), survives=self._survives
        )
        if news.message is None:
            return
        if news.watch is None:
            change = self._end_watch(key)
        else:
            self._watches[key] = news.watch
            row = encode_awaited(news.watch)
            change = {(WATCHES, row.id): row}
        self._owe(news.message, change)

    def warn(self, warning: DayBudgetWarning) -> None:
        """Owe a warning about a budget to the operator's own address, if there is one."""
        if self._webhooks.url is not None:
            self._owe(message_of_warning(warning, self._webhooks.url, now_ms()), {})

    def _owe(self, owed: WebhookMessage, change: dict[tuple[str, str], OwedRow | None]) -> None:
        message = self._queue.owe(owed)
        if message is not None:
            change[MESSAGES, message.id] = encode_owed_message(message)
            self._is_sooner.set()
        self._change(change)

    async def load(self) -> None:
        """Read pending messages and watched requests. On a shared store those of this node, first adopting those of dead ones."""
        if not self._survives:
            return
        if self.is_shared:
            await self._supervisor.look_at_nodes(self._departures)
            if self._departures.is_first:
                self._unread += await self._supervisor.adopt_owed(MESSAGES)
                await self._supervisor.adopt_owed(WATCHES)
        if self._unread:
            messages = await self._read(MESSAGES, decode_owed_message, "a pending webhook")
            for message in sorted(messages, key=lambda one: one.number):
                if not self._is_changing(MESSAGES, message.id):  # otherwise settled meanwhile
                    self._queue.owe(on_time(message, now_ms()))
            self._is_sooner.set()
            self._unread = 0
        for watch in await self._read(WATCHES, decode_awaited, "an awaited webhook"):
            if watch.key not in self._watches and not self._is_changing(WATCHES, "/".join(watch.key)):
                self._note(watch)

    async def _read(self, kind: str, decode: Callable[[OwedRow], T], what: str) -> list[T]:
        found: list[T] = []
        after = ""
        while page := await self._supervisor.owed(kind, after=after, limit=_PAGE, own=True):
            after = page[-1].id
            found += decoded_rows(page, decode, LOGGER.warning, what)
        return found

    def _is_changing(self, kind: str, name: str) -> bool:
        return (kind, name) in self._changes or (kind, name) in self._writing

    async def hand_over(self, watch: WebhookWatch, node: str) -> None:
        """Give a watched request to the node that owns its session, once this node has sent all messages of that session.

        Messages of one session arrive in order only if one node sends them.
        """
        if self._queue.has_lane((watch.tenant_id, watch.session_id)) or watch.key not in self._watches:
            return
        await self._supervisor.change_owed([replace(encode_awaited(watch), node=node)])
        if watch.key in self._watches:
            self._end_watch(watch.key)

    @property
    def awaited(self) -> tuple[WebhookWatch, ...]:
        return tuple(self._watches.values())

    # --- sending

    async def run(self) -> None:
        """Send due messages until cancelled. Undelivered ones are kept in the store."""
        async with trio.open_nursery() as nursery:
            if self._survives:
                nursery.start_soon(self._write_on, name="rows of webhooks")
            while True:
                self._is_sooner = trio.Event()
                for message in self._queue.begin(now_ms()):
                    nursery.start_soon(self._try, message, name=f"webhook {message.id}")
                due_ms = self._queue.next_due_ms()
                seconds = float("inf") if due_ms is None else max(due_ms - now_ms(), 0) / 1000
                with trio.move_on_after(seconds):
                    await self._is_sooner.wait()

    async def _try(self, message: WebhookMessage) -> None:
        is_own = not self.is_shared or await self._is_own(message)
        answer = await self._answer_to(message) if is_own else TryAnswer(is_moved=True)
        settled = self._queue.settle(message.id, answer, now_ms())
        self._tell(settled, answer)
        self._is_sooner.set()
        self._is_settled.unpark_all()

    async def _is_own(self, message: WebhookMessage) -> bool:
        """Whether the stored message still belongs to this node, which may have been taken for dead."""
        while self._is_changing(MESSAGES, message.id):
            await self._is_written.park()
        just_before = message.id[:-1] + chr(ord(message.id[-1]) - 1)
        while True:
            with suppress(StoreUnavailable):
                found = await self._supervisor.owed(MESSAGES, after=just_before, limit=1, own=True)
                return bool(found) and found[0].id == message.id
            await trio.sleep(_FIRST_PAUSE_SECONDS)

    async def _answer_to(self, message: WebhookMessage) -> TryAnswer:
        answer = TryAnswer(why=f"no answer within {TRY_SECONDS:g} s")
        with trio.move_on_after(TRY_SECONDS):
            try:
                secrets = self._webhooks.secrets_of(message.tenant_id)
                # Not `now_ms`: receivers compare it with their own clocks, and this one may have been set since the start.
                status = await self._send(signed(message, secrets, at_ms=int(outside.wall() * 1000)))
                answer = TryAnswer(status=int(status))
            # A boundary: a failing receiver or operator function does not affect others.
            except BaseException as raised:  # noqa: ASYNC103, BLE001 - what travels is raised
                raise_what_travels(raised)
                if not isinstance(raised, OSError | httpx.HTTPError | AddressRefused):
                    # A bug of ours or of an operator's function.
                    LOGGER.warning("webhook %s could not be sent: %s", message.id, describe_bug(raised))
                answer = TryAnswer(why=why_not(raised), is_refused=isinstance(raised, AddressRefused))
        return answer

    def _tell(self, settled: Settled, answer: TryAnswer) -> None:
        counts, message = self._counts, settled.message
        change: dict[tuple[str, str], OwedRow | None] = {(MESSAGES, one.id): None for one in settled.ended}
        match settled.verdict:
            case "moved":
                return
            case "delivered":
                counts["delivered"] += 1
            case "gone":
                counts["gone"] += len(settled.ended)
                if message.key in self._watches:
                    change |= self._end_watch(message.key)
            case "again" | "dropped":
                counts["failed_tries"] += 1
                counts["refused"] += answer.is_refused
                if settled.verdict == "again":
                    change[MESSAGES, message.id] = encode_owed_message(message)
                else:
                    self._drop(1, f"request {message.request_id}, {message.tries} tries, the last: {answer}")
        self._change(change)

    def _drop(self, count: int, why: str) -> None:
        self._counts["dropped"] += count
        LOGGER.warning("%d webhooks were dropped: %s", count, why)

    # --- closing

    async def close(self) -> None:
        """Let running attempts end, and make a first attempt for messages without a store."""
        with trio.move_on_after(CLOSING_SECONDS):
            while self._queue.under_way or (not self._survives and self._queue.untried):
                await self._is_settled.park()
        if not self._survives and len(self._queue):
            self._drop(len(self._queue), "the process ends, and no store keeps pending webhooks")
        while self._changes or self._has_changes.is_set():
            await self._is_written.park()

    # --- rows

    def _note(self, watch: WebhookWatch) -> None:
        self._watches[watch.key] = watch
        self._watches_of[watch.tenant_id] += 1

    def _end_watch(self, key: tuple[str, str, str, str]) -> dict[tuple[str, str], OwedRow | None]:
        watch = self._watches.pop(key)
        self._watches_of[watch.tenant_id] -= 1
        if not self._watches_of[watch.tenant_id]:  # otherwise each tenant ever seen would stay
            del self._watches_of[watch.tenant_id]
        return {(WATCHES, "/".join(key)): None}

    def _change(self, change: dict[tuple[str, str], OwedRow | None]) -> None:
        if self._survives and change:
            self._changes |= change
            self._has_changes.set()

    async def _write_on(self) -> None:
        """Store all changed rows at once. While the store fails, they wait."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            await self._has_changes.wait()
            changes = self._writing = self._changes
            self._changes = {}
            try:
                await self._supervisor.change_owed(
                    [row for row in changes.values() if row is not None],
                    [name for name, row in changes.items() if row is None],
                    own=True,
                )
            # A boundary: a failing store is retried, even if the cause is a bug in it.
            except BaseException as raised:  # noqa: ASYNC103, BLE001 - what travels is raised
                raise_what_travels(raised)
                LOGGER.warning("cannot store pending webhooks: %s", describe_bug(raised))
                self._changes, self._writing = {**changes, **self._changes}, {}
                await trio.sleep(pause)  # noqa: ASYNC102 - nothing is cancelled here
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue  # noqa: ASYNC104 - what travels was raised
            pause, self._writing = _FIRST_PAUSE_SECONDS, {}
            if not self._changes:
                self._has_changes = trio.Event()
            self._is_written.unpark_all()
