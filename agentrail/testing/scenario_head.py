"""The head of a scenario: options of the session, its tools and its plugins."""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

from agentrail.core.policy.budget import Price
from agentrail.core.policy.patience import StallOptions, StallPolicy
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.session.agent_records import AgentLimits, AgentSpec
from agentrail.core.session.state import SessionConfig
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.core.values.toolbox import ToolSpec
from agentrail.messages import SessionId
from agentrail.testing.plugins import PuppetPlugin, PuppetRule, read_rule
from agentrail.testing.scenario_output import GROUPS, REFS, Group
from agentrail.testing.scenario_signals import FORMS, SCRIPTED_MODEL
from agentrail.testing.scenario_syntax import (
    JSON,
    TEXT,
    Line,
    LineWords,
    Pair,
    ScenarioError,
    WordForm,
    free,
    option,
    quote,
    split_words,
)

# Plugins: built-in ones by name, puppets by their rules.
#
# plugin SecurityGuard blocked_paths=["*.secret"]
# plugin guard priority=50 BeforeTool.shell=block:"no"
# plugin my.guards:SpendingGuard limit=3
# plugin my.guards:STACK[2]

StackOrigin: TypeAlias = tuple[str, Sequence[PluginEntry]]
"""The import path of a list of plugins, `package.module:NAME`, and the list itself."""

_STEP: Final = re.compile(r"(?P<name>\w+)|\[(?P<index>\d+)\]|\.")


def read_plugin(text: str) -> Any:
    name, *words = split_words(text)
    if not isinstance(name, str):
        message = f"expected the name of a plugin, got {name!r}"
        raise ScenarioError(message)
    pairs = [word for word in words if isinstance(word, Pair)]
    if len(pairs) < len(words):
        message = f"a plugin takes options and rules as key=value (got {text!r})"
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
    """Import the object at a path such as `package.module:NAME`, `:Class.Inner` or `:STACK[2]`."""
    module_name, _, rest = path.partition(":")
    try:
        found: Any = import_module(module_name)
        for step in _STEP.finditer(rest):
            if step["name"] is not None:
                found = getattr(found, step["name"])
            elif step["index"] is not None:
                found = found[int(step["index"])]
    except (ImportError, AttributeError, IndexError, TypeError) as error:
        message = f"{path!r} cannot be loaded: {error}"
        raise ScenarioError(message) from error
    return found


def print_plugin(entry: PluginEntry, origin: StackOrigin | None = None) -> str:
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
        name = getattr(plugin, "name", plugin)
        return f"# plugin {name} cannot be written here: give it a name in a module"
    return " ".join(("plugin", found, *(f"{key}={json.dumps(value)}" for key, value in options.items())))


def _path_of(plugin: Any) -> str | None:
    """Return the import path of a class, or of an instance that a module holds under a name."""
    cls = plugin if isinstance(plugin, type) else type(plugin)
    made_of: Any = getattr(plugin, "_function", cls)
    module = sys.modules.get(made_of.__module__ or "")
    if module is None:  # created by `exec`, like the code of documentation pages
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


_GRAMMAR: Final = """
    max_turns= compact_at_tokens= max_output_tokens= max_prompt_queue= max_steering_queue= max_parallel_tools= max_retries=
    tool_max_retries= approval_timeout_ms= question_timeout_ms= immune_tools= inline_tags= response_format= budget=
    on_max_turns= @model fallbacks= agents= agent_limits= host_hooks= gathers_context= system_prompt= prompt_mode= user_data=
    working_dir= group_id= replaced_sections= wake_on_background_end= @id
"""
_TOOL_GRAMMAR: Final = """
    name @parameters class=effect_class retries=max_retries timeout=timeout_seconds [unkillable:killable] [polling]
    [question:answered_by=user] [child:answered_by=child] [client:answered_by=client]
    [machine:answered_by=machine]
"""
_OPTIONS_OF_A_TOOL: Final = frozenset({"schema", "class", "retries", "timeout"})
_BARE_NAME: Final = re.compile(r"[^\s\"=]+")
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})


def _price_of(text: str) -> Price:
    read, _, written = text.partition("/")
    return Price(input=float(read), output=float(written))


def _groups_of(text: str) -> frozenset[Group]:
    groups = GROUPS - {REFS} if text == "all" else frozenset(map(Group, text.split(",")))
    if not groups <= GROUPS:
        raise ValueError(text)
    return groups


_TRAITS: Final = ("background", "wake", "handoff")


def _agent_of(text: str) -> AgentSpec:
    name, *traits = text.split("+")
    if not set(traits) <= set(_TRAITS):
        raise ValueError(text)
    given: dict[str, Any] = {trait: trait in traits for trait in _TRAITS}
    return AgentSpec(name=name, description="", **given)


def _agent_word(agent: AgentSpec) -> str:
    return "+".join((agent.name, *(trait for trait in _TRAITS if getattr(agent, trait))))


def _limits_of(text: str) -> AgentLimits:
    depth, alive, total = map(int, text.split("/"))
    return AgentLimits(max_depth=depth, max_agents=alive, max_agents_total=total)


def _limits_word(limits: AgentLimits) -> str:
    return f"{limits.max_depth}/{limits.max_agents}/{limits.max_agents_total}"


_POLICIES: Final[Mapping[str, StallPolicy]] = {"report": "report", "retry": "retry", "abort": "abort"}


def _stalls_of(text: str) -> StallOptions:
    policy, *times = text.split("/")
    if not times:
        return StallOptions(stall_policy=_POLICIES[policy])
    stall_ms, timeout_ms = map(int, times)
    return StallOptions(stall_policy=_POLICIES[policy], stall_ms=stall_ms, timeout_ms=timeout_ms)


def _stalls_word(stalls: StallOptions) -> str:
    if stalls == StallOptions(stall_policy=stalls.stall_policy):
        return stalls.stall_policy
    return f"{stalls.stall_policy}/{stalls.stall_ms}/{stalls.timeout_ms}"


_FORMS: Final[Mapping[Any, WordForm]] = {
    **FORMS,
    Price: WordForm(
        "usd of a million tokens, read/written", _price_of, lambda price: f"{price.input:g}/{price.output:g}"
    ),
    StallOptions: WordForm("|".join(_POLICIES), _stalls_of, _stalls_word),
    AgentSpec: WordForm("name+background+wake+handoff", _agent_of, _agent_word),
    AgentLimits: WordForm("depth/alive/total", _limits_of, _limits_word),
    ResponseFormat: WordForm("a JSON schema", ResponseFormat, lambda one: JSON.encode(one.schema)),
}
_MODEL: Final = Line(
    ModelFacts,
    f"model=?{SCRIPTED_MODEL} window=context_window assumed=window_is_assumed max_output=max_output_tokens model_retries=max_retries stall_policy=stalls price=",
    forms=_FORMS,
)
_USUAL_ID: Final = SessionId("scenario")


def _read_id(words: LineWords) -> Mapping[str, Any]:
    given = words.take_option("id")
    session_id = _USUAL_ID if given is None else SessionId(str(given.value))
    return {"session_id": session_id, "path": (session_id,)}


def _write_id(config: SessionConfig) -> Iterator[str]:
    if config.session_id != _USUAL_ID:
        yield f"id={TEXT.encode(config.session_id)}"


_SESSION: Final = Line(
    SessionConfig, _GRAMMAR, {"model": _MODEL, "id": free("id=…", _read_id, _write_id)}, _FORMS
)
_GROUPS: Final = WordForm(f"{'|'.join(sorted(GROUPS))}|all", _groups_of, ",".join, frozenset())


def _read_parameters(words: LineWords) -> Mapping[str, Any]:
    for whole in words.take_all(_is_schema, 1):
        return {"parameters": whole.value}
    pairs: list[Pair] = list(words.take_all(_is_parameter))
    schema = {
        "type": "object",
        "properties": {pair.key: {"type": pair.value.rstrip("?")} for pair in pairs},
        "required": [pair.key for pair in pairs if not pair.value.endswith("?")],
    }
    return {"parameters": schema}


def _is_schema(word: object) -> bool:
    # A parameter may have this name too. Then its value is a type.
    return isinstance(word, Pair) and word.key == "schema" and isinstance(word.value, Mapping)


def _is_parameter(word: object) -> bool:
    return isinstance(word, Pair) and isinstance(word.value, str) and word.value.rstrip("?") in _TYPES


def _write_parameters(spec: ToolSpec) -> Iterator[str]:
    properties: Any = spec.parameters.get("properties", {})
    required: Any = spec.parameters.get("required", ())
    if not all(map(_is_simple, properties.items())):
        yield f"schema={JSON.encode(spec.parameters)}"
        return
    for key, schema in properties.items():
        yield f"{key}={schema['type']}{'' if key in required else '?'}"


def _is_simple(parameter: tuple[str, Any]) -> bool:
    """Whether the type is a parameter's only constraint, and its name is not an option of tools."""
    name, schema = parameter
    return (
        name not in _OPTIONS_OF_A_TOOL
        and _BARE_NAME.fullmatch(name) is not None
        and isinstance(schema, Mapping)
        and schema.get("type") in _TYPES
        and schema.keys() <= {"type", "description", "title", "default"}
    )


_PARAMETERS: Final = {
    "parameters": free(
        "PARAMETER=string|integer|number|boolean|array|object|null…", _read_parameters, _write_parameters
    )
}
_TOOL: Final = Line(ToolSpec, _TOOL_GRAMMAR, _PARAMETERS, fixed={"description": ""})


def read_session(text: str) -> tuple[SessionConfig, frozenset[Group]]:
    """Parse the session line: the configuration, and the groups of events to print."""
    fields: dict[str, Any] = {}
    show = option("show", _GROUPS)
    words = LineWords.of(text, f"session {_SESSION.usage} {show.usage}")
    words.take_name()
    show.read(words, fields)
    config: SessionConfig = _SESSION.read(words)
    words.check_that_all_was_read("session")
    return config, fields["show"]


def print_session(config: SessionConfig, show: Sequence[str]) -> str:
    return " ".join(("session", *_SESSION.write(config), f"show={','.join(show)}"))


def read_tool(text: str) -> ToolSpec:
    words = LineWords.of(text, f"tool {_TOOL.usage}")
    words.take_name()
    spec: ToolSpec = _TOOL.read(words)
    words.check_that_all_was_read("a tool")
    return spec


def print_tool(spec: ToolSpec) -> str:
    return " ".join(("tool", *_TOOL.write(spec)))
