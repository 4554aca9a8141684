"""`agentrail sessions`, and `run --keep`, as processes: what a store holds, read beside a process that writes it."""

import json
import os
import signal
import sqlite3
from contextlib import closing

import pytest
import trio

from agentrail.abc.recall import MemoryOwner
from agentrail.abc.store import TEMPORARY_SESSIONS, OwedRow, Standing, StoredSession
from agentrail.app import open_supervisor
from agentrail.cli.exit_codes import Exit
from agentrail.cli.resume_option import LATEST, fill_in_latest
from agentrail.cli.session_views import standing_word
from agentrail.cli.sessions_command import delete
from agentrail.cli.store_access import StorePlace
from agentrail.core.journal.record import Tail
from agentrail.errors import OptionError, StoreUnavailable
from agentrail.stores.data_directory import find_data_directory
from agentrail.stores.notes_files import NoteFiles
from agentrail.stores.sqlite import SqliteStore
from agentrail.stores.store_names import open_store
from tests.cli.rig import alive, command, open_terminal, run_agentrail, run_beside, run_line, sleeping_below

DEMO = ("--model", "demo:fast", "--tools", "list_dir")


@pytest.fixture
async def session(tmp_path, kept):
    """The id of a session that one run has left."""
    (tmp_path / "README.md").write_text("# canary-of-a-file\n")
    line = f"run 'look around here' --model demo:fast --tools list_dir --cwd {tmp_path} --keep"
    ran = await run_line(line, variables=kept)
    assert ran.code == 0
    found = ran.err.rsplit(maxsplit=1)[-1]
    assert ran.err.endswith(f"session {found} is kept: agentrail chat --resume {found}\n")
    return found


@pytest.fixture
def ask(tmp_path):
    """Runs `agentrail sessions` over the store of this test, or another one where its name is given."""

    async def run(*arguments, store="data"):
        variables = {"AGENTRAIL_DATA_DIR": str(tmp_path / store)}
        return await run_agentrail("sessions", *arguments, variables=variables)

    return run


async def test_a_run_is_kept_only_where_it_is_asked_for(tmp_path, kept):
    """Nothing without `--keep`; `--store sqlite:PATH` says where; where that cannot be, the model is not asked."""
    ran = await run_agentrail("run", "hello", *DEMO, variables=kept)
    assert ran.code == 0
    assert not (tmp_path / "data").exists()

    place = f"sqlite:{tmp_path / 'mine.db'}"
    ran = await run_agentrail("run", "hello", *DEMO, "--store", place, variables=kept)
    assert ran.code == 0
    listed = await run_agentrail("sessions", "list", "--store", place, variables=kept)
    assert listed.out.startswith("s-")
    assert not (tmp_path / "data").exists()

    ran = await run_agentrail(
        "run", "hello", *DEMO, "--store", f"sqlite:{tmp_path / 'no' / 'x.db'}", variables=kept
    )
    assert (ran.code, "the directory does not exist" in ran.err) == (2, True)
    assert ran.out == ""


async def test_temporary_sessions_of_a_server_are_not_listed(ask, tmp_path):
    """A process that crashed left one: it is there for the next one, and shown by its name."""
    with closing(open_store(f"sqlite:{tmp_path / 'mine.db'}", None)) as store:
        async with open_supervisor(store=store) as supervisor:
            for name in ("kept", "gone"):
                await supervisor.start_session(model="demo:fast", session_id=name, scope="acme")
        store.change_owed([OwedRow(kind=TEMPORARY_SESSIONS, id="acme/gone", body=b"")])
    for every in ((), ("--all",)):
        listed = await ask("list", *every, "--store", f"sqlite:{tmp_path / 'mine.db'}")
        assert [line.split()[0] for line in listed.out.splitlines()] == ["acme/kept"]
    shown = await ask("show", "acme/gone", "--store", f"sqlite:{tmp_path / 'mine.db'}")
    assert shown.code == 0


async def test_a_session_is_listed_shown_and_traced(ask, session, tmp_path):
    """For its owner alone; a line each for people and JSON for programs; a cycle with its turns, tools and tokens; records without a word of the conversation. A typo names what was meant."""
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "sessions.db").stat().st_mode & 0o777 == 0o600

    ran = await ask("list")
    assert ran.code == 0
    assert ran.out.split()[:2] == [session, "idle"]
    (row,) = [json.loads(line) for line in (await ask("list", "--json")).out.splitlines()]
    assert row["session"] == session
    assert row["stands"] == "idle"
    assert row["records"] > 5

    ran = await ask("show", session)
    assert ran.code == 0
    lines = [line.strip() for line in ran.out.splitlines()]
    assert lines[0] == f"session   {session}  idle"
    assert any(line.startswith("cycle 1") and line.endswith("look around here") for line in lines)
    assert "turn 1  demo:fast, 1 messages" in lines
    assert '→ list_dir(path=".")' in lines
    assert any(line.startswith("✓ list_dir: ") and line.endswith("ms)") for line in lines)
    assert any(line.startswith("done (end) in ") and "tokens in" in line for line in lines)

    ran = await ask("trace", session)
    assert (ran.code, "opened" in ran.out) == (0, True)
    assert "run_tool t" in ran.out
    assert "look around" not in ran.out
    assert "canary" not in ran.out
    some = await ask("trace", session, "--after", "2", "--limit", "2", "--json")
    records = [json.loads(line) for line in some.out.splitlines()]
    assert [record["seq"] for record in records] == [3, 4]
    assert "look around" in some.out

    for name in ("show", "trace", "check", "delete", "recover", "replay"):
        ran = await ask(name, f"{session}x")
        assert ran.code == 2
        assert repr(session) in ran.err
        assert "agentrail sessions list" in ran.err


async def test_ctrl_d_ends_a_replay_in_steps(session, kept):
    """It is no Enter: an end of the input would otherwise walk through the whole journal."""
    async with open_terminal("replay", session, "--step", term="dumb", **kept) as typist:
        with trio.fail_after(60):
            await typist.wait_for("Enter goes on, q leaves: ")
            typist.type("\x04")
            assert await typist.wait_end() == 0


@pytest.mark.at(162)
async def test_replay_lives_a_session_again_and_diff_shows_where_two_part(ask, session, tmp_path, kept):
    """All is as it was; --explain tells causes, --step each record; a file of lines is a journal too. A journal parts from one of another prompt at the prompt."""
    plain = await ask("replay", session)
    assert plain.code == 0
    assert plain.out.endswith("records, identical\n")
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
    assert (changed.code, "is damaged" in changed.err) == (1, True)

    same = await ask("replay", "--diff", session, session)
    assert same.code == 0
    other = await run_agentrail("run", "something else", *DEMO, "--keep", variables=kept)
    parted = await ask("replay", "--diff", session, other.err.rsplit(maxsplit=1)[-1])
    assert (parted.code, "they diverge at record " in parted.out) == (1, True)
    wrong = await ask("replay", "--diff", session)
    assert (wrong.code, "replay --diff A B" in wrong.err) == (2, True)


async def test_check_finds_one_changed_byte_and_a_store_of_a_newer_version_is_not_touched(
    ask, session, tmp_path
):
    """A record that is not as it was written is named, and the code is 1; both versions are named."""
    good = await ask("check")
    assert good.code == 0
    assert good.out == "1 sessions are intact\n"
    path = tmp_path / "data" / "sessions.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE record SET body = CAST(replace(CAST(body AS TEXT), 'look', 'took') AS BLOB) WHERE seq = 3"
        )
    bad = await ask("check", session)
    assert (bad.code, "record 3 is damaged" in bad.out) == (1, True)
    assert (await ask("replay", session)).code == 1

    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 99")
    ran = await ask("list")
    assert (ran.code, "version 99" in ran.err) == (2, True)
    assert "it was not modified" in ran.err


async def test_backup_copies_the_store_to_a_new_file_and_delete_removes_a_session(ask, session, tmp_path):
    """The copy is private, whole, and readable as a store, and no file is written over; what stood there is overwritten: no word of it is in the file."""
    copy = tmp_path / "copy.db"
    ran = await ask("backup", str(copy))
    assert ran.code == 0
    assert copy.stat().st_mode & 0o777 == 0o600
    assert session in (await ask("list", "--store", f"sqlite:{copy}")).out
    again = await ask("backup", str(copy))
    assert (again.code, "already" in again.err) == (2, True)
    (tmp_path / "other.db.new").write_text("of the user")
    beside = await ask("backup", str(tmp_path / "other.db"))
    assert (beside.code, "other.db.new' already exists" in beside.err) == (2, True)
    assert (tmp_path / "other.db.new").read_text() == "of the user"
    nowhere = await ask("backup", str(tmp_path / "no" / "copy.db"))
    assert (nowhere.code, "No such file" in nowhere.err) == (2, True)

    ran = await ask("delete", session)
    assert ran.code == 0
    assert ran.out.startswith(f"deleted {session}: ")
    assert (await ask("list", "--all")).out == ""
    assert b"look around here" not in b"".join(
        one.read_bytes() for one in (tmp_path / "data").iterdir() if one.is_file()
    )


async def test_delete_removes_the_working_notes_of_the_session_alone(ask, session, tmp_path):
    """They lie next to the memories, and the next session with this id would read them."""
    notes, owner = NoteFiles(tmp_path / "data" / "memories" / "notes"), MemoryOwner(tenant="")
    for one in (session, "s-other"):
        notes.change(owner, one, lambda _: "A canary sings.")
    assert (await ask("delete", session)).code == 0
    assert [notes.read(owner, one) for one in (session, "s-other")] == ["", "A canary sings."]


async def test_a_deletion_says_what_is_not_overwritten_and_owes_it(tmp_path, monkeypatch, capfd):
    """A reader is in the way: the next process that writes the store overwrites it."""
    file = tmp_path / "mine.db"
    async with open_supervisor(store=f"sqlite:{file}") as supervisor:
        await supervisor.start_session(model="demo:fast", session_id="s-1")
    monkeypatch.setattr("agentrail.cli.store_access._PAUSE_SECONDS", 0)
    with monkeypatch.context() as patched:
        patched.setattr(SqliteStore, "overwrite_removed", lambda self: False)
        assert delete("s-1", place=StorePlace(store=f"sqlite:{file}")) is Exit.FAILED
    out, err = capfd.readouterr()
    assert out.startswith("deleted s-1: ")
    assert "not overwritten yet, because another process reads the store" in err
    async with open_supervisor(store=f"sqlite:{file}") as supervisor:
        assert len(await supervisor.owed("overwrite")) == 1
    with closing(SqliteStore(file)) as store:
        assert store.owed("overwrite") == ()


async def test_a_session_is_not_deleted_while_its_notes_cannot_be(tmp_path, capfd):
    """Only its journal names them: afterwards they could not be found."""
    place = StorePlace(store=f"sqlite:{tmp_path / 'mine.db'}", data_dir=tmp_path)
    async with open_supervisor(store=place.store) as supervisor:
        await supervisor.start_session(model="demo:fast", session_id="s-1")
    (tmp_path / "memories").mkdir()
    (tmp_path / "memories" / "notes").write_text("Not a directory.")
    assert delete("s-1", place=place) is Exit.USAGE
    assert "cannot be used now: Not a directory" in capfd.readouterr().err
    (tmp_path / "memories" / "notes").unlink()
    assert delete("s-1", place=place) is Exit.DONE


async def test_delete_drops_what_was_noted_of_lost_records(tmp_path):
    """A new session with its id would be refused because of them."""
    place = StorePlace(store=f"sqlite:{tmp_path / 'mine.db'}", data_dir=tmp_path)
    async with open_supervisor(store=place.store) as supervisor:
        await supervisor.start_session(model="demo:fast", session_id="s-1")
        await supervisor.change_owed([OwedRow(kind="journal_behind", id="s-1", body=b"1 9")])
    assert delete("s-1", place=place) is Exit.DONE
    with closing(SqliteStore(tmp_path / "mine.db")) as store:
        assert store.owed("journal_behind") == ()


async def test_notes_that_a_killed_deletion_left_are_cleared_by_the_next_process(tmp_path, monkeypatch):
    """The session is deleted, its notes are not: only the owed row still names them."""
    place = StorePlace(store=f"sqlite:{tmp_path / 'mine.db'}", data_dir=tmp_path)
    options = {"store": place.store, "memories": f"sqlite:{tmp_path / 'memories'}"}
    async with open_supervisor(**options) as supervisor:
        await supervisor.start_session(model="demo:fast", session_id="s-1")
    notes, owner = NoteFiles(tmp_path / "memories" / "notes"), MemoryOwner(tenant="")
    notes.change(owner, "s-1", lambda _: "A canary sings.")

    def be_killed(*_):
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(NoteFiles, "change", be_killed)
        with pytest.raises(SystemExit):
            delete("s-1", place=place)
    assert notes.read(owner, "s-1")
    async with open_supervisor(**options) as supervisor:
        await supervisor.start_session(model="demo:fast", session_id="s-1")
        assert notes.read(owner, "s-1") == ""


@pytest.mark.journal(18)
async def test_commands_read_beside_a_process_that_writes_and_those_that_write_say_whose_it_is(
    session, tmp_path, kept
):
    """list, show, trace, replay, check and backup work beside a chat; delete and recover name its process."""

    async def ask(*arguments):
        return await run_beside("sessions", *arguments, variables=kept)

    async with open_terminal(
        *("chat", "--model", "demo:fast", "--tools", "shell", "--cwd", str(tmp_path)),
        *("--approve", "none", "--shell-fallback", "unconfined"),  # where bubblewrap is not installed, too
        term="dumb",
        **kept,
    ) as typist:
        await typist.wait_for("> ")
        typist.type('shell "sleep 1000 & sleep 1000"\r')
        below = await sleeping_below(typist.process)
        listed = await ask("list")
        assert " running " in listed.out
        for arguments in (("show",), ("trace",), ("replay",), ("check",)):
            assert (await ask(*arguments, session)).code == 0
        assert (await ask("backup", str(tmp_path / "copy.db"))).code == 0
        for command in ("delete", "recover"):
            ran = await ask(command, session)
            assert (ran.code, f"is written by process {typist.process.pid}" in ran.err) == (2, True)
            assert "read-only commands work" in ran.err
        typist.interrupt()
        await typist.wait_for("1 task was stopped")
        assert alive(below) == []


async def test_a_store_that_cannot_be_read_is_said_with_what_to_do(ask, tmp_path):
    """Each of the rows of bad input that a command meets; nothing is made."""
    for line, *words in (
        ("list", "sessions.db", "there is no such file", "--data-dir"),
        ("show s-1", "there is no such file"),
        ("delete s-1", "there is no such file"),
        ("recover", "there is no such file"),
        ("resume s-1", "there is no such file"),
        ("list --store redis://x", "'memory:', 'sqlite:', 'sqlite:PATH' or 'postgres://USER@HOST/DATABASE'"),
        (
            "list --store postgres://nobody@127.0.0.1:1/x",
            "cannot be used now",
            "try: psql postgres://nobody@127.0.0.1:1/x",
        ),
        ("list --store postgres:", "agentrail serve --nodes"),
        ("list --store postgres://ada:secret@h/x", "list of processes", "PGPASSFILE"),
        ("list --store memory:", "name a file"),
        ("recover --store memory:", "name a file"),
        ("list --store sqlite:/etc/passwd", "is not a store of agentrail", "it was not modified"),
        ("list --data-dir /nowhere", "/nowhere/sessions.db", "--data-dir"),
    ):
        ran = await ask(*line.split())
        assert ran.code == 2, line
        assert all(word in ran.err for word in words), (line, ran.err)
        assert "Traceback" not in ran.err
    assert not (tmp_path / "data").exists()


# --- exports and forks


@pytest.mark.journal(24)
async def test_a_session_goes_to_another_store_and_back_is_the_same_and_a_changed_export_is_refused(
    ask, session, tmp_path
):
    """Export, import, export: one file, bit for bit; it is lived again without a difference. Of one that was changed nothing is in the store, and its record is named."""
    file = tmp_path / "session.jsonl"
    ran = await ask("export", session, "-o", str(file))
    assert (ran.code, ran.err) == (0, "")
    assert str(len(file.read_bytes())) in ran.out
    ran = await ask("import", str(file), store="other")
    assert (ran.code, ran.err) == (0, "")
    assert session in ran.out
    ran = await ask("export", session, store="other")
    assert ran.out.encode() == file.read_bytes()
    assert (await ask("check", store="other")).code == 0
    ran = await ask("export", session, "-o", str(file))
    assert (ran.code, "already exists" in ran.err) == (2, True)

    text = (await ask("export", session)).out
    file.write_text(text.replace("look around", "look another"))
    ran = await ask("import", str(file), store="third")
    assert ran.code == 1
    assert "record 1 is damaged" in ran.err or "record 3 is damaged" in ran.err
    assert (await ask("list", "--all", "--json", store="third")).out == ""
    assert (await ask("import", str(tmp_path / "nowhere.jsonl"))).code == 2
    file.write_text("hello\n")
    ran = await ask("import", str(file))
    assert (ran.code, "not an export of a session" in ran.err) == (2, True)


@pytest.mark.journal(25)
async def test_an_export_without_content_holds_no_word(ask, session):
    """Kinds, numbers, times and sizes; with content, a conversation is Markdown for people."""
    ran = await ask("export", session, "--no-content")
    assert ran.code == 0
    assert not any(word in ran.out for word in ("look around", "canary"))
    assert '"kind":"prompt"' in ran.out
    ran = await ask("export", session, "--no-content", "--format", "markdown")
    assert ran.code == 0
    assert ran.out.startswith("## User\n\n16 characters\n")

    ran = await ask("export", session, "--format", "markdown")
    assert ran.code == 0
    assert ran.out.startswith("## User\n\nlook around here")
    assert "**Calls list_dir**" in ran.out


async def test_a_terminal_gets_no_control_characters(tmp_path, kept):
    """A conversation may hold any, and a terminal would take them as commands. A program gets them as they are."""
    ran = await run_agentrail("run", "look \x1b]0;a title\x07 \x9bhere", *DEMO, "--keep", variables=kept)
    session = ran.err.rsplit(maxsplit=1)[-1]
    for arguments in (
        ("export", session, "--format", "markdown"),
        ("trace", session, "--json", "--limit", "3"),
    ):
        master, slave = os.openpty()
        with trio.fail_after(60):
            argv = command("sessions", *arguments)
            await trio.run_process(argv, stdout=slave, env={**os.environ, **kept})
        shown = os.read(master, 1 << 16).decode()
        os.close(master)
        os.close(slave)
        assert "a title" in shown
        assert not {"\x1b", "\x07", "\x9b"} & set(shown)
        ran = await run_agentrail("sessions", *arguments, variables=kept)
        assert "\x9bhere" in ran.out


@pytest.mark.journal(21)
@pytest.mark.at(146)
async def test_a_fork_is_in_the_list_and_can_be_gone_on_with_a_copy_of_its_files(
    ask, session, tmp_path, kept
):
    """It has what was said up to its number, the first is as it was, and files are copied to the directory that is named; what cannot be leaves nothing, in the store or beside it."""
    before = (await ask("export", session)).out
    ran = await ask("fork", session, "--turn", "1", "--id", "s-branch")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"s-branch: a fork of {session} after record ")
    rows = [json.loads(line) for line in (await ask("list", "--json")).out.splitlines()]
    assert {row["session"] for row in rows} == {session, "s-branch"}
    text = (await ask("export", "s-branch", "--format", "markdown")).out
    assert "look around here" in text
    assert (await ask("export", session)).out == before
    ran = await ask("fork", session, "--at", "1")
    assert ran.code == 0
    for line, said in (
        (f"{session} --at 99", "expected 1 to"),
        (f"{session} --turn 99", "expected 1 to"),
        (f"{session} --at 1 --turn 1", "give one of them"),
        (f"{session} --id s-branch", "s-branch"),
        ("s-nowhere", "sessions list"),
    ):
        ran = await ask("fork", *line.split())
        assert (ran.code, said in ran.err) == (2, True)

    place = tmp_path / "there"
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / "sub" / "a").write_text("a")
    line = ("run", "look", *DEMO, "--cwd", str(tmp_path / "work"), "--keep")
    ran = await run_agentrail(*line, variables=kept)
    session = ran.err.rsplit(maxsplit=1)[-1]
    ran = await ask("fork", session, "--id", "s-copy", "--files", str(place))
    assert (ran.code, ran.err) == (0, "")
    assert f"cd {place} && agentrail chat --resume s-copy" in ran.out
    assert (place / "sub" / "a").read_text() == "a"
    assert f'"working_dir":"{place}"' in (await ask("export", "s-copy")).out
    ran = await ask("fork", session, "--files", str(place))
    assert (ran.code, "it is not empty" in ran.err) == (2, True)
    other = tmp_path / "other"
    assert (await ask("fork", session, "--id", "s-copy", "--files", str(other))).code == 2
    assert not other.exists()


# --- sessions that were cut off, and those of other programs


async def test_recover_lets_a_killed_session_finish(ask, kept):
    """--dry-run says what would be decided and changes nothing; without it the session works to its end."""
    async with open_terminal("chat", "--model", "demo:", "--tools", "none", term="dumb", **kept) as typist:
        await typist.wait_for("> ")
        await typist.press("one two three\r", "This is a demo")
        typist.process.send_signal(signal.SIGKILL)
        await typist.wait_end()
    for _ in range(2):
        dry = await ask("recover", "--dry-run")
        assert (dry.code, "the request to demo: is sent again" in dry.out) == (0, True)
    ran = await ask("recover")
    assert (ran.code, "You said: one two three" in ran.out) == (0, True)
    assert "1 of 1 sessions came back" in ran.out
    assert " idle " in (await ask("list")).out


async def test_a_fork_has_an_id_that_other_commands_take(ask, session):
    """Nothing is forked else, and what is wrong is said of the flag. That nothing was cut off is said, too: silence could be a store that could not be read."""
    for name in ("a b", "", "local/x", session):
        ran = await ask("fork", session, "--id", name)
        is_taken = name == session
        said = (
            "already: give another --id"
            if is_taken
            else f"--id is {name!r}: expected 1 to 128 of A-Z a-z 0-9"
        )
        assert (ran.code, said in ran.err, "resume_session" in ran.err) == (2, True, False), name
    assert len((await ask("list", "--all")).out.splitlines()) == 1

    ran = await ask("recover", "--dry-run")
    assert (ran.code, ran.out) == (0, "nothing was interrupted: no session had work when its process ended\n")


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
def test_that_a_session_runs_follows_from_a_living_owner():
    """What is stored says that it works; without an owner it was interrupted."""
    names = {"scope": "", "session": "s", "root": "s", "parent": "", "forked_from": None, "node": "n"}
    numbers = {"opened_at_ms": 0, "written_at_ms": 0, "first_seq": 1, "tail": Tail(), "events": 0}
    for standing, is_owned, word in (
        (Standing(is_working=True), True, "running"),
        (Standing(is_working=True), False, "interrupted"),
        (Standing(), False, "idle"),
        (Standing(), True, "open"),
        (Standing(is_working=True, waits_for=1), True, "waits for you"),
        (Standing(has_ended=True), True, "ended"),
    ):
        stored = StoredSession(**names, **numbers, standing=standing)
        assert standing_word(stored, is_owned=is_owned) == word


async def test_how_sessions_are_to_be_kept_is_looked_at_before_anything_is_opened():
    """Each fault names the option and what it may be."""
    for given, words in (
        ({"store": "redis:"}, "'memory:', 'sqlite:', 'sqlite:PATH' or"),
        ({"store": ["postgres://a", "postgres://b"]}, "shards are not built"),
        ({"store": "postgres://a,postgres://b"}, "shards are not built"),
        ({"store": 7}, "or a store"),
        ({"store": "memory:", "store_patience": float("nan")}, "finite seconds >= 0.1"),
    ):
        with pytest.raises(OptionError, match=words):
            async with open_supervisor(**given):
                pass


async def test_scope_restricts_commands_about_several_sessions(tmp_path, kept):
    """Only sessions of the scope are listed, checked, exported and recovered, also where two scopes share an id."""
    place = ("--store", f"sqlite:{tmp_path / 'copied.db'}", "--scope", "acme")
    with closing(open_store(f"sqlite:{tmp_path / 'mine.db'}", None)) as store:
        async with open_supervisor(store=store) as supervisor:
            for scope in ("acme", "beta"):
                session = await supervisor.start_session(model="demo:", session_id="one", scope=scope)
                await session.prompt("hello")
            store.back_up(tmp_path / "copied.db")  # as after a crash in the middle of both
    spans, cases = tmp_path / "spans.jsonl", tmp_path / "cases"
    for line, said in (
        (("sessions", "list", *place), "acme/one "),
        (("sessions", "check", *place), "1 sessions are intact\n"),
        (("sessions", "recover", "--dry-run", *place), "acme/one: "),
        (("telemetry", "export", "--to", f"{spans}", *place), ""),
        (("evals", "journals", *place), "1 same\n"),
        (("sessions", "recover", *place), "1 of 1 sessions came back\n"),
        (("evals", "from-sessions", f"{cases}", *place), ""),
    ):
        ran = await run_agentrail(*line, variables=kept)
        assert (ran.code, said in ran.out, "beta" in ran.out) == (0, True, False), (line, ran)
    assert len((cases / "cases.jsonl").read_text().splitlines()) == 1
    assert "beta" not in spans.read_text()
