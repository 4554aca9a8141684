"""`Capability`: a named bundle of tools, plugins and prompt sections."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from attrs import field, frozen

from agentrail.abc import Tool
from agentrail.blueprints.system_prompt import Section, all_sections, faults_of_sections
from agentrail.core.stack.loaded_stack import PluginEntry, call_handler, parts_of_entry, sound_plugin
from agentrail.core.stack.plugin import SAFETY_BELOW, Plugin
from agentrail.errors import OptionError, PluginError
from agentrail.frozen import EMPTY, TooDeep, frozen_json, same_json
from agentrail.messages import JsonObject
from agentrail.otp.field_rules import all_items
from agentrail.otp.guarded_calls import repr_of
from agentrail.runtime.arguments import fault_of, refuse
from agentrail.runtime.session_options import faults_of_value

_T = TypeVar("_T")


def placed(items: Iterable[_T], key_of: Callable[[_T], Hashable]) -> tuple[_T, ...]:
    """Remove duplicate keys: the later item takes the place of the first."""
    found: dict[Hashable, _T] = {}
    for item in items:
        found[key_of(item)] = item
    return tuple(found.values())


def name_of_plugin(entry: PluginEntry) -> str:
    return _made(entry).name


def with_options(
    plugins: Iterable[PluginEntry], name: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Iterator[PluginEntry]:
    """Yield the plugins, the one of this name with changed options."""
    for entry in plugins:
        if name_of_plugin(entry) != name:
            yield entry
        else:
            plugin, own = parts_of_entry(entry)
            yield (plugin, change(own))


def is_guard(entry: PluginEntry) -> bool:
    """Return whether a plugin judges before all others and also applies to sub-agents."""
    return _made(entry).priority < SAFETY_BELOW


def narrows_permissions(entry: PluginEntry) -> bool:
    return callable(getattr(_made(entry), "narrow_permissions", None))


def is_same_guard(entry: PluginEntry, guard: PluginEntry) -> bool:
    """Return whether a plugin has a guard's type, and equal or no options."""
    said, held = _options_of(entry), _options_of(guard)
    return type(_made(entry)) is type(_made(guard)) and (not said or same_json(said, held))


def _options_of(entry: PluginEntry) -> JsonObject:
    return frozen_json(entry[1]) if isinstance(entry, tuple) else EMPTY


def _made(entry: PluginEntry) -> Plugin:
    return sound_plugin(*parts_of_entry(entry), call_handler)


def keys_of_sections(entries: Iterable[PluginEntry]) -> tuple[str, ...]:
    """Return the keys of the sections that plugins add while a session runs."""
    said = [getattr(entry[0] if isinstance(entry, tuple) else entry, "sections", ()) for entry in entries]
    keys = [key for one in said if isinstance(one, tuple) for key in one if isinstance(key, str)]
    return tuple(dict.fromkeys(keys))


def _all_tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    return all_items(tools)


def _all_plugins(plugins: Iterable[PluginEntry]) -> tuple[PluginEntry, ...]:
    return all_items(plugins)


@frozen(kw_only=True)
class Capability:
    """A named bundle of related parts.

    Attributes:
        name: Unique name within a blueprint.
        tools: Its tools for the model.
        plugins: The plugins that guard them.
        sections: Its sections of the system prompt, by key. A later capability's text replaces an equal key. Texts, or pure functions of `PromptContext`.

    Raises:
        OptionError: Your move: a name or section that is not text, or an item that is not a tool, or not a plugin.
    """

    name: str
    tools: Sequence[Tool] = field(default=(), converter=_all_tools)
    plugins: Sequence[PluginEntry] = field(default=(), converter=_all_plugins)
    sections: Mapping[str, Section] = field(default=EMPTY, converter=all_sections)

    def __attrs_post_init__(self) -> None:
        refuse(fault_of("the name of a capability", self.name, str))
        faults = [*faults_of_value("tools", self.tools), *faults_of_plugin_entries(self.plugins)]
        faults += faults_of_sections(self.sections)
        OptionError.raise_for([f"capability {self.name!r:.80}: {fault}" for fault in faults])


def faults_of_plugin_entries(plugins: Iterable[Any]) -> list[str]:
    faults = faults_of_value("plugins", plugins)
    for entry in () if faults else plugins:
        try:
            name_of_plugin(entry)
        except PluginError as error:
            faults += error.faults
        except (TooDeep, TypeError, ValueError) as error:
            faults.append(f"{repr_of(entry):.80} is not a plugin: {error}")
    return faults
