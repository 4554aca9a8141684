"""Names of files that a guard protects, and whether a path is one of them. Names only: no link is followed, no disk read."""

import re
from fnmatch import fnmatchcase
from typing import Final

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
"""Keys and certificates, environments, cloud credentials, key chains, and who may log in."""

_ANOTHER_ROOT: Final = re.compile(
    r"^(?:file:/+|/proc/(?:self|thread-self|\d+)/(?:root|cwd)(?=/))", re.IGNORECASE
)
_GLOB: Final = re.compile(r"[*?\[]")


def protects(pattern: str, path: str, *, working_dir: str) -> bool:
    """Say whether a path is protected by a pattern.

    Args:
        pattern: `*.pem` is a name anywhere; `~/.ssh` a folder of any home, wherever it lies, and all in it; `/etc/shadow`
            that very file or folder, and all in it. Case does not count: on some disks it does not either.
        path: As it was written: relative, with `..`, with a home or wildcards in it.
        working_dir: What it is relative to.
    """
    parts = _parts(path, working_dir)
    wanted = [part for part in pattern.lower().split("/") if part and part != "~"]
    if "/" not in pattern:
        return any(_alike(part, wanted[0]) for part in parts)
    if pattern.startswith("~"):
        width = len(wanted)
        starts = range(len(parts) - width + 1)
        return any(all(map(_alike, parts[start : start + width], wanted)) for start in starts)
    return len(parts) >= len(wanted) and all(map(_alike, parts, wanted))


def _parts(path: str, working_dir: str) -> list[str]:
    """Cut a path at its slashes, with `.` and `..` carried out."""
    path = _ANOTHER_ROOT.sub("/", path.strip())
    whole = path if path.startswith(("/", "~", "$HOME", "${HOME}")) else f"{working_dir}/{path}"
    parts: list[str] = []
    for part in whole.lower().split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return parts


def _alike(part: str, wanted: str) -> bool:
    """Compare a part of a path with one of a pattern; either may have wildcards, and a shell's find no hidden names."""
    if fnmatchcase(part, wanted):
        return True
    hidden = wanted.startswith(".") and not part.startswith(".")
    return bool(_GLOB.search(part)) and not _GLOB.search(wanted) and not hidden and fnmatchcase(wanted, part)
