"""How often a server that changes its tools is listed."""

import trio
from attrs import Factory, define

from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.source import LISTINGS_SECONDS, MAX_LISTINGS, McpSource
from tests.runtime.rig import on_virtual_time


@define
class Restless:
    """A connection whose server has changed its tools whenever it is looked at."""

    listed_at: list[float] = Factory(list)

    @property
    def changed(self):
        event = trio.Event()
        event.set()
        return event

    @changed.setter
    def changed(self, _event):
        """Have changed again at once."""

    def offers(self, _name):
        return True

    async def list_tools(self):
        self.listed_at.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        return [{"name": f"t{len(self.listed_at)}", "inputSchema": {}}]

    async def list_prompts(self):
        await trio.lowlevel.checkpoint()
        return []


@on_virtual_time
async def test_a_change_every_millisecond_is_at_most_20_listings_a_minute():
    """11.13: in whichever minute, and the last change is listed."""
    connection = Restless()
    source = McpSource(McpServer("s", command=["s"]), open_process=None)
    with trio.move_on_after(3 * LISTINGS_SECONDS + 1):
        await source._list_changes(connection)  # noqa: SLF001 - a server as fast would take real minutes
    at = connection.listed_at
    assert len(at) > 3 * MAX_LISTINGS - 3
    waits = [later - first for first, later in zip(at, at[MAX_LISTINGS:], strict=False)]
    assert min(waits) > LISTINGS_SECONDS - 0.001
    assert [one.listed.remote_name for one in source.tools if not one.listed.is_ours] == [f"t{len(at)}"]
