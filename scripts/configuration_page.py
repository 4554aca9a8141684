"""The page of `agentrail.toml`: each table and key, from the forms that files are read into."""

import types
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from agentrail.config import schema
from agentrail.core.policy.budget import Budget
from agentrail.providers.options import ProviderOptions
from agentrail.runtime.agent import Agent
from agentrail.runtime.session_options import SessionOptions
from agentrail.tools.mcp import McpServer, OAuthClient
from agentrail.web.rules import WebRules

FieldsIn = Callable[[type], list[tuple[str, str]]]

TABLES: Final[Mapping[type, tuple[str, str, type | None]]] = MappingProxyType(
    {
        schema.FileForm: ("Top of the file", "", None),
        schema.DefaultsForm: (
            "`[defaults]`",
            "Defaults for every agent, and for sessions without one.",
            SessionOptions,
        ),
        schema.AgentForm: (
            "`[agents.NAME]`",
            "An agent. It accepts all keys of `[defaults]`, and these.",
            Agent,
        ),
        schema.PromptForm: ("`prompt`, as a table", "", None),
        schema.PluginForm: ("`plugins`, as tables", "", None),
        schema.BudgetForm: ("`budget`", "", Budget),
        schema.PermissionsForm: ("`[permissions]`", "", None),
        schema.ProviderForm: (
            "`[providers.NAME]`",
            "By the provider of a model string, before the colon.",
            ProviderOptions,
        ),
        schema.SecretForm: ("A secret", "The source of a key. Give exactly one.", None),
        schema.SkillsForm: ("`[skills]`", "", None),
        schema.ImportForm: (
            "`[import]`",
            "Files of other programs to read, next to this file.",
            None,
        ),
        schema.WebForm: ("`[web]`", "", WebRules),
        schema.SearchForm: ("`search` of `[web]`", "", None),
        schema.EmbedderForm: ("`[embedder]`", "", None),
        schema.McpForm: (
            "`[mcp.NAME]`",
            "An MCP server. Give either `command` or `url`. The name is 1 to 32 of `a-z 0-9 -`. [Use MCP servers](../how-to/use-mcp-servers.md) describes them.",
            McpServer,
        ),
        schema.McpAuthForm: ("`auth` of `[mcp.NAME]`", "", None),
        schema.McpOAuthForm: ("`oauth` of `[mcp.NAME]`", "", OAuthClient),
    }
)
"""Each form, with the heading of its table, what is said of it, and the class that describes what the form does not."""

_PATHS: Final = "Built-in names, or `package.module:NAME`"
OWN_WORDS: Final[Mapping[type, Mapping[str, str]]] = MappingProxyType(
    {
        schema.DefaultsForm: {
            "prompt": "The system prompt: a text, or a table with its source.",
            "tools": f"{_PATHS}.",
            "plugins": f"{_PATHS}, or a table with options. Plugins of `[defaults]` guard every agent.",
            "sandbox": "Place of files and commands: `local`, `local:/path`, `memory`, the address of `agentrail sandbox serve`, or `container:IMAGE`.",
        },
        schema.PermissionsForm: {
            "mode": "Decision for calls without a rule.",
            "deny": "Rules for denied calls. One in any file wins.",
            "ask": "Rules for calls that need approval. They win over `allow`.",
            "allow": "Rules for calls without approval. See [`Permissions`](../how-to/plugins/permissions.md) for the syntax.",
        },
    }
)
"""What is said otherwise in a file than in a program, or only there."""


def configuration_page(drawn: str, fields_in: FieldsIn, summary: Callable[[object], str]) -> str:
    """Draw the page; the two functions read docstrings."""
    lines = [
        "# `agentrail.toml`",
        "",
        drawn,
        "",
        "All keys of a configuration file. [Configure agents in files](../how-to/configure-agents.md) describes locations, precedence and trust.",
        "`agentrail config check` shows the result with file and line. Missing keys have the defaults of [a session](session.md#options-of-a-session).",
        "",
    ]
    for form, (title, said, described) in TABLES.items():
        meanings = dict(fields_in(described)) if described else {}
        meanings |= {**dict(fields_in(form)), **OWN_WORDS.get(form, {})}
        inherited = (
            {one.name for one in attrs.fields(schema.DefaultsForm)} if form is schema.AgentForm else set()
        )
        lead = said or summary(form)
        if form is schema.DefaultsForm:
            lead += (
                " Keys without a meaning here are [options of a session](session.md#options-of-a-session)."
            )
            options = dict(fields_in(SessionOptions))
            meanings = {name: "" if options.get(name) == text else text for name, text in meanings.items()}
        lines += [f"## {title}", "", lead, ""]
        alike: dict[tuple[str, str], list[str]] = {}
        for name in (one.name for one in attrs.fields(form) if one.name not in inherited):
            takes = type_as_written(get_type_hints(form)[name])
            alike.setdefault((takes, meanings[name]), []).append(f"`{name.removesuffix('_')}`")
        for (takes, meaning), names in alike.items():
            lines.append(f"- {', '.join(names)} ({takes}){f': {meaning}' if meaning else ''}")
        lines.append("")
    return "\n".join(lines)


def type_as_written(hint: Any) -> str:
    """Say in words what a person writes for a type."""
    return " or ".join(dict.fromkeys(_kinds(hint)))


def _kinds(hint: Any) -> Iterator[str]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        for one in arguments:
            yield from () if one is type(None) else _kinds(one)
    elif origin is Literal:
        yield ", ".join(f"`{one!r}`".replace("'", '"') for one in arguments)
    elif origin is tuple:
        yield f"list of {_plural(arguments[0])}"
    elif origin is not None and issubclass(origin, Mapping):
        yield f"table of {_plural(arguments[1])}"
    else:
        yield _NAMES.get(hint) or "table"


def _plural(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " and ".join(_kinds(hint))
    if hint is schema.PluginForm:
        return "names or tables"
    return _PLURALS.get(hint, "tables")


_NAMES: Final[Mapping[Any, str]] = MappingProxyType(
    {
        str: "string",
        int: "integer",
        float: "number",
        bool: "boolean",
        schema.SecretForm: "secret",
    }
    | {schema.PromptForm: "string or table"}
)
_PLURALS: Final[Mapping[Any, str]] = MappingProxyType(
    {str: "strings", int: "whole numbers", Any: "any values", schema.HeaderForm: "strings or secrets"}
)
