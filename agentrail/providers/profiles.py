"""Named profiles: `registry:<profile>:<model>` stands for a provider with options, looked up when a request is sent.

So a session, its events and its journal hold a name and never what it stands for. Nothing here is written anywhere, and
the environment has no say: the key that it holds is for another server.
"""

import inspect
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import trio
from attrs import define, field

from agentrail.abc import Capabilities, Profile, Provider, ResolveProfile, model_policy_of
from agentrail.abc.held_secrets import secrets_held_by
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.protocol.request import Chunk, ModelRequest
from agentrail.errors import AgentrailError, Authentication, BadRequest, ModelNotFound, OptionError

KEPT_SECONDS: Final = 60.0
"""How long the answer of a profile's `resolve` is used again."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")  # no colon: behind it stands the model

MakeProvider: TypeAlias = Callable[[str, Mapping[str, Any]], Provider]


@define(eq=False)
class _Entry:
    profile: Profile
    resolved: Mapping[str, Any] | None = None
    fresh_until: float = 0.0  # on Trio's clock
    # One at a time: a hundred sessions that wake up together should not decrypt the same key a hundred times.
    lock: trio.Lock = field(factory=trio.Lock)


class Profiles:
    """The named profiles of one supervisor."""

    def __init__(self, make_provider: MakeProvider) -> None:
        """Take what turns a model string and options into a provider."""
        self._make_provider = make_provider
        self._entries: dict[str, _Entry] = {}

    def __repr__(self) -> str:
        """Show the names."""
        return f"Profiles({sorted(self._entries)})"

    def register(
        self,
        name: str,
        *,
        provider: str = "openai-chat",
        opts: Mapping[str, Any] | None = None,
        resolve: ResolveProfile | None = None,
    ) -> None:
        """Give a name to a provider with options; a name that is taken stands for the new one from now on."""
        if not _NAME.fullmatch(name):
            message = f"profile {name!r}: expected a name of 1 to 64 of A-Z a-z 0-9 . _ -"
            raise OptionError([message])
        profile = Profile(
            name=name, provider=provider, opts=MappingProxyType(dict(opts or {})), resolve=resolve
        )
        self._make(profile, "any-model", {})  # what is wrong with it is said here, not at the first request
        self._entries[name] = _Entry(profile)

    def unregister(self, name: str) -> None:
        """Forget a name; the next request that asks for it fails."""
        self._entry(name)
        del self._entries[name]

    def list(self) -> tuple[Profile, ...]:
        """Give all profiles, by name."""
        return tuple(self._entries[name].profile for name in sorted(self._entries))

    def provider_for(self, model: str, opts: Mapping[str, Any]) -> "ProfiledProvider":
        """Make the provider of `registry:<profile>:<model>`."""
        name, _, rest = model.partition(":")[2].partition(":")
        entry = self._entry(name)
        if not rest:
            message = f"{model!r} names no model: write one behind the profile, such as 'registry:{name}:some-model'"
            raise ModelNotFound(message)
        self._make(entry.profile, rest, opts)
        return ProfiledProvider(self, name, rest, opts)

    def known(self, name: str, model: str, opts: Mapping[str, Any]) -> Provider:
        """Make a provider from what is known without asking `resolve`: good for all but sending."""
        entry = self._entry(name)
        return self._make(entry.profile, model, {**(entry.resolved or {}), **opts})

    async def resolved(self, name: str, model: str, opts: Mapping[str, Any]) -> Provider:
        """Make the provider for one request.

        Cancellation: What `resolve` makes of it; nothing is kept then.
        """
        entry = self._entry(name)
        profile = entry.profile
        found = await _resolved(entry, profile.resolve) if profile.resolve is not None else {}
        try:
            return self._make_provider(f"{profile.provider}:{model}", {**profile.opts, **found, **opts})
        except OptionError as error:  # the session checked its own: a request cannot raise it any more
            message = f"resolve of profile {name!r} returned options that do not fit: {error}"
            raise BadRequest(message) from None

    def _make(self, profile: Profile, model: str, opts: Mapping[str, Any]) -> Provider:
        # The key may come with `resolve`, so until then a source of one that never gives it is enough.
        key = {} if profile.resolve is None else {"api_key": _no_key_yet}
        return self._make_provider(f"{profile.provider}:{model}", {**key, **profile.opts, **opts})

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            known = ", ".join(sorted(self._entries)) or "none"
            message = f"there is no profile {name!r}; registered are: {known}. Add one with supervisor.providers.register"
            raise ModelNotFound(message)
        return entry


class ProfiledProvider:
    """The provider `registry`: for each request the one that its profile stands for at that moment."""

    name = "registry"

    def __init__(self, profiles: Profiles, profile: str, model: str, opts: Mapping[str, Any]) -> None:
        """Take the names, and the options of the session."""
        self._profiles = profiles
        self._profile = profile
        self._model = model
        self._opts = opts
        self._last: Provider | None = None

    def __repr__(self) -> str:
        """Show the names, and never what they stand for."""
        return f"ProfiledProvider('registry:{self._profile}:{self._model}')"

    @property
    def model_policy(self) -> ModelPolicy:
        """What a session is to decide by, as the profile says now."""
        return model_policy_of(self._known())

    @property
    def secrets(self) -> tuple[str, ...]:
        """What the provider of the last request holds, as its `secrets` say; before the first one what is known by now."""
        try:
            return secrets_held_by(self._last or self._known())
        except AgentrailError:
            # The profile is gone, or its options fit no more: that is told by the next request.
            return ()

    def capabilities(self, model: str) -> Capabilities:
        """Say what the provider behind the name knows of a model, with or without the profile in front of it."""
        return self._known().capabilities(model.removeprefix(f"{self._profile}:"))

    def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request as the provider behind the name would."""
        return self._known().encode(request)

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Open the stream of one response; see `agentrail.abc.Provider.open_stream`."""
        provider = await self._profiles.resolved(self._profile, self._model, self._opts)
        self._last = provider
        async with provider.open_stream(request) as chunks:
            yield chunks

    def _known(self) -> Provider:
        return self._profiles.known(self._profile, self._model, self._opts)


async def _resolved(entry: _Entry, resolve: ResolveProfile) -> Mapping[str, Any]:
    name = entry.profile.name
    async with entry.lock:
        if entry.resolved is None or trio.current_time() >= entry.fresh_until:
            answer = resolve(name)
            found: object = await answer if inspect.isawaitable(answer) else answer
            if not isinstance(found, Mapping):
                message = f"resolve of profile {name!r} returned {type(found).__name__}: expected a mapping of options"
                raise BadRequest(message)
            entry.resolved, entry.fresh_until = found, trio.current_time() + KEPT_SECONDS
        return entry.resolved


def _no_key_yet() -> str:
    message = "the key of a profile comes with the request; this provider was made to look at, not to send"
    raise Authentication(message)
