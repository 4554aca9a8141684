"""Ten pairs of plugins: five that may change places, and five that may not."""

from collections.abc import Mapping
from typing import Any, Final

from agentrail.testing.plugins import PuppetPlugin, read_rule


def puppet(name: str, priority: int, **rules: str) -> PuppetPlugin:
    """A plugin by its rules; `BeforeTool__shell` stands for `BeforeTool.shell`."""
    read = tuple(read_rule(key.replace("__", "."), value) for key, value in rules.items())
    return PuppetPlugin(read, name=name, priority=priority)


COMMUTE: Final[Mapping[str, tuple[Any, Any]]] = {
    "guards of different tools": (
        puppet("one", 10, BeforeTool__shell="block:no"),
        puppet("two", 20, BeforeTool__write_file="block:no"),
    ),
    "hooks that are not the same": (
        puppet("one", 500, BeforePrompt="emit:asked"),
        puppet("two", 600, BeforeFinish="emit:done"),
    ),
    "events of their own": (
        puppet("one", 500, AfterTool="emit:one"),
        puppet("two", 600, AfterTool="emit:two"),
    ),
    "results of different tools": (
        puppet("one", 500, AfterTool__shell="result:[hidden]"),
        puppet("two", 600, AfterTool__read_file="result:[hidden]"),
    ),
    "a section and a switch": (
        puppet("one", 500, BeforeRequest="section:Today is Friday."),
        puppet("two", 600, AfterToolBatch="model:scripted:other"),
    ),
}

DO_NOT_COMMUTE: Final[Mapping[str, tuple[Any, Any]]] = {
    "two that rewrite the same": (
        puppet("one", 500, BeforeTool__shell='args:{"command": "ls"}'),
        puppet("two", 600, BeforeTool__shell='args:{"command": "pwd"}'),
    ),
    "two that speak": (
        puppet("one", 500, BeforeFinish="intervene:once more"),
        puppet("two", 600, BeforeFinish="intervene:and slowly"),
    ),
    "one that stops the other": (
        puppet("one", 500, BeforePrompt="skip"),
        puppet("two", 600, BeforePrompt="intervene:be brief"),
    ),
    "two models": (
        puppet("one", 500, BeforeRequest="model:scripted:one"),
        puppet("two", 600, BeforeRequest="model:scripted:two"),
    ),
    "two reasons": (
        puppet("one", 10, BeforeTool="block:not today"),
        puppet("two", 20, BeforeTool="block:not here"),
    ),
}
