"""Replacement of known secrets: in whole texts, in texts in pieces, and in streaming texts. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from agentrail.core.values.secret_encodings import MIN_SECRET_CHARACTERS, secret_forms_of

REPLACEMENT: Final = "Secret(…)"
"""The replacement of a secret."""

_Stretch: TypeAlias = tuple[int, int]


def _places_of(form: str, text: str) -> Iterator[_Stretch]:
    """Yield the positions of a form in a text. Overlapping repetitions, such as in a row of one letter, count as one."""
    start = text.find(form)
    if start < 0:
        return
    size, step = len(form), _period_of(form)
    again = form[-step:]
    while start >= 0:
        end = start + size
        while step < size and text.startswith(again, end):
            end += step
        yield start, end
        # Not after its end: it may begin inside once more, at another distance.
        start = text.find(form, end - size + step)


class KnownSecrets:
    """Some secrets in all their forms. Immutable."""

    __slots__ = ("__weakref__", "_first", "_forms", "_longest", "_shortest")

    def __init__(self, secrets: Iterable[str]) -> None:
        """Store the values. Those that are too short, and parts of the replacement itself, are left out."""
        kept = [secret for secret in secrets if secret.strip() not in REPLACEMENT]
        found = {form for secret in kept for form in secret_forms_of(secret)}
        self._forms = tuple(sorted(found))
        self._first = frozenset(text[0] for text in found)
        self._longest = max(map(len, found), default=0)
        self._shortest = min(map(len, found), default=0)

    def __repr__(self) -> str:
        return f"KnownSecrets({len(self._forms)} forms)"

    def __bool__(self) -> bool:
        return bool(self._forms)

    # --- whole texts

    def replaced(self, text: str) -> str:
        """Return a text without secrets. A text that has none is returned as it is."""
        if len(text) < self._shortest:
            return text
        for form in self._forms:
            if form in text:
                return "".join(self._cut([text], self.found_in(text)))
        return text

    def replaced_pieces(self, pieces: Sequence[str]) -> Sequence[str]:
        """Return consecutive texts without secrets, including one that begins in one piece and ends in another."""
        spans = self.found_in("".join(pieces))
        return self._cut(pieces, spans) if spans else pieces

    def found_in(self, text: str) -> list[_Stretch]:
        """Return the positions of secrets in a text, in order and without overlap."""
        if len(text) < self._shortest:
            return []
        spans = sorted(span for form in self._forms for span in _places_of(form, text))
        merged: list[_Stretch] = []
        for start, end in spans:
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def _cut(self, pieces: Sequence[str], spans: Sequence[_Stretch]) -> list[str]:
        made: list[str] = []
        coming = iter((*spans, (sum(map(len, pieces)) + 1, 0)))
        start, end = next(coming)
        done = begin = (
            0  # the end of the written part of the whole text, and the beginning of this piece in it
        )
        for piece in pieces:
            stop = begin + len(piece)
            said: list[str] = []
            while start < stop:
                said += (piece[done - begin : start - begin], REPLACEMENT)
                done = end
                start, end = next(coming)
            if done < stop:
                said.append(piece[done - begin :])
                done = stop
            made.append("".join(said))
            begin = stop
        return made

    # --- texts that stream

    def may_begin_in(self, text: str) -> bool:
        """Return whether a secret may begin anywhere in a text, by a quick check."""
        return not self._first.isdisjoint(text)

    def held_of(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of a longer secret."""
        size = len(text)
        for start in range(max(0, size - self._longest + 1), size):
            if text[start] in self._first and self._goes_on(text[start:]) is not None:
                return size - start
        return 0

    def nearly_of(self, text: str) -> int:
        """Return how many characters at the end of a text are more than half of a secret."""
        size = len(text)
        for start in range(max(0, size - self._longest + 1), size - MIN_SECRET_CHARACTERS + 1):
            place = self._goes_on(text[start:])
            while place is not None and place < len(self._forms):
                form = self._forms[place]
                if not form.startswith(text[start:]):
                    break
                if 2 * (size - start) > len(form):
                    return size - start
                place += 1
        return 0

    def _goes_on(self, beginning: str) -> int | None:
        """Return the index of the first form that begins like this and is longer, or None."""
        place = bisect_right(self._forms, beginning)
        is_one = place < len(self._forms) and self._forms[place].startswith(beginning)
        return place if is_one else None


def _period_of(text: str) -> int:
    """Return the smallest distance at which a text can overlap itself, or its length."""
    fits = [0] * len(text)  # length of the longest proper beginning that ends here
    for place in range(1, len(text)):
        length = fits[place - 1]
        while length and text[place] != text[length]:
            length = fits[length - 1]
        fits[place] = length + (text[place] == text[length])
    return len(text) - fits[-1]


class StreamedText:
    """A text that comes in pieces, and is passed on without secrets, wherever it is cut."""

    __slots__ = ("_is_replaced", "_out", "_tail", "known")

    def __init__(self, known: KnownSecrets) -> None:
        self.known: KnownSecrets = known
        self._tail = ""
        self._out = 0  # how much of the tail was passed on or replaced already
        self._is_replaced = False  # whether a replacement covers the end of that

    @property
    def is_waiting(self) -> bool:
        return self._out < len(self._tail)

    @property
    def is_clear(self) -> bool:
        """Whether no text is held back or remembered: a new one would have the same output from here."""
        return not self._tail

    def feed(self, piece: str) -> str:
        """Add the next piece, and return the text that can be passed on. May be empty."""
        if not self._tail and not self.known.may_begin_in(piece):
            return piece
        text = self._tail + piece
        cut = len(text) - self.known.held_of(text)
        said = self._let_through(text, cut)
        self._tail, self._out = text[cut:], self._out - cut
        return said

    def let_go(self) -> str:
        """Release the text that is held back, because no more comes, or not for long. May be empty.

        More than half of a secret is as good as all of it, so it is replaced. A shorter part is returned as it is,
        and remembered: if the rest comes later, the rest is replaced.
        """
        tail = self._tail
        if self._out == len(tail):
            return ""
        cut = len(tail) - self.known.nearly_of(tail)
        said = self._let_through(tail, cut)
        if self._out < len(tail):  # the rest is more than half of a secret
            is_told = cut < self._out and self._is_replaced
            said += "" if is_told else REPLACEMENT
            self._out, self._is_replaced = len(tail), True
        return said

    def _let_through(self, text: str, cut: int) -> str:
        """Return the text before the cut, with secrets replaced that begin there. A later one may be part of a longer secret."""
        said: list[str] = []
        out, is_replaced = self._out, self._is_replaced
        for start, end in self.known.found_in(text):
            if start >= max(cut, out):
                break
            if end <= out:
                continue
            if start >= out:
                said += (text[out:start], REPLACEMENT)
            elif not is_replaced:  # its beginning was released, so only the rest is replaced
                said.append(REPLACEMENT)
            out, is_replaced = end, True
        if out < cut:
            said.append(text[out:cut])
            out, is_replaced = cut, False
        self._out, self._is_replaced = out, is_replaced
        return "".join(said)
