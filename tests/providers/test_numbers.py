"""Numbers and texts of strangers: whatever stands there is a number, a text, or none, and nothing raises."""

import datetime
import json

import pytest
from hypothesis import given, strategies as st

from agentrail.errors import ProviderError
from agentrail.providers.failures import Answer, Vendor, failure_of, read_date, reported_failure
from agentrail.providers.json_text import decode_json, encode_json

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
KEY = "0f3b9c2d77a14be18c55d0aa9e6f1234"
VENDOR = Vendor(name="v", key_help="", secrets=(KEY,))


def _refused(headers, body="{}", status=429):
    return failure_of(Answer(status=status, headers=headers, body=body, now=NOW), VENDOR)


def test_what_is_in_no_calendar_is_no_date():
    """And no pause; a date without a zone is of no other, as HTTP has it."""
    for text in (
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2030 00:00:00 +99999999999999999999",
        "Fri, 31 Dec 9999 23:59:59 -2359",
        "Mon, 99 Foo 2030",
        "",
        "x" * 1_000_000,
    ):
        assert read_date(text) is None, text[:80]
        assert _refused({"retry-after": text}).retry_after_seconds is None, text[:80]
    assert read_date("Thu, 01 Jan 2026 00:00:00") == NOW
    assert read_date("Thu, 01 Jan 2026 01:00:00 +0100") == NOW


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


CHARACTERS = st.characters(exclude_categories=["Cs"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(CHARACTERS),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(CHARACTERS), inner),
    max_leaves=10,
)


@given(value=VALUES)
def test_encoding_and_decoding_are_the_inverse_of_each_other(value):
    """For all that JSON can say in proper Unicode."""
    assert decode_json(encode_json(value)) == value
    assert json.loads(encode_json(value)) == value


@given(value=st.lists(st.text(st.characters(categories=["Cs", "L"]), max_size=4), max_size=3))
def test_lone_surrogates_become_replacement_characters(value):
    """In both directions: what comes in can always go out again."""
    decoded = decode_json(json.dumps(value))
    assert all(text.encode() is not None for text in decoded)
    assert json.loads(encode_json({"x": value}))["x"] == decoded
