"""The port of what is added to the requests of a turn: a provider of context is asked before the first one.

What it gives goes to the model with each attempt at that turn, and stands nowhere else: not in the history, not in the journal, not in
a summary. So it is asked again in the next turn.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from attrs import field, frozen

from agentrail.frozen import frozen_json
from agentrail.messages import JsonObject, Message, SessionId, UserMessage

MAX_CONTEXT_BYTES: Final = 100 << 10
"""How much one provider may add to a request, in bytes of text and of base64."""


@frozen(kw_only=True)
class ProviderContext:
    """For whom a provider of context is asked.

    Attributes:
        session_id: The session.
        user_data: The application's own data, frozen.
    """

    session_id: SessionId
    user_data: JsonObject = field(converter=frozen_json, factory=dict)


@frozen
class AtEnd:
    """Messages that are to stand behind the conversation, and not in front of it.

    What differs from one request to the next costs the vendor's prompt cache of all that follows: in front of the conversation that is
    all of it, behind it nothing.

    Attributes:
        messages: In order.
    """

    messages: Sequence[UserMessage]


ContextProvider: TypeAlias = Callable[
    [ProviderContext, tuple[Message, ...]], Awaitable[Sequence[UserMessage] | AtEnd]
]
"""Gives only what is to be added: messages of the user, of text and pictures, 100 KiB at most.

It is given the conversation as the model will read it. What repeats that, holds calls or results, is of another kind, or is too much is left out
and logged; so is all of one that raises or takes more than ten seconds, and the request goes out without it.
"""


class TimedProvider(ABC):
    """A provider of context that keeps its own time, and hears what of its messages was left out. For code that stands around another one.

    A host asks the providers of its plugins through one. The session waits for it as long as it takes, and what is left out of what it
    gave is told to it, and not to the log; it is still the session that says what may be added.
    """

    @abstractmethod
    async def __call__(
        self, about: ProviderContext, messages: tuple[Message, ...]
    ) -> Sequence[UserMessage] | AtEnd:
        """Give what is to be added, as any provider does. What it raises is logged, and nothing is added."""

    @abstractmethod
    async def left_out(self, about: ProviderContext, faults: tuple[str, ...]) -> None:
        """Hear what of what it gave is left out, and why; the rest is added.

        Args:
            about: As it was asked.
            faults: At least one, each for people.
        """
