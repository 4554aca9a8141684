"""What people get wrong, and what servers do: a sentence that says what to do, the right exit code, no traceback."""

import errno
import json
import os
import re
import sys

import trio

from tests.cli.rig import run_agentrail, run_line

REFUSED = "http://127.0.0.1:9/v1"  # the port `discard`, on which no one listens


WRONG = (
    ("run x --model demo:fast --keep-days 3", "--keep-days and --keep-bytes are about kept sessions", "give --keep, or --store"),
    ("run x --model demo:fast --store memory: --keep-days 0", "keep_days is 0.0: expected days from 1 to 36500"),
    ("run x --model anthropc:y", "there is no provider 'anthropc'", "Did you mean 'anthropic:y'?"),
    ("run x --model scripted:y", "there is no script 'y'; known scripts: none", "open_supervisor(scripts="),
    (
        "run x --model mistral:y", "there is no provider 'mistral'", "Did you mean 'openai-chat:mistral:y'?",
        "Providers are anthropic, demo, google, openai, openai-chat, as in",
    ),
    ("run x --model demo", "'demo' is not a model string", "Did you mean 'demo:'?"),
    ("run x --model anthropic:", "lacks a model", "anthropic:claude"),
    ("run x --model anthropic:y", "set ANTHROPIC_API_KEY", "demo: which needs none"),
    ("run x --model openai-chat:y", "set OPENAI_API_KEY", "demo: which needs none"),
    ("run x --cwd /no/such/place", "--cwd", "/no/such/place", "does not exist"),
    ("run ''", "the prompt is empty"),
    ("run", "the prompt is empty"),  # without a terminal nothing hangs
    ("run x --max-turns 0", "--max-turns", ">= 1"),
    ("run x --max-retries -1", "--max-retries", ">= 0"),
    ("run x --tools shel", "Did you mean 'shell'?", "list_dir, python, read_file, recall, remember, shell"),
    ("run x --modle y", "--modle", "Did you mean ", "--model"),
    ("run list the files", "put it in quotes"),
    (f"skills check {'x' * 300}", "'xxxx", "cannot be used: File name too long. Correct that, or name another."),
    ("rum x", "rum", "run", "See agentrail --help"),
    ("--verison", "Unknown option: --verison. Did you mean --version? See agentrail --help."),
    ("sessions shwo x", "shwo", "show", "See agentrail sessions --help"),
    ("sessions show", "The argument SESSION is missing. See agentrail sessions show --help."),
    ("run x --modle y", "--modle", "--model", "See agentrail run --help"),
    ("sessions list --store sqlite:/", "store is 'sqlite:/': expected"),
    ("sessions list x", "Unexpected argument: x. See agentrail sessions list --help."),
    ("run x --base-url localhost:1", "base_url", "http://"),
    ("run x --model demo: --base-url ''", "base_url", "http://", "got ''"),
    (f"run x --base-url {REFUSED}", "could not be listed", "--model openai-chat:NAME"),
    ("chat --model nope:x", "there is no provider 'nope'"),
    ("eval /dev/null", "/dev/null cannot be read: it is a device."),
    ("audit verify file:/dev/null", "the audit log /dev/null cannot be read: it is a device."),
    ("top http://127.0.0.1:9 --token-file /dev/null", "the token file /dev/null cannot be read: it is a device."),
)  # fmt: skip


async def test_wrong_usage_is_said_in_a_sentence():
    """Exit code 2; stderr says what was expected, what came, and what to do now."""
    for line, *sentences in WRONG:
        ran = await run_line(line)
        assert (ran.code, ran.out) == (2, ""), line
        assert "Traceback" not in ran.err
        assert all(sentence in ran.err for sentence in sentences), (line, ran.err)


async def test_control_characters_of_an_argument_are_escaped():
    """They would change the terminal, or look like lines of the command."""
    odd = "a\x1b[31m\nagentrail: done\x9b\u202e"
    for arguments, shown in (
        ((odd,), r"a\x1b[31m\nagentrail: done\x9b\u202e"),
        (("run", f"--{odd}"), r"--a\x1b[31m\nagentrail: done\x9b\u202e."),
        (("eval", odd), r"a\x1b[31m\nagentrail: done\x9b\u202e cannot be read"),
    ):
        ran = await run_agentrail(*arguments)
        said = ran.err.replace('"', "")  # cyclopts 4 quotes an unknown option, and 5 does not
        assert (ran.code, shown in said, len(said.splitlines())) == (2, True, 1), ran.err


async def test_no_password_of_an_address_is_repeated():
    """Each option with an address refuses one, and says so without it."""
    for line, shown in (
        ("run x --model demo:fast --sandbox http://bob:hush/x@h", "sandbox is 'http://…@h': an address must not contain"),
        ("serve --metrics bob:hush@h:1", "--metrics is '…@h:1'"),
        ("serve --host bob:hush@h", "others reach --host …@h"),
        ("sandbox serve --host bob:hush@h", "others reach --host …@h"),
        ("serve --port 0 --allowed-origin http://bob:hush@h", "allowed_origins has 'http://…@h'"),
        ("serve --port 0 --allowed-host bob:hush@h", "allowed_hosts has '…@h'"),
    ):  # fmt: skip
        ran = await run_line(line)
        assert (ran.code, shown in ran.err, "hush" in ran.out + ran.err) == (2, True, False), (line, ran.err)


async def test_a_named_pipe_is_refused_and_a_pipe_of_the_shell_is_read(tmp_path):
    """A named pipe may have no writer, and opening it would wait without end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with trio.fail_after(60):
        for line in (f"permissions check {pipe}", f"serve --port 0 --certfile {pipe} --keyfile {pipe}"):
            ran = await run_line(line)
            assert (ran.code, "it is a named pipe" in ran.err) == (2, True), ran.err
        ran = await run_line("permissions check /dev/stdin", stdin=b"allow = []")
    assert (ran.code, ran.err) == (0, "")


async def test_a_link_to_itself_is_said_in_a_sentence(tmp_path):
    """Python 3.11 and 3.12 raise RuntimeError when they resolve it: that was reported as a bug of agentrail."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for line in (
        f"replay {loop} --data-dir {tmp_path}",
        f"serve --port 0 --certfile {loop} --keyfile {loop}",
    ):
        ran = await run_line(line)
        assert (ran.code, os.strerror(errno.ELOOP) in ran.err) == (2, True), ran.err


async def test_a_directory_that_was_removed_is_said_in_a_sentence(tmp_path):
    """As a checkout of another branch removes it: code 2, and not a bug to report."""
    removed = (
        "sh",
        "-c",
        'rmdir "$PWD"; exec "$@"',
        "sh",
        sys.executable,
        "-P",
        "-m",
        "agentrail",
        "run",
        "hi",
    )
    ran = await trio.run_process(removed, cwd=tmp_path, capture_stderr=True, check=False)
    assert (ran.returncode, ran.stderr) == (
        2, b"agentrail: the current directory no longer exists: change to another one.\n",
    )  # fmt: skip


async def test_an_interpreter_that_removes_docstrings_is_reported(tmp_path):
    """`python -OO`, or PYTHONOPTIMIZE=2 of an image: code 2, and not a bug to report."""
    line = (sys.executable, "-B", "-OO", "-P", "-m", "agentrail", "run", "hi")
    ran = await trio.run_process(line, cwd=tmp_path, capture_stderr=True, check=False)
    assert (ran.returncode, ran.stderr.count(b"\n")) == (2, 1)
    assert b"python -OO removes docstrings, which describe the tools: use -O" in ran.stderr


async def test_a_refused_connection_is_said_in_a_sentence():
    """Nobody listens: the cycle fails, and the sentence asks for the address and the server."""
    ran = await run_line(f"run hello --model openai-chat:x --base-url {REFUSED} --max-retries 0")
    assert (ran.code, "cannot be reached" in ran.err) == (1, True)
    assert "check the network and --base-url" in ran.err
    assert "Traceback" not in ran.err
    looked = await run_line(f"doctor --model openai-chat:x --base-url {REFUSED}")
    assert looked.out.count(REFUSED) == 1


async def test_bytes_of_a_process_that_are_no_text_do_not_end_the_cycle():
    """Undecodable output of a command reaches the model, and the JSON of the events, as U+FFFD."""
    prompt = "shell \"printf 'a\\377b'\""
    ran = await run_agentrail(
        "run", prompt, "--model", "demo:fast", "--tools", "shell", "--shell-fallback", "unconfined", "--json"
    )
    events = [json.loads(line) for line in ran.out.splitlines()]
    (result,) = [event["result"]["text"] for event in events if event["kind"] == "tool_execution_end"]
    assert ran.code == 0
    assert result.startswith("a\ufffdb")


async def test_a_command_that_names_its_store_needs_no_home(tmp_path):
    """As a system service runs it: none of HOME, XDG_DATA_HOME and AGENTRAIL_DATA_DIR is set."""
    named = f"--store sqlite:{tmp_path / 'named.db'}"
    kept = await run_line(f"run --keep hi --model demo:fast {named}")
    (name,) = re.findall(r"session (\S+) is kept", kept.err)
    for line in (
        "sessions list", f"sessions show {name}", f"sessions export {name}", f"sessions fork {name}",
        "cost", "store check", "evals journals",
    ):  # fmt: skip
        ran = await run_line(f"{line} {named}")
        assert ran.code == 0, (line, ran.err)
    for line in ("cost", "memory list --user me"):  # neither names a file of the other
        shown = (await run_line(line)).err
        assert shown.startswith("agentrail: no data directory is known: set AGENTRAIL_DATA_DIR, XDG_DATA")


async def test_the_home_directory_of_an_unknown_user_is_reported():
    """In a store, a variable, or a file that one names, and not as a bug."""
    place = "~nobody-here/x"
    for line, name in (
        (f"sessions list --store sqlite:{place}", ""),
        (f"kb list --knowledge sqlite:{place}", ""),
        (f"memory list --memories sqlite:{place}", ""),
        (f"audit verify file:{place}", ""),
        ("run hi --model demo:fast --keep", "AGENTRAIL_DATA_DIR"),
        ("chat --model demo:fast", "AGENTRAIL_DATA_DIR"),
        ("run hi --model demo:fast", "AGENTRAIL_CONFIG"),
        ("serve --port 0", "AGENTRAIL_TOKEN_FILE"),
    ):
        ran = await run_line(line, variables={name: place} if name else {})
        assert ran.code == 2, (line, ran.err)
        said_by = f"{name}: " if name else ""
        assert f"{said_by}{place!r} is in the home directory of a user who has none" in ran.err, line


async def test_an_error_in_a_task_of_a_command_is_no_bug(tmp_path):
    """The input of `mcp serve` is read in a task, whose group held the error of a store that cannot be opened."""
    (tmp_path / "file").touch()
    ran = await run_line(f"mcp serve --data-dir {tmp_path / 'file'}", variables={"AGENTRAIL_MODEL": "demo:"})
    assert ran.code == 2, ran.err
    assert "agentrail: no sessions can be stored in" in ran.err
    assert "bug" not in ran.err


async def test_an_argument_that_is_not_utf_8_is_reported(kept):
    """A shell of another encoding sends it, and no id, name or scope has such bytes."""
    odd = os.fsdecode(b"J\xfcrgen")
    await run_agentrail("run", "hi", "--model", "demo:fast", "--keep", variables=kept)
    for arguments, said in (
        (("sessions", "list", "--scope", odd), "an argument is not UTF-8"),
        (("permissions", "explain", "shell", "--args", odd), "an argument is not UTF-8"),
        (("chat", "--resume", odd), "there is no session 'J?rgen'"),
    ):
        ran = await run_agentrail(*arguments, variables=kept)
        assert (ran.code, said in ran.err) == (2, True), (arguments, ran.err)
