"""What is stepped in place of a signal: the corners that no model and no tool of a test comes to by itself (AT-156)."""

import pytest

from agentrail.core.protocol.effects import stall_timer_of
from agentrail.core.protocol.request import EffectId, ReasoningDelta, TextDelta, UsageUpdate
from agentrail.core.protocol.signals import (
    ChunksArrived,
    Prompt,
    Restarted,
    SessionBegan,
    SignalId,
    StreamFailed,
    StreamStarted,
    TimerFired,
    ToolFinished,
    ToolProgressed,
)
from agentrail.core.session.machine import step
from agentrail.core.values.secret_scrubber import REPLACEMENT as SAID, KnownSecrets
from agentrail.errors import ErrorInfo
from agentrail.messages import PromptRef, Text, TokenUsage
from agentrail.runtime.signal_scrubber import SignalCleaner
from tests.core.worlds import completed, new_session, run, stream_of

KEY = "sk-canary-0123456789"
KNOWN = KnownSecrets([KEY])
BEGUN = (
    SessionBegan(at_ms=1),
    Prompt(at_ms=1, signal_id=SignalId("p"), ref=PromptRef("p"), content=(Text(text="go"),)),
)

pytestmark = pytest.mark.at(156)


class Lived:
    def __init__(self):
        self.state = run(BEGUN, new_session(inline_tags=False))
        self.cleaner = SignalCleaner()
        self.stream = stream_of(self.state)
        self.take(StreamStarted(at_ms=2, effect_id=self.stream))

    def take(self, signal):
        clean = self.cleaner.cleaned(signal, self.state, KNOWN)
        for one in clean:
            self.state, _ = step(self.state, one)
        return clean

    def hear(self, *chunks, of=None, at_ms=3):
        (heard,) = self.take(ChunksArrived(at_ms=at_ms, effect_id=of or self.stream, chunks=chunks))
        return heard.chunks


@pytest.fixture
def lived():
    return Lived()


def test_what_waits_comes_in_front_of_the_end_of_its_response(lived):
    """As a chunk of its own, at the time of the last one: deltas come to what the message says."""
    assert lived.hear(TextDelta("it is sk-can")) == (TextDelta("it is "),)
    waited, done = lived.take(completed(lived.stream, Text(text="it is sk-can"), at_ms=9))
    assert waited == ChunksArrived(at_ms=3, effect_id=lived.stream, chunks=(TextDelta("sk-can"),))
    assert done.message.text == "it is sk-can"
    assert lived.state.data.history.messages[-1].text == "it is sk-can"


def test_thoughts_wait_by_themselves(lived):
    """What is thought and what is said are two texts; signatures and counts pass."""
    usage = UsageUpdate(TokenUsage(input=1))
    assert lived.hear(ReasoningDelta("a sk-canary-"), TextDelta("0123"), usage) == (
        ReasoningDelta("a "),
        TextDelta("0123"),
        usage,
    )
    assert lived.hear(ReasoningDelta("0123456789"), ReasoningDelta("", "sig")) == (
        ReasoningDelta(SAID),
        ReasoningDelta("", "sig"),
    )
    assert lived.hear(ReasoningDelta("sk-", "sig2")) == (ReasoningDelta("", "sig2"),)
    restarted = lived.take(Restarted(at_ms=9, reason="x", incarnation=2))
    assert restarted[0].chunks == (ReasoningDelta("sk-"),)
    assert len(restarted) == 2


def test_what_waits_of_a_response_that_failed_is_withdrawn_with_it(lived):
    """Nothing of it comes in front of the next one."""
    lived.hear(TextDelta("sk-can"))
    failed = StreamFailed(at_ms=4, effect_id=lived.stream, error=ErrorInfo(code="x", message=f"no {KEY}"))
    (clean,) = lived.take(failed)
    assert clean.error.message == f"no {SAID}"
    assert lived.take(Restarted(at_ms=9, reason="x", incarnation=2))[1:] == ()


def test_what_is_late_changes_nothing(lived):
    """Chunks, ends and timers of another stream: what waits of this one still waits."""
    lived.hear(TextDelta("sk-can"))
    other = EffectId("gone")
    assert lived.hear(TextDelta(f"{KEY} sk-c"), of=other) == (TextDelta(f"{SAID} "),)
    for signal in (
        completed("gone", Text(text="x")),
        StreamFailed(at_ms=4, effect_id=other, error=ErrorInfo(code="x", message="x")),
        TimerFired(at_ms=4, effect_id=stall_timer_of(other)),
    ):
        assert len(lived.take(signal)) == 1
    assert lived.hear(TextDelta("ary-0123456789")) == (TextDelta(SAID),)


def test_a_look_at_a_silent_stream_lets_go_what_waits_once(lived):
    """As if it had come with what was heard last: it is no sign of life."""
    lived.hear(TextDelta("sk-can"), at_ms=7)
    timer = TimerFired(at_ms=10_007, effect_id=stall_timer_of(lived.stream))
    waited, fired = lived.take(timer)
    assert (waited.at_ms, waited.chunks, fired) == (7, (TextDelta("sk-can"),), timer)
    assert lived.take(timer) == (timer,)
    assert lived.hear(TextDelta("ary-0123456789!")) == (TextDelta(f"{SAID}!"),)


def test_what_was_learned_in_the_middle_counts_from_there(lived):
    """A key that was asked for with the request, for instance."""
    lived.hear(TextDelta("x sk"))
    more = KnownSecrets([KEY, "another-canary"])
    signal = ChunksArrived(
        at_ms=4, effect_id=lived.stream, chunks=(TextDelta("-canary-0123456789 another-canary"),)
    )
    (heard,) = lived.cleaner.cleaned(signal, lived.state, more)
    assert heard.chunks == (TextDelta(f"{SAID} {SAID}"),)


def test_nothing_waits_where_nothing_is_open():
    """A session at rest: an abort finds nothing, and no stream is made up."""
    cleaner, state = SignalCleaner(), new_session()
    restarted = Restarted(at_ms=9, reason=KEY, incarnation=2)
    (clean,) = cleaner.cleaned(restarted, state, KNOWN)
    assert clean.reason == SAID
    timer = TimerFired(at_ms=9, effect_id=EffectId("w1"))
    assert cleaner.cleaned(timer, state, KNOWN) == (timer,)


def test_the_end_of_a_stream_that_was_taken_away_leaves_nothing(lived):
    """Its session went on without it: what waits belongs to nothing any more."""
    lived.hear(TextDelta("sk-can"))
    lived.state = new_session()
    assert len(lived.take(completed(lived.stream, Text(text="x")))) == 1


def test_the_progress_of_a_tool_is_one_text_of_which_nothing_waits():
    """Each is a message; the rest of what began in one is replaced in the next, and nothing is remembered of a call that is over."""
    cleaner, state = SignalCleaner(), new_session()

    def say(text, effect_id="e1"):
        (clean,) = cleaner.cleaned(
            ToolProgressed(at_ms=1, effect_id=EffectId(effect_id), text=text), state, KNOWN
        )
        return clean.text

    assert say("50 % done") == "50 % done"
    assert say("sk-can") == "sk-can"
    assert say("ary-0123456789 it is", "e2") == "ary-0123456789 it is"
    assert say("ary-0123456789 it is") == f"{SAID} it is"
    assert say("sk-can") == "sk-can"
    cleaner.cleaned(ToolFinished(at_ms=1, effect_id=EffectId("e1"), text="x", started_at_ms=0), state, KNOWN)
    assert say("ary-0123456789") == "ary-0123456789"
