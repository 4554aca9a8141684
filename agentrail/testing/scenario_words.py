"""The words of a scenario: one line split into names, texts in quotes and options, and the line that is read word by word.

Words are separated by spaces. A text stands in quotes, as in JSON; `key=value` is an option. What the words mean does not enter
this file: that stands in `scenario_in` and `scenario_lines`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from attrs import field, frozen


class ScenarioError(ValueError):
    """A scenario that cannot be read: the message names the line, what was expected and what stands there."""


@frozen
class Said:
    """A text in quotes."""

    text: str


@frozen
class Pair:
    """`key=value`; the value is a bare word, a text, or a JSON object."""

    key: str
    value: Any
    quoted: bool = False


Word: TypeAlias = str | Said | Pair

_BARE: Final = re.compile(r"[^\s\"=]+")
_VALUE: Final = re.compile(r"[^\s\"]*")
_JSON: Final = json.JSONDecoder()


def split_words(text: str) -> tuple[Word, ...]:
    """Split one line into its words.

    Raises:
        ScenarioError: Your move: quotes or braces that are not closed, or an option without a name.
    """
    words: list[Word] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text[position] == '"':
            said, position = _json_at(text, position)
            words.append(Said(said))
        else:
            bare = _BARE.match(text, position)
            if bare is None:
                message = f"expected a name before '=' at column {position + 1} of {text!r}"
                raise ScenarioError(message)
            position = bare.end()
            if text[position : position + 1] != "=":
                words.append(bare[0])
            elif text[position + 1 : position + 2] in ('"', "{", "["):
                value, position = _json_at(text, position + 1)
                words.append(Pair(bare[0], value, quoted=isinstance(value, str)))
            else:
                plain = _VALUE.match(text, position + 1)
                assert plain is not None  # it matches the empty string too
                position = plain.end()
                text_behind = ""
                if text[position : position + 1] == '"':  # block:"not today"
                    text_behind, position = _json_at(text, position)
                words.append(Pair(bare[0], plain[0] + text_behind))
    return tuple(words)


def quote(text: str) -> str:
    """Write a text as one word."""
    return json.dumps(text, ensure_ascii=False)


def _json_at(text: str, position: int) -> tuple[Any, int]:
    try:
        return _JSON.raw_decode(text, position)
    except json.JSONDecodeError as error:
        message = f"expected JSON at column {position + 1} of {text!r}: {error.msg}"
        raise ScenarioError(message) from None


@frozen
class Command:
    """One line on its way to a signal. What nobody has asked for when the signal is made is an error."""

    text: str
    names: list[str]
    texts: list[str]
    pairs: list[Pair]
    words: tuple[Word, ...] = field(repr=False)

    @classmethod
    def of(cls, text: str) -> "Command":
        """Split a line.

        Raises:
            ScenarioError: Your move: it is no line of words.
        """
        words = split_words(text)
        return cls(
            text,
            [word for word in words if isinstance(word, str)],
            [word.text for word in words if isinstance(word, Said)],
            [word for word in words if isinstance(word, Pair)],
            words,
        )

    def said(self) -> str | None:
        """Take the next text, if there is one."""
        return self.texts.pop(0) if self.texts else None

    def option(self, key: str, default: str, choices: Sequence[str] = ()) -> Any:
        """Take an option."""
        for pair in self.pairs:
            if pair.key == key:
                self.pairs.remove(pair)
                if choices and pair.value not in choices:
                    message = f"{self.text!r}: expected {key}={'|'.join(choices)}, got {pair.value!r}"
                    raise ScenarioError(message)
                return pair.value
        return default

    def is_on(self, key: str, *, default: bool) -> bool:
        """Take an option that is yes or no."""
        return bool(self.option(key, "yes" if default else "no", ("yes", "no")) == "yes")

    def names_in(self, key: str) -> tuple[str, ...]:
        """Take an option that lists names."""
        return tuple(filter(None, self.option(key, "").split(",")))

    def number(self, key: str, default: int = 0) -> int:
        """Take an option that is a number."""
        return int(self.option(key, str(default)))

    def check_that_all_was_read(self) -> None:
        """Refuse what no part of the signal was made of."""
        if self.texts or self.pairs:
            left = [*map(quote, self.texts), *(pair.key for pair in self.pairs)]
            message = f"{self.text!r}: {self.names[0]} takes no {', '.join(left)}"
            raise ScenarioError(message)


def unless(usual: bool, word: str) -> Iterator[str]:  # noqa: FBT001 - reads as a sentence where it is used
    """Give the word, unless it says what is usual."""
    if not usual:
        yield word


def perhaps(text: str | None) -> Iterator[str]:
    """Give a text as one word, if there is one."""
    if text is not None:
        yield quote(text)
