"""Signatures of requests that one node passes on to another. Pure: no clock, no socket and no key of its own.

A token names its sender, its receiver and the caller. It is valid for one method, one path with its query and one body, for 30 seconds by the store's clock,
and once. The store's clock may be set back, and would make a used token valid again, so a nonce begins with the sender's own time, which only grows. The answer
is signed too, so that a proxy cannot answer for a node.
"""

import base64
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec

from agentrail.host.hook_payloads import Principal
from agentrail.structs import decoder_of

NODE_HEADER: Final = "x-agentrail-node"
"""Header with the token. A request from outside with it is refused."""

ANSWER_HEADER: Final = "x-agentrail-node-answer"
"""Header with the signature of an answer. It never leaves the first node."""

LIFETIME_MS: Final = 30_000

MAX_AHEAD_MS: Final = 5_000
"""Limit on the time by which a sender's view of the store's clock may be ahead."""

MAX_NONCES: Final = 200_000
"""Limit on remembered nonces. Beyond it, requests of other nodes are refused until older nonces expire."""

_MAX_TOKEN_CHARACTERS: Final = 4_096

_REQUESTS: Final = "requests between nodes"
_ONE_HOP: Final = 1
_MAX_DIGITS: Final = 15
_DIGEST: Final = hashlib.sha256


class NodeCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed facts about a request of another node.

    Attributes:
        sender: Id of the node that passes it on.
        receiver: Id of the node that it is for.
        tenant_id: Tenant of the caller.
        user_id: User of the caller.
        scopes: Rights of the caller.
        digest: SHA-256 of the body, in hexadecimal.
        nonce: Unique id of the request, for its line in the log of both nodes. See `nonce_of`.
        at_ms: Time of signing, on the store's clock in milliseconds.
        hops: Number of nodes that have passed it on.
    """

    sender: str
    receiver: str
    tenant_id: str
    user_id: str
    scopes: tuple[str, ...]
    digest: str
    nonce: str
    at_ms: int
    hops: int = _ONE_HOP

    @property
    def principal(self) -> Principal:
        """The caller, as the first node has judged them."""
        return Principal(tenant_id=self.tenant_id, user_id=self.user_id, scopes=frozenset(self.scopes))


_CALLS: Final = decoder_of(NodeCall)


def derived_key(secret: bytes, label: str) -> bytes:
    """Return the key for one purpose, 32 bytes, from the secret of a store (`SharedSecret`). Each label has its own key."""
    return hmac.digest(secret, b"agentrail: " + label.encode(), "sha256")


def digest_of_body(body: bytes) -> str:
    return _DIGEST(body).hexdigest()


def nonce_of(sent_ms: int, unique: str) -> str:
    """Return the nonce of a request.

    Args:
        sent_ms: The sender's time, which never goes back.
        unique: A random id.
    """
    return f"{sent_ms}_{unique}"


def _sent_ms(call: NodeCall) -> int:
    """Return the sender's time. An older agentrail tells only `at_ms`, which never goes back there."""
    sent, mark, _ = call.nonce.partition("_")
    is_time = mark and sent.isascii() and sent.isdecimal() and len(sent) <= _MAX_DIGITS
    return int(sent) if is_time else call.at_ms


def encode_node_call(secret: bytes, call: NodeCall, method: str, target: bytes) -> str:
    """Return the token of a request. `target` is its path with the query, as bytes of the request line."""
    told = base64.urlsafe_b64encode(msgspec.json.encode(call)).decode()
    return f"{told}.{_mac(secret, told, method, target)}"


def decode_node_call(secret: bytes, token: str, method: str, target: bytes) -> NodeCall | None:
    """Return the facts of a token, or None if its signature does not fit this request. Its time is not checked."""
    told, _, mac = token.partition(".")
    if len(token) > _MAX_TOKEN_CHARACTERS or not token.isascii():
        return None
    if not hmac.compare_digest(mac, _mac(secret, told, method, target)):
        return None
    try:
        return _CALLS.decode(base64.urlsafe_b64decode(told))
    except (ValueError, msgspec.MsgspecError):  # signed by another version
        return None


def sign_answer(secret: bytes, nonce: str) -> str:
    """Return the signature of an answer. Only a node that has the secret can make it."""
    return hmac.digest(derived_key(secret, "answers between nodes"), nonce.encode(), "sha256").hex()


def signature_in(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the signature in the headers of an answer, with names in lower case. Empty if there is none."""
    return dict(headers).get(ANSWER_HEADER.encode(), b"").decode("latin-1")


def is_signed_answer(secret: bytes, nonce: str, signature: str) -> bool:
    """Whether an answer comes from a node that has the secret."""
    return signature.isascii() and hmac.compare_digest(signature, sign_answer(secret, nonce))


def _mac(secret: bytes, told: str, method: str, target: bytes) -> str:
    # No text of the three can hold a line break, so no two requests have one form.
    signed = b"\n".join((told.encode(), method.encode(), target))
    return hmac.digest(derived_key(secret, _REQUESTS), signed, "sha256").hex()


class NodeCalls:
    """Judges the requests of other nodes. Remembers the nonces of valid ones until they expire."""

    def __init__(self, secret: bytes, node: str) -> None:
        self._secret = secret
        self._node = node
        # Each with its sender, the sender's time, and the time here at which it may be forgotten, in about that order.
        self._nonces: OrderedDict[str, tuple[str, int, int]] = OrderedDict()  # a dict finds its first slowly
        # For each sender: nonces up to this time of it count as used. One entry per process that has ever called this one.
        self._forgotten: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of remembered nonces."""
        return len(self._nonces)

    def sign_answer(self, call: NodeCall) -> str:
        return sign_answer(self._secret, call.nonce)

    def judge(self, token: str, method: str, target: bytes, *, store_ms: int, now_ms: int) -> NodeCall | None:
        """Return the facts of a valid request, and take its nonce. None for any other.

        Args:
            token: Its token.
            method: Its method.
            target: Its path with the query, as bytes of the request line.
            store_ms: Time on the store's clock, in milliseconds. It may go back.
            now_ms: Time of this node, which never goes back.
        """
        call = decode_node_call(self._secret, token, method, target)
        if call is None or call.receiver != self._node or call.hops != _ONE_HOP:
            return None
        if not call.at_ms - MAX_AHEAD_MS <= store_ms < call.at_ms + LIFETIME_MS:
            return None
        self._forget(now_ms)
        sent_ms = _sent_ms(call)
        if call.nonce in self._nonces or sent_ms <= self._forgotten.get(call.sender, -1):
            return None
        if len(self._nonces) >= MAX_NONCES:
            return None
        self._nonces[call.nonce] = call.sender, sent_ms, now_ms + LIFETIME_MS + MAX_AHEAD_MS
        return call

    def _forget(self, now_ms: int) -> None:
        while self._nonces:
            oldest = next(iter(self._nonces))
            sender, sent_ms, until_ms = self._nonces[oldest]
            if until_ms > now_ms:
                return
            del self._nonces[oldest]
            self._forgotten[sender] = max(sent_ms, self._forgotten.get(sender, -1))
