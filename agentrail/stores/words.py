"""Splitting texts and queries into words. A query is never syntax: words contain only letters and digits."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Final

from agentrail.abc.recall import MemoryOwner
from agentrail.stores.porter_stemmer import stem

MAX_QUERY_WORDS: Final = 32
"""Limit on search words of a query: 20,000 would take almost a second."""

MAX_QUERY_CHARACTERS: Final = 4_000
"""Limit on the part of a query that is read."""

MAX_INDEXED_CHARACTERS: Final = 64
"""Limit on the significant part of a word."""

FEW_ROWS: Final = 500
"""Up to this many rows, ranking by any word is fast, however frequent it is."""

FREQUENT_SHARE: Final = 50
"""A word in more than one of this many rows is frequent: ranking by it is slow and tells little."""

# Han, Hiragana, Katakana: written without spaces.
_RUN: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(rf"[{_RUN}]+|[^\W_{_RUN}]+")


def cut_words(text: str) -> Iterator[str]:
    """Split a text into words in lowercase, without accents and English endings.

    Text written without spaces is split into pairs of neighbouring characters.
    """
    plain = text.lower() if text.isascii() else _plain(text)
    for found in _WORD.finditer(plain):
        word = found[0]
        if "\u3040" <= word[0] <= "\ufaff" and len(word) > 1 and re.match(f"[{_RUN}]", word):
            yield from ("".join(pair) for pair in pairwise(word))
        else:
            yield stem(word[:MAX_INDEXED_CHARACTERS])


def _plain(text: str) -> str:
    # Decomposed before lowercasing: some characters decompose into capitals.
    apart = unicodedata.normalize("NFKD", text).casefold()
    return "".join([c for c in apart if unicodedata.category(c) != "Mn"])


def query_words(query: str) -> tuple[str, ...]:
    """Return the first 32 different search words of a query."""
    return tuple(islice(dict.fromkeys(cut_words(query[:MAX_QUERY_CHARACTERS])), MAX_QUERY_WORDS))


CountRows = Callable[[str, int | None], int]
"""Returns the number of rows with a word, counted up to a limit; None counts all."""


def choose_words(words: Sequence[str], count: CountRows, rows: int) -> tuple[str, ...]:
    """Return the words of a query to search. Those in more than 2 % of the rows are used only without rarer ones."""
    if rows <= FEW_ROWS:
        return tuple(words)
    bound = max(FEW_ROWS, rows // FREQUENT_SHARE)
    while True:
        counts = {word: count(word, bound + 1) for word in words}
        # A word without rows finds nothing: it is rare, but must not displace another word.
        there = [word for word in words if counts[word]]
        rare = tuple([word for word in there if counts[word] <= bound])
        if rare or not there:
            return rare
        bound *= 4  # all are frequent: use only the least frequent ones


KEY_LENGTH: Final = 32
"""Length of the result of `owner_key`."""


def owner_key(*names: str) -> str:
    """Return the prefix of an owner's words: 32 characters for any names."""
    # A prefix of each word instead of a separate word, which every query would have to contain: six words in
    # 12,000 rows of 120 owners took 0.70 ms that way and take 0.32 ms. The index is 60 % larger.
    # JSON, so that no two lists of names have the same form. It can also encode lone surrogates.
    return hashlib.blake2b(json.dumps(names).encode(), digest_size=16).hexdigest()


def key_of_owner(owner: MemoryOwner) -> str:
    """Return the prefix of an owner's words, which is also the key of their rows."""
    return owner_key(owner.tenant, owner.user)


def label_of(tag: str) -> str:
    return hashlib.blake2b(tag.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def all_of(column: str, key: str, labels: Sequence[str]) -> str:
    return f"{{{column}}}: ({' AND '.join(_quoted(key, labels))})"


def any_of(columns: str, key: str, words: Sequence[str]) -> str:
    return f"{{{columns}}}: ({' OR '.join(_quoted(key, words))})"


def _quoted(key: str, words: Sequence[str]) -> list[str]:
    return [f'"{key}{word}"' for word in words]


def indexed(key: str, words: Iterable[str]) -> str:
    return " ".join([key + word for word in words])
