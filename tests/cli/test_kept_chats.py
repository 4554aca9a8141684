"""`agentrail chat` whose process is killed: what a person sees who goes on with `--resume` (docs/how-to/keep-and-resume-sessions.md)."""

import contextlib
import os
import signal

import pytest

from tests.cli.rig import open_terminal, run_agentrail, run_beside, sleeping_below, wait_until

UNCONFINED = ("--tools", "shell", "--shell-fallback", "unconfined")


def kept(tmp_path):
    """Where a test keeps its sessions."""
    return {"AGENTRAIL_DATA_DIR": str(tmp_path / "data")}


async def kill(typist):
    """End a chat as a crash does, and what it left behind."""
    typist.process.send_signal(signal.SIGKILL)
    await typist.wait_end()


def end_all(processes):
    """End what a killed process left behind; some go by themselves."""
    for one in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGKILL)


@pytest.mark.at(118)
async def test_a_chat_killed_in_mid_tool_says_that_the_outcome_is_unknown_and_goes_on(tmp_path):
    """While a tool runs: never silence, and never a second run of a tool that may not run twice."""
    ran = tmp_path / "ran"
    prompt = 'shell "echo once >> ran; sleep 1000 & sleep 1000"'
    arguments = ("--model", "demo:fast", *UNCONFINED, "--approve", "none", "--cwd", str(tmp_path))
    async with open_terminal("chat", *arguments, term="dumb", **kept(tmp_path)) as typist:
        await typist.wait_for("> ")
        typist.type(f"{prompt}\r")
        below = await sleeping_below(typist.process)
        await wait_until(ran.exists)
        await kill(typist)
        end_all(below)
    listed = await run_agentrail("sessions", "list", variables=kept(tmp_path))
    assert "interrupted" in listed.out
    async with open_terminal("chat", "--resume", *UNCONFINED[2:], term="dumb", **kept(tmp_path)) as typist:
        shown = await typist.wait_for("whether it took effect is not known")
        assert "is back, with model demo:fast" in shown
        assert f"> {prompt}" in shown
        assert "the tool shell is not run again" in shown
        await typist.wait_for("Outcome unknown")
        await typist.wait_for("> ")
        typist.type("hello\r")
        await typist.wait_for("You said: hello")
        await typist.wait_for("> ")
        typist.type("/quit\r")
        await typist.wait_for("is kept: agentrail chat --resume s-")
        assert await typist.wait_end() == 0
    assert ran.read_text() == "once\n"


@pytest.mark.at(62)
async def test_a_chat_killed_while_an_approval_waits_asks_it_again_and_a_click_runs_that_very_call(tmp_path):
    """The same card; `/approve` runs the call that was shown, once."""
    arguments = ("--model", "demo:fast", *UNCONFINED, "--approve", "shell", "--cwd", str(tmp_path))
    async with open_terminal("chat", *arguments, term="dumb", **kept(tmp_path)) as typist:
        await typist.wait_for("> ")
        typist.type('shell "echo once >> ran"\r')
        await typist.wait_for("/approve or /reject")
        await kill(typist)
    listed = await run_agentrail("sessions", "list", variables=kept(tmp_path))
    assert "waits for you" in listed.out
    async with open_terminal("chat", "--resume", *UNCONFINED[2:], term="dumb", **kept(tmp_path)) as typist:
        shown = await typist.wait_for("/approve or /reject")
        assert "may shell run with {'command': 'echo once >> ran'" in shown
        assert not (tmp_path / "ran").exists()
        typist.type("/approve\r")
        await typist.wait_for("shell says:")
        typist.type("\x04")
        assert await typist.wait_end() == 0
    assert (tmp_path / "ran").read_text() == "once\n"


async def test_a_chat_killed_in_mid_sentence_answers_from_the_beginning(tmp_path):
    """The half sentence is not shown again; the request is sent once more, and answered."""
    async with open_terminal(
        "chat", "--model", "demo:", "--tools", "none", term="dumb", **kept(tmp_path)
    ) as typist:
        await typist.wait_for("> ")
        typist.type("one two three\r")
        await typist.wait_for("This is a demo")
        await kill(typist)
    async with open_terminal("chat", "--resume", term="dumb", **kept(tmp_path)) as typist:
        shown = await typist.wait_for("is sent again")
        assert "This is a demo" not in shown
        await typist.wait_for("You said: one two three")
        await typist.wait_for("> ")
        typist.type("/quit\r")
        assert await typist.wait_end() == 0


async def test_a_chat_that_was_left_is_gone_on_with_by_its_id(tmp_path):
    """A chat says how it comes back, and shows what was said when it does; nothing was open, so nothing is told."""
    variables = kept(tmp_path)
    first = await run_agentrail(
        "chat", "--model", "demo:fast", "--tools", "none", stdin=b"hello\n", variables=variables
    )
    assert first.code == 0
    session = first.err.rsplit(maxsplit=1)[-1]
    assert f"session {session} is kept: agentrail chat --resume {session}" in first.err
    again = await run_agentrail("chat", "--resume", session, stdin=b"and now\n", variables=variables)
    assert again.code == 0
    assert "> hello" in again.out
    assert "You said: hello" in again.out
    assert "You said: and now" in again.out
    assert "was cut off" not in again.err


async def test_a_chat_in_which_nothing_was_said_is_not_kept(tmp_path):
    """Opening a chat and leaving it leaves nothing in the store."""
    ran = await run_agentrail("chat", "--model", "demo:fast", variables=kept(tmp_path))
    assert ran.code == 0
    assert "is kept" not in ran.err
    listed = await run_agentrail("sessions", "list", "--all", variables=kept(tmp_path))
    assert listed.code == 0
    assert listed.out == ""


async def test_a_second_chat_beside_the_first_works_and_says_that_it_is_not_kept(tmp_path):
    """Two terminals: the second has no store to write, says whose it is, and talks all the same."""
    async with open_terminal("chat", "--model", "demo:fast", term="dumb", **kept(tmp_path)) as typist:
        await typist.wait_for("> ")
        second = await run_beside(
            "chat", "--model", "demo:fast", "--tools", "none", stdin=b"hello\n", variables=kept(tmp_path)
        )
        assert second.code == 0
        assert "this session is not kept" in second.err
        assert f"is written by process {typist.process.pid}" in second.err
        assert "You said: hello" in second.out


async def test_memory_keeps_nothing(tmp_path):
    """`--store memory:` makes no file, and says nothing of keeping."""
    ran = await run_agentrail(
        *("chat", "--model", "demo:fast", "--tools", "none", "--store", "memory:"),
        stdin=b"hello\n",
        variables=kept(tmp_path),
    )
    assert ran.code == 0
    assert "kept" not in ran.err
    assert not (tmp_path / "data").exists()


async def test_without_a_session_to_resume_that_is_said(tmp_path):
    """`--resume` in an empty store is wrong usage, and so is an unknown id; the message says what to do."""
    for arguments in (("--resume",), ("--resume", "s-1")):
        ran = await run_agentrail("chat", *arguments, variables=kept(tmp_path))
        assert ran.code == 2
        assert "there is no session" in ran.err
        assert "Traceback" not in ran.err
