"""Files of a running server, read again on changes in a worker thread. That of the tokens is here, those of TLS are in `serving`."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import trio

from agentrail import outside
from agentrail.errors import OptionError
from agentrail.gateway.tokens import TokenEntry, Tokens, decode_entries, read_private_file
from agentrail.logs import Logger

LOGGER: Final = Logger("agentrail.gateway")

FILE_LOOK_SECONDS: Final = 1.0
"""Seconds between two checks of a file.

A change is applied when two checks in a row found it, because an editor may still be writing.
"""


class SettledContent:
    """Content that is news when two looks in a row have found it: that of files, or the reason why they cannot be read.

    Attributes:
        was_taken: Whether there has been news.
    """

    def __init__(self, read: Callable[[], bytes]) -> None:
        """Store how it is read. `read` raises `OptionError` if it cannot."""
        self._read = read
        self._seen: bytes | str | None = None
        self._taken: bytes | str | None = None

    @property
    def was_taken(self) -> bool:
        return self._taken is not None

    def news(self) -> bytes | str | None:
        """Read it. Return it if it is settled and differs from the last news."""
        found: bytes | str
        try:
            found = self._read()
        except OptionError as error:
            found = f"{error}"
        is_settled, self._seen = found == self._seen, found
        if not is_settled or found == self._taken:
            return None
        self._taken = found
        return found


class FollowedFile(Protocol):
    """A file that is read again on changes."""

    def look(self) -> bool:
        """Read it again, and return whether something changed. Blocks."""
        ...


async def follow_file(file: FollowedFile, changed: Callable[[], object] = lambda: None) -> None:
    """Look at a file again and again, until cancelled."""
    limiter = trio.CapacityLimiter(1)
    while True:
        await trio.sleep(FILE_LOOK_SECONDS)
        if await outside.offload(file.look, abandon_on_cancel=True, limiter=limiter):
            changed()


class TokenFile:
    """A token file and the tokens last read from it. An invalid file changes nothing."""

    def __init__(self, tokens: Tokens, path: Path) -> None:
        """Store the tokens. The file is not read yet."""
        self._tokens = tokens
        self._path = path
        self._content = SettledContent(lambda: read_private_file(path))

    def look(self) -> bool:
        was_taken, found = self._content.was_taken, self._content.news()
        entries = None if found is None else self._decode(found)
        if entries is None:
            return False
        is_changed = entries != self._tokens.entries
        if is_changed or was_taken:
            LOGGER.info(
                "the token file %s was reloaded; number of valid tokens: %d", self._path, len(entries)
            )
        self._tokens.entries = entries
        return is_changed

    def _decode(self, found: bytes | str) -> tuple[TokenEntry, ...] | None:
        why = found
        if isinstance(found, bytes):
            try:
                return decode_entries(found, f"{self._path}")
            except OptionError as error:
                why = f"{error}"
        message = "the token file cannot be used, so the tokens read before stay valid: %s"
        LOGGER.error(message, why)
        return None


async def follow_token_file(tokens: Tokens, changed: Callable[[], object] = lambda: None) -> None:
    """Keep tokens in sync with their file, until cancelled. Returns at once without a file."""
    if tokens.path is not None:
        await follow_file(TokenFile(tokens, tokens.path), changed)
