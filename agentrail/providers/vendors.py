"""The vendors' providers: each runs its wire format over HTTP."""

from agentrail.providers.anthropic_format import MessagesFormat
from agentrail.providers.gemini_format import PLACEHOLDER as PLACEHOLDER, GeminiFormat  # noqa: PLC0414 - for users
from agentrail.providers.http import HttpClients
from agentrail.providers.http_provider import HttpProvider
from agentrail.providers.openai_chat_format import ChatFormat
from agentrail.providers.openai_responses_format import ResponsesFormat
from agentrail.providers.options import ProviderOptions


class AnthropicMessages(HttpProvider):
    """The provider `anthropic`."""

    name: str = MessagesFormat.name

    def __init__(self, options: ProviderOptions, http: HttpClients) -> None:
        """Store the options and the supervisor's clients, without opening a connection."""
        super().__init__(MessagesFormat(options), http)


class Gemini(HttpProvider):
    """The provider `google`."""

    name: str = GeminiFormat.name

    def __init__(self, options: ProviderOptions, http: HttpClients) -> None:
        """Store the options and the supervisor's clients, without opening a connection."""
        super().__init__(GeminiFormat(options), http)


class OpenAIChat(HttpProvider):
    """The provider `openai-chat`."""

    name: str = ChatFormat.name

    def __init__(self, options: ProviderOptions, http: HttpClients) -> None:
        """Store the options and the supervisor's clients, without opening a connection.

        Raises:
            OptionError: Your move: a reasoning budget in tokens, which this format does not support.
        """
        super().__init__(ChatFormat(options), http)


class OpenAIResponses(HttpProvider):
    """The provider `openai`."""

    name: str = ResponsesFormat.name

    def __init__(self, options: ProviderOptions, http: HttpClients) -> None:
        """Store the options and the supervisor's clients, without opening a connection.

        Raises:
            OptionError: Your move: a reasoning budget in tokens, or stop texts, which this format does not support.
        """
        super().__init__(ResponsesFormat(options), http)
