"""What a caller wants of the model for one cycle, as each format says it; it wins over the options of the provider."""

import json

import pytest

from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import BadRequest
from agentrail.messages import Text, UserMessage
from agentrail.providers.anthropic_format import MessagesFormat
from agentrail.providers.gemini_format import GeminiFormat
from agentrail.providers.openai_chat_format import ChatFormat
from agentrail.providers.openai_responses_format import ResponsesFormat
from agentrail.providers.options import ProviderOptions

OPTIONS = {"temperature": 1.0, "top_p": 0.1}


def body_of(kind, settings, **options):
    """The body of a request with these settings, read."""
    request = ModelRequest(
        attempt=EffectId("r1"),
        model="x:m",
        system=None,
        messages=(UserMessage(content=(Text(text="Hi"),)),),
        tools=Toolbox(),
        settings=settings,
    )
    return json.loads(kind(ProviderOptions.parse({**OPTIONS, **options})).encode(request))


def test_gemini_says_it_in_its_own_words():
    """All four of them."""
    settings = PromptSettings(temperature=0.0, stop=("END",), reasoning=64)
    config = body_of(GeminiFormat, settings, stop="STOP")["generationConfig"]
    assert (config["temperature"], config["topP"], config["stopSequences"]) == (0.0, 0.1, ["END"])
    assert config["thinkingConfig"]["thinkingBudget"] == 64


def test_stop_and_reasoning_of_a_cycle_win():
    """Over the options, in each format that knows them."""
    assert body_of(MessagesFormat, PromptSettings(stop=("END",)), stop="STOP")["stop_sequences"] == ["END"]
    assert body_of(ChatFormat, PromptSettings(stop=("END",)), stop="STOP")["stop"] == ["END"]
    assert body_of(ChatFormat, PromptSettings(reasoning="low"), reasoning="high")["reasoning_effort"] == "low"
    assert body_of(ResponsesFormat, PromptSettings(reasoning="off"))["reasoning"] == {"effort": "none"}


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (ChatFormat, PromptSettings(reasoning=64), "takes off, low, medium or high, not a number of tokens"),
        (
            ResponsesFormat,
            PromptSettings(reasoning=64),
            "takes off, low, medium or high, not a number of tokens",
        ),
        (ResponsesFormat, PromptSettings(stop=("END",)), "Responses know no texts that end the answer"),
    ],
)
def test_what_a_format_cannot_say_is_refused_and_never_left_out(kind, settings, words):
    """In the sentence of the option; final, so nothing is sent again."""
    with pytest.raises(BadRequest, match=words) as caught:
        body_of(kind, settings)
    assert not caught.value.retryable
