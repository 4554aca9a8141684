"""`check_sandbox`: tests the rules of every sandbox through the port alone, for our sandboxes and yours.

async def test_mine():
await check_sandbox(MySandbox)
"""

import codecs
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeAlias, cast

import trio

from agentrail.abc import (
    DirectoryEntry,
    ExecuteOptions,
    FileBytes,
    GrepLine,
    GrepOptions,
    ProcessOptions,
    ProcessSandbox,
    Refusal,
    Sandbox,
    SnapshotSandbox,
    ToolProcess,
)
from agentrail.abc.versions import VersionedSandbox
from agentrail.core.journal.file_changes import FileWrite, WantedFile
from agentrail.core.values.port_members import offers
from agentrail.errors import ProcessRefused
from agentrail.testing.rule_failures import rules_on, under_rule

# Interactive processes.


async def opens_processes(sandbox: Sandbox) -> None:
    """A process takes input while it runs, ends with its code, and is gone with its block. If none may run, it is refused."""
    if not offers(sandbox, ProcessSandbox):
        return
    await sandbox.write("d/a", "words")
    if "execute" not in sandbox.capabilities or not await _opens_any(sandbox):
        return
    script = 'read line; echo "$line"; cat a; echo "$WORD"; exit 3'
    options = ProcessOptions(workdir="d", env={"WORD": "there"})
    async with sandbox.open_process(("sh", "-c", script), options) as process:
        await process.stdin.send_all(b"hello\n")
        said = await _read_to_end(process)
        assert (said, await process.wait()) == (b"hello\nwordsthere\n", 3), said
    async with sandbox.open_process(("sh", "-c", "echo begun; sleep 1000 & sleep 1000"), options) as process:
        assert await process.stdout.receive_some() == b"begun\n"
        await process.stop()
        await process.stop()
        assert await process.wait() != 0, "a stopped process ended as if it had finished"
    for workdir, code in (("..", "invalid_path"), ("d/a", "invalid_path"), ("missing", "file_not_found")):
        found = await _refusal_of(sandbox, ProcessOptions(workdir=workdir))
        assert found == code, f"workdir {workdir}: expected {code}, got {found}"


async def _opens_any(sandbox: ProcessSandbox) -> bool:
    """Try one: some sandboxes find out only then that no process may run."""
    refused = await _refusal_of(sandbox, ProcessOptions())
    assert refused in {None, "unsupported"}, refused
    return refused is None


async def _refusal_of(sandbox: ProcessSandbox, options: ProcessOptions) -> str | None:
    try:
        async with sandbox.open_process(("sh", "-c", "exit 0"), options):
            return None
    except ProcessRefused as refused:
        return refused.code


async def _read_to_end(process: ToolProcess) -> bytes:
    with trio.fail_after(30):
        return b"".join([piece async for piece in process.stdout])


# The capability `versions`.


class _Notes:
    def __init__(self) -> None:
        self.writes: list[FileWrite] = []
        self.contents: dict[str, bytes] = {}
        self.taken_back: list[FileWrite] = []
        self.commands = 0
        self.refusal: Refusal | None = None

    async def keep(self, changes: Sequence[FileWrite], contents: Mapping[str, bytes]) -> Refusal | None:
        self.writes += changes
        self.contents |= contents
        return self.refusal

    def take_back(self, changes: Sequence[FileWrite]) -> None:
        self.taken_back += changes

    async def keep_command(self) -> Refusal | None:
        self.commands += 1
        return self.refusal

    def wanted(self) -> tuple[WantedFile, ...]:
        """Return the files that undo all recorded writes."""
        first: dict[str, FileWrite] = {}
        for one in self.writes:
            first.setdefault(one.path, one)
        last = {one.path: one for one in self.writes}
        return tuple(
            [
                WantedFile(
                    path=path,
                    then=one.before,
                    left=(last[path].after,),
                    directories=one.directories,
                )
                for path, one in first.items()
            ]
        )


async def notes_what_it_writes(sandbox: Sandbox) -> None:
    """With the capability `versions`, each write is announced before it is made, and a refused write is not made."""
    if "versions" not in sandbox.capabilities:
        return
    notes = _Notes()
    kept = cast("VersionedSandbox", sandbox).kept_by(notes)
    await sandbox.write("a", "old")
    await kept.write("a", "new")
    await kept.edit("a", "new", "newer")
    await kept.upload([FileBytes(path="d/b", content=b"\0")])
    told = [(one.path, one.before is None, one.after is None, one.directories) for one in notes.writes]
    assert told == [("a", False, False, 0), ("a", False, False, 0), ("d/b", True, False, 1)], told
    assert sorted(notes.contents.values()) == [b"\0", b"new", b"newer", b"old"], notes.contents
    notes.refusal = Refusal(code="io_error", message="no")
    _expect_code((await kept.write("a", "x")).error, "io_error", "a write that cannot be recorded")
    _expect_code((await kept.edit("a", "newer", "x")).error, "io_error", "an edit that cannot be recorded")
    _expect_code((await kept.upload([FileBytes(path="e", content=b"x")]))[0].error, "io_error", "an upload")
    _expect_code((await kept.execute("touch f", ExecuteOptions())).error, "io_error", "a command")
    assert len(notes.taken_back) == len(notes.writes) - len(told), notes.taken_back
    await _expect_text(sandbox, "a", "newer")
    assert not await sandbox.exists("e"), "a refused write was written"
    assert not await sandbox.exists("f"), "a refused command was run"


async def puts_files_back(sandbox: Sandbox) -> None:
    """With `versions`, exactly the written files are restored. Later writes of others are a conflict, unless forced."""
    if "versions" not in sandbox.capabilities:
        return
    versioned, notes = cast("VersionedSandbox", sandbox), _Notes()
    kept = versioned.kept_by(notes)
    for path in ("a", "b", "other"):
        await sandbox.write(path, "old")
    for path in ("a", "b", "d/e/new"):
        await kept.write(path, "new")
    await sandbox.write("b", "a person's")
    await sandbox.write("other", "newer")
    wanted, content = notes.wanted(), dict(notes.contents)
    undo = _Notes()
    for force, outcomes in (
        (False, ["restored", "conflict", "removed"]),
        (True, ["same", "restored", "same"]),
    ):
        put = await versioned.put_back(wanted, content.get, undo, force=force)
        found = {one.path: one.outcome for one in put}
        assert found == dict(zip(("a", "b", "d/e/new"), outcomes, strict=True)), put
        await _expect_text(sandbox, "a", "old")
        await _expect_text(sandbox, "b", "old" if force else "a person's")
        assert not await sandbox.exists("d"), "directories created for a file remain after its removal"
    await _expect_text(sandbox, "other", "newer")
    assert b"a person's" in undo.contents.values(), "a forced overwrite is not recorded"
    undone = await versioned.put_back(undo.wanted(), (content | undo.contents).get, _Notes())
    assert {one.outcome for one in undone} == {"restored"}, undone
    await _expect_text(sandbox, "b", "a person's")
    (lost,) = await versioned.put_back(
        [WantedFile(path="b", then=wanted[0].then, left=(None,))], lambda _: None, _Notes(), force=True
    )
    assert lost.outcome == "failed", "a file was created without its content"


SandboxFactory: TypeAlias = Callable[[], Sandbox]

_RULE_SECONDS: Final = 60.0


async def check_sandbox(make: SandboxFactory) -> None:
    """Test a sandbox against the port.

    Args:
        make: Returns a new, empty sandbox on each call. It is closed here.

    Raises:
        AssertionError: A rule is broken. The message contains the rule and the result.

    Cancellation: Closes the sandbox of the current rule.
    """
    for rule in SANDBOX_RULES:
        async with aclosing(make()) as sandbox:
            with under_rule(rule, sandbox), trio.fail_after(_RULE_SECONDS):
                await rule(sandbox)


# --- files


async def keeps_what_is_written(sandbox: Sandbox) -> None:
    """Written content is read back, missing directories are created, and old content is replaced."""
    written = await sandbox.write("a/b/c.txt", "one\ntwo\n")
    assert (written.error, written.is_new, written.total_lines, written.size_bytes) == (None, True, 2, 8), (
        written
    )
    await _expect_text(sandbox, "a/b/c.txt", "one\ntwo\n")
    again = await sandbox.write("a/b/c.txt", "")
    assert (again.error, again.is_new, again.total_lines) == (None, False, 0), again
    await _expect_text(sandbox, "a/b/c.txt", "")
    assert written.sha256 != again.sha256, "two contents have the same hash"
    assert (written.sha256_before, again.sha256_before) == (None, written.sha256), again
    assert (await sandbox.write("d", "one\ntwo\n")).sha256 == written.sha256, "one content has two hashes"


async def reads_in_pages(sandbox: Sandbox) -> None:
    """A page has the requested lines, with their ends. Past the end it is empty, and the total is returned."""
    await sandbox.write("a", "1\n2\r\n3\n4")
    for offset, limit, text in (
        (1, None, "1\n2\r\n3\n4"),
        (2, 2, "2\r\n3\n"),
        (4, 9, "4"),
        (5, 1, ""),
        (1, 0, ""),
    ):
        page = await sandbox.read("a", offset=offset, limit=limit)
        assert (page.error, page.text, page.total_lines, page.size_bytes) == (None, text, 4, 8), page


async def edits_what_is_meant(sandbox: Sandbox) -> None:
    """An edit replaces the one occurrence, or all on request, and shows a diff."""
    written = await sandbox.write("a", "x\ny\nx\n")
    one = await sandbox.edit("a", "y\n", "z\n")
    assert (one.error, one.replacements) == (None, 1), one
    assert "-y\n+z\n" in one.diff, one.diff
    assert one.sha256_before == written.sha256, one
    every = await sandbox.edit("a", "x", "w", replace_all=True)
    assert (every.error, every.replacements) == (None, 2), every
    await _expect_text(sandbox, "a", "w\nz\nw\n")


async def refuses_unclear_edits(sandbox: Sandbox) -> None:
    """An ambiguous edit changes nothing and says why."""
    await sandbox.write("a", "x\nx\n")
    for old, new, code in (
        ("y", "z", "old_not_found"),
        ("x", "y", "old_not_unique"),
        ("", "y", "invalid_edit"),
        ("x", "x", "invalid_edit"),
        ("x", "\ud800", "not_text"),
    ):
        _expect_code((await sandbox.edit("a", old, new)).error, code, f"edit {old!r} to {new!r}")
    await _expect_text(sandbox, "a", "x\nx\n")


async def keeps_line_ends_and_marks(sandbox: Sandbox) -> None:
    """An edit matches without regard to carriage returns, and keeps the file's line ends and mark."""
    for data, expected in (
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nBB\r\nc\r\n"),
        (codecs.BOM_UTF8 + b"b\n", codecs.BOM_UTF8 + b"B\nBB\n"),
        (
            codecs.BOM_UTF16_LE + "é\nb\n".encode("utf-16-le"),
            codecs.BOM_UTF16_LE + "é\nB\nBB\n".encode("utf-16-le"),
        ),
    ):
        await sandbox.upload([FileBytes(path="a", content=data)])
        edited = await sandbox.edit("a", "b\n", "B\nBB\n")
        assert edited.error is None, edited
        (found,) = await sandbox.download(["a"])
        assert found.content == expected, found


async def writes_one_after_another(sandbox: Sandbox) -> None:
    """Concurrent edits of one file do not undo each other."""
    count = 20
    await sandbox.write("a", "".join(f"<{n}>\n" for n in range(count)))

    async def edit(n: int) -> None:
        edited = await sandbox.edit("a", f"<{n}>", f"[{n}]")
        assert edited.error is None, edited

    async with trio.open_nursery() as nursery:
        for n in range(count):
            nursery.start_soon(edit, n)
    await _expect_text(sandbox, "a", "".join(f"[{n}]\n" for n in range(count)))


async def moves_bytes(sandbox: Sandbox) -> None:
    """Uploads and downloads move bytes, answer per file and in order, and continue after a failure of one file."""
    every = bytes(range(256))
    uploads = await sandbox.upload(
        [
            FileBytes(path="a/x", content=every),
            FileBytes(path="../y", content=b"y"),
            FileBytes(path="z", content=b""),
        ]
    )
    assert [(one.path, one.size_bytes) for one in uploads] == [("a/x", 256), ("../y", 0), ("z", 0)], uploads
    assert [one.error and one.error.code for one in uploads] == [None, "invalid_path", None], uploads
    downloads = await sandbox.download(["z", "missing", "a/x", "a"])
    assert [one.content for one in downloads] == [b"", None, every, None], downloads
    codes = [one.error and one.error.code for one in downloads]
    assert codes == [None, "file_not_found", None, "is_directory"], codes


async def lists_directories(sandbox: Sandbox) -> None:
    """A listing has directories first, then files with their sizes, both by name. `exists` is true for both."""
    for path in ("b.txt", "a.txt", "d/x", "c/x"):
        await sandbox.write(path, "123")
    listing = await sandbox.list_dir(".")
    assert listing.error is None, listing
    assert listing.entries == (
        DirectoryEntry(name="c", kind="dir"),
        DirectoryEntry(name="d", kind="dir"),
        DirectoryEntry(name="a.txt", kind="file", size_bytes=3),
        DirectoryEntry(name="b.txt", kind="file", size_bytes=3),
    ), listing
    there = [await sandbox.exists(path) for path in ("c", "c/x", ".", "c/y", "e")]
    assert there == [True, True, True, False, False], there


# --- refusals


async def refuses_bad_paths(sandbox: Sandbox) -> None:
    """A path that leads elsewhere or is invalid is `invalid_path` for every operation, and never exists."""
    for path in (*_BAD_PATHS, "x" * 256, "a/" * 2048 + "b"):
        for refusal in await _try_all(sandbox, path):
            _expect_code(refusal, "invalid_path", f"path {path[:50]!r}")
        assert not await sandbox.exists(path), f"path {path[:50]!r} exists"


async def refuses_protected_names(sandbox: Sandbox) -> None:
    """Names that programs trust are never written, existing or not, in any case and at any depth."""
    for path in _PROTECTED_PATHS:
        _expect_code((await sandbox.write(path, "x")).error, "permission_denied", f"write {path}")
        (upload,) = await sandbox.upload([FileBytes(path=path, content=b"x")])
        _expect_code(upload.error, "permission_denied", f"upload {path}")
        _expect_code((await sandbox.edit(path, "x", "y")).error, "permission_denied", f"edit {path}")
        assert not await sandbox.exists(path), f"{path} exists"
    for path in (".git/description", "config", "a.git", ".github/x"):
        assert (await sandbox.write(path, "x")).error is None, f"{path} is protected"


async def says_what_is_in_the_way(sandbox: Sandbox) -> None:
    """A missing file is `file_not_found` with the names of existing files. Files and directories are distinguished."""
    await sandbox.write("src/app.py", "x")
    missing = (await sandbox.read("src/ap.py")).error
    _expect_code(missing, "file_not_found", "read of a missing file")
    assert missing is not None
    assert "app.py" in missing.message, missing
    _expect_code(
        (await sandbox.edit("src/ap.py", "x", "y")).error, "file_not_found", "edit of a missing file"
    )
    _expect_code((await sandbox.list_dir("scr")).error, "file_not_found", "list_dir of a missing directory")
    for refusal in (
        (await sandbox.read("src")).error,
        (await sandbox.write("src", "x")).error,
        (await sandbox.edit("src", "x", "y")).error,
    ):
        _expect_code(refusal, "is_directory", "a directory where a file is needed")
    for refusal in (
        (await sandbox.list_dir("src/app.py")).error,
        (await sandbox.read("src/app.py/x")).error,
        (await sandbox.write("src/app.py/x", "x")).error,
        (await sandbox.glob("*", "src/app.py")).error,
    ):
        _expect_code(refusal, "invalid_path", "a file where a directory is needed")


async def reads_text_only(sandbox: Sandbox) -> None:
    """Content that is not text is `not_text`, with its type and size, wherever the bytes are. Too large content is not written."""
    for data in (b"\x89PNG\0", b"caf\xe9", b"x" * 100_000 + b"\xff"):
        await sandbox.upload([FileBytes(path="logo.png", content=data)])
        for refusal in (
            (await sandbox.read("logo.png", limit=1)).error,
            (await sandbox.edit("logo.png", "x", "y")).error,
        ):
            _expect_code(refusal, "not_text", f"{len(data)} bytes")
            assert refusal is not None
            assert "image/png" in refusal.message, refusal
            assert f"{len(data):,} bytes" in refusal.message, refusal
    _expect_code((await sandbox.write("a", "\ud800")).error, "not_text", "a lone surrogate")
    _expect_code((await sandbox.write("a", "x" * ((10 << 20) + 1))).error, "too_large", "10 MiB and a byte")
    assert not await sandbox.exists("a"), "a refused write left a file"


# --- searching


async def finds_names(sandbox: Sandbox) -> None:
    """`glob` knows `* ** ? [a-z] {a,b}`. Paths count from the root and are sorted, directories end with a slash."""
    for path in (
        "a.py",
        "b.txt",
        "src/a.py",
        "src/deep/er/c.py",
        "src/[x].py",
        ".hidden/d.py",
        "node_modules/e.py",
    ):
        await sandbox.write(path, "x")
    for pattern, path, expected in (
        ("*.py", ".", ("a.py",)),
        ("**/*.py", ".", (".hidden/d.py", "a.py", "src/[x].py", "src/a.py", "src/deep/er/c.py")),
        ("?.{py,txt}", ".", ("a.py", "b.txt")),
        ("[!a].*", ".", ("b.txt",)),
        ("*/", ".", (".hidden/", "src/")),
        ("**/er/*", "src", ("src/deep/er/c.py",)),
        (r"\[x].py", "src", ("src/[x].py",)),
        ("node_modules/*", ".", ("node_modules/e.py",)),
        ("nothing", ".", ()),
    ):
        found = await sandbox.glob(pattern, path)
        assert (found.error, found.paths, found.truncated) == (None, expected, False), (pattern, found)
    for pattern in ("", "/a", "../*", "{a,..}/b", "[z-a]"):
        _expect_code((await sandbox.glob(pattern, ".")).error, "invalid_pattern", f"pattern {pattern!r}")


async def finds_text(sandbox: Sandbox) -> None:
    """`grep` returns matching lines by path and number, with context, and reports if there are more."""
    await sandbox.write("b.txt", "one\ntwo\r\nthree\nfour\n")
    await sandbox.write("a/a.txt", "Two\n")
    found = await sandbox.grep("t(wo|en)", ".", GrepOptions(context_lines=1))
    assert (found.error, found.searched_files, found.truncated) == (None, 2, False), found
    assert found.lines == (
        GrepLine(path="b.txt", number=1, text="one", is_match=False),
        GrepLine(path="b.txt", number=2, text="two"),
        GrepLine(path="b.txt", number=3, text="three", is_match=False),
    ), found
    await _expect_lines(sandbox, "two", GrepOptions(ignore_case=True), [("a/a.txt", 1), ("b.txt", 2)])
    await _expect_lines(sandbox, "o$", GrepOptions(include="b.*"), [("b.txt", 2)])
    await _expect_lines(sandbox, "o$", GrepOptions(include="a/*"), [("a/a.txt", 1)])
    await _expect_lines(sandbox, "T", GrepOptions(), [("a/a.txt", 1)], path="a")
    await _expect_lines(sandbox, "two", GrepOptions(), [("b.txt", 2)], path="b.txt")
    few = await sandbox.grep(".", ".", GrepOptions(max_results=2, context_lines=0))
    assert ([line.path for line in few.lines], few.truncated) == (["a/a.txt", "b.txt"], True), few
    exact = await sandbox.grep("o", ".", GrepOptions(max_results=4))
    assert not exact.truncated, exact


async def passes_over_what_is_no_source(sandbox: Sandbox) -> None:
    """`grep` honours `.gitignore`, and skips binary files and directories of generated files."""
    await sandbox.write(".gitignore", "*.log\n!keep.log\n/only\nsub/out\n")
    await sandbox.write("sub/.gitignore", "!back.log\n")
    for path in (
        "a.log",
        "keep.log",
        "only/x",
        "sub/only/x",
        "sub/out/x",
        "sub/back.log",
        "vendor/x",
        "a/.venv/x",
    ):
        await sandbox.write(path, "needle\n")
    await sandbox.upload(
        [FileBytes(path="bin", content=b"needle\n\0"), FileBytes(path="latin", content=b"needle\xe9")]
    )
    expected = [("keep.log", 1), ("sub/back.log", 1), ("sub/only/x", 1)]
    await _expect_lines(sandbox, "needle", GrepOptions(), expected)
    await _expect_lines(
        sandbox, "needle", GrepOptions(), [("sub/back.log", 1), ("sub/only/x", 1)], path="sub"
    )


async def refuses_bad_searches(sandbox: Sandbox) -> None:
    """An invalid pattern is `invalid_pattern`. A missing path cannot be searched."""
    await sandbox.write("a", "x")
    _expect_code((await sandbox.grep("(", ".", GrepOptions())).error, "invalid_pattern", "grep for '('")
    _expect_code((await sandbox.grep("x", "b", GrepOptions())).error, "file_not_found", "grep in 'b'")
    included = await sandbox.grep("x", ".", GrepOptions(include="../*"))
    _expect_code(included.error, "invalid_pattern", "include '../*'")


# --- other operations


async def runs_or_says_so(sandbox: Sandbox) -> None:
    """With the capability `execute`, a command runs and reports its outcome. Without it, it is `unsupported`."""
    tried = await sandbox.execute("true", ExecuteOptions())
    if "execute" not in sandbox.capabilities:  # some sandboxes find out only by trying
        _expect_code(tried.error, "unsupported", "execute")
        return
    result = await sandbox.execute("echo out; echo err >&2; exit 3", ExecuteOptions())
    assert (result.error, result.output, result.exit_code) == (None, "out\nerr\n", 3), result
    await sandbox.write("d/a", "words")
    result = await sandbox.execute("cat a; echo made > b", ExecuteOptions(workdir="d"))
    assert (result.error, result.output) == (None, "words"), result
    await _expect_text(sandbox, "d/b", "made\n")
    slow = await sandbox.execute("echo begun; sleep 1000", ExecuteOptions(timeout_seconds=0.5))
    assert (slow.error, slow.timed_out, slow.exit_code, slow.output) == (None, True, None, "begun\n"), slow
    for workdir, code in (("..", "invalid_path"), ("d/a", "invalid_path"), ("missing", "file_not_found")):
        _expect_code(
            (await sandbox.execute("true", ExecuteOptions(workdir=workdir))).error, code, f"workdir {workdir}"
        )


async def brings_snapshots_back(sandbox: Sandbox) -> None:
    """With the capability `snapshot`, all files are restored, and later files are removed."""
    if "snapshot" not in sandbox.capabilities:
        return
    keeping = cast("SnapshotSandbox", sandbox)
    await sandbox.write("a", "old")
    kept = await keeping.snapshot()
    await sandbox.write("a", "new")
    await sandbox.write("b/c", "new")
    assert await keeping.restore(kept) is None
    await _expect_text(sandbox, "a", "old")
    assert not await sandbox.exists("b"), "a file created after the snapshot still exists"
    _expect_code(await keeping.restore("no such"), "file_not_found", "restore of an unknown snapshot")


async def is_cancelled_at_once(sandbox: Sandbox) -> None:
    """Every operation can be cancelled, and one that is cancelled before it starts changes nothing."""
    await sandbox.write("a", "x")
    operations: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: sandbox.read("a"),
        lambda: sandbox.write("a", "y"),
        lambda: sandbox.edit("a", "x", "y"),
        lambda: sandbox.exists("a"),
        lambda: sandbox.list_dir("."),
        lambda: sandbox.grep("x", ".", GrepOptions()),
        lambda: sandbox.glob("*", "."),
        lambda: sandbox.upload([FileBytes(path="a", content=b"y")]),
        lambda: sandbox.download(["a"]),
        lambda: sandbox.execute("echo y > a", ExecuteOptions()),
    )
    for number, operation in enumerate(operations):
        with trio.CancelScope() as scope:
            scope.cancel()
            await operation()
        assert scope.cancelled_caught, f"operation {number} is no checkpoint"
    await _expect_text(sandbox, "a", "x")


async def closes_twice(sandbox: Sandbox) -> None:
    """Closing is idempotent."""
    await sandbox.aclose()
    await sandbox.aclose()


SANDBOX_RULES: Final[tuple[Callable[[Sandbox], Awaitable[None]], ...]] = rules_on(
    Sandbox, sys.modules[__name__]
)
"""The rules, each tested on its own sandbox."""

_BAD_PATHS: Final = (
    *("", "..", "../secret", "a/../../b", "a/../b", "~", "~/.ssh/id_rsa", "~root/x"),
    *("a\0b", "a\nb", "a\x1b[2J", "a\x7f", "a\x9b", "\ud800"),
)

_PROTECTED_PATHS: Final = (
    *(
        ".git/hooks/pre-commit",
        ".GIT/Hooks/pre-commit",
        ".git/config",
        "sub/.git/config",
        ".git/commondir",
        ".git/config.worktree",
        ".git/info/attributes",
        ".git/modules/a/b/config",
        ".git/worktrees/w/commondir",
        ".gitmodules",
        ".git",
    ),
    *(
        ".bashrc",
        "home/.zshenv",
        ".vscode/tasks.json",
        ".idea/x",
        ".mcp.json",
        ".envrc",
        ".agentrail/journal",
    ),
    *(".agentrail/output/x", ".g\u200cit/config", ".agentrail"),
)


async def _try_all(sandbox: Sandbox, path: str) -> Sequence[Refusal | None]:
    (upload,) = await sandbox.upload([FileBytes(path=path, content=b"x")])
    (download,) = await sandbox.download([path])
    return (
        (await sandbox.read(path)).error,
        (await sandbox.write(path, "x")).error,
        (await sandbox.edit(path, "x", "y")).error,
        (await sandbox.list_dir(path)).error,
        (await sandbox.grep("x", path, GrepOptions())).error,
        (await sandbox.glob("*", path)).error,
        upload.error,
        download.error,
    )


async def _expect_text(sandbox: Sandbox, path: str, text: str) -> None:
    found = await sandbox.read(path)
    assert found.error is None, f"{path}: {found.error}"
    assert found.text == text, f"{path} has {found.text!r}, expected {text!r}"


async def _expect_lines(
    sandbox: Sandbox, pattern: str, options: GrepOptions, expected: list[tuple[str, int]], *, path: str = "."
) -> None:
    found = await sandbox.grep(pattern, path, options)
    assert found.error is None, found
    assert [(line.path, line.number) for line in found.lines if line.is_match] == expected, found


def _expect_code(refusal: Refusal | None, code: str, what: str) -> None:
    assert refusal is not None, f"{what} was not refused"
    assert refusal.code == code, f"{what} was refused with {refusal}, expected the code {code!r}"
    assert refusal.message.isprintable(), f"{what} was refused with unprintable words: {refusal}"
