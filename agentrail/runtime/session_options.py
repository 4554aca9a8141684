"""The options of a session and their validation, which reports all faults at once."""

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import partial
from inspect import get_annotations
from itertools import compress
from operator import attrgetter, is_not
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeGuard, get_args

import attrs
import msgspec
from attrs import field, frozen

from agentrail.abc import ContextProvider, Provider, Sandbox, Tool, ToolServer
from agentrail.config.key_filter import shown_address
from agentrail.core.policy.budget import Budget
from agentrail.core.policy.response_format import fault_of_format
from agentrail.core.session.state import PromptMode
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors import OptionError
from agentrail.errors.name_guesses import guess_name
from agentrail.frozen import EMPTY, MAX_LEVELS, FrozenDict, TooDeep, frozen_json, frozen_value
from agentrail.messages import JsonValue, Message
from agentrail.otp.child_specs import Restart, is_seconds, is_whole
from agentrail.otp.guarded_calls import call_guarded, is_async, repr_of
from agentrail.runtime.agent import Agent, equip_agent
from agentrail.runtime.session_keys import NO_SCOPE, fault_of_scope
from agentrail.wire.sandbox_address import ADDRESS_FORMS, fault_of_remote, is_remote

# --- Option names of other libraries, with our equivalents for the error message. Near misses are matched by spelling.


def _of_the_model(name: str) -> str:
    return f"it is a provider option: provider_opts={{{name!r}: …}}"


def _of_prompts_too(name: str) -> str:
    return f"{_of_the_model(name)}, or for one prompt session.prompt(…, settings={{{name!r}: …}})"


def _of_the_supervisor(name: str) -> str:
    return f"sessions share it, so give it to their supervisor: agentrail.open_supervisor({name}=…)"


# fmt: off
_OPTIONS_OF_SUPERVISORS: Final = (
    "environ", "shell_fallback", "scripts", "deps_for", "memories", "notes", "knowledge", "embedder", "store", "data_dir",
    "store_patience", "resume", "revive", "on_drift", "durability", "keep_days", "keep_bytes", "hibernate_after", "advertise",
    "lease", "telemetry", "metrics", "audit",
)
# fmt: on
_IS_SYSTEM_PROMPT: Final = "use system_prompt=…"
_IS_MESSAGES: Final = "use messages=[…]"
_IS_MAX_TURNS: Final = "use max_turns=…"
_IS_OUTPUT: Final = "give the type with each prompt: session.ask(…, output=…)"
_IS_PLUGIN: Final = "use plugins to watch and steer a session: plugins=[…]"
_IS_AGENTS: Final = "use agents=[Agent(…), …]"
_IS_BUDGET: Final = "use budget=Budget(max_cost_usd=…, max_total_tokens=…) here"

OTHER_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "instructions": _IS_SYSTEM_PROMPT,
        "system": _IS_SYSTEM_PROMPT,
        "system_message": _IS_SYSTEM_PROMPT,
        "prompt": "use system_prompt=… for the system prompt, and session.ask(…) for the question",
        "history": _IS_MESSAGES,
        "message_history": _IS_MESSAGES,
        "functions": "use tools=[…]",
        "allowed_tools": "a session has only the tools that it is given: tools=[…]",
        "context": "use deps=… for objects of tools, and user_data={…} for stored data",
        "cwd": "use working_dir=…",
        "api_key": _of_the_model("api_key"),
        "base_url": _of_the_model("base_url"),
        "api_base": _of_the_model("base_url"),
        "headers": _of_the_model("headers"),
        "extra_body": _of_the_model("extra_body"),
        "tool_choice": _of_the_model("tool_choice"),
        "temperature": _of_prompts_too("temperature"),
        "top_p": _of_prompts_too("top_p"),
        "stop": _of_prompts_too("stop"),
        "reasoning": _of_prompts_too("reasoning"),
        "reasoning_effort": _of_prompts_too("reasoning"),
        "thinking": _of_prompts_too("reasoning"),
        "model_settings": "use provider_opts={…}, or session.prompt(…, settings={…}) for a single prompt",
        "timeout": f"for requests, {_of_the_model('timeout')}; for tools, use tool_timeout_seconds=…",
        "max_tokens": "use max_output_tokens=… for each response, or budget=Budget(max_total_tokens=…) for their sum",
        "max_steps": _IS_MAX_TURNS,
        "max_iterations": _IS_MAX_TURNS,
        "recursion_limit": _IS_MAX_TURNS,
        "parallel_tool_calls": "use max_parallel_tools=…; 1 runs them one after the other",
        "output": _IS_OUTPUT,
        "output_type": _IS_OUTPUT,
        "result_type": _IS_OUTPUT,
        "response_model": _IS_OUTPUT,
        "output_schema": "use response_format={…} for a JSON Schema, or session.ask(…, output=…) for a type",
        "stream": "read events from session.stream(…) or session.subscribe()",
        "middleware": _IS_PLUGIN,
        "hooks": _IS_PLUGIN,
        "callbacks": _IS_PLUGIN,
        "guardrails": _IS_PLUGIN,
        "handoffs": _IS_AGENTS,
        "subagents": _IS_AGENTS,
        "max_cost": _IS_BUDGET,
        "max_budget": _IS_BUDGET,
        "usage_limits": _IS_BUDGET,
        "checkpointer": _of_the_supervisor("store"),
        "mcp_servers": "use mcp=[McpServer(…), …]",
        **{one: _of_the_supervisor(one) for one in _OPTIONS_OF_SUPERVISORS},
    }
)
"""Maps a foreign option name, and those of a supervisor, to the right place."""


_SESSION_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def frozen_mapping(value: Any) -> Any:
    if value is EMPTY or value is None:
        return value
    try:
        return frozen_json(value) if isinstance(value, Mapping) else value
    except TooDeep:
        return value


@frozen(kw_only=True)
class SessionOptions:
    """Options for starting a session.

    Attributes:
        model: A model string such as `anthropic:claude-sonnet-4-5`, or a provider object.
        tools: Tools that the model can call. Two tools with the same name are refused.
        plugins: Plugins that observe and control the session: `Plugin` classes, instances, or `(Plugin, {options})`.
        system_prompt: Placed before the conversation and before the sections added by plugins and tools. None: the base
            prompt, if `base_prompt` is set and the mode is `full`. Text, even empty, replaces the base prompt.
        prompt_mode: `full`: the base prompt and all sections. `task`: without skills and memory. `minimal`: the tool
            names only. `none`.
        base_prompt: Whether a session in the mode `full` without a `system_prompt` starts with four sentences on using
            tools and on answers. Its sub-agents do not get them.
        replace_sections: Replacements for sections that plugins, tools and the permission mode add to the system
            prompt, by section key. An empty text removes the section. They also apply to the sessions below.
        session_id: `[A-Za-z0-9._:-]{1,128}`. Generated if None. Unique in its scope.
        scope: Namespace of session ids, such as a tenant: 1 to 128 of `A-Z a-z 0-9 . _ : @ + -`, starting with a letter
            or digit, without `..`. Or empty. Sessions of two scopes can have the same id. Events show only the id.
            Children are in the same scope.
        working_dir: The root of the file tools.
        sandbox: The sandbox for files and commands. Either a sandbox object, which remains yours to close, or the name
            of one to create for the session. `local` (the default) works on `working_dir`, and `local:/path` on a
            directory. The following ones start empty and are deleted with the session: `memory`, `http://host:port` or
            `https://…` of `agentrail sandbox serve`, and `container:IMAGE`.
        messages: Initial history, from any source. Invalid ones are repaired, which `PatchToolCalls` reports.
        user_data: The application's own data, visible to tools.
        deps: Dependencies of the tools, such as a pool or a client, for `ctx.deps`. A live object, which remains
            yours, is shared with children and never stored. For a restored session, `deps_for` provides it.
        provider_opts: `base_url`, `api_key`, `timeout` and other options of the provider.
        max_turns: Maximum number of model calls in one cycle. The last one has no tools.
        on_max_turns: `answer`: the last turn has no tools and is informed of it. `abort`: the cycle is aborted if it
            needs one more. `stop`: the cycle ends after the calls of the last turn have results.
        compact_at_tokens: Length of the conversation, in tokens, at which a summary replaces its beginning.
        max_output_tokens: Limit per response. None: the model's own limit.
        max_prompt_queue: Maximum number of queued prompts.
        max_steering_queue: Maximum number of waiting steers.
        fallback_models: Model strings to try in order after the model has failed permanently. Those of the same
            provider use its `provider_opts`, others use none.
        max_retries: How often a request to one model is repeated after transient errors.
        tool_max_retries: How often a call that raised is repeated, for `pure` and `idempotent` tools.
        approval_timeout_seconds: How long an approval waits for a user, in seconds. 0: indefinitely.
        immune_tools: Names of tools that a default abort does not stop.
        max_parallel_tools: Maximum number of calls of a batch that run at the same time.
        tool_timeout_seconds: Time limit for tools without their own timeout, in seconds. Also for tools whose calls are
            questions.
        event_buffer_size: Number of committed events kept for subscribers that reconnect. 0: none.
        group_id: A name, in the format of a session id, for sessions that are followed together. Children inherit it.
        restart: Whether the supervisor restarts the session after a crash: `transient` and `permanent` do, `temporary`
            parks it.
        budget: Shared spending limit of the session and its children, or None. A request that could exceed it ends its
            cycle with an error. Children get equal shares of the remainder.
        response_format: JSON Schema of the last answer of a cycle. The model gets one turn to correct an invalid
            answer. Then the cycle ends with an error. Replies contain only that answer.
        context_providers: Functions that add messages to the requests of each turn, called in order before its first
            request. Their messages are not kept in the history. See `agentrail.abc.ContextProvider`. Children have
            none.
        inline_tags: Whether `<status>` and `<title>` are removed from the model's text and published as events.
        max_agents: Maximum number of background agents alive at once.
        max_agents_total: Maximum number of background agents started in one cycle.
        max_agent_depth: How deep background agents can start agents, from 1 to 4.
        wake_on_background_end: Whether the end of a background command starts a cycle in an idle session. Its prompt is
            the command's outcome. If false, the model reads the outcome before its next prompt. Only for a command that
            ends without being stopped. Sessions below are never woken.
        mcp: Servers whose tools the session has: those of its supervisor by name, and its own as `McpServer`, which end with
            it. None: all of the supervisor's. Children have the tools that their parent has when they start.
        agents: Agents that can work for the session, in addition to the general agent, which has the session's
            equipment.

    Raises:
        OptionError: Your move: every fault, with the option, the given value and the expected one.
    """

    model: str | Provider
    tools: Sequence[Tool] = ()
    plugins: Sequence[PluginEntry] = ()
    system_prompt: str | None = None
    prompt_mode: PromptMode = "full"
    base_prompt: bool = True
    replace_sections: Mapping[str, str] = field(default=EMPTY, converter=frozen_mapping)
    session_id: str | None = None
    scope: str = NO_SCOPE
    working_dir: str | os.PathLike[str] = "."
    sandbox: Sandbox | str | None = None
    messages: Sequence[Message] = ()
    user_data: Mapping[str, JsonValue] = field(default=EMPTY, converter=frozen_mapping)
    deps: object = field(default=None, repr=False, eq=False)
    # Contains the API key.
    provider_opts: Mapping[str, Any] = field(default=EMPTY, converter=frozen_mapping, repr=False)
    max_turns: int = 100
    on_max_turns: Literal["answer", "abort", "stop"] = "answer"
    compact_at_tokens: int = 170_000
    max_output_tokens: int | None = None
    max_prompt_queue: int = 100
    max_steering_queue: int = 3
    fallback_models: Sequence[str] = ()
    max_retries: int = 3
    tool_max_retries: int = 2
    approval_timeout_seconds: float = 0.0
    immune_tools: Sequence[str] = ()
    max_parallel_tools: int = 8
    tool_timeout_seconds: float = 300.0
    event_buffer_size: int = 1000
    group_id: str | None = None
    restart: Restart = "transient"
    budget: Budget | None = None
    response_format: Mapping[str, JsonValue] | None = field(default=None, converter=frozen_mapping)
    inline_tags: bool = True
    context_providers: Sequence[ContextProvider] = ()
    max_agents: int = 8
    max_agents_total: int = 64
    max_agent_depth: int = 1
    wake_on_background_end: bool = False
    mcp: Sequence[ToolServer | str] | None = None
    agents: Sequence[Agent] = ()

    def __attrs_post_init__(self) -> None:
        OptionError.raise_for(faults_of(self))
        for name, _ in compress(_BY_OPTION, map(is_not, _values_of(self), _USUAL)):
            if isinstance(value := getattr(self, name), str | int | float):
                plain = value.value if isinstance(value, Enum) else value
                object.__setattr__(self, name, frozen_value(plain))
        if self.agents:
            ready = tuple([equip_agent(one, self.tools, self.plugins) for one in self.agents])
            object.__setattr__(self, "agents", ready)


MAX_AGENT_DEPTHS: Final = (1, 2, 3, 4)

_NAMES: Final = tuple(attribute.name for attribute in attrs.fields(SessionOptions))
_KNOWN: Final = frozenset(_NAMES)
_Check: TypeAlias = Callable[[str, Any], list[str]]
"""Returns the faults of an option, given its name and value."""
_RESTARTS: Final = get_args(Restart)
TOOL_MEMBERS: Final = ("name", "description", "parameters", "execute")
_SANDBOX_MEMBERS: Final = (
    "capabilities",
    "read",
    "write",
    "edit",
    "list_dir",
    "grep",
    "glob",
    "execute",
    "aclose",
)
_PROVIDER_MEMBERS: Final = ("name", "capabilities", "encode", "open_stream")


def decide_options(options: object, given: Mapping[str, Any]) -> SessionOptions:
    if options is None:
        return make_options(given)
    if is_blueprint(options):
        return make_options({**given, "blueprint": options})
    if not isinstance(options, SessionOptions):
        fault = f"options is {repr_of(options):.200}: expected SessionOptions, a blueprint, or keywords such as model='demo:'"
        raise OptionError([fault])
    if given:
        raise OptionError(
            [f"options were given both as one value and as keywords ({', '.join(given)}): use one of the two"]
        )
    return options


def make_options(given: Mapping[str, Any]) -> SessionOptions:
    if "blueprint" in given:
        blueprint = given["blueprint"]
        behind = {} if blueprint is None else _options_of(blueprint, given)
        given = {name: value for name, value in {**behind, **given}.items() if name != "blueprint"}
    faults = [_unknown(name) for name in given if name not in _KNOWN]
    if "model" not in given:
        faults.append(
            "model is missing: give a model string such as 'demo:', because a library call never picks one"
        )
    if faults:  # SessionOptions is never created in this case, so report its other faults here
        usable = {"model": "demo:", **{name: given[name] for name in given if name in _NAMES}}
        try:
            SessionOptions(**usable)
        except OptionError as error:
            faults += error.faults
        raise OptionError(faults)
    return SessionOptions(**given)


def is_blueprint(value: object) -> bool:
    return not isinstance(value, type) and callable(getattr(value, "options", None))


def _options_of(blueprint: Any, besides: Mapping[str, Any]) -> Mapping[str, Any]:
    # A blueprint whose prompt depends on the final options also needs the explicit ones.
    with_others = getattr(blueprint, "options_with", None)
    found = None
    if is_blueprint(blueprint):
        found = with_others(besides) if callable(with_others) else blueprint.options()
    if not isinstance(found, Mapping):
        fault = f"blueprint is {repr_of(blueprint):.200}: expected an object whose .options() returns a mapping of options"
        raise OptionError([fault])
    return found


def faults_of_value(name: str, value: object) -> list[str]:
    if name not in _KNOWN:
        return [_unknown(name)]
    return [fault for of, check in _BY_OPTION if of == name for fault in check(name, frozen_mapping(value))]


def faults_of(options: SessionOptions) -> list[str]:
    faults: list[str] = []
    # Most of the thirty options have their default, which needs no check. C code filters those out.
    for name, check in compress(_BY_OPTION, map(is_not, _values_of(options), _USUAL)):
        faults += check(name, getattr(options, name))
    return faults


def _must(is_right: Callable[[Any], bool], expected: str) -> _Check:
    def check(name: str, value: object) -> list[str]:
        return [] if is_right(value) else [f"{name} is {repr_of(value):.200}: expected {expected}"]

    return check


def _one_of(*known: str, written: str) -> _Check:
    # `in` a tuple, as the given value may be unhashable.
    return _must(lambda value: value in known, written)


def _are_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(text, str) for key, text in value.items()
    )


def _depth(name: str, value: object) -> list[str]:
    if isinstance(value, Mapping) and not isinstance(value, FrozenDict):
        return [f"{name} is nested too deeply: at most {MAX_LEVELS} levels are allowed"]
    return []


def _unicode(name: str, value: object) -> list[str]:
    # Also without a store, which could not keep it.
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return [f"{name} contains a lone surrogate, which UTF-8 cannot encode: remove it"]
    except (TypeError, ValueError, RecursionError):
        pass  # no JSON, which is reported elsewhere
    return []


def _provider_opts(name: str, value: object) -> list[str]:
    if isinstance(value, Mapping):
        return []
    kind = type(value).__name__  # type only: the value may be an API key
    return [f"{name} is of type {kind}: expected a mapping, such as {{'api_key': …}}"]


def _scope(name: str, value: object) -> list[str]:
    fault = fault_of_scope(name, value)
    return [] if fault is None else [fault]


def _directory(name: str, value: object) -> list[str]:
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    is_there = isinstance(path, str) and os.path.isdir(path)  # noqa: PTH112 - a third of it
    return [] if is_there else [f"{name} is {repr_of(path):.1000}: there is no such directory"]


def _format(name: str, value: object) -> list[str]:
    if value is None or _depth(name, value):  # excessive nesting is reported above
        return []
    fault = fault_of_format(value)
    return [] if fault is None else [fault]


def _mcp(name: str, value: object) -> list[str]:
    if isinstance(value, list | tuple) and all(
        isinstance(one, str) or isinstance(getattr(one, "name", None), str) for one in value
    ):
        given = [one if isinstance(one, str) else one.name for one in value]
        doubled = sorted({one for one in given if given.count(one) > 1})
        return [f"{name} has {doubled[0]!r} twice"] if doubled else []
    return [f"{name} is {repr_of(value):.200}: expected McpServer(…) and names of the supervisor's servers"]


def _names(what: str) -> _Check:
    return _must(
        lambda value: _is_collection(value) and all(isinstance(one, str) for one in value),
        f"a sequence of {what}",
    )


def _sandbox(_: str, sandbox: object) -> list[str]:
    if sandbox is None or (not isinstance(sandbox, str) and _has(sandbox, _SANDBOX_MEMBERS)):
        return []
    if isinstance(sandbox, str) and sandbox.startswith("local:"):
        is_there = os.path.isdir(sandbox.removeprefix("local:"))  # noqa: PTH112 - a third of it
        return [] if is_there else [f"sandbox is {sandbox!r}: there is no such directory"]
    if isinstance(sandbox, str) and sandbox in {"local", "memory"}:
        return []
    if isinstance(sandbox, str) and is_remote(sandbox):
        fault = fault_of_remote(sandbox)
        return [] if fault is None else [f"sandbox is {repr_of(shown_address(sandbox)):.200}: {fault}"]
    return [f"sandbox is {repr_of(shown_address(sandbox)):.200}: expected a sandbox, or {ADDRESS_FORMS}"]


def _whole(least: int) -> _Check:
    return _must(partial(is_whole, at_least=least), f"a whole number >= {least}")


def _tools(_: str, tools: object) -> list[str]:
    if not _is_collection(tools):
        return [f"tools is {repr_of(tools):.200}: expected a sequence of tools"]
    return [
        f"tools has {repr_of(tool):.200}: expected tools, such as functions decorated with @agentrail.tool, or objects with "
        f"{', '.join(TOOL_MEMBERS)}; {fault}"
        for tool in tools
        if (fault := fault_of_tool(tool)) is not None
    ]


def faults_of_texts(name: str, plugin: object, options: object) -> list[str]:
    """Refuse a text in place of a list, which a built-in plugin would read as a list of its letters."""
    kind = plugin if isinstance(plugin, type) else type(plugin)
    init: Any = getattr(kind, "init", None)
    is_ours = f"{getattr(init, '__module__', '')}".startswith("agentrail.plugins.")
    lists = [one for one, hint in get_annotations(init).items() if hint == Sequence[str]] if is_ours else []
    return [
        f"{name} has {kind.__name__} with {option} = {text!r:.80}: expected a list, such as [{text!r:.80}]"
        for option in lists
        if isinstance(options, Mapping) and isinstance(text := options.get(option), str)
    ]


def _lists_of_plugins(name: str, value: object) -> list[str]:
    entries = value if _is_collection(value) else ()
    with_options = [one for one in entries if isinstance(one, tuple) and len(one) == 2]  # noqa: PLR2004 - a pair
    return [fault for plugin, options in with_options for fault in faults_of_texts(name, plugin, options)]


def _agents(name: str, value: object) -> list[str]:
    if isinstance(value, str | Mapping) or not _is_sequence(value):
        return [f"{name} is {repr_of(value):.200}: expected a sequence of Agent"]
    faults: list[str] = []
    for one in value:
        if isinstance(one, Agent):
            texts = [fault for name in _TEXTS_OF_AGENT for fault in _unicode(name, getattr(one, name))]
            faults += [
                f"agent {one.name!r}: {fault}" for fault in (*_tools("tools", one.tools or ()), *texts)
            ]
        else:
            faults.append(f"{name} has {repr_of(one):.200}: expected Agent(name=…, description=…)")
    names = [one.name for one in value if isinstance(one, Agent)]
    doubled = sorted({one for one in names if names.count(one) > 1})
    return faults + [
        f"{name} has two entries named {one!r}: names are unique in a session" for one in doubled
    ]


def fault_of_tool(value: object) -> str | None:
    if isinstance(value, type):
        return "a class is not an instance: pass an instance"
    if _has_all(value, TOOL_MEMBERS):
        return None
    missing = [member for member in TOOL_MEMBERS if not _has_member(value, member)]
    return f"it has no {', '.join(missing)}" if missing else None


def is_provider(value: object) -> bool:
    return _has(value, _PROVIDER_MEMBERS)


def _has(value: object, members: tuple[str, ...]) -> bool:
    # Same result as `isinstance` with a protocol, which looks its members up on each call and takes longer than the
    # rest of this module. A class has the members of its instances but is not an instance.
    return not isinstance(value, type) and (
        _has_all(value, members) or all(_has_member(value, member) for member in members)
    )


def _has_all(value: object, members: tuple[str, ...]) -> bool:
    # One pass first: nearly every value has all members, and none of them raises. Otherwise check each member
    # separately.
    return call_guarded(lambda _: False, all, map(partial(hasattr, value), members))


def _has_member(value: object, member: str) -> bool:
    # A member that raises when read exists but is broken: its reader reports it by name.
    return call_guarded(lambda _: True, hasattr, value, member)


def _is_sequence(value: object) -> TypeGuard[Collection[object]]:
    # Not `Sequence`: sets and views work too, if they can be iterated twice.
    return isinstance(value, Collection)


def _is_collection(value: object) -> TypeGuard[Collection[object]]:
    # A string is a sequence of strings too: each of its letters would count as an item.
    return not isinstance(value, str) and _is_sequence(value)


def _unknown(name: str) -> str:
    known_elsewhere = OTHER_WORDS.get(name)
    if known_elsewhere is not None:
        return f"there is no option {name!r}: {known_elsewhere}"
    return f"there is no option {name!r}, {guess_name(name, sorted(_NAMES))}"


_flag: Final = _must(lambda value: isinstance(value, bool), "True or False")
_id: Final = _must(
    lambda value: value is None or (isinstance(value, str) and _SESSION_ID.fullmatch(value) is not None),
    "1 to 128 of A-Z a-z 0-9 . _ : -",
)
_TEXTS_OF_AGENT: Final = ("description", "system_prompt", "user_data", "replace_sections")
_BY_OPTION: Final[tuple[tuple[str, _Check], ...]] = (
    (
        "model",
        _must(lambda value: isinstance(value, str) or is_provider(value), "a model string or a provider"),
    ),
    ("tools", _tools),
    ("plugins", _must(_is_collection, "a sequence of plugins")),
    ("plugins", _lists_of_plugins),
    (
        "messages",
        _must(
            lambda value: _is_sequence(value) and all(isinstance(one, Message) for one in value),
            "a sequence of UserMessage, AssistantMessage and ToolMessage",
        ),
    ),
    (
        "prompt_mode",
        _one_of(*get_args(PromptMode), written=f"one of {', '.join(map(repr, get_args(PromptMode)))}"),
    ),
    ("replace_sections", _must(_are_texts, "texts by the keys of sections")),
    ("user_data", _must(lambda value: isinstance(value, Mapping), "a mapping")),
    ("user_data", _depth),
    ("provider_opts", _depth),
    ("response_format", _depth),
    ("provider_opts", _provider_opts),
    ("immune_tools", _names("tool names")),
    ("fallback_models", _names("model strings")),
    ("session_id", _id),
    ("scope", _scope),
    ("group_id", _id),
    ("working_dir", _directory),
    ("system_prompt", _must(lambda value: isinstance(value, str | None), "text or None")),
    ("base_prompt", _flag),
    ("sandbox", _sandbox),
    ("on_max_turns", _one_of("answer", "abort", "stop", written="'answer', 'abort' or 'stop'")),
    ("max_turns", _whole(1)),
    ("max_parallel_tools", _whole(1)),
    ("compact_at_tokens", _whole(1)),
    ("max_prompt_queue", _whole(0)),
    ("max_steering_queue", _whole(0)),
    ("max_retries", _whole(0)),
    ("tool_max_retries", _whole(0)),
    ("event_buffer_size", _whole(0)),
    ("max_output_tokens", _whole(1)),
    (
        "budget",
        _must(
            lambda value: isinstance(value, Budget | None),
            "Budget(max_cost_usd=…, max_total_tokens=…), or None",
        ),
    ),
    ("response_format", _format),
    ("inline_tags", _flag),
    ("agents", _agents),
    ("mcp", _mcp),
    (
        "context_providers",
        _must(
            lambda value: _is_sequence(value) and all(map(is_async, value)),
            "a sequence of async functions (`async def`) of (ProviderContext, messages)",
        ),
    ),
    ("max_agents", _whole(1)),
    ("max_agents_total", _whole(1)),
    (
        "max_agent_depth",
        _must(
            lambda value: value in MAX_AGENT_DEPTHS and not isinstance(value, bool),
            f"a whole number from 1 to {MAX_AGENT_DEPTHS[-1]}",
        ),
    ),
    ("wake_on_background_end", _flag),
    ("tool_timeout_seconds", _must(partial(is_seconds, above_zero=True), "a finite number above 0")),
    ("approval_timeout_seconds", _must(is_seconds, "a finite number from 0")),
    ("restart", _one_of(*_RESTARTS, written=f"one of {', '.join(_RESTARTS)}")),
    *((name, _unicode) for name in ("system_prompt", "user_data", "replace_sections")),
    *((name, _unicode) for name in ("immune_tools", "messages", "response_format")),
)
"""The checks of each option, in the order in which faults are reported. An option can have several."""
_DEFAULTS: Final = {attribute.name: attribute.default for attribute in attrs.fields(SessionOptions)}
_USUAL: Final = tuple(_DEFAULTS[name] for name, _ in _BY_OPTION)
_values_of: Final[Callable[[SessionOptions], tuple[Any, ...]]] = attrgetter(*(name for name, _ in _BY_OPTION))
