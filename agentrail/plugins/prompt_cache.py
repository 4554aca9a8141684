"""`PromptCache`: marks where the vendor's prompt cache should end, for vendors that need marks."""

from collections.abc import Sequence

import attrs

from agentrail.core.policy.request_context import tokens_of
from agentrail.core.protocol.actions import Action, Continue, Hints
from agentrail.core.protocol.hooks import BeforeRequest
from agentrail.core.protocol.request import CachePoint
from agentrail.core.stack.plugin import Context
from agentrail.messages import AssistantMessage, Message, ToolMessage
from agentrail.plugins.base import Plugin, on


@attrs.frozen
class Caching:
    """Number and minimum size of cache points.

    Attributes:
        min_tokens: Minimum number of tokens before a point in the conversation, at four bytes each.
    """

    max_cache_points: int
    min_tokens: int


class PromptCache(Plugin[Caching]):
    """Marks the ends of the prefixes that a vendor should cache between requests."""

    priority = 130

    def init(self, *, max_cache_points: int = 3, min_tokens: int = 100) -> Caching:
        """Set the number of points.

        Raises:
            ValueError: Your move: less than one point, or a negative number of tokens.
        """
        if max_cache_points < 1 or min_tokens < 0:
            message = f"max_cache_points must be 1 or more, min_tokens 0 or more; got {max_cache_points} and {min_tokens}"
            raise ValueError(message)
        return Caching(max_cache_points, min_tokens)

    @on(BeforeRequest)
    def mark(self, event: BeforeRequest, caching: Caching, ctx: Context) -> Action[Caching]:
        """Mark the most valuable points first: the start, the end, and then the first results of calls."""
        messages = event.messages
        last = next(
            (n for n in reversed(range(len(messages))) if not isinstance(messages[n], AssistantMessage)), None
        )
        first_results = next((n for n, one in enumerate(messages) if isinstance(one, ToolMessage)), None)
        places = dict.fromkeys(place for place in (last, first_results) if place is not None)
        worth = [place for place in places if _has(messages[: place + 1], caching.min_tokens)]
        points: list[CachePoint] = ["system", *sorted(worth[: caching.max_cache_points - 1])]
        return Continue(caching, hints=Hints(cache_points=tuple(points)))


def _has(messages: Sequence[Message], tokens: int) -> bool:
    """Return whether messages have this many tokens. Stops as soon as it knows, because it runs each turn."""
    count = 0
    for message in messages:
        if count >= tokens:
            break
        count += tokens_of((message,))
    return count >= tokens
