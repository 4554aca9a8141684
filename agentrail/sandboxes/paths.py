"""Which paths a sandbox takes, judged as text. No file is looked at here; links are the business of `beneath.py`."""

from pathlib import PurePosixPath
from typing import Final

from agentrail.abc import Refusal

MAX_PATH_BYTES: Final = 4_096
MAX_NAME_BYTES: Final = 255

_MAX_SHOWN_CHARACTERS: Final = 200
_WAY_OUT: Final = 'Paths are relative to the working directory, such as "src/app.py".'


def decide_names(path: str, roots: tuple[PurePosixPath, ...]) -> tuple[str, ...] | Refusal:
    """Split a path into the names that lead from the root to what it means.

    Args:
        path: As a model wrote it.
        roots: What the root is called, absolute; an absolute path is taken only below one of them.

    Returns:
        The names, none for the root itself; or a `Refusal` with the code `invalid_path`.
    """
    fault = _fault(path)
    if fault is not None:
        return Refusal(code="invalid_path", message=f"Invalid path {_shown(path)}: {fault}. {_WAY_OUT}")
    pure = PurePosixPath(path)
    if not pure.is_absolute():
        return pure.parts
    for root in roots:
        # By component, never by the text: /srv/ws is no parent of /srv/ws-evil.
        if pure.is_relative_to(root):
            return pure.relative_to(root).parts
    message = f"Invalid path {_shown(path)}: it is outside the working directory. {_WAY_OUT}"
    return Refusal(code="invalid_path", message=message)


def _fault(path: str) -> str | None:
    if not path:
        return "it is empty"
    if any(not character.isprintable() and character.isascii() for character in path):
        return "it has a control character in it"
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if len(encoded) > MAX_PATH_BYTES:
        return f"it has {len(encoded)} bytes, at most {MAX_PATH_BYTES} are allowed"
    if any(len(name) > MAX_NAME_BYTES for name in encoded.split(b"/")):
        return f"a name in it is longer than {MAX_NAME_BYTES} bytes"
    if path.startswith("~"):
        return '"~" is not expanded'
    # Also where it would stay inside: "a/../b" means something else when a is a link.
    if ".." in path.split("/"):
        return '".." is not allowed'
    return None


def _shown(path: str) -> str:
    """Quote a path for a message: short, and with nothing in it that would break the line."""
    short = path[:_MAX_SHOWN_CHARACTERS]
    return f'"{short}"' if short.isprintable() else ascii(short)
