"""`agentrail run`, as a process, what its command line becomes before anything is started, and that it cannot ask the user."""

import fcntl
import json
import os
import signal
import sys
import termios

import pytest
import trio

from agentrail.cli.run_command import is_pre_approved
from agentrail.cli.run_setup import decide_prompt, decide_tools
from agentrail.errors import OptionError, PromptError
from tests.cli.rig import (
    SLEEPER,
    alive,
    open_process,
    read_all,
    run_agentrail,
    run_in,
    sleeping_below,
    wait_until,
    write,
)

SHELL = ("--tools", "shell", "--shell-fallback", "unconfined", "--model", "demo:fast")
NONE = ("--tools", "none", "--model", "demo:fast")


async def test_a_run_streams_words_to_stdout_and_the_rest_to_stderr(tmp_path):
    """A demo cycle lists and reads; its first line says which model and why; the prompt may come through a pipe; with --max-turns 1 no tool is called."""
    (tmp_path / "README.md").write_text("# A real file\n")
    ran = await run_agentrail("run", "What is here?", "--model", "demo:fast", "--cwd", str(tmp_path))
    assert (ran.code, "- README.md: # A real file" in ran.out) == (0, True)
    assert "→" not in ran.out
    assert ran.err.splitlines()[0] == "model demo:fast (--model)"
    assert '→ list_dir(path=".")' in ran.err
    assert "✓ [file] README.md" in ran.err
    assert '→ read_file(path="README.md"' in ran.err
    assert "\x1b" not in ran.out + ran.err

    ran = await run_agentrail("run", "hello", "--tools", "none")
    assert ran.code == 0
    assert ran.err.startswith("model demo: (no key is set")
    assert "You said: hello" in ran.out

    for arguments in (("run",), ("run", "-")):
        ran = await run_agentrail(*arguments, *NONE, stdin=b"from a pipe\n")
        assert (ran.code, "You said: from a pipe" in ran.out) == (0, True)

    ran = await run_agentrail("run", "look around", "--model", "demo:fast", "--max-turns", "1")
    assert (ran.code, "the last of 1 turns: tools are withheld" in ran.err) == (0, True)
    assert "→" not in ran.err


async def test_json_prints_one_event_per_line_and_nothing_else():
    """Each line of stdout is an event, numbered, from the prompt to the end of the cycle."""
    ran = await run_agentrail("run", "hello", *NONE, "--json")
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 0
    assert events[-1]["kind"] == "agent_end"
    assert {"prompt_received", "message_delta", "response_complete"} <= {event["kind"] for event in events}
    committed = [event["seq"] for event in events if not event.get("ephemeral")]
    assert committed == list(range(committed[0], committed[0] + len(committed)))
    assert ran.err == "model demo:fast (--model)\n"


async def test_control_c_stops_the_cycle_and_leaves_no_process():
    """SIGINT while a command with a grandchild runs: exit code 130, no process left, no traceback (promise 1). The same for a service manager's SIGTERM, and the SIGHUP of a terminal that closes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        async with open_process("run", SLEEPER, *SHELL) as process:
            below = await sleeping_below(process)
            process.send_signal(number)
            assert await process.wait() == 130
            assert alive(below) == []
            err = await read_all(process.stderr)
            assert "aborted: interrupted" in err
            assert "1 task was stopped" in err
            assert "Traceback" not in err


async def test_a_second_control_c_does_not_wait_for_a_command_that_ignores_sigterm():
    """Interrupted twice, the run kills what would not stop, and still nothing is left."""
    stubborn = "shell \"trap '' TERM; sleep 1000 & while true; do sleep 1000; done\""
    async with open_process("run", stubborn, *SHELL) as process:
        below = await sleeping_below(process)
        process.send_signal(signal.SIGINT)
        seen = ""
        while "stopping; Ctrl-C again leaves at once" not in seen:
            seen += (await process.stderr.receive_some()).decode()
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        assert alive(below) == []
        assert "Traceback" not in seen + await read_all(process.stderr)


async def test_control_c_works_while_nobody_reads_the_output():
    """A reader that stopped reading, with its pipe full, does not keep Ctrl-C from ending the run."""
    async with open_process("run", "x" * 100_000, *NONE, "--json") as process:
        first = await process.stdout.receive_some(100)
        assert first.startswith(b'{"kind":')
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130


async def test_a_reader_that_has_read_enough_ends_the_run_quietly_and_a_full_disk_with_a_sentence():
    """`agentrail run … | head -1` prints no traceback; the cycle was not finished, so the code is 1, as where the output cannot be written."""
    async with open_process("run", "look around", "--model", "demo:") as process:
        await process.stdout.receive_some(1)
        await process.stdout.aclose()
        assert await process.wait() == 1
        err = await read_all(process.stderr)
        assert "Traceback" not in err
        assert "Exception ignored" not in err

    full = os.open("/dev/full", os.O_WRONLY)
    async with open_process("run", "hello", "--model", "demo:fast", stdout=full) as process:
        os.close(full)
        assert await process.wait() == 1
        err = await read_all(process.stderr)
        assert "the output cannot be written: No space left on device" in err
        assert "Traceback" not in err


async def test_a_chat_whose_output_cannot_be_written_names_the_reason():
    """The failed write is in a group of a nursery within another. The message of a group helps no user."""
    full, (lines, typed) = os.open("/dev/full", os.O_WRONLY), os.pipe()
    os.write(typed, b"hello\n")
    os.close(typed)
    async with open_process("chat", "--model", "demo:fast", stdin=lines, stdout=full) as process:
        os.close(full)
        assert await process.wait() == 1
        err = await read_all(process.stderr)
        assert err.endswith("\nagentrail: the output cannot be written: No space left on device.\n")


async def test_a_help_fits_a_width_that_its_library_cannot_use():
    """Some terminals and CI systems set COLUMNS to 0; at 1, wrapping the options did not end."""
    with trio.fail_after(60):
        for columns, most in (("0", 20), ("1", 20), ("100000", 1000)):
            ran = await run_agentrail("token", "new", "--help", variables={"COLUMNS": columns})
            assert (ran.code, ran.err, max(map(len, ran.out.splitlines()))) == (0, "", most)


async def test_a_help_that_cannot_be_written_ends_with_a_sentence():
    """A full disk is not a bug of ours. The same holds for the version."""
    for arguments in (("--help",), ("sessions", "list", "--help"), ("--version",)):
        full = os.open("/dev/full", os.O_WRONLY)
        async with open_process(*arguments, stdout=full) as process:
            os.close(full)
            assert await process.wait() == 1
            err = await read_all(process.stderr)
            assert err == "agentrail: the output cannot be written: No space left on device.\n"


def test_tools_are_found_by_name():
    """Names with commas between them, blanks and repetitions forgiven; `none` is none; an empty name is a slip, and never means all tools."""
    assert [tool.name for tool in decide_tools("shell, list_dir,shell")] == ["shell", "list_dir"]
    assert decide_tools("none") == ()
    for text in ("", ",", "shell,"):
        with pytest.raises(OptionError, match="expected names with commas between them"):
            decide_tools(text)


def test_the_prompt_is_the_argument_or_what_was_piped():
    """Bytes that are no UTF-8 become U+FFFD; nothing, blanks, an empty pipe and two prompts are said to be what they are."""
    assert decide_prompt("hello ", None) == "hello "
    assert decide_prompt(None, b" hello \xff\n") == "hello \ufffd"
    for argument, piped, words in (
        (None, None, "no prompt was given"),
        ("", None, "the prompt is empty"),
        (" \n", None, "the prompt is empty"),
        (None, b"\n", "the prompt is empty"),
        ("hello", b"hello", "there are two prompts"),
    ):
        with pytest.raises(PromptError, match=words):
            decide_prompt(argument, piped)


ASKS = 'version = 1\n[defaults]\nplugins = [{ use = "HumanApproval" }]\n'
GIVEN = ("--trust-project", *SHELL)


async def test_a_call_that_needs_an_approval_is_refused_at_once_or_approved(place):
    """No deadline runs, and the message names the option and the chat; a list without names is refused, as of the chat."""
    write(place, ASKS, "project/agentrail.toml")
    for more, is_run in (
        ((), False),
        (("--approve", "edit_file"), False),
        (("--approve", "sh*, edit_file"), True),
    ):
        with trio.fail_after(60):
            ended = await run_in(place, "run", 'shell "touch made"', *GIVEN, *more)
        assert ended.code == 0
        assert (place / "project" / "made").exists() == is_run
        assert ("--approve shell approves it; `agentrail chat` asks you" in ended.err) != is_run
        assert ("Rejected by the user: no user can be asked in this run" in ended.out) != is_run
    with trio.fail_after(60):
        ended = await run_in(place, "run", "Hi", "--model", "demo:fast", "--approve", "shell,,")
    assert (ended.code, "--approve is 'shell,,'" in ended.err) == (2, True)


def test_names_are_patterns():
    """`*` stands for all; without the option there are none."""
    assert all(is_pre_approved("shell", one) for one in ("shell", "sh*", "*", "edit_file, shell"))
    assert not any(is_pre_approved("shell", one) for one in (None, "hell"))


async def test_pipes_that_another_program_made_non_blocking_are_read_and_written_whole():
    """Npm does that to pipes that it shares: the prompt is not cut where its writer pauses, nor the output where its reader does."""
    (theirs, ours), (read, written) = os.pipe(), os.pipe()
    for end in (theirs, written):
        os.set_blocking(end, False)

    def waiting(end: int) -> int:
        return int.from_bytes(fcntl.ioctl(end, termios.FIONREAD, bytes(4)), sys.byteorder)

    async with open_process("run", *NONE, "--json", stdin=theirs, stdout=written) as process:
        os.close(written)
        os.write(ours, b"x" * 60_000)
        await wait_until(lambda: waiting(ours) == 0)
        os.write(ours, b"y" * 60_000)
        os.close(ours)
        await wait_until(lambda: waiting(read) > 60_000)
        async with trio.lowlevel.FdStream(read) as out:
            lines = (await read_all(out)).splitlines()
        assert await process.wait() == 0
    assert json.loads(lines[-1])["kind"] == "agent_end"
    assert '"' + "x" * 60_000 + "y" * 60_000 + '"' in "".join(lines)


async def test_a_stdin_that_cannot_be_read_holds_nothing():
    """As `nohup` leaves it."""
    for arguments, code in ((("run", "-"), 2), (("chat", "--store", "memory:"), 0)):
        async with open_process(*arguments, *NONE, stdin=os.open(os.devnull, os.O_WRONLY)) as process:
            assert (await process.wait(), "has a bug" in await read_all(process.stderr)) == (code, False)
