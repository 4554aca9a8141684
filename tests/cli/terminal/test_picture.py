"""The screen of a chat without a terminal: what is printed for good, and what stands below it."""

import re

import msgspec
import trio
from hypothesis import given, strategies as st

from agentrail.cli.terminal.chat_layout import Picture
from agentrail.cli.terminal.live_view import TerminalView
from agentrail.cli.terminal.styles import Ink
from agentrail.events import (
    AgentEnd,
    AgentStart,
    Approval,
    ApprovalRequired,
    ApprovalResolved,
    AskUser,
    EventsLost,
    MessageDelta,
    Plan,
    PlanGenerated,
    PluginEvent,
    PromptQueued,
    RequestStart,
    ResponseComplete,
    SubagentEvent,
    SubagentStart,
    Todo,
    TodoChange,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolProgress,
)
from agentrail.messages import (
    ApprovalId,
    AssistantMessage,
    CallId,
    PromptRef,
    QuestionRef,
    SessionId,
    Text,
    TokenUsage,
    ToolResult,
)

START = AgentStart(ref=PromptRef("p"))
END = AgentEnd(messages=(), usage=TokenUsage(), stop_reason="end")
USAGE = TokenUsage(input=1_200, output=34, cost_usd=0.0123)
COMPLETE = ResponseComplete(message=AssistantMessage(content=(), model="m"), usage=USAGE, stop_reason="end")


def started(call, name="look", **arguments):
    return ToolExecutionStart(name=name, call_id=CallId(call), arguments=arguments)


def ended(call, name="look", text="done", *, is_error=False):
    result = ToolResult(call_id=CallId(call), name=name, text=text, is_error=is_error)
    return ToolExecutionEnd(name=name, call_id=CallId(call), result=result)


def asks(number, **arguments):
    return Approval(
        id=ApprovalId(f"a{number}"), call_id=CallId(f"c{number}"), tool="edit_file", arguments=arguments,
        arguments_hash="", requested_at_ms=number, path=(SessionId("s"),),
    )  # fmt: skip


def asked_by_policy(number, *rules):
    payload = {"call_id": f"c{number}", "tool": "edit_file", "always": rules}
    return PluginEvent(name="permission_asked", payload=payload)


def fed(*events, width=80, now=0.0):
    picture = Picture(ink=Ink(width=width))
    printed = [row for event in events for row in picture.feed(event, now)]
    return picture, printed


@given(
    words=st.lists(st.sampled_from(["a ", "b\n", "\n", "- c\n", "# d\n", "`e`", "**f**\n\n"]), max_size=30)
)
def test_what_streams_is_printed_as_if_it_had_come_at_once(words):
    """The rows that were printed bit by bit are those of the whole answer, and nothing is left below."""
    bit_by_bit, first = fed(START, *(MessageDelta(delta=word) for word in words), COMPLETE, END)
    _, at_once = fed(START, MessageDelta(delta="".join(words)), COMPLETE, END)
    assert first == at_once
    assert bit_by_bit.below(0.0, 20) == ()


LINES = st.sampled_from(
    ["", "", "words", "words __dunder__", "- item", "1. one", "# head", "```python", "    # a *comment* with __dunder__", "x = 1", "```",
     "| name | value |", "|---|---|", "| one | 1 |", "> said", "word " * 900,
     "| name | value |\n|---|---|\n" + "| one of many | `12345` |\n" * 250]
)  # fmt: skip
NOTICES = {
    "typed": lambda picture: picture.typed("/cost"),
    "said": lambda picture: picture.say(["cost: $0.01", ""]),
    "noted": lambda picture: picture.note("the model is slow"),
    "logged": lambda picture: picture.log(["12:00 warning"]),
    "queued": lambda picture: picture.feed(PromptQueued(ref=PromptRef("q"), content=(), position=0), 0.0),
    "started": lambda picture: picture.feed(started("b"), 0.0),
    "ended": lambda picture: picture.feed(ended("b"), 0.0),
    "todos": lambda picture: picture.feed(TodoChange(todos=()), 0.0),
    "asked": lambda picture: picture.feed(
        AskUser(ref=QuestionRef("q"), question="Which?", options=("a",), schema=None, url=None), 0.0
    ),
    "waits": lambda picture: picture.feed(ApprovalRequired(approval=asks(1)), 0.0),
    "plan": lambda picture: picture.feed(PlanGenerated(plan=Plan(steps=())), 0.0),
    "looked at": lambda picture: picture.below(0.0, 20),
}
"""Everything that may come while an answer streams."""


@given(lines=st.lists(LINES, max_size=20), data=st.data())
def test_nothing_that_comes_in_between_changes_how_an_answer_is_drawn(lines, data):
    """Whatever Markdown, in whatever deltas, with whatever is typed, queued or noticed between them."""
    answer = "\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=8)))
    picture, drawn = fed(START)
    for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True):
        drawn += picture.feed(MessageDelta(delta=answer[start:end]), 0.0)
        for name in data.draw(st.lists(st.sampled_from(sorted(NOTICES)), max_size=2)):
            NOTICES[name](picture)
    drawn += picture.feed(COMPLETE, 0.0)
    _, at_once = fed(START, MessageDelta(delta=answer), COMPLETE)
    assert [row for row in drawn if row] == [row for row in at_once if row]


def test_an_answer_that_was_cut_off_ends_before_the_next_one():
    """Also where the event that ends it was lost: a new request, a gap, and a session that is resumed begin anew."""
    for ends in (RequestStart(model="m", messages=1), EventsLost(from_seq=1, to_seq=2)):
        picture, _ = fed(START, MessageDelta(delta="```\nx"))
        assert picture.feed(ends, 0.0)[:1] == ("x",)
        assert picture.below(0.0, 20)[:1] != ("x",)
    picture, _ = fed(START, MessageDelta(delta="```\nx"))
    assert picture.past("said") == ("x", "", "said")


def test_the_working_line_says_what_is_done_since_when_and_for_how_much():
    """Spinner, what, seconds, tokens, cost, queue; a hanging server is seen to hang. X-009."""
    queued = PromptQueued(ref=PromptRef("q"), content=(), position=0)
    picture, _ = fed(
        START, RequestStart(model="m", messages=1), COMPLETE, queued, RequestStart(model="m", messages=3)
    )
    (line,) = picture.below(72.35, 10)
    assert line == "⠸ asking m · 1 min 12 s · ↑1,200 ↓34 tokens · $0.0123 · 1 queued · Ctrl-C stops"
    (narrow,) = Picture(ink=Ink(width=10), working=picture.working).below(72.35, 10)
    assert narrow.startswith("⠸ 1 min")


def test_what_is_drawn_below_has_room_in_every_terminal():
    """Todos, calls, a dialogue and a long tail: never more rows than there are."""
    todos = TodoChange(todos=tuple(Todo(id=str(n), content=f"todo {n}", status="pending") for n in range(30)))
    calls = [started(str(number)) for number in range(9)]
    words = MessageDelta(delta="word\n" * 50)
    for height in range(1, 30):
        for more in ((), (ApprovalRequired(approval=asks(1, old_string="a\n" * 50, new_string="b\n" * 50)),)):
            picture, _ = fed(START, todos, words, *calls, *more, width=10)
            assert len(picture.below(0.0, height)) <= height


def test_calls_that_run_side_by_side_are_a_group_with_names():
    """Each has its row with what it says, and what it came to when it is over; a sub-agent shows what it does."""
    task = SubagentStart(child_id=SessionId("s/1"), call_id=CallId("d"), description="look around")
    inner = SubagentEvent(
        call_id=CallId("d"), child_id=SessionId("s/1"), depth=1, event=started("x", "grep", text="a")
    )
    picture, printed = fed(
        START, started("c", "shell", command="make"), started("d", "task"), task, inner,
        ToolProgress(name="shell", call_id=CallId("c"), text="one\ntwo\n"),
    )  # fmt: skip
    assert printed == []
    assert picture.below(2.0, 10) == (
        '→ shell(command="make") · 2 s  two',
        '◆ task() · 2 s · 1 calls  grep(text="a")',
        "⠋ running shell, task · 2 s · Ctrl-C stops",
    )
    rows = picture.feed(ended("c", "shell", "one\ntwo"), 4.0)
    assert rows == ('→ shell(command="make")', "  ✓ one (+1 lines, 4 s)")
    assert picture.feed(ended("d", "task", "no", is_error=True), 4.0)[-1] == "  ✗ no (4 s)"


def test_an_edit_shows_what_it_changed():
    """Lines that went and lines that came, a new file as lines that came; nothing where it failed."""
    edit = started("c", "edit_file", path="a", old_string="one\ntwo", new_string="one\n2")
    _, rows = fed(START, edit, ended("c", "edit_file"))
    assert rows[2:] == ["    @@ -1,2 +1,2 @@", "     one", "    -two", "    +2"]
    _, rows = fed(START, started("c", "write_file", path="a", content="x\n" * 99), ended("c", "write_file"))
    assert rows[2] == "    +x"
    assert rows[-1] == "    … 60 more lines"
    _, rows = fed(START, edit, ended("c", "edit_file", is_error=True))
    assert len(rows) == 2


def test_todos_stand_below_and_are_printed_at_the_end():
    """As they are while the cycle runs, and once behind it."""
    todo = Todo(id="1", content="mend it", status="in_progress")
    picture, printed = fed(START, TodoChange(todos=(todo,)))
    assert printed == []
    assert picture.below(0.0, 10)[0] == "  [▸] mend it"
    done = msgspec.structs.replace(todo, status="completed")
    picture.feed(TodoChange(todos=(done,)), 1.0)
    assert picture.feed(END, 1.0) == ("todos:", "  [✓] mend it")
    assert picture.feed(END, 1.0) == ()


def test_a_dialogue_shows_the_call_its_rule_and_what_may_be_chosen():
    """Exactly what is offered; "always" with the rules that it would write; the next call when the first was decided."""
    rules = asked_by_policy(1, "edit_file(a)")
    first, second = asks(1, path="a", old_string="x", new_string="y"), asks(2, path="b")
    picture, printed = fed(START, rules, ApprovalRequired(approval=first), ApprovalRequired(approval=second))
    assert printed == []
    assert picture.below(0.0, 20)[:8] == (
        "? may edit_file a run?  (1 of 2)",
        "    @@ -1 +1 @@",
        "    -x",
        "    +y",
        " ▸ 1 yes, this once  y",
        "   2 always: edit_file(a); that also allows any other content of this file  a",
        "   3 no, and say why  n",
        "   4 edit the arguments  e",
    )
    dialogue = picture.dialogue
    assert [dialogue.chosen_by(key) for key in ("enter", "2", "n", "E", "9", "0", "x")] == [
        "approve", "always", "reject", "edit", None, None, None,
    ]  # fmt: skip
    assert dialogue.moved(-1).chosen_by("enter") == "edit"
    picture.feed(ApprovalResolved(approval=first, status="approved", by="user"), 0.0)
    assert picture.dialogue.approval == second
    rule = " ".join("".join(picture.below(0.0, 20)[3:5]).split())
    assert rule == "2 always, in this session: every call of edit_file, whatever its a arguments are"
    picture.feed(END, 0.0)
    assert picture.dialogue is None


def test_rules_are_those_of_the_call_that_is_shown():
    """Not of an earlier call that needed no approval; of a sub-agent's call too."""
    other = asked_by_policy(2, "edit_file(b)")
    picture, _ = fed(START, other, ApprovalRequired(approval=asks(1, path="a")))
    assert "2 always, in this session: every call of edit_file" in "".join(picture.below(0.0, 20))
    child, call = SessionId("s.1"), CallId("t")
    start = SubagentStart(call_id=call, child_id=child, description="x")
    inner = [
        SubagentEvent(call_id=call, child_id=child, depth=1, event=one)
        for one in (asked_by_policy(1, "edit_file(a)"), ApprovalRequired(approval=asks(1, path="a")))
    ]
    picture, _ = fed(START, started("t", "task"), start, *inner)
    assert "2 always: edit_file(a); that also allows" in "".join(picture.below(0.0, 20))
    resolved = ApprovalResolved(approval=asks(1, path="a"), status="approved", by="user")
    question = AskUser(ref=QuestionRef("q"), question="Which?", options=("a",))
    rows = [
        row
        for one in (resolved, question)
        for row in picture.feed(SubagentEvent(call_id=call, child_id=child, depth=1, event=one), 0.0)
    ]
    assert (picture.dialogue, rows[0]) == (None, "? Which?")


def test_a_dialogue_hides_nothing_of_a_change():
    """The end of a long line, a long path, that all occurrences change, and invisible characters. Long texts are counted."""
    path = "a/" * 40 + ".bashrc"
    long = asks(1, path=path, old_string="x", new_string="x = 1;" + " " * 200 + "evil()", replace_all=True)
    picture, _ = fed(START, ApprovalRequired(approval=long))
    shown = "".join("".join(picture.below(0.0, 40)).split())
    for part in (f'path="{path}"', "replace_all=true", "evil()"):
        assert part in shown
    hidden = asks(1, path="a", old_string="x", new_string="\tx\u202e\u200b", replace_all=False)
    picture, _ = fed(START, ApprovalRequired(approval=hidden))
    shown = "\n".join(picture.below(0.0, 40))
    assert "x\\u202e\\u200b" in shown
    assert "replace_all" not in shown
    many = msgspec.structs.replace(asks(1, path="a", content="x\n" * 5_000), tool="write_file")
    picture, _ = fed(START, ApprovalRequired(approval=many))
    assert "… 4989 more rows: e shows them all" in "\n".join(picture.below(0.0, 20))
    huge = asks(1, path="a", old_string="x\n" * 3_000, new_string="x\n" * 2_999 + "y")
    picture, _ = fed(START, ApprovalRequired(approval=huge))
    assert 'old_string="x\\nx' in "\n".join(picture.below(0.0, 20))


def test_a_dialogue_hides_nothing_of_what_would_run():
    """A long command is shown to its end; where there is no room for it, that is said, and how to see it all."""
    command = " ".join(f"word{number}" for number in range(60)) + " && rm -rf ~"
    picture, _ = fed(
        START,
        ApprovalRequired(approval=msgspec.structs.replace(asks(1, command=command), tool="shell")),
        width=40,
    )
    shown = " ".join("".join(picture.below(0.0, 60)).split())
    assert all(f"word{number}" in shown for number in range(60))
    assert "&& rm -rf ~" in shown
    small = "\n".join(picture.below(0.0, 12))
    assert "rm -rf" not in small
    assert "more rows: e shows them all" in small
    assert "1 yes, this once" in small


def test_an_answer_of_which_the_beginning_was_missed_is_shown_as_a_whole():
    """A chat that connects while a model speaks gets only the deltas from then on, and the message at the end."""
    message = AssistantMessage(content=(Text(text="one two three"),), model="m")
    complete = ResponseComplete(message=message, usage=USAGE, stop_reason="end")
    _, printed = fed(START, MessageDelta(delta=" three"), complete)
    assert [row for row in printed if row][-1] == "one two three"
    _, printed = fed(START, complete)
    assert [row for row in printed if row] == ["one two three"]


class FrameRecorder:
    """Stands in for the editor, and keeps what is on the screen after each frame."""

    is_over = False

    def __init__(self):
        self.printed = []
        self.frames = []

    def height(self, columns, rows):
        return 1

    def dialogue_is(self, dialogue):
        pass

    async def draw(self, above, below):
        await trio.lowlevel.checkpoint()
        self.printed += above
        self.frames.append(" ".join([*self.printed, *below]))


async def test_no_frame_lacks_what_was_there_before():
    """A finished paragraph moves from the area below to the rows above within one frame, whenever the frame comes."""
    screen = FrameRecorder()
    view = TerminalView(Picture(ink=Ink(width=40)), screen)

    async def keep_drawing():
        while True:
            await view.draw()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_drawing)
        await view.show(START)
        for number in range(50):
            await view.show(MessageDelta(delta=f"word{number}\n\n"))
        nursery.cancel_scope.cancel()
    for frame in screen.frames:
        words = re.findall(r"word\d+", frame)
        assert words == [f"word{number}" for number in range(len(words))]
    assert len({frame.count("word") for frame in screen.frames}) > 10
