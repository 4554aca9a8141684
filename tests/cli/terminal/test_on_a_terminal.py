"""`agentrail chat` on a terminal, as its screen looks (pyte): 14.3 line by line, at 10, 20, 80 and 200 columns."""

import os
import re
import signal
import termios
from contextlib import asynccontextmanager

import pytest
import trio

from tests.cli.rig import SLEEPER, alive, sleeping_below, wait_until
from tests.cli.terminal.screens import open_screen
from tests.cli.terminal.streams import open_model
from tests.cli.test_debug import PROGRAM

pytestmark = pytest.mark.check

KEY = {"OPENAI_API_KEY": "k"}
NOT_KEPT = ("--store", "memory:")
TALK = ("chat", "--model", "demo:fast", "--tools", "none", *NOT_KEPT)
WORK = ("chat", "--model", "demo:fast", "--tools", "shell", "--shell-fallback", "unconfined")
READY = "\n>"


def rests(text):
    """Whether nothing stands below what was printed but an empty line of input."""
    return text.split("\n")[-1] == ">"


@asynccontextmanager
async def chatting(*arguments, **given):
    """Open a screen with a chat that is ready, and leave it, which ends well."""
    async with open_screen(*arguments, **given) as seen:
        await seen.wait_for(READY)
        yield seen
        await seen.leave()


def printed(raw):
    """What was sent, without what styles it and places it."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", raw.decode())


def joined(text):
    """The text without the line breaks that the width made."""
    return " ".join(text.split())


def says_at_rest(words):
    """Whether the model has said these words, and a line can be typed again."""
    return lambda text: f"You said: {words}" in joined(text) and rests(text)


@pytest.mark.experience("X-007")
@pytest.mark.parametrize("has_brackets", [True, False])
async def test_lines_that_are_pasted_are_one_prompt(has_brackets):
    """With a terminal's brackets and without. `/quit` among forty leaves nothing; a megabyte is a mark in the line, keys are heard at once, and it is said as a whole."""
    lines = ["/quit", *(f"line {number}" for number in range(38)), "the end"]
    async with chatting(*TALK, rows=60) as seen:
        await seen.paste("\n".join(lines), brackets=has_brackets)
        await seen.wait_for("[pasted text 1, 40 lines]")
        await seen.press("\r", says_at_rest("/quit"))
        await seen.paste("word\n" * 199_000, brackets=has_brackets)
        await seen.wait_for("[pasted text 1, 199,001 lines]")
        await seen.press(" heard", "heard")
        await seen.press("\r", says_at_rest("word"))
        await seen.press("/status\r", "idle · model demo:fast · 4 messages")


async def test_a_chat_that_was_stopped_by_another_process_takes_the_terminal_back():
    """After `kill -STOP`, a shell has set its own modes: bash does not restore those of the job for `fg`."""
    async with chatting(*TALK) as seen:
        before = termios.tcgetattr(seen.master)
        cooked = [*before]
        cooked[0], cooked[3] = before[0] | termios.ICRNL, before[3] | termios.ICANON | termios.ECHO
        seen.process.send_signal(signal.SIGSTOP)
        termios.tcsetattr(seen.master, termios.TCSANOW, cooked)
        seen.process.send_signal(signal.SIGCONT)
        with trio.fail_after(20):
            await wait_until(lambda: termios.tcgetattr(seen.master)[3] == before[3])
        await seen.press("hello\r", says_at_rest("hello"))


@pytest.mark.experience("X-008")
async def test_control_c_on_a_half_typed_line_keeps_the_conversation():
    """It clears the line, and the conversation goes on; two more leave, with code 130 and the terminal as it was."""
    async with open_screen(*TALK) as seen:
        await seen.wait_for(READY)
        await seen.press("half a li", "half a li")
        await seen.press("\x03", rests)
        await seen.press("still there?\r", says_at_rest("still there?"))
        await seen.press("\x03", "Ctrl-C again leaves")
        seen.type("\x03")
        assert await seen.wait_end() == 130
        assert "half a li" not in seen.text
        assert not seen.text.endswith(">")


@pytest.mark.experience("X-009")
async def test_a_server_that_hangs_is_seen_to_hang_and_control_c_ends_it():
    """The working line counts while nothing comes; Ctrl-C ends the cycle within 100 ms."""
    async with open_model(None) as model, chatting("chat", *model, *NOT_KEPT, **KEY) as seen:
        await seen.press("hello\r", "asking openai-chat:busy · 0 s")
        await seen.wait_for("asking openai-chat:busy · 2 s")
        await seen.press("\x03", "aborted: interrupted")
        await seen.wait_for(lambda text: re.search(r"stopped in \d+ ms", text) is not None and rests(text))
        stopped = re.search(r"stopped in (\d+) ms", seen.text)
        assert stopped
        assert int(stopped[1]) <= 100


@pytest.mark.experience("X-011")
@pytest.mark.parametrize("columns", [20, 80, 200])
async def test_no_key_is_lost_while_two_thousand_deltas_a_second_stream(columns):
    """All that is typed stands in the line, and the screen has each word of the answer once, in order."""
    words = [f"w{number}" for number in range(4_000)]
    deltas = [f"{word}{'. ' if number % 40 == 39 else ' '}" for number, word in enumerate(words)]
    deltas = [f"{delta}\n\n" if number % 120 == 119 else delta for number, delta in enumerate(deltas)]
    keys = "the quick brown fox jumps over the lazy dog 0123456789"
    async with (
        open_model(deltas) as model,
        open_screen("chat", *model, *NOT_KEPT, columns=columns, **KEY) as seen,
    ):
        await seen.wait_for(READY)
        await seen.press("go\r", "w100")
        for key in keys:
            seen.type(key)
            await seen.read_for(0.02)
        end = f"w3999.>{keys}".replace(" ", "")
        await seen.wait_for(lambda text: re.sub(r"\s", "", text[-1_000:]).endswith(end))
        assert "trying again" not in seen.text, (
            "the model was asked twice, so there are two answers to look at"
        )
        assert re.findall(r"\bw\d+", seen.text) == words
        await seen.leave("\x03\x04")


@pytest.mark.parametrize("columns", [10, 20, 80, 200])
async def test_a_conversation_at_every_width(columns):
    """A prompt, a call that is approved in the dialogue, its outcome: nothing overflows, nothing is left below."""
    async with chatting(*WORK, *NOT_KEPT, "--approve", "shell", columns=columns) as seen:
        await seen.press('shell "echo here"\r', "1 yes")
        await seen.read_for(0.5)  # whoever types when it comes up has not read it
        await seen.press("1", lambda text: "shell" in text and "says:" in text and rests(text))
        assert "1 yes" not in seen.text


async def test_a_dialogue_takes_keys_while_a_draft_stands_and_the_draft_comes_back(tmp_path):
    """Typed while a call runs: what stands in the line is set aside, a key decides, and the line is as it was."""
    async with chatting(*WORK, *NOT_KEPT, "--approve", "shell", "--cwd", str(tmp_path)) as seen:
        await seen.press('shell "until test -e go; do sleep 0.05; done"\r', "1 yes")
        await seen.read_for(0.5)
        await seen.press("1", rests)
        await seen.press('shell "echo here"\r', "queued at position 0")
        await seen.press("half of a thought", "> half of a thought")
        (tmp_path / "go").touch()
        await seen.wait_for("(draft set aside) >")
        assert "half of a thought" not in seen.text
        await seen.read_for(0.5)
        await seen.press("n", "why not?")
        await seen.press("too loud\r", "shell failed: Rejected by the user: too loud")
        await seen.wait_for("> half of a thought")
        await seen.press(" and the rest\r", "half of a thought and the rest")


async def test_a_call_is_refused_with_a_reason_and_prompts_and_calls_are_edited_in_the_users_editor(tmp_path):
    """`n` asks why not; `e` opens `$EDITOR` with the arguments, and what was saved runs; Ctrl-G with what is typed, and what was saved stands in the line."""
    editor = tmp_path / "editor"
    edits = 'grep -q first "$1" && sed -i \'s/first/second/\' "$1" || printf \'and\\nmore\\n\' >> "$1"'
    editor.write_text(f"#!/bin/sh\n{edits}\n")
    editor.chmod(0o755)
    async with chatting(*WORK, *NOT_KEPT, "--approve", "shell", EDITOR=str(editor), VISUAL="") as seen:
        for key, wanted in (("n", "3 no, and say why"), ("e", "4 edit the arguments")):
            await seen.press('shell "echo first"\r', wanted)
            await seen.read_for(0.5)
            seen.type(key)
            if key == "n":
                await seen.wait_for("why not?")
                await seen.press("too loud\r", "shell failed: Rejected by the user: too loud")
                await seen.wait_for(rests)
        await seen.wait_for(lambda text: "second [exit code 0" in joined(text) and rests(text))

        await seen.press("half ", "> half")
        await seen.press("\x07", "> half and\n  more")
        await seen.press("\r", says_at_rest("half and more"))


async def test_an_editor_that_fails_changes_nothing(tmp_path):
    """It exits with another status, as `:cq` does, or the line cannot be written as UTF-8, or there is no such editor."""
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho changed > "$1"\nexit 1\n')
    editor.chmod(0o755)
    async with chatting(*WORK, *NOT_KEPT, EDITOR=str(editor), VISUAL="") as seen:
        await seen.press("half", "> half")
        seen.type("\x07")
        await seen.press("\udcff", "half?")
        await seen.press("\x07", "agentrail: the text cannot be edited with")
        await seen.press("\r", says_at_rest("half"))
        assert "changed" not in seen.text
        assert "Traceback" not in seen.text
    for wrong in ("no-such-editor", "'"):
        async with chatting(*WORK, *NOT_KEPT, EDITOR=wrong, VISUAL="") as seen:
            await seen.press("half", "> half")
            await seen.press("\x07", "agentrail: the text cannot be edited with")
            await seen.press("\r", says_at_rest("half"))


async def test_a_resize_in_mid_stream_keeps_every_word():
    """The terminal becomes narrow and wide again while an answer streams."""
    words = [f"w{number}" for number in range(1_500)]
    deltas = [f"{word} \n\n" if number % 50 == 49 else f"{word} " for number, word in enumerate(words)]
    async with (
        open_model(deltas, per_second=1_000) as model,
        chatting("chat", *model, *NOT_KEPT, columns=100, **KEY) as seen,
    ):
        await seen.press("go\r", "w200")
        seen.resize(40, 15)
        await seen.wait_for("w700")
        seen.resize(120, 30)
        await seen.wait_for(lambda text: "w1499" in text and rests(text))
        # What a terminal does with rows above when it becomes narrow is its own; that each word was sent whole is ours.
        assert set(words) <= set(re.findall(r"\bw\d+", printed(seen.raw)))


async def test_a_model_cannot_ring_move_the_cursor_or_rename_the_window():
    """Bells, colours, cursor and title of a model come to the terminal as nothing."""
    hostile = ["\x07\x1b[2J", "safe\x1b]0;owned\x07\x9b31m", " `\x1b[5m`&#27;[7m", "\n\nend\n"]
    async with open_model(hostile) as model, chatting("chat", *model, *NOT_KEPT, **KEY) as seen:
        await seen.press("go\r", lambda text: "end" in text and rests(text))
        assert b"\x07" not in seen.raw
        assert b"owned\x07" not in seen.raw
        assert b"\x1b[5m" not in seen.raw
        assert b"\x1b[2J" not in seen.raw
        assert "safe" in seen.text


async def test_no_color_and_no_utf8():
    """`NO_COLOR` sends no colour, and a terminal without UTF-8 gets ASCII."""
    async with chatting(*TALK, NO_COLOR="1", LC_ALL="de_DE.ISO-8859-1") as seen:
        await seen.press("plain\r", lambda text: "You said" in text and rests(text))
        assert not re.search(rb"\x1b\[[0-9;]*(3[0-7]|38;|9[0-7]|4[0-7])[0-9;]*m", seen.raw)
        assert seen.raw.isascii()


async def test_what_was_said_and_typed_before_can_be_gone_back_to(tmp_path, kept):
    """A resumed chat offers the turns of its journal behind Esc Esc, but not those that a rewind took away; the history of keys outlives the process, and Ctrl-R searches it."""
    async with chatting("chat", "--model", "demo:fast", "--tools", "none", **kept) as seen:
        await seen.press("one\x1b\rtwo", "two")
        await seen.press("\r", says_at_rest("one two"))
        await seen.press("pears\r", says_at_rest("pears"))
    assert "is kept: agentrail chat --resume s-" in seen.text
    assert (tmp_path / "data" / "chat-history").stat().st_mode & 0o077 == 0
    async with open_screen("chat", "--resume", columns=100, **kept) as seen:
        await seen.wait_for(lambda text: "> pears" in text and rests(text))
        turns = re.compile(r"2 +> pears · .*1 +> one two · |1 +> one two · .*2 +> pears · ", re.DOTALL)
        await seen.press("\x1b\x1b", turns.search)
        await seen.press("1\r", "back at the end of turn 1")
        shown = await seen.press("/rewind\r", "/rewind 1 goes back to the end of turn 1")
        assert "> pears ·" not in shown.split("> /rewind\n")[-1]

        await seen.wait_for(rests)
        for expected in ("> /rewind", "> /rewind 1", "> pears", "> one\n  two"):
            await seen.press("\x1b[A", lambda text, expected=expected: text.endswith(expected))
        await seen.press("\x03", rests)
        await seen.press("apples and plums\r", says_at_rest("apples"))
        await seen.press("\x12plu", "> apples and plums\n")
        await seen.press("\r", lambda text: text.endswith("> apples and plums"))
        await seen.press("\x12xyz", "xyz")
        await seen.press("\x03", lambda text: "xyz" not in text)
        await seen.press("\x03", rests)
        await seen.press("/status\r", "idle · model demo:fast · 4 messages")
        await seen.leave()


async def test_a_question_is_answered_in_the_line():
    """What the model asks is answered by typing: no command is needed, and the cycle goes on with it."""
    tools = ("chat", "--model", "demo:fast", "--tools", "ask_user", *NOT_KEPT)
    async with chatting(*tools, columns=60) as seen:
        await seen.press('ask_user "Which one?"\r', "? Which one?\n  type the answer; /decline gives none")
        await seen.wait_for("waiting for you")
        seen.type("the second\r")
        await seen.wait_for(
            lambda text: "answered" in text and "ask_user says" in joined(text) and rests(text)
        )
        assert "Not run" not in seen.text


LATE_CRASH = (
    "import pathlib, sys, threading, time\n"
    "def crash():\n"
    "    while not pathlib.Path(FILE).exists(): time.sleep(0.02)\n"
    "    raise ZeroDivisionError('planted')\n"
    "threading.Thread(target=crash, daemon=True).start()\n"
)


async def test_a_crash_is_told_above_the_prompt_and_cuts_nothing(tmp_path):
    """The traceback of a thread that falls while someone types stands above the line, in one piece; the line stays as it is, once."""
    now = tmp_path / "now"
    program = (
        f"{LATE_CRASH.replace('FILE', repr(str(now)))}"
        f"from agentrail.cli.command_tree import run_command_line\nsys.exit(run_command_line({[*TALK]!r}))\n"
    )
    async with open_screen(program, warm=PROGRAM, columns=60) as seen:
        await seen.wait_for(READY)
        await seen.press("half a line", "> half a line")
        now.touch()
        await seen.wait_for(
            lambda text: "ZeroDivisionError: planted" in text and text.endswith("> half a line")
        )
        rows = seen.rows
        assert [row for row in rows if "half a line" in row] == ["> half a line"]
        first = next(place for place, row in enumerate(rows) if row.startswith("Exception in thread"))
        assert rows[-2] == "ZeroDivisionError: planted"
        assert rows[first + 1] == "Traceback (most recent call last):"
        await seen.leave("\x03\x04")


async def test_a_closed_terminal_parks_the_session(kept):
    """SIGHUP, SIGTERM, or the other end closes without a signal: the chat leaves, nothing of it runs on, and `--resume` goes on with what was cut off."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        async with open_screen(*WORK, "--approve", "none", **kept) as seen:
            await seen.wait_for(READY)
            seen.type(f"{SLEEPER}\r")
            below = await sleeping_below(seen.process)
            seen.process.send_signal(number)
            assert await seen.wait_end() == 130
            assert alive(below) == []
    async with open_screen("chat", "--resume", *WORK[5:], **kept) as seen:
        await seen.wait_for("is back, with model demo:fast")
        await seen.wait_for("was interrupted and resumed")
        await seen.wait_for(rests)
        seen.type(f"{SLEEPER}\r")
        below = await sleeping_below(seen.process)
        os.close(seen.master)
        assert await seen.process.wait() == 130
        assert alive(below) == []


@pytest.mark.experience("X-012")
async def test_a_chat_that_was_killed_goes_on_and_asks_again(tmp_path, kept):
    """Kill -9 while a call waits: the conversation stands, and the dialogue is there again; what is chosen runs once."""
    async with open_screen(*WORK, "--approve", "shell", "--cwd", str(tmp_path), **kept) as seen:
        await seen.wait_for(READY)
        await seen.press('shell "echo once >> ran"\r', "1 yes, this once")
        seen.kill()
        await seen.wait_end()
    async with open_screen("chat", "--resume", *WORK[5:], **kept) as seen:
        shown = await seen.wait_for("1 yes, this once")
        assert '> shell "echo once >> ran"' in shown
        await seen.read_for(0.5)
        await seen.press("y", lambda text: "shell says" in text and rests(text))
        await seen.leave()
    assert (tmp_path / "ran").read_text() == "once\n"


async def test_from_one_conversation_to_another(tmp_path, kept):
    """`/clear` begins anew, `/sessions` lists, `/resume` goes back; Esc Esc opens `/rewind` with the turns; `/export` writes."""
    arguments = ("chat", "--model", "demo:fast", "--tools", "none", "--cwd", str(tmp_path))
    async with chatting(*arguments, columns=100, rows=40, **kept) as seen:
        await seen.press("apples\r", says_at_rest("apples"))
        await seen.press("/export said.md\r", "said.md: 2 messages")
        assert "apples" in (tmp_path / "said.md").read_text()
        await seen.press("/export said.md\r", "already exists")
        await seen.press(
            "\x1b\x1b", lambda text: re.search(r"1 +> apples · This is a demo", text) is not None
        )
        await seen.press("\x03", rests)
        await seen.press(
            "/clear\r", lambda text: text.count("model demo:fast (--model)") == 2 and rests(text)
        )
        await seen.press("pears\r", says_at_rest("pears"))
        await seen.press("/sessions\r", lambda text: "this one" in text and "/resume ID" in text)
        await seen.press("/resume s-no\r", "error: there is no session 's-no'")
        await seen.press("/resume ", lambda text: re.search(r"s-\w+ +idle · apples", text) is not None)
        await seen.press("\r", lambda text: text.count("> apples") == 2 and rests(text))
