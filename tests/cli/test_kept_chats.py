"""`agentrail chat` whose process is killed: what a person sees who goes on with `--resume` (docs/how-to/keep-and-resume-sessions.md)."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from agentrail.cli.storage_options import store_arguments
from tests.cli.rig import open_terminal, run_agentrail, run_beside, run_line, sleeping_below, wait_until

UNCONFINED = ("--tools", "shell", "--shell-fallback", "unconfined")


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
async def test_a_chat_killed_in_mid_tool_says_that_the_outcome_is_unknown_and_goes_on(tmp_path, kept):
    """While a tool runs: never silence, and never a second run of a tool that may not run twice."""
    ran = tmp_path / "ran"
    prompt = 'shell "echo once >> ran; sleep 1000 & sleep 1000"'
    arguments = ("--model", "demo:fast", *UNCONFINED, "--approve", "none", "--cwd", str(tmp_path))
    async with open_terminal("chat", *arguments, term="dumb", **kept) as typist:
        await typist.wait_for("> ")
        typist.type(f"{prompt}\r")
        below = await sleeping_below(typist.process)
        await wait_until(ran.exists)
        await kill(typist)
        end_all(below)
    listed = await run_agentrail("sessions", "list", variables=kept)
    assert "interrupted" in listed.out
    async with open_terminal("chat", "--resume", *UNCONFINED[2:], term="dumb", **kept) as typist:
        shown = await typist.wait_for("whether it took effect is not known")
        assert "is back, with model demo:fast" in shown
        assert f"> {prompt}" in shown
        assert "the tool shell is not run again" in shown
        await typist.wait_for("Outcome unknown")
        await typist.wait_for("> ")
        await typist.press("hello\r", "You said: hello")
        await typist.wait_for("> ")
        await typist.press("/quit\r", "is kept: agentrail chat --resume s-")
        assert await typist.wait_end() == 0
    assert ran.read_text() == "once\n"


@pytest.mark.at(62)
async def test_a_chat_killed_while_an_approval_waits_asks_it_again_and_a_click_runs_that_very_call(
    tmp_path, kept
):
    """The same card; `/approve` runs the call that was shown, once."""
    arguments = ("--model", "demo:fast", *UNCONFINED, "--approve", "shell", "--cwd", str(tmp_path))
    async with open_terminal("chat", *arguments, term="dumb", **kept) as typist:
        await typist.wait_for("> ")
        await typist.press('shell "echo once >> ran"\r', "/approve or /reject")
        await kill(typist)
    listed = await run_agentrail("sessions", "list", variables=kept)
    assert "waits for you" in listed.out
    async with open_terminal("chat", "--resume", *UNCONFINED[2:], term="dumb", **kept) as typist:
        shown = await typist.wait_for("/approve or /reject")
        assert "may shell run with {'command': 'echo once >> ran'" in shown
        assert not (tmp_path / "ran").exists()
        await typist.press("/approve\r", "shell says:")
        typist.type("\x04")
        assert await typist.wait_end() == 0
    assert (tmp_path / "ran").read_text() == "once\n"


@pytest.mark.operation(14)
async def test_a_breakpoint_of_a_chat_stops_a_call_that_nothing_else_stops_and_outlives_a_killed_process(
    tmp_path, kept
):
    """`/break`: the call waits, and still does when its process was killed; `/unbreak` lets the next one run."""
    arguments = ("--model", "demo:fast", *UNCONFINED, "--approve", "none", "--cwd", str(tmp_path))
    async with open_terminal("chat", *arguments, term="dumb", **kept) as typist:
        await typist.wait_for("> ")
        await typist.press("hello\r", "so I can only talk")
        await typist.wait_for("> ")
        await typist.press("/break *\r", "calls of every tool wait for an approval")
        await typist.wait_for("> ")
        await typist.press("/unbreak *\r", "the breakpoint is gone")
        await typist.wait_for("> ")
        await typist.press("/break shell\r", "calls of shell wait for an approval; /unbreak ends it")
        await typist.wait_for("> ")
        await typist.press('shell "echo once >> ran"\r', "/reject or /answer")
        await kill(typist)
    async with open_terminal("chat", "--resume", *UNCONFINED[2:], term="dumb", **kept) as typist:
        assert "(breakpoint)" in await typist.wait_for("/reject or /answer")
        assert not (tmp_path / "ran").exists()
        await typist.press("/unbreak\r", "the breakpoint is gone")
        await typist.press("/approve\r", "shell says:")
        typist.type("\x04")
        assert await typist.wait_end() == 0
    assert (tmp_path / "ran").read_text() == "once\n"


async def test_a_chat_killed_in_mid_sentence_answers_from_the_beginning(kept):
    """The half sentence is not shown again; the request is sent once more, and answered."""
    async with open_terminal("chat", "--model", "demo:", "--tools", "none", term="dumb", **kept) as typist:
        await typist.wait_for("> ")
        await typist.press("one two three\r", "This is a demo")
        await kill(typist)
    async with open_terminal("chat", "--resume", term="dumb", **kept) as typist:
        shown = await typist.wait_for("is sent again")
        assert "This is a demo" not in shown
        await typist.wait_for("You said: one two three")
        await typist.wait_for("> ")
        typist.type("/quit\r")
        assert await typist.wait_end() == 0


async def test_a_chat_that_was_left_is_gone_on_with_by_its_id_and_one_that_keeps_nothing_is_not(
    tmp_path, kept
):
    """It says how it comes back, and shows what was said; nothing is kept of one in which nothing was said, or of `--store memory:`; an unknown id, or none, is wrong usage."""
    line = "chat --model demo:fast --tools none"
    first = await run_line(line, stdin=b"hello\n", variables=kept)
    assert first.code == 0
    session = first.err.rsplit(maxsplit=1)[-1]
    assert f"session {session} is kept: agentrail chat --resume {session}" in first.err
    again = await run_agentrail("chat", "--resume", session, stdin=b"and now\n", variables=kept)
    assert (again.code, "> hello" in again.out) == (0, True)
    assert "You said: hello" in again.out
    assert "You said: and now" in again.out
    assert "was interrupted" not in again.err

    empty = {"AGENTRAIL_DATA_DIR": str(tmp_path / "empty")}
    ran = await run_line(
        "chat --model demo:fast --tools none --store memory:", stdin=b"hello\n", variables=empty
    )
    assert (ran.code, "kept" in ran.err) == (0, False)
    assert not (tmp_path / "empty").exists()
    ran = await run_line("chat --model demo:fast", variables=empty)
    assert (ran.code, "is kept" in ran.err) == (0, False)
    listed = await run_line("sessions list --all", variables=empty)
    assert (listed.code, listed.out) == (0, "")
    for line in ("chat --resume", "chat --resume s-1"):
        ran = await run_line(line, variables=empty)
        assert (ran.code, "there is no session" in ran.err, "Traceback" in ran.err) == (2, True, False)


async def test_a_chat_that_was_only_forked_ends_well(kept):
    """Its empty session stays, because the fork needs it."""
    ran = await run_agentrail("chat", "--model", "demo:fast", stdin=b"/fork\n", variables=kept)
    assert (ran.code, "continues from here" in ran.err, "cannot be deleted" in ran.err) == (0, True, False)


async def test_a_second_chat_beside_the_first_works_and_says_that_it_is_not_kept(kept):
    """Two terminals: the second has no store to write, says whose it is, and talks all the same."""
    async with open_terminal("chat", "--model", "demo:fast", term="dumb", **kept) as typist:
        await typist.wait_for("> ")
        second = await run_beside(
            "chat", "--model", "demo:fast", "--tools", "none", stdin=b"hello\n", variables=kept
        )
        assert (second.code, "this session is not kept" in second.err) == (0, True)
        assert f"is written by process {typist.process.pid}" in second.err
        assert "You said: hello" in second.out


def test_the_hint_of_a_store_holds_in_any_directory(tmp_path, monkeypatch):
    """That of a fork with files changes the directory first. A password is left out."""
    monkeypatch.chdir(tmp_path)
    assert store_arguments(None, None) == store_arguments("sqlite:", None) == ""
    assert (
        store_arguments("sqlite:own.db", Path("d"))
        == f" --store sqlite:{tmp_path}/own.db --data-dir {tmp_path}/d"
    )
    assert "secret" not in store_arguments("postgres://ann:secret@db.example/x", None)


@pytest.mark.parametrize("first", ["run hello", "chat"])
async def test_the_hint_of_a_session_in_another_store_finds_it(tmp_path, kept, first):
    """The printed command, as it is, continues the session."""
    line = f"{first} --model demo:fast --tools none --store 'sqlite:{tmp_path}/my own.db'"
    ran = await run_line(line, stdin=b"hello\n", variables=kept)
    again = ran.err.rpartition("is kept: agentrail ")[2].strip()
    assert f"--store 'sqlite:{tmp_path}/my own.db'" in again
    ran = await run_line(again, stdin=b"and now\n", variables=kept)
    assert (ran.code, "> hello" in ran.out) == (0, True)
