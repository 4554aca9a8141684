"""Content and signature of webhooks: Standard Webhooks 1.0. Messages never have words of a user or model."""

import base64
import datetime
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from attrs import frozen
from msgspec import Struct
from msgspec.structs import replace

from agentrail.host.hook_payloads import DayBudgetWarning
from agentrail.host.requests import RequestRecord
from agentrail.host.webhooks import SignedWebhook
from agentrail.structs import picked_fields
from agentrail.wire.plain import encode_plain

_ID_DIGITS: Final = 32


_STORED_NAMES: Final = {
    "tenant_id": "tenant",
    "user_id": "user",
    "session_id": "session",
    "request_id": "request",
    "agent_id": "agent",
}


class WebhookWatch(Struct, frozen=True, kw_only=True, tag_field="v", tag=1, rename=_STORED_NAMES):
    """A request whose end is notified, and the address. Stored as it is."""

    tenant_id: str
    user_id: str
    session_id: str
    request_id: str
    agent_id: str
    url: str
    names_owner: bool = False
    told_seq: int = 0

    def __repr__(self) -> str:
        return f"WebhookWatch(key={self.key!r}, told_seq={self.told_seq})"

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.tenant_id, self.user_id, self.session_id, self.request_id)


class WebhookMessage(Struct, frozen=True, kw_only=True, tag_field="v", tag=1, rename=_STORED_NAMES):
    """One message, sent until it is accepted or given up. Stored as it is."""

    id: str
    tenant_id: str
    user_id: str
    session_id: str
    request_id: str
    url: str
    body: str
    number: int = 0
    tries: int = 0
    due_at_ms: int

    def __repr__(self) -> str:
        """Omit the address and the content, which may hold secrets."""
        return f"WebhookMessage(id={self.id!r}, tries={self.tries}, due_at_ms={self.due_at_ms})"

    @property
    def lane(self) -> tuple[str, str]:
        return (self.tenant_id, self.session_id)

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.tenant_id, self.user_id, self.session_id, self.request_id)


@frozen(kw_only=True)
class WebhookNews:
    """Effect of a request's change on its receivers."""

    message: WebhookMessage | None
    watch: WebhookWatch | None


def decide_webhook(
    watch: WebhookWatch, record: RequestRecord, seq: int, *, at_ms: int, survives: bool
) -> WebhookNews:
    if record.has_ended:
        if record.status == "shutdown" and survives:
            return WebhookNews(message=None, watch=watch)
        return WebhookNews(message=_message(watch, record, seq, at_ms), watch=None)
    if record.status != "waiting" or seq <= watch.told_seq:
        return WebhookNews(message=None, watch=watch)
    return WebhookNews(message=_message(watch, record, seq, at_ms), watch=replace(watch, told_seq=seq))


def _message(watch: WebhookWatch, record: RequestRecord, seq: int, at_ms: int) -> WebhookMessage:
    kind = f"request.{record.status}"
    # Derived from the content: a process that dies between sending and recording sends again under the same
    # id.
    named = "\0".join((*watch.key, kind, str(seq)))
    data: dict[str, object] = {
        "session_id": watch.session_id,
        "request_id": watch.request_id,
        "agent_id": watch.agent_id,
        "outcome": record.outcome,
        "seq": seq,
        "usage": record.usage,
        "cost_usd": record.cost_usd,
    }
    if not record.has_ended:
        data["pending"] = [{"kind": one.kind, "id": one.id} for one in record.pending]
    if watch.names_owner:
        data |= {"tenant_id": watch.tenant_id, "user_id": watch.user_id}
    body = encode_plain({"type": kind, "timestamp": show_time(at_ms), "data": data})
    return WebhookMessage(
        id=_id_of(named),
        **picked_fields(watch, "tenant_id", "user_id", "session_id", "request_id", "url"),
        body=body.decode(),
        due_at_ms=at_ms,
    )


def message_of_warning(warning: DayBudgetWarning, url: str, at_ms: int) -> WebhookMessage:
    """Return the message about a budget. Its id is the same for one budget and day, on every node."""
    data = warning.as_dict()
    named = "\0".join(
        ("budget", warning.of, warning.tenant_id, warning.user_id or "", str(warning.resets_at_ms))
    )
    body = encode_plain({"type": "budget.warning", "timestamp": show_time(at_ms), "data": data})
    return WebhookMessage(
        id=_id_of(named),
        tenant_id=warning.tenant_id,
        user_id=warning.user_id or "",
        session_id="",
        request_id="",
        url=url,
        body=body.decode(),
        due_at_ms=at_ms,
    )


def _id_of(named: str) -> str:
    return f"msg_{hashlib.sha256(named.encode()).hexdigest()[:_ID_DIGITS]}"


def show_time(at_ms: int) -> str:
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sign(message_id: str, at_seconds: int, body: bytes, secrets: Sequence[bytes]) -> str:
    content = f"{message_id}.{at_seconds}.".encode() + body
    digests = [hmac.new(secret, content, hashlib.sha256).digest() for secret in secrets]
    return " ".join([f"v1,{base64.b64encode(digest).decode()}" for digest in digests])


def signed(message: WebhookMessage, secrets: Sequence[bytes], *, at_ms: int) -> SignedWebhook:
    """Build one attempt of a message, with its own timestamp, because receivers reject old ones."""
    body, at_seconds = message.body.encode(), at_ms // 1000
    return SignedWebhook(
        url=message.url,
        headers=(
            ("content-type", "application/json"),
            ("user-agent", "agentrail"),
            ("webhook-id", message.id),
            ("webhook-timestamp", str(at_seconds)),
            ("webhook-signature", sign(message.id, at_seconds, body, secrets)),
        ),
        body=body,
    )
