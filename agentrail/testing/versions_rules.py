"""The rules of `check_sandbox` for a sandbox with the capability `versions`: what it tells of what it writes, and how it puts that back."""

from collections.abc import Mapping, Sequence
from typing import cast

from agentrail.abc import ExecuteOptions, FileBytes, Refusal, Sandbox
from agentrail.abc.versions import VersionedSandbox
from agentrail.core.journal.files import FileWrite, WantedFile


class _Notes:
    """Notes what is about to be written, and refuses it when it is told to."""

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
        """Say what undoes all that was noted."""
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
    """With the capability `versions` each write is told before it is made, and one that is refused is not made."""
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
    _expect_refused((await kept.write("a", "x")).error, "a write that cannot be noted")
    _expect_refused((await kept.edit("a", "newer", "x")).error, "an edit that cannot be noted")
    _expect_refused((await kept.upload([FileBytes(path="e", content=b"x")]))[0].error, "an upload")
    _expect_refused((await kept.execute("touch f", ExecuteOptions())).error, "a command")
    assert len(notes.taken_back) == len(notes.writes) - len(told), notes.taken_back
    await _expect_text(sandbox, "a", "newer")
    assert not await sandbox.exists("e"), "what was refused was written"
    assert not await sandbox.exists("f"), "what was refused was run"


async def puts_files_back(sandbox: Sandbox) -> None:
    """With `versions` exactly what was written is what it was; what others wrote since is a conflict, unless it is forced."""
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
        assert not await sandbox.exists("d"), "directories that were made for a file stay when it goes"
    await _expect_text(sandbox, "other", "newer")
    assert b"a person's" in undo.contents.values(), "what is overwritten by force is not noted"
    undone = await versioned.put_back(undo.wanted(), (content | undo.contents).get, _Notes())
    assert {one.outcome for one in undone} == {"restored"}, undone
    await _expect_text(sandbox, "b", "a person's")
    (lost,) = await versioned.put_back(
        [WantedFile(path="b", then=wanted[0].then, left=(None,))], lambda _: None, _Notes(), force=True
    )
    assert lost.outcome == "failed", "a file was made without its content"


def _expect_refused(error: Refusal | None, what: str) -> None:
    assert error is not None, f"{what} was made all the same"
    assert error.code == "io_error", f"{what}: {error}"


async def _expect_text(sandbox: Sandbox, path: str, text: str) -> None:
    found = await sandbox.read(path)
    assert found.error is None, f"{path}: {found.error}"
    assert found.text == text, f"{path} has {found.text!r}, expected {text!r}"
