"""Words: how texts and queries are cut, and which words of a query are looked for. Pure; all indexes of this room agree on it.

A query is never syntax. What is looked for consists of letters and digits alone, so there is nothing in it that an index could
read as an operator, a column or the end of a phrase.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Final

from agentrail.stores.stemming import stem

MAX_QUERY_WORDS: Final = 32
"""How many words of a query are looked for: 20,000 would take the better part of a second."""

MAX_QUERY_CHARACTERS: Final = 4_000
"""How much of a query is looked at."""

MAX_INDEXED_CHARACTERS: Final = 64
"""How much of a word counts."""

FEW_ROWS: Final = 500
"""So many rows are ranked by any word in no time, however frequent that is."""

FREQUENT_SHARE: Final = 50
"""A word in more than one row of so many is frequent: to rank by it takes long, and says little."""

# Han, Hiragana, Katakana: written without spaces.
_RUN: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(rf"[{_RUN}]+|[^\W_{_RUN}]+")


def cut_words(text: str) -> Iterator[str]:
    """Cut a text into words: runs of letters and digits, in small letters, without accents and English endings.

    What is written without spaces is cut into pairs of neighbours, since no sign says where its words end.
    """
    plain = text.lower() if text.isascii() else _plain(text)
    for found in _WORD.finditer(plain):
        word = found[0]
        if "\u3040" <= word[0] <= "\ufaff" and len(word) > 1 and re.match(f"[{_RUN}]", word):
            yield from ("".join(pair) for pair in pairwise(word))
        else:
            yield stem(word[:MAX_INDEXED_CHARACTERS])


def _plain(text: str) -> str:
    # Taken apart before letters are made small: some are taken apart into capitals.
    apart = unicodedata.normalize("NFKD", text).casefold()
    return "".join([c for c in apart if unicodedata.category(c) != "Mn"])


def query_words(query: str) -> tuple[str, ...]:
    """Give the words that are looked for: the first 32 different ones of the beginning of a query."""
    return tuple(islice(dict.fromkeys(cut_words(query[:MAX_QUERY_CHARACTERS])), MAX_QUERY_WORDS))


CountRows = Callable[[str, int | None], int]
"""Says how many rows a word stands in, counted no further than to a bound; None for all of them."""


def choose_words(words: Sequence[str], count: CountRows, rows: int) -> tuple[str, ...]:
    """Say which words of a query decide: those that stand in more than 2 % of the rows only where there is no rarer one."""
    if rows <= FEW_ROWS:
        return tuple(words)
    bound = max(FEW_ROWS, rows // FREQUENT_SHARE)
    while True:
        counts = {word: count(word, bound + 1) for word in words}
        # One that stands nowhere finds nothing: it is rare, and takes the place of no other.
        there = [word for word in words if counts[word]]
        rare = tuple([word for word in there if counts[word] <= bound])
        if rare or not there:
            return rare
        bound *= 4  # all are frequent: the least frequent ones alone


KEY_LENGTH: Final = 32
"""How many signs `owner_key` gives."""


def owner_key(*names: str) -> str:
    """Give what stands in front of each word of an owner: 32 signs for whatever names, so that none begins like another's."""
    # In each word, not as a word of its own, which every query would have to contain: six words of 12,000 rows of 120 owners took 0.70 ms
    # that way and take 0.32 ms. The index is 60 % larger.
    # JSON, so that no two lists of names have one form; it writes half characters too.
    return hashlib.blake2b(json.dumps(names).encode(), digest_size=16).hexdigest()


def label_of(tag: str) -> str:
    """Give the word that stands for exactly this tag, whatever signs it has."""
    return hashlib.blake2b(tag.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def all_of(column: str, key: str, labels: Sequence[str]) -> str:
    """Write the part of a match that wants all of these words in a column; none of them has a sign that means something."""
    return f"{{{column}}}: ({' AND '.join(_quoted(key, labels))})"


def any_of(columns: str, key: str, words: Sequence[str]) -> str:
    """Write the part of a match that wants any of these words in columns."""
    return f"{{{columns}}}: ({' OR '.join(_quoted(key, words))})"


def _quoted(key: str, words: Sequence[str]) -> list[str]:
    return [f'"{key}{word}"' for word in words]


def indexed(key: str, words: Iterable[str]) -> str:
    """Write words as they stand in an index: each behind the key of its owner."""
    return " ".join([key + word for word in words])
