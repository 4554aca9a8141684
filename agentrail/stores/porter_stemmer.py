"""English stemming with the algorithm that M. F. Porter published in 1980."""

import re
from functools import lru_cache
from typing import Final

_SHORTEST: Final = 3
"""Length of the shortest word that is stemmed."""

_SECOND: Final = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_THIRD: Final = {
    "icate": "ic",
    "ative": "",
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
}
_FOURTH: Final = dict.fromkeys(
    (
        "al",
        "ance",
        "ence",
        "er",
        "ic",
        "able",
        "ible",
        "ant",
        "ement",
        "ment",
        "ent",
        "ion",
        "ou",
        "ism",
        "ate",
        "iti",
        "ous",
        "ive",
        "ize",
    ),
    "",
)
_TURN: Final = re.compile("VC")


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a word. A word with other characters than lowercase ASCII letters is unchanged."""
    if len(word) < _SHORTEST or not (word.isascii() and word.isalpha() and word.islower()):
        return word
    word = _without_plural(word)
    word = _without_past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = f"{word[:-1]}i"
    word = _exchanged(word, _SECOND, above=0)
    word = _exchanged(word, _THIRD, above=0)
    word = _exchanged(word, _FOURTH, above=1)
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = next(
        (one for one in ("ed", "ing") if word.endswith(one) and _has_vowel(word[: -len(one)])), None
    )
    if ending is None:
        return word
    word = word[: -len(ending)]
    if word.endswith(("at", "bl", "iz")):
        return f"{word}e"
    if len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "C" and word[-1] not in "lsz":
        return word[:-1]
    return f"{word}e" if _measure(word) == 1 and _ends_short(word) else word


def _exchanged(word: str, endings: dict[str, str], *, above: int) -> str:
    ending = max((one for one in endings if word.endswith(one)), key=len, default=None)
    if ending is None:
        return word
    rest = word[: -len(ending)]
    if _measure(rest) <= above or (ending == "ion" and not rest.endswith(("s", "t"))):
        return word
    return rest + endings[ending]


def _shape(word: str) -> str:
    """Return V for each vowel and C for each consonant."""
    shape = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "C")
        shape += "V" if is_vowel else "C"
    return shape


def _measure(word: str) -> int:
    return len(_TURN.findall(_shape(word)))


def _has_vowel(word: str) -> bool:
    return "V" in _shape(word)


def _ends_short(word: str) -> bool:
    """Whether a word ends like *hop*: consonant, vowel, and a consonant other than w, x and y."""
    return _shape(word).endswith("CVC") and word[-1] not in "wxy"
