"""How long a regular expression may take at worst; the whole of it is held against `re` in property_tests."""

import re

import pytest

from agentrail.core.values.patterns import MAX_PATTERN_CHARACTERS, NoPattern, effort_of

MANY = 10_000


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[a-z0-9-]{1,64}$",
        r"^[\w.+-]+@[\w-]+\.[\w.-]+$",
        r"^\d{4}-\d{2}-\d{2}$",
        r"^(https?)://.+$",
        r"^#?([a-f0-9]{6}|[a-f0-9]{3})$",
        r"^[^/\s]+/[^/]+$",
        r"\A[A-Z]{2,}\Z",
        r"^(?>a+)b$",
        r"^[à-ü]+x$",
    ],
)
def test_what_people_write_is_quick_on_long_texts(pattern):
    """One way through, or a handful: each character costs a step or two."""
    assert effort_of(pattern).steps(MANY) <= 10 * MANY


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(a+)+$",
        r"^(a|a)*$",
        r"(x+x+)+y",
        r"(a|ab)*c",
        r"^(([a-z])+.)+[A-Z]([a-z])+$",
        r"(?i)^(a+)+$",
        r"(\w)\1+$",
        r"^(?:(?i:a)|b*)+$",
        r"(a)?(?(1)b|c)+$",
        r"^((a{0,5}){0,5}){0,5}[b]$",
    ],
)
def test_what_goes_back_again_and_again_is_never_quick(pattern):
    """Each of these would still be at it when the machine is scrapped."""
    assert effort_of(pattern).steps(MANY) > 1e12


@pytest.mark.parametrize(
    ("pattern", "degree"),
    [
        (r"a*a*b", 3),
        (r"^a*a*b", 2),
        (r"^\w+\b", 2),
        (r"(?m)^a", 2),
        (r"^(?=.*\d)x$", 2),
        (r"a", 2),
        (r"^é+ü", 2),
    ],
)
def test_some_take_a_power_of_the_text(pattern, degree):
    """Twice the text, and so many times twice the steps: fine for a name, not for a page."""
    effort = effort_of(pattern)
    assert effort.steps(2 * MANY) / effort.steps(MANY) == pytest.approx(2**degree, rel=0.01)


def test_what_may_stand_a_few_times_is_counted():
    """A repetition with an end has as many ways as it has ends."""
    assert effort_of(r"^a{2,4}a").factor == 3
    assert effort_of(r"^(ab?){2}b").factor == 4
    assert effort_of("^" + "(a|a)" * 60).factor == 1e12


@pytest.mark.parametrize(
    "pattern", ["(", "[z-a]", "a" * (MAX_PATTERN_CHARACTERS + 1), "(" * 500, r"\p{L}", "a{4294967296}"]
)
def test_what_is_none_is_refused(pattern):
    """Before anything is searched for."""
    with pytest.raises(NoPattern):
        effort_of(pattern)


@pytest.mark.parametrize("pattern", ["", r"\d\D\s\S\w\W", "[\\dz-]", "(?s:.)*x", "a??b", "^$", "x{3}"])
def test_all_that_re_takes_is_looked_at(pattern):
    """No construct makes the look itself fail."""
    assert re.compile(pattern)
    assert effort_of(pattern).steps(0) >= 1
