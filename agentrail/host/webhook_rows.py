"""Webhooks as a store keeps them: what is still to be told of a request, and messages that no receiver has taken yet.

Pure. What was written once is read for ever: each row says its version, the golden rows in the tests hold the form, and one of a newer
version is left where it is.
"""

from typing import Final

import msgspec

from agentrail.abc.store import OwedRow
from agentrail.core.wire.settling import mended_text
from agentrail.host.identity import SessionOwner
from agentrail.host.webhook_message import WebhookMessage, WebhookWatch
from agentrail.structs import decoder_of

WATCHES: Final = "webhook_watch"
MESSAGES: Final = "webhook"


class RowUnreadable(ValueError):
    """A row of another version than this one, or damaged."""


class _Watch(msgspec.Struct, frozen=True, kw_only=True, tag_field="v", tag=1):
    tenant: str
    user: str
    session: str
    request: str
    agent: str
    url: str
    names_owner: bool = False
    told_seq: int = 0


_WATCHES: Final = decoder_of(_Watch)


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="v", tag=1):
    id: str
    tenant: str
    user: str
    session: str
    request: str
    url: str
    body: str
    number: int
    tries: int = 0
    due_at_ms: int


_MESSAGES: Final = decoder_of(_Message)


def id_of_watch(watch: WebhookWatch) -> str:
    """Name the row of a watch. No part of it can hold a slash."""
    return "/".join(watch.key)


def encode_awaited(watch: WebhookWatch) -> OwedRow:
    """Write what is still to be told of a request."""
    row = _Watch(
        tenant=watch.owner.tenant_id,
        user=watch.owner.user_id,
        session=watch.session_id,
        request=watch.request_id,
        agent=mended_text(watch.agent_id),
        url=watch.url,
        names_owner=watch.names_owner,
        told_seq=watch.told_seq,
    )
    return OwedRow(kind=WATCHES, id=id_of_watch(watch), body=msgspec.json.encode(row))


def decode_awaited(row: OwedRow) -> WebhookWatch:
    """Read what `encode_awaited` wrote.

    Raises:
        RowUnreadable: It is of another version, or damaged.
    """
    try:
        read = _WATCHES.decode(row.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RowUnreadable(str(error)) from None
    return WebhookWatch(
        owner=SessionOwner(read.tenant, read.user),
        session_id=read.session,
        request_id=read.request,
        agent_id=read.agent,
        url=read.url,
        names_owner=read.names_owner,
        told_seq=read.told_seq,
    )


def encode_owed_message(message: WebhookMessage) -> OwedRow:
    """Write a message that is owed."""
    row = _Message(
        id=message.id,
        tenant=message.tenant_id,
        user=message.user_id,
        session=message.session_id,
        request=message.request_id,
        url=message.url,
        body=message.body,
        number=message.number,
        tries=message.tries,
        due_at_ms=message.due_at_ms,
    )
    return OwedRow(kind=MESSAGES, id=message.id, body=msgspec.json.encode(row))


def decode_owed_message(row: OwedRow) -> WebhookMessage:
    """Read what `encode_owed_message` wrote.

    Raises:
        RowUnreadable: It is of another version, or damaged.
    """
    try:
        read = _MESSAGES.decode(row.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RowUnreadable(str(error)) from None
    return WebhookMessage(
        id=read.id,
        tenant_id=read.tenant,
        user_id=read.user,
        session_id=read.session,
        request_id=read.request,
        url=read.url,
        body=read.body,
        number=read.number,
        tries=read.tries,
        due_at_ms=read.due_at_ms,
    )
