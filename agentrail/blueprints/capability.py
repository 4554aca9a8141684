"""`Capability`: a named bundle of tools, plugins and prompt sections."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from attrs import field, frozen

from agentrail.abc import Tool
from agentrail.blueprints.system_prompt import Section, faults_of_sections
from agentrail.core.stack.loaded_stack import PluginEntry, call_handler, parts_of_entry, sound_plugin
from agentrail.core.stack.plugin import SAFETY_BELOW, Plugin
from agentrail.errors import OptionError, PluginError
from agentrail.frozen import EMPTY, TooDeep, frozen_json, same_json
from agentrail.messages import JsonObject
from agentrail.otp.guarded_calls import repr_of
from agentrail.runtime.session_options import TOOL_MEMBERS, fault_of_tool

_T = TypeVar("_T")


def placed(items: Iterable[_T], key_of: Callable[[_T], Hashable]) -> tuple[_T, ...]:
    """Remove duplicate keys: the later item takes the place of the first."""
    found: dict[Hashable, _T] = {}
    for item in items:
        found[key_of(item)] = item
    return tuple(found.values())


def name_of_plugin(entry: PluginEntry) -> str:
    return _made(entry).name


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
    return tuple(tools)


def _all_plugins(plugins: Iterable[PluginEntry]) -> tuple[PluginEntry, ...]:
    return tuple(plugins)


def _frozen_sections(sections: Mapping[str, Section]) -> Mapping[str, Section]:
    return MappingProxyType(dict(sections))


@frozen(kw_only=True)
class Capability:
    """A named bundle of related parts.

    Attributes:
        name: Unique name within a blueprint.
        tools: Its tools for the model.
        plugins: The plugins that guard them.
        sections: Its sections of the system prompt, by key. A later capability's text replaces an equal key. Texts, or pure functions of `PromptContext`.

    Raises:
        OptionError: Your move: an item is not a tool, or not a plugin.
    """

    name: str
    tools: Sequence[Tool] = field(default=(), converter=_all_tools)
    plugins: Sequence[PluginEntry] = field(default=(), converter=_all_plugins)
    sections: Mapping[str, Section] = field(default=EMPTY, converter=_frozen_sections)

    def __attrs_post_init__(self) -> None:
        faults = [*_faults_of_tools(self.tools), *faults_of_plugin_entries(self.plugins)]
        faults += faults_of_sections(self.sections)
        OptionError.raise_for([f"capability {self.name!r}: {fault}" for fault in faults])


def _faults_of_tools(tools: Iterable[object]) -> list[str]:
    return [
        f"{repr_of(tool):.80} is not a tool, which has {', '.join(TOOL_MEMBERS)}: {fault}"
        for tool in tools
        if (fault := fault_of_tool(tool)) is not None
    ]


def faults_of_plugin_entries(plugins: Iterable[Any]) -> list[str]:
    faults: list[str] = []
    for entry in plugins:
        try:
            name_of_plugin(entry)
        except PluginError as error:
            faults += error.faults
        except (TooDeep, TypeError, ValueError) as error:
            faults.append(f"{repr_of(entry):.80} is not a plugin: {error}")
    return faults
