"""Files of a session that goes back: what its tools wrote becomes what it was, and nothing else is touched."""

import pytest
import trio

import agentrail
from agentrail.abc import ExecuteOptions, ToolContext
from agentrail.errors import OptionError, SandboxError, StoreUnavailable
from agentrail.events import AgentEnd
from agentrail.runtime.file_restore import RestoredFiles
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import calling, on_bounded_time, until

pytestmark = on_bounded_time


@agentrail.tool
async def put(ctx: ToolContext, path: str, text: str) -> str:
    """Write a file."""
    done = await ctx.sandbox.write(path, text)
    return "done" if done.error is None else done.error.message


@agentrail.tool
async def change(ctx: ToolContext, path: str, old: str, new: str) -> str:
    """Change a file."""
    done = await ctx.sandbox.edit(path, old, new)
    return "done" if done.error is None else done.error.message


@agentrail.tool
async def run(ctx: ToolContext, command: str) -> str:
    """Run a command."""
    done = await ctx.sandbox.execute(command, ExecuteOptions())
    return done.output if done.error is None else done.error.message


TOOLS = [put, change, run]


def open_kept(store, **options):
    """Open a supervisor that keeps its sessions there, and runs commands as they are."""
    return open_nameless(
        lambda _name, root: LocalSandbox(root, shell_fallback="unconfined"), store=store, **options
    )


def writing(*turns):
    """A model that calls a tool in each prompt, and then says so."""
    return ScriptedModel([part for turn in turns for part in (calls(turn), says("ok"))])


async def last_of(session):
    return (await session.journal(limit=10_000))[-1].number


async def worked(supervisor, root, *turns, **options):
    """Let a session make these calls, one for each prompt; give it with the number before them."""
    session = await supervisor.start_session(model=writing(*turns), tools=TOOLS, working_dir=root, **options)
    number = await last_of(session)
    for _ in turns:
        await session.ask("Go")
    return session, number


def put_calls(text, *paths):
    """Calls that write this text to each of these files."""
    return [("put", {"path": path, "text": text}) for path in paths]


def texts(root):
    """Give all files below a directory with what is in them."""
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.fixture(params=["immediate", "threaded"])
def store(request):
    """A store that is written at once, and one that takes its time in a thread."""
    kept = MemoryStore() if request.param == "immediate" else FaultyStore(MemoryStore())
    yield kept
    if isinstance(kept, FaultyStore):
        kept.mend()


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "work"
    made.mkdir()
    return made


# --- going back


@pytest.mark.at(146)
async def test_exactly_what_the_session_wrote_is_what_it_was(store, root):
    """Changed, made, made in new directories; files of others stay, and directories that are empty then go."""
    (root / "old.txt").write_text("as it was\n")
    (root / "other.txt").write_text("a person's\n")
    async with no_orphans(), open_kept(store) as supervisor:
        model = writing(
            *put_calls("first", "before.txt"),
            ("change", {"path": "old.txt", "old": "was", "new": "is"}),
            *put_calls("second", "new/deep/a.txt", "before.txt"),
        )
        session = await supervisor.start_session(model=model, tools=TOOLS, working_dir=root)
        await session.ask("1")
        number = await last_of(session)
        for word in "234":
            await session.ask(word)
        (root / "other.txt").write_text("a person's, later\n")
        assert texts(root)["old.txt"] == "as it is\n"

        rewound = await session.rewind(number, files=True)

        assert rewound.files == RestoredFiles(restored=("old.txt", "before.txt"), removed=("new/deep/a.txt",))
        assert texts(root) == {
            "old.txt": "as it was\n",
            "other.txt": "a person's, later\n",
            "before.txt": "first",
        }
        assert not (root / "new").exists()
        assert (await session.rewind(number)).files is None


@pytest.mark.journal(23)
@pytest.mark.at(146)
async def test_a_file_that_a_person_has_edited_is_a_conflict_and_untouched(store, root):
    """Edited, removed, made a directory or a link; with force the person's text is overwritten, and can be brought back."""
    async with no_orphans(), open_kept(store) as supervisor:
        paths = ["edited", "removed", "folder", "link", "mine"]
        for path in paths:
            (root / path).write_text("at first")
        session, number = await worked(supervisor, root, *put_calls("ours", *paths))
        (root / "edited").write_text("a person's")
        (root / "removed").unlink()
        (root / "folder").unlink()
        (root / "folder").mkdir()
        (root / "link").unlink()
        (root / "link").symlink_to("mine")

        files = (await session.rewind(number, files=True)).files

        assert files.restored == ("mine",)
        assert {one.path: one.why.split(". ")[0].rstrip(".") for one in files.conflicts} == {
            "edited": "It has been changed since",
            "removed": "It has been removed since",
            "folder": "folder is a directory",
            "link": "link is a link, and links are not written through",
        }
        assert (files.failed, files.removed) == ((), ())
        assert texts(root) == {"edited": "a person's", "mine": "at first"}
        assert (root / "link").is_symlink()

        between = await last_of(session)
        files = (await session.rewind(number, files=True, force=True)).files
        assert files.restored == ("edited", "removed")
        assert [one.path for one in files.conflicts] == ["folder", "link"]
        assert texts(root) == {"edited": "at first", "removed": "at first", "mine": "at first"}
        files = (await session.rewind(between, files=True)).files
        assert (files.restored, files.removed) == (("edited",), ("removed",))
        assert (root / "edited").read_text() == "a person's"


async def test_modes_are_kept_and_a_mode_that_a_person_sets_stays(store, root):
    """Of a file that may be run; the content is what counts for a conflict."""
    for name in ("tool", "mine"):
        (root / name).write_text("#!/bin/sh\n")
        (root / name).chmod(0o755)
    async with no_orphans(), open_kept(store) as supervisor:
        session, number = await worked(supervisor, root, *put_calls("new", "tool", "mine"))
        (root / "mine").chmod(0o700)
        await session.rewind(number, files=True)
        assert [(root / name).read_text() for name in ("tool", "mine")] == ["#!/bin/sh\n"] * 2
        assert [(root / name).stat().st_mode & 0o777 for name in ("tool", "mine")] == [0o755, 0o700]


async def test_binary_and_large_files_are_told_apart(root, monkeypatch):
    """Bytes come back as they were; of what is too large only the digest is known, and it stays as it is, with a reason."""
    monkeypatch.setattr("agentrail.sandboxes.versions.MAX_KEPT_BYTES", 1000)
    noise = bytes(range(256))
    (root / "noise").write_bytes(noise)
    (root / "large").write_text("x" * 1001)
    async with no_orphans(), open_kept(MemoryStore()) as supervisor:
        session, number = await worked(supervisor, root, *put_calls("small", "noise", "large"))
        files = (await session.rewind(number, files=True, force=True)).files
        assert files.restored == ("noise",)
        assert [(one.path, one.why) for one in files.failed] == [
            ("large", "It had 1,001 bytes, and at most 1,000 are kept.")
        ]
        assert (root / "noise").read_bytes() == noise
        assert (root / "large").read_text() == "small"


async def test_calls_that_run_commands_are_named_as_untold(store, root):
    """What they wrote stays; where they wrote over what a tool had written, that is a conflict."""
    async with no_orphans(), open_kept(store) as supervisor:
        session, number = await worked(
            supervisor,
            root,
            ("put", {"path": "a", "text": "1"}),
            ("run", {"command": "echo more >> a; echo x > b; echo y > c"}),
            ("put", {"path": "c", "text": "2"}),
        )
        files = (await session.rewind(number, files=True)).files
        assert [(one.tool, one.number > number) for one in files.untold] == [("run", True)]
        assert [one.path for one in files.conflicts] == ["a"]
        assert files.restored == ("c",)
        assert texts(root) == {"a": "1more\n", "b": "x\n", "c": "y\n"}


# --- what goes wrong


async def test_a_store_that_is_away_lets_nothing_be_written(root):
    """What cannot be noted is not done, and the model reads why."""
    store = FaultyStore(MemoryStore())
    (root / "a").write_text("mine")
    async with open_kept(store, store_patience=0.2) as supervisor:

        @agentrail.tool
        async def cut(ctx: ToolContext) -> str:
            """Write while the store is away."""
            await ctx.sandbox.write("a", "first")
            store.go_away()
            try:
                done = await ctx.sandbox.write("a", "second")
                ran = await ctx.sandbox.execute("echo x > b", ExecuteOptions())
                assert (root / "a").read_text() == "first"
            finally:
                store.mend()
            assert done.error is not None
            assert ran.error is not None
            return f"{done.error.code}: {done.error.message} {ran.error.code}"

        session = await supervisor.start_session(
            model=calling("cut", then="ok"), tools=[cut], working_dir=root
        )
        number = await last_of(session)
        async with session.subscribe() as events:
            with pytest.raises(StoreUnavailable):  # the cycle goes on when the store is back
                await session.ask("Go")
            await until(events, AgentEnd)
        (result,) = (await session.messages())[2].results
        assert "io_error: It was not written, because the store" in result.text
        files = (await session.rewind(number, files=True)).files
        assert (files.restored, files.conflicts) == (("a",), ())
        assert texts(root) == {"a": "mine"}


async def test_a_disk_that_is_full_changes_no_file(root, monkeypatch):
    """All of it stands beside its places before the first is put there; nothing is left of that."""
    async with no_orphans(), open_kept(MemoryStore()) as supervisor:
        for path in ("a", "b"):
            (root / path).write_text("at first")
        session, number = await worked(supervisor, root, *put_calls("ours", "a", "b", "new/c"))
        synced = []

        def full(descriptor):
            synced.append(descriptor)
            if len(synced) == 2:
                raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("agentrail.sandboxes.versions.os.fsync", full)
            files = (await session.rewind(number, files=True)).files
        assert {one.why for one in files.failed} == {"the working directory: there is no space left."}
        assert len(files.failed) == 3
        assert texts(root) == {"a": "ours", "b": "ours", "new/c": "ours"}
        files = (await session.rewind(number, files=True)).files
        assert (files.restored, files.removed) == (("a", "b"), ("new/c",))
        assert texts(root) == {"a": "at first", "b": "at first"}


async def test_a_secret_in_a_file_is_stored_nowhere(tmp_path, root):
    """Neither its content nor its digest: it is said that it is not kept, and a conflict is never risked."""
    canary = "sk-canary-0123456789"
    place = tmp_path / "sessions.db"
    (root / "a").write_text(f"key = {canary}\n")
    kept = SqliteStore(place)
    async with open_kept(kept) as supervisor:
        session, number = await worked(
            supervisor, root, *put_calls("key = ?\n", "a"), provider_opts={"api_key": canary}
        )
        files = (await session.rewind(number, files=True)).files
        assert [(one.path, one.why) for one in files.failed] == [
            ("a", "It contained a secret, and secrets are not kept.")
        ]
    kept.close()
    assert not any(canary.encode() in path.read_bytes() for path in tmp_path.glob("sessions.db*"))


async def test_links_and_paths_that_lead_elsewhere_are_not_written_through(root, tmp_path):
    """A directory that has become a link, out of the workspace or inside of it: nothing behind it is touched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("ours")
    (root / "there").mkdir()
    async with no_orphans(), open_kept(MemoryStore()) as supervisor:
        session, number = await worked(supervisor, root, *put_calls("ours", "d/a", "e/a"))
        for name, to in (("d", outside), ("e", "there")):
            (root / name / "a").unlink()
            (root / name).rmdir()
            (root / name).symlink_to(to)
        (root / "there" / "a").write_text("ours")
        for force in (False, True):
            files = (await session.rewind(number, files=True, force=force)).files
            assert [one.path for one in files.conflicts] == ["d/a", "e/a"]
        assert (outside / "a").read_text() == (root / "there" / "a").read_text() == "ours"


async def test_what_cannot_be_is_refused_before_anything_is_stopped(root):
    """No store, and a sandbox that keeps nothing."""
    async with no_orphans(), open_kept(None) as supervisor:
        session = await supervisor.start_session(model=writing(), working_dir=root)
        with pytest.raises(OptionError, match="needs a store"):
            await session.rewind(1, files=True)
    async with no_orphans(), open_kept(MemoryStore()) as supervisor:
        session = await supervisor.start_session(model=writing(), sandbox=MemorySandbox())
        with pytest.raises(OptionError, match="such as LocalSandbox; got MemorySandbox"):
            await session.rewind(1, files=True)
        with pytest.raises(OptionError, match="such as LocalSandbox; got MemorySandbox"):
            await session.fork(1, files=True)


# --- forks


async def test_a_fork_with_files_works_in_a_copy_of_them_as_they_were(store, root):
    """Links are copied as they are; the session and its fork write apart from there on."""
    (root / "sub").mkdir()
    (root / "sub" / "other").write_text("other")
    (root / "sub" / "link").symlink_to("other")
    (root / "sub" / "other").chmod(0o755)
    async with no_orphans(), open_kept(store) as supervisor:
        turns = *put_calls("1", "a"), *put_calls("2", "a", "new/b"), *put_calls("fork", "a")
        session = await supervisor.start_session(model=writing(*turns), tools=TOOLS, working_dir=root)
        await session.ask("1")
        number = await last_of(session)
        await session.ask("2")
        await session.ask("3")
        fork = await session.fork(number, files=True, session_id="f-1")
        copy = root.parent / "work-f-1"
        assert texts(copy) == {"a": "1", "sub/other": "other"}
        assert str((copy / "sub" / "link").readlink()) == "other"
        assert (copy / "sub" / "other").stat().st_mode & 0o777 == 0o755
        assert await fork.ask("4") == "ok"
        assert (copy / "a").read_text() == "fork"
        assert texts(root) == {"a": "2", "new/b": "2", "sub/other": "other"}
        start = 1
        assert (await fork.rewind(start, files=True)).files.restored == ("a",)
        assert (copy / "a").read_text() == "1"
        assert not [path for path in root.parent.iterdir() if path.name.startswith(".agentrail")]


async def test_a_fork_of_a_session_with_a_sandbox_of_its_own_gets_one_like_it(root, tmp_path):
    """With the same settings, in the directory that is named."""
    own = LocalSandbox(root, shell_fallback="unconfined", protected=["secret.txt"])
    async with no_orphans(), open_kept(MemoryStore()) as supervisor:
        model = writing(*put_calls("1", "a", "secret.txt"))
        session = await supervisor.start_session(model=model, tools=TOOLS, sandbox=own, working_dir=root)
        await session.ask("1")
        fork = await session.fork(files=True, working_dir=tmp_path / "there")
        await fork.ask("2")
        assert texts(tmp_path / "there") == {"a": "1"}
        assert "protected" in (await fork.messages())[-2].results[0].text
    await own.aclose()


async def store_is_back(supervisor):
    """Wait until a record that waited for company, and met the full disk, is written."""
    with trio.fail_after(10):
        while True:
            try:
                return await supervisor.check_store()
            except StoreUnavailable:
                await trio.sleep(0.05)


async def test_a_fork_that_does_not_come_about_leaves_no_copy(store, root, tmp_path):
    """A directory with something in it, one inside of what is copied, an id that is taken, another sandbox, a number that is none."""
    (root / "a").write_text("1")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    (tmp_path / "empty").mkdir()
    async with no_orphans(), open_kept(store, store_patience=0.2) as supervisor:
        session = await supervisor.start_session(
            model=writing(), working_dir=root, session_id="s-1", tools=TOOLS
        )
        before = sorted(path.name for path in tmp_path.iterdir())
        for place, said in (
            (tmp_path / "full", "it is not empty"),
            (root / "in", "inside the copied directory"),
        ):
            with pytest.raises(SandboxError, match=said):
                await session.fork(files=True, working_dir=place)
        with pytest.raises(OptionError, match="another one is given"):
            await session.fork(files=True, sandbox=MemorySandbox())
        with pytest.raises(OptionError, match="expected 1 to"):
            await session.fork(99, files=True)
        for no_id in ("a/b", "", 0, False, b"x"):
            with pytest.raises(OptionError, match=r"session_id is .*: expected 1 to 128"):
                await session.fork(files=True, session_id=no_id)
        with pytest.raises(OptionError, match="the id"):
            await session.fork(files=True, session_id="a:b")  # not a directory name
        for no_path in (7, "a\0", "\ud800"):
            with pytest.raises(OptionError, match=r"working_dir is .*: expected a path, without NUL"):
                await session.fork(files=True, working_dir=no_path)
        if isinstance(store, FaultyStore):
            store.go_away()
            with pytest.raises(StoreUnavailable), trio.move_on_after(15):
                await session.fork(files=True)
            store.mend()
            await store_is_back(supervisor)
        assert sorted(path.name for path in tmp_path.iterdir()) == before
        fork = await session.fork(files=True, working_dir=tmp_path / "empty")
        assert texts(tmp_path / "empty") == {"a": "1"}
        await fork.stop()
