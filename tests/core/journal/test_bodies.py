"""Bodies of records that are no signals: they come back, and what is not understood whole is refused."""

import hashlib
import json

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.core.journal import record as bodies
from agentrail.core.journal.record import (
    BLOB_LIMIT,
    ClosedBody,
    DriftedBody,
    ErasedBody,
    RewoundBody,
    TakenBody,
    blobs_of,
    changed_body,
    encode_body,
    join_blobs,
    opened_body,
    split_blobs,
)
from agentrail.core.session.machine import new_session
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import CodecError
from agentrail.messages import SessionId, Text, UserMessage
from agentrail.testing.plugins import PuppetPlugin, PuppetRule
from tests.core.worlds import TOOLS, config

GUARD = PuppetPlugin((PuppetRule(hook="BeforeTool", tool=None, action="block", text="no"),), name="guard")
STACK, STATES = load_stack([GUARD])
FIRST = new_session(config(), TOOLS, STACK, STATES, messages=(UserMessage(content=(Text(text="hello"),)),))
BODIES = {
    "opened": opened_body(
        FIRST, engine="1.2", origin="app.agents:WRITER", parent="root", forked_from=(SessionId("old"), 12)
    ),
    "changed": changed_body(FIRST, engine="1.3"),
    "drifted": DriftedBody(first=7, what="publish 3 became publish 3-4", events=12, engine="1.3"),
    "rewound": RewoundBody(number=10),
    "closed": ClosedBody(reason="stopped"),
    "erased": ErasedBody(number=3, hash="ab" * 16, why="user forgotten", kind="prompt", length=70),
    "taken": TakenBody(node="n1", cause="gone", engine="1.2"),
}
READERS = {name: getattr(bodies, f"decode_{name}") for name in BODIES}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_of_a_newer_version_is_refused_whole(name):
    """Also where all that this version knows is there: what else it says is not known."""
    body = json.loads(encode_body(BODIES[name]))
    for version, said in ((4, "of version 4"), (0, "from 1, got 0")):
        with pytest.raises(CodecError, match=said) as caught:
            READERS[name](json.dumps(body | {"version": version}))
        assert caught.value.path == "$.version"


# --- large values

_TEXTS = st.sampled_from(("", "a", "ä" * 9, "x" * 20, "y" * 21, "$blob", "$$blob", 'blob"', "0" * 64))
_KEYS = st.sampled_from(("$blob", "$$blob", "$$$blob", "blob", "a", ""))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=2),
    max_leaves=12,
)


@given(value=_JSON)
def test_large_texts_go_and_come_back_bit_for_bit(value):
    """Whatever a caller or a model has written, an object that looks like a blob among it."""
    body = msgspec.json.encode({"value": value})
    stored, blobs = split_blobs(body, 20)
    assert join_blobs(stored, blobs.get) == body
    assert blobs_of(stored) == set(blobs)
    assert all(len(content) > 20 for content in blobs.values())


def test_what_looks_like_a_large_value_is_kept_apart_from_one():
    """Each object that looks like one gets a `$` more, and loses it; also around a large value, and in a body that is short."""
    value = {
        "a": ["x" * 30, {"$blob": "x" * 30}, {"$$blob": {"$blob": "y"}}, "z" * 9],
        "b": {"$blob": 1, "c": 2},
    }
    body = msgspec.json.encode(value)
    stored, blobs = split_blobs(body, 20)
    digest = hashlib.sha256(b"x" * 30).hexdigest()
    assert blobs == {digest: b"x" * 30}
    assert msgspec.json.decode(stored) == {
        "a": [{"$blob": digest}, {"$$blob": {"$blob": digest}}, {"$$$blob": {"$$blob": "y"}}, "z" * 9],
        "b": {"$blob": 1, "c": 2},
    }
    assert join_blobs(stored, blobs.get) == body
    assert blobs_of(stored) == {digest}
    short = b'{"$blob":"abc"}'
    assert split_blobs(short) == (b'{"$$blob":"abc"}', {})
    assert join_blobs(b'{"$$blob":"abc"}', blobs.get) == short


def test_a_text_at_the_limit_stays_and_one_above_it_goes():
    """In bytes of UTF-8, and the same text is kept once."""
    for text, goes in (("ä" * (BLOB_LIMIT // 2), False), ("ä" * (BLOB_LIMIT // 2) + "a", True)):
        body = msgspec.json.encode({"one": text, "two": [text]})
        stored, blobs = split_blobs(body)
        assert (len(stored) < len(body)) is goes
        assert list(blobs.values()) == [text.encode()] * goes


def test_a_large_value_that_is_missing_or_damaged_is_told():
    """Nothing else is put in its place."""
    stored, blobs = split_blobs(msgspec.json.encode({"a": "x" * 30}), 20)
    with pytest.raises(CodecError, match="a large value is missing"):
        join_blobs(stored, {}.get)
    with pytest.raises(CodecError, match="a large value is damaged"):
        join_blobs(stored, dict.fromkeys(blobs, b"other").get)
    with pytest.raises(CodecError, match="a large value is missing: 3"):
        join_blobs(b'{"a":{"$blob":3}}', blobs.get)


def test_a_body_with_half_of_a_character_is_not_written():
    """No journal could hold that."""
    with pytest.raises(CodecError, match="no closed record that can be stored: half of a character"):
        encode_body(ClosedBody(reason="\ud800"))


@pytest.mark.parametrize(
    "read", [blobs_of, lambda body: join_blobs(body, lambda _: None)], ids=["blobs", "join"]
)
def test_a_body_that_is_nested_too_deeply_is_refused(read):
    """By both readers of large values: a typed error, and no crash."""
    deep = b'{"blob":' * 60_000 + b"1" + b"}" * 60_000
    with pytest.raises(CodecError, match="nested too deeply"):
        read(deep)
