"""Digests of the tools of MCP servers, as first seen or accepted, in a file of the project.

A server may change what its tools say of themselves after a user has looked at them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import attrs
import msgspec

from agentrail.errors import OptionError
from agentrail.file_systems import read_regular
from agentrail.private_paths import changing_files_of, write_private
from agentrail.structs import converter_of
from agentrail.tools.mcp.server_options import McpServer
from agentrail.tools.mcp.tool_listing import ListedTool, ServerTools

PINS_FILE: Final = "mcp_pins.json"
MAX_PINS_BYTES: Final = 64 << 20
_VERSION: Final = 1


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a tool.

    Attributes:
        digest: SHA-256 of its name, description, schema and hints.
    """

    digest: str
    description: str


Pins = Mapping[str, Pin]
"""By the server's tool names."""


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: Literal[1]
    servers: dict[str, Pins]


_TO_FILE: Final = converter_of(_File)


def decide_pins(server: McpServer, listing: ServerTools, known: Pins) -> tuple[ServerTools, Pins]:
    """Return the tools that may be used, and the pins after that. Pure."""
    pins = dict(known)
    faults: list[str] = []
    tools: dict[str, ListedTool] = {}
    for name, tool in listing.tools.items():
        pin = known.get(tool.remote_name)
        is_changed = pin is not None and pin.digest != tool.digest and not tool.is_ours
        if is_changed and server.pin == "refuse":
            said = f"{tool.remote_name!r} has changed and is hidden: agentrail mcp accept {server.name} shows how"
            faults.append(said)
            continue
        if is_changed and server.pin == "warn":
            faults.append(f"{tool.remote_name!r} has changed since it was first used")
        tools[name] = tool
        if not tool.is_ours:
            pins[tool.remote_name] = Pin(digest=tool.digest, description=tool.description)
    return attrs.evolve(listing, tools=tools, faults=(*listing.faults, *faults)), pins


def check_pins(server: McpServer, listing: ServerTools) -> ServerTools:
    """Hold a list against the server's file, and write what is new. Blocks.

    Raises:
        OptionError: The file cannot be read or written.
    """
    if server.pins is None or server.pin == "off":
        return listing
    path, known = Path(server.pins), pins_of(server)
    judged, pins = decide_pins(server, listing, known)
    if pins != known:
        try:
            with changing_files_of(path.parent):
                kept = _read(path)  # again: others have had their turn
                judged, pins = decide_pins(server, listing, kept.get(server.name, {}))
                _write(path, {**kept, server.name: pins})
        except OSError as error:
            raise OptionError([f"{path} cannot be written: {error.strerror}"]) from None
    return judged


def pins_of(server: McpServer) -> Pins:
    """Return the pins of a server. Blocks."""
    return {} if server.pins is None else _read(Path(server.pins)).get(server.name, {})


def _read(path: Path) -> dict[str, Pins]:
    try:
        return _TO_FILE(json.loads(read_regular(path, MAX_PINS_BYTES))).servers
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise OptionError([f"{path} cannot be read: {error.strerror}"]) from None
    except (ValueError, RecursionError):
        raise OptionError([f"{path} does not hold pins of version {_VERSION}: move it away"]) from None


def _write(path: Path, kept: Mapping[str, Pins]) -> None:
    file = _File(version=_VERSION, servers={name: dict(sorted(pins.items())) for name, pins in kept.items()})
    data = (json.dumps(msgspec.to_builtins(file), indent=2) + "\n").encode()
    if len(data) > MAX_PINS_BYTES:  # it could not be read again, and all servers would be without their tools
        raise OptionError(
            [f"{path} would have more than {MAX_PINS_BYTES >> 20} MiB: it cannot hold these tools"]
        )
    write_private(path, data)
