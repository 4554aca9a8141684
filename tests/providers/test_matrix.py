"""Each way in which a server fails, in each of the four formats (7.7, 7.14): what comes of it is typed the same way."""

import json
from typing import Any

import pytest
import structlog
from attrs import evolve

from agentrail.errors import (
    Authentication,
    BadRequest,
    ModelNotFound,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
)
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat
from agentrail.testing.check_provider import reply, stream
from tests.providers.transcripts import WIRE, WIRES, ask_once, completed, transcript_events

EVERY = pytest.mark.parametrize("kind", list(WIRES))

# By status: the error, whether it is worth another attempt, and what each vendor calls it.
STATUSES: dict[int, tuple[type[ProviderError], bool, dict[type[Any], str]]] = {
    400: (BadRequest, False, {AnthropicMessages: "invalid_request_error", Gemini: "INVALID_ARGUMENT"}),
    401: (Authentication, False, {AnthropicMessages: "authentication_error", Gemini: "UNAUTHENTICATED"}),
    404: (ModelNotFound, False, {AnthropicMessages: "not_found_error", Gemini: "NOT_FOUND"}),
    429: (RateLimited, True, {AnthropicMessages: "rate_limit_error", Gemini: "RESOURCE_EXHAUSTED"}),
    500: (Overloaded, True, {AnthropicMessages: "api_error", Gemini: "INTERNAL"}),
    529: (Overloaded, True, {AnthropicMessages: "overloaded_error", Gemini: "UNAVAILABLE"}),
}
OPENAI_CODES = {404: "model_not_found", 429: "rate_limit_exceeded", 401: "invalid_api_key"}


def refusal_of(kind: type[Any], status: int) -> str:
    """The body that the vendor of a format sends with a status."""
    message = "models/some-model is not found" if status == 404 else "That did not work"
    if kind is Gemini:
        error = {"code": status, "message": message, "status": STATUSES[status][2][Gemini]}
        return json.dumps({"error": error})
    if kind is AnthropicMessages:
        error = {"type": STATUSES[status][2][AnthropicMessages], "message": f"model: {message}"}
        return json.dumps({"type": "error", "error": error, "request_id": "req_body"})
    inner = {"message": message, "type": "x", "param": None, "code": OPENAI_CODES.get(status)}
    return json.dumps({"error": inner})


@EVERY
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("retry_after", [None, "7"])
async def test_a_status_with_the_vendors_own_body(kind, status, retry_after):
    """The error, whether to try again, the pause that is asked for, the vendor's words and its id of the request."""
    error, is_retryable, _ = STATUSES[status]
    headers = {"request_id": "req_1", **({"retry_after": retry_after} if retry_after else {})}
    answer = reply(refusal_of(kind, status), status=f"{status} No", kind="application/json", **headers)
    with pytest.raises(error) as caught:
        await ask_once(kind, answer)
    assert (caught.value.status, caught.value.retryable) == (status, is_retryable)
    assert caught.value.retry_after_seconds == (float(retry_after) if retry_after else None)
    assert caught.value.request_id == "req_1"
    assert "not found" in str(caught.value) or "That did not work" in str(caught.value)


@EVERY
@pytest.mark.parametrize("status", [200, *STATUSES])
async def test_a_page_of_html_in_place_of_an_answer(kind, status):
    """A proxy's page is told by its status alone, and its title is shown, once."""
    expected = {
        **{status: error for status, (error, *_) in STATUSES.items()},
        200: ProtocolError,
        404: ProviderError,
    }
    page = "<html><head><title>Gateway</title></head>" + "x" * 500
    with pytest.raises(expected[status], match=f"answered {status}: a web page, 'Gateway'") as caught:
        await ask_once(kind, reply(page, status=f"{status} No", kind="text/html"))
    assert str(caught.value).count("Gateway") == 1
    assert "xx" not in str(caught.value)


@EVERY
async def test_a_slow_trickle(kind, autojump_clock):
    """A byte a second is a stream like any other: the first chunk came in time, and what follows is the session's business."""
    events = transcript_events(kind)
    whole, *_ = await ask_once(kind, stream(*events, ends=True))
    pieces = [b"".join(events[:4]), *(bytes([byte]) for byte in b"".join(events[4:]))]
    slow = evolve(stream(*pieces, ends=True), pause_seconds=0.001)
    seen, *_ = await ask_once(kind, slow, timeout=5)
    assert seen == whole


@EVERY
async def test_events_that_nobody_knows_are_counted_and_change_nothing(kind):
    """Between all others, with any content; so are events behind the end."""
    events = transcript_events(kind)
    whole, *_ = await ask_once(kind, stream(*events, ends=True))
    strange = b'event: brand.new\ndata: {"type":"brand.new","candidates":null,"choices":null}\n\n'
    pieces = (piece for event in events for piece in (strange, event))
    seen, _, http = await ask_once(kind, stream(*pieces, strange, ends=True))
    assert seen == whole
    assert http.statistics().ignored_events >= len(events)


@EVERY
@pytest.mark.parametrize("count", [-1, 10**15, 1.5, "many", True], ids=repr)
async def test_token_counts_that_cannot_be_are_left_out_and_logged(kind, count):
    """The usage is estimated and marked, one warning names the member and the value, and the answer is whole."""
    names = {OpenAIChat: "prompt_tokens", Gemini: "promptTokenCount"}
    name = names.get(kind, "input_tokens")
    events = [_with_count(event, name, count) for event in transcript_events(kind)]
    assert any(json.dumps(count).encode() in event for event in events), "the transcript reports no usage"
    with structlog.testing.capture_logs() as logs:
        seen, *_ = await ask_once(kind, stream(*events, ends=True))
    usage = completed(seen).usage
    assert usage.estimated
    assert 0 <= usage.input < 1_000
    (log,) = [log for log in logs if "token counts" in log["event"]]
    assert (log["log_level"], log["counts"]) == ("warning", {name: repr(count)})


def _with_count(event: bytes, name: str, count: object) -> bytes:
    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: count if key == name else changed(inner) for key, inner in value.items()}
        return value

    lines = event.decode().splitlines()
    changed_lines = [
        "data: " + json.dumps(changed(json.loads(line[5:])))
        if line.startswith("data:") and "{" in line
        else line
        for line in lines
    ]
    return "\n".join(changed_lines).encode() + b"\n\n"


@EVERY
@pytest.mark.parametrize("deviation", ["id_missing", "usage_never", "unknown_events", "usage_absurd"])
def test_every_format_has_its_transcript_of_a_deviation(kind, deviation):
    """What the matrix makes up stands among the recorded answers too, as far as the format can be like that."""
    known = {path.stem for path in (WIRE / WIRES[kind]).rglob("*.sse")}
    if (kind, deviation) not in CANNOT_BE:
        assert deviation in known


CANNOT_BE = {
    (Gemini, "id_missing"),  # the format's own calls have none
    (OpenAIChat, "unknown_events"),  # its events have no kinds
}
