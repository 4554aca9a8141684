"""What a line in the chat decides about a call that waits: `confirm ID`, `confirm reject ID`. Pure; what waits is not known here."""

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias
from unicodedata import east_asian_width

import attrs

from agentrail.events.values import PermissionOption

ChatAnswer: TypeAlias = Literal["approve", "reject", "always"]

_DECISIONS: Final[dict[str, ChatAnswer]] = {
    "approve": "approve",
    "yes": "approve",
    "reject": "reject",
    "no": "reject",
    "always": "always",
}
_FORMS: Final[dict[PermissionOption, str]] = {
    "approve": " ID",
    "reject": " reject ID",
    "always": " always ID",
}


@attrs.frozen
class ChatDecision:
    """What a person decided.

    Attributes:
        wanted: The id of what waits, or the command that waits.
    """

    wanted: str
    answer: ChatAnswer


def read_decision(said: str) -> ChatDecision | None:
    """Read what stands behind the prefix; None where nothing does."""
    word, _, rest = said.partition(" ")
    answer = _DECISIONS.get(word.lower()) if rest else None
    wanted, answer = (said, "approve") if answer is None else (rest.strip(), answer)
    return ChatDecision(wanted, answer) if wanted else None


def forms_of(options: Sequence[PermissionOption]) -> list[str]:
    """Give what may stand behind the prefix: of the answers that are offered those that one line can give."""
    return [form for option, form in _FORMS.items() if option in options]


def text_behind(prefix: str, text: str) -> str | None:
    """Give what stands behind the prefix; None where a text does not begin with it.

    A prefix that ends in a word ends where that word does: `confirmed` is not `confirm`. One that ends in a mark (`/ok:`), or
    in a script that writes no blanks between words, needs nothing behind it.
    """
    words = prefix.split()
    begun = re.match(r"\s*" + r"\s+".join(map(re.escape, words)), text)
    if begun is None:
        return None
    last, following = words[-1][-1], text[begun.end() : begun.end() + 1]
    if last.isalnum() and following.isalnum() and east_asian_width(last) not in {"W", "F"}:
        return None
    return text[begun.end() :].strip()
