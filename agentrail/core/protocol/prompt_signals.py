"""What users say to a session: a prompt, a steer, that it shall go on, and what became of it. Part of the union of `signals`.

What came to these classes later is left out where it holds its default. What they were written with from the beginning is always
written: its default is made by a function, which msgspec takes for a value of its own.
"""

from typing import Literal, TypeAlias

import msgspec

from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol.stamped import Asked
from agentrail.messages import PromptRef, SteerRef, UserBlock

WantedReply: TypeAlias = Literal["receipt", "text"]


def _a_receipt() -> WantedReply:
    return "receipt"


def _no_name() -> str | None:
    return None


class Prompt(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The user says something.

    Attributes:
        ref: Its name in all that follows from it.
        content: What was said; at least one block, within the limits (the shell checked).
        reply: Whether the caller wants the receipt, or waits for the text of this prompt's own cycle.
        client_id: The caller's own name of this message: sent again, it gives the first receipt again.
        via: The door that it came through: `http`, `acp`; None: this process.
        request_id: The request that brought it, as the host calls it.
        digest: Of its sender's own words, SHA-256, where something was put in front of them: by these, and not by the content, a
            message that is sent again is known. None: the content is the sender's.
        settings: What is wanted of the model for its cycle alone.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    reply: WantedReply = msgspec.field(default_factory=_a_receipt)
    client_id: str | None = msgspec.field(default_factory=_no_name)
    via: str | None = None
    request_id: str | None = None
    digest: str | None = None
    settings: PromptSettings | None = None


class GoOn(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A caller wants a turn without new words: the model answers the results, or the user's message, that the conversation ends with.

    Answered with a receipt when its cycle has begun; refused with `CannotGoOn` where nothing stands there to be answered, and
    wherever the session is not idle: it never waits in the queue, because what it would answer is not known then.

    Attributes:
        ref: The name of its cycle in all that follows.
        client_id: As of `Prompt`.
        via: As of `Prompt`.
        request_id: As of `Prompt`.
        digest: As of `Prompt`: of what its sender brought; all of these that have none are alike.
        settings: As of `Prompt`.
    """

    ref: PromptRef
    client_id: str | None = None
    via: str | None = None
    request_id: str | None = None
    digest: str | None = None
    settings: PromptSettings | None = None


class Steer(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The user speaks into a running cycle.

    Attributes:
        ref: Its name; that of the prompt which it becomes when nothing runs.
        text: What was said; not empty, within the limits (the shell checked).
        client_id: As of `Prompt`.
        via: As of `Prompt`; of use where it becomes one.
        request_id: As of `Prompt`; of use where it becomes one.
    """

    ref: SteerRef
    text: str
    client_id: str | None = msgspec.field(default_factory=_no_name)
    via: str | None = None
    request_id: str | None = None


class ReceiptQuery(Asked, frozen=True, kw_only=True):
    """A caller wants the receipt of a message that it may have sent before; None where there is none.

    Attributes:
        client_id: The sender's name of the message.
        digest: What the message has to be; another one is refused with `ClientIdReused`. None: whatever it was.
    """

    client_id: str
    digest: str | None = None
