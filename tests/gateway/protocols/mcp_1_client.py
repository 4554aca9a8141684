"""The official client of Python in its version 1 against our server: lists, calls, and cancels a call."""

import json
import sys

import anyio
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client  # type: ignore[attr-defined]  # of version 1


async def main():
    """Print what it has seen."""
    async with (
        streamablehttp_client(sys.argv[1]) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        said = (await session.call_tool("desk", {"prompt": "Hi"})).structuredContent["text"]
        cut = "answered"
        try:
            with anyio.fail_after(0.3):
                await session.call_tool("hang", {})
        except TimeoutError:
            cut = "cancelled"
        print(json.dumps({"tools": tools, "said": said, "cut": cut}))  # noqa: T201


anyio.run(main)
