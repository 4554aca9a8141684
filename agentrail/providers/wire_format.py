"""What a wire format is: `WireFormat`, a request to bytes and events to chunks. Pure; no HTTP library and no Trio enters this file.

A format says what goes out and understands what comes back. It opens nothing, waits for nothing and needs no key:
`HttpProvider` does, for all of them. What a refusal means is said by one table for all formats (`failures.py`), which the
`Vendor` of the endpoint gives its words to.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from attrs import frozen

from agentrail.core.protocol.request import Chunk, EffectId, ModelRequest
from agentrail.providers.failures import Vendor
from agentrail.providers.options import ProviderOptions
from agentrail.providers.response_builder import ResponseBuilder


class Reader(Protocol):
    """Understands one response: fed with each event, closed when there are no more.

    Attributes:
        draft: What it has made of the response so far.
        ignored_events: How many events came after the terminal, or said nothing that is known to it.
    """

    draft: ResponseBuilder
    ignored_events: int

    def feed(self, data: str) -> list[Chunk]:
        """Understand the data of one event; after the terminal chunk nothing comes any more."""
        ...

    def close(self) -> list[Chunk]:
        """Say what the end of the stream means: nothing more, a last chunk, or `Transport`."""
        ...


class MakeReader(Protocol):
    """Makes the reader of a response; the class of a reader is one."""

    def __call__(self, *, model: str, attempt: EffectId, vendor: Vendor, request_bytes: int) -> Reader:
        """Begin a response.

        Args:
            model: The whole model string of the request.
            attempt: The request's id.
            vendor: Who answers, for error texts; the key of this request is among its secrets.
            request_bytes: The size of the request's body, for an estimate where no usage is reported.
        """
        ...


@frozen(kw_only=True)
class Endpoint:
    """Where the requests of a provider go, and what is the same for all of them.

    Attributes:
        base_url: The address as it was given, or the vendor's own; who bills is known by it.
        url: Where requests go, or what their addresses begin with.
        vendor: Who answers there; the key comes with each request.
        key_header: The header that the key stands in.
        key_prefix: What stands in front of it there.
        key_missing: What to say when there is no key; None where none is needed.
        headers: Besides.
        max_output_tokens: The bound of an answer for which none is set; None where the format does without.
        without_schemas: What the names of models begin with that take no schema of an answer.
    """

    base_url: str
    url: str
    vendor: Vendor
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    key_missing: str | None
    headers: Mapping[str, str] = MappingProxyType({})
    max_output_tokens: int | None = None
    without_schemas: tuple[str, ...] = ()


class WireFormat(Protocol):
    """The pure half of a provider.

    Attributes:
        name: Of the provider, as it stands in a model string.
        options: What it was told.
        endpoint: Where its requests go.
        make_reader: Makes what understands a response.
        encodings: How many messages were encoded so far: in a session one per new message, whatever its length.
    """

    name: str
    options: ProviderOptions
    endpoint: Endpoint
    make_reader: MakeReader
    encodings: int

    def url_of(self, model_name: str) -> str:
        """Give the address of a request.

        Args:
            model_name: As the vendor names it.
        """
        ...

    def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request: a join of parts, of which only those of new messages are encoded now."""
        ...
