"""The words of a scenario: one line split into names, texts in quotes and options, and the line that is read word by word.

Words are separated by spaces. A text stands in quotes, as in JSON; `key=value` is an option. What the words mean does not enter
this file: that stands in `scenario_signals` and `scenario_head`.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias

from attrs import frozen


def scenario_name(kind: str) -> str:
    """Give the word for a signal that a journal calls `kind`. Not the name of its class, which may change: files stay as they are."""
    return "".join(part.capitalize() for part in kind.split("_"))


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


ScenarioWord: TypeAlias = str | Said | Pair

_BARE: Final = re.compile(r"[^\s\"=]+")
_VALUE: Final = re.compile(r"[^\s\"]*")
_JSON: Final = json.JSONDecoder()


def split_words(text: str) -> tuple[ScenarioWord, ...]:
    """Split one line into its words.

    Raises:
        ScenarioError: Your move: quotes or braces that are not closed, or an option without a name.
    """
    words: list[ScenarioWord] = []
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


def name_word(text: str) -> str:
    """Write a name as it is where it is one word, else as a text."""
    return text if _BARE.fullmatch(text) else quote(text)


def _json_at(text: str, position: int) -> tuple[Any, int]:
    try:
        return _JSON.raw_decode(text, position)
    except json.JSONDecodeError as error:
        message = f"expected JSON at column {position + 1} of {text!r}: {error.msg}"
        raise ScenarioError(message) from None


@frozen
class LineWords:
    """The words of one line that no part of it has taken yet. What is left at the end is an error."""

    text: str
    left: list[ScenarioWord]
    grammar: str = ""

    @classmethod
    def of(cls, text: str, grammar: str = "") -> "LineWords":
        """Split a line.

        Args:
            text: The line.
            grammar: How such lines are written, for the message about one that is not.

        Raises:
            ScenarioError: Your move: it is no line of words.
        """
        return cls(text, list(split_words(text)), grammar)

    def take_name(self) -> str | None:
        """Take the next bare word, if there is one."""
        return next(self.take_all(lambda word: isinstance(word, str), 1), None)

    def take_text(self) -> str | None:
        """Take the next text in quotes, if there is one."""
        return next((word.text for word in self.take_all(lambda word: isinstance(word, Said), 1)), None)

    def take_option(self, key: str) -> Pair | None:
        """Take the first option of this key, if there is one."""
        return next(self.take_all(lambda word: isinstance(word, Pair) and word.key == key, 1), None)

    def take_flag(self, flag: str) -> bool:
        """Take a bare word, wherever it stands, and say whether it was there."""
        return any(self.take_all(lambda word: word == flag, 1))

    def take_all(self, wanted: Callable[[ScenarioWord], bool], limit: int | None = None) -> Iterator[Any]:
        """Take what one wants, in order."""
        taken = list(islice(filter(wanted, self.left), limit))
        for word in taken:
            self.left.remove(word)
        return iter(taken)

    def fault(self, expected: str) -> ScenarioError:
        """Say what should stand in the line."""
        written = f"; it is written {self.grammar}" if self.grammar else ""
        return ScenarioError(f"{self.text!r}: {expected}{written}")

    def check_that_all_was_read(self, kind: str) -> None:
        """Refuse what no part of the line has taken."""
        if self.left:
            left = ", ".join(map(_as_written, self.left))
            message = f"{kind} takes no {left}"
            raise self.fault(message)


def _as_written(word: ScenarioWord) -> str:
    match word:
        case Said(text):
            return quote(text)
        case Pair(key):
            return key
        case _:
            return word


def unless(usual: bool, word: str) -> Iterator[str]:  # noqa: FBT001 - reads as a sentence where it is used
    """Give the word, unless it says what is usual."""
    if not usual:
        yield word
