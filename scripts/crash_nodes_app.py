"""The application of `make crash-nodes`: a model that does what its message says, and tools that write each run into a ledger outside.

Its settings come from the environment, see `scripts.crash_nodes_cluster`.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from agentrail import ToolContext, tool
from agentrail.abc.store import Store
from agentrail.core.protocol.request import ModelRequest
from agentrail.gateway.app import create_app
from agentrail.host import AgentProfile, Limits, Principal, Webhooks
from agentrail.messages import Text, ToolMessage, UserMessage
from agentrail.runtime.session_options import SessionOptions
from agentrail.testing.models import FunctionModel, Turn, calls, says
from benchmarks.gateway_soak.account import names_in
from scripts.crash_nodes_history import RUN, TENANT, TOOLS, USER_PREFIX, LedgerLine

SECRET: Final = "whsec_" + "bm9kZXMtdGhhdC1hcmUta2lsbGVkLW9mdGVu"  # of a receiver on this machine

_MAX_SECONDS: Final = 20.0


def _write(ctx: ToolContext[Any], name: str) -> None:
    session, epoch = ctx.fence
    line = LedgerLine(
        node=os.environ["CRASH_NODE"],
        session=session,
        epoch=epoch,
        operation=ctx.operation_id,
        tool=name,
        at_ms=int(time.time() * 1000),
    )
    ledger = os.open(os.environ["CRASH_LEDGER"], os.O_WRONLY | os.O_APPEND)
    os.write(ledger, msgspec.json.encode(line) + b"\n")
    os.close(ledger)


def _duration(seconds: float, ctx: ToolContext[Any]) -> float:
    """Return the duration of a run. Those of a tool that runs again are short."""
    return min(seconds, _MAX_SECONDS) / ctx.attempt**3


@tool(effect_class="once")
async def charge(seconds: float, ctx: ToolContext) -> str:
    """Charge, which must not happen twice, with a process that takes its time."""
    _write(ctx, "charge")
    run = {RUN: os.environ[RUN]}  # by which one that was left behind is found
    process = await ctx.open_process(["sleep", f"{_duration(seconds, ctx):g}"], env=run)
    await process.wait()
    return "charged"


@tool(effect_class="idempotent")
async def store_note(seconds: float, ctx: ToolContext) -> str:
    """Store a note."""
    _write(ctx, "store_note")
    await trio.sleep(_duration(seconds, ctx))
    return "stored"


@tool(effect_class="pure")
async def look(seconds: float, ctx: ToolContext) -> str:
    """Look."""
    _write(ctx, "look")
    await trio.sleep(_duration(seconds, ctx))
    return "seen"


def _answer(request: ModelRequest) -> Turn:
    """Call the tool that the last message names, for the seconds that it names; then repeat the message's own name."""
    said = next(one for one in reversed(request.messages) if isinstance(one, UserMessage))
    text = " ".join(block.text for block in said.content if isinstance(block, Text))
    name, _, seconds = text.partition(" ")[2].partition(" ")
    if name in TOOLS and not isinstance(request.messages[-1], ToolMessage):
        return calls((name, {"seconds": float(seconds)}))
    return says(
        "re ", *names_in(text), " and", " more", pause_seconds=float(seconds) / 5 if name == "speak" else 0.01
    )


def authenticate(headers: Mapping[str, str]) -> Principal | None:
    """Return the user whose name is the token."""
    token = headers.get("authorization", "").removeprefix("Bearer ")
    return Principal(tenant_id=TENANT, user_id=token) if token.startswith(USER_PREFIX) else None


def make_app(store: str | Store) -> Any:
    """Create the application over a store."""
    many = 10**6
    hooks = os.environ["CRASH_WEBHOOK"]
    profile = AgentProfile(
        id="desk",
        name="Desk",
        options=SessionOptions(
            model=FunctionModel(_answer),
            tools=[charge, store_note, look],
            sandbox="local",
            working_dir=os.environ["CRASH_FILES"],
        ),
    )
    return create_app(
        profiles=[profile],
        auth=authenticate,
        limits=Limits(messages_per_minute=many, messages_burst=many, calls_per_minute=many, calls_burst=many),
        store=store,
        advertise=os.environ["CRASH_ADVERTISE"],
        lease=float(os.environ["CRASH_LEASE"]),
        data_dir=Path(os.environ["CRASH_DATA"]),
        webhooks=Webhooks(secret=SECRET, allow=[hooks], url=hooks) if hooks else None,
        files_are_shared=True,
        environ={},
        shell_fallback="unconfined",
        idle_after=5.0,
        heartbeat=2.0,
        drain_timeout=2.0,
    )


app = make_app(os.environ["CRASH_STORE"])
