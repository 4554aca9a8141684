"""Numbers of strangers: whatever stands there is a number or none, and nothing raises."""

import datetime

import pytest
from hypothesis import given, strategies as st

from agentrail.errors import ProviderError
from agentrail.providers.failures import (
    MAX_SECONDS,
    Answer,
    Vendor,
    failure_of,
    read_date,
    read_integer,
    read_seconds,
    reported_failure,
)

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
KEY = "0f3b9c2d77a14be18c55d0aa9e6f1234"
VENDOR = Vendor(name="v", key_help="", secrets=(KEY,))


def _refused(headers, body="{}", status=429):
    return failure_of(Answer(status=status, headers=headers, body=body, now=NOW), VENDOR)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("429", 429),
        (429, 429),
        ("", None),
        ("9" * 5_000, None),
        ("-1", None),
        ("٤٢٩", None),
        ("²", None),
        (True, None),
        (4.0, None),
        (None, None),
        ([], None),
    ],
)
def test_whole_numbers_are_read_or_not(value, number):
    """In digits that everybody reads, and no more of them than mean something."""
    assert read_integer(value) == number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2),
        ("0.5", 0.5),
        ("1e3", 1000),
        ("1e300", MAX_SECONDS),
        ("9" * 5_000, None),
        ("nan", None),
        ("inf", None),
        ("-1", None),
        ("", None),
        (None, None),
        ("٣", None),
        ("soon", None),
    ],
)
def test_pauses_are_read_or_not(text, seconds):
    """None is longer than thirty years."""
    assert read_seconds(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2030 00:00:00 +99999999999999999999",
        "Fri, 31 Dec 9999 23:59:59 -2359",
        "Mon, 99 Foo 2030",
        "",
        "x" * 1_000_000,
    ],
)
def test_what_is_in_no_calendar_is_no_date(text):
    """And no pause."""
    assert read_date(text) is None
    assert _refused({"retry-after": text}).retry_after_seconds is None


def test_dates_without_a_zone_are_of_no_other():
    """As HTTP has it."""
    assert read_date("Thu, 01 Jan 2026 00:00:00") == NOW
    assert read_date("Thu, 01 Jan 2026 01:00:00 +0100") == NOW


@pytest.mark.parametrize(
    "body",
    [
        '{"error": {"code": "' + "9" * 5_000 + '", "message": "m"}}',
        '{"error": {"code": ' + "9" * 5_000 + "}}",
        "9" * 5_000,
    ],
)
def test_a_code_of_five_thousand_digits_is_no_code(body):
    """The status says what it is."""
    assert _refused({}, body).code == "rate_limited"


@given(
    text=st.text(max_size=80)
    | st.from_regex(r"\A[A-Z][a-z]{2}, \d{1,30} [A-Z][a-z]{2} \d{1,30} \d\d:\d\d:\d\d [+-]\d{1,30}\Z")
)
def test_any_header_and_any_body_is_a_provider_error(text):
    """Whatever stands where a number is expected."""
    for name in ("retry-after", "retry-after-ms", "x-should-retry", "request-id"):
        error = _refused({name: text}, f'{{"error": {{"code": {text!r}}}}}')
        assert isinstance(error, ProviderError)
    details = [{"retryDelay": text, "reason": text}]
    assert isinstance(
        reported_failure({"code": text, "message": text, "details": details}, VENDOR), ProviderError
    )


@pytest.mark.parametrize("name", ["location", "request-id", "x-request-id"])
@pytest.mark.parametrize(
    "value", [f"https://x/?k={KEY}", f"https://x/{'y' * 170}?k={KEY}", " " * 790 + KEY, KEY * 40]
)
def test_no_member_of_an_error_holds_the_key(name, value):
    """Nor a beginning of it that a cut has left over: whoever logs an error may log all of it."""
    error = _refused({name: value}, value, status=302)
    assert KEY[:6] not in str(error) + repr(vars(error))


def test_an_id_that_is_a_page_long_is_cut():
    """It is for the vendor's support, not for a book."""
    error = _refused({"request-id": "r" * 100_000})
    assert len(error.request_id or "") < 250
