"""Pictures named by path in a prompt: `what is wrong here? @shot.png` is sent with the picture. Other paths stay text."""

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agentrail.errors import CommandError
from agentrail.messages import Image, Text, UserBlock

MAX_PICTURE_BYTES: Final = 5_000_000
"""Limit for one picture. More than vendors accept."""
_TYPES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_NAMED: Final = re.compile(r"(?<!\S)@(\S+\.(?:png|jpe?g|gif|webp))(?![^\s.,;:!?)])", re.IGNORECASE)


def pictures_in(text: str) -> tuple[str, ...]:
    """Find the paths of pictures in a prompt, each once, in order."""
    return tuple(dict.fromkeys(_NAMED.findall(text)))


def with_pictures(text: str, read: Callable[[str], bytes]) -> str | tuple[UserBlock, ...]:
    """Append the pictures that a prompt names, or return the text unchanged if it names none."""
    blocks: list[UserBlock] = [Text(text=text)]
    for path in pictures_in(text):
        try:
            data = read(path)
        except OSError as error:
            message = f"the picture {path} cannot be read: {error.strerror}; nothing was sent"
            raise CommandError(message) from error
        if len(data) > MAX_PICTURE_BYTES:
            message = f"the picture {path} has more than {MAX_PICTURE_BYTES:,} bytes; nothing was sent"
            raise CommandError(message)
        media_type = _TYPES[f".{path.rpartition('.')[2].lower()}"]
        encoded = base64.b64encode(data).decode()
        blocks.append(Image(media_type=media_type, data=encoded, name=path.rpartition("/")[2]))
    return tuple(blocks) if len(blocks) > 1 else text


def reader_below(directory: Path) -> Callable[[str], bytes]:
    """Return a function that reads files relative to a directory."""

    def read(path: str) -> bytes:
        with (directory / Path(path).expanduser()).open("rb") as file:
            return file.read(MAX_PICTURE_BYTES + 1)

    return read
