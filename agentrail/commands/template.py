r"""Fills typed arguments into the prompt of a command. Pure: opens no file and runs no shell command."""

import re
import shlex
from typing import Final

from agentrail.errors import CommandError
from agentrail.otp.field_rules import checks_arguments

MAX_TYPED_CHARACTERS: Final = 64 * 1024
MAX_PROMPT_CHARACTERS: Final = 1_000_000

_PLACE: Final = re.compile(r"\\\$|\$ARGUMENTS(?![A-Za-z0-9_\[])|\$([1-9][0-9]{0,3})(?![0-9])")


@checks_arguments
def expand_prompt(template: str, text: str, *, name: str = "command") -> str:
    """Fill typed arguments into a prompt.

    Args:
        template: The prompt, with places.
        text: The typed arguments.
        name: The command's name, for messages.

    Raises:
        CommandError: The caller's move: words although the prompt takes none, an unclosed quote, or too much text.
    """
    if len(text) > MAX_TYPED_CHARACTERS:
        message = f"/{name} takes at most {MAX_TYPED_CHARACTERS:,} characters, got {len(text):,}"
        raise CommandError(message)
    found = list(_PLACE.finditer(template))
    if text and all(one[0] == "\\$" for one in found):
        message = f"/{name} takes no arguments: its prompt has no $ARGUMENTS, and no $1; got {text!r:.80}"
        raise CommandError(message)
    words = _words_of(text, name) if any(one[1] for one in found) else []
    put_in = [_value(one, text, words) for one in found]
    # Checked before joining: a prompt with 10,000 times $ARGUMENTS would have gigabytes.
    length = len(template) + sum(len(value) - len(one[0]) for value, one in zip(put_in, found, strict=True))
    if length > MAX_PROMPT_CHARACTERS:
        message = f"/{name} would become a prompt of {length:,} characters: at most {MAX_PROMPT_CHARACTERS:,}, type less after it"
        raise CommandError(message)
    values = iter(put_in)
    return _PLACE.sub(lambda _: next(values), template)


def _value(place: re.Match[str], text: str, words: list[str]) -> str:
    if place[0] == "\\$":
        return "$"
    if place[1] is None:
        return text
    number = int(place[1])
    return words[number - 1] if number <= len(words) else ""


def _words_of(text: str, name: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        message = f"/{name} splits its arguments as a shell does, and these cannot be split ({error}): close the quote, or write \\' for one"
        raise CommandError(message) from None
