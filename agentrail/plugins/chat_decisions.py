"""Parser for chat lines that decide a pending call: `confirm ID`, `confirm reject ID`. Pure; knows no pending calls."""

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
    wanted: str
    answer: ChatAnswer


def read_decision(said: str) -> ChatDecision | None:
    """Parse the text after the prefix. None if it is empty."""
    word, _, rest = said.partition(" ")
    answer = _DECISIONS.get(word.lower()) if rest else None
    wanted, answer = (said, "approve") if answer is None else (rest.strip(), answer)
    return ChatDecision(wanted, answer) if wanted else None


def forms_of(options: Sequence[PermissionOption]) -> list[str]:
    """Return the forms allowed after the prefix, for those offered answers that fit on one line."""
    return [form for option, form in _FORMS.items() if option in options]


def text_behind(prefix: str, text: str) -> str | None:
    """Return the text after the prefix, or None if the text does not start with it."""
    words = prefix.split()
    begun = re.match(r"\s*" + r"\s+".join(map(re.escape, words)), text)
    if begun is None:
        return None
    last, following = words[-1][-1], text[begun.end() : begun.end() + 1]
    if last.isalnum() and following.isalnum() and east_asian_width(last) not in {"W", "F"}:
        return None
    return text[begun.end() :].strip()
