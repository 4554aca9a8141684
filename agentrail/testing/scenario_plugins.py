"""Plugins in the head of a scenario: built-in ones by name, puppets by their rules, all others by an import path.

plugin SecurityGuard blocked_paths=["*.secret"]
plugin guard priority=50 BeforeTool.shell=block:"no"
plugin my.guards:SpendingGuard limit=3
plugin my.guards:STACK[2]
"""

import json
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

from agentrail.core.stack.loading import PluginEntry
from agentrail.testing.plugins import PuppetPlugin, PuppetRule, read_rule
from agentrail.testing.scenario_words import Pair, ScenarioError, quote, split_words

StackOrigin: TypeAlias = tuple[str, Sequence[PluginEntry]]
"""Where a list of plugins stands, `package.module:NAME`, and the list itself."""

_STEP: Final = re.compile(r"(?P<name>\w+)|\[(?P<index>\d+)\]|\.")


def read_plugin(text: str) -> Any:
    """Read what stands behind `plugin`; puppets have names in lower case.

    Raises:
        ScenarioError: Your move: there is no such plugin, or the words are none of those above.
    """
    name, *words = split_words(text)
    if not isinstance(name, str):
        message = f"expected the name of a plugin, got {name!r}"
        raise ScenarioError(message)
    pairs = [word for word in words if isinstance(word, Pair)]
    if len(pairs) < len(words):
        message = f"a plugin takes options and rules, key=value; got {text!r}"
        raise ScenarioError(message)
    if ":" in name:
        found = import_path(name)
        options = {pair.key: _option_of(pair) for pair in pairs}
        return (found[0], {**found[1], **options}) if isinstance(found, tuple) else (found, options)
    if name[0].isupper():
        module = import_module(f"agentrail.plugins.{re.sub('(?<=[a-z])(?=[A-Z])', '_', name).lower()}")
        return getattr(module, name), {pair.key: _option_of(pair) for pair in pairs}
    priority = next((int(pair.value) for pair in pairs if pair.key == "priority"), 500)
    rules = tuple(read_rule(pair.key, pair.value) for pair in pairs if pair.key != "priority")
    return PuppetPlugin(rules, name=name, priority=priority)


def import_path(path: str) -> Any:
    """Import what a path such as `package.module:NAME`, `:Class.Inner` or `:STACK[2]` leads to.

    Raises:
        ScenarioError: Your move: it leads to nothing; the message says where it ends.
    """
    module_name, _, rest = path.partition(":")
    try:
        found: Any = import_module(module_name)
        for step in _STEP.finditer(rest):
            if step["name"] is not None:
                found = getattr(found, step["name"])
            elif step["index"] is not None:
                found = found[int(step["index"])]
    except (ImportError, AttributeError, IndexError, TypeError) as error:
        message = f"{path!r} leads to nothing: {error}"
        raise ScenarioError(message) from error
    return found


def print_plugin(entry: PluginEntry, origin: StackOrigin | None = None) -> str:
    """Write the line that `read_plugin` reads; a remark for a plugin that nothing leads to from an import."""
    if origin is not None:
        path, stack = origin
        for position, there in enumerate(stack):
            if there is entry:
                return f"plugin {path}[{position}]"
    given: tuple[Any, Any] = entry if isinstance(entry, tuple) else (entry, {})
    plugin, options = given
    if isinstance(plugin, PuppetPlugin):
        rules = " ".join(map(_print_rule, plugin.rules))
        return f"plugin {plugin.name} priority={plugin.priority} {rules}".rstrip()
    found = _path_of(plugin)
    if found is None:
        return f"# plugin {_name_of(plugin)} can not be written here: give it a name in a module"
    return " ".join(("plugin", found, *(f"{key}={json.dumps(value)}" for key, value in options.items())))


def _path_of(plugin: Any) -> str | None:
    """Find the import path of a class, or of an instance that a module holds under a name."""
    cls = plugin if isinstance(plugin, type) else type(plugin)
    made_of: Any = getattr(plugin, "_function", cls)
    module = sys.modules.get(made_of.__module__ or "")
    if module is None:  # made by `exec`, as the code in pages is
        return None
    home = vars(module)
    names = (
        [cls.__qualname__]
        if isinstance(plugin, type)
        else [n for n, value in home.items() if value is plugin]
    )
    for name in names:
        path = f"{made_of.__module__}:{name}"
        try:
            if import_path(path) is plugin:
                return path
        except ScenarioError:
            continue
    return None


def _name_of(plugin: Any) -> str:
    return str(getattr(plugin, "name", plugin))


def _print_rule(rule: PuppetRule) -> str:
    where = f"{rule.hook}.{rule.tool}" if rule.tool else rule.hook
    return f"{where}={rule.action}:{quote(rule.text)}" if rule.text else f"{where}={rule.action}"


def _option_of(pair: Pair) -> Any:
    if pair.quoted or not isinstance(pair.value, str):
        return pair.value
    try:
        return json.loads(pair.value)
    except json.JSONDecodeError:  # a bare word is a text
        return pair.value
