"""Files of a rewound session and of a fork: restore their contents as of a record. The writes are recorded."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio
from attrs import field, frozen

from agentrail.abc import Refusal, Sandbox
from agentrail.abc.versions import GetContent, PutBack, VersionedSandbox
from agentrail.core.journal.file_changes import FilesBehind, FileWrite, UntoldCall
from agentrail.core.journal.turn_index import CallBehind
from agentrail.core.protocol.request import EffectId
from agentrail.core.values.port_members import offers
from agentrail.errors import OptionError
from agentrail.file_systems import remove_tree
from agentrail.logs import Logger
from agentrail.messages import CallId
from agentrail.otp.field_rules import PathText, misfits
from agentrail.outside import offload
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_journal import NotingKeeper
from agentrail.runtime.session_options import SessionOptions

LOGGER: Final = Logger("agentrail.runtime")

_PLAIN: Final = re.compile(r"[\w-][\w.-]{0,99}")
_GONE: Final = "The session has ended before it was noted what is written, so it was not written."


@frozen(kw_only=True)
class FileLeft:
    """A file that differs from its earlier content.

    Attributes:
        path: From the root of the sandbox.
        why: A sentence.
    """

    path: str
    why: str


@frozen(kw_only=True)
class RestoredFiles:
    """Outcome for the files of a rewound session. Files in none of these already had the right content.

    Attributes:
        restored: Files restored to their earlier content.
        removed: Files created since, now deleted.
        conflicts: Files changed since by another program or a user. They are left unchanged. With `force` they are
            overwritten.
        failed: Files that could not be restored, even with `force`, such as one whose content is not kept.
        untold: Calls that ran commands. Their writes are unknown to the sandbox, and stay.
    """

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    conflicts: tuple[FileLeft, ...] = ()
    failed: tuple[FileLeft, ...] = ()
    untold: tuple[UntoldCall, ...] = field(default=())


@frozen(kw_only=True)
class Rewound:
    """Outcome of a rewind.

    Attributes:
        number: The record after which the session continues.
        calls: Calls since then with external effects, which are not undone.
        files: Outcome for the files written by its tools since. None if `files` was not requested.
    """

    number: int
    calls: tuple[CallBehind, ...] = field(default=())
    files: RestoredFiles | None = None


def restored_of(every: tuple[PutBack, ...], untold: tuple[UntoldCall, ...]) -> RestoredFiles:
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
    sandbox: object = cell.ports.workspace.open()
    if not offers(sandbox, VersionedSandbox):
        fault = f"{call}: files=True needs a sandbox that keeps files, such as LocalSandbox; got {type(sandbox).__name__}"
        raise OptionError([fault])
    return sandbox


async def put_files_back(
    cell: SessionCell, sandbox: VersionedSandbox, behind: FilesBehind, content: GetContent, *, force: bool
) -> RestoredFiles:
    journal = cell.journal
    if journal is None or not behind.wanted:
        await trio.lowlevel.checkpoint()
        return RestoredFiles(untold=behind.untold)
    # With the id of no call: the core drops its signals, and a journal keeps dropped ones too.
    effect_id = EffectId(f"rewind-{journal.tail.seq}")
    keeper = _WhileAlive(
        NotingKeeper(journal.files, cell.mailbox.put_notice, effect_id, CallId(""), "rewind"), cell
    )
    every = await sandbox.put_back(behind.wanted, content, keeper, force=force)
    return restored_of(every, behind.untold)


class _WhileAlive:
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
            nursery.cancel_scope.cancel(reason="it is recorded")
        return refused


class FilesOfFork:
    def __init__(self, directory: Path, sandbox: Sandbox) -> None:
        self.directory: Path = directory
        self.sandbox: Sandbox = sandbox

    async def place_for(self, known: Sandbox | str | None) -> Sandbox | str:
        if known is not None and not isinstance(known, str):
            await trio.lowlevel.checkpoint()
            return self.sandbox
        await self.sandbox.aclose()
        return "local"

    async def remove(self) -> None:
        with trio.CancelScope(shield=True):
            await self.sandbox.aclose()
            with suppress(OSError):
                await offload(remove_tree, self.directory)


def directory_of_fork(given: Mapping[str, Any], known: SessionOptions, working_dir: str, fork: str) -> Path:
    if given.get("sandbox") is not None:
        fault = "fork: files=True copies the sandbox of this session, but another one is given: remove one of them"
        raise OptionError([fault])
    if "working_dir" in given:
        OptionError.raise_for([*misfits("working_dir", given["working_dir"], PathText)])
        return Path(os.path.abspath(given["working_dir"]))  # noqa: PTH100 - same as `start_session`
    if not _PLAIN.fullmatch(fork):
        fault = f"fork: the id {fork!r} is not a valid directory name: give working_dir= too"
        raise OptionError([fault])
    own = known.sandbox
    root = own.removeprefix("local:") if isinstance(own, str) and own.startswith("local:") else working_dir
    return Path(f"{os.path.abspath(root)}-{fork}")  # noqa: PTH100 - same


async def copy_files(
    sandbox: VersionedSandbox, directory: Path, behind: FilesBehind, content: GetContent, fork: str
) -> FilesOfFork:
    copied = await sandbox.copy_to(directory)
    files = FilesOfFork(directory, copied)
    is_done = False
    try:
        if behind.wanted and offers(copied, VersionedSandbox):
            every = await copied.put_back(behind.wanted, content, _NoNotes(), force=True)
            left = restored_of(every, behind.untold)
            for one in (*left.conflicts, *left.failed):
                LOGGER.warning(
                    "fork %s: %s has its present content, not the earlier one: %s", fork, one.path, one.why
                )
        is_done = True
    finally:
        if not is_done:
            await files.remove()  # noqa: ASYNC102 - shielded inside
    return files


class _NoNotes:
    async def keep(self, changes: object, contents: object) -> Refusal | None:
        await trio.lowlevel.checkpoint()
        return None

    def take_back(self, changes: object) -> None: ...

    async def keep_command(self) -> Refusal | None:
        await trio.lowlevel.checkpoint()
        return None
