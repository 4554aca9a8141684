"""Files of a session that goes back, and of a fork: they become what they were behind a record. What is written is noted as of a call."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import trio
from attrs import field, frozen

from agentrail.abc import Refusal, Sandbox
from agentrail.abc.versions import GetContent, PutBack, VersionedSandbox
from agentrail.core.journal.branches import CallBehind
from agentrail.core.journal.files import FilesBehind, FileWrite, UntoldCall
from agentrail.core.protocol.request import EffectId
from agentrail.core.values.offered import offers
from agentrail.errors import OptionError
from agentrail.logs import Logger
from agentrail.messages import CallId
from agentrail.outside import offload
from agentrail.runtime.session import SessionCell
from agentrail.runtime.session_journal import NotingKeeper
from agentrail.runtime.session_options import SessionOptions

LOGGER: Final = Logger("agentrail.runtime")

_PLAIN: Final = re.compile(r"[\w-][\w.-]{0,99}")
_GONE: Final = "The session has ended before it was noted what is written, so it was not written."


@frozen(kw_only=True)
class FileLeft:
    """A file that is not what it was then.

    Attributes:
        path: From the root of the sandbox.
        why: A sentence.
    """

    path: str
    why: str


@frozen(kw_only=True)
class RestoredFiles:
    """What became of the files of a session that went back. What is in none of these was as it is to be.

    Attributes:
        restored: Those that are again what they were.
        removed: Those that were made since, and are gone.
        conflicts: Those that are not what the session left, because another program or a person has changed them: nothing was done to them,
            and with `force` they are overwritten.
        failed: Those that could not be restored, also with `force`, such as one whose content is not kept.
        untold: Calls that ran commands: what those have written no sandbox can tell, and it stays.
    """

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    conflicts: tuple[FileLeft, ...] = ()
    failed: tuple[FileLeft, ...] = ()
    untold: tuple[UntoldCall, ...] = field(default=())


@frozen(kw_only=True)
class Rewound:
    """What came of going back.

    Attributes:
        number: The record behind which the session goes on.
        calls: What happened outside since and is not taken back: calls whose tools do not promise that running them twice does no
            harm, or for which another session worked.
        files: What became of the files that its tools have written since; None where `files` was not asked for.
    """

    number: int
    calls: tuple[CallBehind, ...] = field(default=())
    files: RestoredFiles | None = None


def restored_of(every: tuple[PutBack, ...], untold: tuple[UntoldCall, ...]) -> RestoredFiles:
    """Sort what became of each path."""
    paths: dict[str, list[PutBack]] = {}
    for one in every:
        paths.setdefault(one.outcome, []).append(one)
    return RestoredFiles(
        restored=tuple([one.path for one in paths.get("restored", ())]),
        removed=tuple([one.path for one in paths.get("removed", ())]),
        conflicts=tuple([FileLeft(path=one.path, why=one.why) for one in paths.get("conflict", ())]),
        failed=tuple([FileLeft(path=one.path, why=one.why) for one in paths.get("failed", ())]),
        untold=untold,
    )


def versioned_of(cell: SessionCell, call: str) -> VersionedSandbox:
    """Give the sandbox of a session, if it keeps what its tools write."""
    sandbox: object = cell.ports.workspace.open()
    if not offers(sandbox, VersionedSandbox):
        fault = f"{call}: files=True needs a sandbox that keeps what its tools write, such as LocalSandbox; got {type(sandbox).__name__}"
        raise OptionError([fault])
    return sandbox


async def put_files_back(
    cell: SessionCell, sandbox: VersionedSandbox, behind: FilesBehind, content: GetContent, *, force: bool
) -> RestoredFiles:
    """Let the files of a live session be what they were.

    Cancellation: As of `VersionedSandbox.put_back`.
    """
    journal = cell.journal
    if journal is None or not behind.wanted:
        await trio.lowlevel.checkpoint()
        return RestoredFiles(untold=behind.untold)
    # Of no call that there is: the core drops what it says, and a journal keeps also what was dropped.
    effect_id = EffectId(f"rewind-{journal.tail.seq}")
    keeper = _WhileAlive(
        NotingKeeper(journal.files, cell.mailbox.put_notice, effect_id, CallId(""), "rewind"), cell
    )
    every = await sandbox.put_back(behind.wanted, content, keeper, force=force)
    return restored_of(every, behind.untold)


class _WhileAlive:
    """Does not wait for a session that has ended; see `FileKeeper`."""

    def __init__(self, keeper: NotingKeeper, cell: SessionCell) -> None:
        self._cell = cell
        self._keeper = keeper
        self.take_back = keeper.take_back
        self.keep_command = keeper.keep_command

    async def keep(self, changes: Sequence[FileWrite], contents: Mapping[str, bytes]) -> Refusal | None:
        refused: Refusal | None = Refusal(code="io_error", message=_GONE)
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await self._cell.wait_down()
                nursery.cancel_scope.cancel(reason="the session has ended")

            nursery.start_soon(watch)
            refused = await self._keeper.keep(changes, contents)
            nursery.cancel_scope.cancel(reason="it is noted")
        return refused


class FilesOfFork:
    """The copy of a workspace that a fork begins in; removed again where the fork does not come about.

    Attributes:
        directory: Where it is.
    """

    def __init__(self, directory: Path, sandbox: Sandbox) -> None:
        """Take what was copied."""
        self.directory: Path = directory
        self.sandbox: Sandbox = sandbox

    async def place_for(self, known: Sandbox | str | None) -> Sandbox | str:
        """Give what the fork has as its sandbox: one like that of its parent.

        Cancellation: Always a checkpoint.
        """
        if known is not None and not isinstance(known, str):
            await trio.lowlevel.checkpoint()
            return self.sandbox
        await self.sandbox.aclose()
        return "local"

    async def remove(self) -> None:
        """Remove it.

        Cancellation: Shielded; it takes as long as the file system needs.
        """
        with trio.CancelScope(shield=True):
            await self.sandbox.aclose()
            await offload(lambda: shutil.rmtree(self.directory, ignore_errors=True))


def directory_of_fork(given: Mapping[str, Any], known: SessionOptions, working_dir: str, fork: str) -> Path:
    """Say where the copy is to be."""
    if given.get("sandbox") is not None:
        raise OptionError(
            [
                "fork: files=True copies the sandbox of this session, and another one is given: leave one of them out"
            ]
        )
    if "working_dir" in given:
        if not isinstance(given["working_dir"], str | os.PathLike):
            raise OptionError([f"working_dir is {given['working_dir']!r}: expected a directory"])
        return Path(os.path.abspath(given["working_dir"]))  # noqa: PTH100 - as of `start_session`
    if not _PLAIN.fullmatch(fork):
        fault = f"fork: no directory can be called by the id {fork!r}: give working_dir= too"
        raise OptionError([fault])
    own = known.sandbox
    root = own.removeprefix("local:") if isinstance(own, str) and own.startswith("local:") else working_dir
    return Path(f"{os.path.abspath(root)}-{fork}")  # noqa: PTH100 - as above


async def copy_files(
    sandbox: VersionedSandbox, directory: Path, behind: FilesBehind, content: GetContent, fork: str
) -> FilesOfFork:
    """Copy a workspace, and let the copy be what it was: nothing in it is another's, so all that is known is put back.

    Cancellation: Nothing is left of the copy.
    """
    copied = await sandbox.copy_to(directory)
    files = FilesOfFork(directory, copied)
    is_done = False
    try:
        if behind.wanted and offers(copied, VersionedSandbox):
            every = await copied.put_back(behind.wanted, content, _NoNotes(), force=True)
            left = restored_of(every, behind.untold)
            for one in (*left.conflicts, *left.failed):
                LOGGER.warning("fork %s: %s is as it is now, and not as it was: %s", fork, one.path, one.why)
        is_done = True
    finally:
        if not is_done:
            await files.remove()  # noqa: ASYNC102 - shielded inside
    return files


class _NoNotes:
    """Notes nothing: a fork begins with the files that it has; see `FileKeeper`."""

    async def keep(self, changes: object, contents: object) -> Refusal | None:
        await trio.lowlevel.checkpoint()
        return None

    def take_back(self, changes: object) -> None:
        """Nothing was noted."""

    async def keep_command(self) -> Refusal | None:
        await trio.lowlevel.checkpoint()
        return None
