"""Names that no tool writes, because somebody trusts what is in them: programs run it, or agentrail itself. Pure."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

PROTECTED: Final = (
    ".git/hooks",
    ".git/config",
    ".gitmodules",
    *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zprofile", ".zshenv"),
    *(".vscode", ".idea", ".mcp.json", ".envrc"),
    ".agentrail",
)
"""Each stands for itself and for all that is below it, in any directory. A file called `.git` is protected besides."""

GIT: Final = ".git"
STATE_DIRECTORY: Final = ".agentrail"
OUTPUT_DIRECTORY: Final = "output"


class ProtectedNames:
    """Tells which names may not be written, and which not even read."""

    def __init__(self, protected: Iterable[str]) -> None:
        """Take paths such as `.git/hooks`; they are compared without case."""
        self._entries = tuple(tuple(map(_folded, entry.strip("/").split("/"))) for entry in protected)
        self._last_names = frozenset((*(entry[-1] for entry in self._entries), GIT))

    def find_written(self, names: Sequence[str]) -> str | None:
        """Give the protected path that a write of this file would touch.

        Args:
            names: From the root to the file.
        """
        folded = tuple(map(_folded, names))
        for entry in self._entries:
            for start in range(len(folded) - len(entry) + 1):
                if folded[start : start + len(entry)] == entry:
                    return "/".join(names[: start + len(entry)])
        # A directory of that name may be worked in. A file of that name says where the repository is.
        return "/".join(names) if folded and folded[-1] == GIT else None

    def covers(self, names: Sequence[str], *, is_directory: bool) -> bool:
        """Tell whether a protected path ends here, for who goes through a tree. Quick where none does."""
        if (names[-1].lower() if names[-1].isascii() else _folded(names[-1])) not in self._last_names:
            return False
        folded = tuple(map(_folded, names))
        is_entry = any(folded[-len(entry) :] == entry for entry in self._entries)
        return is_entry or (folded[-1] == GIT and not is_directory)

    def find_read(self, names: Sequence[str]) -> str | None:
        """Give the path that may not be read: agentrail's own state, but for the outputs of commands."""
        if not any(name.startswith(".") or not name.isascii() for name in names):  # nearly always
            return None
        folded = tuple(map(_folded, names))
        if STATE_DIRECTORY not in folded:
            return None
        at = folded.index(STATE_DIRECTORY)
        is_output = folded[at + 1 : at + 2] in {(), (OUTPUT_DIRECTORY,)}
        return None if is_output else "/".join(names[: at + 2])


def _folded(name: str) -> str:
    # Some file systems compare without case, and some leave out characters that nobody sees.
    seen = (character for character in name if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", "".join(seen)).casefold()
