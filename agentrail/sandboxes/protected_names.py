"""Names that no tool writes, because programs run or trust their contents."""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from agentrail.sandboxes.refusals import refuse_protected, refuse_unreadable

GIT: Final = ".git"
STATE_DIRECTORY: Final = ".agentrail"
OUTPUT_DIRECTORY: Final = "output"
RESULTS_DIRECTORY: Final = "mcp"

_ANYTHING: Final = "**"
_GIT_PARTS: Final = ("config", "config.worktree", "commondir", "gitdir", "hooks", "info")
"""Files that name the programs git runs, or the location of such files."""

PROTECTED: Final = (
    *(f"{GIT}/{part}" for part in _GIT_PARTS),
    # Submodules and further working trees have the same parts, at any depth, because a name may contain a slash.
    *(f"{GIT}/{place}/**/{part}" for place in ("modules", "worktrees") for part in _GIT_PARTS),
    *(".gitmodules", ".gitconfig", ".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath"),
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
    *(".zshrc", ".zprofile", ".zshenv", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login"),
    *(".ssh", ".netrc", ".gnupg", ".aws/config", ".docker/config.json", ".kube/config", ".local/bin"),
    *(f".config/{name}" for name in ("autostart", "environment.d", "fish", "git", "pip", "systemd")),
    # Editors, and the programs they run when a directory is opened.
    *(
        ".vscode",
        ".idea",
        ".zed",
        ".fleet",
        ".devcontainer",
        ".devcontainer.json",
        ".envrc",
        "mise.toml",
        ".mise.toml",
        ".mise",
    ),
    *(".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".dir-locals-2.el"),
    # Agents: their settings, hooks, servers and agents.
    *(
        ".claude",
        ".claude.json",
        ".codex",
        ".gemini",
        ".qwen",
        ".cursor",
        ".windsurf",
        ".continue",
        ".roo",
        ".cline",
        ".kiro",
    ),
    *(
        ".amazonq",
        ".junie",
        ".augment",
        ".goose",
        ".opencode",
        "opencode.json",
        "opencode.jsonc",
        "crush.json",
        ".crush.json",
    ),
    *(".aider.conf.yml", ".mcp.json", "agentrail.toml", STATE_DIRECTORY),
    # Package managers: their sources, and the programs they run.
    *(
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        ".pnpmfile.mjs",
        "bunfig.toml",
        ".pypirc",
        "pip.conf",
        "uv.toml",
    ),
    *(f".yarn/{name}" for name in ("plugins", "releases", "sdks")),
    *(".condarc", ".gemrc", ".bundle/config", ".cargo/config", ".cargo/config.toml"),
    # Programs that run at a commit, and modules that every Python runs at its start.
    *(
        ".husky",
        ".githooks",
        ".pre-commit-config.yaml",
        ".overcommit.yml",
        ".lintstagedrc",
        ".lintstagedrc.json",
    ),
    *("lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", "lefthook-local.yml"),
    *("sitecustomize.py", "usercustomize.py"),
)
"""Each protects itself and everything below it, in any directory. `**` means any names between two others. A file called
`.git` is also protected. Ordinary project files are not in the list, although people run them too: `Makefile`,
`package.json`, `pyproject.toml`, `conftest.py`, workflows.
"""

_Entry: TypeAlias = tuple[tuple[str, ...], tuple[str, ...] | None]
"""Consecutive names, and those that follow after any others. None if nothing is left out."""


class ProtectedNames:
    """Determines the names that must not be written, and those that must not be read."""

    def __init__(
        self,
        protected: Iterable[str],
        own_code: Iterable[tuple[str, ...]] = (),
        private: Callable[[], Iterable[tuple[str, ...]]] = tuple,
    ) -> None:
        self._private = private
        self._entries: tuple[_Entry, ...] = tuple(map(_read_entry, protected))
        self._own = tuple(tuple(map(fold_name, names)) for names in own_code)
        self._last_names = frozenset((*((tail or head)[-1] for head, tail in self._entries), GIT))

    @property
    def top_names(self) -> tuple[tuple[str, ...], ...]:
        return ((GIT,), *(head for head, tail in self._entries if tail is None and head[:1] != (GIT,)))

    @property
    def git_parts(self) -> tuple[str, ...]:
        return tuple(
            head[1]
            for head, tail in self._entries
            if tail is None and head[0] == GIT and len(head) == 2  # noqa: PLR2004 - the directory and the part
        )

    def find_written(self, names: Sequence[str]) -> str | None:
        """Return the protected path that a write of this file would touch."""
        folded = tuple(map(fold_name, names))
        for own in (*self._own, *_folded(self._private())):
            if folded[: len(own)] == own:
                return "/".join(names[: len(own)])
        for entry in self._entries:
            end = _find_end(folded, entry)
            if end is not None:
                return "/".join(names[:end])
        # A directory of that name is an ordinary place to work. A file of that name gives the location of the repository.
        return "/".join(names) if folded and folded[-1] == GIT else None

    def check_written(self, names: Sequence[str]) -> None:
        if (found := self.find_written(names)) is not None:
            raise refuse_protected(found)

    def check_read(self, names: Sequence[str]) -> None:
        if (found := self.find_read(names)) is not None:
            raise refuse_unreadable(found)

    def covers(self, names: Sequence[str], *, is_directory: bool) -> bool:
        """Return whether a protected path ends here, for a walk through a tree. Fast if none does."""
        if (names[-1].lower() if names[-1].isascii() else fold_name(names[-1])) not in self._last_names:
            return False
        folded = tuple(map(fold_name, names))
        is_entry = any(_find_end(folded, entry) == len(folded) for entry in self._entries)
        return is_entry or (folded[-1] == GIT and not is_directory)

    def find_read(self, names: Sequence[str]) -> str | None:
        """Return the unreadable path that contains this one: agentrail's own state, except outputs of commands, and private places."""
        private = _folded(self._private())
        if private:
            folded = tuple(map(fold_name, names))
            for place in private:
                if folded[: len(place)] == place:
                    return "/".join(names[: len(place)])
        if not any(name.startswith(".") or not name.isascii() for name in names):  # the usual case
            return None
        folded = tuple(map(fold_name, names))
        if STATE_DIRECTORY not in folded:
            return None
        at = folded.index(STATE_DIRECTORY)
        is_output = folded[at + 1 : at + 2] in {(), (OUTPUT_DIRECTORY,), (RESULTS_DIRECTORY,)}
        return None if is_output else "/".join(names[: at + 2])


def _folded(paths: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(map(fold_name, names)) for names in paths)


def _read_entry(entry: str) -> _Entry:
    names = tuple(map(fold_name, entry.strip("/").split("/")))
    if _ANYTHING not in names:
        return names, None
    at = names.index(_ANYTHING)
    return names[:at], names[at + 1 :]


def _find_end(folded: tuple[str, ...], entry: _Entry) -> int | None:
    """Return the position at which a protected path ends in these names, the nearest to the root."""
    head, tail = entry
    for start in range(len(folded) - len(head) + 1):
        end = start + len(head)
        if folded[start:end] != head:
            continue
        if tail is None:
            return end
        for at in range(end, len(folded) - len(tail) + 1):
            if folded[at : at + len(tail)] == tail:
                return at + len(tail)
    return None


def fold_name(name: str) -> str:
    # Some file systems ignore case, and some ignore invisible characters.
    seen = (character for character in name if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", "".join(seen)).casefold()
