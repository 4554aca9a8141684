"""Events as text, without a process."""

import json
from typing import Literal

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from agentrail.cli.markdown_blocks import MarkdownBlocks
from agentrail.cli.notices import show_milliseconds, show_receipt
from agentrail.cli.rendering import (
    ChatStyle,
    Piece,
    Transcript,
    first_line,
    json_line,
    show_arguments,
    without_controls,
)
from agentrail.errors import ErrorInfo
from agentrail.events import (
    AbortReceipt,
    AbortSettled,
    AgentAbort,
    AgentEnd,
    AgentError,
    AskUser,
    Envelope,
    Event,
    EventsLost,
    LeftBehind,
    MaxTurnsReached,
    MessageDelta,
    Plan,
    PlanGenerated,
    PromptDropped,
    PromptQueued,
    RequestStart,
    ResponseComplete,
    SessionParked,
    SessionRestarted,
    SignalQuarantined,
    StreamError,
    ThinkingDelta,
    TodoChange,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agentrail.messages import (
    AssistantMessage,
    CallId,
    PromptRef,
    QuestionRef,
    SessionId,
    StopReason,
    TokenUsage,
    ToolResult,
)

TERMINAL = ChatStyle(out_is_terminal=True, err_is_terminal=True, dims=True)
PIPES = ChatStyle()
S = SessionId("s")
INFO = ErrorInfo(code="overloaded", message="busy")


def at(event: Event, at_ms: int) -> Event:
    """The event, published at a time."""
    return msgspec.structs.replace(event, meta=Envelope(session_id=S, seq=1, at_ms=at_ms, path=(S,)))


def started(call: str, **arguments: str) -> Event:
    """A call begins."""
    return ToolExecutionStart(name="look", call_id=CallId(call), arguments=arguments)


def ended(call: str, text: str, *, is_error: bool = False) -> Event:
    """A call has its result."""
    result = ToolResult(call_id=CallId(call), name="look", text=text, is_error=is_error)
    return ToolExecutionEnd(name="look", call_id=CallId(call), result=result)


def end(reason: StopReason | Literal["max_turns"] = "end") -> Event:
    """The cycle ends."""
    return AgentEnd(messages=(), usage=TokenUsage(), stop_reason=reason)


def complete() -> Event:
    """A response is complete."""
    message = AssistantMessage(content=(), model="m")
    return ResponseComplete(message=message, usage=TokenUsage(), stop_reason="end")


def written(*events: Event, look: ChatStyle = PIPES) -> tuple[str, str]:
    """What stands on stdout and on stderr after these events."""
    transcript = Transcript(look)
    pieces = [piece for event in events for piece in transcript.feed(event)]
    return (
        "".join(piece.text for piece in pieces if piece.stream == "out"),
        "".join(piece.text for piece in pieces if piece.stream == "err"),
    )


def test_words_come_as_they_are_and_end_in_a_line_break():
    """Deltas go to stdout at once; a response that ends in the middle of a line gets its line break."""
    assert written(MessageDelta(delta="Hel"), MessageDelta(delta="lo"), complete()) == ("Hello\n", "")
    assert written(MessageDelta(delta="Hello\n"), complete(), end()) == ("Hello\n", "")


def test_a_call_is_shown_with_its_arguments_outcome_and_duration():
    """One line when it starts, one when it ends; a single call needs its name once."""
    assert written(at(started("c", path="."), 1_000), at(ended("c", "a\n\nb\nc"), 1_003)) == (
        "",
        '→ look(path=".")\n  ✓ a (+2 lines, 3 ms)\n',
    )


def test_calls_that_ran_side_by_side_are_told_apart():
    """A result that does not stand behind its own call repeats which one it answers."""
    _, err = written(
        started("c", n="1"), started("d", n="2"), ended("c", "one"), ended("d", "two", is_error=True)
    )
    assert err.splitlines() == [
        '→ look(n="1")',
        '→ look(n="2")',
        '  ✓ look(n="1"): one',
        '  ✗ look(n="2"): two',
    ]


def test_a_result_without_a_start_is_shown_by_its_name():
    """Who begins to watch in the middle still sees what comes."""
    assert written(ended("c", "one")) == ("", "  ✓ look: one\n")


def test_a_note_begins_a_line_of_its_own():
    """A call behind words that have not ended their line begins a new one, on the stream where it is open."""
    out, err = written(MessageDelta(delta="I will look"), complete(), started("c"))
    assert (out, err) == ("I will look\n", "→ look()\n")


def test_thinking_is_shown_dimmed_on_a_terminal_only():
    """Thoughts are for somebody who watches; they never reach stdout."""
    events = (ThinkingDelta(delta="hm"), MessageDelta(delta="Yes"), complete())
    assert written(*events) == ("Yes\n", "")
    assert written(*events, look=TERMINAL) == ("Yes\n", "\x1b[2mhm\x1b[22m\n")


def test_words_and_thoughts_do_not_share_a_line():
    """A thought behind words that have not ended their line begins a new one."""
    out, err = written(MessageDelta(delta="Yes"), ThinkingDelta(delta="hm\n"), look=TERMINAL)
    assert (out, err) == ("Yes\n", "\x1b[2mhm\n\x1b[22m")


def test_a_model_cannot_steer_the_terminal():
    """Escape sequences are taken out of what goes to a terminal, and left alone in what goes to a pipe."""
    delta = MessageDelta(delta="a\x1b[2Jb\x9b1mc\r\n\td")
    assert written(delta, look=TERMINAL)[0] == "a[2Jb1mc\n\td"
    assert written(delta)[0] == "a\x1b[2Jb\x9b1mc\r\n\td"
    assert written(MessageDelta(delta="\x1b"), look=TERMINAL) == ("", "")
    assert "\x1b" not in written(started("c", path="\x1b[2J"), ended("c", "\x1b]0;x\x07"))[1]


@given(text=st.text())
def test_nothing_but_line_breaks_and_tabs_controls_a_terminal(text):
    """Whatever a text holds, no control character but these two is left of it."""
    shown = without_controls(text)
    assert not [char for char in shown if (ord(char) < 32 or 127 <= ord(char) < 160) and char not in "\n\t"]
    assert without_controls(shown) == shown


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (end("max_tokens"), "the answer was cut off: it reached the model's output limit"),
        (end("max_turns"), "it stopped at --max-turns"),
        (AgentError(error=INFO), "error: busy. What to do: try again in a minute, or name another --model."),
        (AgentAbort(reason=None), "aborted"),
        (AgentAbort(reason="by me"), "aborted: by me"),
        (AbortSettled(receipt=AbortReceipt(tasks_ended=1, milliseconds=9)), "1 task was stopped in 9 ms"),
        (MaxTurnsReached(turns=3), "the last of 3 turns: tools are withheld"),
        (SessionRestarted(reason="boom", incarnation=2), "the session crashed and was restarted: boom"),
        (SessionParked(reason="boom"), "the session crashed too often and was given up: boom"),
        (SignalQuarantined(signal_kind="Prompt", error=INFO), "a bug in agentrail, please report it: busy"),
        (PromptDropped(ref=PromptRef("r"), content=()), "a prompt that waited was dropped"),
    ],
)
def test_what_a_person_must_know_is_a_line_on_stderr(event, line):
    """Ends, crashes and bounds are said in a sentence each."""
    assert written(event) == ("", f"{line}\n")


LINES = st.sampled_from(
    ["", "", "words", "words __dunder__", "- item", "  more", "# head", "```py", "x = 1", "```", "| a | b |", "|---|---|", "| 1 | 2 |", "> said"]
)  # fmt: skip
NOTICES = {
    "noted": lambda transcript: transcript.remark("said in between"),
    "queued": lambda transcript: transcript.feed(PromptQueued(ref=PromptRef("q"), content=(), position=0)),
    "dropped": lambda transcript: transcript.feed(PromptDropped(ref=PromptRef("r"), content=())),
    "started": lambda transcript: transcript.feed(started("b")),
    "ended": lambda transcript: transcript.feed(ended("b", "done")),
    "todos": lambda transcript: transcript.feed(TodoChange(todos=())),
    "plan": lambda transcript: transcript.feed(PlanGenerated(plan=Plan(steps=()))),
    "asked": lambda transcript: transcript.feed(
        AskUser(ref=QuestionRef("q"), question="Which?", options=("a",), schema=None, url=None)
    ),
}
"""What may come while an answer streams."""


@given(lines=st.lists(LINES, max_size=20), data=st.data())
@example(lines=["an answer"], data=None)
def test_nothing_that_comes_in_between_changes_an_answer(lines, data):
    """Stdout has its very words; what came stands between two blocks of it, all of it and in order."""
    answer = "\n".join(lines)
    cuts = [3] if data is None else sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=8)))
    transcript, alone, pieces, told = Transcript(PIPES), Transcript(PIPES), [], []
    for begin, end_of in zip([0, *cuts], [*cuts, len(answer)], strict=True):
        pieces += transcript.feed(MessageDelta(delta=answer[begin:end_of]))
        drawn = st.lists(st.sampled_from(sorted(NOTICES)), max_size=2)
        for name in ["noted"] if data is None else data.draw(drawn):
            pieces += NOTICES[name](transcript)
            told += NOTICES[name](alone)
    pieces += transcript.feed(complete())
    out = "".join(piece.text for piece in pieces if piece.stream == "out")
    assert out == (answer if answer.endswith("\n") or not answer else f"{answer}\n")
    wanted = "".join(piece.text for piece in told)
    assert "".join(piece.text for piece in pieces if piece.stream == "err").replace(
        " look():", ""
    ) == wanted.replace(" look():", "")
    so_far = MarkdownBlocks()
    for number, piece in enumerate(pieces):
        if piece.stream == "out":
            so_far.feed(piece.text)
        else:
            assert so_far.is_between or not any(one.stream == "out" for one in pieces[number:])


@pytest.mark.parametrize(
    "ends",
    [
        complete(), end(), StreamError(error=INFO), AgentError(error=INFO), AgentAbort(reason=None), SessionParked(reason="boom"),
        SessionRestarted(reason="boom", incarnation=2), EventsLost(from_seq=1, to_seq=2), RequestStart(model="m", messages=1),
    ],
)  # fmt: skip
def test_what_was_held_is_said_when_the_answer_ends(ends):
    """However it ends, and before what the end says of itself."""
    transcript = Transcript(PIPES)
    transcript.feed(MessageDelta(delta="```\nhalf"))
    assert transcript.remark("the cost is 0") == ()
    assert transcript.feed(ends)[:2] == (Piece("out", "\n"), Piece("err", "the cost is 0\n"))
    assert transcript.remark("at once") == (Piece("err", "at once\n"),)


def test_what_cannot_wait_ends_the_answer_for_it():
    """A run that is stopped says so at once."""
    transcript = Transcript(PIPES)
    transcript.feed(MessageDelta(delta="half"))
    assert transcript.remark("held") == ()
    assert transcript.note("stopping") == (
        Piece("out", "\n"),
        Piece("err", "held\n"),
        Piece("err", "stopping\n"),
    )


def test_a_stream_that_broke_ends_its_line():
    """Behind text that was cut off, the error begins a line of its own."""
    assert written(MessageDelta(delta="half"), StreamError(error=INFO)) == ("half\n", "")


def test_an_invitation_is_a_line_that_the_user_ends():
    """What is said behind an invitation begins a new line, unless the user has ended it by typing."""
    transcript = Transcript(ChatStyle())
    assert transcript.invite() == (Piece("out", "> "),)
    transcript.line_typed()
    assert transcript.note("queued") == (Piece("err", "queued\n"),)
    transcript.invite()
    assert transcript.note("stopped") == (Piece("out", "\n"), Piece("err", "stopped\n"))


def test_a_line_of_json_is_an_event():
    """A program gets one object per line on stdout."""
    (piece,) = json_line(MessageDelta(delta="a\nb"))
    assert piece.stream == "out"
    assert json.loads(piece.text)["delta"] == "a\nb"
    assert piece.text.count("\n") == 1


def test_arguments_are_short_and_on_one_line():
    """Arguments are shown as names and JSON values, at most 160 characters of them."""
    assert show_arguments({"a": "x\ny", "b": [1, None]}) == r'a="x\ny", b=[1, null]'
    assert show_arguments({"half": "\ud800"}) == 'half=""'
    long = show_arguments({"a": "x" * 500})
    assert (len(long), long[-1]) == (160, "…")


def test_an_outcome_is_shown_by_its_first_line():
    """The first line that says something, and how many more say something too."""
    assert first_line("\n  \n one\ttwo \nthree\n") == ("one two", 1)
    assert first_line(" \n") == ("nothing", 0)
    assert len(first_line("x" * 500)[0]) == 100


def test_a_receipt_says_what_was_not_stopped():
    """What is stuck is named, what runs on by policy is counted."""
    receipt = AbortReceipt(
        tasks_ended=2,
        processes_reaped=3,
        stuck=(LeftBehind(name="disk", age_ms=6_100, pid=4711), LeftBehind(name="wait", age_ms=40)),
        committed=(CallId("a"), CallId("b")),
        unknown=(CallId("d"),),
        survivors=(CallId("c"),),
        milliseconds=5_000,
    )
    assert show_receipt(receipt) == (
        "2 tasks were stopped in 5.0 s; 3 processes were ended; "
        "would not stop: disk (6.1 s, process 4711), wait (40 ms); 2 calls were done already; "
        "1 call may have taken effect; still running: 1"
    )


def test_times_are_shown_in_a_unit_that_fits():
    """Milliseconds below a second, seconds above."""
    assert (show_milliseconds(999), show_milliseconds(1_000)) == ("999 ms", "1.0 s")
