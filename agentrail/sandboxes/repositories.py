"""What keeps a file tool from making a directory that git takes for a repository, with settings that name programs to run.

Git looks for `.git`, and then whether the directory itself, or one above it, is a repository: `HEAD`, `objects` and `refs`
are enough. In such a directory a file called `config` is what `.git/config` is elsewhere.
"""

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from agentrail.sandboxes.beneath import Opener
from agentrail.sandboxes.guarded import find_repository_parts, is_complete
from agentrail.sandboxes.protected import GIT, ProtectedNames, fold_name
from agentrail.sandboxes.refusals import Names, refuse_protected, refuse_repository

_FILES: Final = {"head": "HEAD", "commondir": "commondir"}
_DIRECTORIES: Final = {"objects": "objects", "refs": "refs"}


class Repositories:
    """Judges what is written by what there is beside it."""

    def __init__(self, root: int, opener: Opener, protected: ProtectedNames) -> None:
        """Judge what is below the directory of this descriptor, which the caller keeps open."""
        self._root = root
        self._open = opener
        self._protected = protected
        self._parts = frozenset(protected.git_parts)
        self._names = self._parts | _FILES.keys() | _DIRECTORIES.keys() | {"modules", "worktrees"}
        self._lock = threading.Lock()

    def hold(self, names: Names) -> AbstractContextManager[object]:
        """Keep others from writing a part of a repository meanwhile: two that are harmless may be one together."""
        return self._lock if self._find(names) else nullcontext()

    def check(self, names: Names) -> None:
        """Refuse what would complete a repository, or is protected in the one that is there.

        Raises:
            Refused: It may not be written.
        """
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
        """Find where a name of a repository stands that is not below `.git`, which has rules of its own."""
        if not self._parts:  # the caller that made the sandbox does not protect git
            return []
        folded = [fold_name(name) if not name.isascii() else name.lower() for name in names]
        return [at for at, name in enumerate(folded) if name in self._names and GIT not in folded[:at]]

    def _look(self, names: Names) -> frozenset[str]:
        try:
            descriptor = self._open(self._root, names, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return frozenset()
        try:
            return find_repository_parts(descriptor)
        finally:
            os.close(descriptor)
