"""Web requests and answers as values. Pure."""

from collections.abc import Mapping

from attrs import field, frozen


class FetchFailed(Exception):
    """Nothing was fetched. The text is a sentence with the reason and the remedy, for a model or a user."""


class PageGone(FetchFailed):
    """The server reported that the page does not exist: 404 or 410."""


@frozen(kw_only=True)
class Fetched:
    """A fetched document."""

    url: str
    media_type: str
    charset: str
    content: bytes = field(repr=False)


@frozen(kw_only=True)
class WebRequest:
    """One request to a service, without redirects.

    Attributes:
        headers: Headers in addition to our own. They may hold a key.
    """

    method: str = "GET"
    url: str
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    content: bytes = field(default=b"", repr=False)
