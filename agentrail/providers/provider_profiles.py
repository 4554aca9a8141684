"""Named profiles: `registry:<profile>:<model>` names a provider with options, looked up for each request."""

import inspect
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import trio
from attrs import define, evolve, field

from agentrail.abc import Capabilities, Profile, Provider, ResolveProfile, model_policy_of
from agentrail.abc.held_secrets import secrets_held_by
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.protocol.request import Chunk, ModelRequest
from agentrail.errors import AgentrailError, Authentication, BadRequest, ModelNotFound, OptionError
from agentrail.frozen import frozen_json

KEPT_SECONDS: Final = 60.0
"""Cache time for the result of a profile's `resolve`, in seconds."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")  # no colon, which separates the model

MakeProvider: TypeAlias = Callable[[str, Mapping[str, Any]], Provider]


@define(eq=False)
class _Entry:
    profile: Profile
    resolved: Mapping[str, Any] | None = None
    fresh_until: float = 0.0  # on Trio's clock
    # One call at a time: a hundred sessions that wake together should not decrypt the same key a hundred times.
    lock: trio.Lock = field(factory=trio.Lock)


class Profiles:
    def __init__(self, make_provider: MakeProvider) -> None:
        self._make_provider = make_provider
        self._entries: dict[str, _Entry] = {}

    def __repr__(self) -> str:
        return f"Profiles({sorted(self._entries)})"

    def register(
        self,
        name: str,
        *,
        provider: str = "openai-chat",
        opts: Mapping[str, Any] | None = None,
        resolve: ResolveProfile | None = None,
    ) -> None:
        """Register a name for a provider with options. A name that is already registered is replaced."""
        if not _NAME.fullmatch(name):
            message = f"profile {name!r}: expected a name of 1 to 64 of A-Z a-z 0-9 . _ -"
            raise OptionError([message])
        profile = Profile(name=name, provider=provider, opts=opts or {}, resolve=resolve)
        self._make(profile, "any-model", {})  # raises for invalid options now, not at the first request
        self._entries[name] = _Entry(evolve(profile, opts=frozen_json(profile.opts)))

    def unregister(self, name: str) -> None:
        self._entry(name)
        del self._entries[name]

    def list(self) -> tuple[Profile, ...]:
        return tuple(self._entries[name].profile for name in sorted(self._entries))

    def provider_for(self, model: str, opts: Mapping[str, Any]) -> "ProfiledProvider":
        name, _, rest = model.partition(":")[2].partition(":")
        entry = self._entry(name)
        if not rest:
            message = f"{model!r:.200} lacks a model; append one to the profile, such as 'registry:{name}:some-model'"
            raise ModelNotFound(message)
        self._make(entry.profile, rest, opts)
        return ProfiledProvider(self, name, rest, opts)

    def known(self, name: str, model: str, opts: Mapping[str, Any]) -> Provider:
        """Return a provider without calling `resolve`: usable for everything but sending."""
        entry = self._entry(name)
        return self._make(entry.profile, model, {**(entry.resolved or {}), **opts})

    async def resolved(self, name: str, model: str, opts: Mapping[str, Any]) -> Provider:
        """Return the provider for one request.

        Cancellation: Propagates from `resolve`. Nothing is cached.
        """
        entry = self._entry(name)
        profile = entry.profile
        found = await _resolved(entry, profile.resolve) if profile.resolve is not None else {}
        try:
            return self._make_provider(f"{profile.provider}:{model}", {**profile.opts, **found, **opts})
        except OptionError as error:  # a request cannot raise this: the session checks its own options
            message = f"resolve of profile {name!r} returned options that do not fit: {error}"
            raise BadRequest(message) from None

    def _make(self, profile: Profile, model: str, opts: Mapping[str, Any]) -> Provider:
        # `resolve` may supply the key, so a key source that never returns one is enough here.
        key = {} if profile.resolve is None else {"api_key": _no_key_yet}
        return self._make_provider(f"{profile.provider}:{model}", {**key, **profile.opts, **opts})

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            known = ", ".join(sorted(self._entries)) or "none"
            message = f"there is no profile {name!r:.200}; registered: {known}. Add one with supervisor.providers.register"
            raise ModelNotFound(message)
        return entry


class ProfiledProvider:
    """The provider `registry`: uses the provider of its profile at the time of each request."""

    name = "registry"

    def __init__(self, profiles: Profiles, profile: str, model: str, opts: Mapping[str, Any]) -> None:
        self._profiles = profiles
        self._profile = profile
        self._model = model
        self._opts = opts
        self._last: Provider | None = None

    def __repr__(self) -> str:
        """Return the names, never the options."""
        return f"ProfiledProvider('registry:{self._profile}:{self._model}')"

    @property
    def model_policy(self) -> ModelPolicy:
        return model_policy_of(self._known())

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets of the last request's provider. Before the first request, those known without `resolve`."""
        try:
            return secrets_held_by(self._last or self._known())
        except AgentrailError:
            # The profile was removed, or its options are no longer valid: the next request reports it.
            return ()

    def capabilities(self, model: str) -> Capabilities:
        """Return the capabilities of a model, given with or without the profile prefix."""
        return self._known().capabilities(model.removeprefix(f"{self._profile}:"))

    def encode(self, request: ModelRequest) -> bytes:
        return self._known().encode(request)

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
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
    message = (
        "the key of a profile comes with each request; this provider is for inspection only and cannot send"
    )
    raise Authentication(message)
