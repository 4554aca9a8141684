"""Blueprints from settings: looks up names, imports code, validates values, and reports all faults with lines."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

import agentrail.plugins
from agentrail.abc import Secret, Tool, name_of
from agentrail.app import VARIABLES, provider_of
from agentrail.blueprints.blueprint import Blueprint
from agentrail.blueprints.capabilities import CAPABILITIES, SKILLS, memory_capability
from agentrail.blueprints.capability import is_guard
from agentrail.blueprints.config_discovery import read_bytes
from agentrail.blueprints.embedder import read_embedder
from agentrail.blueprints.mcp_servers import look_at_servers
from agentrail.blueprints.permission_options import faults_of_policies
from agentrail.blueprints.secret_refs import KeyFile, secret_of
from agentrail.blueprints.skill_discovery import SkillUse, no_such_skill
from agentrail.blueprints.system_prompt import PromptLayers, without_comment
from agentrail.blueprints.web import read_web
from agentrail.config.config_file import MAX_CONFIG_BYTES
from agentrail.config.imported_agents import literal_prompt
from agentrail.config.schema import HeaderForm, PluginForm, PromptForm, SecretForm
from agentrail.config.settings import AgentSettings, Settings, Sourced, modules_of, no_such_agent
from agentrail.config.skill_set import NO_SKILLS, Skill, SkillSet
from agentrail.config.toml_positions import ConfigFault
from agentrail.core.policy.budget import Budget
from agentrail.core.stack.loaded_stack import PluginEntry, load_plugin
from agentrail.errors import AgentrailError, OptionError, PluginError
from agentrail.errors.name_guesses import guess_name, near_name
from agentrail.named_modules import NAMED_MODULES
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import call_guarded
from agentrail.plugins.base import Plugin
from agentrail.providers.options import ProviderOptions
from agentrail.runtime.session_options import fault_of_tool, faults_of_value
from agentrail.tools import builtin, builtin_names

_NOT_OPTIONS: Final = frozenset(
    {
        *(
            "description",
            "base",
            "capabilities",
            "agents",
            "background",
            "wake",
            "handoff",
            "public",
            "prompt",
            "budget",
        ),
        *("skills", "skills_in_prompt"),
    }
)


def build_blueprint(
    settings: Settings, name: str | None, *, skills: Callable[[], SkillSet] = SkillSet
) -> Blueprint:
    """Build the blueprint of an agent and its agents. Imports the code that it names."""
    builder = Builder(settings, skills)
    if name is not None and name not in settings.agents:
        raise OptionError([no_such_agent(name, settings.agents)])
    return _without_faults(builder, builder.defaults() if name is None else builder.agent(name))


def build_coding(settings: Settings, *, skills: Callable[[], SkillSet] = SkillSet) -> Blueprint:
    builder = Builder(settings, skills)
    return _without_faults(builder, builder.coding())


def _without_faults(builder: "Builder", made: Blueprint | None) -> Blueprint:
    if made is None or builder.faults:
        raise OptionError(list(dict.fromkeys(str(fault) for fault in builder.faults)))
    return made


def faults_of_building(
    settings: Settings, *, skills: Callable[[], SkillSet] = SkillSet
) -> tuple[ConfigFault, ...]:
    """Build everything and return all faults. Imports named code."""
    builder = Builder(settings, skills)
    builder.defaults()
    for name in settings.agents:
        builder.agent(name, leads=_leads(settings, name))
    for name in settings.providers:
        builder.look_at_provider(name)
    return tuple(dict.fromkeys(builder.faults))


def _leads(settings: Settings, name: str) -> bool:
    default = settings.default_agent
    if settings.host or (default is not None and default.value == name):  # a server serves all of them
        return True
    named = [one.values["agents"].plain for one in settings.agents.values() if "agents" in one.values]
    return not any(name in names for names in named)


class Builder:
    """Builder of blueprints from one set of settings, with cached lookups."""

    def __init__(self, settings: Settings, skills: Callable[[], SkillSet] = SkillSet) -> None:
        self._read_skills = skills
        self._skills: SkillSet | None = None
        self.faults: list[ConfigFault] = []
        self._settings = settings
        # The modules of all agents, so that tools cannot write them from now on.
        for module, folder in modules_of(settings):
            with suppress(OptionError):  # reported when the module is imported
                NAMED_MODULES.admit(NAMED_MODULES.trace(module, folder))
        self._found: dict[tuple[str, str], Any] = {}
        # Built once, so that all agents share one cache of pages, and faults are reported even if no agent
        # uses it.
        self._web = read_web(settings.web, self._fault)
        look_at_servers(settings, self._fault)
        read_embedder(settings.embedder, self._fault)  # used by the server and by commands, not by agents
        auto = settings.memory.get("auto")
        self._memory = memory_capability(auto=auto is not None and auto.value)

    @property
    def _web_tools(self) -> dict[str, Tool]:
        return {name_of(tool): tool for tool in self._web.tools}

    def defaults(self) -> Blueprint | None:
        values = dict(self._settings.defaults)
        return self._made("agent", values, None, self._options(values))

    def coding(self) -> Blueprint | None:
        values = {key: said for key, said in self._settings.defaults.items() if key != "tools"}
        return self._made("coding", values, None, self._options(values), is_coding=True)

    def agent(self, name: str, *, leads: bool = True) -> Blueprint | None:
        """Build an agent as a leader, with `[defaults]` for unset values."""
        agent = self._settings.agents[name]
        values = {**self._settings.defaults, **agent.values}
        if not {"base", "capabilities"}.isdisjoint(agent.values) and "tools" not in agent.values:
            values.pop("tools", None)
        options = self._options(values)
        shared = self._settings.defaults.get("plugins")
        # Naming one more plugin does not drop the guards of all agents.
        if shared is not None and "plugins" in agent.values:
            options["plugins"] = (*self._plugins(shared), *options.get("plugins", ()))
        listed = values.get("agents")
        below = [self._below(one.value, agent) for one in (() if listed is None else listed.value)]
        options["agents"] = tuple(one for one in below if one is not None)
        made = self._made(name, values, agent, options)
        if made is not None and leads:
            try:
                made.options()
            except AgentrailError as error:
                self._failed(agent, error)
        return made

    def look_at_provider(self, name: str) -> None:
        """Validate a provider's options, without reading secrets."""
        options = self._settings.providers[name]
        if name not in VARIABLES:
            guess = guess_name(name, VARIABLES)
            for said in options.values():
                self._fault(said, f"there is no provider {name!r}: {guess}")
            return
        for option, said in options.items():
            if option in {"api_key", "headers"}:
                continue
            try:
                ProviderOptions.parse({option: said.value})
            except OptionError as error:
                for fault in error.faults:
                    self._fault(said, fault)

    # --- a blueprint

    def _below(self, name: str, leader: AgentSettings) -> Blueprint | None:
        """Build an agent that works for another, with the leader's unset values."""
        agent = self._settings.agents.get(name)
        if agent is None or name == leader.name:  # already reported as a fault of the settings
            return None
        values = {key: said for key, said in agent.values.items() if key != "agents"}
        if "agents" in agent.values:
            where = agent.values["agents"]
            self._fault(
                where,
                f"agent {name!r} works for {leader.name!r}, but has agents of its own: remove one of the two",
            )
        options = self._options(values)
        shared = self._settings.defaults.get("plugins")
        if shared is not None and "plugins" in values:  # the leader's guards are in its stack anyway
            more = [one for one in self._plugins(shared) if not is_guard(one)]
            options["plugins"] = (*more, *options.get("plugins", ()))
        return self._made(name, values, agent, options)

    def _made(
        self,
        name: str,
        values: Mapping[str, Sourced],
        agent: AgentSettings | None,
        options: dict[str, Any],
        *,
        is_coding: bool = False,
    ) -> Blueprint | None:
        is_coding = is_coding or "base" in values
        is_leader = agent is None or "agents" in options
        policies = (
            *(() if agent is None or agent.policy.is_empty else (agent.policy,)),
            *(self._settings.policies if is_leader else ()),
        )
        wrong = [*faults_of_policies(policies)]
        for said, fault in wrong:
            self._fault(said, fault)
        try:
            base = Blueprint.coding() if is_coding else Blueprint()
            own = {key: options.pop(key) for key in ("tools", "plugins") if key in options and is_coding}
            use = self._skills_of(name, values)
            if use is not None:
                options["skills"] = use
            if "skills_in_prompt" in values:
                options["system_prompt"] = self._prompt_with_skills(
                    name, values["skills_in_prompt"], options.get("system_prompt")
                )
            made = base.override(
                name=name,
                description=values["description"].value if "description" in values else base.description,
                capabilities=(*base.capabilities, *self._capabilities(values)),
                permissions=() if wrong else policies,
                **{key: values[key].value for key in ("background", "wake", "handoff") if key in values},
                **options,
            )
            return (
                made.with_tools(*own.get("tools", ())).with_plugins(*own.get("plugins", ())) if own else made
            )
        except AgentrailError as error:
            self._failed(agent, error)
            return None

    def _failed(self, agent: AgentSettings | None, error: AgentrailError) -> None:
        said = next(iter(self._settings.defaults.values()), None) if agent is None else agent.own
        for fault in getattr(error, "faults", (str(error),)):
            if said is not None:
                self._fault(said, fault)

    def _options(self, values: Mapping[str, Sourced]) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for name, said in values.items():
            if name == "tools":
                options[name] = tuple(self._tools(said))
            elif name == "plugins":
                options[name] = tuple(self._plugins(said))
            elif name == "prompt":
                options["system_prompt"] = self._prompt(said)
                if said.value.replace:
                    options["prompt"] = PromptLayers(replace=said.value.replace)
            elif name == "budget":
                options[name] = self._budget(said)
            elif name not in _NOT_OPTIONS:
                options[name] = self._value(name, said)
        return {name: value for name, value in options.items() if value is not None}

    def _fault(self, said: Sourced, text: str) -> None:
        self.faults.append(ConfigFault(place=said.place, said=text))

    # --- values

    def _value(self, name: str, said: Sourced) -> Any:
        faults = faults_of_value(name, said.plain)
        models = [said] if name == "model" else said.value if name == "fallback_models" else []
        for one in models:
            try:
                provider_of(one.value)
            except AgentrailError as error:
                self._fault(one, str(error))
                faults = faults or [""]
        for fault in filter(None, faults):
            self._fault(said, fault)
        return None if faults else said.plain

    def _prompt(self, said: Sourced) -> str | None:
        prompt: PromptForm = said.value
        if prompt.file is None:
            return prompt.text
        text = self._text_in(said, prompt.file)
        return None if text is None else without_comment(text).strip("\n")

    def _text_in(self, said: Sourced, name: str) -> str | None:
        path = Path(said.folder) / name
        try:
            data = read_bytes(path)
            text = data.decode()
        except OptionError as error:
            self._fault(said, error.faults[0])
        except UnicodeDecodeError:
            self._fault(said, f"{path} is not UTF-8: save it as UTF-8")
        else:
            if len(data) <= MAX_CONFIG_BYTES:
                return text
            self._fault(said, f"{path} is too large: expected at most {MAX_CONFIG_BYTES // 1024} KiB")
        return None

    def _budget(self, said: Sourced) -> Budget | None:
        form = said.value
        try:
            return Budget(
                max_cost_usd=form.max_cost_usd,
                max_total_tokens=form.max_total_tokens,
                allow_unknown_prices=bool(form.allow_unknown_prices),
            )
        except OptionError as error:
            for fault in error.faults:
                self._fault(said, fault)
            return None

    def _capabilities(self, values: Mapping[str, Sourced]) -> Iterator[Any]:
        said = values.get("capabilities")
        for one in () if said is None else said.value:
            if one.value == SKILLS:  # its tools are unknown until skills are read
                continue
            configured = {made.name: made for made in (self._web, self._memory)}
            found = configured.get(one.value) or CAPABILITIES.get(one.value)
            if found is None:
                self._fault(one, _unknown("capability", one.value, [*CAPABILITIES, SKILLS]))
            else:
                yield found

    def _skills_of(self, name: str, values: Mapping[str, Sourced]) -> SkillUse | None:
        said = values.get("skills")
        bundles = values.get("capabilities")
        names = [] if said is None else [one.value for one in said.value]
        if said is None and bundles is not None and SKILLS in bundles.plain:
            names = ["*"]
        for one in () if said is None else said.value:
            if one.value != "*" and self._skill(name, one) is None:
                return None
        if said is None and not names:
            return None
        how = self._settings.skills.get("tools")
        # An empty list means no skills, also for an agent of another one.
        found = self._all_skills().only(names) if names else NO_SKILLS
        return SkillUse(skills=found, tools="restrict" if how is None else how.value)

    def _skill(self, agent: str, said: Sourced) -> Skill | None:
        found = self._all_skills().find(said.value)
        if found is None:
            known = [one.name for one in self._all_skills().skills]
            self._fault(said, f"agent {agent!r}: {no_such_skill(said.value, known)}")
        return found

    def _all_skills(self) -> SkillSet:
        if self._skills is None:
            self._skills = self._read_skills()
        return self._skills

    def _prompt_with_skills(self, name: str, said: Sourced, own: str | None) -> str | None:
        found = [self._skill(name, one) for one in said.value]
        texts = [
            f"# {one.name}\n\n{literal_prompt(one.text.instructions)}" for one in found if one is not None
        ]
        return "\n\n".join(filter(None, (own, *texts))) or None

    def _tools(self, said: Sourced) -> Iterator[Tool]:
        for one in said.value:
            tool = self._looked_up(one, one.value, "tool", {**_BUILT_IN_TOOLS, **self._web_tools})
            fault = None if tool is None else fault_of_tool(tool)
            if fault is not None:
                self._fault(one, f"{one.value} is not a tool: {fault}")
            elif tool is not None:
                yield tool

    def _plugins(self, said: Sourced) -> Iterator[PluginEntry]:
        for one in said.value:
            form: PluginForm = one.value
            found = self._looked_up(one, form.use, "plugin", built_in_plugins())
            if found is None:
                continue
            entry: PluginEntry = (found, form.options) if form.options is not None else found
            try:
                load_plugin(entry)
            except PluginError as error:
                for fault in error.faults:
                    self._fault(one, fault)
            else:
                yield entry

    def _looked_up(self, said: Sourced, name: str, what: str, known: Mapping[str, Any]) -> Any:
        if ":" not in name:
            if name not in known:
                self._fault(said, _unknown(what, name, known))
            return known.get(name)
        key = (said.folder, name)
        if key not in self._found:
            try:
                self._found[key] = import_name(name, said.folder)
            except OptionError as error:
                self._found[key] = None
                self._fault(said, f"the {what} cannot be used: {error.faults[0]}")
        return self._found[key]


def _unknown(what: str, name: str, known: Collection[str]) -> str:
    guess = guess_name(name, sorted(known), mark="?")
    yours = "" if what == "capability" else "; your own are written as package.module:NAME"
    return f"no built-in {what} is named {name!r:.80}: {guess}{yours}"


def import_name(name: str, folder: str, *, example: str = "tools", advice: str = "") -> Any:
    """Import `package.module:NAME` from a file in the directory or an installed package.

    The fault ends in the advice if the module has no similar name. `{!r}` in it is the name.
    """
    module, _, attribute = name.partition(":")
    if not module or "/" in module or module.startswith(".") or not attribute.isidentifier():
        raise OptionError(
            [f"{name!r:.80} is not package.module:NAME, such as desk:{example} for `{example}` in desk.py"]
        )

    def refuse(error: BaseException) -> NoReturn:
        if isinstance(error, OptionError):
            raise error
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            where = f"searched in {folder} and among installed packages"
            raise OptionError([f"there is no module {module!r}, {where}: {error}"]) from error
        raise OptionError([f"module {module!r} cannot be imported: {describe_bug(error)}"]) from error

    imported = call_guarded(refuse, _imported, module, folder)
    if not hasattr(imported, attribute):
        guess = near_name(attribute, vars(imported), ", did you mean {!r}", advice.format(attribute))
        raise OptionError([f"module {module!r} has no {attribute!r}{guess}"])
    return getattr(imported, attribute)


def _imported(module: str, folder: str) -> Any:
    try:
        return NAMED_MODULES.load(module, folder)
    except SystemExit as leaving:  # a script that calls sys.exit on import would end the command silently
        message = f"it exits the interpreter on import (SystemExit: {leaving})"
        raise ImportError(message) from leaving


_BUILT_IN_TOOLS: Final[Mapping[str, Tool]] = {name: builtin(name)[0] for name in builtin_names()}


def built_in_plugins() -> Mapping[str, type[Plugin[Any]]]:
    found = vars(agentrail.plugins)
    return {
        name: one
        for name, one in found.items()
        if isinstance(one, type) and issubclass(one, Plugin) and one.__module__ != Plugin.__module__
    }


# --- the options of a provider


def provider_options(settings: Settings, model: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return a model's provider options, overridden by the provider's environment variables."""
    name = model.partition(":")[0]
    key_variable, url_variable = VARIABLES.get(name, ("", ""))
    won = {"api_key": bool(environ.get(key_variable)), "base_url": bool(environ.get(url_variable))}
    faults: list[str] = []
    options: dict[str, Any] = {}
    for option, said in settings.providers.get(name, {}).items():
        if won.get(option):
            continue
        try:
            options[option] = _revealed(said, environ)
        except OptionError as error:
            faults += [str(ConfigFault(place=said.place, said=fault)) for fault in error.faults]
    OptionError.raise_for(faults)
    return options


def _revealed(said: Sourced, environ: Mapping[str, str]) -> Any:
    value = said.value
    if isinstance(value, SecretForm):
        key = Secret(secret_of(value, said.folder, environ))
        if value.file is None:
            return key
        ProviderOptions.parse({"api_key": key})  # a function is not checked before its first call
        return KeyFile(value, said.folder, key)
    if isinstance(value, Mapping):
        return {name: _header_of(one, said.folder, environ) for name, one in value.items()}
    return value


def _header_of(form: HeaderForm, folder: str, environ: Mapping[str, str]) -> str | None:
    return form.text if form.secret is None else secret_of(form.secret, folder, environ)
