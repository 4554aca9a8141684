"""`OutputFilter`: removes unwanted text from a response before it enters the history."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import attrs

from agentrail.core.protocol.actions import Abort, Action, Continue, ReplaceResponse
from agentrail.core.protocol.hooks import AfterResponse
from agentrail.core.stack.plugin import Context
from agentrail.events import ContentPolicyViolated
from agentrail.plugins.base import Plugin, on

FilterRemedy = Literal["replace", "abort"]


@attrs.frozen
class Filter:
    patterns: tuple[str, ...]
    keywords: tuple[str, ...]
    replacement: str
    action: FilterRemedy

    def rules(self) -> Iterator[tuple[str, re.Pattern[str]]]:
        """Yield each rule with its name, in the order of their application."""
        for number, pattern in enumerate(self.patterns, start=1):
            yield f"pattern {number}", re.compile(pattern)
        for number, word in enumerate(self.keywords, start=1):
            yield f"keyword {number}", re.compile(rf"(?<!\w){re.escape(word.strip())}(?!\w)", re.IGNORECASE)


class OutputFilter(Plugin[Filter]):
    """Removes text from responses that users must not read."""

    priority = 110

    def init(
        self,
        *,
        patterns: Sequence[str] = (),
        keywords: Sequence[str] = (),
        replacement: str = "[filtered]",
        action: FilterRemedy = "replace",
    ) -> Filter:
        """Set the rules.

        Raises:
            ValueError: Your move: an invalid regular expression or one that matches the empty string, an empty keyword,
                an empty replacement, an unknown action.
        """
        if action not in get_args(FilterRemedy):
            message = f"action must be one of {', '.join(get_args(FilterRemedy))}; got {action!r}"
            raise ValueError(message)
        if not replacement.strip():
            message = (
                f"replacement must not be blank, because a response could end up empty; got {replacement!r}"
            )
            raise ValueError(message)
        if not all(word.strip() for word in keywords):
            message = "a keyword must not be blank: a blank one would match every response"
            raise ValueError(message)
        for pattern in patterns:
            _check(pattern)
        return Filter(
            patterns=tuple(patterns), keywords=tuple(keywords), replacement=replacement, action=action
        )

    @on(AfterResponse)
    def filter(self, event: AfterResponse, rules: Filter, ctx: Context) -> Action[Filter]:
        """Check the spoken text. Calls and thinking are not checked."""
        text = event.message.text
        broken: list[str] = []
        for name, pattern in rules.rules():
            text, count = pattern.subn(lambda _: rules.replacement, text)
            if count:
                broken.append(name)
        if not broken:
            return Continue(rules)
        # The names of the rules rather than the matches: otherwise the event would contain the removed text.
        found = ", ".join(broken)
        violated = ContentPolicyViolated(
            summary=f"the response matched {found}", triggered_policies=tuple(broken)
        )
        if rules.action == "abort":
            return Abort(f"the response was stopped by the output filter: {found}", rules, emits=(violated,))
        return ReplaceResponse(text, rules, emits=(violated,))


def _check(pattern: str) -> None:
    try:
        matches_nothing = re.compile(pattern).search("") is not None
    except re.error as error:
        message = f"pattern {pattern!r} is not a regular expression: {error}"
        raise ValueError(message) from error
    if matches_nothing:
        message = f"pattern {pattern!r} matches an empty text, so it would match everywhere"
        raise ValueError(message)
