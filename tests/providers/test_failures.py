"""Each row of the error table (7.7): statuses, codes, headers, and what never stands in a text."""

import datetime
import json
import re

import pytest
from hypothesis import given, strategies as st

from agentrail.errors import (
    Authentication,
    BadRequest,
    ContentRefused,
    ContextWindowExceeded,
    ModelNotFound,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
    Timeout,
)
from agentrail.providers.failures import (
    OVERFLOW,
    Answer,
    Vendor,
    failure_in_stream,
    failure_of,
    retry_after_of,
    scrubbed,
)
from tests.providers.transcripts import KEY, VENDOR, WIRE
from tests.thinned import each

TOO_MANY = "The input token count (2000) exceeds the maximum number of tokens"
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def _failure(status: int, body: object, **headers: str) -> ProviderError:
    text = body if isinstance(body, str) else json.dumps(body)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return failure_of(Answer(status=status, headers=names, body=text, now=NOW), VENDOR)


def _openai(message: str = "no", **fields: object) -> dict[str, object]:
    return {"error": {"message": message, "type": None, "param": None, "code": None, **fields}}


def _google(status: str, message: str = "no", *, code: int = 400, **detail: str) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "status": status, "details": [detail]}}


def _anthropic(kind: str, message: str = "no") -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


@each(
    ("status", "body", "kind"),
    [
        (400, _openai(type="invalid_request_error"), BadRequest),
        (400, _openai(code="context_length_exceeded"), ContextWindowExceeded),
        (400, _openai("This model's maximum context length is 8192 tokens"), ContextWindowExceeded),
        (400, _openai("the request exceeds the available context size"), ContextWindowExceeded),
        (400, _openai(code="content_filter"), ContentRefused),
        (400, _anthropic("invalid_request_error", "prompt is too long: 3 > 2"), ContextWindowExceeded),
        (400, _anthropic("invalid_request_error"), BadRequest),
        (401, _openai(code="invalid_api_key"), Authentication),
        (401, _anthropic("authentication_error"), Authentication),
        (402, _openai(), Authentication),
        (403, _anthropic("permission_error"), Authentication),
        (404, _openai(code="model_not_found"), ModelNotFound),
        (404, _anthropic("not_found_error", "model: claude-9"), ModelNotFound),
        (404, {"error": {"message": "model 'x' not found, try pulling it first"}}, ModelNotFound),
        (404, {"detail": "Not Found"}, BadRequest),
        (404, "<html>no such page</html>", BadRequest),
        (408, _openai(), Timeout),
        (409, _openai(), BadRequest),
        (413, _anthropic("request_too_large"), BadRequest),
        (413, _anthropic("request_too_large", "input token count (3) exceeds 2"), ContextWindowExceeded),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, BadRequest),
        (429, _openai(type="requests", code="rate_limit_exceeded"), RateLimited),
        (429, _openai(code="insufficient_quota"), Authentication),
        (429, _anthropic("rate_limit_error"), RateLimited),
        (429, "slow down", RateLimited),
        (500, _anthropic("api_error"), Overloaded),
        (500, _openai(type="server_error"), Overloaded),
        (502, "<html><h1>Bad Gateway</h1></html>", Overloaded),
        (503, "", Overloaded),
        (504, _anthropic("timeout_error"), Timeout),
        (529, _anthropic("overloaded_error"), Overloaded),
        (522, "<html><title>Connection timed out</title></html>", Overloaded),  # Cloudflare's own statuses
        (520, _openai(), Overloaded),
        (400, _google("INVALID_ARGUMENT"), BadRequest),
        (400, _google("INVALID_ARGUMENT", reason="API_KEY_INVALID"), Authentication),
        (400, [_google("INVALID_ARGUMENT", reason="API_KEY_INVALID")], Authentication),
        (400, [], BadRequest),
        (400, _google("INVALID_ARGUMENT", TOO_MANY), ContextWindowExceeded),
        (403, _google("PERMISSION_DENIED", code=403), Authentication),
        (404, _google("NOT_FOUND", "models/x is not found", code=404), ModelNotFound),
        (429, _google("RESOURCE_EXHAUSTED", code=429), RateLimited),
        (500, _google("INTERNAL", code=500), Overloaded),
        (503, _google("UNAVAILABLE", code=503), Overloaded),
        (504, _google("DEADLINE_EXCEEDED", code=504), Overloaded),
        (301, "moved", BadRequest),
        (200, "<html>Please log in</html>", ProtocolError),
    ],
)
def test_each_refusal_has_its_type(status, body, kind):
    """Status and code decide, and the words only where nothing else tells an overflow from a bad request."""
    failure = _failure(status, body)
    assert type(failure) is kind
    assert failure.status == status
    assert f"answered {status}" in str(failure)


RECORDED = {path.stem: json.loads(path.read_bytes()) for path in sorted((WIRE / "refusals").glob("*.json"))}


def _recorded(name: str) -> ProviderError:
    return _failure(
        RECORDED[name]["status"],
        RECORDED[name]["body"],
        **{header.replace("-", "_"): text for header, text in RECORDED[name]["headers"].items()},
    )


def test_a_prompt_that_is_too_long_is_told_from_a_bad_request():
    """By a code where there is one, else by words that somebody really says; what only sounds like it stays: compacting would not help."""
    texts = []
    for name in RECORDED:
        if name.startswith("overflow"):
            failure = _recorded(name)
            assert type(failure) is ContextWindowExceeded, name
            assert not failure.retryable
            texts.append(json.dumps(RECORDED[name]["body"]))
    for name in ("too_large_413", "bad_request_about_length", "bad_request_about_max_tokens"):
        assert type(_recorded(name)) is BadRequest, name
    for pattern in OVERFLOW:  # one that no vendor's words need may only do harm
        assert any(re.search(pattern, text, re.IGNORECASE) for text in texts), pattern


@pytest.mark.parametrize(
    ("name", "kind", "seconds"),
    [
        ("rate_limit_openai", RateLimited, 1.964),
        ("rate_limit_anthropic", RateLimited, 31),
        ("rate_limit_azure", RateLimited, 1.5),
        ("quota_openai", Authentication, None),
        ("quota_openai_billing", Authentication, None),
        ("quota_anthropic", Authentication, None),
    ],
)
def test_a_limit_of_the_moment_is_told_from_a_quota_that_is_used_up(name, kind, seconds):
    """The first is over after a while, for the second no waiting helps."""
    failure = _recorded(name)
    assert type(failure) is kind
    assert failure.retryable is (kind is RateLimited)
    assert failure.retry_after_seconds == seconds


@each(
    ("event", "kind"),
    [
        (_anthropic("overloaded_error"), Overloaded),
        (_anthropic("rate_limit_error"), RateLimited),
        (_anthropic("api_error"), Overloaded),
        (_anthropic("invalid_request_error"), BadRequest),
        (_openai(code="context_length_exceeded"), ContextWindowExceeded),
        (_openai(code=429), RateLimited),
        (_openai(code="503"), Overloaded),
        (_google("RESOURCE_EXHAUSTED", code=429), RateLimited),
        (_google("UNAVAILABLE", code=503), Overloaded),
        ({"error": {"status": "UNAVAILABLE", "details": "none"}}, Overloaded),
        ({"error": "the model runner stopped"}, Overloaded),
        ({"object": "error", "message": "no", "code": 400}, BadRequest),
        (_openai(code="invalid_image_url"), BadRequest),
        (_openai(code="bio_policy"), ContentRefused),
    ],
)
def test_each_error_event_has_its_type(event, kind):
    """After a 200 the code decides, or the status that a proxy put beside it."""
    assert type(failure_in_stream(event, VENDOR)) is kind


def test_a_refusal_says_what_helps():
    """Of a proxy's page 200 characters on one line, of a wrong key its variable. A short key is not a secret."""
    failure = _failure(200, "<html>\n" + "x" * 500)
    assert "<html> " + "x" * 193 + "…" in str(failure)
    assert "x" * 194 not in str(failure)
    assert "base_url" in str(failure)

    assert "set THE_KEY" in str(_failure(401, _openai("Incorrect API key provided")))

    assert scrubbed("any model is fine", ("any",)) == "any model is fine"
    assert scrubbed("the skill test", (KEY,)) == "the skill test"


@each(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"x-ms-retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Fri, 02 Jan 2026 03:05:05 GMT"}, 60.0),
        ({"retry-after": "Fri, 02 Jan 2026 03:00:00 GMT"}, 0.0),
        ({"retry-after": "Fri, 02 Jan 2026 03:05:05"}, 60.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 1e9),
        ({"llm_provider-retry-after": "3"}, 3.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers, seconds):
    """Seconds, milliseconds, a date, or nothing when it is nonsense."""
    assert retry_after_of(headers, NOW) == seconds


@given(
    before=st.text(max_size=20),
    key=st.text("abcdefgh0123456789-_", min_size=8, max_size=40),
    after=st.text(max_size=20),
)
def test_a_whole_key_never_gets_through(before, key, after):
    """Wherever it stands in what a vendor says."""
    vendor = Vendor(name="v", key_help="h", secrets=(key,))
    body = json.dumps({"error": {"message": before + key + after}})
    assert key not in str(failure_of(Answer(status=401, headers={}, body=body, now=NOW), vendor))
    assert key not in repr(vendor)


def test_words_of_a_vendor_move_no_cursor():
    """They stand in errors, which logs and terminals show: controls and characters that turn the text around become one that is visible."""
    body = json.dumps({"error": {"message": "no \x1b[2J\u202e\x9bway"}})
    error = failure_of(Answer(status=500, headers={"request-id": "a\x07"}, body=body, now=NOW), VENDOR)
    assert str(error).isprintable()
    assert "no \ufffd[2J" in str(error)
    assert error.request_id == "a\ufffd"
