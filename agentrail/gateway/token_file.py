"""The token file of a running server, read again on changes in a worker thread."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from agentrail import outside
from agentrail.errors import OptionError
from agentrail.gateway.tokens import TokenEntry, Tokens, decode_entries, read_private_file
from agentrail.logs import Logger

LOGGER: Final = Logger("agentrail.gateway")

FILE_LOOK_SECONDS: Final = 1.0
"""Seconds between two checks of a token file.

A change is applied when two checks in a row found it, because an editor may still be writing.
"""


class TokenFile:
    """A token file and the tokens last read from it. An invalid file changes nothing."""

    def __init__(self, tokens: Tokens, path: Path) -> None:
        """Store the tokens. The file is not read yet."""
        self._tokens = tokens
        self._path = path
        self._seen: bytes | str | None = None  # its text, or the reason why it cannot be read
        self._taken: bytes | str | None = None

    def look(self) -> bool:
        found: bytes | str
        try:
            found = read_private_file(self._path)
        except OptionError as error:
            found = f"{error}"
        is_settled, self._seen = found == self._seen, found
        if not is_settled or found == self._taken:
            return False
        is_first, self._taken = self._taken is None, found
        entries = self._decode(found)
        if entries is None:
            return False
        is_changed = entries != self._tokens.entries
        if is_changed or not is_first:
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
    if tokens.path is None:
        return
    file, limiter = TokenFile(tokens, tokens.path), trio.CapacityLimiter(1)
    while True:
        await trio.sleep(FILE_LOOK_SECONDS)
        if await outside.offload(file.look, abandon_on_cancel=True, limiter=limiter):
            changed()
