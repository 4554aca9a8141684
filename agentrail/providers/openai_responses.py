"""OpenAI Responses over HTTP: the provider `openai`. What it says stands in `openai_responses_request.py`."""

from agentrail.providers.http import HttpClients
from agentrail.providers.http_provider import HttpProvider
from agentrail.providers.openai_responses_request import ResponsesFormat
from agentrail.providers.options import ProviderOptions


class OpenAIResponses(HttpProvider):
    """The provider `openai`."""

    name: str = ResponsesFormat.name

    def __init__(self, options: ProviderOptions, http: HttpClients) -> None:
        """Take the options and the supervisor's clients; nothing is opened.

        Raises:
            OptionError: Your move: a budget in tokens, or texts to stop at, which this format cannot say.
        """
        super().__init__(ResponsesFormat(options), http)
