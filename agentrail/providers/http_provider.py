"""The provider that carries out a wire format over HTTP: `HttpProvider`. No format enters this file.

`HttpProvider(ChatFormat(options), http)` is a provider; `OpenAIChat(options, http)` is the same under the name of its vendor.
"""

import datetime
import inspect
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from attrs import evolve

from agentrail import outside
from agentrail.abc import Capabilities, Secret
from agentrail.abc.held_secrets import keys_in
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.protocol.request import Chunk, ModelRequest
from agentrail.errors import Authentication
from agentrail.errors.advice import with_advice
from agentrail.logs import Logger
from agentrail.providers.answer_tool import AnswerChunks, with_answer_tool
from agentrail.providers.failures import (
    Vendor,
    advise_about_foreign_key,
    owner_of_foreign_key,
    scrubbed,
)
from agentrail.providers.http import HttpClients
from agentrail.providers.json_text import shown
from agentrail.providers.options import ProviderOptions
from agentrail.providers.prices import PriceList
from agentrail.providers.streaming import make_post, open_chunks
from agentrail.providers.wire_format import WireFormat

LOGGER: Final = Logger("agentrail.providers")


class HttpProvider:
    """A provider for any vendor who is asked by a POST of JSON and answers with server-sent events."""

    def __init__(self, wire: WireFormat, http: HttpClients) -> None:
        """Take the format and the supervisor's clients; nothing is opened."""
        self.name: str = wire.name
        self.model_policy: ModelPolicy = wire.options.model_policy
        self._wire = wire
        self._http = http
        self._last_key: str | None = None
        self._prices = PriceList.of(wire.options, wire.endpoint.base_url)

    def __repr__(self) -> str:
        """Show where the requests go."""
        return f"{type(self).__name__}({self._wire.endpoint.url!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What its requests carry and no record may show: the key of the last one, and what else lets one in."""
        options = self._wire.options
        given = {"api_key": options.api_key, "headers": options.headers, "base_url": options.base_url}
        last = () if self._last_key is None else (self._last_key,)
        return (*last, *[secret.reveal() for secret in keys_in(given)])

    @property
    def encodings(self) -> int:
        """How many messages were encoded so far: in a session one per new message, whatever its length."""
        return self._wire.encodings

    def capabilities(self, model: str) -> Capabilities:
        """Say what is known of a model; of one behind an address of one's own nothing is certain."""
        bound = self._wire.options.max_output_tokens or self._wire.endpoint.max_output_tokens
        known = self._prices.capabilities(model, max_output_tokens=bound)
        return evolve(known, schemas="tool") if self._needs_tool(model) else known

    def _needs_tool(self, model: str) -> bool:
        chosen = self._wire.options.structured
        return chosen == "tool" or (chosen is None and model.startswith(self._wire.endpoint.without_schemas))

    def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request: a join of parts, of which only those of new messages are encoded now."""
        return self._wire.encode(request)

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Open the stream of one response: the body is made, the key asked for, the request sent, and its cost known.

        See `agentrail.abc.Provider.open_stream`.

        Raises:
            Authentication: Your move: there is no key, or it is one of another vendor.
            ProviderError: On entering or while iterating, once.

        Cancellation: Leaving the block, by whatever way, closes the connection.
        """
        wire, options, endpoint = self._wire, self._wire.options, self._wire.endpoint
        answer_tool = None
        if request.response_format is not None and self._needs_tool(request.model_name):
            request, answer_tool = with_answer_tool(request)
        body = wire.encode(request)
        key = await current_key(options, missing=endpoint.key_missing)
        self._last_key = key
        vendor = evolve(endpoint.vendor, secrets=(key,) if key else ())
        refuse_foreign_key(vendor)
        asking = {endpoint.key_header: f"{endpoint.key_prefix}{key}"} if key else {}
        post = make_post(
            options,
            url=wire.url_of(request.model_name),
            headers={**endpoint.headers, **asking},
            body=body,
            vendor=vendor,
        )
        reader = wire.make_reader(
            model=request.model, attempt=request.attempt, vendor=vendor, request_bytes=len(body)
        )
        cost = self._prices.meter(
            request.model_name, at=datetime.datetime.fromtimestamp(outside.wall(), datetime.UTC)
        )
        try:
            async with open_chunks(
                self._http, post, reader, within_seconds=options.timeout, cost=cost
            ) as chunks:
                yield chunks if answer_tool is None else AnswerChunks(chunks, answer_tool)
        finally:
            self._http.note_ignored(reader.ignored_events)
            if reader.draft.strange_counts:
                _warn_of_counts(request.model, reader.draft.strange_counts, vendor)


def refuse_foreign_key(vendor: Vendor) -> None:
    """Keep the key of one vendor from another: it would be refused there, and they would have read it.

    Raises:
        Authentication: Your move: it begins like the keys of another vendor. Only where the vendor itself is asked.
    """
    owner = owner_of_foreign_key(vendor, sure=True)
    if owner is not None:
        said = f"{vendor.name} was not asked, because the key is for another vendor"
        raise Authentication(with_advice(said, advise_about_foreign_key(vendor, owner)))


async def current_key(options: ProviderOptions, *, missing: str | None) -> str | None:
    """Return the key for a request, asking the function where it is one.

    Args:
        options: With the key, or without.
        missing: The message when there is none; None where none is needed.

    Raises:
        Authentication: Your move: there is no key, or the function returned none that could be sent.
    """
    source = options.api_key
    key = source() if callable(source) else source
    if inspect.isawaitable(key):
        key = await key
    if key is None:
        if missing is not None:
            raise Authentication(missing)
        return None
    tidy = (key.reveal() if isinstance(key, Secret) else str(key)).strip()
    if not (tidy and tidy.isascii() and tidy.isprintable()):
        message = "the function in 'api_key' returned no key that a header can carry: expected a printable ASCII text"
        raise Authentication(message)
    return tidy


def _warn_of_counts(model: str, counts: Mapping[str, object], vendor: Vendor) -> None:
    said = {name: scrubbed(shown(f"{value!r:.1000}"), vendor.secrets)[:40] for name, value in counts.items()}
    LOGGER.warning(
        "the provider reports token counts that cannot be: they are left out, and the usage is marked as estimated",
        model=model,
        counts=said,
    )
