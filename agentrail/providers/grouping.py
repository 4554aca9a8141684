"""How a conversation becomes the list in a body: neighbours of one role are one message there, and what is done is kept.

All groups but the last stay what they are when the conversation grows. So their pieces are kept, and a body with one new
message costs one join. A long piece is the one that its message keeps anyway: a conversation is held once. Short ones, and the
constants between them, are joined in blocks: there are thousands of them, and to go through them would cost more than to
copy what they hold.

Pure: what is kept follows from the messages, and who has lost it begins anew. It is of one conversation, the one that was asked
about last.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from agentrail.core.values.history import Log
from agentrail.messages import Message

Placed: TypeAlias = tuple[int, Message]
"""A message, and where in the conversation it stands."""

_MAX_COPIED_BYTES: Final = 1_000
_BLOCK_PIECES: Final = 64


class Grouping:
    """What one provider keeps of the conversation that it was asked about last."""

    __slots__ = ("_key", "_kinds", "_known", "_last", "_pieces", "_role_of", "_short")

    _known: int

    def __init__(self, role_of: Callable[[Message], str | None]) -> None:
        """Begin with nothing.

        Args:
            role_of: Neighbours of one role become one message of the body; None is no role, and stands alone.
        """
        self._role_of = role_of
        self._last: Sequence[Message] = ()
        self._begin_anew(None)

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
            self._begin_anew(key)
        # A log keeps what it was, and shares what it holds with the session's; of anything else a copy is kept.
        self._last = messages if isinstance(messages, Log) else tuple(messages)
        groups = _groups(messages[self._known :], self._known, says, self._role_of)
        settled = 0
        for group, (following, *_) in pairwise(groups):
            if following[0] > steady:
                break
            self._settle(wrap(group))
            self._kinds.update(map(type, messages[self._known : following[0]]))
            self._known = following[0]
            settled += 1
        pieces = [b"[", *self._pieces, *self._short]
        for group in groups[settled:]:
            if len(pieces) > 1:
                pieces.append(b",")
            pieces += wrap(group)
        pieces.append(b"]")
        return pieces

    def has_kind(self, kind: type[Message]) -> bool:
        """Say whether the conversation that was asked about last has a message of that kind."""
        return kind in self._kinds or kind in map(type, self._last[self._known :])

    def _begin_anew(self, key: object) -> None:
        self._key = key
        self._known = 0  # messages whose pieces are settled
        self._kinds: set[type[Message]] = set()  # theirs
        self._pieces: list[bytes] = []
        self._short: list[bytes] = []  # behind the others, not a block yet

    def _goes_on(self, messages: Sequence[Message], key: object, steady: int) -> bool:
        known = self._known
        # The message behind what is settled is asked for too: without it the last group is open again.
        if known >= len(messages) or known > steady or key != self._key:
            return False
        if isinstance(messages, Log) and isinstance(self._last, Log) and messages.grew_from(self._last):
            return True
        # By identity: messages that are equal may be written otherwise, as `True` and `1` in arguments are.
        return all(map(operator.is_, self._last[: known + 1], messages[: known + 1]))

    def _settle(self, pieces: Iterable[bytes]) -> None:
        if self._pieces or self._short:
            self._short.append(b",")
        for piece in pieces:
            is_long = len(piece) > _MAX_COPIED_BYTES
            if not is_long:
                self._short.append(piece)
            if self._short and (is_long or len(self._short) >= _BLOCK_PIECES):
                self._pieces.append(b"".join(self._short))
                self._short = []
            if is_long:
                self._pieces.append(piece)


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
