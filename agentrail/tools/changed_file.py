"""Result details of tools that change files. `core.loops` reads them."""

import posixpath

from agentrail.messages import JsonValue


def details_of(path: str, *, before: str | None, after: str) -> dict[str, JsonValue]:
    return {
        "file": {"path": posixpath.normpath(path), "sha256_before": before, "sha256_after": after},
    }
