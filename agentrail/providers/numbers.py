"""Numbers and dates as servers write them: anything may stand there, and nothing that does may raise. Pure.

Python reads numbers of any length, in any script, and refuses some by exceptions of three kinds. What is longer than any
number that means something is none here, and what no calendar holds is no date.
"""

import datetime
import email.utils
import math
from typing import Final

MAX_SECONDS: Final = 1e9
"""Thirty years. A pause is longer than anybody waits long before."""

_MAX_CHARACTERS: Final = 32
_MAX_DATE_CHARACTERS: Final = 64


def read_integer(value: object) -> int | None:
    """Read a number that may come as a number or as a text of digits; None for anything else."""
    if isinstance(value, str):
        fits = len(value) <= _MAX_CHARACTERS and value.isascii() and value.isdigit()
        return int(value) if fits else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_seconds(text: str | None) -> float | None:
    """Read how long to wait, at most thirty years; None where nothing stands that says so."""
    if text is None or not 0 < len(text) <= _MAX_CHARACTERS or not text.isascii():
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return min(value, MAX_SECONDS) if value >= 0 and math.isfinite(value) else None


def read_date(text: str) -> datetime.datetime | None:
    """Read a date of an HTTP header, in UTC; None for what is none, or what no calendar holds."""
    if len(text) > _MAX_DATE_CHARACTERS:
        return None
    try:
        found = email.utils.parsedate_to_datetime(text)
        # Here and not where it is subtracted: close to the year 1 or 9999 there are zones in which it is another year.
        return found.replace(tzinfo=datetime.UTC) if found.tzinfo is None else found.astimezone(datetime.UTC)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
