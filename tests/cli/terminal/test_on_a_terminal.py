"""`agentrail chat` on a terminal, as its screen looks (pyte): 14.3 line by line, at 10, 20, 80 and 200 columns."""

import os
import re
import signal

import pytest

from tests.cli.rig import SLEEPER, alive, sleeping_below
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


def printed(raw):
    """What was sent, without what styles it and places it."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", raw.decode())


def joined(text):
    """The text without the line breaks that the width made."""
    return " ".join(text.split())


@pytest.mark.experience("X-007")
@pytest.mark.parametrize("has_brackets", [True, False])
async def test_forty_pasted_lines_are_one_prompt(has_brackets):
    """`/quit` among them leaves nothing, with a terminal's brackets and without; the line is sent with Enter."""
    lines = ["/quit", *(f"line {number}" for number in range(38)), "the end"]
    async with open_screen(*TALK, rows=60) as seen:
        await seen.wait_for(READY)
        await seen.paste("\n".join(lines), brackets=has_brackets)
        await seen.wait_for("[pasted text 1, 40 lines]")
        seen.type("\r")
        await seen.wait_for(lambda text: "You said: /quit" in joined(text) and rests(text))
        seen.type("/status\r")
        await seen.wait_for("idle · model demo:fast · 2 messages")
        seen.type("\x04")
        assert await seen.wait_end() == 0


@pytest.mark.experience("X-007")
@pytest.mark.parametrize("has_brackets", [True, False])
async def test_a_megabyte_that_is_pasted_is_one_prompt(has_brackets):
    """It stands in the line as a mark, keys are heard at once, and it is said as a whole; also where the terminal puts no brackets around it."""
    async with open_screen(*TALK) as seen:
        await seen.wait_for(READY)
        await seen.paste("word\n" * 199_000, brackets=has_brackets)
        await seen.wait_for("[pasted text 1, 199,001 lines]")
        seen.type(" heard")
        await seen.wait_for("heard")
        seen.type("\r")
        await seen.wait_for(lambda text: "You said: word" in joined(text) and rests(text))
        seen.type("/status\r")
        await seen.wait_for("idle · model demo:fast · 2 messages")
        seen.type("\x04")
        assert await seen.wait_end() == 0


@pytest.mark.experience("X-008")
async def test_control_c_on_a_half_typed_line_keeps_the_conversation():
    """It clears the line, and the conversation goes on; two more leave, with code 130 and the terminal as it was."""
    async with open_screen(*TALK) as seen:
        await seen.wait_for(READY)
        seen.type("half a li")
        await seen.wait_for("half a li")
        seen.type("\x03")
        await seen.wait_for(rests)
        seen.type("still there?\r")
        await seen.wait_for(lambda text: "You said: still there?" in joined(text) and rests(text))
        seen.type("\x03")
        await seen.wait_for("Ctrl-C again leaves")
        seen.type("\x03")
        assert await seen.wait_end() == 130
        assert "half a li" not in seen.text
        assert not seen.text.endswith(">")


@pytest.mark.experience("X-009")
async def test_a_server_that_hangs_is_seen_to_hang_and_control_c_ends_it():
    """The working line counts while nothing comes; Ctrl-C ends the cycle within 100 ms."""
    async with open_model(None) as model, open_screen("chat", *model, *NOT_KEPT, **KEY) as seen:
        await seen.wait_for(READY)
        seen.type("hello\r")
        await seen.wait_for("asking openai-chat:busy · 0 s")
        await seen.wait_for("asking openai-chat:busy · 2 s")
        seen.type("\x03")
        await seen.wait_for("aborted: interrupted")
        await seen.wait_for(lambda text: re.search(r"stopped in \d+ ms", text) is not None and rests(text))
        stopped = re.search(r"stopped in (\d+) ms", seen.text)
        assert stopped
        assert int(stopped[1]) <= 100
        seen.type("\x04")
        assert await seen.wait_end() == 0


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
        seen.type("go\r")
        await seen.wait_for("w100")
        for key in keys:
            seen.type(key)
            await seen.read_for(0.02)
        end = f"w3999.>{keys}".replace(" ", "")
        await seen.wait_for(lambda text: re.sub(r"\s", "", text[-1_000:]).endswith(end))
        assert "trying again" not in seen.text, (
            "the model was asked twice, so there are two answers to look at"
        )
        assert re.findall(r"\bw\d+", seen.text) == words
        seen.type("\x03\x04")
        assert await seen.wait_end() == 0


@pytest.mark.parametrize("columns", [10, 20, 80, 200])
async def test_a_conversation_at_every_width(columns):
    """A prompt, a call that is approved in the dialogue, its outcome: nothing overflows, nothing is left below."""
    async with open_screen(*WORK, *NOT_KEPT, "--approve", "shell", columns=columns) as seen:
        await seen.wait_for(READY)
        seen.type('shell "echo here"\r')
        await seen.wait_for("1 yes")
        await seen.read_for(0.5)  # whoever types when it comes up has not read it
        seen.type("1")
        await seen.wait_for(lambda text: "shell" in text and "says:" in text and rests(text))
        assert "1 yes" not in seen.text
        seen.type("\x04")
        assert await seen.wait_end() == 0


async def test_a_dialogue_takes_keys_while_a_draft_stands_and_the_draft_comes_back(tmp_path):
    """Typed while a call runs: what stands in the line is set aside, a key decides, and the line is as it was."""
    async with open_screen(*WORK, *NOT_KEPT, "--approve", "shell", "--cwd", str(tmp_path)) as seen:
        await seen.wait_for(READY)
        seen.type('shell "until test -e go; do sleep 0.05; done"\r')
        await seen.wait_for("1 yes")
        await seen.read_for(0.5)
        seen.type("1")
        await seen.wait_for(rests)
        seen.type('shell "echo here"\r')
        await seen.wait_for("queued at position 0")
        seen.type("half of a thought")
        await seen.wait_for("> half of a thought")
        (tmp_path / "go").touch()
        await seen.wait_for("(draft set aside) >")
        assert "half of a thought" not in seen.text
        await seen.read_for(0.5)
        seen.type("n")
        await seen.wait_for("why not?")
        seen.type("too loud\r")
        await seen.wait_for("shell failed: Rejected by the user: too loud")
        await seen.wait_for("> half of a thought")
        seen.type(" and the rest\r")
        await seen.wait_for("half of a thought and the rest")
        seen.type("\x04")
        assert await seen.wait_end() == 0


async def test_a_call_is_refused_with_a_reason_and_edited_in_the_persons_editor(tmp_path):
    """`n` asks why not; `e` opens `$EDITOR` with the arguments, and what was saved runs."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/first/second/' \"$1\"\n")
    editor.chmod(0o755)
    async with open_screen(*WORK, *NOT_KEPT, "--approve", "shell", EDITOR=str(editor), VISUAL="") as seen:
        await seen.wait_for(READY)
        seen.type('shell "echo first"\r')
        await seen.wait_for("3 no, and say why")
        await seen.read_for(0.5)
        seen.type("n")
        await seen.wait_for("why not?")
        seen.type("too loud\r")
        await seen.wait_for("shell failed: Rejected by the user: too loud")
        await seen.wait_for(rests)
        seen.type('shell "echo first"\r')
        await seen.wait_for("4 edit the arguments")
        await seen.read_for(0.5)
        seen.type("e")
        await seen.wait_for(lambda text: "second [exit code 0" in joined(text))
        seen.type("\x04")
        assert await seen.wait_end() == 0


async def test_a_resize_in_mid_stream_keeps_every_word():
    """The terminal becomes narrow and wide again while an answer streams."""
    words = [f"w{number}" for number in range(1_500)]
    deltas = [f"{word} \n\n" if number % 50 == 49 else f"{word} " for number, word in enumerate(words)]
    async with (
        open_model(deltas, per_second=1_000) as model,
        open_screen("chat", *model, *NOT_KEPT, columns=100, **KEY) as seen,
    ):
        await seen.wait_for(READY)
        seen.type("go\r")
        await seen.wait_for("w200")
        seen.resize(40, 15)
        await seen.wait_for("w700")
        seen.resize(120, 30)
        await seen.wait_for(lambda text: "w1499" in text and rests(text))
        # What a terminal does with rows above when it becomes narrow is its own; that each word was sent whole is ours.
        assert set(words) <= set(re.findall(r"\bw\d+", printed(seen.raw)))
        seen.type("\x04")
        assert await seen.wait_end() == 0


async def test_a_model_cannot_ring_move_the_cursor_or_rename_the_window():
    """Bells, colours, cursor and title of a model come to the terminal as nothing."""
    hostile = ["\x07\x1b[2J", "safe\x1b]0;owned\x07\x9b31m", " `\x1b[5m`&#27;[7m", "\n\nend\n"]
    async with open_model(hostile) as model, open_screen("chat", *model, *NOT_KEPT, **KEY) as seen:
        await seen.wait_for(READY)
        seen.type("go\r")
        await seen.wait_for(lambda text: "end" in text and rests(text))
        assert b"\x07" not in seen.raw
        assert b"owned\x07" not in seen.raw
        assert b"\x1b[5m" not in seen.raw
        assert b"\x1b[2J" not in seen.raw
        assert "safe" in seen.text
        seen.type("\x04")
        assert await seen.wait_end() == 0


async def test_no_color_and_no_utf8():
    """`NO_COLOR` sends no colour, and a terminal without UTF-8 gets ASCII."""
    async with open_screen(*TALK, NO_COLOR="1", LC_ALL="de_DE.ISO-8859-1") as seen:
        await seen.wait_for(READY)
        seen.type("plain\r")
        await seen.wait_for(lambda text: "You said" in text and rests(text))
        assert not re.search(rb"\x1b\[[0-9;]*(3[0-7]|38;|9[0-7]|4[0-7])[0-9;]*m", seen.raw)
        assert seen.raw.isascii()
        seen.type("\x04")
        assert await seen.wait_end() == 0


async def test_what_was_typed_comes_back_in_the_next_chat(tmp_path):
    """The history outlives the process, several lines as one entry, in a file that is its user's alone."""
    kept = {"AGENTRAIL_DATA_DIR": str(tmp_path)}
    arguments = ("chat", "--model", "demo:fast", "--tools", "none")
    async with open_screen(*arguments, **kept) as seen:
        await seen.wait_for(READY)
        seen.type("one\x1b\rtwo")
        await seen.wait_for("two")
        seen.type("\r")
        await seen.wait_for(lambda text: "You said: one two" in joined(text) and rests(text))
        seen.type("\x04")
        assert await seen.wait_end() == 0
        assert "is kept: agentrail chat --resume s-" in seen.text
    assert (tmp_path / "chat-history").stat().st_mode & 0o077 == 0
    async with open_screen(*arguments, **kept) as seen:
        await seen.wait_for(READY)
        seen.type("\x1b[A")
        await seen.wait_for(lambda text: "> one\n  two" in text)
        seen.type("\x03\x04")
        assert await seen.wait_end() == 0


async def test_the_history_is_searched_and_what_is_found_is_not_sent(tmp_path):
    """Ctrl-R, and Enter takes what was found into the line; Ctrl-C leaves the search, and the conversation stands."""
    async with open_screen(*TALK) as seen:
        await seen.wait_for(READY)
        seen.type("apples and pears\r")
        await seen.wait_for(lambda text: "You said: apples" in joined(text) and rests(text))
        seen.type("\x12pea")
        await seen.wait_for("> apples and pears\n")
        seen.type("\r")
        await seen.wait_for(lambda text: text.endswith("> apples and pears"))
        seen.type("\x12xyz")
        await seen.wait_for("xyz")
        seen.type("\x03")
        await seen.wait_for(lambda text: "xyz" not in text)
        seen.type("\x03")
        await seen.wait_for(rests)
        seen.type("/status\r")
        await seen.wait_for("idle · model demo:fast · 2 messages")
        seen.type("\x04")
        assert await seen.wait_end() == 0


async def test_a_prompt_is_written_in_the_persons_editor(tmp_path):
    """Ctrl-G opens `$EDITOR` with what is typed; what was saved stands in the line, and is sent with Enter."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'and\\nmore\\n' >> \"$1\"\n")
    editor.chmod(0o755)
    async with open_screen(*TALK, EDITOR=str(editor), VISUAL="") as seen:
        await seen.wait_for(READY)
        seen.type("half ")
        await seen.wait_for("> half")
        seen.type("\x07")
        await seen.wait_for("> half and\n  more")
        seen.type("\r")
        await seen.wait_for(lambda text: "You said: half and more" in joined(text) and rests(text))
        seen.type("\x04")
        assert await seen.wait_end() == 0


async def test_a_question_is_answered_in_the_line():
    """What the model asks is answered by typing: no command is needed, and the cycle goes on with it."""
    tools = ("chat", "--model", "demo:fast", "--tools", "ask_user", *NOT_KEPT)
    async with open_screen(*tools, columns=60) as seen:
        await seen.wait_for(READY)
        seen.type('ask_user "Which one?"\r')
        await seen.wait_for("? Which one?\n  type the answer; /decline gives none")
        await seen.wait_for("waiting for you")
        seen.type("the second\r")
        await seen.wait_for(
            lambda text: "answered" in text and "ask_user says" in joined(text) and rests(text)
        )
        assert "Not run" not in seen.text
        seen.type("\x04")
        assert await seen.wait_end() == 0


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
        seen.type("half a line")
        await seen.wait_for("> half a line")
        now.touch()
        await seen.wait_for(
            lambda text: "ZeroDivisionError: planted" in text and text.endswith("> half a line")
        )
        rows = seen.rows
        assert [row for row in rows if "half a line" in row] == ["> half a line"]
        first = next(place for place, row in enumerate(rows) if row.startswith("Exception in thread"))
        assert rows[-2] == "ZeroDivisionError: planted"
        assert rows[first + 1] == "Traceback (most recent call last):"
        seen.type("\x03\x04")
        assert await seen.wait_end() == 0


async def test_what_was_said_before_can_be_gone_back_to(tmp_path):
    """A chat that was resumed offers the turns of its journal behind Esc Esc, and goes back; what a rewind took away is not offered."""
    kept = {"AGENTRAIL_DATA_DIR": str(tmp_path)}
    arguments = ("chat", "--model", "demo:fast", "--tools", "none")
    async with open_screen(*arguments, **kept) as seen:
        for text in ("apples", "pears"):
            await seen.wait_for(rests)
            seen.type(f"{text}\r")
            await seen.wait_for(
                lambda shown, text=text: f"You said: {text}" in joined(shown) and rests(shown)
            )
        seen.type("\x04")
        assert await seen.wait_end() == 0
    async with open_screen("chat", "--resume", columns=100, **kept) as seen:
        await seen.wait_for(lambda text: "> pears" in text and rests(text))
        seen.type("\x1b\x1b")
        await seen.wait_for(
            lambda text: re.search(r"2 +> pears · ", text) and re.search(r"1 +> apples · ", text)
        )
        seen.type("1\r")
        await seen.wait_for("back at the end of turn 1")
        seen.type("/rewind\r")
        shown = await seen.wait_for("/rewind 1 goes back to the end of turn 1")
        assert "> pears ·" not in shown.split("> /rewind\n")[-1]
        seen.type("\x04")
        assert await seen.wait_end() == 0


async def test_a_closed_terminal_parks_the_session(tmp_path):
    """SIGHUP: the chat leaves, nothing of it runs on, and `--resume` goes on with what was cut off."""
    kept = {"AGENTRAIL_DATA_DIR": str(tmp_path)}
    async with open_screen(*WORK, "--approve", "none", **kept) as seen:
        await seen.wait_for(READY)
        seen.type(f"{SLEEPER}\r")
        below = await sleeping_below(seen.process)
        seen.process.send_signal(signal.SIGHUP)
        assert await seen.wait_end() == 130
        assert alive(below) == []
    async with open_screen("chat", "--resume", *WORK[5:], **kept) as seen:
        await seen.wait_for("is back, with model demo:fast")
        await seen.wait_for("was cut off")
        await seen.wait_for(rests)
        seen.type("\x04")
        assert await seen.wait_end() == 0


async def test_a_terminal_that_is_gone_ends_the_chat(tmp_path):
    """The other end closes without a signal: the chat leaves by itself, and the session is there to be gone on with."""
    async with open_screen(*WORK, "--approve", "none", AGENTRAIL_DATA_DIR=str(tmp_path)) as seen:
        await seen.wait_for(READY)
        seen.type(f"{SLEEPER}\r")
        below = await sleeping_below(seen.process)
        os.close(seen.master)
        assert await seen.process.wait() == 130
        assert alive(below) == []


@pytest.mark.experience("X-012")
async def test_a_chat_that_was_killed_goes_on_and_asks_again(tmp_path):
    """Kill -9 while a call waits: the conversation stands, and the dialogue is there again; what is chosen runs once."""
    kept = {"AGENTRAIL_DATA_DIR": str(tmp_path / "data")}
    async with open_screen(*WORK, "--approve", "shell", "--cwd", str(tmp_path), **kept) as seen:
        await seen.wait_for(READY)
        seen.type('shell "echo once >> ran"\r')
        await seen.wait_for("1 yes, this once")
        seen.kill()
        await seen.wait_end()
    async with open_screen("chat", "--resume", *WORK[5:], **kept) as seen:
        shown = await seen.wait_for("1 yes, this once")
        assert '> shell "echo once >> ran"' in shown
        await seen.read_for(0.5)
        seen.type("y")
        await seen.wait_for(lambda text: "shell says" in text and rests(text))
        seen.type("\x04")
        assert await seen.wait_end() == 0
    assert (tmp_path / "ran").read_text() == "once\n"


async def test_from_one_conversation_to_another(tmp_path):
    """`/clear` begins anew, `/sessions` lists, `/resume` goes back; Esc Esc opens `/rewind` with the turns; `/export` writes."""
    kept = {"AGENTRAIL_DATA_DIR": str(tmp_path)}
    arguments = ("chat", "--model", "demo:fast", "--tools", "none", "--cwd", str(tmp_path))
    async with open_screen(*arguments, columns=100, rows=40, **kept) as seen:
        await seen.wait_for(READY)
        seen.type("apples\r")
        await seen.wait_for(lambda text: "You said: apples" in joined(text) and rests(text))
        seen.type("/export said.md\r")
        await seen.wait_for("said.md: 2 messages")
        assert "apples" in (tmp_path / "said.md").read_text()
        seen.type("/export said.md\r")
        await seen.wait_for("is there already")
        seen.type("\x1b\x1b")
        await seen.wait_for(lambda text: re.search(r"1 +> apples · This is a demo", text) is not None)
        seen.type("\x03")
        await seen.wait_for(rests)
        seen.type("/clear\r")
        await seen.wait_for(lambda text: text.count("model demo:fast (--model)") == 2 and rests(text))
        seen.type("pears\r")
        await seen.wait_for(lambda text: "You said: pears" in joined(text) and rests(text))
        seen.type("/sessions\r")
        await seen.wait_for(lambda text: "this one" in text and "/resume ID" in text)
        seen.type("/resume s-no\r")
        await seen.wait_for("error: there is no session 's-no'")
        seen.type("/resume ")
        await seen.wait_for(lambda text: re.search(r"s-\w+ +idle · apples", text) is not None)
        seen.type("\r")
        await seen.wait_for(lambda text: text.count("> apples") == 2 and rests(text))
        seen.type("\x04")
        assert await seen.wait_end() == 0
