"""Paths in rules: globs compared with the place a path leads to. Names only: the caller resolves links."""

import re
import unicodedata
from fnmatch import translate
from functools import lru_cache
from typing import Final, TypeAlias

from attrs import frozen

from agentrail.plugins.protected_paths import MAX_PATH_CHARACTERS, OTHER_ROOT, first_that_protects

_ANY_HOME: Final = (("home", "*"), ("users", "*"), ("root",), ("~*",))
_Way: TypeAlias = tuple[re.Pattern[str] | None, ...]

EDITED_WITH_CARE: Final = (
    *(".git", ".gitmodules", ".gitconfig", ".hg", ".vscode", ".idea", ".mcp.json", ".envrc"),
    # Deny rules may be in these files. Writing to them could remove the rules from the next session.
    *("agentrail.toml", ".agentrail", ".agents", ".claude", ".codex", ".gemini"),
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
    *(".zshrc", ".zprofile", ".zshenv", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login"),
    *(
        "*.key",
        "*.pem",
        "*.p12",
        "*.pfx",
        "*.crt",
        "*.cer",
        ".env*",
        ".npmrc",
        ".netrc",
        ".ssh",
        ".gnupg",
        ".aws",
    ),
)
"""Names that the mode `accept_edits` does not accept: programs execute their content, or they hold secrets."""


@frozen(kw_only=True)
class PathGlob:
    text: str


@frozen(kw_only=True)
class PathPlace:
    """The place a path leads to.

    Attributes:
        home: The directory that `~/` means. Empty if unknown.
    """

    ends: tuple[str, ...]
    inside: bool
    is_sure: bool
    workspace: str
    home: str = ""
    confined: tuple[str, ...] = ()

    @property
    def anywhere(self) -> tuple[str, ...]:
        """All places that it may lead to."""
        return (*self.ends, *self.confined)


def fault_of_glob(text: str) -> tuple[int, str] | None:
    """Return the fault of a pattern with its character position. None for a valid pattern."""
    if text.startswith("/") and not text.startswith("//"):
        return (
            0,
            "'/' alone is ambiguous: write '//' for the root of the file system, './' for the workspace",
        )
    if ".." in (parts := text.split("/")):
        return text.index(".."), "'..' is not allowed: name the target directory itself"
    glued = next((part for part in parts if "**" in part and part != "**"), None)
    if glued is not None:
        return text.index(glued), "'**' must be alone between slashes; '*' matches any characters of a name"
    if not any(part not in {"", "."} for part in parts):
        return 0, "it matches nothing: '**' matches everything below the workspace"
    return None


def path_place(path: str, working_dir: str, home: str = "", also: tuple[str, ...] = ()) -> PathPlace | None:
    if len(path) > MAX_PATH_CHARACTERS:
        return None
    workspace = _joined("", working_dir if working_dir.startswith("/") else f"/{working_dir}")
    plain = OTHER_ROOT.sub("/", path.strip())
    is_sure = not path.startswith(("~", "$")) and path == plain and "\0" not in path
    if plain.startswith("~"):
        end = home + plain[1:] if home and plain[1:2] in {"", "/"} else plain
    elif plain.startswith("/"):
        end = _joined("", plain)
    else:
        end = _joined(workspace, plain)
    is_own = not plain.startswith(("/", "~")) or _is_below(end, workspace)
    ends = (end, *(_joined("", one) for one in also))
    return PathPlace(
        ends=ends,
        inside=is_sure and all(_is_below(one, workspace) for one in ends),
        is_sure=is_sure,
        workspace=workspace,
        home=home,
        confined=() if is_own else (_joined(workspace, plain),),
    )


def may_match(glob: PathGlob, place: PathPlace) -> bool:
    """Compare for `deny` and `ask`: whether a place may match a pattern, or be below it."""
    ways = _ways(_folded(glob.text), _folded(place.workspace), _folded(place.home), is_narrow=False)
    return any(_fits(way, _parts(_folded(end))) for end in place.anywhere for way in ways)


def must_match(glob: PathGlob, place: PathPlace) -> bool:
    """Compare for `allow`: whether every possible place matches a pattern."""
    ways = _ways(glob.text, place.workspace, place.home, is_narrow=True)
    # Patterns with `//` or `~/` mean places outside. A confined sandbox turns these into places below the workspace.
    ends = place.ends if glob.text.startswith(("//", "~")) else place.anywhere
    return place.is_sure and all(any(_fits(way, _parts(end)) for way in ways) for end in ends)


def may_hold(glob: PathGlob, place: PathPlace) -> bool:
    """Return whether a match of the pattern may be below a place: a search there would read it."""
    text = glob.text
    if "/" not in text.rstrip("/"):
        return True
    literal = re.split(r"[*?]", text, maxsplit=1)[0]
    if text.startswith("~"):
        start = (place.home or "/home") + literal[1:]
    else:
        start = _joined("", literal[1:]) if text.startswith("//") else _joined(place.workspace, literal)
    start = _folded(start)
    return any(_is_below(start, _folded(end)) or _is_below(_folded(end), start) for end in place.anywhere)


def is_protected(place: PathPlace) -> bool:
    return any(
        first_that_protects(EDITED_WITH_CARE, end, working_dir="/") is not None for end in place.anywhere
    )


def _joined(base: str, path: str) -> str:
    parts = [part for part in base.split("/") if part]
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/" + "/".join(parts)


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _folded(text: str) -> str:
    return text if text.isascii() and text.islower() else unicodedata.normalize("NFC", text).casefold()


@lru_cache(maxsize=2048)
def _ways(text: str, workspace: str, home: str, *, is_narrow: bool) -> tuple[_Way, ...]:
    """Return the rows of names that a pattern means, from the root. None means any number of names."""
    body = text.removeprefix("./").rstrip("/")
    here = _literal(workspace)
    starts: list[_Way] = [here]
    if text.startswith("//"):
        starts = [()]
    elif text.startswith("~"):
        body = body.partition("/")[2]
        starts = [_literal(home)] if home and text[1:2] in {"", "/"} else []
        starts += [] if is_narrow else [tuple(map(_name, one)) for one in _ANY_HOME]
    elif "/" not in body and not text.startswith("./"):
        body = f"**/{body}"
        starts = [here] if is_narrow else [()]
    names = _parts(body)
    if is_narrow and names[-1:] == ["**"]:
        names.append("*")  # the directory itself is not below itself
    elif not is_narrow:
        names.append("**")
    found = tuple(map(_name, names))
    return tuple((*start, *found) for start in starts)


def _literal(path: str) -> _Way:
    return tuple(re.compile(re.escape(name)) for name in _parts(path))


def _name(text: str) -> re.Pattern[str] | None:
    # A modified `fnmatch`: `[` is an ordinary letter. Its stars do not retry, so matching takes no quadratic time.
    return None if text == "**" else re.compile(translate(text.replace("[", "[[]")))


def _fits(way: _Way, names: list[str]) -> bool:
    """Match names, backtracking only to the last `**`: an earlier one would only repeat the same attempts."""
    at = place = 0
    again: tuple[int, int] | None = None
    while at < len(names) or place < len(way):
        wanted = way[place] if place < len(way) else None
        if place < len(way) and wanted is None:
            again, place = (place, at), place + 1
        elif at < len(names) and wanted is not None and wanted.fullmatch(names[at]):
            at, place = at + 1, place + 1
        elif again is not None and again[1] < len(names):
            again = (again[0], again[1] + 1)
            place, at = again[0] + 1, again[1]
        else:
            return False
    return True


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]
