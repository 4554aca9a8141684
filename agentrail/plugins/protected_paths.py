"""Names of protected files, and whether a path matches one. Compares names only: no link is followed, no disk is read."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

import attrs

DEFAULT_PATHS: Final = (
    *("*.key", "*.pem", "*.p12", "*.pfx", "*.crt", "*.cer", ".env*"),
    *(
        "~/.ssh",
        "~/.gnupg",
        "~/.aws",
        "~/.azure",
        "~/.config/gcloud",
        "~/.kube",
        "~/.docker/config.json",
        "~/.netrc",
    ),
    *("~/Library/Keychains", "~/.local/share/keyrings", "~/.password-store"),
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/passwd", "/etc/passwd-", "/Library/Keychains"),
)
"""Keys and certificates, environments, cloud credentials, key chains, and login permissions."""

MAX_PATH_CHARACTERS: Final = 4096
"""The longest path on Linux, with `.` and `..` resolved. A longer path leads nowhere."""

MAX_LOOKS: Final = 40_000
"""Limit of comparisons in one call."""

MAX_NAME_CHARACTERS: Final = 255
"""The longest file name."""

OTHER_ROOT: Final = re.compile(
    r"^(?:file:/+|/proc/(?:self|thread-self|\d+)/(?:root|cwd)(?=/))", re.IGNORECASE
)
_WILDCARDS: Final = re.compile(r"[*?\[]")
_STARS: Final = re.compile(r"\*+")
_TOKEN: Final = re.compile(r"\[[!^]?\]?(?:\[:\w+:\]|[^\]])*\]|.", re.DOTALL)


@attrs.define
class Looks:
    """Comparison budget of a call, in about a microsecond each. A path beyond the budget is refused."""

    working_dir: str
    left: int = MAX_LOOKS
    seen: set[str] = attrs.field(factory=set)

    def pay_for(self, path: str) -> bool:
        """Charge the cost of a path. False if the budget is exhausted. Wildcards are compared once, and cached."""
        cost = 5 + len(path) // 20
        if _WILDCARDS.search(path) and path not in self.seen:
            self.seen.add(path)
            cost += 60 * min(len(path), MAX_PATH_CHARACTERS)
        self.left -= cost
        return self.left >= 0


def first_that_protects(patterns: Sequence[str], path: str, *, working_dir: str) -> str | None:
    """Return the first of these patterns that protects a path. None if there is none."""
    parts = _parts(path, working_dir)
    if sum(map(len, parts)) + len(parts) > MAX_PATH_CHARACTERS:
        return None
    plain = "/" + "/".join(parts)
    if not _WILDCARDS.search(plain) and not _at_once(tuple(patterns)).search(plain):
        return None
    return next((pattern for pattern in patterns if _covers(pattern, parts)), None)


@lru_cache(maxsize=64)
def _at_once(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile all patterns into one expression: nearly every path is free, and is then compared once instead of twenty times."""
    made = [r"(?!)"]
    for pattern in patterns:
        wanted = [part for part in pattern.lower().split("/") if part and part != "~"]
        begins = "^" if "/" in pattern and not pattern.startswith("~") else ""
        made.append(
            begins + "".join("/" + "".join(map(_as_expression, _TOKEN.findall(part))) for part in wanted)
        )
    return re.compile(f"(?:{'|'.join(made)})(?:/|$)", re.DOTALL)


def _as_expression(piece: str) -> str:
    if len(piece) > 1:
        return "[^/]"  # a character set: its content is compared later
    return {"*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))


def _covers(pattern: str, parts: Sequence[str]) -> bool:
    wanted = [part for part in pattern.lower().split("/") if part and part != "~"]
    if "/" not in pattern:
        return any(_alike(part, wanted[0]) for part in parts)
    if pattern.startswith("~"):
        width = len(wanted)
        starts = range(len(parts) - width + 1)
        return any(all(map(_alike, parts[start : start + width], wanted)) for start in starts)
    return len(parts) >= len(wanted) and all(map(_alike, parts, wanted))


def _parts(path: str, working_dir: str) -> list[str]:
    path = OTHER_ROOT.sub("/", path.strip())
    whole = path if path.startswith(("/", "~", "$HOME", "${HOME}")) else f"{working_dir}/{path}"
    parts: list[str] = []
    for part in whole.lower().split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return parts


@lru_cache(maxsize=4096)
def _alike(part: str, wanted: str) -> bool:
    """Compare a part of a path with a part of a pattern. Both may have wildcards. Shell wildcards do not match hidden names."""
    if fnmatchcase(part, wanted):
        return True
    if not _WILDCARDS.search(part) or (wanted.startswith(".") and not part.startswith((".", "[.", "[[.."))):
        return False
    return _aims_at(part, wanted) if _WILDCARDS.search(wanted) else _meets(part, wanted) is not None


def _aims_at(part: str, wanted: str) -> bool:
    """Return whether a pattern in a command targets such names: `*.ke?` targets `*.key`, and `*` targets nothing.

    At least half the literal letters of the protected pattern must match something narrower than `*`.
    """
    spelled = sum(one.isalnum() or one == "_" for one in _TOKEN.findall(wanted))
    aimed = _meets(part, wanted)
    return aimed is not None and aimed > 0 and 2 * aimed >= spelled


def _meets(part: str, wanted: str) -> int | None:
    """Return the most letters of the second pattern matched by something narrower than `*`. None if no name fits both."""
    ours, theirs = _TOKEN.findall(_STARS.sub("*", part)), _TOKEN.findall(wanted)
    if len(ours) - ours.count("*") > MAX_NAME_CHARACTERS:
        return None  # no name is that long
    row: list[int | None] = []
    for ahead in range(len(ours), -1, -1):
        below, row = row, []
        for place in range(len(theirs), -1, -1):
            row.append(_best(ours, theirs, (ahead, place), below, row))
    return row[-1]


def _best(
    ours: Sequence[str],
    theirs: Sequence[str],
    at: tuple[int, int],
    below: Sequence[int | None],
    row: Sequence[int | None],
) -> int | None:
    ahead, place = at
    ended = len(theirs) - place
    our, their = (ours[ahead : ahead + 1] or [""])[0], (theirs[place : place + 1] or [""])[0]
    if not our and not their:
        return 0
    ways: list[int | None] = []
    if our == "*":
        ways.append(below[ended])
        ways.append(row[ended - 1] if their else None)
    if their == "*":
        ways.append(row[ended - 1])
        ways.append(below[ended] if our else None)
    elif our not in {"", "*"} and their and _letters_meet(our, their):
        ahead_of_both = below[ended - 1]
        gained = their.isalnum() or their == "_"
        ways.append(None if ahead_of_both is None else ahead_of_both + gained)
    return max((way for way in ways if way is not None), default=None)


def _letters_meet(our: str, their: str) -> bool:
    if len(our) > 1 and len(their) > 1:
        return True  # two character sets may overlap
    if "?" in {our, their}:
        return True
    if len(our) > 1:
        return "[:" in our or fnmatchcase(their, our.replace("[^", "[!", 1))
    return fnmatchcase(our, their) if len(their) > 1 else our == their
