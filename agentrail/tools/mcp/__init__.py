"""MCP servers as sources of tools. The library `mcp`, the extra of that name, is imported when a server is connected.

async with agentrail.open_supervisor(mcp=[McpServer("files", command=["mcp-files", "."])]) as supervisor:
    session = await supervisor.start_session(model="demo:")
"""

from agentrail.tools.mcp.server_options import McpServer, OAuthClient

__all__ = ["McpServer", "OAuthClient"]
