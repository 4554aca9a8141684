"""The tools that an MCP server lists: names, texts, schemas and digests, and the difference of two lists. Pure."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from attrs import field, frozen

from agentrail.core.values.json_schema import CompiledSchema, fault_of_schema
from agentrail.core.values.toolbox import EffectClass
from agentrail.frozen import EMPTY, TooDeep, frozen_json
from agentrail.messages import JsonObject
from agentrail.tools.mcp.server_options import McpServer

MAX_PAGES: Final = 100
MAX_TOOLS: Final = 1_000
MAX_DESCRIPTION_BYTES: Final = 4_096
MAX_TOOL_TITLE_CHARACTERS: Final = 80
MAX_NAME: Final = 64
_SHOWN: Final = 5
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
# Controls, zero-width and bidirectional characters, private ones and half pairs: a reader does not see what they change.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})


@frozen(kw_only=True)
class ListedTool:
    """A tool as its server describes it.

    Attributes:
        name: Its name in sessions, `mcp__<server>__<tool>`.
        label: Short text for users.
        digest: SHA-256 of its name, description or title in place of it, schema and hints.
        output: Schema of its structured results, or None.
        is_ours: Whether it is one of the two tools for resources, which no server lists.
        judge: Validator of that schema. None without one that can be judged: results are then taken as they are.
    """

    name: str
    remote_name: str
    label: str
    description: str
    parameters: JsonObject
    effect_class: EffectClass
    digest: str
    output: JsonObject | None = None
    is_ours: bool = False
    judge: CompiledSchema | None = field(default=None, eq=False)


@frozen(kw_only=True)
class ServerTools:
    """The usable tools of a server by name, and a sentence for each that is not."""

    tools: Mapping[str, ListedTool] = MappingProxyType({})
    faults: tuple[str, ...] = ()


@frozen(kw_only=True)
class ListingChange:
    """The difference between two lists.

    Attributes:
        attach: New and changed tools.
        detach: Names of removed tools.
        faults: Sentences about tools that are not usable, and were not reported before.
    """

    attach: tuple[ListedTool, ...] = ()
    detach: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def session_name(server: str, tool: str) -> str:
    """Return the name of a server's tool in sessions. It depends on no other tool and on no order."""
    return safe_name(f"mcp__{server}__{tool}", _OTHER)


def safe_name(full: str, other: re.Pattern[str]) -> str:
    """Replace characters by `_` and cut a long name. Such a name ends with digits of a hash."""
    safe = other.sub("_", full)
    if safe == full and 0 < len(full) <= MAX_NAME:
        return full
    digest = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe[: MAX_NAME - 9]}_{digest}"


def cleaned(text: str, max_bytes: int = MAX_DESCRIPTION_BYTES) -> str:
    """Return a text without invisible characters, cut to a size."""
    head = text[:max_bytes]
    shown = "".join(one for one in head if one in "\n\t" or unicodedata.category(one) not in _HIDDEN)
    return shown.encode()[:max_bytes].decode(errors="ignore").strip()


def read_listing(server: McpServer, raw: Iterable[Any], *, has_resources: bool = False) -> ServerTools:
    """Read the tools of a server. A tool that cannot be used is left out, and no other."""
    tools = _resource_tools(server) if has_resources else {}
    faults: list[str] = []
    surplus = 0
    for one in raw:
        name = one.get("name") if isinstance(one, Mapping) else None
        if not isinstance(name, str) or not name:
            faults.append("a tool without a name is left out")
        elif not server.wants(name):
            continue
        elif len(tools) == MAX_TOOLS:
            surplus += 1
        elif session_name(server.name, name) in tools:
            faults.append(f"{cleaned(name, MAX_NAME)!r} is listed twice, the first one counts")
        else:
            found = _read_tool(server, name, one)
            if isinstance(found, str):
                faults.append(f"{cleaned(name, MAX_NAME)!r} is left out: its schema {found}")
            else:
                tools[found.name] = found
    if surplus:
        faults.append(f"{surplus:,} tools beyond the first {MAX_TOOLS:,} are left out")
    return ServerTools(tools=tools, faults=tuple(faults))


def resource_tool(server: str, verb: Literal["list", "read"]) -> str:
    return f"mcp__{server}__{verb}_resource{'s' if verb == 'list' else ''}"


def log_in_tool(server: str) -> ListedTool:
    """Describe the tool that asks the user to log in. `pure`: it is repeated after a restart, and changes nothing at the server."""
    return ListedTool(
        name=f"mcp__{server}__log_in",
        remote_name="log_in",
        label=f"Log in to {server}",
        description=f"Ask the user to log in to the server {server}. Its tools can be used afterwards.",
        parameters={"type": "object", "properties": {}},
        effect_class="pure",
        digest="",
        is_ours=True,
    )


def _resource_tools(server: McpServer) -> dict[str, ListedTool]:
    uri = {"type": "string", "description": "Address of the resource, as listed or linked."}
    described: tuple[tuple[Literal["list", "read"], str, dict[str, Any]], ...] = (
        ("list", f"Resources of the server {server.name}, and templates of their addresses.", {}),
        ("read", f"Contents of a resource of the server {server.name}.", {"uri": uri}),
    )
    tools: dict[str, ListedTool] = {}
    for verb, text, properties in described:
        name = resource_tool(server.name, verb)
        remote = name.removeprefix(f"mcp__{server.name}__")
        if server.wants(remote):
            schema: dict[str, Any] = {"type": "object", "properties": properties}
            tools[name] = ListedTool(
                name=name,
                remote_name=remote,
                label=remote,
                description=text,
                parameters=frozen_json(
                    {**schema, "required": list(properties), "additionalProperties": False}
                ),
                effect_class="pure" if server.hints == "trust" else server.effect_of(remote, {}),
                digest="",
                is_ours=True,
            )
    return tools


def _read_tool(server: McpServer, name: str, raw: Mapping[str, Any]) -> ListedTool | str:
    schema = raw.get("inputSchema")
    if not isinstance(schema, Mapping):
        missing = "is missing, or asks for headers that are not allowed"
        return missing if schema is None else "is not an object"
    result_schema = raw.get("outputSchema")
    try:
        parameters = frozen_json({"type": "object", **schema})
        output = frozen_json(result_schema) if isinstance(result_schema, Mapping) else None
    except TooDeep as error:
        return f"is {error}"
    fault = fault_of_schema(parameters)
    if fault is None and parameters["type"] != "object":
        fault = f"has type {parameters['type']!r:.80}, expected 'object'"
    if fault is not None:
        return fault
    hints = raw.get("annotations")
    annotations: Mapping[str, Any] = hints if isinstance(hints, Mapping) else EMPTY
    said = raw.get("description")
    title = raw.get("title") or annotations.get("title")
    label = cleaned(title, MAX_TOOL_TITLE_CHARACTERS) if isinstance(title, str) else ""
    described = cleaned(said) if isinstance(said, str) else ""
    return ListedTool(
        name=session_name(server.name, name),
        remote_name=name,
        label=label or cleaned(name, MAX_TOOL_TITLE_CHARACTERS),
        description=described or label or f"The tool {cleaned(name, MAX_NAME)} of the server {server.name}.",
        parameters=parameters,
        effect_class=server.effect_of(name, annotations),
        digest=pin_of(raw),
        output=output,
        judge=None if output is None or fault_of_schema(output) is not None else CompiledSchema(output),
    )


def pin_of(raw: Mapping[str, Any]) -> str:
    parts = [raw.get(key) for key in ("name", "description", "inputSchema", "annotations")]
    said, title = raw.get("description"), raw.get("title")
    if isinstance(title, str) and not (isinstance(said, str) and cleaned(said)):
        parts.append(title)  # the model reads it in place of the description
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def decide_change(old: ServerTools, new: ServerTools) -> ListingChange:
    """Return the difference of two lists. Equal tools are not attached again."""
    reported = frozenset(old.faults)  # there may be a million, each of them another
    return ListingChange(
        attach=tuple([one for name, one in new.tools.items() if old.tools.get(name) != one]),
        detach=tuple([name for name in old.tools if name not in new.tools]),
        faults=tuple([fault for fault in new.faults if fault not in reported]),
    )


def in_one_sentence(faults: tuple[str, ...]) -> str:
    """Join faults for a report, without repeating a flood of them."""
    more = len(faults) - _SHOWN
    return "; ".join(faults[:_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")
