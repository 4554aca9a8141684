"""High tides for an agent: a tool that returns them, and a plugin that keeps the agent off the beach."""

import agentrail
import attrs
from agentrail import plugins as p

HIGH = {"lisbon": "03:12", "porto": "02:58"}


@agentrail.tool(effect_class="pure")
async def high_tide(port: str) -> str:
    """Say when the tide is high today."""
    return HIGH[port.lower()]


@attrs.frozen
class Asked:
    """State of the plugin: the requested ports."""

    ports: tuple[str, ...] = ()


class KnownPorts(p.Plugin[Asked]):
    """Blocks calls for unknown ports, and remembers the others."""

    priority = 50

    def init(self) -> Asked:
        """Start without ports."""
        return Asked()

    @p.on(p.BeforeTool)
    def check(self, event: p.BeforeTool, state: Asked, ctx: p.Context) -> p.Action[Asked]:
        """Look at the port."""
        port = str(event.arguments.get("port", "")).lower()
        if event.name == "high_tide" and port not in HIGH:
            return p.BlockTool(
                f"no tides are known for {port!r}: ask for one of {', '.join(sorted(HIGH))}", state
            )
        return p.Continue(Asked((*state.ports, port)))
