"""What of a life is recorded: each signal that may change something, and of streams as little as gives the same fold."""

import msgspec
import pytest

from agentrail.core.journal.folding import Drift
from agentrail.core.journal.record import decode_closed, decode_drifted, decode_opened
from agentrail.core.journal.recording import closed_draft, drifted_draft, opened_draft
from agentrail.core.journal.signal_bodies import decode_signal_body
from agentrail.core.policy.patience import StallOptions
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import RunTool, SetTimer, StartStream
from agentrail.core.protocol.request import EffectId, ReasoningDelta, TextDelta, UsageUpdate
from agentrail.core.session.state import Phase
from agentrail.core.session.state_codec import encode_session
from agentrail.events import MessageDelta, StatusUpdate
from agentrail.messages import AssistantMessage, SessionId, SteerRef, TokenUsage, UserMessage
from tests.core.journal.recorded import Told, call, folds_to_what_was_lived
from tests.core.worlds import TOOLS, agents_session, new_session


def told(**options) -> Told:
    """A session that has come up."""
    return Told(new_session(TOOLS, **options))


def impatient(**options) -> Told:
    """One whose model is waited for only a second."""
    start = new_session(TOOLS, **options)
    model = msgspec.structs.replace(start.data.config.model, stalls=StallOptions(stall_ms=1_000))
    config = msgspec.structs.replace(start.data.config, model=model)
    data = msgspec.structs.replace(start.data, config=config, model=model)
    return Told(msgspec.structs.replace(start, data=data))


def text_of_last(session: Told) -> str:
    """What the history says the model said last."""
    said = [
        one for one in session.life.fold().state.data.history.messages if isinstance(one, AssistantMessage)
    ]
    return said[-1].text


@pytest.mark.journal(9)
def test_a_response_that_was_not_broken_into_leaves_no_heard():
    """However many chunks it came in: what was said stands in the response. Prompt, first chunk, response."""
    session = told()
    session.prompt()
    for word in ["It", "is", "a", "fox", "."]:
        session.hear(f"{word} ")
    session.complete("It is a fox . ")
    assert session.life.kinds == ["opened", "started", "prompt", "stream_started", "response_completed"]
    folds_to_what_was_lived(session.life)


@pytest.mark.journal(9)
def test_nor_does_one_of_a_session_that_reads_no_tags():
    """What looks like a tag is text there, so the response says all of it."""
    session = Told(new_session(TOOLS, inline_tags=False))
    session.prompt()
    session.hear("<status>far")
    session.complete("<status>far off</status>")
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
    heard = _signal_in(session.life.records[-2])
    assert len(heard.chunks) == 100
    assert text_of_last(session) == "".join(f"{number} " for number in range(100))
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


def test_a_steer_in_mid_stream_has_in_front_of_it_what_was_heard():
    """The order of records is the order of what happened."""
    session = told()
    session.prompt()
    session.hear("It is")
    session.say(s.Steer, ref=SteerRef("x1"), text="Shorter!")
    session.hear(" a fox.")
    session.complete("It is a fox.")
    assert session.life.kinds[3:] == ["stream_started", "heard", "steer", "response_completed"]
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
    session = impatient()
    session.prompt()
    session.hear("It is")
    timers = [
        effect for _, effects in session.life.steps for effect in effects if isinstance(effect, SetTimer)
    ]
    assert timers
    session.hear(" a fox.")
    session.complete("It is a fox.")
    assert session.life.kinds[3:] == ["stream_started", "response_completed"]
    folds_to_what_was_lived(session.life)


def test_what_was_heard_stays_where_the_response_says_something_else():
    """Tags are told once: of a response that has one which was not heard, and of one that has none although its half was."""
    for heard, said in (("It is", "<title>A fox</title>It is"), ("<status>x <title>A fox</title>", "x")):
        session = told()
        session.prompt()
        session.hear(heard)
        session.complete(said)
        assert session.life.kinds[-2:] == ["heard", "response_completed"]
        folds_to_what_was_lived(session.life)


def test_an_empty_response_keeps_what_was_heard():
    """It is a failure whose cost is estimated by what came."""
    session = told()
    session.prompt()
    session.hear("It is")
    session.complete()
    assert session.life.kinds[-2:] == ["heard", "response_completed"]
    folds_to_what_was_lived(session.life)


def test_a_late_response_of_another_stream_takes_nothing_along():
    """What is kept aside belongs to the stream that is open."""
    session = told()
    session.prompt()
    session.hear("It is")
    session.complete("no", effect_id="r99")
    assert session.life.kinds[-2:] == ["heard", "response_completed"]
    session.hear(" a fox.")
    session.complete("It is a fox.")
    assert session.life.state.phase is Phase.IDLE
    folds_to_what_was_lived(session.life)


def test_late_chunks_are_not_recorded():
    """They come to nothing, and the state does not count them."""
    session = told()
    session.prompt()
    session.say(s.ChunksArrived, chunks=(TextDelta("early"),))
    session.hear("It is")
    session.say(s.ChunksArrived, effect_id="r99", chunks=(TextDelta("late"),))
    session.complete("It is")
    session.say(s.ChunksArrived, effect_id="r99", chunks=(TextDelta("late"),))
    assert session.life.kinds[2:] == ["prompt", "stream_started", "response_completed"]
    folds_to_what_was_lived(session.life)


def test_questions_that_change_nothing_are_not_recorded_and_those_that_wait_are():
    """Who waits for a reply stands in the state."""
    session = told()
    session.prompt()
    session.hear("It is")
    for kind in (s.StatusQuery, s.MessagesQuery, s.SnapshotQuery):
        assert session.say(kind)
    assert session.life.kinds[-1] == "stream_started"
    session.say(s.ReplyQuery)
    assert session.life.kinds[-2:] == ["heard", "reply_query"]
    folds_to_what_was_lived(session.life)


def test_progress_is_not_recorded_and_what_a_tool_lets_the_world_know_is():
    """Nobody is shown progress a second time."""
    session = told()
    session.prompt()
    run = next(one for one in session.complete(call(path="a")) if isinstance(one, RunTool))
    session.say(s.ToolProgressed, effect_id=run.effect_id, text="half")
    assert session.life.kinds[-1] == "response_completed"
    session.say(s.ToolEmitted, effect_id=run.effect_id, name="seen", payload={"a": 1})
    session.finish(run.effect_id)
    assert session.life.kinds[-2:] == ["tool_emitted", "tool_finished"]
    folds_to_what_was_lived(session.life)


def test_of_what_a_child_publishes_only_committed_events_are_recorded():
    """What it streams is told and forgotten, like what the session streams itself."""
    session = Told(agents_session())
    session.prompt()
    effects = session.complete(call("spawn_agent", prompt="Look.", agent="scout", task="Look."))
    started = [effect for effect in effects if type(effect).__name__ == "StartAgent"]
    assert started, effects
    by = {"effect_id": started[0].effect_id}
    session.say(s.ChildStarted, **by, child_id=SessionId("s.1"))
    before = len(session.life.records)
    session.say(s.ChildPublished, **by, event=MessageDelta(delta="a", attempt=1))
    assert len(session.life.records) == before
    session.say(s.ChildPublished, **by, event=StatusUpdate(text="Looking"))
    assert session.life.kinds[-1] == "child_published"
    folds_to_what_was_lived(session.life)


def test_signals_that_the_table_drops_are_recorded():
    """The state counts them."""
    session = told()
    session.finish("t9")
    assert session.life.kinds[-1] == "tool_finished"
    assert session.life.records[-1].does == ""
    assert session.life.fold().state.data.dropped == 1


def test_nothing_is_recorded_behind_the_end():
    """A session that has ended hears nothing any more."""
    session = told()
    session.say(s.StopSession)
    assert session.life.state.ended
    before = session.life.kinds
    session.prompt()
    assert session.life.kinds == before
    assert before[-1] == "stop"


def test_a_crash_of_the_actor_in_mid_stream_loses_nothing_of_what_was_heard():
    """The recorder outlives the actor, as the state does."""
    session = told()
    session.prompt()
    session.hear("It is")
    session.say(s.Restarted, reason="boom", incarnation=2)
    assert session.life.kinds[-2:] == ["heard", "restarted"]
    folds_to_what_was_lived(session.life)


def test_what_is_kept_aside_can_be_had():
    """For a fork in the middle of a stream; it is given once."""
    session = told()
    session.prompt()
    recorder = session.life.recorder
    assert recorder.flush() == ()
    session.hear("It is")
    (draft,) = recorder.flush()
    assert draft.kind == "heard"
    assert draft.events == session.life.state.data.seq
    assert recorder.flush() == ()
    session.life.write((draft,))
    session.hear(" a fox.")
    session.complete("It is a fox.")
    folds_to_what_was_lived(session.life)


def test_the_first_and_the_last_record():
    """What a session begins with, and why it has ended."""
    start = new_session()
    first = opened_draft(
        start, at_ms=7, engine="1.2", origin="app:WRITER", parent="root", forked_from=(SessionId("old"), 3)
    )
    opened = decode_opened(first.body)
    assert (first.kind, first.at_ms, first.events, first.does) == ("opened", 7, 0, "")
    assert (opened.engine, opened.origin, opened.parent, opened.forked_from) == (
        *("1.2", "app:WRITER", "root"),
        ("old", 3),
    )
    last = closed_draft("stopped", at_ms=9, events=12)
    assert (last.kind, last.at_ms, last.events) == ("closed", 9, 12)
    assert decode_closed(last.body).reason == "stopped"


def test_the_record_of_a_drift():
    """It says where it began and how, however long that is, and the number that counts."""
    drift = Drift(first=4, kind="prompt", what="does", recorded="a" * 9_000, folded="b", events=12)
    state = told().life.state
    draft = drifted_draft(drift, state, (EffectId("t7"),), at_ms=9, engine="1.3")
    said = decode_drifted(draft.body)
    assert (bytes(said.state), said.begun) == (encode_session(state), ("t7",))
    assert (draft.kind, draft.at_ms, draft.events, draft.does) == ("drifted", 9, 12, "")
    assert (said.first, said.events, said.engine) == (4, 12, "1.3")
    assert said.what == str(drift)[:2_000]


def test_the_intent_of_a_tool_stands_in_the_record_of_the_step_that_wants_it():
    """And the request in that of the prompt: what no durable record names never ran."""
    session = told()
    request = next(one for one in session.prompt() if isinstance(one, StartStream)).request
    assert f"start_stream {request.attempt} model=scripted:model messages=1" in session.life.records[-1].does
    run = next(one for one in session.complete(call(path="a")) if isinstance(one, RunTool))
    line = f"run_tool {run.effect_id} read op={run.operation_id[:12]} args={run.arguments_hash[:12]}"
    assert line in session.life.records[-1].does.split("\n")
    assert isinstance(session.life.state.data.history.messages[0], UserMessage)


def _signal_in(record):
    return decode_signal_body(record.kind, record.at_ms, record.body)
