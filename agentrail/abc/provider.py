"""The port of a model: a provider turns a request into a stream of chunks. Named profiles of providers are kept here too."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from attrs import field, frozen

from agentrail.core.policy.budget import Price
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.protocol.request import Chunk, ModelRequest


@frozen(kw_only=True)
class Capabilities:
    """What a model can do and what it costs, as far as anybody knows.

    Attributes:
        context_window: Tokens; None when unknown.
        max_output_tokens: The most that it will write in one response; None when unknown.
        images: Whether it takes pictures.
        reasoning: Whether it can think aloud.
        price: The most that its tokens cost; None when unknown, and then never taken for 0.
        schemas: How it is told the shape of an answer: `native`, by a schema in the request; `tool`, by a tool whose call is the
            answer, which the provider puts in and takes out again.
    """

    context_window: int | None = None
    max_output_tokens: int | None = None
    images: bool = False
    reasoning: bool = False
    price: Price | None = None
    schemas: Literal["native", "tool"] = "native"


@runtime_checkable
class Provider(Protocol):
    """One wire format, one vendor or server. It decides nothing: no retry, no fallback, no budget."""

    name: str

    def capabilities(self, model: str) -> Capabilities:
        """Say what is known of a model, by the name that the vendor knows."""
        ...

    def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request: pure, and a join of parts that are encoded already."""
        ...

    def open_stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Open the stream of one response.

        The iterator ends after exactly one `Completed`, or raises exactly one `ProviderError`. Leaving the block, by
        whatever way, closes the connection; cancelling is never turned into an error. Nothing is retried inside, and
        no nursery or cancel scope is held across a `yield`.

        The iterator may have an attribute `pinged_at`, a time on Trio's clock or None: when the server last gave any sign
        of life. A stream that is silent but alive is reported as silent, and given up later.
        """
        ...


def model_policy_of(provider: Provider) -> ModelPolicy:
    """Say what a session is to decide by when it talks to this provider; the defaults where it says nothing.

    Not a member of the port: a provider decides nothing, and one that is written in a test should not have to say it.
    """
    policy = getattr(provider, "model_policy", None)
    return policy if isinstance(policy, ModelPolicy) else _NO_POLICY


_NO_POLICY: Final = ModelPolicy()


ResolveProfile: TypeAlias = Callable[[str], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Called with a profile's name when a request is sent, sync or async; gives options that come over the profile's."""


@frozen(kw_only=True)
class Profile:
    """What a name stands for.

    Attributes:
        name: What stands behind `registry:`.
        provider: Such as `openai-chat`.
        opts: Options of that provider. Never shown: keys are among them.
        resolve: May give more of them, when a request is sent.
    """

    name: str
    provider: str
    opts: Mapping[str, Any] = field(repr=False)
    resolve: ResolveProfile | None = field(default=None, repr=False)


class ProviderProfiles(Protocol):
    """The named profiles of a supervisor, `registry:<profile>:<model>`; see `agentrail.providers.profiles`."""

    def register(
        self,
        name: str,
        *,
        provider: str = "openai-chat",
        opts: Mapping[str, Any] | None = None,
        resolve: ResolveProfile | None = None,
    ) -> None:
        """Give a name to a provider with options."""
        ...

    def unregister(self, name: str) -> None:
        """Forget a name; the next request that asks for it fails."""
        ...

    def list(self) -> tuple[Profile, ...]:
        """Give all profiles, by name."""
        ...


ResolveProvider: TypeAlias = Callable[[str, Mapping[str, Any]], Provider]
"""Turns a model string and provider options into a provider; raises `ModelNotFound`, `Authentication`, `OptionError`."""
