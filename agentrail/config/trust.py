"""Directories that a user trusts, with the hashes of their files."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from agentrail.errors import OptionError

TRUST_VERSION: Final = 1

Digests = Mapping[str, str]
"""SHA-256 of each file in hexadecimal, by its path relative to the directory."""


@frozen(kw_only=True)
class TrustList:
    directories: Mapping[str, Digests] = {}

    def trusts(self, directory: str, digests: Digests) -> bool:
        """Return whether exactly these files are trusted, regardless of skills."""
        known = self.directories.get(directory)
        return known is not None and _of_files(known) == _of_files(digests)

    def with_directory(self, directory: str, digests: Digests) -> "TrustList":
        return TrustList(directories={**self.directories, directory: dict(digests)})

    def without_directory(self, directory: str) -> "TrustList":
        return TrustList(
            directories={name: one for name, one in self.directories.items() if name != directory}
        )


def _of_files(digests: Digests) -> dict[str, str]:
    # A path that ends in `/` is a skill. A new skill is not trusted, and does not affect trust in other files.
    return {path: digest for path, digest in digests.items() if not path.endswith("/")}


def file_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def encode_trust(trusted: TrustList) -> str:
    directories = {name: dict(sorted(one.items())) for name, one in sorted(trusted.directories.items())}
    return json.dumps({"version": TRUST_VERSION, "directories": directories}, indent=2) + "\n"


def decode_trust(text: str, *, name: str) -> TrustList:
    try:
        read: Any = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if not (
        isinstance(read, dict)
        and read.get("version") == TRUST_VERSION
        and _is_listing(read.get("directories"))
    ):
        raise OptionError(
            [
                f"{name} is not a list of trusted directories of version {TRUST_VERSION}: move it away and run agentrail trust again"
            ]
        )
    return TrustList(directories=read["directories"])


def _is_listing(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, dict) and all(isinstance(digest, str) for digest in one.values())
        for one in value.values()
    )
