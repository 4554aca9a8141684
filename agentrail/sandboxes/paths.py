"""The paths that a sandbox accepts, judged as text. No file is read here. `safe_open.py` handles links."""

from pathlib import PurePosixPath
from typing import Final

from agentrail.abc import Refusal

MAX_PATH_BYTES: Final = 4_096
MAX_NAME_BYTES: Final = 255

_MAX_SHOWN_CHARACTERS: Final = 200
_WAY_OUT: Final = 'Paths are relative to the working directory, such as "src/app.py".'


def decide_names(path: str, roots: tuple[PurePosixPath, ...]) -> tuple[str, ...] | Refusal:
    fault = _fault(path) or _fault_of_virtual(path)
    if fault is not None:
        return _refuse(path, fault)
    pure = PurePosixPath(path)
    if not pure.is_absolute():
        return pure.parts
    for root in roots:
        # By component rather than text: /srv/ws is not a parent of /srv/ws-evil.
        if pure.is_relative_to(root):
            return pure.relative_to(root).parts
    return _refuse(path, "it is outside the working directory")


def decide_anywhere(path: str, root: PurePosixPath, home: PurePosixPath) -> tuple[str, ...] | Refusal:
    """Split a path into `/` and the names from there to its target, for a sandbox without confinement."""
    fault = _fault(path)
    if fault is not None:
        return _refuse(path, fault)
    pure = PurePosixPath(path)
    if pure.parts[:1] == ("~",):
        pure = home.joinpath(*pure.parts[1:])
    return root.joinpath(pure).parts


def join_names(names: tuple[str, ...]) -> str:
    """Join names into a path. Those of `decide_anywhere` start with `/`."""
    return f"/{'/'.join(names[1:])}" if names[:1] == ("/",) else "/".join(names)


def show_names(names: tuple[str, ...]) -> str:
    """Join names into a path for a message, without characters that would break the line."""
    return escape(join_names(names) or ".")


def escape(text: str) -> str:
    """Escape characters that would break a line or repaint a terminal: a file name may contain anything except `/`."""
    if len(text) > MAX_PATH_BYTES:
        text = f"{text[:_MAX_SHOWN_CHARACTERS]}…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def fault_of_path(text: str, max_characters: int) -> str | None:
    """Return why a text cannot be a path, or a pattern of paths. None if it can."""
    if len(text) > max_characters:
        return f"it has {len(text):,} characters, at most {max_characters:,} are allowed"
    if any(character < " " or "\x7f" <= character <= "\x9f" for character in text):
        return "it contains a control character"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "it is not valid Unicode"
    return None


def _refuse(path: str, fault: str) -> Refusal:
    return Refusal(code="invalid_path", message=f"Invalid path {_shown(path)}: {fault}. {_WAY_OUT}")


def _fault(path: str) -> str | None:
    if not path:
        return "it is empty"
    if len(path) > 2 * MAX_PATH_BYTES:  # before any other check
        return f"it has {len(path)} characters, at most {MAX_PATH_BYTES} bytes are allowed"
    if any(character < " " or "\x7f" <= character <= "\x9f" for character in path):
        return "it contains a control character"
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if len(encoded) > MAX_PATH_BYTES:
        return f"it has {len(encoded)} bytes, at most {MAX_PATH_BYTES} are allowed"
    if any(len(name) > MAX_NAME_BYTES for name in encoded.split(b"/")):
        return f"a name in it is longer than {MAX_NAME_BYTES} bytes"
    return None


def _fault_of_virtual(path: str) -> str | None:
    if path.startswith("~"):
        return '"~" is not expanded'
    # Even if it would stay inside: "a/../b" has another meaning if a is a link.
    if ".." in path.split("/"):
        return '".." is not allowed'
    return None


def _shown(path: str) -> str:
    """Quote a path for a message: short, without characters that would break the line."""
    short = path[:_MAX_SHOWN_CHARACTERS]
    return f'"{short}"' if short.isprintable() else ascii(short)
