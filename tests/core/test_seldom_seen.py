"""What happens seldom, each held by itself: in the suite only whole sessions met it, or none did."""

from typing import Any

import msgspec
import pytest

from agentrail import plugins as p
from agentrail.core.policy.patience import StallOptions
from agentrail.core.policy.tags import MAX_CONTENT, TagReader
from agentrail.core.protocol.effects import SetTimer, SpawnChild, stall_timer_of
from agentrail.core.protocol.request import EffectId, ModelFacts, TextDelta
from agentrail.core.protocol.signals import (
    AbortCycle,
    ChildStarted,
    ChunksArrived,
    Prompt,
    SignalId,
    StreamStarted,
    ToolWantsChild,
)
from agentrail.core.session import machine
from agentrail.core.values.memory_text import show_memories
from agentrail.core.values.patterns import effort_of
from agentrail.core.values.toolbox import parse_arguments, read_call
from agentrail.core.wire.codec import encode_event
from agentrail.events import SubagentStart, ToolExecutionEnd
from agentrail.frozen import MAX_LEVELS, frozen_json
from agentrail.messages import CallId, PromptRef, SessionId, Text, ToolResult
from tests.core.worlds import TOOLS, completed, config, new_session, run, walk

SAID = (Text(text="go"),)
PROMPT = Prompt(at_ms=1, signal_id=SignalId("p1"), ref=PromptRef("p1"), content=SAID)


def test_emit_takes_a_pair_or_several_and_a_state():
    """Anything else is the plugin author's mistake, and says how many values there were."""
    wrong: Any = p.Emit
    with pytest.raises(TypeError, match="it got 4 values"):
        wrong("name", "payload", "more", None)


def test_a_survivor_may_start_a_session():
    """A tool that an abort spared goes on, and what it lets work is its child, although its batch is gone."""
    script = [PROMPT, completed("r1", read_call("c1", "watch", '{"path": "a"}'))]
    state = run([*script, AbortCycle(at_ms=2, signal_id=SignalId("a1"))], new_session())
    (survivor,) = state.data.survivors
    assert survivor.effect_id is not None
    wish = ToolWantsChild(at_ms=3, signal_id=SignalId("w1"), effect_id=survivor.effect_id, prompt="Go on.")
    *_, seen = walk([wish], state)
    (spawned,) = seen.of(SpawnChild)
    assert (spawned.call_id, spawned.name, spawned.wish) == ("c1", "watch", wish)
    started = ChildStarted(at_ms=3, effect_id=spawned.effect_id, child_id=SessionId("below"))
    *_, seen = walk([started], seen.after)
    assert [one.child_ids for one in seen.after.data.survivors] == [("below",)]
    assert [event.child_id for event in seen.events if isinstance(event, SubagentStart)] == ["below"]


def test_what_is_no_json_cannot_be_written():
    """Encoding says so, and names what it met."""
    wrong: Any = object()
    result = ToolResult(call_id=CallId("c1"), name="read", text="x", details=wrong)
    with pytest.raises(TypeError, match="object is not JSON"):
        encode_event(ToolExecutionEnd(name="read", call_id=CallId("c1"), result=result))


def test_what_may_be_there_once_multiplies_nothing():
    """An optional part with several ways in it is one more way, and no power of them."""
    once, often = effort_of("(?:a|a)?c"), effort_of("(?:a|a)*c")
    assert once.steps(1000) < often.steps(1000)


def test_a_short_patience_is_looked_at_in_time():
    """A silence that counts sooner than the first report sets a look of its own, at the first chunk and not again."""
    facts = ModelFacts(model="scripted:model", stalls=StallOptions(stall_ms=2_000))
    state = run([PROMPT], machine.new_session(msgspec.structs.replace(config(), model=facts), TOOLS))
    begun = StreamStarted(at_ms=100, effect_id=EffectId("r1"))
    more = ChunksArrived(at_ms=200, effect_id=EffectId("r1"), chunks=(TextDelta("x"),))
    first, second = walk([begun, more], state)
    assert first.of(SetTimer) == [SetTimer(effect_id=stall_timer_of(EffectId("r1")), at_ms=2_100)]
    assert not second.of(SetTimer)


def test_a_beginning_of_a_tag_far_from_any_end_is_text():
    """Nothing is held back for it, however much follows."""
    text = "<status>" + "x" * (2 * MAX_CONTENT)
    reader, visible, found = TagReader().fed(text)
    assert (visible + reader.closed()[0], found) == (text, ())


def test_what_is_no_object_stays_for_those_who_say_so() -> None:
    """Freezing judges nothing: a wrong value comes out as it went in."""
    wrong: Any = "text"
    came: object = frozen_json(wrong)
    assert came == "text"


def test_memories_of_a_store_that_says_other_things_are_shown():
    """What is missing is empty, what is no date is a question mark; a memory without anything is still one."""
    shown = show_memories(
        [{}, {"id": 'a"b', "text": 7, "tags": "tea", "at_ms": True}, {"tags": ["x", 1], "at_ms": -1}]
    )
    assert shown.count("<memory ") == 3
    assert '<memory id="a&quot;b" remembered="1970-01-01">\n7\n</memory>' in shown
    assert '<memory id="" remembered="?" tags="x, 1">' in shown


def test_half_a_character_is_remembered_like_any_text():
    """A prompt with a name of its sender's that no UTF-8 can hold is told from another one, and the same again is the same."""
    said = msgspec.structs.replace(PROMPT, content=(Text(text="\ud800"),), client_id="mine")
    state = run([said], new_session())
    assert [one.client_id for one in state.data.remembered] == ["mine"]
    again = run([msgspec.structs.replace(said, signal_id=SignalId("p2"))], state)
    assert again.data.queue == ()


def test_arguments_that_are_nested_too_deeply_are_malformed():
    """The model reads how deep they may be."""
    text = '{"a":' * (MAX_LEVELS + 1) + "1" + "}" * (MAX_LEVELS + 1)
    assert parse_arguments(text) == (
        f"Malformed arguments: nested more deeply than {MAX_LEVELS} levels. Send simpler values."
    )
