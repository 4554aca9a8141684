"""Anthropic Messages over HTTP: the provider `anthropic`. What it says stands in `anthropic_request.py`."""

from agentrail.providers.anthropic_request import MessagesFormat
from agentrail.providers.http import HttpClients
from agentrail.providers.http_provider import HttpProvider
from agentrail.providers.options import ProviderOptions


class AnthropicMessages(HttpProvider):
    """The provider `anthropic`."""

    name: str = MessagesFormat.name

    def __init__(self, options: ProviderOptions, http: HttpClients) -> None:
        """Take the options and the supervisor's clients; nothing is opened."""
        super().__init__(MessagesFormat(options), http)
