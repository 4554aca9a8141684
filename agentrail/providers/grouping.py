"""How a conversation becomes the list in a body: neighbours of one role are one message there, and what is done is kept.

All groups but the last stay what they are when the conversation grows. So their pieces are kept: those that the messages
keep anyway, and constants between them. That costs a few pointers per message, and a body with one new message costs one
join. Not the joined beginning itself, which would be quicker still: it would hold each conversation twice.

Pure: what is kept follows from the messages, and who has lost it begins anew.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from agentrail.messages import Message

Placed: TypeAlias = tuple[int, Message]
"""A message, and where in the conversation it stands."""


class Grouping:
    """What one provider keeps of the conversation that it was asked about last."""

    __slots__ = ("_key", "_messages", "_pieces", "_role_of")

    def __init__(self, role_of: Callable[[Message], str | None]) -> None:
        """Begin with nothing.

        Args:
            role_of: Neighbours of one role become one message of the body; None is no role, and stands alone.
        """
        self._role_of = role_of
        self._key: object = None
        self._messages: list[Message] = []
        self._pieces: list[bytes] = []

    def pieces_of(
        self,
        messages: Sequence[Message],
        *,
        says: Callable[[Message], bytes],
        wrap: Callable[[Sequence[Placed]], Sequence[bytes]],
        key: object = None,
        steady: int | None = None,
    ) -> list[bytes]:
        """Give the pieces of the list, which are to be joined once, with the rest of the body: each copy costs as much.

        Args:
            messages: The conversation.
            says: What is kept of a message; empty where nothing of it can be said in this format. Such a message is left
                out, and then its neighbours are neighbours of each other.
            wrap: The pieces of such a message, which are joined without anything between them.
            key: What else the pieces depend on. With another one than the last time all is made anew.
            steady: Messages from this place on may be wrapped otherwise the next time; None if none will be.
        """
        steady = len(messages) if steady is None else steady
        if not self._goes_on(messages, key, steady):
            self._key, self._messages, self._pieces = key, [], []
        start = len(self._messages)
        groups = _groups(messages[start:], start, says, self._role_of)
        done = start
        for group, (following, *_) in pairwise(groups):
            if following[0] > steady:
                break
            self._pieces += _behind(self._pieces, wrap(group))
            done = following[0]
        self._messages += messages[start:done]
        pieces = self._pieces.copy()
        for group in groups:
            if group[0][0] >= done:
                pieces += _behind(pieces, wrap(group))
        return [b"[", *pieces, b"]"]

    def _goes_on(self, messages: Sequence[Message], key: object, steady: int) -> bool:
        known = len(self._messages)
        # By identity: messages that are equal may be written otherwise, as `True` and `1` in arguments are.
        return (
            known <= min(len(messages), steady)
            and key == self._key
            and all(map(operator.is_, self._messages, messages[:known]))
        )


def between(separator: bytes, pieces: Iterable[bytes]) -> list[bytes]:
    """Put a separator between pieces, without making one of them."""
    parted = [part for piece in pieces for part in (separator, piece)]
    return parted[1:]


def _groups(
    messages: Sequence[Message],
    start: int,
    says: Callable[[Message], bytes],
    role_of: Callable[[Message], str | None],
) -> list[list[Placed]]:
    groups: list[list[Placed]] = []
    last: str | None = None
    for place, message in enumerate(messages, start):
        if not says(message):
            continue
        role = role_of(message)
        if role is not None and role == last:
            groups[-1].append((place, message))
        else:
            groups.append([(place, message)])
        last = role
    return groups


def _behind(pieces: Sequence[bytes], more: Sequence[bytes]) -> Sequence[bytes]:
    return (b",", *more) if pieces else more
