"""A support desk for several tenants: three profiles, an audit that no refund goes around, and a quota for each user.

Run: agentrail serve support_desk:app --token-file tokens.toml. Read the audit: python support_desk.py audit.db.
"""

import json
import os
import sqlite3
import sys
from collections import defaultdict, deque
from collections.abc import Mapping

import trio
from agentrail import Error, Provider, SessionOptions, tool
from agentrail.gateway import Authenticate, create_app
from agentrail.host import (
    AfterToolCall,
    AgentProfile,
    Allow,
    BeforeToolCall,
    ChatRequestContext,
    HandledResponse,
    HostPlugin,
    RequestContext,
)
from agentrail.plugins import HumanApproval
from starlette.applications import Starlette

ORDERS = {17: "a kettle, 39.90 EUR", 18: "a lamp, 25.00 EUR"}


@tool(effect_class="pure")
async def find_order(number: int) -> str | Error:
    """Look up an order."""
    return ORDERS.get(number) or Error(text=f"No order {number}: ask for the number on the receipt.")


@tool
async def refund(number: int) -> str:
    """Pay an order back."""
    return f"Order {number} is paid back."


def profiles(model: str | Provider) -> list[AgentProfile]:
    """The profiles: the front desk looks up orders, billing refunds with approval, the night desk names the opening hours."""
    front = SessionOptions(model=model, system_prompt="You answer questions on orders.", tools=[find_order])
    billing = SessionOptions(
        model=model,
        system_prompt="You settle what was paid. Look an order up before you pay it back.",
        tools=[find_order, refund],
        plugins=[(HumanApproval, {"require_approval_for": ["refund"]})],
    )
    night = SessionOptions(
        model=model, system_prompt="The desk opens at eight. Take the message, promise nothing."
    )
    return [
        AgentProfile(id="front", name="Front desk", options=front, description="Questions on orders"),
        AgentProfile(
            id="billing", name="Billing", options=billing, description="Refunds, with a person's consent"
        ),
        AgentProfile(id="night", name="Night desk", options=night, description="Takes messages"),
    ]


class Audit(HostPlugin):
    """One row for each request and each call, in a file of its own. A call whose row cannot be written does not run."""

    name = "audit"
    priority = 100  # it sees a call first, and again after each rewrite, since it is fail_closed
    fail_closed = True

    def __init__(self, path: str) -> None:
        """Remember the path. `start` creates the file."""
        self._path = path

    async def start(self) -> None:
        """Create the file. A failure here keeps the host from starting."""
        await self._write(
            "create table if not exists audit (at_ms, tenant, user, session, request, what, detail)"
        )

    async def on_request_start(self, ctx: RequestContext) -> None:
        """Record the start of a request."""
        await self._note(ctx.as_dict(), "request", {"kind": ctx.kind, "profile": ctx.agent_id})

    async def on_before_tool_call(self, event: BeforeToolCall) -> Allow:
        """Record the call before it runs. An exception here denies the call."""
        await self._note(event.context.as_dict(), "call", {"tool": event.tool_name, "input": event.input})
        return Allow()

    async def on_after_tool_call(self, event: AfterToolCall) -> None:
        """Record whether it failed and its duration, but not its result."""
        told = {"tool": event.tool_name, "is_error": event.is_error, "ms": event.duration_ms}
        await self._note(event.context.as_dict(), "result", told)

    async def on_request_end(self, ctx: RequestContext) -> None:
        """Record the outcome, once per started request."""
        await self._note(ctx.as_dict(), "end", {"outcome": ctx.outcome})

    async def _note(self, ctx: Mapping[str, object], what: str, detail: Mapping[str, object]) -> None:
        whose = [ctx["tenant_id"], ctx["user_id"], ctx["session_id"], ctx["request_id"]]
        statement = "insert into audit values (unixepoch('subsec') * 1000, ?, ?, ?, ?, ?, ?)"
        await self._write(statement, *whose, what, json.dumps(detail))

    async def _write(self, statement: str, *values: object) -> None:
        """Write in a thread: a disk may be slow, and hooks share the loop with all sessions."""

        def write() -> None:
            with sqlite3.connect(self._path) as connection:
                connection.execute(statement, values)
            connection.close()

        await trio.to_thread.run_sync(write)


class Quota(HostPlugin):
    """Limits the messages of each user per period, over all profiles and routes. It counts in memory."""

    name = "quota"
    critical = True  # if it fails, no message goes past it

    def __init__(self, messages: int, seconds: float) -> None:
        """Set the limit and its period."""
        self._messages, self._seconds = messages, seconds
        self._taken: defaultdict[tuple[str, str], deque[float]] = defaultdict(deque)

    async def intercept_chat_request(self, ctx: ChatRequestContext) -> HandledResponse | None:
        """Count a message of the user. A steer or an answer belongs to a request already counted."""
        await trio.lowlevel.checkpoint()
        if ctx.kind in {"steer", "respond"}:
            return None
        now, taken = trio.current_time(), self._taken[ctx.principal.tenant_id, ctx.principal.user_id]
        while taken and taken[0] <= now - self._seconds:
            taken.popleft()
        if len(taken) < self._messages:
            taken.append(now)
            return None
        wait = int(taken[0] + self._seconds - now) + 1
        message = f"{self._messages} messages in {self._seconds:g} s are taken"
        error = {"code": "desk_quota", "message": message, "hint": f"try again in {wait} s"}
        return HandledResponse({"error": error}, status=429, headers={"retry-after": str(wait)})


def make_app(
    model: str | Provider = "demo:",
    *,
    folder: str = ".",
    auth: Authenticate | None = None,
    messages: int = 20,
    seconds: float = 3600,
) -> Starlette:
    """Put it together: sessions and audit rows are files in the folder."""
    return create_app(
        profiles=profiles(model),
        plugins=[Audit(f"{folder}/audit.db"), Quota(messages, seconds)],
        store=f"sqlite:{folder}/sessions.db",
        auth=auth,
    )


def read_audit(path: str) -> list[tuple[str, str, str, dict[str, object]]]:
    """Return user, session, action and detail of each row, in order."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("select user, session, what, detail from audit order by rowid").fetchall()
    connection.close()
    return [(user, session, what, json.loads(detail)) for user, session, what, detail in rows]


app = make_app(folder=os.environ.get("DESK_FOLDER", "."))  # opens nothing: its lifespan does

if __name__ == "__main__":
    for row in read_audit(sys.argv[1]):
        print(*row)
