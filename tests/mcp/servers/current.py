"""An MCP server of the current revision, 2026-07-28, made with the library: questions as results, changes on a stream."""

import os
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.request_state import RequestStateSecurity
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

# One key for all lives of the server: what it sealed before a restart it knows again.
KEY = "a key of thirty-two bytes or more"
server = MCPServer("current", request_state_security=RequestStateSecurity(keys=[KEY]))


class Sum(BaseModel):
    """The result of `add`."""

    total: int


@server.tool(structured_output=True)
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
async def ask(ctx: Context) -> str | InputRequiredResult:
    """Ask which one, then whether to go on at an address."""
    answers = ctx.input_responses or {}
    which = answers.get("which")
    place = answers.get("place")
    if isinstance(place, ElicitResult):
        return f"{ctx.request_state} {place.action}"
    if isinstance(which, ElicitResult):
        state = f"{which.action}:{(which.content or {}).get('which')}"
        url = ElicitRequestURLParams(message="Go there.", url="https://login.example/x", elicitation_id="e1")
        return InputRequiredResult(input_requests={"place": ElicitRequest(params=url)}, request_state=state)
    schema = {"type": "object", "properties": {"which": {"type": "string"}}}
    form = ElicitRequestFormParams(message="Which?", requested_schema=schema)
    return InputRequiredResult(input_requests={"which": ElicitRequest(params=form)}, request_state="asked")


@server.tool()
async def parrot(ctx: Context) -> str | InputRequiredResult:
    """Ask the model, and for the workspace."""
    answers: Any = ctx.input_responses
    if answers:
        said, roots = answers["said"], answers["roots"]
        return f"{said.content.text} {[str(one.uri) for one in roots.roots]}"
    message = SamplingMessage(role="user", content=TextContent(text="Say a."))
    asked = CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=9))
    return InputRequiredResult(input_requests={"said": asked, "roots": ListRootsRequest()})


@server.tool()
async def pay(ctx: Context, amount: int) -> str | InputRequiredResult:
    """Ask whether to pay, and pay."""
    sure = (ctx.input_responses or {}).get("sure")
    if not isinstance(sure, ElicitResult):
        schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
        form = ElicitRequestFormParams(message=f"Pay {amount}?", requested_schema=schema)
        request = ElicitRequest(params=form)
        return InputRequiredResult(input_requests={"sure": request}, request_state=f"to pay {amount}")
    return f"{ctx.request_state}, paid {amount}: {sure.action} {(sure.content or {}).get('sure')}"


@server.tool()
def nag(ctx: Context) -> InputRequiredResult:
    """Ask without end."""
    schema = {"type": "object", "properties": {"again": {"type": "boolean"}}}
    form = ElicitRequestFormParams(message="Again?", requested_schema=schema)
    request = ElicitRequest(params=form)
    return InputRequiredResult(input_requests={"again": request}, request_state=f"{ctx.request_state}+")


@server.tool()
async def grow(ctx: Context) -> str:
    """Add four tools, one after the other."""
    for number in range(4):
        server.add_tool(lambda: "new", name=f"new{number}", description="A new one.")
        await ctx.notify_tools_changed()
    return "grown"


@server.tool()
async def forever() -> str:
    """Work until the call is cancelled."""
    try:
        Path(os.environ["CANCELLED"]).with_name("called").touch()
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        Path(os.environ["CANCELLED"]).touch()  # noqa: ASYNC240 - a moment
        raise
    return "never"


@server.tool()
def fail() -> TextContent:
    """Fail."""
    message = "no such luck"
    raise ValueError(message)


server.run("stdio")
