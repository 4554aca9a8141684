"""Protected paths below a directory, as mounts of a command, and the code of this process among them."""

import contextlib
import os
import stat
import sys
import sysconfig
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from attrs import field, frozen

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
"""What tells one state of a file or directory from another."""

_MAX_ENTRIES_LOOKED_AT: Final = 20_000
_MAX_DEPTH_LOOKED_AT: Final = 8
_MAX_IN_REPOSITORY: Final = 5_000
_MAX_MOUNTS: Final = 128  # each is a descriptor as long as the command runs, and a process has often 1,024
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_REPOSITORIES_WITHIN: Final = ("modules", "worktrees")
_WITHOUT_REPOSITORIES: Final = frozenset({"objects", "refs", "logs", "lfs"})


@frozen(kw_only=True)
class Guarded:
    """What there is.

    Attributes:
        found: Protected paths that exist, those that matter most first.
        links: Which of them are links: nothing can be mounted on those.
        repositories: Directories that git takes for a repository, with those called `.git`.
    """

    own_code: tuple[Names, ...] = ()
    found: Mapping[Names, Identity] = field(factory=dict)
    links: frozenset[Names] = frozenset()
    repositories: frozenset[Names] = frozenset()

    def decide_mounts(self) -> Mapping[Names, bool]:
        """Say what has to be a mount for a command, and whether that may be written.

        What is protected is read-only. A mount goes along with a directory above it that is renamed, and then another may be
        put in its place. So the code of this process is held by all directories above it, and what is in a repository by those
        up to the repository, as mounts that may be written. What lies elsewhere is not, because nothing can be renamed from
        one mount to another: it is told afterwards.
        """
        mounts: dict[Names, bool] = {}
        for names in self.own_code:
            for depth in range(1, len(names)):
                mounts.setdefault(names[:depth], True)
            mounts[names] = False
        for names in sorted(self.repositories - {()}, key=len):
            mounts.setdefault(names, True)
        for names in self.found:
            if len(mounts) >= _MAX_MOUNTS:
                break
            if names in self.links or any(names[:depth] in self.own_code for depth in range(len(names))):
                continue
            mounts[names] = False
            within = next(
                (depth for depth in range(1, len(names)) if names[:depth] in self.repositories), None
            )
            if within is not None:
                for depth in range(within, len(names)):
                    mounts.setdefault(names[:depth], True)
        return mounts


@frozen(kw_only=True)
class Mount:
    """What a command sees of one path below the root.

    Attributes:
        descriptor: What is there, opened without following a link; the caller closes it.
        is_writable: Whether it may be written; it cannot be renamed in either case.
    """

    names: Names
    descriptor: int
    is_writable: bool


class Guard:
    """Looks below a directory."""

    def __init__(
        self, root: int, opener: Opener, protected: ProtectedNames, own_code: tuple[Names, ...]
    ) -> None:
        """Look at the directory of this descriptor, which the caller keeps open."""
        self._root = root
        self._open = opener
        self._protected = protected
        self._own = own_code

    def look(self, known: Iterable[Names] = ()) -> Guarded:
        """Find what there is: by name in the root, then in all directories, those further up first.

        Where there are very many names, those that lie deep are not looked for. The root's own are found all the same, and so
        are those that are known.
        """
        seen = _Seen()
        self._look_by_name(self._protected.top_names, seen)
        self._look_into_repository((GIT,), seen)
        waiting: deque[Names] = deque([()])
        left = _MAX_ENTRIES_LOOKED_AT
        while waiting and left > 0:
            left = self._look_through(waiting.popleft(), waiting, seen, left)
        self._look_by_name([names for names in known if names not in seen.found], seen, is_known=True)
        return Guarded(
            own_code=self._own,
            found=seen.found,
            links=frozenset(seen.links),
            repositories=frozenset(seen.repositories),
        )

    def open_mounts(self, guarded: Guarded) -> list[Mount]:
        """Open what has to be a mount: by the time of bubblewrap another command may have put a link there, to anywhere."""
        opened: list[Mount] = []
        # A mount hides those that were made below it.
        for names, is_writable in sorted(guarded.decide_mounts().items()):
            with contextlib.suppress(OSError), self._opened(names[:-1]) as parent:
                descriptor = os.open(names[-1], os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
                if stat.S_ISLNK(os.fstat(descriptor).st_mode):
                    os.close(descriptor)
                else:
                    opened.append(Mount(names=names, descriptor=descriptor, is_writable=is_writable))
        return opened

    def find_written(self, before: Guarded, output: str | None) -> list[Names]:
        """Find what a command has written of what is protected."""
        after = self.look(before.found)
        written = {names for names in after.found if after.found[names] != before.found.get(names)}
        written |= {
            (*names, "HEAD")
            for names in after.repositories - before.repositories
            if not names or fold_name(names[-1]) != GIT
        }
        state = (STATE_DIRECTORY,)
        # Our own directory changes when the output is put there; and where it was, no command has seen it.
        if state in before.found or (state in written and self._is_ours(state, output)):
            written.discard(state)
        return sorted(written)

    def _is_ours(self, state: Names, output: str | None) -> bool:
        """Tell whether nothing is in a new state directory but the output of the command."""
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
            with contextlib.suppress(OSError), self._opened(names[:-1]) as descriptor:
                status = os.stat(names[-1], dir_fd=descriptor, follow_symlinks=False)
                if is_known or self._protected.covers(names, is_directory=stat.S_ISDIR(status.st_mode)):
                    seen.add(names, status)

    def _look_through(self, names: Names, waiting: deque[Names], seen: "_Seen", left: int) -> int:
        """Go through one directory; say how many more entries may be looked at."""
        with contextlib.suppress(OSError), self._opened(names) as descriptor:
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
        with contextlib.suppress(OSError):
            self._look_at_parts(names, seen)
            seen.repositories.add(names)
            waiting = deque((*names, within) for within in _REPOSITORIES_WITHIN)
            left = _MAX_IN_REPOSITORY
            while waiting and left > 0:
                place = waiting.popleft()
                left -= 1
                with contextlib.suppress(OSError), self._opened(place) as descriptor:
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
                with contextlib.suppress(OSError):
                    seen.add((*names, part), os.stat(part, dir_fd=descriptor, follow_symlinks=False))

    @contextlib.contextmanager
    def _opened(self, names: Names) -> Iterator[int]:
        # Links as such: one that stands for a directory is not gone through.
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
    """Find what of a repository is in a directory: `HEAD`, `commondir`, and as directories `objects` and `refs`."""
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
    """Tell whether these parts are a repository."""
    return "HEAD" in parts and (parts >= {"objects", "refs"} or "commondir" in parts)


def identify(status: os.stat_result) -> Identity:
    """Give what tells one state of a file from another."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


# The code that runs in this process, where it lies below the root of a sandbox.
#
# An agent that could write there would run outside, with all rights of the user: Python imports much of a program while it runs.
# So it is written by no tool and by no command, like the protected names; and a root that is such a directory is refused.

_MAX_NAMED: Final = 64
"""How many files of named modules are protected one by one; of more the packages are, whole."""
_OF_AN_ENVIRONMENT: Final = ("bin", "lib", "lib64", "include", "pyvenv.cfg")


@frozen
class Place:
    """Where code lies.

    Attributes:
        path: As this process calls it; links are not resolved.
        real: With all links resolved, as they were when this was imported.
        is_whole: Whether all that is in it is code; a root inside of it is refused.
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
    """List the paths below a root, as names from there, at which the code of this process lies."""
    if root == Path("/"):  # for who has asked for it; nothing confines anything there
        return ()
    found: set[tuple[str, ...]] = set()
    for place in _PLACES:
        real = place.real
        if real == root:
            if place.is_whole:
                raise _refuse(root, f"it is {place.path}, from which this program runs")
            found.update((name,) for name in _OF_AN_ENVIRONMENT if root.joinpath(name).exists())
        elif real.is_relative_to(root):
            found.add(real.relative_to(root).parts)
        elif place.is_whole and root.is_relative_to(real):
            raise _refuse(root, f"it lies in {place.path}, from which this program runs")
    found |= _named_below(root)
    kept = tuple(
        sorted(names for names in found if not any(names[:n] in found for n in range(1, len(names))))
    )
    _refuse_links(root, kept)
    return kept


def list_own_places() -> tuple[tuple[str, ...], ...]:
    """List all paths at which the code of this process lies, as names from `/` on; without those that others share."""
    places = {place.real for place in _PLACES if place.is_whole}
    if sys.prefix != sys.base_prefix:  # an environment, which is for this program
        places.add(Path(sys.prefix).resolve())
    places |= {path.resolve() for path in NAMED_MODULES.files()}
    return tuple(sorted(place.parts for place in places))


def _named_below(root: Path) -> set[tuple[str, ...]]:
    real = (path.resolve() for path in NAMED_MODULES.files())
    names = {path.relative_to(root).parts for path in real if path.is_relative_to(root)}
    return names if len(names) <= _MAX_NAMED else {one[:1] for one in names}


def _refuse_links(root: Path, kept: tuple[tuple[str, ...], ...]) -> None:
    for place in _PLACES:
        for link in find_links(place.path, root):
            names = link.relative_to(root).parts
            if not any(names[: len(one)] == one and len(names) > len(one) for one in kept):
                raise _refuse(root, f"this program runs from {place.path} through the link {link}")


def _refuse(root: Path, why: str) -> SandboxError:
    message = (
        f"the root {str(root)!r} cannot be confined: {why}, so that what is written there would run outside of the "
        "sandbox. Name another directory, or install agentrail elsewhere"
    )
    return SandboxError(message)
