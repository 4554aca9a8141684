"""Gemini over HTTP: the provider `google`. What it says stands in `gemini_request.py`."""

from agentrail.providers.gemini_request import PLACEHOLDER as PLACEHOLDER, GeminiFormat  # noqa: PLC0414 - for users
from agentrail.providers.http import HttpClients
from agentrail.providers.http_provider import HttpProvider
from agentrail.providers.options import ProviderOptions


class Gemini(HttpProvider):
    """The provider `google`."""

    name: str = GeminiFormat.name

    def __init__(self, options: ProviderOptions, http: HttpClients) -> None:
        """Take the options and the supervisor's clients; nothing is opened."""
        super().__init__(GeminiFormat(options), http)
