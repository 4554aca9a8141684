"""Result details of tools that change files. `core.loops` reads them."""

import posixpath

from agentrail.messages import JsonValue


def details_of(path: str, *, before: str | None, after: str) -> dict[str, JsonValue]:
    """Return the details of a changed file.

    Args:
        path: Path as written by the model. Different spellings of one relative path are equal.
        before: SHA-256 of the previous content, in hexadecimal. None if there was no file.
        after: SHA-256 of the current content, in hexadecimal.
    """
    return {
        "file": {"path": posixpath.normpath(path), "sha256_before": before, "sha256_after": after},
    }
