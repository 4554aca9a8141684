"""Pictures in results: shown where the format has a place for them there, words elsewhere; each body as its vendor describes it (11.2, K4)."""

import json
from typing import Any

import pytest

from agentrail.messages import AssistantMessage, CallId, Image, ToolCall, ToolMessage, ToolResult
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from tests.providers.transcripts import request_of, said
from tests.providers.vendors import judge

PICTURE = Image(media_type="image/png", data="iVBORw0KGgo=")
WORDS = "the window\n[image/png, 8 bytes]"
RESULT = ToolResult(call_id=CallId("c1"), name="get_weather", text="the window", images=(PICTURE,))
DATA_URL = "data:image/png;base64,iVBORw0KGgo="
SOURCE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


def body_of(make: Any, result: ToolResult = RESULT, *, model: str = "x:m", **options: object) -> Any:
    """Encode a conversation whose last message is one result."""
    call = ToolCall(call_id=CallId("c1"), name="get_weather", arguments={"city": "Faro"})
    messages = (
        said("Look"),
        AssistantMessage(content=(call,), model=model),
        ToolMessage(results=(result,)),
    )
    provider = make(ProviderOptions.parse(options), HttpClients())
    request = request_of(*messages, model=model)
    first = provider.encode(request)
    assert provider.encode(request) == first
    return json.loads(first)


def result_in(make: Any, *args: Any, **kwargs: Any) -> Any:
    """Give what stands for the result in a body."""
    body = body_of(make, *args, **kwargs)
    if make is AnthropicMessages:
        return body["messages"][-1]["content"][0]["content"]
    if make is OpenAIResponses:
        return body["input"][-1]["output"]
    if make is OpenAIChat:
        return body["messages"][-1]["content"]
    return body["contents"][-1]["parts"][0]["functionResponse"]


def test_anthropic_shows_them_in_the_result():
    """As blocks behind the text."""
    assert result_in(AnthropicMessages) == [
        {"type": "text", "text": "the window"},
        {"type": "image", "source": SOURCE},
    ]
    wanted = judge("anthropic.types.message_create_params", "MessageCreateParamsStreaming")
    wanted.validate_python(body_of(AnthropicMessages))


def test_openai_responses_shows_them_in_the_output():
    """As input items in place of the text."""
    assert result_in(OpenAIResponses) == [
        {"type": "input_text", "text": "the window"},
        {"type": "input_image", "detail": "auto", "image_url": DATA_URL},
    ]
    wanted = judge("openai.types.responses.response_create_params", "ResponseCreateParamsStreaming")
    wanted.validate_python(body_of(OpenAIResponses))


@pytest.mark.parametrize(
    ("model", "shows"),
    [
        ("google:gemini-3-pro-preview", True),
        ("google:models/gemini-3.5-flash", True),
        ("google:gemini-10", True),
        ("google:gemini-2.5-pro", False),
        ("google:gemini-pro-latest", False),
    ],
)
def test_gemini_shows_them_from_version_three_on(model, shows):
    """Models before that refuse a response with parts, so they read words; each model has its own encoded form."""
    response = result_in(Gemini, model=model)
    assert response["response"] == {"result": "the window" if shows else WORDS}
    assert response.get("parts") == (
        [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}] if shows else None
    )
    for content in body_of(Gemini, model=model)["contents"]:
        judge("google.genai.types", "Content").validate_python(content)
