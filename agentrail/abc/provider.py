"""The port of a model: a provider turns a request into a stream of chunks."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from attrs import field, frozen

from agentrail.core.policy.budget import Price
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.protocol.request import Chunk, ModelRequest


@frozen(kw_only=True)
class Capabilities:
    """Known capabilities and prices of a model.

    Attributes:
        context_window: Size in tokens, or None if unknown.
        max_output_tokens: Maximum length of one response, in tokens, or None if unknown.
        images: Whether it accepts images.
        reasoning: Whether it can emit thinking text.
        price: Highest price of its tokens, or None if unknown, never counted as 0.
        schemas: How an answer's shape is requested: `native` by a schema in the request, or `tool` by a tool call. The provider adds and removes that tool.
    """

    context_window: int | None = None
    max_output_tokens: int | None = None
    images: bool = False
    reasoning: bool = False
    price: Price | None = None
    schemas: Literal["native", "tool"] = "native"


@runtime_checkable
class Provider(Protocol):
    """One wire format of one vendor or server. Makes no decisions: no retry, fallback or budget."""

    name: str

    def capabilities(self, model: str) -> Capabilities:
        """Return the capabilities of a model, by the vendor's name."""
        ...

    def encode(self, request: ModelRequest) -> bytes:
        """Encode a request's body. Pure: joins parts already encoded."""
        ...

    def open_stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Open the stream of one response.

        The iterator ends after exactly one `Completed`, or raises exactly one `ProviderError`. Leaving the block closes the connection. Never retries, and
        holds no nursery or cancel scope across a `yield`.

        Optional attribute `pinged_at`: the server's last sign of life on Trio's clock, or None. A silent stream with recent pings is given up later.

        Cancellation: Closes the connection, and is never turned into an error.
        """
        ...


def model_policy_of(provider: Provider) -> ModelPolicy:
    """Return a provider's model policy, or the defaults."""
    policy = getattr(provider, "model_policy", None)
    return policy if isinstance(policy, ModelPolicy) else _NO_POLICY


_NO_POLICY: Final = ModelPolicy()


ResolveProfile: TypeAlias = Callable[[str], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Called with a profile's name for each request, sync or async. The returned options override the profile's."""


@frozen(kw_only=True)
class Profile:
    """A named provider with options.

    Attributes:
        name: The part after `registry:` in a model string.
        provider: Name of the provider, such as `openai-chat`.
        opts: Options of that provider. Contain keys, so never shown.
        resolve: Returns further options for each request, or None.
    """

    name: str
    provider: str
    opts: Mapping[str, Any] = field(repr=False)
    resolve: ResolveProfile | None = field(default=None, repr=False)


class ProviderProfiles(Protocol):
    """The named profiles of a supervisor, `registry:<profile>:<model>`."""

    def register(
        self,
        name: str,
        *,
        provider: str = "openai-chat",
        opts: Mapping[str, Any] | None = None,
        resolve: ResolveProfile | None = None,
    ) -> None:
        """Register a name for a provider with options."""
        ...

    def unregister(self, name: str) -> None:
        """Remove a name. The next request with it fails."""
        ...

    def list(self) -> tuple[Profile, ...]:
        """Return all profiles, sorted by name."""
        ...


ResolveProvider: TypeAlias = Callable[[str, Mapping[str, Any]], Provider]
"""Returns the provider for a model string and provider options. Raises `ModelNotFound`, `Authentication`, `OptionError`."""
