"""Signatures of requests between nodes: each is valid for one request, one receiver, half a minute, and once."""

import time

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
    nonce_of,
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
        token, **{"method": "POST", "target": TARGET, "store_ms": NOW, "now_ms": NOW, **given}
    )


def judge_at(calls, token, at_ms, **given):
    return calls.judge(token, "POST", TARGET, **{"store_ms": at_ms, "now_ms": at_ms, **given})


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
        {"store_ms": NOW + LIFETIME_MS},
        {"store_ms": NOW - MAX_AHEAD_MS - 1},
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


@pytest.mark.parametrize("store_ms", [NOW, NOW + LIFETIME_MS - 1, NOW - MAX_AHEAD_MS])
def test_a_token_lives_for_half_a_minute(store_ms):
    """A token lives for half a minute."""
    assert judge(store_ms=store_ms) == CALL
    assert judge(store_ms=store_ms, now_ms=NOW + 400_000) == CALL, "the receiver's own time may differ"


def test_a_nonce_is_taken_once():
    """A nonce is taken once."""
    calls = NodeCalls(SECRET, "n-b")
    assert judge_at(calls, TOKEN, NOW) == CALL
    assert judge_at(calls, TOKEN, NOW) is None
    assert judge_at(calls, TOKEN, NOW + LIFETIME_MS - 1) is None
    assert judge_at(calls, signed(nonce="f-2"), NOW) is not None


def test_a_used_token_stays_used_when_the_store_s_clock_is_set_back():
    """Its nonce is forgotten after a while. When the clock reaches its time again, the sender's own time in it shows that it is old."""
    calls = NodeCalls(SECRET, "n-b")
    nonces = [nonce_of(NOW + 1_000 * number, "one") for number in range(200)]
    used = [signed(nonce=one, at_ms=NOW + 1_000 * number) for number, one in enumerate(nonces)]
    for number, token in enumerate(used):
        assert judge_at(calls, token, NOW + 1_000 * number) is not None
    assert len(calls) < 100
    later = NOW + 400_000  # own time, which goes on
    for number, token in enumerate(used):
        assert judge_at(calls, token, NOW + 1_000 * number, now_ms=later + 1_000 * number) is None
        new = signed(nonce=nonce_of(later + 1_000 * number, "two"), at_ms=NOW + 1_000 * number)
        assert judge_at(calls, new, NOW + 1_000 * number, now_ms=later + 1_000 * number) is not None


def test_a_used_token_of_an_older_agentrail_stays_used_too():
    """Its nonce has no time of the sender, whose `at_ms` never goes back."""
    calls = NodeCalls(SECRET, "n-b")
    assert judge_at(calls, TOKEN, NOW) == CALL
    assert judge_at(calls, signed(nonce="f-2", at_ms=NOW + 100_000), NOW + 100_000) is not None
    assert len(calls) == 1
    assert judge_at(calls, TOKEN, NOW, now_ms=NOW + 100_000) is None


@pytest.mark.parametrize("nonce", ["9" * 16 + "_one", "x_one", "_", "", "\u0663_one", "-1_one"])
def test_a_nonce_of_another_form_has_no_time(nonce):
    """Then the time of signing counts. None of them raises."""
    calls = NodeCalls(SECRET, "n-b")
    assert judge_at(calls, signed(nonce=nonce), NOW) is not None
    assert judge_at(calls, signed(nonce="f-2"), NOW + LIFETIME_MS - 1, now_ms=NOW + 400_000) is None


def test_nonces_are_forgotten_when_their_tokens_have_expired():
    """Nonces are forgotten when their tokens have expired."""
    calls = NodeCalls(SECRET, "n-b")
    for number in range(100):
        at_ms = NOW + number * 1_000
        assert judge_at(calls, signed(nonce=f"f-{number}", at_ms=at_ms), at_ms) is not None
    assert len(calls) <= (LIFETIME_MS + MAX_AHEAD_MS) // 1_000 + 1


def test_the_first_request_after_a_busy_minute_forgets_the_others_quickly():
    """Sixteen times as many nonces cost about sixteen times as much, and not 256 times."""

    def seconds(count):
        calls = NodeCalls(SECRET, "n-b")
        for number in range(count):
            assert judge_at(calls, signed(nonce=f"f-{number}"), NOW) is not None
        late = signed(at_ms=NOW + 60_000)
        began = time.process_time()
        assert judge_at(calls, late, NOW + 60_000) is not None
        took = time.process_time() - began
        assert len(calls) == 1
        return took

    assert seconds(16_000) < 80 * min(seconds(1_000) for _ in range(3))


def test_a_refused_request_takes_no_nonce():
    """A refused request takes no nonce."""
    calls = NodeCalls(SECRET, "n-b")
    assert calls.judge(TOKEN, "GET", TARGET, store_ms=NOW, now_ms=NOW) is None
    assert judge_at(calls, TOKEN, NOW) == CALL


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
