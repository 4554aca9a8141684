"""What goes out over the web and what comes back, as values. Pure."""

from collections.abc import Mapping

from attrs import field, frozen


class FetchFailed(Exception):
    """Nothing was fetched. The text is a sentence that says why and what to do, for a model or a person."""


class PageGone(FetchFailed):
    """The server answered that there is no such page: 404 or 410."""


@frozen(kw_only=True)
class Fetched:
    """What came.

    Attributes:
        url: Where it stands, after all redirects.
        media_type: As the server says, such as `text/html`, in small letters; empty where it says nothing.
        charset: As the server says; empty where it says nothing.
    """

    url: str
    media_type: str
    charset: str
    content: bytes = field(repr=False)


@frozen(kw_only=True)
class WebRequest:
    """One request to a service, which no redirect leads elsewhere.

    Attributes:
        method: Of HTTP.
        url: Where to.
        headers: Beside our own; they may hold a key.
        content: The body.
    """

    method: str = "GET"
    url: str
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    content: bytes = field(default=b"", repr=False)
