"""Convert the options of `run` and `chat` to session options before anything starts."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from agentrail.abc import Tool, effect_class_of, name_of
from agentrail.app import ChosenModel, choose_model
from agentrail.cli.config_setup import CommandSetup, model_of_files, options_of_files
from agentrail.cli.provider_options import read_options
from agentrail.cli.run_options import DEFAULT_TOOLS, Choices
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors import OptionError, PromptError
from agentrail.messages import MAX_PROMPT_BYTES, JsonValue
from agentrail.plugins import HumanApproval, Permissions
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
    given = {"base_url": choices.base_url} if choices.base_url else {}
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
