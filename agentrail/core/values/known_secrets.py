"""Secrets that are known, found in texts and replaced: in whole texts, in texts in pieces, and in texts that stream. Pure.

What is found is replaced by `Secret(…)`, which is what a `Secret` shows of itself. The same text gives the same text each time. Where
two secrets overlap, or one stands in another, what they cover together is replaced by one. What is no secret is left as it is, to
the last character.

Each form of each secret is one search of C code over the text, so the time is the length of the text by the number of forms. Where
secrets come from, and in what values texts stand, does not enter.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from agentrail.core.values.secret_forms import MIN_SECRET_CHARACTERS, secret_forms_of

REPLACEMENT: Final = "Secret(…)"
"""What stands in place of a secret."""

_Stretch: TypeAlias = tuple[int, int]


def _places_of(form: str, text: str) -> Iterator[_Stretch]:
    """Give where a form stands in a text; what overlaps itself in a row, such as in a row of one letter, counts as one."""
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
        # Not behind its end: it may begin in there once more, at another distance.
        start = text.find(form, end - size + step)


class KnownSecrets:
    """Some secrets, each in all its forms. It never changes."""

    __slots__ = ("__weakref__", "_first", "_forms", "_longest", "_shortest")

    def __init__(self, secrets: Iterable[str]) -> None:
        """Take the values; those that are too short, and pieces of what would stand in their place, are left out."""
        kept = [secret for secret in secrets if secret.strip() not in REPLACEMENT]
        found = {form for secret in kept for form in secret_forms_of(secret)}
        self._forms = tuple(sorted(found))
        self._first = frozenset(text[0] for text in found)
        self._longest = max(map(len, found), default=0)
        self._shortest = min(map(len, found), default=0)

    def __repr__(self) -> str:
        """Say how many forms there are, and none of them."""
        return f"KnownSecrets({len(self._forms)} forms)"

    def __bool__(self) -> bool:
        """Say whether there is anything to look for."""
        return bool(self._forms)

    # --- whole texts

    def replaced(self, text: str) -> str:
        """Give a text without secrets; one that has none is given back as it is."""
        if len(text) < self._shortest:
            return text
        for form in self._forms:
            if form in text:
                return "".join(self._cut([text], self.found_in(text)))
        return text

    def replaced_pieces(self, pieces: Sequence[str]) -> Sequence[str]:
        """Give texts without secrets that are read one behind the other: also without one that begins in one piece and ends in another."""
        spans = self.found_in("".join(pieces))
        return self._cut(pieces, spans) if spans else pieces

    def found_in(self, text: str) -> list[_Stretch]:
        """Say where in a text secrets stand: from where to where, in order, and none touches the inside of another."""
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
        """Write pieces anew: what stands for a secret stands where it began."""
        made: list[str] = []
        coming = iter((*spans, (sum(map(len, pieces)) + 1, 0)))
        start, end = next(coming)
        done = begin = 0  # up to where the whole text is written, and where this piece begins in it
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
        """Say whether a secret may begin somewhere in a text, at one look."""
        return not self._first.isdisjoint(text)

    def held_of(self, text: str) -> int:
        """Say how many characters at the end of a text may be the beginning of a secret that goes on behind it."""
        size = len(text)
        for start in range(max(0, size - self._longest + 1), size):
            if text[start] in self._first and self._goes_on(text[start:]) is not None:
                return size - start
        return 0

    def nearly_of(self, text: str) -> int:
        """Say how many characters at the end of a text are more than half of a secret."""
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
        """Give the place of the first form that begins like this and is longer; None where there is none."""
        place = bisect_right(self._forms, beginning)
        is_one = place < len(self._forms) and self._forms[place].startswith(beginning)
        return place if is_one else None


def _period_of(text: str) -> int:
    """Say at which least distance a text can overlap itself; its length where it cannot."""
    fits = [0] * len(text)  # how long a beginning ends here that is not all of it
    for place in range(1, len(text)):
        length = fits[place - 1]
        while length and text[place] != text[length]:
            length = fits[length - 1]
        fits[place] = length + (text[place] == text[length])
    return len(text) - fits[-1]


class StreamedText:
    """A text that comes in pieces, of which no secret gets through, wherever it is cut.

    The end of a piece that may be the beginning of a secret waits for the next one. Whatever the cut, what is let through is the same in
    the end, and the same as of the whole text. The exception is a text that was let go in between: see `let_go`.

    Attributes:
        known: What may not get through; may become more.
    """

    __slots__ = ("_is_replaced", "_out", "_tail", "known")

    def __init__(self, known: KnownSecrets) -> None:
        """Begin with nothing."""
        self.known: KnownSecrets = known
        self._tail = ""
        self._out = 0  # how much of the tail has been let through already, or replaced
        self._is_replaced = False  # whether something stands in place of the end of that

    @property
    def is_waiting(self) -> bool:
        """Whether something is held back."""
        return self._out < len(self._tail)

    @property
    def is_clear(self) -> bool:
        """Whether nothing is held back or remembered: another that begins here would say the same."""
        return not self._tail

    def feed(self, piece: str) -> str:
        """Take the next piece, and give what can be let through by now; may be empty."""
        if not self._tail and not self.known.may_begin_in(piece):
            return piece
        text = self._tail + piece
        cut = len(text) - self.known.held_of(text)
        said = self._let_through(text, cut)
        self._tail, self._out = text[cut:], self._out - cut
        return said

    def let_go(self) -> str:
        """Give what is held back, because nothing more comes, or not for long; may be empty.

        More than half of a secret is as good as all of it, so that is replaced. Less goes out as it is, and is remembered: if the rest comes
        after all, that is replaced.
        """
        tail = self._tail
        if self._out == len(tail):
            return ""
        cut = len(tail) - self.known.nearly_of(tail)
        said = self._let_through(tail, cut)
        if self._out < len(tail):  # the rest is more than half of one
            is_told = cut < self._out and self._is_replaced
            said += "" if is_told else REPLACEMENT
            self._out, self._is_replaced = len(tail), True
        return said

    def _let_through(self, text: str, cut: int) -> str:
        """Say what comes before the cut, and which secrets begin there; a secret that begins behind it may be part of a longer one."""
        said: list[str] = []
        out, is_replaced = self._out, self._is_replaced
        for start, end in self.known.found_in(text):
            if start >= max(cut, out):
                break
            if end <= out:
                continue
            if start >= out:
                said += (text[out:start], REPLACEMENT)
            elif not is_replaced:  # its beginning was let go: the rest of it is not
                said.append(REPLACEMENT)
            out, is_replaced = end, True
        if out < cut:
            said.append(text[out:cut])
            out, is_replaced = cut, False
        self._out, self._is_replaced = out, is_replaced
        return "".join(said)
