"""Which directories a user trusts, with the hashes of their files; as a text, and back. Plain functions.

A hash and not a date: what was trusted is what the user has read, and a file that changed is another one.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from agentrail.errors import OptionError

TRUST_VERSION: Final = 1

Digests = Mapping[str, str]
"""The SHA-256 of each file, as hexadecimal digits, by its path from the directory."""


@frozen(kw_only=True)
class TrustList:
    """What a user trusts.

    Attributes:
        directories: The digests of the files of each directory, by its path.
    """

    directories: Mapping[str, Digests] = {}

    def trusts(self, directory: str, digests: Digests) -> bool:
        """Say whether these very files were trusted there: none has changed, none was added, none is gone. Skills do not count."""
        known = self.directories.get(directory)
        return known is not None and _of_files(known) == _of_files(digests)

    def trusts_skill(self, directory: str, path: str, digest: str) -> bool:
        """Say whether this very skill was trusted there: none of its files has changed."""
        return self.directories.get(directory, {}).get(path) == digest

    def with_directory(self, directory: str, digests: Digests) -> "TrustList":
        """Trust the files of a directory as they are, in place of how they were."""
        return TrustList(directories={**self.directories, directory: dict(digests)})

    def without_directory(self, directory: str) -> "TrustList":
        """Trust a directory no more."""
        return TrustList(
            directories={name: one for name, one in self.directories.items() if name != directory}
        )


def _of_files(digests: Digests) -> dict[str, str]:
    # A path with a `/` at its end is a skill: one that is new is not trusted, and makes nothing else less so.
    return {path: digest for path, digest in digests.items() if not path.endswith("/")}


def file_digest(data: bytes) -> str:
    """Hash the bytes of a file."""
    return hashlib.sha256(data).hexdigest()


def encode_trust(trusted: TrustList) -> str:
    """Write it down, for people to read too."""
    directories = {name: dict(sorted(one.items())) for name, one in sorted(trusted.directories.items())}
    return json.dumps({"version": TRUST_VERSION, "directories": directories}, indent=2) + "\n"


def decode_trust(text: str, *, name: str) -> TrustList:
    """Read what `encode_trust` wrote."""
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
                f"{name} is no list of trusted directories of version {TRUST_VERSION}: move it away, and trust again"
            ]
        )
    return TrustList(directories=read["directories"])


def _is_listing(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, dict) and all(isinstance(digest, str) for digest in one.values())
        for one in value.values()
    )
