"""How long a regular expression may take at worst; the whole of it is held against `re` in property_tests."""

import re

import pytest

from agentrail.core.values.patterns import MAX_PATTERN_CHARACTERS, NoPattern, effort_of

MANY = 10_000


def test_what_people_write_is_quick_and_what_goes_back_again_never_is():
    """One way through, or a handful; some take a power of the text, fine for a name and not for a page; others would still be at it when the machine is scrapped."""
    for pattern in (
        *(r"^[a-z0-9-]{1,64}$", r"^[\w.+-]+@[\w-]+\.[\w.-]+$", r"^\d{4}-\d{2}-\d{2}$", r"^(https?)://.+$"),
        *(r"^#?([a-f0-9]{6}|[a-f0-9]{3})$", r"^[^/\s]+/[^/]+$", r"\A[A-Z]{2,}\Z", r"^(?>a+)b$", r"^[à-ü]+x$"),
    ):
        assert effort_of(pattern).steps(MANY) <= 10 * MANY, pattern

    for pattern in (
        *(r"^(a+)+$", r"^(a|a)*$", r"(x+x+)+y", r"(a|ab)*c", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(?i)^(a+)+$"),
        *(r"(\w)\1+$", r"^(?:(?i:a)|b*)+$", r"(a)?(?(1)b|c)+$", r"^((a{0,5}){0,5}){0,5}[b]$"),
    ):
        assert effort_of(pattern).steps(MANY) > 1e12, pattern

    squares = (r"^a*a*b", r"^\w+\b", r"(?m)^a", r"^(?=.*\d)x$", r"a", r"^é+ü")
    for pattern, degree in {r"a*a*b": 3, **dict.fromkeys(squares, 2)}.items():
        effort = effort_of(pattern)
        grown = effort.steps(2 * MANY) / effort.steps(MANY)
        assert grown == pytest.approx(2**degree, rel=0.01), pattern


def test_what_may_stand_a_few_times_is_counted():
    """A repetition with an end has as many ways as it has ends."""
    assert effort_of(r"^a{2,4}a").factor == 3
    assert effort_of(r"^(ab?){2}b").factor == 4
    assert effort_of("^" + "(a|a)" * 60).factor == 1e12
    once, often = effort_of("(?:a|a)?c"), effort_of("(?:a|a)*c")
    assert once.steps(1000) < often.steps(1000)  # what may be there once multiplies nothing


def test_all_that_re_takes_is_looked_at_and_what_is_none_is_refused():
    """No construct makes the look itself fail, and nothing is searched for before it."""
    for pattern in ("", r"\d\D\s\S\w\W", "[\\dz-]", "(?s:.)*x", "a??b", "^$", "x{3}"):
        assert re.compile(pattern)
        assert effort_of(pattern).steps(0) >= 1
    for none in ("(", "[z-a]", "a" * (MAX_PATTERN_CHARACTERS + 1), "(" * 500, r"\p{L}", "a{4294967296}"):
        with pytest.raises(NoPattern):
            effort_of(none)
