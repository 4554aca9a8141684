"""What a webhook says, how it is signed, which secrets there may be, and how a store keeps it."""

import base64
import datetime
import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from standardwebhooks.webhooks import Webhook

from agentrail.abc.store import OwedRow
from agentrail.errors import OptionError
from agentrail.host import Webhooks
from agentrail.host.requests import RequestRecord
from agentrail.host.webhook_delivery import (
    decode_awaited,
    decode_owed_message,
    encode_awaited,
    encode_owed_message,
)
from agentrail.host.webhook_message import (
    WebhookMessage,
    WebhookWatch,
    decide_webhook,
    signed,
)
from agentrail.messages import SessionId, TokenUsage

GOLDEN = Path(__file__).parent / "golden" / "webhook_rows.json"
OLD, NEW = ("whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
WATCH = WebhookWatch(
    tenant_id="acme",
    user_id="ann",
    session_id="s-1",
    request_id="r-1",
    agent_id="desk",
    url="https://a.example/in",
)
RECORD = RequestRecord(
    request_id="r-1",
    session_id=SessionId("s-1"),
    agent_id="desk",
    kind="chat",
    status="completed",
    text="The secret plan.",
    reason="in words",
    usage=TokenUsage(input=7, output=2),
)


def news(record=RECORD, seq=9, *, watch=WATCH, at_ms=1_790_000_000_123, survives=False):
    return decide_webhook(watch, record, seq, at_ms=at_ms, survives=survives)


def at_this_time():
    """Now, as receivers know it: they take no message that is older than five minutes."""
    return int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)


@given(st.text(), st.lists(st.binary(min_size=24, max_size=64), min_size=1, max_size=2))
def test_a_library_of_receivers_verifies_what_is_signed(text, keys):
    """Whatever the body, and with each of the secrets that it is signed with."""
    message = replace(news().message, body=json.dumps({"text": text}))
    sent = signed(message, keys, at_ms=at_this_time())
    for key in keys:
        assert Webhook(base64.b64encode(key).decode()).verify(sent.body, dict(sent.headers)) == {"text": text}


@pytest.mark.parametrize(
    "secret",
    [
        "", "hunter2", "whsec_", "whsec_!!!!", "whsec_" + base64.b64encode(b"x" * 23).decode(), "whsec_" + base64.b64encode(b"x" * 65).decode(),
        NEW.removeprefix("whsec_"), [], [NEW, OLD, NEW], [NEW, 7], None, 7, b"whsec_", NEW + "é", [[NEW]],
    ],
)  # fmt: skip
def test_what_is_no_secret_is_refused_without_being_repeated(secret):
    """When the host is built; and when a function gives it."""
    with pytest.raises(OptionError, match="secret") as caught:
        Webhooks(secret=secret)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(OptionError):
        Webhooks(secret=lambda _: secret).secrets_of("acme")


def test_what_cannot_be_is_refused_when_the_host_is_built():
    """With the name of what it was. A text is one place to allow; each tenant may have a secret of its own."""
    for given_ in (
        {"allow": ["http://a/path"]},
        {"allow": 7},
        {"url": "http://a.example/"},
        {"url": "https://127.0.0.1/"},
        {"url": 7},
        {"send": "https://a.example/"},
    ):
        with pytest.raises(OptionError, match=f"{next(iter(given_))} of webhooks"):
            Webhooks(secret=NEW, **given_)
    assert Webhooks(secret=NEW, allow="10.1.0.0/16", url="https://10.1.0.1/").allowed.networks
    # Who can check a signature can make one, so tenants had better not share it.
    webhooks = Webhooks(secret=lambda tenant: {"acme": NEW, "else": [OLD, NEW]}[tenant])
    assert [len(webhooks.secrets_of(tenant)) for tenant in ("acme", "else")] == [1, 2]


IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9:@+-]{0,8}", fullmatch=True)
MESSAGES = st.builds(
    WebhookMessage,
    id=IDS, tenant_id=IDS, user_id=IDS, session_id=IDS, request_id=IDS, url=st.text(st.characters(codec="utf-8")),
    body=st.text(st.characters(codec="utf-8")), number=st.integers(0, 2**53), tries=st.integers(0, 9), due_at_ms=st.integers(0, 2**53),
)  # fmt: skip
WATCHES = st.builds(
    WebhookWatch,
    tenant_id=IDS, user_id=IDS, session_id=IDS, request_id=IDS, agent_id=IDS, url=st.text(st.characters(codec="utf-8")),
    names_owner=st.booleans(), told_seq=st.integers(0, 2**53),
)  # fmt: skip


@given(MESSAGES, WATCHES)
def test_rows_come_back_as_they_were(message, watch):
    """Byte for byte, so that a signature of a later process is one of the same body."""
    assert decode_owed_message(encode_owed_message(message)) == message
    assert decode_awaited(encode_awaited(watch)) == watch


def test_the_operators_own_address_is_told_whose_it_is():
    """It gets the ends of all tenants, whose session ids may be the same."""
    data = json.loads(news(watch=replace(WATCH, names_owner=True)).message.body)["data"]
    assert (data["tenant_id"], data["user_id"]) == ("acme", "ann")


def test_rows_of_today_are_the_golden_ones():
    """What was written once is read for ever. A new form is a new version beside this one, and a new line in that file."""
    rows = json.loads(GOLDEN.read_text())
    today = [
        encode_awaited(replace(WATCH, names_owner=True, told_seq=4)),
        encode_owed_message(replace(news().message, body='{"type":"request.completed"}', number=3, tries=2)),
    ]
    for row, kept in zip(today, rows, strict=True):
        assert {"kind": row.kind, "id": row.id, "body": row.body.decode()} == kept
    watch, message = (OwedRow(kind=one["kind"], id=one["id"], body=one["body"].encode()) for one in rows)
    assert decode_awaited(watch).told_seq == 4
    assert decode_owed_message(message).tries == 2
