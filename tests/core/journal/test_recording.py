"""What of a life is recorded: each signal that may change something, and of streams as little as gives the same fold."""

import msgspec
import pytest

from agentrail.core.journal.recorded_steps import decode_signal_body
from agentrail.core.policy.patience import StallOptions
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import SetTimer
from agentrail.core.protocol.request import ReasoningDelta, TextDelta, UsageUpdate
from agentrail.core.session.state import Phase
from agentrail.messages import AssistantMessage, TokenUsage
from tests.core.journal.recorded import Told, folds_to_what_was_lived
from tests.core.worlds import TOOLS, changed, new_session


def told(**options) -> Told:
    return Told(new_session(TOOLS, **options))


@pytest.mark.journal(9)
def test_a_response_that_was_not_broken_into_leaves_no_heard():
    """However many chunks it came in, also where what looks like a tag is text: what was said stands in the response."""
    plain, untagged = told(), told(inline_tags=False)
    for session, words, said in (
        (plain, ["It ", "is ", "a ", "fox ", ". "], "It is a fox . "),
        (untagged, ["<status>far"], "<status>far off</status>"),
    ):
        session.prompt()
        for word in words:
            session.hear(word)
        session.complete(said)
        assert session.life.kinds == ["opened", "started", "prompt", "stream_started", "response_completed"]
        folds_to_what_was_lived(session.life)


@pytest.mark.journal(6)
def test_a_stream_aborted_after_a_hundred_chunks_has_the_text_of_all():
    """They are one record in front of the abort, and the history that comes back has what the person had seen."""
    session = told()
    session.prompt()
    for number in range(100):
        session.hear(f"{number} ")
    session.say(s.AbortCycle, reason="enough")
    assert session.life.kinds[-2:] == ["heard", "abort"]
    assert len(_signal_in(session.life.records[-2]).chunks) == 100
    messages = session.life.fold().state.data.history.messages
    (said,) = [one for one in messages if isinstance(one, AssistantMessage)]
    assert said.text == "".join(f"{number} " for number in range(100))
    folds_to_what_was_lived(session.life)


@pytest.mark.journal(8)
def test_a_minute_of_a_stream_with_a_look_at_its_silence_each_ten_seconds_is_seven_heard_at_most():
    """Each look is a signal in the middle of the stream; what came in between is one record in front of it."""
    session = told()
    session.prompt()
    for number in range(60):
        session.hear(f"{number} ", wait_ms=1_000)
        if number % 10 == 9:
            stream = session.life.state.data.stream
            session.say(s.TimerFired, effect_id=f"s{stream.effect_id[1:]}")
    session.complete("".join(f"{number} " for number in range(60)))
    assert 6 <= session.life.kinds.count("heard") <= 7
    folds_to_what_was_lived(session.life)


def test_chunks_of_which_an_event_came_are_recorded_at_once():
    """A status, a title, the beginning of thoughts: their numbers are told to readers, so they cannot be thrown away."""
    session = told()
    session.prompt()
    session.hear("<stat")
    session.hear("us>Looking</status>It is")
    session.say(s.ChunksArrived, chunks=(ReasoningDelta("Hm"),))
    session.say(s.ChunksArrived, chunks=(ReasoningDelta("m"), UsageUpdate(TokenUsage(input=3))))
    session.complete("<status>Looking</status>It is a fox.")
    kinds = session.life.kinds
    assert kinds[3:] == ["stream_started", "heard", "heard", "response_completed"]
    first = session.life.records[4]
    assert _signal_in(first).chunks == (TextDelta("<stat"), TextDelta("us>Looking</status>It is"))
    assert first.does == f"publish {first.events}"
    folds_to_what_was_lived(session.life)


def test_chunks_of_an_impatient_session_are_recorded_like_others():
    """The look at its silence is set anew when its first chunk comes, which is a signal of its own."""
    start = new_session(TOOLS)
    model = msgspec.structs.replace(start.data.config.model, stalls=StallOptions(stall_ms=1_000))
    session = Told(
        changed(start, config=msgspec.structs.replace(start.data.config, model=model), model=model)
    )
    session.prompt()
    session.hear("It is")
    assert [one for _, effects in session.life.steps for one in effects if isinstance(one, SetTimer)]
    session.hear(" a fox.")
    session.complete("It is a fox.")
    assert session.life.kinds[3:] == ["stream_started", "response_completed"]
    folds_to_what_was_lived(session.life)


def test_what_is_late_or_empty_takes_nothing_along():
    """An empty response keeps what was heard; late chunks come to nothing; a late response belongs to another stream."""
    session = told()
    session.prompt()
    session.hear("It is")
    session.complete()
    assert session.life.kinds[-2:] == ["heard", "response_completed"]
    folds_to_what_was_lived(session.life)

    session = told()
    session.prompt()
    session.say(s.ChunksArrived, chunks=(TextDelta("early"),))
    session.hear("It is")
    session.say(s.ChunksArrived, effect_id="r99", chunks=(TextDelta("late"),))
    session.complete("It is")
    session.say(s.ChunksArrived, effect_id="r99", chunks=(TextDelta("late"),))
    assert session.life.kinds[2:] == ["prompt", "stream_started", "response_completed"]
    folds_to_what_was_lived(session.life)

    session = told()
    session.prompt()
    session.hear("It is")
    session.complete("no", effect_id="r99")
    assert session.life.kinds[-2:] == ["heard", "response_completed"]
    session.hear(" a fox.")
    session.complete("It is a fox.")
    assert session.life.state.phase is Phase.IDLE
    folds_to_what_was_lived(session.life)


def test_nothing_is_recorded_behind_the_end():
    """A session that has ended hears nothing any more."""
    session = told()
    session.say(s.StopSession)
    assert session.life.state.ended
    before = session.life.kinds
    session.prompt()
    assert session.life.kinds == before
    assert before[-1] == "stop"


def _signal_in(record):
    return decode_signal_body(record.kind, record.at_ms, record.body)
