"""Responses without a wire: whatever events come, ids are opened once, text is whole, and there is one end."""

from random import Random

import pytest
from msgspec.structs import replace

from agentrail import events
from agentrail.core.protocol.effects import Publish
from agentrail.core.session.inline_tags import visible_in
from agentrail.core.session.views import snapshot_of
from agentrail.messages import (
    ApprovalId,
    CallId,
    ClientCallRef,
    QuestionRef,
    SessionId,
    TokenUsage,
    ToolResult,
)
from agentrail.protocols.response_changes import (
    ApprovalAsked,
    Begun,
    CallEnded,
    CallShown,
    Happened,
    MessageCompleted,
    PartEnded,
    PartText,
    ResponseEnd,
    TakenBack,
)
from agentrail.protocols.response_state import (
    Bridge,
    Bridged,
    Response,
    catch_up,
    closing,
    fail_response,
    follow_event,
    pause_response,
    resume_response,
    text_of_handled,
)
from tests.core.drawn_lives import lives, steps
from tests.protocols.test_ai_ui import (
    ASK,
    BEGIN,
    BROKE,
    CALL,
    RUNS,
    START,
    USAGE,
    approval,
    delta,
    ended,
    numbered,
    result,
    said,
)
from tests.protocols.test_ai_ui_lives import MANY

SIGNALS = 90
CHILD = SessionId("s/c")


class Screen:
    """A client that is strict: it takes the changes of one response, in one stream or in several."""

    def __init__(self):
        """Show nothing."""
        self.texts, self.completed, self.calls = {}, {}, {}
        self.part_ids, self.taken_back = set(), set()
        self.open_part = self.end = None

    def take(self, changes):
        """Take changes in order."""
        for change in changes:
            assert not isinstance(self.end, ResponseEnd), f"{change} came after the end"
            self.take_one(change)

    def take_one(self, change):
        """Hold what every wire relies on."""
        match change:
            case PartText():
                if change.is_first:
                    assert self.open_part is None
                    assert change.part_id not in self.part_ids
                    assert change.message_id not in self.taken_back | {*self.completed}
                    self.part_ids.add(change.part_id)
                    self.open_part = (change.kind, change.part_id)
                assert self.open_part == (change.kind, change.part_id)
                assert change.text
                if change.kind == "text":
                    self.texts[change.message_id] = self.texts.get(change.message_id, "") + change.text
            case PartEnded(kind=kind, part_id=part_id):
                assert self.open_part == (kind, part_id)
                self.open_part = None
            case TakenBack(part_ids=part_ids, message_id=message_id):
                assert self.open_part is None
                assert {*part_ids} <= self.part_ids
                self.taken_back.add(message_id)
                self.texts.pop(message_id, None)
            case MessageCompleted(message_id=message_id, text=text):
                assert message_id not in self.completed
                assert self.texts.get(message_id, "") == text
                self.completed[message_id] = text
            case CallShown(call_id=call_id, is_new=is_new):
                assert is_new == (call_id not in self.calls)
                self.calls.setdefault(call_id, None)
            case ApprovalAsked(call_id=call_id):
                assert self.calls[call_id] is None
            case CallEnded(call_id=call_id, result=result):
                assert self.calls[call_id] is None
                self.calls[call_id] = "none" if result is None else result.text
            case ResponseEnd():
                assert self.open_part is None
                self.end = change

    def leave(self):
        """Read the end of one stream, so that the next one may continue."""
        end, self.end = self.end, None
        return end

    @property
    def told(self):
        """What a user has read. A message whose text became another one has another id for whom saw the first."""
        return [*self.texts.values()], self.calls


def follow_all(given, response=None):
    """Fold events, and return the response with all changes."""
    response = response or Response(ref=START.ref)
    changes = []
    for event in numbered(*given):
        response, more = follow_event(response, event)
        changes.extend(more)
    return response, changes


def only(kind, changes):
    """The changes of one kind."""
    return [change for change in changes if isinstance(change, kind)]


class Live:
    """A client that follows a life, and others that come late."""

    def __init__(self, state):
        """Begin with nothing."""
        self.read_text = lambda messages: visible_in(messages, state.data.config)
        self.response = Response(read_text=self.read_text)
        self.screen = Screen()
        self.is_open = False
        self.heard = []
        self.late = []
        self.ends = 0

    def hear(self, event):
        """Take an event; a client answers, or comes back, as soon as something happens after a pause."""
        begins = isinstance(event, events.AgentStart)
        self.heard = [event] if begins else [*self.heard, event]
        changes = ()
        if self.response.is_paused and not begins:
            self.response, changes = resume_response(self.response, self.response.response_id)
            self.is_open = True
        self.response, more = follow_event(self.response, event)
        if only(Begun, more):
            self.screen, self.is_open, changes = Screen(), True, ()
        if self.is_open:
            self.screen.take((*changes, *more))
        for one in self.late:
            one.hear(event)
        if self.is_open and self.response.end is not None:
            self.screen.take(closing(self.response))
            end = self.screen.leave()
            for one in self.late:
                assert one.finish() == (end, self.screen.told)
            self.late, self.is_open = [], False
            self.ends += 1

    def join(self, state):
        """Let another client read the same response from its beginning."""
        self.late.append(Late(self, snapshot_of(state.phase, state.data, 0).text))


class Late:
    """A client of which the stream began in the middle: it has committed events, and the text that streams."""

    def __init__(self, live, text):
        """Catch up."""
        self.response, self.screen = Response(read_text=live.read_text), Screen()
        for event in live.heard:
            if not event.meta.ephemeral:
                self.hear(event)
        self.response, changes = catch_up(self.response, text)
        self.screen.take(changes)

    def hear(self, event):
        """Take an event."""
        self.response, changes = follow_event(self.response, event)
        if only(Begun, changes):
            self.screen = Screen()
        self.screen.take(changes)

    def finish(self):
        """Read to the end."""
        self.screen.take(closing(self.response))
        return self.screen.leave(), self.screen.told


@pytest.mark.protocol(58)
@pytest.mark.parametrize("seed", lives(40))
def test_a_run_that_is_cut_anywhere_and_read_again_equals_the_whole(seed):
    """Same messages, same calls, same end; nothing is opened twice, also across pauses (11.14)."""
    draw, live = Random(seed), None  # noqa: S311 - the same cuts each time
    for _, state, effects in steps(seed, SIGNALS, is_new=True):
        live = live or Live(state)
        for effect in effects:
            if isinstance(effect, Publish):
                live.hear(effect.event)
        if live.is_open and draw.random() < 0.5:
            live.join(state)
    assert live is not None
    assert live.ends or seed not in MANY


# --- ids


@pytest.mark.protocol(58)
def test_a_message_that_is_taken_back_is_not_opened_again():
    """A discarded attempt and a text that became another one: what follows has other ids, of parts and of messages."""
    again = (events.RequestStart(model="m", messages=1, attempt=2), events.MessageStart(), delta("All"))
    broken = (*BEGIN, delta("Half"), events.StreamError(error=BROKE, discarded=True))
    _, changes = follow_all((*broken, *again, said("All"), ended()))
    assert [(one.message_id, one.part_id) for one in only(PartText, changes)] == [
        ("m7", "p7"),
        ("m10", "p10"),
    ]
    assert [(one.message_id, one.reason) for one in only(TakenBack, changes)] == [("m7", "busy")]
    nothing = events.StreamError(error=BROKE, discarded=True)
    assert only(TakenBack, follow_all((*BEGIN, nothing, *again, said("All"), ended()))[1]) == []
    _, changes = follow_all((*BEGIN, delta("Helo"), said("Hallo"), ended()))
    texts = only(PartText, changes)
    assert [(one.message_id, one.text, one.is_first) for one in texts] == [
        ("m7", "Helo", True),
        ("m8", "Hallo", True),
    ]
    (done,) = only(MessageCompleted, changes)
    assert (done.message_id, done.text, done.usage) == ("m8", "Hallo", USAGE)


def test_a_message_keeps_its_id_over_its_parts():
    """Its places count up; without the event of its start, the number of its first part names it."""
    thinks = events.ThinkingDelta(delta="Hm")
    _, changes = follow_all((*BEGIN, thinks, delta("a"), delta("b"), said("ab", thinking="Hm")))
    found = [(one.message_id, one.place, one.is_first) for one in only(PartText, changes)]
    assert found == [("m7", 0, True), ("m7", 1, True), ("m7", 1, False)]
    _, changes = follow_all((START, ASK, delta("a"), said("a")))
    assert {one.message_id for one in (*only(PartText, changes), *only(MessageCompleted, changes))} == {"m6"}
    _, changes = follow_all((*BEGIN, said("")))
    assert [one.message_id for one in only(MessageCompleted, changes)] == ["m7"]
    assert [one.message_id for one in only(MessageCompleted, follow_all((START, ASK, said("")))[1])] == ["m7"]


# --- what is owed


ASKED = events.ApprovalRequired(approval=approval())
QUESTION = events.AskUser(ref=QuestionRef("q"), question="?", call_id=CALL)
CLIENTS = events.ClientCall(ref=ClientCallRef("k"), name="show", call_id=CallId("c2"), arguments={})


@pytest.mark.parametrize(
    ("asks", "name", "answers"),
    [
        (ASKED, "a1", events.ApprovalResolved(approval=approval(), status="approved", by="user")),
        (QUESTION, "q", events.UserResponded(ref=QuestionRef("q"), response="yes")),
        (QUESTION, "q", events.UserDeclined(ref=QuestionRef("q"))),
        (QUESTION, "q", result()),
        (
            CLIENTS,
            "k",
            events.ToolExecutionEnd(
                name="show",
                call_id=CallId("c2"),
                result=ToolResult(call_id=CallId("c2"), name="show", text=""),
            ),
        ),
    ],
)
@pytest.mark.parametrize("is_childs", [False, True])
def test_what_waits_for_the_client_is_known_until_it_is_answered(asks, name, answers, is_childs):
    """With the call that it belongs to; calls of a child have its id in front."""
    if is_childs and asks is CLIENTS:
        asks, name, answers = QUESTION, "q", events.UserDeclined(ref=QuestionRef("q"))

    def told(event):
        return (
            events.SubagentEvent(call_id=CALL, child_id=CHILD, depth=1, event=event) if is_childs else event
        )

    response, _ = follow_all((START, ASK, RUNS, told(asks)))
    (found,) = response.asked.items()
    own_call = asks.approval.call_id if asks is ASKED else asks.call_id
    assert found[0] == name
    assert found[1][0] == (f"s/c/{own_call}" if is_childs else own_call)
    assert follow_all((told(answers),), response)[0].asked == {}
    other = events.UserDeclined(ref=QuestionRef("another"))
    assert follow_all((told(other),), response)[0].asked == response.asked


def test_a_result_without_its_call_shows_the_call_and_that_of_a_child_does_not():
    """A child's calls are shown for their decisions alone."""
    end = result("done")
    _, changes = follow_all((START, ASK, end, end))
    assert [type(one) for one in changes[-2:]] == [CallShown, CallEnded]
    child = events.SubagentEvent(call_id=CALL, child_id=CHILD, depth=1, event=end)
    asked = events.SubagentEvent(call_id=CALL, child_id=CHILD, depth=1, event=ASKED)
    other = events.SubagentEvent(call_id=CALL, child_id=CHILD, depth=1, event=RUNS)
    _, changes = follow_all((START, ASK, child, other))
    assert only(CallShown, changes) == []
    assert [one.event for one in only(Happened, changes)] == [child, other]
    _, changes = follow_all((START, ASK, asked, child))
    (shown,) = only(CallShown, changes)
    assert (shown.call_id, shown.call.is_childs) == ("s/c/c1", True)
    assert [one.call_id for one in only(CallEnded, changes)] == ["s/c/c1"]


def test_a_response_pauses_where_all_running_calls_wait_for_children():
    """At any depth, and continues with the child; a question of a child comes as its own event."""

    def below(event):
        inner = events.SubagentEvent(call_id=CallId("c9"), child_id=SessionId("s/c/d"), depth=1, event=event)
        return events.SubagentEvent(call_id=CALL, child_id=CHILD, depth=2, event=inner)

    waiting = (events.WaitingFor(kind="question", id=QuestionRef("q"), call_id=CALL),)
    suspended = below(events.AgentSuspended(waiting=waiting))
    response, changes = follow_all((START, ASK, RUNS, below(QUESTION), suspended))
    assert QUESTION in [one.event for one in only(Happened, changes)]
    assert response.is_paused
    assert [*response.asked.values()] == [("s/c/d/c1", QUESTION)]
    for event in (events.AgentResumed(trigger="user_respond"), ended(), events.AgentError(error=BROKE)):
        assert follow_all((below(event),), response)[0].end is None
    second = replace(RUNS, call_id=CallId("c2"))
    response, _ = follow_all((START, ASK, RUNS, second, suspended))
    assert response.end is None  # the other call runs


# --- ends


def test_a_stream_that_ends_alone_has_the_code_of_its_reason():
    """The first end holds, and an end without a start has no other change."""
    response = fail_response(Response(), "draining", "going down")
    (end,) = closing(response)
    assert (end.kind, end.code, end.reason, end.event) == ("failed", "draining", "going down", None)
    assert fail_response(response, "internal", "x") is response
    assert pause_response(response) is response
    assert pause_response(Response()).end is None
    live, _ = follow_all((*BEGIN, delta("a")))
    assert [type(one).__name__ for one in closing(fail_response(live, "internal", "x"))] == [
        "PartEnded",
        "Step",
        "ResponseEnd",
    ]
    assert closing(pause_response(live))[-1].kind == "paused"


@pytest.mark.parametrize(
    ("event", "kind", "code"),
    [
        (ended(), "finished", None),
        (ended("superseded"), "aborted", "aborted"),
        (events.AgentAbort(reason="enough", ref=START.ref), "aborted", "aborted"),
        (events.AgentError(error=BROKE, ref=START.ref), "failed", "overloaded"),
    ],
)
def test_each_end_of_a_cycle_comes_with_its_event_and_usage(event, kind, code):
    """And a call that ran then has no result."""
    response, changes = follow_all((*BEGIN, said("a"), RUNS, event, delta("late"), said("late")))
    assert only(ResponseEnd, changes) == []
    assert len(only(MessageCompleted, changes)) == 1  # after its end nothing is shown
    *_, call, _, end = closing(response)
    assert (end.kind, end.code, end.event, end.usage) == (kind, code, event, USAGE)
    assert (call.call_id, call.result) == (CALL, None)


def test_the_end_of_a_prompt_that_never_ran():
    """One that was taken out, and one that a plugin refused; those of another prompt change nothing."""
    for event, kind, code in (
        (events.PromptDropped(ref=START.ref, content=()), "aborted", "aborted"),
        (events.PromptRejected(ref=START.ref, reason="be polite"), "failed", "prompt_rejected"),
    ):
        response, _ = follow_all((event, event))
        assert (response.end.kind, response.end.code) == (kind, code)
        assert follow_all((event,), Response(ref="another"))[0].end is None
        assert follow_all((event,), Response())[0].end is None


def test_text_that_streamed_before_is_shown_once():
    """Without text nothing is shown, and what was caught up with is not shown again."""
    response, _ = follow_all(BEGIN)
    late, changes = catch_up(response, "")
    assert changes == ()
    assert catch_up(late, "Hel") == (late, ())
    assert catch_up(Response(), "Hel") == (Response(), ())
    late, changes = catch_up(response, "Hel")
    assert [one.text for one in changes] == ["Hel"]
    _, more = follow_all((events.ThinkingDelta(delta="…"), delta(""), delta("lo"), said("Hello")), late)
    assert [one.text for one in only(PartText, more)] == ["lo"]


# --- bridges


def test_a_bridge_carries_the_state_of_its_wire_from_change_to_change():
    """Every change comes in order with the response behind its event, and the last ones close it."""

    def show(count, change, response):
        count = 0 if isinstance(change, Begun) else count + 1
        return count, ({"n": count, "change": type(change).__name__, "live": response.is_live},)

    bridge, state, frames = Bridge(show), Bridged(Response(ref=START.ref), 7), []
    for event in numbered(*BEGIN, delta("a"), delta("b"), said("ab"), ended()):
        state, more = bridge.fold(state, event)
        frames.extend(more)
    frames.extend(bridge.close(state))
    names = ["Begun", "Step", "PartText", "PartText", "PartEnded", "MessageCompleted", "Step", "ResponseEnd"]
    assert [frame["change"] for frame in frames] == names
    assert [frame["n"] for frame in frames] == [*range(8)]
    assert all(frame["live"] for frame in frames)


def test_an_approval_that_is_asked_again_shows_its_call_once():
    """Also where its arguments changed: then the open call changes."""
    second = events.ApprovalRequired(approval=approval({"command": "rm"}, "a2"))
    _, changes = follow_all((START, ASK, ASKED, ASKED, second))
    assert [one.is_new for one in only(CallShown, changes)] == [True, False]
    assert [one.approval.id for one in only(ApprovalAsked, changes)] == [
        ApprovalId("a1"),
        ApprovalId("a1"),
        ApprovalId("a2"),
    ]


def test_words_that_no_model_gave_are_a_whole_response():
    """A command's output is a message of the assistant: one part, its text, and an end that used nothing."""
    bridge = Bridge(lambda own, change, response: ((*own, change), ((change, response.response_id),)))
    frames = bridge.say((), "Two notes.", 12, 5)
    changes, names = [change for change, _ in frames], {name for _, name in frames}
    screen = Screen()
    screen.take(changes)
    assert screen.told == (["Two notes."], {})
    assert [(one.kind, one.usage) for one in only(ResponseEnd, changes)] == [("finished", TokenUsage())]
    assert names == {only(Begun, changes)[0].response_id}
    again = {name for _, name in bridge.say((), "Two notes.", 13, 5)}
    assert again.isdisjoint(names), "the next response of the session has an id of its own"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"lines": ["Two notes.", 7]}, "Two notes.\n7"),
        ({"text": "Done."}, "Done."),
        ({"text": 7, "b": 1}, '{"b":1,"text":7}'),
    ],
)
def test_an_answer_in_place_of_work_is_read_as_words(body, text):
    """Lines of a command, a text, or the JSON of anything else."""
    assert text_of_handled(body) == text
