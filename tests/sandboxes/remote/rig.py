"""A server of sandboxes on a free port of this machine, inside the Trio run of the test."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio
from attrs import define, field

from agentrail.gateway.sandboxes.app import SandboxApp
from agentrail.gateway.serving import ConnectionLimits, addresses_of, open_listeners, serve_app
from agentrail.gateway.tokens import TokenEntry, Tokens
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.sandboxes.remote.client import RemoteSandbox

TOKEN = "agt_0123456789abcdef_of_a_test"  # noqa: S105 - of a test
OTHER_TOKEN = "agt_0123456789abcdef_of_another"  # noqa: S105 - as above
HURRY = ConnectionLimits(grace_seconds=0.2, cut_seconds=0.2)


@asynccontextmanager
async def open_memory():
    """A workspace in memory, for what needs no directory."""
    yield MemorySandbox()


def tokens_of(*tokens):
    """Let in these, each as a user of its own."""
    return Tokens(
        [
            TokenEntry(digest=hashlib.sha256(one.encode()).digest(), tenant_id="acme", user_id=f"user{n}")
            for n, one in enumerate(tokens)
        ]
    )


@define(eq=False)
class Served:
    url: str
    app: SandboxApp
    stop: trio.Event
    made: list[RemoteSandbox] = field(factory=list)

    def make(self, query="", *, token=TOKEN):
        """A client of it, closed at the end at the latest."""
        self.made.append(RemoteSandbox(f"{self.url}{query}", token=token))
        return self.made[-1]

    @property
    def leases(self):
        return self.app._leases.by_id  # noqa: SLF001 - what it says of itself is what is tested


@asynccontextmanager
async def serving(open_workspace=open_memory, *, wrap=None, **options) -> AsyncIterator[Served]:
    """Serve workspaces until the end of the block; `wrap` stands in front of the application."""
    app = SandboxApp(tokens_of(TOKEN, OTHER_TOKEN), open_workspace, **options)
    listeners = await open_listeners("127.0.0.1", 0)
    ((host, port),) = addresses_of(listeners)
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        served = app if wrap is None else wrap(app)
        await nursery.start(partial(serve_app, served, listeners, stop.wait, limits=HURRY))
        running = Served(f"http://{host}:{port}", app, stop)
        try:
            yield running
        finally:
            stop.set()
            with trio.CancelScope(shield=True):
                for sandbox in running.made:
                    await sandbox.aclose()  # noqa: ASYNC102 - bounded
