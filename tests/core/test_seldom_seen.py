"""What happens seldom, each held by itself: in the suite only whole sessions met it, or none did."""

import msgspec
import pytest

from agentrail import plugins as p
from agentrail.core.policy.patience import StallOptions
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import SetTimer, SpawnChild, stall_timer_of
from agentrail.core.protocol.request import EffectId, ModelFacts, TextDelta
from agentrail.core.session import machine
from agentrail.core.values.memory_text import show_memories
from agentrail.core.values.toolbox import read_call
from agentrail.events import SubagentStart
from agentrail.frozen import frozen_json
from agentrail.messages import SessionId, Text
from tests.core.worlds import TOOLS, completed, config, new_session, prompt, run, walk

PROMPT = prompt()


def test_a_survivor_may_start_a_session():
    """A tool that an abort spared goes on, and what it lets work is its child, although its batch is gone."""
    script = [PROMPT, completed("r1", read_call("c1", "watch", '{"path": "a"}'))]
    state = run([*script, s.AbortCycle(at_ms=2, signal_id=s.SignalId("a1"))], new_session())
    (survivor,) = state.data.survivors
    assert survivor.effect_id is not None
    wish = s.ToolWantsChild(
        at_ms=3, signal_id=s.SignalId("w1"), effect_id=survivor.effect_id, prompt="Go on."
    )
    *_, seen = walk([wish], state)
    (spawned,) = seen.of(SpawnChild)
    assert (spawned.call_id, spawned.name, spawned.wish) == ("c1", "watch", wish)
    started = s.ChildStarted(at_ms=3, effect_id=spawned.effect_id, child_id=SessionId("below"))
    *_, seen = walk([started], seen.after)
    assert [one.child_ids for one in seen.after.data.survivors] == [("below",)]
    assert [event.child_id for event in seen.events if isinstance(event, SubagentStart)] == ["below"]


def test_a_short_patience_is_looked_at_in_time():
    """A silence that counts sooner than the first report sets a look of its own, at the first chunk and not again."""
    facts = ModelFacts(model="scripted:model", stalls=StallOptions(stall_ms=2_000))
    state = run([PROMPT], machine.new_session(msgspec.structs.replace(config(), model=facts), TOOLS))
    begun = s.StreamStarted(at_ms=100, effect_id=EffectId("r1"))
    more = s.ChunksArrived(at_ms=200, effect_id=EffectId("r1"), chunks=(TextDelta("x"),))
    first, second = walk([begun, more], state)
    assert first.of(SetTimer) == [SetTimer(effect_id=stall_timer_of(EffectId("r1")), at_ms=2_100)]
    assert not second.of(SetTimer)


def test_what_is_no_object_of_ours_stays_for_those_who_say_so():
    """Freezing judges nothing, and an emit of the wrong shape says how many values there were."""
    assert frozen_json("text") == "text"
    with pytest.raises(TypeError, match="it got 4 values"):
        p.Emit("name", "payload", "more", None)


def test_memories_of_a_store_that_says_other_things_are_shown():
    """What is missing is empty, what is no date is a question mark; a memory without anything is still one."""
    odd = {"id": 'a"b', "text": 7, "tags": "tea", "at_ms": True}
    shown = show_memories([{}, odd, {"tags": ["x", 1], "at_ms": -1}])
    assert shown.count("<memory ") == 3
    assert '<memory id="a&quot;b" remembered="1970-01-01">\n7\n</memory>' in shown
    assert '<memory id="" remembered="?" tags="x, 1">' in shown


def test_half_a_character_is_remembered_like_any_text():
    """A prompt with a name of its sender's that no UTF-8 can hold is told from another one, and the same again is the same."""
    said = msgspec.structs.replace(PROMPT, content=(Text(text="\ud800"),), client_id="mine")
    state = run([said], new_session())
    assert [one.client_id for one in state.data.remembered] == ["mine"]
    again = run([msgspec.structs.replace(said, signal_id=s.SignalId("p2"))], state)
    assert again.data.queue == ()
