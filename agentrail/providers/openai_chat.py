"""OpenAI Chat Completions over HTTP: the provider `openai-chat`. What it says stands in `openai_chat_request.py`."""

from agentrail.providers.http import HttpClients
from agentrail.providers.http_provider import HttpProvider
from agentrail.providers.openai_chat_request import ChatFormat
from agentrail.providers.options import ProviderOptions


class OpenAIChat(HttpProvider):
    """The provider `openai-chat`."""

    name: str = ChatFormat.name

    def __init__(self, options: ProviderOptions, http: HttpClients) -> None:
        """Take the options and the supervisor's clients; nothing is opened.

        Raises:
            OptionError: Your move: a budget in tokens, which this format cannot say.
        """
        super().__init__(ChatFormat(options), http)
