"""Bodies of records that are no signals: they come back, and what is not understood whole is refused."""

import gc
import hashlib
import json

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.core.journal import record as bodies
from agentrail.core.session.machine import new_session
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import CodecError
from agentrail.messages import SessionId, Text, UserMessage
from agentrail.testing.plugins import PuppetPlugin, PuppetRule
from tests.core.journal.recorded import changed_body
from tests.core.worlds import TOOLS, config

GUARD = PuppetPlugin((PuppetRule(hook="BeforeTool", tool=None, action="block", text="no"),), name="guard")
STACK, STATES = load_stack([GUARD])
FIRST = new_session(config(), TOOLS, STACK, STATES, messages=(UserMessage(content=(Text(text="hello"),)),))
BODIES = {
    "opened": bodies.opened_body(
        FIRST, engine="1.2", origin="app.agents:WRITER", parent="root", forked_from=(SessionId("old"), 12)
    ),
    "changed": changed_body(FIRST, engine="1.3"),
    "drifted": bodies.DriftedBody(first=7, what="publish 3 became publish 3-4", events=12, engine="1.3"),
    "rewound": bodies.RewoundBody(number=10),
    "erased": bodies.ErasedBody(number=3, hash="ab" * 16, why="user forgotten", kind="prompt", length=70),
    "taken": bodies.TakenBody(node="n1", cause="gone", engine="1.2"),
}


def test_a_body_of_a_newer_version_is_refused_whole():
    """Also where all that this version knows is there: what else it says is not known."""
    for name, body in BODIES.items():
        written = json.loads(bodies.encode_body(body))
        for version, said in ((4, "of version 4"), (0, ">= 1, got 0")):
            with pytest.raises(CodecError, match=said) as caught:
                getattr(bodies, f"decode_{name}")(json.dumps(written | {"version": version}))
            assert caught.value.path == "$.version", name


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
    stored, blobs = bodies.split_blobs(body, 20)
    assert bodies.join_blobs(stored, blobs.get) == body
    assert bodies.blobs_of(stored) == set(blobs)
    assert all(len(content) > 20 for content in blobs.values())


def test_what_looks_like_a_large_value_is_kept_apart_from_one():
    """Each object that looks like one gets a `$` more, and loses it; also around a large value, and in a body that is short."""
    value = {
        "a": ["x" * 30, {"$blob": "x" * 30}, {"$$blob": {"$blob": "y"}}, "z" * 9],
        "b": {"$blob": 1, "c": 2},
    }
    body = msgspec.json.encode(value)
    stored, blobs = bodies.split_blobs(body, 20)
    digest = hashlib.sha256(b"x" * 30).hexdigest()
    assert blobs == {digest: b"x" * 30}
    assert msgspec.json.decode(stored) == {
        "a": [{"$blob": digest}, {"$$blob": {"$blob": digest}}, {"$$$blob": {"$$blob": "y"}}, "z" * 9],
        "b": {"$blob": 1, "c": 2},
    }
    assert bodies.join_blobs(stored, blobs.get) == body
    assert bodies.blobs_of(stored) == {digest}
    short = b'{"$blob":"abc"}'
    assert bodies.split_blobs(short) == (b'{"$$blob":"abc"}', {})
    assert bodies.join_blobs(b'{"$$blob":"abc"}', blobs.get) == short


def test_a_text_above_the_limit_is_kept_apart_and_looked_at_when_it_comes_back():
    """In bytes of UTF-8, each text once; nothing is put in the place of one that is missing or damaged."""
    for text, goes in (("ä" * (bodies.BLOB_LIMIT // 2), False), ("ä" * (bodies.BLOB_LIMIT // 2) + "a", True)):
        body = msgspec.json.encode({"one": text, "two": [text]})
        stored, blobs = bodies.split_blobs(body)
        assert (len(stored) < len(body)) is goes
        assert list(blobs.values()) == [text.encode()] * goes

    stored, blobs = bodies.split_blobs(msgspec.json.encode({"a": "x" * 30}), 20)
    with pytest.raises(CodecError, match="a large value is missing"):
        bodies.join_blobs(stored, {}.get)
    with pytest.raises(CodecError, match="a large value is damaged"):
        bodies.join_blobs(stored, dict.fromkeys(blobs, b"other").get)
    with pytest.raises(CodecError, match="a large value is missing: 3"):
        bodies.join_blobs(b'{"a":{"$blob":3}}', blobs.get)
    assert bodies.blobs_of(b'{"a":{"$blob":[3]}}') == frozenset()


def test_a_body_that_no_journal_could_hold_is_refused():
    """Half of a character, and by both readers of large values what is nested too deeply or cut off."""
    with pytest.raises(CodecError, match="no closed record that can be stored: a lone surrogate"):
        bodies.encode_body(bodies.ClosedBody(reason="\ud800"))
    deep = b'{"blob":' * 60_000 + b"1" + b"}" * 60_000
    for read in (bodies.blobs_of, lambda body: bodies.join_blobs(body, lambda _: None)):
        with pytest.raises(CodecError, match="nested too deeply"):
            read(deep)
        with pytest.raises(CodecError, match="not a body of a record: Input data was truncated"):
            read(b'{"a":{"$blob":"abc"}')


def test_large_texts_are_freed_without_the_collector():
    """A server collects so rarely that the pictures of a thousand requests would stay."""
    body = msgspec.json.encode({"a": ["x" * 30, {"b": "y" * 30}]})
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        assert len(bodies.split_blobs(body, 20)[1]) == 2
        gc.collect()  # garbage of other tests, too
        assert [one for one in gc.garbage if getattr(one, "__module__", None) == bodies.__name__] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
