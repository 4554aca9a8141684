"""Signatures of requests between nodes: each is valid for one request, one receiver, half a minute, and once."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.gateway.node_token import (
    LIFETIME_MS,
    MAX_AHEAD_MS,
    NodeCall,
    NodeCalls,
    decode_node_call,
    derived_key,
    digest_of_body,
    encode_node_call,
    is_signed_answer,
    sign_answer,
)

pytestmark = pytest.mark.machine(9)

SECRET = bytes(range(32))
NOW = 1_700_000_000_000
CALL = NodeCall(
    sender="n-a",
    receiver="n-b",
    tenant_id="acme",
    user_id="ann",
    scopes=("use",),
    digest=digest_of_body(b'{"message": "Hi"}'),
    nonce="f-1",
    at_ms=NOW,
)
TARGET = b"/sessions/s/prompt?wait=1"
TOKEN = encode_node_call(SECRET, CALL, "POST", TARGET)


def judge(token=TOKEN, *, secret=SECRET, node="n-b", **given):
    return NodeCalls(secret, node).judge(
        token, **{"method": "POST", "target": TARGET, "now_ms": NOW, **given}
    )


def signed(**changed):
    return encode_node_call(SECRET, msgspec.structs.replace(CALL, **changed), "POST", TARGET)


def test_a_signed_request_comes_with_its_caller():
    """A signed request comes with its caller."""
    assert judge() == CALL
    assert CALL.principal.as_dict() == {"tenant_id": "acme", "user_id": "ann", "scopes": ["use"]}


@pytest.mark.parametrize(
    "given",
    [
        {"method": "GET"},
        {"target": b"/sessions/s/prompt?wait=2"},
        {"target": b"/sessions/t/prompt?wait=1"},
        {"node": "n-c"},
        {"secret": bytes(32)},
        {"now_ms": NOW + LIFETIME_MS},
        {"now_ms": NOW - MAX_AHEAD_MS - 1},
        {"token": signed(hops=2)},
        {"token": signed(hops=0)},
        {"token": ""},
        {"token": "."},
        {"token": TOKEN.partition(".")[0]},
        {"token": f"{TOKEN}.{TOKEN}"},
        {"token": TOKEN.upper()},
        {"token": "é"},
    ],
    ids=str,
)
def test_another_request_is_refused(given):
    """Of another method, path, receiver, cluster, time or number of hops."""
    assert judge(**given) is None


@pytest.mark.parametrize("now_ms", [NOW, NOW + LIFETIME_MS - 1, NOW - MAX_AHEAD_MS])
def test_a_token_lives_for_half_a_minute(now_ms):
    """A token lives for half a minute."""
    assert judge(now_ms=now_ms) == CALL


def test_a_nonce_is_taken_once():
    """A nonce is taken once."""
    calls = NodeCalls(SECRET, "n-b")
    assert calls.judge(TOKEN, "POST", TARGET, NOW) == CALL
    assert calls.judge(TOKEN, "POST", TARGET, NOW) is None
    assert calls.judge(TOKEN, "POST", TARGET, NOW + LIFETIME_MS - 1) is None
    assert calls.judge(signed(nonce="f-2"), "POST", TARGET, NOW) is not None


def test_nonces_are_forgotten_when_their_tokens_have_expired():
    """Nonces are forgotten when their tokens have expired."""
    calls = NodeCalls(SECRET, "n-b")
    for number in range(100):
        at_ms = NOW + number * 1_000
        assert calls.judge(signed(nonce=f"f-{number}", at_ms=at_ms), "POST", TARGET, at_ms) is not None
    assert len(calls) <= LIFETIME_MS // 1_000 + 1


def test_a_refused_request_takes_no_nonce():
    """A refused request takes no nonce."""
    calls = NodeCalls(SECRET, "n-b")
    assert calls.judge(TOKEN, "GET", TARGET, NOW) is None
    assert calls.judge(TOKEN, "POST", TARGET, NOW) == CALL


@given(place=st.integers(0, len(TOKEN) - 1), bit=st.integers(0, 6))
def test_any_flipped_bit_is_refused(place, bit):
    """Any flipped bit is refused."""
    flipped = TOKEN[:place] + chr(ord(TOKEN[place]) ^ 1 << bit) + TOKEN[place + 1 :]
    assert judge(flipped) is None


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda one: one.decode("latin-1")))
def test_any_text_is_refused(text):
    """Any text is refused."""
    assert decode_node_call(SECRET, text, "POST", TARGET) is None


def test_an_answer_is_signed_for_its_request():
    """An answer is signed for its request."""
    signature = sign_answer(SECRET, "f-1")
    assert is_signed_answer(SECRET, "f-1", signature)
    assert not is_signed_answer(SECRET, "f-2", signature)
    assert not is_signed_answer(bytes(32), "f-1", signature)
    assert not is_signed_answer(SECRET, "f-1", "é")


def test_each_purpose_has_its_key():
    """Each purpose has its key."""
    keys = {derived_key(SECRET, label) for label in ("a", "b", "requests between nodes")}
    assert len(keys) == 3
    assert {len(key) for key in keys} == {32}
    assert SECRET not in keys
