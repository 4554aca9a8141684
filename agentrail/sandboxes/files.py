"""Blocking file operations below one directory, all of them through descriptors."""

import contextlib
import errno
import hashlib
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias, TypeVar

from agentrail import outside
from agentrail.abc import DirectoryEntry, ListResult, ReadResult, Refusal
from agentrail.errors import SandboxError
from agentrail.file_systems import remove_tree
from agentrail.private_paths import take_turn
from agentrail.sandboxes.paths import show_names
from agentrail.sandboxes.process_tree import has_proc
from agentrail.sandboxes.protected_mounts import (
    Guard,
    Guarded,
    Mount,
    find_repository_parts,
    identify,
    is_complete,
)
from agentrail.sandboxes.protected_names import (
    GIT,
    OUTPUT_DIRECTORY,
    STATE_DIRECTORY,
    ProtectedNames,
    fold_name,
)
from agentrail.sandboxes.refusals import (
    MAX_WRITTEN_BYTES,
    Names,
    PathRefused,
    accept,
    check_read_size,
    check_written_size,
    describe_neighbours,
    refusal_of,
    refuse_directory,
    refuse_hard_link,
    refuse_missing,
    refuse_protected,
    refuse_repository,
)
from agentrail.sandboxes.safe_open import FLAGS, Opener
from agentrail.sandboxes.text import PIECE_BYTES, decode_text, read_page
from agentrail.sandboxes.text_edit import decide_edit

# Git repositories: no file tool may create a directory that git accepts as a repository.
#
# Git looks for `.git`, and then checks whether the directory itself, or one above it, is a repository: `HEAD`, `objects` and
# `refs` are enough. In such a directory, a file called `config` has the role of `.git/config`.

_FILES: Final = {"head": "HEAD", "commondir": "commondir"}
_DIRECTORIES: Final = {"objects": "objects", "refs": "refs"}


class Repositories:
    def __init__(self, root: int, opener: Opener, protected: ProtectedNames) -> None:
        self._root = root
        self._open = opener
        self._protected = protected
        self._parts = frozenset(protected.git_parts)
        self._names = self._parts | _FILES.keys() | _DIRECTORIES.keys() | {"modules", "worktrees"}
        self._lock = threading.Lock()

    def hold(self, names: Names) -> AbstractContextManager[object]:
        """Keep others from writing a part of a repository meanwhile: two harmless parts may form one together."""
        return self._lock if self._find(names) else nullcontext()

    def check(self, names: Names) -> None:
        """Refuse a write that would complete a repository, or is protected in an existing one."""
        for at in self._find(names):
            parts = self._look(names[:at])
            if is_complete(parts):
                if self._protected.find_written((GIT, *names[at:])) is not None:
                    raise refuse_protected("/".join(names[: at + 1]))
                continue
            kind = _FILES if at == len(names) - 1 else _DIRECTORIES
            made = kind.get(fold_name(names[at]))
            if made is not None and is_complete(parts | {made}):
                raise refuse_repository("/".join(names))

    def _find(self, names: Names) -> list[int]:
        if not self._parts:  # the creator of the sandbox does not protect git
            return []
        folded = [fold_name(name) if not name.isascii() else name.lower() for name in names]
        return [at for at, name in enumerate(folded) if name in self._names and GIT not in folded[:at]]

    def _look(self, names: Names) -> frozenset[str]:
        try:
            descriptor = self._open(self._root, names, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return frozenset()
        with OwnedDescriptor(descriptor):
            return find_repository_parts(descriptor)


# Copies of a directory, put into place as a whole.

_PIECE_BYTES: Final = 1 << 20
_MODE_BITS: Final = 0o777
_LOCK_TRIES: Final = 20
_ACCESS_LIST: Final = "system.posix_acl_access"


def copy_tree(root: int, opener: Opener, directory: Path, check: Callable[[], None]) -> None:
    """Copy the content of a directory: files with modes and times, directories, and links as links."""
    temporary = directory.parent / f".agentrail-{outside.ids(8)}.tmp"
    try:
        _check_place(root, directory)
        temporary.mkdir(mode=0o700)
        _copy_below(root, opener, temporary, check)
        temporary.chmod(os.fstat(root).st_mode & _MODE_BITS)
        temporary.rename(directory)  # also replaces an empty directory
    except OSError as error:
        reason = (
            "it is not empty: name a directory that does not exist yet"
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}
            else f"{error.strerror}: name another working_dir"
        )
        message = f"the files cannot be copied to {str(directory)!r}: {reason}"
        raise SandboxError(message) from error
    finally:
        with contextlib.suppress(OSError):
            remove_tree(temporary)


def _check_place(root: int, directory: Path) -> None:
    own = os.fstat(root)
    for above in (directory, *directory.parents):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = above.stat()
            if (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino):
                message = (
                    f"the files cannot be copied to {str(directory)!r}, which is inside the copied directory"
                )
                raise SandboxError(message)
    if directory.is_symlink() or (
        directory.exists() and (not directory.is_dir() or any(directory.iterdir()))
    ):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))


def _copy_below(root: int, opener: Opener, to: Path, check: Callable[[], None]) -> None:
    waiting: list[tuple[str, ...]] = [()]
    modes: list[tuple[Path, int]] = []
    while waiting:
        names = waiting.pop()
        try:
            here = opener(root, names, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:  # removed since it was listed
            continue
        with OwnedDescriptor(here), os.scandir(here) as found:
            for entry in found:
                check()
                target = to.joinpath(*names, entry.name)
                if entry.is_symlink():
                    target.symlink_to(os.readlink(entry.name, dir_fd=here))
                elif entry.is_dir(follow_symlinks=False):
                    target.mkdir(mode=0o700)
                    modes.append((target, entry.stat(follow_symlinks=False).st_mode & _MODE_BITS))
                    waiting.append((*names, entry.name))
                elif entry.is_file(follow_symlinks=False):
                    _copy_file(here, entry.name, target, check)
    for path, mode in reversed(modes):  # at the end: a read-only directory could not be filled
        path.chmod(mode)


def _copy_file(parent: int, name: str, target: Path, check: Callable[[], None]) -> None:
    try:
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | FLAGS, dir_fd=parent)
    except FileNotFoundError:  # removed since it was listed
        return
    with OwnedDescriptor(source):
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            return
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with OwnedDescriptor(copy):
            while _copy_piece(source, copy):
                check()
            _copy_attributes(parent, name, copy)
            os.fchmod(copy, status.st_mode & _MODE_BITS)
            os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_piece(source: int, copy: int) -> int:
    piece = os.read(source, _PIECE_BYTES)
    written = 0
    while written < len(piece):
        written += os.write(copy, piece[written:])
    return len(piece)


T = TypeVar("T")
HardLinks: TypeAlias = Literal["read", "refuse", "allow"]


class Files:
    def __init__(  # noqa: PLR0913 - all but two by name
        self,
        root: int,
        opener: Opener,
        *,
        is_confined: bool,
        hard_links: HardLinks,
        protected: ProtectedNames,
        own_code: tuple[Names, ...] = (),
    ) -> None:
        """Operate on the directory of this descriptor, which the caller keeps open, or on all files if not confined to it."""
        self._root = root
        self._open = opener
        self._is_confined = is_confined
        self._hard_links = hard_links
        self._protected = protected
        self._guard = Guard(root, opener, protected, own_code)
        self._repositories = Repositories(root, opener, protected)

    def refusing(self, what: str, names: Names, work: Callable[[], T]) -> T | Refusal:
        try:
            return work()
        except PathRefused as refused:
            return refused.refusal
        except OSError as error:
            if error.errno == errno.ENOENT:
                return refuse_missing(what, names, self._neighbours(names)).refusal
            return refusal_of(error, show_names(names))

    # --- reading

    def read(self, names: Names, offset: int, limit: int | None) -> ReadResult:
        descriptor, status = self._open_file(names)
        with OwnedDescriptor(descriptor):
            pieces = _pieces(descriptor, status, names)
            return read_page(
                pieces, offset=offset, limit=limit, path=show_names(names), size_bytes=status.st_size
            )

    def read_bytes(self, names: Names) -> bytes:
        descriptor, status = self._open_file(names)
        with OwnedDescriptor(descriptor):
            return b"".join(_pieces(descriptor, status, names))

    def exists(self, names: Names) -> bool:
        try:
            os.close(self.open_directory(names))
        except (OSError, PathRefused):
            try:
                os.close(self._open_file(names)[0])
            except (OSError, PathRefused):
                return False
        return True

    def is_file(self, names: Names) -> bool:
        try:
            os.close(self._open_file(names)[0])
        except PathRefused as refused:
            if refused.refusal.code == "is_directory":
                return False
            raise
        return True

    def list_dir(self, names: Names) -> ListResult:
        with OwnedDescriptor(self.open_directory(names)) as held:
            where = self._where(held.descriptor, names)
            with os.scandir(held.descriptor) as found:
                seen = [item for item in found if self._protected.find_read((*where, item.name)) is None]
                described = [_describe(item, held.descriptor) for item in seen]
        entries = [entry for entry in described if entry is not None]
        return ListResult(entries=tuple(sorted(entries, key=lambda entry: (entry.kind != "dir", entry.name))))

    def open_directory(self, names: Names) -> int:
        with OwnedDescriptor(self._open(self._root, names, os.O_RDONLY | os.O_DIRECTORY)) as held:
            self._protected.check_read(self._where(held.descriptor, names))
            return held.keep()

    def _where(self, descriptor: int, names: Names) -> Names:
        """Return the real location of a descriptor, which differs from its path if the path contains a link."""
        if not has_proc():  # then the opener follows no links
            return names
        root, here = (Path(f"/proc/self/fd/{one}").readlink() for one in (self._root, descriptor))
        if not self._is_confined:
            return here.parts
        if not here.is_relative_to(root):
            raise PathRefused(
                code="invalid_path", message=f"{show_names(names)} was moved out of the working directory."
            )
        return here.relative_to(root).parts

    def _open_file(self, names: Names) -> tuple[int, os.stat_result]:
        with OwnedDescriptor(self._open(self._root, names, os.O_RDONLY)) as held:
            status = os.fstat(held.descriptor)
            _refuse_irregular(status, show_names(names))
            if status.st_nlink > 1 and self._hard_links == "refuse":
                raise refuse_hard_link(show_names(names))
            self._protected.check_read(self._where(held.descriptor, names))
            return held.keep(), status

    # --- writing

    def _read_beside(self, parent: int, names: Names) -> bytes:
        """Read a file by its last name, from the directory in which it will be replaced."""
        descriptor = os.open(names[-1], os.O_RDONLY | os.O_NOFOLLOW | FLAGS, dir_fd=parent)
        with OwnedDescriptor(descriptor):
            status = os.fstat(descriptor)
            _refuse_irregular(status, show_names(names))
            return b"".join(_pieces(descriptor, status, names))

    def create_output(self, name: str, below: str = OUTPUT_DIRECTORY) -> int:
        """Create a file for the output of a command or a tool, in agentrail's own directory, where no tool writes."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | FLAGS
        with OwnedDescriptor(os.open(".", flags, dir_fd=self._root)) as held:
            for directory in (STATE_DIRECTORY, below):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(directory, 0o700, dir_fd=held.descriptor)
                held.replace(os.open(directory, flags, dir_fd=held.descriptor))
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | FLAGS
            return os.open(name, flags, 0o600, dir_fd=held.descriptor)

    def find_protected(self) -> Guarded:
        return self._guard.look()

    def open_mounts(self, guarded: Guarded) -> list[Mount]:
        """Open the paths that must be mounts for a command. The caller closes each."""
        return self._guard.open_mounts(guarded)

    def find_written(self, before: Guarded, output: str | None) -> list[Names]:
        return self._guard.find_written(before, output)

    def _refuse_names(self, names: Names) -> None:
        if not names:
            raise refuse_directory(show_names(names))
        self._protected.check_written(names)
        self._repositories.check(names)

    def _make_parent(self, names: Names) -> int:
        existing, depth = self._open_existing(names[:-1])
        with OwnedDescriptor(existing) as held:
            # The real location rather than the path: a link inside may point at a protected name.
            self._refuse_names((*self._where(existing, names[:depth]), *names[depth:]))
            for name in names[depth:-1]:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=held.descriptor)
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | FLAGS
                held.replace(os.open(name, flags, dir_fd=held.descriptor))
            return held.keep()

    def _open_existing(self, names: Names) -> tuple[int, int]:
        depth = len(names)
        while True:
            try:
                return self.open_directory(names[:depth]), depth
            except FileNotFoundError:
                if depth == 0:
                    raise
                depth -= 1

    def _look_at_target(self, parent: int, names: Names) -> os.stat_result | None:
        """Return the status of the file to replace, None if there is none. Refuse one that must not be replaced."""
        self._refuse_names((*self._where(parent, names[:-1]), names[-1]))
        status = _find_status(parent, names[-1])
        if status is None:
            return None
        shown = show_names(names)
        if stat.S_ISLNK(status.st_mode):
            raise PathRefused(
                code="invalid_path", message=f"{shown} is a link, and links are not written through."
            )
        _refuse_irregular(status, shown)
        if status.st_nlink > 1 and self._hard_links != "allow":
            raise refuse_hard_link(shown)
        # Replacing a file needs no right to write it, only the right to write its directory. The mode was set for a reason.
        if not os.access(
            names[-1], os.W_OK, dir_fd=parent, effective_ids=os.access in os.supports_effective_ids
        ):
            is_read_only = os.fstatvfs(parent).f_flag & os.ST_RDONLY
            number = errno.EROFS if is_read_only else errno.EACCES
            raise OSError(number, os.strerror(number))
        return status

    def _neighbours(self, names: Names) -> str:
        """Return the names in the deepest existing directory of the path, the most similar first."""
        for depth in range(len(names) - 1, -1, -1):
            try:
                descriptor = self.open_directory(names[:depth])
            except (OSError, PathRefused):
                continue
            with OwnedDescriptor(descriptor):
                every = os.listdir(descriptor)  # noqa: PTH208 - pathlib lists no descriptor
            return describe_neighbours(every, names, depth)
        return ""


class OwnedDescriptor:
    """Holds a descriptor, and closes it at the end of the block unless it is kept."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor: int = descriptor
        self._is_kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_kept:
            os.close(self.descriptor)

    def keep(self) -> int:
        self._is_kept = True
        return self.descriptor

    def replace(self, descriptor: int) -> None:
        os.close(self.descriptor)
        self.descriptor = descriptor


def _refuse_irregular(status: os.stat_result, shown: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise refuse_directory(shown)
    if not stat.S_ISREG(status.st_mode):
        message = f"{shown} is not a regular file: pipes, sockets and devices are neither read nor written."
        raise PathRefused(code="permission_denied", message=message)


def _pieces(descriptor: int, status: os.stat_result, names: Names) -> Iterator[bytes]:
    """Read to the end. The size in the status is not trusted: a file may grow, and under /proc every size is 0."""
    check_read_size(status.st_size, show_names(names))
    received = 0
    while piece := os.read(descriptor, PIECE_BYTES):
        received += len(piece)
        check_read_size(received, show_names(names))
        yield piece


def hash_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def edit_bytes(  # noqa: PLR0913 - all but the bytes are the request's, by name
    data: bytes, old: str, new: str, *, replace_all: bool, shown: str, check: Callable[[], None]
) -> tuple[bytes, int, str]:
    decoded = accept(decode_text(data, shown))
    max_bytes = max(MAX_WRITTEN_BYTES, len(data))
    edited = accept(
        decide_edit(
            decoded.text, old, new, replace_all=replace_all, path=shown, max_bytes=max_bytes, check=check
        )
    )
    written = decoded.encode(edited.text)
    if len(written) > max_bytes:  # for example in UTF-16, where a character has twice the bytes
        check_written_size(len(written), shown)
    return written, edited.replacements, edited.diff


def put_file(
    parent: int, name: str, data: bytes, replaced: os.stat_result | None, changed: str | None = None
) -> None:
    """Write next to the file, then rename: a crash leaves the old or the new file, and no reader sees half of it.

    If `changed` is given, it is the message of the refusal where the file is another one by now.
    """
    temporary = write_beside(parent, name, data, replaced, None if replaced is None else replaced.st_mode)
    with contextlib.ExitStack() as undo:
        undo.callback(_remove, parent, temporary)
        # Until the caller closes the directory. If another program keeps it locked, the comparison notices most writes.
        with contextlib.suppress(OSError):
            take_turn(parent, name, tries=_LOCK_TRIES)
        if changed is not None and not is_same(_find_status(parent, name), replaced):
            raise PathRefused(code="changed", message=changed)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        undo.pop_all()


def write_beside(
    parent: int, name: str, data: bytes, replaced: os.stat_result | None, mode: int | None
) -> str:
    """Write a temporary file with the owner and attributes of the replaced one, if permitted, without set-id bits. Return its name."""
    temporary = f".agentrail-{outside.ids(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | FLAGS
    descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=parent)
    with contextlib.ExitStack() as undo:
        undo.callback(_remove, parent, temporary)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if replaced is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(descriptor, replaced.st_uid, replaced.st_gid)
                _copy_attributes(parent, name, descriptor)
            if mode is not None:
                os.fchmod(descriptor, mode & _MODE_BITS)  # after the access list, which has a mode too
            file.flush()
            os.fsync(descriptor)
        undo.pop_all()
    return temporary


def _copy_attributes(parent: int, name: str, copy: int) -> None:
    """Copy the access list of a file and the attributes of its user, if the system has them."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            if _ACCESS_LIST in os.listxattr(copy):  # inherited from the directory
                os.removexattr(copy, _ACCESS_LIST)
            source = f"/proc/self/fd/{parent}/{name}"
            for one in os.listxattr(source, follow_symlinks=False):
                if one == _ACCESS_LIST or one.startswith("user."):
                    os.setxattr(copy, one, os.getxattr(source, one, follow_symlinks=False))


def _find_status(parent: int, name: str) -> os.stat_result | None:
    with contextlib.suppress(FileNotFoundError):
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    return None


def is_same(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    if one is None or other is None:
        return one is other
    return identify(one) == identify(other)


def _remove(parent: int, name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=parent)


def _describe(item: "os.DirEntry[str]", directory: int) -> DirectoryEntry | None:
    try:
        if item.is_symlink():
            return DirectoryEntry(
                name=item.name, kind="link", target=os.readlink(item.name, dir_fd=directory)
            )
        if item.is_dir(follow_symlinks=False):
            return DirectoryEntry(name=item.name, kind="dir")
        if item.is_file(follow_symlinks=False):
            size_bytes = item.stat(follow_symlinks=False).st_size
            return DirectoryEntry(name=item.name, kind="file", size_bytes=size_bytes)
    except FileNotFoundError:  # removed since the listing started
        return None
    return DirectoryEntry(name=item.name, kind="other")
