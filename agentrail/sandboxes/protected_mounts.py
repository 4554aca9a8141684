"""Protected paths below a directory, as mounts of a command, including the code of this process."""

import contextlib
import errno
import os
import stat
import sys
import sysconfig
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from attrs import define, field, frozen

from agentrail.errors import SandboxError
from agentrail.named_modules import NAMED_MODULES
from agentrail.sandboxes.programs import find_interpreter, find_links
from agentrail.sandboxes.protected_names import (
    GIT,
    OUTPUT_DIRECTORY,
    STATE_DIRECTORY,
    ProtectedNames,
    fold_name,
)
from agentrail.sandboxes.refusals import Names
from agentrail.sandboxes.safe_open import Opener

# Blocking work over descriptors, like `files.py`.

Identity: TypeAlias = tuple[int, ...]
"""Distinguishes one state of a file or directory from another."""

_MAX_ENTRIES_LOOKED_AT: Final = 20_000
_MAX_DEPTH_LOOKED_AT: Final = 8
_MAX_IN_REPOSITORY: Final = 5_000
_MAX_MOUNTS: Final = 128  # each is a descriptor while the command runs, and a process often has only 1,024
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_REPOSITORIES_WITHIN: Final = ("modules", "worktrees")
_WITHOUT_REPOSITORIES: Final = frozenset({"objects", "refs", "logs", "lfs"})


@frozen(kw_only=True)
class Guarded:
    own_code: tuple[Names, ...] = ()
    found: Mapping[Names, Identity] = field(factory=dict)
    links: frozenset[Names] = frozenset()
    repositories: frozenset[Names] = frozenset()

    def decide_mounts(self) -> Mapping[Names, bool]:
        """Return the paths that must be mounts for a command, each with whether it is writable."""
        mounts: dict[Names, bool] = {}
        for names in self.own_code:
            for depth in range(1, len(names)):
                mounts.setdefault(names[:depth], True)
            mounts[names] = False
        # The root's own names first, and all repositories after all names: a command may make any number of them.
        for names in (*self.found, *sorted(self.repositories - {()}, key=len)):
            if names in self.links or any(names[:depth] in self.own_code for depth in range(len(names) + 1)):
                continue
            depths = range(1, len(names))
            within = next((depth for depth in depths if names[:depth] in self.repositories), len(names))
            wanted = {names[:depth]: True for depth in range(within, len(names))}
            wanted[names] = names not in self.found
            if len(mounts.keys() | wanted) > _MAX_MOUNTS:
                break
            mounts = {**wanted, **mounts, names: wanted[names]}
        return mounts


@frozen(kw_only=True)
class Mount:
    """A command's view of one path below the root.

    Attributes:
        descriptor: The path, opened without following a link. The caller closes it.
        is_writable: Whether it may be written. It cannot be renamed in either case.
    """

    names: Names
    descriptor: int
    is_writable: bool


@contextlib.contextmanager
def _skip_missing() -> Iterator[None]:
    """Skip a path that cannot be opened. Without a free descriptor or memory it would lose its protection, so raise."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM}:
            raise


@define(eq=False, repr=False, slots=False)
class Guard:
    _root: int
    _open: Opener
    _protected: ProtectedNames
    _own: tuple[Names, ...]
    _known: Guarded = field(init=False, factory=Guarded)

    def look(self, known: Iterable[Names] = ()) -> Guarded:
        """Return the existing protected paths: first by name in the root, then in all directories, the upper ones first.

        Paths of the search before are found whatever has been created above them.
        """
        seen = _Seen()
        self._look_by_name(self._protected.top_names, seen)
        self._look_into_repository((GIT,), seen)
        waiting: deque[Names] = deque([()])
        left = _MAX_ENTRIES_LOOKED_AT
        while waiting and left > 0:
            left = self._look_through(waiting.popleft(), waiting, seen, left)
        before = self._known
        self._look_by_name(
            [names for names in (*known, *before.found) if names not in seen.found], seen, is_known=True
        )
        for names in sorted(before.repositories):
            self._look_into_repository(names, seen)
        self._known = Guarded(
            own_code=self._own,
            found=seen.found,
            links=frozenset(seen.links),
            repositories=frozenset(seen.repositories),
        )
        return self._known

    def open_mounts(self, guarded: Guarded) -> list[Mount]:
        """Open the paths that must be mounts: before bubblewrap starts, another command may have replaced one with a link."""
        opened: list[Mount] = []
        with contextlib.ExitStack() as on_error:
            # A mount hides earlier mounts below it.
            for names, is_writable in sorted(guarded.decide_mounts().items()):
                with _skip_missing(), self._opened(names[:-1]) as parent:
                    descriptor = os.open(names[-1], os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
                    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
                        os.close(descriptor)
                    else:
                        on_error.callback(os.close, descriptor)
                        opened.append(Mount(names=names, descriptor=descriptor, is_writable=is_writable))
            on_error.pop_all()
        return opened

    def find_written(self, before: Guarded, output: str | None) -> list[Names]:
        after = self.look(before.found)
        written = {names for names in after.found if after.found[names] != before.found.get(names)}
        written |= {
            (*names, "HEAD")
            for names in after.repositories - before.repositories
            if not names or fold_name(names[-1]) != GIT
        }
        state = (STATE_DIRECTORY,)
        # Our own directory changes when the output is put there. In the output's earlier place, no command has seen it.
        if state in before.found or (state in written and self._is_ours(state, output)):
            written.discard(state)
        return sorted(written)

    def _is_ours(self, state: Names, output: str | None) -> bool:
        """Return whether a new state directory contains only the output of the command."""
        if output is None:
            return False
        outputs = (*state, OUTPUT_DIRECTORY)
        return self._names_in(state) == {OUTPUT_DIRECTORY} and self._names_in(outputs) == {output}

    def _names_in(self, names: Names) -> set[str]:
        with contextlib.suppress(OSError), self._opened(names) as descriptor:
            return set(os.listdir(descriptor))  # noqa: PTH208 - pathlib lists no descriptor
        return set()

    def _look_by_name(self, every: Iterable[Names], seen: "_Seen", *, is_known: bool = False) -> None:
        for names in every:
            with _skip_missing(), self._opened(names[:-1]) as descriptor:
                status = os.stat(names[-1], dir_fd=descriptor, follow_symlinks=False)
                if is_known or self._protected.covers(names, is_directory=stat.S_ISDIR(status.st_mode)):
                    seen.add(names, status)

    def _look_through(self, names: Names, waiting: deque[Names], seen: "_Seen", left: int) -> int:
        """Search one directory, and return how many more entries may be examined."""
        with _skip_missing(), self._opened(names) as descriptor:
            if is_complete(find_repository_parts(descriptor)):
                self._look_into_repository(names, seen)
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        break
                    below = (*names, entry.name)
                    is_directory = entry.is_dir(follow_symlinks=False)
                    if self._protected.covers(below, is_directory=is_directory):
                        seen.add(below, entry.stat(follow_symlinks=False))
                    elif is_directory and fold_name(entry.name) == GIT:
                        self._look_into_repository(below, seen)
                    elif is_directory and len(below) < _MAX_DEPTH_LOOKED_AT and below not in self._own:
                        waiting.append(below)
        return left

    def _look_into_repository(self, names: Names, seen: "_Seen") -> None:
        if names in seen.repositories:
            return
        with _skip_missing():
            self._look_at_parts(names, seen)
            seen.repositories.add(names)
            waiting = deque((*names, within) for within in _REPOSITORIES_WITHIN)
            left = _MAX_IN_REPOSITORY
            while waiting and left > 0:
                place = waiting.popleft()
                left -= 1
                with _skip_missing(), self._opened(place) as descriptor:
                    self._look_at_parts(place, seen)
                    for entry in os.scandir(descriptor):
                        left -= 1
                        passed_over = entry.name in _WITHOUT_REPOSITORIES or not entry.is_dir(
                            follow_symlinks=False
                        )
                        if not passed_over and (*place, entry.name) not in seen.found:
                            waiting.append((*place, entry.name))

    def _look_at_parts(self, names: Names, seen: "_Seen") -> None:
        with self._opened(names) as descriptor:
            for part in self._protected.git_parts:
                with _skip_missing():
                    seen.add((*names, part), os.stat(part, dir_fd=descriptor, follow_symlinks=False))

    @contextlib.contextmanager
    def _opened(self, names: Names) -> Iterator[int]:
        # Links are kept as links: a link to a directory is not followed.
        descriptor = self._open(self._root, names, _FLAGS)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class _Seen:
    def __init__(self) -> None:
        self.found: dict[Names, Identity] = {}
        self.links: set[Names] = set()
        self.repositories: set[Names] = set()

    def add(self, names: Names, status: os.stat_result) -> None:
        self.found[names] = identify(status)
        if stat.S_ISLNK(status.st_mode):
            self.links.add(names)


def find_repository_parts(directory: int) -> frozenset[str]:
    """Return the parts of a repository in a directory: `HEAD`, `commondir`, and the directories `objects` and `refs`."""
    found: set[str] = set()
    for name in ("HEAD", "commondir"):
        with contextlib.suppress(OSError):
            os.stat(name, dir_fd=directory, follow_symlinks=False)
            found.add(name)
    for name in ("objects", "refs"):
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(os.stat(name, dir_fd=directory).st_mode):
                found.add(name)
    return frozenset(found)


def is_complete(parts: frozenset[str]) -> bool:
    return "HEAD" in parts and (parts >= {"objects", "refs"} or "commondir" in parts)


def identify(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


# The code that runs in this process, if it is below the root of a sandbox.
#
# An agent that could write there would run outside, with all rights of the user: Python imports many modules at run time.
# So no tool and no command writes it, like the protected names. A root that is such a directory is refused.

_MAX_NAMED: Final = 64
"""Maximum number of module files protected one by one. Beyond it, whole packages are protected."""
_OF_AN_ENVIRONMENT: Final = ("bin", "lib", "lib64", "include", "pyvenv.cfg")


@frozen
class Place:
    """A location of code.

    Attributes:
        path: The path used by this process, with unresolved links.
        real: The path with all links resolved, as of the import of this module.
        is_whole: Whether it contains only code. A root inside of it is refused.
    """

    path: Path
    real: Path
    is_whole: bool


def _list_places() -> tuple[Place, ...]:
    libraries = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    prefixes = {
        Path(prefix) for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    }
    programs = {Path(sysconfig.get_path("scripts")), Path(sys.executable), Path(find_interpreter())}
    package = Path(__file__).resolve().parents[1]
    return (
        *(Place(path, path.resolve(), is_whole=True) for path in sorted({package, *libraries})),
        *(Place(path, path.resolve(), is_whole=False) for path in sorted(prefixes | programs)),
    )


_PLACES: Final = _list_places()


def find_own_code(root: Path) -> tuple[tuple[str, ...], ...]:
    if root == Path("/"):  # explicitly requested, without any confinement
        return ()
    found: set[tuple[str, ...]] = set()
    for place in _PLACES:
        real = place.real
        if real == root:
            if place.is_whole:
                raise _refuse(root, f"it is {place.path}, where this program is installed")
            found.update((name,) for name in _OF_AN_ENVIRONMENT if root.joinpath(name).exists())
        elif real.is_relative_to(root):
            found.add(real.relative_to(root).parts)
        elif place.is_whole and root.is_relative_to(real):
            raise _refuse(root, f"it is inside {place.path}, where this program is installed")
    found |= _named_below(root)
    kept = tuple(
        sorted(names for names in found if not any(names[:n] in found for n in range(1, len(names))))
    )
    for place in _PLACES:
        for link in find_links(place.path, root):
            names = link.relative_to(root).parts
            if not any(names[: len(one)] == one and len(names) > len(one) for one in kept):
                raise _refuse(root, f"this program is installed in {place.path} through the link {link}")
    return kept


def list_own_places() -> tuple[tuple[str, ...], ...]:
    """Return all paths with the code of this process, as names from `/`, without shared directories."""
    places = {place.real for place in _PLACES if place.is_whole}
    if sys.prefix != sys.base_prefix:  # an environment, which is for this program
        places.add(Path(sys.prefix).resolve())
    places |= {path.resolve() for path in NAMED_MODULES.files()}
    return tuple(sorted(place.parts for place in places))


def _named_below(root: Path) -> set[tuple[str, ...]]:
    real = (path.resolve() for path in NAMED_MODULES.files())
    names = {path.relative_to(root).parts for path in real if path.is_relative_to(root)}
    return names if len(names) <= _MAX_NAMED else {one[:1] for one in names}


def _refuse(root: Path, why: str) -> SandboxError:
    message = f"the root {str(root)!r} cannot be confined: {why}, so files written there would run outside the sandbox. Name another directory, or install agentrail elsewhere"
    return SandboxError(message)
