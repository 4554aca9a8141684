"""Values without secrets: in each text of a signal, a message, an event, an answer of a plugin, and nowhere else (AT-155)."""

import base64
import enum
from collections import namedtuple
from dataclasses import make_dataclass
from types import MappingProxyType
from typing import Literal

import attrs
import msgspec
import pytest
from msgspec.structs import replace

from agentrail import plugins as p
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.request import EffectId
from agentrail.core.values.secret_scrubber import REPLACEMENT, KnownSecrets
from agentrail.core.values.toolbox import ToolSpec, read_call
from agentrail.core.wire.codec import decode_signal, encode_signal
from agentrail.core.wire.redaction import withheld
from agentrail.events import Envelope, MessageDelta
from agentrail.frozen import FrozenDict, FrozenList, frozen_json
from agentrail.messages import AssistantMessage, CallId, Image, SessionId, Text, Thinking, ToolCall
from tests.core.worlds import completed, prompt

KEY = "sk-canary-4711"
KNOWN = KnownSecrets([KEY, "killable", "canary-2-0815"])
E, S = EffectId("e1"), s.SignalId("s1")

pytestmark = pytest.mark.at(155)


def said(value):
    return withheld(value, KNOWN)


def test_no_text_of_a_signal_holds_one():
    """What is left is a signal of the same kind, which can be written and read."""
    for signal in (
        prompt("p", f"use {KEY}"),
        replace(prompt("p"), content=(Text(text=KEY), Image(media_type="image/png", data="AAAA", name=KEY))),
        s.ToolFinished(at_ms=1, effect_id=E, text=f"a {KEY}.", started_at_ms=0, details={KEY: [{"k": KEY}]}),
        s.ToolAsked(at_ms=1, signal_id=S, effect_id=E, question=KEY, options=(KEY, "no")),
        completed(
            "e1", Text(text=KEY), ToolCall(call_id=CallId("c"), name=KEY, arguments={"path": f"keys/{KEY}"})
        ),
        completed("e1", ToolCall(call_id=CallId("c"), name="x", arguments=None, malformed=KEY)),
        completed("e1", Text(text="my sk-can"), read_call("c", "x", "{}"), Text(text="ary-4711!")),
        s.ChildPublished(at_ms=1, effect_id=E, event=MessageDelta(delta=KEY, attempt=1)),
        s.AbortCycle(at_ms=1, signal_id=S, reason=KEY),
    ):
        clean = said(signal)
        written = encode_signal(clean).decode()
        assert KEY not in written
        blocks = clean.message.content if isinstance(clean, s.ResponseCompleted) else ()
        assert KEY not in "".join(block.text for block in blocks if isinstance(block, Text))
        assert type(clean) is type(signal)
        assert decode_signal(written) == clean
        assert said(clean) is clean


def test_the_fields_of_a_class_are_known_when_it_is_met_first():
    """A text is looked at, and a number or a word of a closed choice is not."""

    class Met(msgspec.Struct, frozen=True):
        text: str | None
        word: Literal["killable", "no"] | None = "killable"
        count: int = 1

    clean = said(Met(f"a {KEY}"))
    assert KEY not in clean.text
    assert clean == Met(clean.text, "killable", 1)


def test_what_holds_none_is_given_back_as_it_is():
    """The very one; and words of a closed choice are not looked at, even where a secret is the same word."""
    for signal in (
        s.AbortCycle(at_ms=1, signal_id=S, reason="enough", kill_tools="killable"),
        s.PluginLagged(at_ms=1, plugin="p", hook="h", milliseconds=7),
        completed("e1", Text(text="hello"), Thinking(text="hm", provider="x", signature="s")),
        s.ToolFinished(
            at_ms=1, effect_id=E, text="x", started_at_ms=0, details={"a": [1, None, {"b": (1.5,)}]}
        ),
        ToolSpec(name="a", description="b", parameters={"type": "object"}),
    ):
        assert said(signal) is signal


def test_what_the_shell_wrote_is_not_looked_at():
    """Ids and envelopes: what is found by them would not be found any more."""
    meta = Envelope(SessionId("killable"), 1, 2, (SessionId("killable"),))
    event = MessageDelta(delta=f"{KEY}", attempt=1, meta=meta)
    clean = said(s.ChildPublished(at_ms=1, effect_id=EffectId("killable"), event=event))
    assert (clean.effect_id, clean.event.meta) == ("killable", meta)
    assert clean.event.delta == REPLACEMENT


def test_what_is_said_in_several_blocks_is_looked_at_as_one():
    """A thought that was changed has no proof of its vendor any more; one that was not keeps it."""
    blocks = (
        Thinking(text="it is sk-canary", provider="x", signature="s1"),
        Thinking(text="-4711, I think", provider="x", signature="s2"),
        Text(text="The key: sk-"),
        Text(text="canary-4711"),
        Thinking(text="done", provider="x", signature="s3"),
    )
    clean = said(AssistantMessage(content=blocks, model="demo:"))
    texts = [f"it is {REPLACEMENT}", ", I think", f"The key: {REPLACEMENT}", "", "done"]
    assert [block.text for block in clean.content] == texts
    assert [block.signature for block in clean.content if isinstance(block, Thinking)] == [None, None, "s3"]


def test_pictures_and_names_of_an_object_stay_what_they_are():
    """What stands in base64 is blackened, at the same length; two names that become one stay two, and nothing of what they name is lost."""
    data = base64.b64encode(b"PNG" + KEY.encode() + b"more" + KEY.encode()).decode()
    clean = said(Image(media_type="image/png", data=data))
    assert len(clean.data) == len(data)
    assert KEY.encode() not in base64.b64decode(clean.data)
    assert b"PNG" in base64.b64decode(clean.data)

    clean = said({KEY: 1, f"{REPLACEMENT} 2": 2, "canary-2-0815": 3, "x": 4, 5: 6})
    assert clean == {REPLACEMENT: 1, f"{REPLACEMENT} 2": 2, f"{REPLACEMENT} 3": 3, "x": 4, 5: 6}


Noted = make_dataclass("Noted", [("text", str)], frozen=True)
Remembered = attrs.make_class("Remembered", ["said", "number"], frozen=True)


Pair = namedtuple("Pair", ("one", "other"))  # noqa: PYI024 - a plugin author's


Colour = enum.Enum("Colour", {"RED": "killable"})


def test_an_answer_of_a_plugin_is_cleaned_in_its_own_classes():
    """Whatever its state is made of; a state without secrets is the very one."""
    for state, clean in (
        (Remembered((KEY, "b"), 2), Remembered((REPLACEMENT, "b"), 2)),
        (Noted(KEY), Noted(REPLACEMENT)),
        (Pair(KEY, 1), Pair(REPLACEMENT, 1)),
        ({"a": [KEY]}, {"a": [REPLACEMENT]}),
        (frozen_json({"a": [KEY]}), frozen_json({"a": [REPLACEMENT]})),
        (MappingProxyType({KEY: 1}), MappingProxyType({REPLACEMENT: 1})),
        (frozenset({KEY, "b"}), frozenset({REPLACEMENT, "b"})),
        (FrozenList([KEY]), FrozenList([REPLACEMENT])),
    ):
        answer = said(p.Continue(state, emits=((KEY, {"k": KEY}),), context={"a": KEY}))
        assert answer == p.Continue(
            clean, emits=((REPLACEMENT, {"k": REPLACEMENT}),), context={"a": REPLACEMENT}
        )
        assert type(answer.state) is type(state)
        assert said(answer) is answer
        assert type(said(frozen_json({"a": KEY}))) is FrozenDict


def test_what_is_of_another_kind_is_not_looked_into():
    """An object, a byte string, a choice: they are the application's, and no journal takes them."""
    for value in (object(), b"sk-canary-4711", Colour.RED, msgspec.UNSET):
        assert said(value) is value
