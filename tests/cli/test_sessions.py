"""`agentrail sessions`, and `run --keep`, as processes: what a store holds, read beside a process that writes it."""

import json
import signal
import sqlite3
from contextlib import closing

import pytest

from agentrail.abc.store import Standing
from agentrail.app import open_supervisor
from agentrail.cli.resume_option import LATEST, fill_in_latest
from agentrail.cli.session_views import standing_word
from agentrail.errors import OptionError, StoreUnavailable
from agentrail.stores.data_directory import find_data_directory
from tests.cli.rig import open_terminal, run_agentrail, run_beside, sleeping_below

DEMO = ("--model", "demo:fast", "--tools", "list_dir")


def kept(tmp_path):
    """Where a test keeps its sessions."""
    return {"AGENTRAIL_DATA_DIR": str(tmp_path / "data")}


@pytest.fixture
async def session(tmp_path):
    """The id of a session that one run has left."""
    (tmp_path / "README.md").write_text("# canary-of-a-file\n")
    ran = await run_agentrail(
        "run", "look around here", *DEMO, "--cwd", str(tmp_path), "--keep", variables=kept(tmp_path)
    )
    assert ran.code == 0
    found = ran.err.rsplit(maxsplit=1)[-1]
    assert ran.err.endswith(f"session {found} is kept: agentrail chat --resume {found}\n")
    return found


@pytest.fixture
def ask(tmp_path):
    """Runs `agentrail sessions` over the store of this test."""

    async def run(*arguments):
        return await run_agentrail("sessions", *arguments, variables=kept(tmp_path))

    return run


async def test_a_run_without_keep_leaves_no_store(tmp_path):
    """Nothing is kept unless it is asked for."""
    ran = await run_agentrail("run", "hello", *DEMO, variables=kept(tmp_path))
    assert ran.code == 0
    assert not (tmp_path / "data").exists()


async def test_a_run_is_kept_in_the_store_that_is_named(tmp_path):
    """`--store sqlite:PATH` says where, and means that it is kept."""
    place = f"sqlite:{tmp_path / 'mine.db'}"
    ran = await run_agentrail("run", "hello", *DEMO, "--store", place, variables=kept(tmp_path))
    assert ran.code == 0
    listed = await run_agentrail("sessions", "list", "--store", place, variables=kept(tmp_path))
    assert listed.out.startswith("s-")
    assert not (tmp_path / "data").exists()


async def test_the_store_is_for_its_owner_alone(tmp_path, session):
    """The directory has the mode 0700, its file 0600."""
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "sessions.db").stat().st_mode & 0o777 == 0o600


async def test_list_shows_a_line_per_session_and_json_on_request(ask, session):
    """For people id, how it stands, when, how many records; for programs one object per line."""
    ran = await ask("list")
    assert ran.code == 0
    assert ran.out.split()[:2] == [session, "idle"]
    (row,) = [json.loads(line) for line in (await ask("list", "--json")).out.splitlines()]
    assert row["session"] == session
    assert row["stands"] == "idle"
    assert row["records"] > 5


async def test_show_draws_a_cycle_with_its_turns_tools_and_tokens(ask, session):
    """The prompt, each turn with its model, each call with its outcome, what it used, how it ended."""
    ran = await ask("show", session)
    assert ran.code == 0
    lines = [line.strip() for line in ran.out.splitlines()]
    assert lines[0] == f"session   {session}  idle"
    assert any(line.startswith("cycle 1") and line.endswith("look around here") for line in lines)
    assert "turn 1  demo:fast, 1 messages" in lines
    assert '→ list_dir(path=".")' in lines
    assert any(line.startswith("✓ list_dir: ") and line.endswith("ms)") for line in lines)
    assert any(line.startswith("done (end) in ") and "tokens in" in line for line in lines)


async def test_trace_prints_records_without_a_word_of_the_conversation(ask, session):
    """Numbers, kinds and decisions, from where and how far one likes; whole records with --json."""
    ran = await ask("trace", session)
    assert ran.code == 0
    assert "opened" in ran.out
    assert "run_tool t" in ran.out
    assert "look around" not in ran.out
    assert "canary" not in ran.out
    some = await ask("trace", session, "--after", "2", "--limit", "2", "--json")
    records = [json.loads(line) for line in some.out.splitlines()]
    assert [record["seq"] for record in records] == [3, 4]
    assert "look around" in some.out


async def test_replay_lives_a_session_again(ask, session, tmp_path):
    """All is as it was; --explain tells causes, --step each record; a file of lines is a journal too."""
    plain = await ask("replay", session)
    assert plain.code == 0
    assert plain.out.endswith("records, all as it was\n")
    explained = await ask("replay", session, "--explain")
    assert ", begun by " in explained.out
    walked = await ask("replay", session, "--step")
    assert "then streaming" in walked.out
    assert "published SessionStart" in walked.out
    lines = (await ask("trace", session, "--json")).out
    (tmp_path / "journal.jsonl").write_text(lines)
    assert (await ask("replay", str(tmp_path / "journal.jsonl"))).code == 0
    (tmp_path / "journal.jsonl").write_text(lines.replace("look around", "look another"))
    changed = await ask("replay", str(tmp_path / "journal.jsonl"))
    assert changed.code == 1
    assert "is damaged" in changed.err


@pytest.mark.at(162)
async def test_diff_shows_where_two_runs_part(ask, session, tmp_path):
    """A journal does not part from itself; from one of another prompt it parts at the prompt."""
    same = await ask("replay", "--diff", session, session)
    assert same.code == 0
    other = await run_agentrail("run", "something else", *DEMO, "--keep", variables=kept(tmp_path))
    parted = await ask("replay", "--diff", session, other.err.rsplit(maxsplit=1)[-1])
    assert parted.code == 1
    assert "they part at record " in parted.out
    wrong = await ask("replay", "--diff", session)
    assert wrong.code == 2
    assert "replay --diff A B" in wrong.err


async def test_check_finds_one_changed_byte(ask, session, tmp_path):
    """What is stored is as it was written; a record that is not is named, and the code is 1."""
    good = await ask("check")
    assert good.code == 0
    assert good.out == "1 sessions are as they were written\n"
    with closing(sqlite3.connect(tmp_path / "data" / "sessions.db")) as connection, connection:
        connection.execute(
            "UPDATE record SET body = CAST(replace(CAST(body AS TEXT), 'look', 'took') AS BLOB) WHERE seq = 3"
        )
    bad = await ask("check", session)
    assert bad.code == 1
    assert "record 3 is damaged" in bad.out
    assert (await ask("replay", session)).code == 1


async def test_delete_removes_a_session_and_says_how_many_bytes(ask, session, tmp_path):
    """What stood there is overwritten: no word of it is in the file."""
    ran = await ask("delete", session)
    assert ran.code == 0
    assert ran.out.startswith(f"deleted {session}: ")
    assert (await ask("list", "--all")).out == ""
    assert b"look around here" not in b"".join(
        one.read_bytes() for one in (tmp_path / "data").iterdir() if one.is_file()
    )


async def test_backup_copies_the_store_to_a_new_file(ask, session, tmp_path):
    """The copy is private, whole, and readable as a store; a file that is there is not written over."""
    copy = tmp_path / "copy.db"
    ran = await ask("backup", str(copy))
    assert ran.code == 0
    assert copy.stat().st_mode & 0o777 == 0o600
    assert session in (await ask("list", "--store", f"sqlite:{copy}")).out
    again = await ask("backup", str(copy))
    assert again.code == 2
    assert "already" in again.err
    nowhere = await ask("backup", str(tmp_path / "no" / "copy.db"))
    assert nowhere.code == 2
    assert "No such file" in nowhere.err


@pytest.mark.journal(18)
async def test_commands_read_beside_a_process_that_writes_and_those_that_write_say_whose_it_is(
    session, tmp_path
):
    """list, show, trace, replay, check and backup work beside a chat; delete and recover name its process."""

    async def ask(*arguments):
        return await run_beside("sessions", *arguments, variables=kept(tmp_path))

    async with open_terminal(
        *("chat", "--model", "demo:fast", "--tools", "shell", "--cwd", str(tmp_path)),
        *("--approve", "none", "--shell-fallback", "unconfined"),  # where bubblewrap is not installed, too
        term="dumb",
        **kept(tmp_path),
    ) as typist:
        await typist.wait_for("> ")
        typist.type('shell "sleep 1000 & sleep 1000"\r')
        await sleeping_below(typist.process)
        listed = await ask("list")
        assert " running " in listed.out
        for arguments in (("show",), ("trace",), ("replay",), ("check",)):
            assert (await ask(*arguments, session)).code == 0
        assert (await ask("backup", str(tmp_path / "copy.db"))).code == 0
        for command in ("delete", "recover"):
            ran = await ask(command, session)
            assert ran.code == 2
            assert f"is written by process {typist.process.pid}" in ran.err
            assert "read-only commands work" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("list",), 2, ["sessions.db", "there is no such file", "--data-dir"]),
        (("show", "s-1"), 2, ["there is no such file"]),
        (("delete", "s-1"), 2, ["there is no such file"]),
        (("list", "--store", "redis://x"), 2, ["'memory:', 'sqlite:' or 'sqlite:PATH'"]),
        (("list", "--store", "postgres://x"), 2, ["later version", "'sqlite:PATH'"]),
        (("list", "--store", "memory:"), 2, ["name a file"]),
        (("recover", "--store", "memory:"), 2, ["name a file"]),
        (
            ("list", "--store", "sqlite:/etc/passwd"),
            2,
            ["is not a store of agentrail", "nothing in it was touched"],
        ),
        (("list", "--data-dir", "/nowhere"), 2, ["/nowhere/sessions.db", "--data-dir"]),
    ],
)
async def test_a_store_that_cannot_be_read_is_said_with_what_to_do(ask, arguments, code, words, tmp_path):
    """Each of the rows of bad input that a command meets; nothing is made."""
    ran = await ask(*arguments)
    assert ran.code == code
    for word in words:
        assert word in ran.err
    assert "Traceback" not in ran.err
    assert not (tmp_path / "data").exists()


async def test_an_unknown_id_is_said_with_those_that_are_like_it(ask, session):
    """A typo names what was meant."""
    for command in ("show", "trace", "check", "delete", "recover", "replay"):
        ran = await ask(command, f"{session}x")
        assert ran.code == 2
        assert repr(session) in ran.err
        assert "agentrail sessions list" in ran.err


async def test_a_store_of_a_newer_version_is_not_touched(ask, session, tmp_path):
    """Both versions are named."""
    path = tmp_path / "data" / "sessions.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 99")
    ran = await ask("list")
    assert ran.code == 2
    assert "version 99" in ran.err
    assert "nothing in it was touched" in ran.err


async def test_a_run_that_is_to_be_kept_where_it_cannot_be_does_not_begin(tmp_path):
    """A directory that is not there, for a store that is named: wrong usage, before the model is asked."""
    ran = await run_agentrail(
        "run", "hello", *DEMO, "--store", f"sqlite:{tmp_path / 'no' / 'x.db'}", variables=kept(tmp_path)
    )
    assert ran.code == 2
    assert "the directory does not exist" in ran.err
    assert ran.out == ""


# --- sessions that were cut off, and those of other programs


async def test_recover_lets_a_killed_session_finish(ask, tmp_path):
    """--dry-run says what would be decided and changes nothing; without it the session works to its end."""
    async with open_terminal(
        "chat", "--model", "demo:", "--tools", "none", term="dumb", **kept(tmp_path)
    ) as typist:
        await typist.wait_for("> ")
        typist.type("one two three\r")
        await typist.wait_for("This is a demo")
        typist.process.send_signal(signal.SIGKILL)
        await typist.wait_end()
    for _ in range(2):
        dry = await ask("recover", "--dry-run")
        assert dry.code == 0
        assert "the request to demo: is sent again" in dry.out
    ran = await ask("recover")
    assert ran.code == 0
    assert "You said: one two three" in ran.out
    assert "1 of 1 sessions came back" in ran.out
    assert " idle " in (await ask("list")).out


async def test_a_dry_run_of_recover_says_that_nothing_was_cut_off(ask, session):
    """Silence would not tell it from a store that could not be read."""
    ran = await ask("recover", "--dry-run")
    assert (ran.code, ran.out) == (0, "nothing was cut off: no session had work when its process ended\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a b", "--id is 'a b': expected 1 to 128 of A-Z a-z 0-9"),
        ("", "--id is '': expected 1 to 128 of A-Z a-z 0-9"),
        ("local/x", "--id is 'local/x': expected 1 to 128 of A-Z a-z 0-9"),
        (None, "already: give another --id"),
    ],
)
async def test_a_fork_has_an_id_that_other_commands_take(ask, session, name, said):
    """Nothing is forked else; what is wrong is said of the flag, and not of an option of a program."""
    ran = await ask("fork", session, "--id", session if name is None else name)
    assert (ran.code, said in ran.err, "resume_session" in ran.err) == (2, True, False)
    assert len((await ask("list", "--all")).out.splitlines()) == 1


# --- plain functions


def test_resume_stands_alone_or_with_an_id():
    """An option that follows is no id, and other commands are left alone."""
    assert fill_in_latest(["chat", "--resume"]) == ["chat", "--resume", LATEST]
    assert fill_in_latest(["chat", "--resume", "--debug"]) == ["chat", "--resume", LATEST, "--debug"]
    assert fill_in_latest(["chat", "--resume", "s-1"]) == ["chat", "--resume", "s-1"]
    assert fill_in_latest(["run", "--resume"]) == ["run", "--resume"]


def test_the_data_directory_is_where_the_environment_says():
    """A variable of our own comes first, then that of the desktop, then the home directory; without any it is an error."""
    home = {"HOME": "/home/ada"}
    assert str(find_data_directory(home)) == "/home/ada/.local/share/agentrail"
    assert str(find_data_directory(home | {"XDG_DATA_HOME": "/data"})) == "/data/agentrail"
    assert str(find_data_directory(home | {"AGENTRAIL_DATA_DIR": "/mine"})) == "/mine"
    with pytest.raises(StoreUnavailable, match="--data-dir"):
        find_data_directory({})


@pytest.mark.at(141)
def test_that_a_session_runs_follows_from_a_living_owner(stored):
    """What is stored says that it works; without an owner it was interrupted."""
    working = stored(Standing(is_working=True))
    assert standing_word(working, is_owned=True) == "running"
    assert standing_word(working, is_owned=False) == "interrupted"
    assert standing_word(stored(Standing()), is_owned=False) == "idle"
    assert standing_word(stored(Standing()), is_owned=True) == "open"
    assert standing_word(stored(Standing(is_working=True, waits_for=1)), is_owned=True) == "waits for you"
    assert standing_word(stored(Standing(has_ended=True)), is_owned=True) == "ended"


@pytest.fixture
def stored():
    """Makes what a store says of a session."""
    from agentrail.abc.store import StoredSession  # noqa: PLC0415 - beside its only user
    from agentrail.core.journal.record import Tail  # noqa: PLC0415

    def make(standing):
        return StoredSession(
            scope="",
            session="s",
            root="s",
            parent="",
            forked_from=None,
            node="n",
            opened_at_ms=0,
            written_at_ms=0,
            first_seq=1,
            tail=Tail(),
            events=0,
            standing=standing,
        )

    return make


# --- `open_supervisor`


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"store": "redis:"}, "'memory:', 'sqlite:' or 'sqlite:PATH'"),
        ({"store": 7}, "or a store"),
        ({"store": "memory:", "store_patience": 0.01}, "finite seconds from 0.1"),
        ({"store": "memory:", "store_patience": float("nan")}, "finite seconds from 0.1"),
        ({"store": "memory:", "resume": "some"}, "'none', 'working' or 'all'"),
        ({"resume": "all"}, "there is no store"),
    ],
)
async def test_how_sessions_are_to_be_kept_is_looked_at_before_anything_is_opened(given, words):
    """Each fault names the option and what it may be."""
    with pytest.raises(OptionError, match=words):
        async with open_supervisor(**given):
            pass
