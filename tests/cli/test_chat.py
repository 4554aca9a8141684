"""`agentrail chat`, as a process: with pipes, in a terminal without an editor, and in one with; and its parts."""

import base64
import os
import re

import pytest
import trio
import trio.testing

from agentrail.cli.chat_session import MAX_PICTURE_BYTES, ChatLedger, reader_below, with_pictures
from agentrail.cli.chat_switch import GoTo, switch
from agentrail.cli.chat_terminal import LineView
from agentrail.cli.event_text import ChatStyle, Piece, Transcript
from agentrail.cli.input_lines import PlainLines
from agentrail.cli.terminal.key_bindings import KeyPress, SentLine
from agentrail.errors import CommandError
from agentrail.events import (
    AgentEnd,
    AgentResumed,
    AgentStart,
    AgentSuspended,
    ApprovalRequired,
    AskUser,
    MessageDelta,
    SubagentEvent,
)
from agentrail.messages import CallId, Image, PromptRef, QuestionRef, SessionId, Text, TokenUsage
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from tests.cli.rig import SLEEPER, alive, open_terminal, run_agentrail, sleeping_below

TALK = ("chat", "--model", "demo:fast", "--tools", "none")
WORK = ("chat", "--model", "demo:fast", "--tools", "shell", "--shell-fallback", "unconfined")
UNASKED = (*WORK, "--approve", "none")
A, B = PromptRef("a"), PromptRef("b")
QUESTION = AskUser(ref=QuestionRef("q"), question="Really?")
END = AgentEnd(messages=(), usage=TokenUsage(), stop_reason="end")


async def test_lines_of_a_pipe_are_worked_off_in_order_and_commands_are_known():
    """Each line gets its answer before the next one begins, and at the end the code is 0; /status and /tree tell, /abort has nothing to stop, an unknown command gets the nearest."""
    ran = await run_agentrail(*TALK, stdin=b"first\n\nsecond\nlast without a line break")
    assert ran.code == 0
    answers = [line for line in ran.out.splitlines() if "You said: " in line]
    assert [line.partition("You said: ")[2] for line in answers] == [
        "first",
        "second",
        "last without a line break",
    ]
    assert ">" not in ran.out

    ran = await run_agentrail(*TALK, stdin=b"/status\n/tree\n/abort\n/halp\n/help\n/quit\nnever said\n")
    assert (ran.code, "idle · model demo:fast · 0 messages · 0 tokens" in ran.err) == (0, True)
    assert "'sessions' supervisor running #1 restarts=0" in ran.err
    assert re.search(r"└── 's-[0-9a-f]+' worker running idle #1 restarts=0 up=0:00:\d\d mailbox=0", ran.err)
    assert "nothing runs" in ran.err
    assert "there is no command /halp: did you mean /help?" in ran.err
    assert "/abort [why]: stop the running cycle" in ran.err
    assert "never said" not in ran.out


async def test_the_user_decides_before_tools_run():
    """With --approve a call waits; /approve runs it, /reject tells the model why not, through a pipe as well; it needs names."""
    lines = b'shell "echo one"\n/approve\nshell "echo two"\n/reject too many\nshell "echo three"\n/approve #2\n/approve\n'
    ran = await run_agentrail(*WORK, "--approve", "shell", stdin=lines)
    assert (ran.code, "may shell run with {'command': 'echo one'" in ran.err) == (0, True)
    assert "shell says: one" in ran.out
    assert "shell failed: Rejected by the user: too many" in ran.out
    assert "nothing waits at #2" in ran.err
    assert "shell says: three" in ran.out
    assert "aborted" not in ran.err

    ran = await run_agentrail(*TALK, "--approve", "shell,", stdin=b"")
    assert (ran.code, "--approve is 'shell,': expected names of tools" in ran.err) == (2, True)


@pytest.mark.parametrize("term", ["dumb", "xterm"])
async def test_one_can_type_while_the_agent_works_and_control_c_stops_the_cycle_and_then_leaves(term):
    """A typed line is queued, with its position; /abort ends the cycle and the line is next. Ctrl-C stops what runs; in idle it leaves (on a screen twice), with code 130."""
    async with open_terminal(*UNASKED, term=term) as typist:
        await typist.wait_for(">")
        typist.type(f"{SLEEPER}\r")
        below = await sleeping_below(typist.process)
        await typist.press("hello\r", "queued at position 0; 0 is next")
        await typist.press("/status\r", "executing_tools, turn 1")
        await typist.press("/abort\r", "aborted: by the user")
        await typist.wait_for("You said: hello")
        assert alive(below) == []

        await typist.wait_for(">")
        typist.type(f"{SLEEPER}\r")
        below = await sleeping_below(typist.process)
        press = typist.interrupt if term == "dumb" else lambda: typist.type("\x03")
        press()
        await typist.wait_for("aborted: interrupted")
        await typist.wait_for("1 task was stopped")
        assert alive(below) == []
        await typist.press("still there?\r", "You said: still there?")
        await typist.wait_for(">")
        press()
        if term == "xterm":  # the first one may have been meant for the line
            await typist.wait_for("Ctrl-C again leaves")
            press()
        assert await typist.wait_end() == 130
        assert b"Traceback" not in typist.seen


@pytest.mark.parametrize("term", ["dumb", "xterm"])
async def test_control_d_stops_the_cycle_and_leaves(term):
    """Ctrl-D while a command runs ends it first; code 0, no process left."""
    async with open_terminal(*UNASKED, term=term) as typist:
        await typist.wait_for(">")
        typist.type(f"{SLEEPER}\r")
        below = await sleeping_below(typist.process)
        await typist.press("\x04", "aborted: leaving")
        assert await typist.wait_end() == 0
        assert alive(below) == []


async def test_the_editor_gives_the_terminal_back_when_it_is_told_to_leave():
    """SIGTERM while somebody could type: the terminal echoes again, and the code is 130."""
    async with open_terminal(*TALK, term="xterm") as typist:
        await typist.wait_for(">")
        assert not typist.echoes()
        typist.process.terminate()
        assert await typist.wait_end() == 130
        assert typist.echoes()


async def test_the_ledger_knows_what_is_outstanding():
    """A prompt may end before its receipt is here; a question that comes again is heard by a reader of the next line, although the end of the first was read late."""
    ledger = ChatLedger()
    ledger.note(AgentStart(ref=A))
    ledger.note(END)
    ledger.accept(A)
    assert ledger.is_idle

    ledger = ChatLedger()
    ledger.accept(A)
    ledger.note(QUESTION)
    ledger.decided()
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ledger.wait_for_line)
            await trio.testing.wait_all_tasks_blocked()
            ledger.note(AgentResumed(trigger="tool_approved"))
            ledger.note(QUESTION)


@pytest.mark.parametrize("is_of_child", [False, True])
async def test_the_next_line_of_a_pipe_is_read_while_anything_waits_for_the_user(is_of_child):
    """After the first of two calls was decided, and for a call or a question of a sub-agent, which is shown too."""

    def published(event):
        ledger.note(wrapped := of_child(event) if is_of_child else event)
        return transcript.feed(wrapped)

    async def reads_on():
        with trio.move_on_after(0.01) as waiting:
            await ledger.wait_for_line()
        return not waiting.cancelled_caught

    ledger, transcript = ChatLedger(), Transcript(ChatStyle())
    ledger.accept(A)
    assert not await reads_on()
    assert published(QUESTION)[0].text.startswith("Really?")
    assert await reads_on()
    published(AgentResumed(trigger="tool_approved"))
    assert not await reads_on()
    published(AgentSuspended(waiting=()))
    assert await reads_on()


def of_child(event):
    for depth in (1, 2):
        event = SubagentEvent(call_id=CallId("c"), child_id=SessionId("s.c"), depth=depth, event=event)
    return event


async def test_a_prompt_that_is_taken_for_a_decision_is_outstanding_no_more():
    """It begins no cycle of its own; the one that it decided about is waited for until its end."""
    asks = (HumanApproval, {"require_approval_for": ["record"], "confirm_prefix": "!"})
    model = ScriptedModel([calls(("record", {})), says("done")])
    ledger = ChatLedger()
    async with open_nameless() as supervisor:
        session = await supervisor.start_session(model=model, tools=[RecordingTool()], plugins=[asks])
        with trio.fail_after(60):
            async with session.subscribe() as events:
                ledger.accept((await session.prompt("go")).ref)
                async for event in events:
                    ledger.note(event)
                    if isinstance(event, ApprovalRequired):
                        ledger.accept((await session.prompt(f"! {event.approval.id}")).ref)
                    if isinstance(event, AgentEnd):
                        break
    assert ledger.is_idle


async def test_waiting_for_idle_ends_with_the_last_prompt(nursery):
    """`wait_idle` returns when there is nothing outstanding, and not before."""
    ledger = ChatLedger()
    ledger.accept(A)
    done = trio.Event()

    async def wait() -> None:
        await ledger.wait_idle()
        done.set()

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    assert not done.is_set()
    ledger.note(AgentStart(ref=A))
    ledger.note(END)
    await done.wait()


class Paper:
    """A screen that keeps what is written."""

    def __init__(self):
        self.pieces = []

    async def write(self, pieces):
        self.pieces += pieces


async def test_what_a_command_answers_cuts_no_line_of_an_answer_that_streams():
    """It stands behind the fence, paragraph or table that is being written."""
    paper = Paper()
    view = LineView(transcript=Transcript(ChatStyle()), screen=paper, prompts=False)
    for delta in ("```py\nx =", " __name__", "\n\n```\nThe end.\n"):
        await view.show(MessageDelta(delta=delta))
        await view.say("cost: 0")
    assert paper.pieces[:4] == [
        *(Piece("out", text) for text in ("```py\nx =", " __name__", "\n", "\n")),
    ]
    assert paper.pieces[4:] == [
        Piece("out", "```\n"),
        *(Piece("err", "cost: 0\n"),) * 2,
        Piece("out", "The end.\n"),
    ]


@pytest.fixture
def terminal():
    master, slave = os.openpty()
    yield master, slave
    for end in (master, slave):
        if end is not None:
            try:
                os.close(end)
            except OSError:  # the test has closed it
                continue


@pytest.mark.experience("X-007")
async def test_lines_that_are_pasted_into_a_dumb_terminal_are_one_prompt(terminal):
    """`/quit` among them leaves nothing; what is typed behind it is a line of its own again; then the end."""
    master, slave = terminal
    lines = PlainLines(slave, joins_pastes=True)
    pasted = ["/quit", *map(str, range(38)), "the end"]
    with trio.fail_after(60):
        os.write(master, "".join(f"{line}\r" for line in pasted).encode())
        assert await lines.next_line() == SentLine(text="\n".join(pasted), is_pasted=True)
        os.write(master, b"/status\r")
        assert await lines.next_line() == "/status"
        os.write(master, b"\x04")
        assert await lines.next_line() is KeyPress.CTRL_D
        assert await lines.next_line() is KeyPress.CTRL_D


def test_a_picture_is_sent_behind_the_words_or_it_is_said_why_not(tmp_path):
    """As it is, in base64, with the type of its name; of one that is not there, no file, or too large, nothing is sent."""
    (tmp_path / "a.png").write_bytes(b"png")
    sent = with_pictures("see @a.png", reader_below(tmp_path))
    picture = Image(media_type="image/png", data=base64.b64encode(b"png").decode(), name="a.png")
    assert sent == (Text(text="see @a.png"), picture)
    assert with_pictures("see @a.py", reader_below(tmp_path)) == "see @a.py"

    with pytest.raises(
        CommandError, match=r"gone\.png cannot be read: No such file or directory; nothing was sent"
    ):
        with_pictures("@gone.png", reader_below(tmp_path))
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(CommandError, match=r"pipe\.png is not a regular file"):
        with_pictures("@pipe.png", reader_below(tmp_path))
    with pytest.raises(CommandError, match=r"home directory; nothing was sent"):
        with_pictures("@~no-such-user/a.png", reader_below(tmp_path))
    with pytest.raises(CommandError, match=r"more than 5,000,000 bytes; nothing was sent"):
        with_pictures("@a.png", lambda _: bytes(MAX_PICTURE_BYTES + 1))


async def test_where_a_chat_goes_on(tmp_path):
    """A new conversation always; one that is kept only with a store, and never this very one."""
    current = SessionId("s-1")
    assert await switch("clear", "", None, current) == GoTo()
    for name in ("sessions", "resume"):
        with pytest.raises(CommandError, match=f"/{name} needs a store, and this chat is not stored"):
            await switch(name, "", None, current)
