"""MCP servers in JSON files of other programs, such as `.mcp.json`, as our tables."""

import json
import re
from typing import Any, Final

import attrs

from agentrail.config.config_file import ConfigFile, Scope, checked_file
from agentrail.config.toml_positions import ConfigFault, ConfigPath, ConfigPlace

_OTHER: Final = re.compile(r"[^a-z0-9-]")
_VARIABLE: Final = re.compile(r"(Bearer )?\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_KEYS: Final = frozenset({"command", "args", "env", "cwd", "url", "headers", "type"})


def read_mcp_json(file: str, text: str, *, scope: Scope = "project", folder: str = "") -> ConfigFile:
    made = ConfigFile(name=file, scope=scope, folder=folder)
    lines: dict[ConfigPath, int] = {}

    def fault(said: str, *path: str) -> ConfigFault:
        return ConfigFault(place=ConfigPlace(file=file, path=path or ("",), lines=lines), said=said)

    try:
        read: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        lines["",] = getattr(error, "lineno", 1)
        return attrs.evolve(made, faults=(fault(f"this is not JSON: {getattr(error, 'msg', error)}"),))
    entries = (read.get("mcpServers") or read.get("servers")) if isinstance(read, dict) else None
    if not isinstance(entries, dict):
        return attrs.evolve(made, faults=(fault("expected an object with mcpServers"),))
    tables: dict[str, Any] = {}
    faults: list[ConfigFault] = []
    notes: list[ConfigFault] = []
    for written, entry in entries.items():
        given = entry if isinstance(entry, dict) else {}
        table, path = _table_of(given), ("mcp", _OTHER.sub("-", written.lower()))
        lines[path] = text.count("\n", 0, max(text.find(json.dumps(written)), 0)) + 1
        notes += [fault(f"{key} is not read", *path) for key in sorted(given.keys() - _KEYS)]
        if given.get("disabled") is True:
            continue
        if given.get("type") == "sse":
            faults.append(fault("type is 'sse', which is not supported: expected stdio or http", *path))
        if "${" in json.dumps(table):
            faults.append(
                fault("${…} is read only as a whole value of env and headers: write the text", *path)
            )
        if path[1] in tables:
            notes.append(fault(f"{written!r:.80} replaces a server before it of this name", *path))
        tables[path[1]] = table
    checked = checked_file(made, {"mcp": tables}, lines, only_texts=False)
    return attrs.evolve(checked, faults=(*checked.faults, *faults), notes=tuple(notes))


def _table_of(entry: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {key: entry[key] for key in ("cwd", "url", "env", "headers") if key in entry}
    if "command" in entry:
        args = entry.get("args", [])
        table["command"] = [entry["command"], *(args if isinstance(args, list) else [args])]
    for key in ("env", "headers"):
        if isinstance(table.get(key), dict):
            table[key] = {name: _value_of(one) for name, one in table[key].items()}
    headers = table.get("headers")
    auth = headers.get("Authorization") if isinstance(headers, dict) else None
    if isinstance(auth, dict) and "bearer" in auth:
        del table["headers"]["Authorization"]
        table["auth"] = auth
    return table


def _value_of(value: Any) -> Any:
    found = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    return {"bearer": {"env": found[2]}} if found[1] else {"env": found[2]}
