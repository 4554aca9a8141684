"""Convert the options of `run` and `chat` to session options before anything starts, those of `--opt` parsed to their types."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from agentrail.abc import Secret, Tool, effect_class_of, name_of
from agentrail.app import ChosenModel, choose_model
from agentrail.cli.config_setup import CommandSetup, model_of_files, options_of_files
from agentrail.cli.run_options import DEFAULT_TOOLS, Choices
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors import OptionError, PromptError
from agentrail.messages import MAX_PROMPT_BYTES, JsonValue
from agentrail.plugins import HumanApproval, Permissions
from agentrail.providers.options import ProviderOptions, nearest_option
from agentrail.runtime.session_options import SessionOptions, make_options
from agentrail.tools import builtin

AGENT_KEY: Final = "agent_id"
"""Key in a session's data for the agent it was started with. A host writes its profile there."""

CODING_KEY: Final = "agentrail_coding"
"""Key that marks a session of the built-in coding agent."""

SANDBOX_KEY: Final = "agentrail_sandbox"
"""Key for the sandbox given on the command line, which overrides the files."""


def decide_tools(text: str) -> tuple[Tool, ...]:
    if text.strip() == "none":
        return ()
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise OptionError(
            [
                f"--tools is {text!r}: expected names with commas between them, such as {DEFAULT_TOOLS}, or none"
            ]
        )
    return builtin(*dict.fromkeys(names))


def decide_approvals(text: str | None) -> tuple[PluginEntry, ...]:
    """Return the plugin that asks before the tools of `--approve`, or nothing without it and for `none`."""
    if text is None or text.strip() == "none":
        return ()
    names: list[JsonValue] = [name.strip() for name in text.split(",")]
    if not all(names):
        message = (
            f"--approve is {text!r}: expected names of tools with commas between them, such as shell, or *"
        )
        raise OptionError([message])
    # A chat has its user nearby, perhaps at lunch: a call waits as long as it takes.
    approval: Any = (HumanApproval, {"require_approval_for": names})
    return (approval,)


_UNASKED: Final = frozenset(
    [
        "ask_user",
        "compact_conversation",
        "exit_plan",
        "forget",
        "remember",
        "shell_stop",
        "task",
        "write_todos",
    ]
)
"""Tools with an effect that need no approval: they change only the session and the user's notes, or are judged elsewhere."""

_ASKING: Final = (HumanApproval, Permissions)


def with_approvals(
    plugins: Sequence[PluginEntry], text: str | None, tools: Iterable[Tool] = (), *, has_mcp: bool = False
) -> tuple[PluginEntry, ...]:
    """Return the plugins with the one that asks. Tools of MCP servers come later, so they are asked about by their prefix."""
    kinds = [one[0] if isinstance(one, tuple) else one for one in plugins]
    if text is None and not any(kind in _ASKING or isinstance(kind, _ASKING) for kind in kinds):
        changing = {name_of(one) for one in tools if effect_class_of(one) != "pure"}
        text = ",".join([*sorted(changing - _UNASKED), *(["mcp__*"] if has_mcp else [])]) or None
    approvals = decide_approvals(text)
    others = [
        one
        for one in plugins
        if not approvals or (one[0] if isinstance(one, tuple) else one) is not HumanApproval
    ]
    return (*others, *approvals)


async def choose_for(
    choices: Choices, environ: Mapping[str, str], setup: CommandSetup | None = None
) -> ChosenModel:
    """Choose the model: from the flag, the environment, the files of `setup`, or the configured providers."""
    opts = decide_provider_options(choices)
    found = model_of_files(setup, environ) if choices.model is None else None
    if found is not None:
        return found
    return await choose_model(
        environ, wanted=choices.model, base_url=opts.get("base_url"), api_key=opts.get("api_key")
    )


def decide_provider_options(choices: Choices) -> Mapping[str, Any]:
    """Return the provider options: those of `--opt`, and `--base-url`, a shorthand for one of them."""
    given = {} if choices.base_url is None else {"base_url": choices.base_url}
    return read_options(choices.opt, given)


def decide_session(
    choices: Choices,
    chosen: ChosenModel,
    setup: CommandSetup | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> SessionOptions:
    said = {
        "tools": None if choices.tools is None else decide_tools(choices.tools),
        "sandbox": choices.sandbox,
        "system_prompt": choices.system,
        "max_turns": choices.max_turns,
        "max_retries": choices.max_retries,
    }
    given = {
        "tools": decide_tools(DEFAULT_TOOLS),
        **options_of_files(setup, chosen.model, environ, may_bypass=choices.dangerously_bypass_permissions),
        **{name: value for name, value in said.items() if value is not None},
    }
    given["provider_opts"] = {**given.get("provider_opts", {}), **decide_provider_options(choices)}
    return make_options({**given, "model": chosen.model, "working_dir": choices.cwd})


def with_origin(options: SessionOptions, choices: Choices, setup: CommandSetup | None) -> SessionOptions:
    """Record the agent and sandbox in the session's data, so that `session_code.py` restores them on resume."""
    data = dict(options.user_data)
    data |= {} if setup is None or setup.agent is None else {AGENT_KEY: setup.agent}
    data |= {CODING_KEY: True} if setup is not None and setup.is_coding else {}
    data |= {} if choices.sandbox is None else {SANDBOX_KEY: choices.sandbox}
    return evolve(options, user_data=data) if data else options


def decide_prompt(argument: str | None, piped: bytes | None) -> str:
    if argument is not None and piped is not None:
        message = "there are two prompts, an argument and stdin: leave out the argument, or the -"
        raise PromptError(message)
    if argument is None and piped is None:
        message = 'no prompt was given: write it after the command, agentrail run "…", or pipe it in'
        raise PromptError(message)
    text = argument if argument is not None else (piped or b"").decode("utf-8", "replace").strip()
    if not text.strip():
        message = f"the prompt is empty: say something, 1 byte to {MAX_PROMPT_BYTES // 1_000_000} MB of text"
        raise PromptError(message)
    return text


# --- options of a provider, each parsed to its type

_EXAMPLE: Final = "expected key=value, such as stall_seconds=60"
_WORDS: Final = MappingProxyType(
    {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
)


class _Unfit(Exception):
    """The value does not have the type of its option. The message says what was expected."""


def read_options(texts: Sequence[str], given: Mapping[str, Any]) -> Mapping[str, Any]:
    values = dict(given)
    faults: list[str] = []
    for number, text in enumerate(texts, start=1):
        name, equals, value = text.partition("=")
        name = name.strip()
        fault = _fault_of_name(number, name, equals, values, given)
        if fault is None:
            try:
                values[name] = READERS[name](value.strip())
            except _Unfit as unfit:
                fault = f"--opt {name}: {unfit}"
                values[name] = None  # it was given, so that a second one is a duplicate
        if fault is not None:
            faults.append(fault)
    OptionError.raise_for(faults)
    ProviderOptions.parse(values)  # faults are reported before any request is sent or any connection opened
    return values


def _fault_of_name(
    number: int, name: str, equals: str, values: Mapping[str, Any], given: Mapping[str, Any]
) -> str | None:
    if not equals:
        # Without a name, the text may be a key.
        which = f"{name} has" if name in READERS else f"number {number} has"
        return f"--opt {which} no '=': {_EXAMPLE}"
    if not name:
        return f"--opt number {number} has no name before the '=': {_EXAMPLE}"
    if name not in READERS:
        return f"--opt {name!r} is not a provider option: {nearest_option(name)}"
    if name in given:
        return f"--opt {name} is given twice, here and by --{name.replace('_', '-')}: leave one out"
    if name in values:
        return f"--opt {name} is given twice: leave one out"
    return None


# --- the types


def _number(text: str) -> float:
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        message = f"expected a number, got {text!r}"
        raise _Unfit(message) from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        message = f"expected a whole number, got {text!r}"
        raise _Unfit(message) from None


def _flag(text: str) -> bool:
    if text.lower() not in _WORDS:
        message = f"expected true or false, got {text!r}"
        raise _Unfit(message)
    return _WORDS[text.lower()]


def _mapping(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        message = 'expected a JSON object in quotes, such as \'{"name": "value"}\''  # it may contain a key: not repeated
        raise _Unfit(message)
    return read


def _texts(text: str) -> list[Any] | str:
    if not text.startswith("["):
        return text
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        message = f'expected a text, or a JSON list in quotes, such as \'["END", "STOP"]\', got {text!r}'
        raise _Unfit(message) from None
    return list(read)


READERS: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "api_key": Secret,
        "base_url": str,
        "headers": _mapping,
        "timeout": _number,
        "temperature": _number,
        "top_p": _number,
        "stop": _texts,
        "max_output_tokens": _whole,
        "reasoning": lambda text: _whole(text) if text.isdecimal() else text,
        "tool_choice": str,
        "extra_body": _mapping,
        "verify": lambda text: _WORDS.get(text.lower(), text),
        "trust_env": _flag,
        "structured": str,
        "images": _flag,
        "http2": _flag,
        "stall_policy": str,
        "stall_seconds": _number,
        "max_retries": _whole,
        "context_window": _whole,
        "price": _mapping,
    }
)
"""The parser of every option."""
