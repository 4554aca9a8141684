"""What tools that change files say of it in the details of their results; `core.loops` reads it."""

import posixpath

from agentrail.messages import JsonValue


def details_of(path: str, *, before: str | None, after: str) -> dict[str, JsonValue]:
    """Say what became of a file.

    Args:
        path: As the model wrote it; two ways to write one relative path are one.
        before: SHA-256 of its bytes before, in hexadecimal; None when there was no file.
        after: The same, of those it has now.
    """
    return {
        "file": {"path": posixpath.normpath(path), "sha256_before": before, "sha256_after": after},
    }
