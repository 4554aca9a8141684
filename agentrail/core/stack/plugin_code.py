"""The code of plugins and their records: a record is made from a plugin, and finds it again."""

from typing import Any, cast

from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.stack.loaded_stack import Ask, PluginEntry, attempt_as, parts_of_entry, sound_plugin
from agentrail.core.stack.plugin import Plugin
from agentrail.core.values.foreign_calls import Raised
from agentrail.errors import PluginError


def plugin_origin(plugin: object) -> str:
    """Return the origin of a plugin, `package.module:NAME`: its class, or the function that it was made of."""
    function = getattr(plugin, "__wrapped__", None)
    kind = plugin if isinstance(plugin, type) else type(plugin)
    found: Any = function if hasattr(function, "__qualname__") else kind
    return f"{found.__module__}:{found.__qualname__}"


def part_entry(entry: PluginEntry, ask: Ask) -> tuple[Plugin, PluginRecord]:
    """Split a caller's entry into the plugin, instantiated if a class was given, and its record."""
    given, options = parts_of_entry(entry, without=None)
    plugin = sound_plugin(given, options or {}, ask)
    record = PluginRecord(
        name=plugin.name, version=plugin.version, origin=plugin_origin(plugin), options=options
    )
    return plugin, record


def find_code(ask: Ask, change: str, record: PluginRecord) -> Plugin:
    """Return the code of a new plugin, from the `find` of the shell's `call_handler`."""
    find = getattr(ask, "find", None)
    found = None if find is None else attempt_as(ask, find, change, record)
    if isinstance(found, Raised):
        raise PluginError([f"{_shown(record)} was not found: {found.error.message}"])
    if found is None:
        raise PluginError(
            [f"{_shown(record)} is missing: attach it where its code is, or make its origin importable"]
        )
    return checked_code(found, record, ask)


def checked_code(found: object, record: PluginRecord, ask: Ask) -> Plugin:
    plugin = attempt_as(ask, found) if isinstance(found, type) else found
    if isinstance(plugin, Raised):
        raise PluginError(
            [f"plugin {record.name!r} cannot be made without arguments: {plugin.error.message}"]
        )
    name = attempt_as(ask, getattr, plugin, "name", None)
    if name != record.name:
        raise PluginError(
            [f"plugin {record.name!r} was requested, but resolve returned one that is named {name!r}"]
        )
    return cast("Plugin", plugin)


def _shown(record: PluginRecord) -> str:
    return f"plugin {record.name!r} (version {record.version!r}, from {record.origin})"
