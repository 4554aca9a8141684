"""`OpenAIEmbedder`: vectors from any server with OpenAI's `/embeddings` API."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import trio

from agentrail.abc import MAX_EMBEDDED, Secret
from agentrail.errors import OptionError, ProtocolError
from agentrail.otp.guarded_calls import call_guarded, repr_of
from agentrail.providers.failures import Vendor
from agentrail.providers.http import MAX_EVENT_BYTES, HttpClients, Post
from agentrail.providers.json_text import decode_json, shown
from agentrail.providers.options import ProviderOptions

USUAL_URL: Final = "https://api.openai.com/v1"
_NUMBER_BYTES: Final = 64  # OpenAI writes each number on a line of its own, of about 30 bytes


class OpenAIEmbedder(trio.abc.AsyncResource):
    """Requests vectors over HTTP. See `Embedder` for the contract of each call. Leaving the block, or `aclose`, closes connections."""

    def __init__(  # noqa: PLR0913 - by keyword
        self,
        model: str,
        *,
        dimension: int,
        api_key: str | Secret | None = None,
        base_url: str = USUAL_URL,
        sends_dimension: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Store the settings, without sending a request.

        Args:
            model: The server's name of the model.
            dimension: Number of components of its vectors: 1,536 for `text-embedding-3-small`.
            api_key: The key, without regard to spaces around it, or None for a server without authentication.
            base_url: Address before `/embeddings`.
            sends_dimension: Whether to send the dimension, for models that can shorten their vectors.
            headers: Additional headers.

        Raises:
            OptionError: Your move: an empty name, an invalid dimension, an invalid address, or a key or a header that cannot be sent.
        """
        OptionError.raise_for([*_faults_of_embedder(model, dimension, base_url)])
        given = api_key.reveal() if isinstance(api_key, Secret) else api_key
        key = given.strip() if isinstance(given, str) else given
        # Checked as by a provider, which repeats no credential.
        ProviderOptions.parse({"api_key": key or None, "headers": headers, "base_url": base_url})
        self._model = model
        self._dimension = dimension
        self._sends_dimension = sends_dimension
        self._url = f"{base_url.strip().rstrip('/')}/embeddings"
        self._headers = {"content-type": "application/json", **(headers or {})}
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        self._vendor = Vendor(
            name="embeddings",
            key_help="give OpenAIEmbedder(api_key=…)",
            secrets=(key,) if key else (),
            base_url=base_url,
            is_compatible=base_url != USUAL_URL,
        )
        self._http = HttpClients()

    def __repr__(self) -> str:
        """Return model and address, without the key."""
        return f"OpenAIEmbedder({self._model!r}, dimension={self._dimension}, url={self._url!r})"

    @property
    def name(self) -> str:
        """Model and address: two servers may use one name for two models."""
        return f"{self._model} at {self._url}"

    @property
    def dimension(self) -> int:
        """Number of components of each vector."""
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Compute the vector of each text. See `Embedder.embed`.

        Raises:
            OptionError: Your move: no text, or more than 64.
            ProviderError: No connection, a refusal, or an invalid response.
        """
        if not 0 < len(texts) <= MAX_EMBEDDED:
            raise OptionError([f"{len(texts)} texts were given: expected 1 to {MAX_EMBEDDED}"])
        wanted: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._sends_dimension:
            wanted["dimensions"] = self._dimension
        body = json.dumps(wanted).encode()
        post = Post(url=self._url, headers=self._headers, body=body, vendor=self._vendor)
        max_bytes = MAX_EVENT_BYTES + _NUMBER_BYTES * len(texts) * self._dimension
        answer = await self._http.post_text(post, max_bytes=max_bytes)
        return _vectors_in(answer, len(texts), self._dimension)

    async def aclose(self) -> None:
        """Close connections. Idempotent."""
        await self._http.aclose()


def _vectors_in(text: str, count: int, dimension: int) -> list[list[float]]:
    """Return the vectors of a response in the order of their texts, whatever order they came in."""
    answer = decode_json(text)
    rows = answer.get("data") if isinstance(answer, Mapping) else None
    found: dict[int, list[float]] = {}
    for place, row in enumerate(rows if isinstance(rows, list) else ()):
        vector: Any = row.get("embedding") if isinstance(row, Mapping) else None
        number: Any = row.get("index", place) if isinstance(row, Mapping) else None
        is_vector = isinstance(vector, list) and len(vector) == dimension and isinstance(number, int)
        if is_vector and call_guarded(lambda _: math.inf, math.hypot, *vector) < math.inf:
            found[number] = vector
    if sorted(found) != list(range(count)):
        message = (
            f"the server gave {len(found)} vectors of {dimension} numbers for {count} texts: {shown(text)}; "
            "check that it is an embedding model, and that dimension matches it"
        )
        raise ProtocolError(message)
    return [found[number] for number in range(count)]


def _faults_of_embedder(model: Any, dimension: Any, base_url: Any) -> Iterator[str]:
    if not isinstance(model, str) or not model:
        yield f"model is {repr_of(model):.80}: expected the name of a model of embeddings"
    if type(dimension) is not int or dimension < 1:
        yield f"dimension is {repr_of(dimension):.80}: expected a whole number >= 1"
    is_address = isinstance(base_url, str) and base_url.startswith(("https://", "http://"))
    if not is_address and "@" not in str(base_url):  # otherwise it may hold a password
        yield f"base_url is {repr_of(base_url):.80}: expected https://host/path, without /embeddings"
