"""The port of context providers, called before the first request of a turn.

Their messages are sent with each attempt at the turn, but not stored.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from attrs import field, frozen

from agentrail.frozen import frozen_json
from agentrail.messages import JsonObject, Message, SessionId, UserMessage

MAX_CONTEXT_BYTES: Final = 100 << 10
"""Limit per provider and request, in bytes of text and base64."""


@frozen(kw_only=True)
class ProviderContext:
    """The session that a context provider is called for.

    Attributes:
        session_id: Id of the session.
        user_data: The application's own data, frozen.
    """

    session_id: SessionId
    user_data: JsonObject = field(converter=frozen_json, factory=dict)


@frozen
class AtEnd:
    """Messages to add after the conversation instead of before it, to preserve the vendor's prompt cache.

    Attributes:
        messages: The messages, in order.
    """

    messages: Sequence[UserMessage]


ContextProvider: TypeAlias = Callable[
    [ProviderContext, tuple[Message, ...]], Awaitable[Sequence[UserMessage] | AtEnd]
]
"""Returns only the additions: user messages of text and images, at most 100 KiB.

It receives the conversation as the model will read it. Messages that repeat the conversation, contain calls or results, have
another role, or exceed the limit are dropped and logged. If it raises or takes more than ten seconds, its result is dropped
and logged, and the request is sent without it.
"""


class TimedProvider(ABC):
    """A context provider with its own time limit, notified about dropped messages.

    The session sets no time limit, and reports dropped messages to it instead of the log.
    """

    @abstractmethod
    async def __call__(
        self, about: ProviderContext, messages: tuple[Message, ...]
    ) -> Sequence[UserMessage] | AtEnd:
        """Return the messages to add. An exception is logged, and nothing is added."""

    @abstractmethod
    async def left_out(self, about: ProviderContext, faults: tuple[str, ...]) -> None:
        """Receive the dropped messages and the reasons.

        Args:
            about: The value that was passed to the call.
            faults: One or more descriptions for users.
        """
