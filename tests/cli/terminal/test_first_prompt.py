"""The first prompt of `agentrail chat` stands before anything that answers: what is typed, pressed or wrong until then."""

import socket

import pytest

from tests.cli.terminal.screens import open_screen
from tests.cli.terminal.test_on_a_terminal import TALK, joined, rests

pytestmark = pytest.mark.check


def asks(text):
    """Whether there is a line to type in and nothing else: no session has begun."""
    return text.strip() == ">"


async def test_what_is_typed_before_there_is_a_session_is_answered():
    """Lines and a line that is half typed wait, in order; none is lost, and none is shown twice."""
    async with open_screen(*TALK) as seen:
        await seen.wait_for(asks)
        for words in ("first", "second"):
            await seen.press(words, lambda text, words=words: text.split("\n")[-1] == f"> {words}")
            seen.type("\r")  # alone: with the words at once it would be pasted
            await seen.wait_for(rests)
        seen.type("half a li")
        await seen.wait_for(
            lambda text: "You said: second" in joined(text) and text.split("\n")[-1] == "> half a li"
        )
        assert joined(seen.text).index("You said: first") < joined(seen.text).index("You said: second")
        assert seen.text.count("> first") == seen.text.count("> second") == 1
        await seen.leave("\x03\x04")


async def test_control_c_does_not_wait_for_a_session():
    """A server that says nothing is no reason to stay: the chat leaves at once, with code 130 and the terminal as it was."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with open_screen("chat", "--connect", url) as seen:
            await seen.wait_for(asks)
            await seen.press("half", "> half")
            await seen.press("\x03", asks)
            seen.type("\x03")
            assert await seen.wait_end() == 130
            assert seen.text.strip() == ""


async def test_what_is_wrong_with_files_is_said_when_the_terminal_is_given_back(tmp_path):
    """The prompt is gone, the fault stands there, and the code is 2."""
    path = tmp_path / "agentrail.toml"
    for text, told in (("no toml", "not TOML"), ('model = "demo:fast"\nmax_turns = "many"\n', "max_turns")):
        path.write_text(text, encoding="utf-8")
        async with open_screen("chat", "--config", str(path), "--store", "memory:", columns=200) as seen:
            assert await seen.wait_end() == 2
            assert told in joined(seen.text)
            assert ">" not in seen.text
