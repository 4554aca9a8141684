"""Hosts for tests: one profile over a scripted model, two users, and a plugin that writes down what it hears of requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from msgspec.structs import replace

from agentrail.host import (
    AgentProfile,
    ChatRequest,
    Host,
    HostPlugin,
    HostRequest,
    Principal,
    RequestContext,
    open_host,
)
from agentrail.runtime.session_options import SessionOptions
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, says

ANN = Principal(tenant_id="acme", user_id="ann")
BOB = Principal(tenant_id="acme", user_id="bob")
EVE = Principal(tenant_id="else", user_id="eve")


def say(message: str = "Hi", by: Principal = ANN, **given: Any) -> ChatRequest:
    given.setdefault("agent_id", "")
    return ChatRequest(message=message, tenant_id=by.tenant_id, user_id=by.user_id, **given)


def profile(model: Any, name: str = "desk", **options: Any) -> AgentProfile:
    options.setdefault("sandbox", "memory")
    return AgentProfile(id=name, name=name, options=SessionOptions(model=model, **options))


def answering(*texts: str) -> ScriptedModel:
    return ScriptedModel([says(text) for text in texts])


class FullBox(MemorySandbox):
    async def upload(self, files: Any) -> Any:
        message = "the disk is full"
        raise OSError(message)


def sleeping(seconds: float) -> Any:
    """A hook, or a check, that takes so long."""

    async def sleep(*_given: Any) -> None:
        await trio.sleep(seconds)

    return sleep


class Ledger(HostPlugin):
    """Writes down what it hears of requests, and whether their sessions can be read then."""

    name = "ledger"

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str | None]] = []
        self.contexts: list[RequestContext] = []
        self.counts: list[int] = []

    async def on_request_start(self, ctx: RequestContext) -> None:
        self._note("start", ctx)

    async def on_turn_persisted(self, ctx: RequestContext) -> None:
        self._note("persisted", ctx)
        assert ctx.reader is not None
        self.counts.append(len(await ctx.reader.messages()))

    async def on_request_end(self, ctx: RequestContext) -> None:
        self._note("end", ctx)

    def _note(self, hook: str, ctx: RequestContext) -> None:
        self.heard.append((hook, ctx.kind, ctx.outcome))
        self.contexts.append(ctx)

    @property
    def ends(self) -> list[str | None]:
        """What each request came to that has ended, in this order."""
        return [outcome for hook, _, outcome in self.heard if hook == "end"]


@asynccontextmanager
async def hosting(model: Any, *plugins: HostPlugin, **options: Any) -> AsyncIterator[Host]:
    """Open a host of one profile `desk`, without a store unless one is given."""
    session = {key[8:]: options.pop(key) for key in tuple(options) if key.startswith("session_")}
    options.setdefault("store", None)
    if "profiles" not in options:
        options["profiles"] = [profile(model, **session)]
    async with open_host(plugins=plugins, **options) as host:
        yield host


async def asked(host: Host, message: str = "Hi", by: Principal = ANN, **given: Any) -> HostRequest:
    """Submit a message, which is to become a request."""
    sending = {
        name: given.pop(name)
        for name in (
            "kind",
            "when_busy",
            "on_disconnect",
            "attachments",
            "via",
            "webhook",
            "history",
            "keep",
            "goes_on",
        )
        if name in given
    }
    request = await host.submit(say(message, by, **given), by, **sending)
    assert isinstance(request, HostRequest)
    return request


def spoil(store: MemoryStore, session_id: str, scope: str = "acme") -> None:
    """Leave a beginning that only a newer version reads."""
    records = store._journals[scope, session_id].records  # noqa: SLF001 - no public way writes what is newer
    records[0] = replace(records[0], body=b'{"version":99}')
