"""Files with planned writes, which record the old and the new content, and files that are restored to earlier versions.

Blocking work over descriptors, like `files.py`. The target of a write is checked when it is planned, and again right
before it is replaced: another program's write meanwhile is not overwritten by an edit, or by a write that is recorded.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

from attrs import define, frozen

from agentrail import outside
from agentrail.abc import EditResult, Refusal, WriteResult
from agentrail.abc.versions import FileOutcome, GetContent, PutBack
from agentrail.core.journal.file_changes import FileState, FileWrite, WantedFile
from agentrail.sandboxes.files import (
    Files,
    OwnedDescriptor,
    edit_bytes,
    hash_bytes,
    is_same,
    put_file,
    write_beside,
)
from agentrail.sandboxes.paths import join_names, show_names
from agentrail.sandboxes.refusals import (
    MAX_WRITTEN_BYTES,
    Names,
    PathRefused,
    check_written_size,
    encode_text,
    refusal_of,
)
from agentrail.sandboxes.text import count_lines

MAX_KEPT_BYTES: Final = MAX_WRITTEN_BYTES
"""Of a larger file only the digest is kept: it can be compared, but not restored."""

_MODE_BITS: Final = 0o777

R = TypeVar("R", WriteResult, EditResult)

FindNames: TypeAlias = Callable[[str], Names]
"""Splits a stored path. Raises `PathRefused` for a path that is not allowed."""


@frozen(kw_only=True)
class PlannedWrite(Generic[R]):
    """A planned write.

    Attributes:
        replaced: State of the file when it was planned. None if there was none.
    """

    names: Names
    data: bytes
    replaced: os.stat_result | None
    change: FileWrite
    contents: Mapping[str, bytes]
    result: R


@define(kw_only=True, eq=False)
class _Staged:
    number: int
    names: Names
    change: FileWrite
    found: os.stat_result | None
    temporary: str | None = None
    mode: int | None = None
    remove_directories: int = 0
    made: list[Names]


class StagedFiles:
    """Files about to be restored.

    Attributes:
        outcomes: Outcomes known so far, by position. The others are known once they are in place.
    """

    def __init__(self) -> None:
        self.outcomes: dict[int, PutBack] = {}
        self.contents: dict[str, bytes] = {}
        self.ready: list[_Staged] = []

    @property
    def changes(self) -> tuple[FileWrite, ...]:
        return tuple([one.change for one in self.ready])


class VersionedFiles(Files):
    # --- writes of tools

    def plan_text(self, names: Names, content: str) -> PlannedWrite[WriteResult]:
        data = encode_text(content, show_names(names))
        return self.plan_bytes(names, data, total_lines=count_lines(content))

    def plan_bytes(self, names: Names, data: bytes, *, total_lines: int = 0) -> PlannedWrite[WriteResult]:
        self._refuse_names(names)
        check_written_size(len(data), show_names(names))
        existing, depth = self._open_existing(names[:-1])
        with OwnedDescriptor(existing):
            where = self._where(existing, names[:depth])
            if depth < len(names) - 1:
                self._refuse_names((*where, *names[depth:]))
                replaced, before, read = None, None, None
            else:
                replaced = self._look_at_target(existing, names)
                before, read = self._look(existing, names, replaced)
        result = WriteResult(
            is_new=replaced is None,
            total_lines=total_lines,
            size_bytes=len(data),
            sha256=hash_bytes(data),
            sha256_before=None if before is None else before.sha256 or None,
        )
        change = FileWrite(
            path=_written(where, names, depth),
            before=before,
            after=_state_of(data, replaced),
            directories=len(names) - 1 - depth,
        )
        return PlannedWrite(
            names=names,
            data=data,
            replaced=replaced,
            change=change,
            contents=_contents(read, data),
            result=result,
        )

    def plan_edit(
        self, names: Names, old: str, new: str, *, replace_all: bool, check: Callable[[], None]
    ) -> PlannedWrite[EditResult]:
        """Plan to replace a text in a file. `check` raises when no caller wants the result any more."""
        self._refuse_names(names)
        encode_text(new, show_names(names))
        parent = self.open_directory(names[:-1])
        with OwnedDescriptor(parent):
            replaced = self._look_at_target(parent, names)
            if replaced is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            where = self._where(parent, names[:-1])
            read = self._read_beside(parent, names)
        data, replacements, diff = edit_bytes(
            read, old, new, replace_all=replace_all, shown=show_names(names), check=check
        )
        check()
        before, after = _state_of(read, replaced), _state_of(data, replaced)
        return PlannedWrite(
            names=names,
            data=data,
            replaced=replaced,
            change=FileWrite(path=_written(where, names, len(names) - 1), before=before, after=after),
            contents=_contents(read, data),
            result=EditResult(
                replacements=replacements,
                diff=diff,
                sha256=hash_bytes(data),
                sha256_before=hash_bytes(read),
            ),
        )

    def carry_out(self, planned: PlannedWrite[R], *, is_kept: bool) -> R:
        """Carry out a planned write. An edit, or a write that is kept, only if the file has not changed meanwhile."""
        names, is_edit = planned.names, isinstance(planned.result, EditResult)
        done = "edited" if is_edit else "written"
        changed = f"{show_names(names)} changed while it was being {done}. Read it again."
        with self._repositories.hold(names):
            self._refuse_names(names)
            parent = self._make_parent(names)
            with OwnedDescriptor(parent):
                self._look_at_target(parent, names)
                put_file(
                    parent, names[-1], planned.data, planned.replaced, changed if is_edit or is_kept else None
                )
        return planned.result

    def _look(
        self, parent: int, names: Names, found: os.stat_result | None
    ) -> tuple[FileState | None, bytes | None]:
        if found is None:
            return None, None
        try:
            read = self._read_beside(parent, names)
        except (OSError, PathRefused):  # it can be replaced nevertheless, as in `Files.write`
            lost = "too_large" if found.st_size > MAX_KEPT_BYTES else "unreadable"
            mode = found.st_mode & _MODE_BITS
            return FileState(size_bytes=found.st_size, mode=mode, lost=lost), None
        return _state_of(read, found), read

    # --- restoring

    def stage(
        self, wanted: Sequence[WantedFile], content: GetContent, names_of: FindNames, *, force: bool
    ) -> StagedFiles:
        """Write the wanted files next to their places. If this raises or is abandoned, no temporary file is left."""
        staged = StagedFiles()
        try:
            for number, one in enumerate(wanted):
                outside.check_cancelled()
                self._stage_one(number, one, content, names_of, staged, force=force)
        except BaseException:
            self.discard(staged)
            raise
        return staged

    def _stage_one(  # noqa: PLR0913 - the work of one turn of a loop
        self,
        number: int,
        wanted: WantedFile,
        content: GetContent,
        names_of: FindNames,
        staged: StagedFiles,
        *,
        force: bool,
    ) -> None:
        def end(outcome: FileOutcome, why: str = "") -> None:
            staged.outcomes[number] = PutBack(path=wanted.path, outcome=outcome, why=why)

        try:
            names = names_of(wanted.path)
            found, now, read = self._look_at(names, force=force)
        except PathRefused as refused:
            end("conflict", refused.refusal.message)
            return
        then = wanted.then
        is_as_left = any(_same_content(now, left) for left in wanted.left)
        mode = _mode_wanted(wanted, now)
        if _same_content(now, then) and (not is_as_left or now is None or mode == now.mode):
            end("same")
            return
        if not force and not is_as_left:
            end("conflict", _conflict(now, wanted))
            return
        change = FileWrite(path=wanted.path, before=now, after=then)
        one = _Staged(number=number, names=names, change=change, found=found, made=[])
        if then is None:
            one.remove_directories = wanted.directories
        else:
            data = None if then.lost or not then.sha256 else content(then.sha256)
            if data is None or hash_bytes(data) != then.sha256:
                end("failed", _not_kept(then))
                return
            is_beside = False
            try:
                self._put_beside(one, data, mode)
                is_beside = True
            except (OSError, PathRefused) as error:
                refusal = _refusal_of_one(error, names)
                if refusal is None:
                    raise
                end("failed", refusal.message)
                return
            finally:
                if not is_beside:
                    self._discard_one(one)
        staged.ready.append(one)
        if read is not None and now is not None and not now.lost and not is_as_left:
            staged.contents[now.sha256] = read

    def _look_at(
        self, names: Names, *, force: bool
    ) -> tuple[os.stat_result | None, FileState | None, bytes | None]:
        self._refuse_names(names)
        existing, depth = self._open_checked(names)
        try:
            if depth < len(names) - 1:
                return None, None, None
            found = self._look_at_target(existing, names)
            if found is None:
                return None, None, None
            state, read = self._look(existing, names, found)
            return found, state, read if force else None
        except OSError as error:
            raise _refused(error, names) from error
        finally:
            os.close(existing)

    def _open_checked(self, names: Names) -> tuple[int, int]:
        """Open the deepest existing directory of the path, unless a link has been added to it since."""
        try:
            existing, depth = self._open_existing(names[:-1])
        except OSError as error:
            raise _refused(error, names) from error
        is_straight = False
        try:
            is_straight = self._where(existing, names[:depth]) == names[:depth]
        finally:
            if not is_straight:
                os.close(existing)
        if not is_straight:
            message = f"{show_names(names)} leads through a link that did not exist before."
            raise PathRefused(code="invalid_path", message=message)
        return existing, depth

    def _put_beside(self, one: _Staged, data: bytes, mode: int | None) -> None:
        existing, depth = self._open_checked(one.names)
        os.close(existing)
        one.made = [one.names[:end] for end in range(depth + 1, len(one.names))]
        parent = self._make_parent(one.names)
        with OwnedDescriptor(parent):
            one.temporary = write_beside(parent, one.names[-1], data, one.found, mode)

    def put_in_place(self, staged: StagedFiles) -> None:
        """Put each file in its place, unless the place has changed meanwhile; see `StagedFiles.outcomes`."""
        for one in staged.ready:
            try:
                staged.outcomes[one.number] = self._put_one(one)
            except (OSError, PathRefused) as error:
                self._discard_one(one)
                why = _refusal_of(error, one.names).message
                staged.outcomes[one.number] = PutBack(path=one.change.path, outcome="failed", why=why)
        staged.ready.clear()

    def _put_one(self, one: _Staged) -> PutBack:
        path, names = one.change.path, one.names
        parent, depth = self._open_checked(names)
        with OwnedDescriptor(parent):
            found = self._look_at_target(parent, names) if depth == len(names) - 1 else None
            if not is_same(found, one.found):
                self._discard_one(one)
                return PutBack(path=path, outcome="conflict", why="It was changed just now.")
            if one.temporary is not None:
                os.rename(one.temporary, names[-1], src_dir_fd=parent, dst_dir_fd=parent)
            elif found is not None:
                os.unlink(names[-1], dir_fd=parent)
        if one.temporary is None:
            self._remove_directories(
                [names[:end] for end in range(len(names) - one.remove_directories, len(names))]
            )
        return PutBack(path=path, outcome="removed" if one.temporary is None else "restored")

    def discard(self, staged: StagedFiles) -> None:
        for one in staged.ready:
            self._discard_one(one)
        staged.ready.clear()

    def _discard_one(self, one: _Staged) -> None:
        with contextlib.suppress(OSError, PathRefused):
            parent, _ = self._open_checked(one.names)
            with OwnedDescriptor(parent):
                if one.temporary is not None:
                    os.unlink(one.temporary, dir_fd=parent)
        self._remove_directories(one.made)

    def _remove_directories(self, every: Sequence[Names]) -> None:
        """Remove empty directories, the deepest first."""
        for names in reversed(every):
            with contextlib.suppress(OSError, PathRefused):
                parent, _ = self._open_checked(names)
                with OwnedDescriptor(parent):
                    os.rmdir(names[-1], dir_fd=parent)


def _refused(error: OSError, names: Names) -> PathRefused:
    refusal = refusal_of(error, show_names(names))
    return PathRefused(code=refusal.code, message=refusal.message)


def _refusal_of(error: OSError | PathRefused, names: Names) -> Refusal:
    return error.refusal if isinstance(error, PathRefused) else refusal_of(error, show_names(names))


def _refusal_of_one(error: OSError | PathRefused, names: Names) -> Refusal | None:
    """Return why one file cannot be staged. None for a fault of another kind, such as a full disk."""
    refusal = _refusal_of(error, names)
    return None if refusal.code in {"no_space", "io_error"} else refusal


def _written(where: Names, names: Names, depth: int) -> str:
    """Return the path with its links followed. The given path if that is not text."""
    path = join_names((*where, *names[depth:]))
    try:
        path.encode()
    except UnicodeEncodeError:
        return join_names(names)
    return path


def _state_of(data: bytes, found: os.stat_result | None) -> FileState:
    return FileState(
        sha256=hash_bytes(data),
        size_bytes=len(data),
        mode=None if found is None else found.st_mode & _MODE_BITS,
        lost="too_large" if len(data) > MAX_KEPT_BYTES else "",
    )


def _contents(*every: bytes | None) -> dict[str, bytes]:
    return {hash_bytes(one): one for one in every if one is not None and len(one) <= MAX_KEPT_BYTES}


def _same_content(one: FileState | None, other: FileState | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool(one.sha256) and one.sha256 == other.sha256


def _mode_wanted(wanted: WantedFile, now: FileState | None) -> int | None:
    """Return the mode of a restored file: the earlier one, unless a user has set another since. None for the default."""
    then, left = wanted.then, wanted.left[0]
    if then is None:
        return None
    if now is None or now.mode is None:
        return then.mode
    if left is not None and left.mode not in {None, now.mode}:
        return now.mode
    return now.mode if then.mode is None else then.mode


def _conflict(now: FileState | None, wanted: WantedFile) -> str:
    if now is None:
        return "It has been removed since."
    if wanted.left[0] is None:
        return "It has been created again since."
    if not wanted.left[0].sha256:
        return "The session's version is unknown, so later changes cannot be detected."
    return "It has been changed since."


def _not_kept(then: FileState) -> str:
    match then.lost:
        case "too_large":
            return f"It had {then.size_bytes:,} bytes, and at most {MAX_KEPT_BYTES:,} are kept."
        case "secret":
            return "It contained a secret, and secrets are not kept."
        case "unreadable":
            return "It could not be read when it was overwritten."
        case _:
            return "Its content is no longer in the store."
