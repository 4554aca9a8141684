"""Events as text, without a process."""

from typing import Literal

import msgspec
from hypothesis import example, given, strategies as st

from agentrail.cli.chat_notices import show_receipt
from agentrail.cli.event_text import (
    ChatStyle,
    Transcript,
    first_line,
    json_line,
)
from agentrail.cli.markdown_blocks import MarkdownBlocks
from agentrail.cli.stdio import without_controls
from agentrail.core.wire.codec import decode_event
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
    LeftBehind,
    MaxTurnsReached,
    MessageDelta,
    Plan,
    PlanGenerated,
    PromptDropped,
    PromptQueued,
    ResponseComplete,
    SessionParked,
    SessionRestarted,
    SignalQuarantined,
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
    Text,
    TokenUsage,
    ToolResult,
)

TERMINAL = ChatStyle(out_is_terminal=True, err_is_terminal=True, dims=True)
PIPES = ChatStyle()
S = SessionId("s")
INFO = ErrorInfo(code="overloaded", message="busy")


def at(event: Event, at_ms: int) -> Event:
    return msgspec.structs.replace(event, meta=Envelope(session_id=S, seq=1, at_ms=at_ms, path=(S,)))


def started(call: str, **arguments: str) -> Event:
    return ToolExecutionStart(name="look", call_id=CallId(call), arguments=arguments)


def ended(call: str, text: str, *, is_error: bool = False) -> Event:
    result = ToolResult(call_id=CallId(call), name="look", text=text, is_error=is_error)
    return ToolExecutionEnd(name="look", call_id=CallId(call), result=result)


def end(reason: StopReason | Literal["max_turns"] = "end") -> Event:
    return AgentEnd(messages=(), usage=TokenUsage(), stop_reason=reason)


def complete(text: str = "") -> Event:
    message = AssistantMessage(content=(Text(text=text),) if text else (), model="m")
    return ResponseComplete(message=message, usage=TokenUsage(), stop_reason="end")


def written(*events: Event, look: ChatStyle = PIPES) -> tuple[str, str]:
    """What stands on stdout and on stderr after these events."""
    transcript = Transcript(look)
    pieces = [piece for event in events for piece in transcript.feed(event)]
    return (
        "".join(piece.text for piece in pieces if piece.stream == "out"),
        "".join(piece.text for piece in pieces if piece.stream == "err"),
    )


def test_thinking_is_shown_dimmed_on_a_terminal_only():
    """Thoughts are for somebody who watches; they never reach stdout."""
    events = (ThinkingDelta(delta="hm"), MessageDelta(delta="Yes"), complete())
    assert written(*events) == ("Yes\n", "")
    assert written(*events, look=TERMINAL) == ("Yes\n", "\x1b[2mhm\x1b[22m\n")


@given(text=st.text(alphabet="ab\n", max_size=12), cuts=st.tuples(*[st.integers(0, 12)] * 2).map(sorted))
def test_an_answer_of_which_a_part_was_missed_is_shown_to_its_end(text, cuts):
    """A client that was away misses deltas. What was missed at the end follows; otherwise the whole answer is shown again."""
    before, after = text[: cuts[0]], text[cuts[1] :]
    deltas = [MessageDelta(delta=one) for one in (before, after) if one]
    out = written(*deltas, complete(text))[0]
    assert out.rstrip("\n").endswith(text.rstrip("\n"))
    if text.startswith(before + after):
        assert out.rstrip("\n") == text.rstrip("\n")
    replaced = (MessageDelta(delta="secret"), complete("[removed]"))  # by a plugin
    assert written(*replaced)[0] == "secret\n"
    tagged = "One.<title>T</title> Two.<status>S</status>"  # the deltas have no tags, unless the session keeps them
    for shown in "One. Two.", tagged:
        assert written(MessageDelta(delta=shown), complete(tagged))[0] == f"{shown}\n"
    assert written(MessageDelta(delta="One."), complete(tagged))[0] == "One. Two.\n"
    again = (MessageDelta(delta="a"), complete("a"))
    assert written(*again, *again)[0] == "a\na\n"


@given(text=st.text())
def test_nothing_but_line_breaks_and_tabs_controls_a_terminal(text):
    """Whatever a text holds, no control character but these two is left of it."""
    shown = without_controls(text)
    assert not [char for char in shown if (ord(char) < 32 or 127 <= ord(char) < 160) and char not in "\n\t"]
    assert without_controls(shown) == shown


@given(st.text())
@example("\x9b2J\u202eabc\U000e0041\x7f\u2028")
def test_a_line_of_json_has_only_characters_that_are_seen(text):
    """A reader of the line has the very event."""
    event = MessageDelta(delta=text)
    (line,) = json_line(event)
    assert line.text[:-1].isprintable()
    assert line.text[-1] == "\n"
    assert decode_event(line.text.encode()) == event


def test_what_the_user_must_know_is_a_line_on_stderr():
    """Ends, crashes and bounds are said in a sentence each."""
    for event, line in (
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
        (PromptDropped(ref=PromptRef("r"), content=()), "a queued prompt was dropped"),
    ):
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


def test_an_outcome_is_shown_by_its_first_line_and_a_receipt_says_what_was_not_stopped():
    """The first line that says something, and how many more say something too; what is stuck is named, what runs on by policy is counted."""
    assert first_line("\n  \n one\ttwo \nthree\n") == ("one two", 1)
    assert first_line(" \n") == ("nothing", 0)
    assert len(first_line("x" * 500)[0]) == 100

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
