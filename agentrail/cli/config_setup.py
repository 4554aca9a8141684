"""How commands use configuration files: which file, which agent, and which source takes precedence."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from attrs import frozen
from cyclopts import Parameter

from agentrail.cli.stdio import write_error
from agentrail.errors import OptionError

if TYPE_CHECKING:
    from agentrail.app import ChosenModel
    from agentrail.blueprints.blueprint import Blueprint
    from agentrail.blueprints.configuration import Configuration
    from agentrail.config.settings import Sourced

AgentOption = Annotated[
    str | None, Parameter(help="An agent of the configuration files. Default: their default_agent.")
]

MODEL_VARIABLE: Final = "AGENTRAIL_MODEL"


@Parameter(name="*")
@frozen(kw_only=True)
class ConfigFiles:
    config: Annotated[
        Path | None,
        Parameter(
            help="The configuration file. Default: AGENTRAIL_CONFIG, otherwise an agentrail.toml here or above."
        ),
    ] = None
    trust_project: Annotated[
        bool,
        Parameter(help="Trust the project's configuration this time; agentrail trust does so permanently."),
    ] = False

    def read(self) -> "Configuration":
        """Read the applicable files, after reporting an untrusted project. Their faults are not raised."""
        from agentrail.blueprints.configuration import read_configuration

        found = read_configuration(os.environ, config=self.config, trust_project=self.trust_project)
        if found.notice is not None:
            write_error(f"{found.notice}.")
        return found


@frozen(kw_only=True)
class CommandSetup:
    """The settings of configuration files for one command.

    Attributes:
        agent: The selected agent, or None if none is named.
    """

    configuration: "Configuration"
    agent: str | None
    blueprint: "Blueprint"
    is_coding: bool = False

    def said(self, option: str) -> "Sourced | None":
        settings = self.configuration.settings
        own = settings.agents[self.agent].values.get(option) if self.agent is not None else None
        return own or settings.defaults.get(option)


def read_setup(
    files: ConfigFiles, agent: str | None, cwd: Path | None = None, *, coding: bool = False
) -> CommandSetup | None:
    """Read the applicable files and build the agent's blueprint, or return None without any files and agent."""
    # Imported below: these modules take 0.05 s, which a run without files should not wait for.
    from agentrail.blueprints.config_discovery import find_files

    where = Path.cwd() if cwd is None else cwd.resolve()
    found = find_files(files.config, os.environ, where)
    if not found.project and not found.user and not coding:
        if agent is not None:
            raise OptionError(
                [
                    f"there is no agent {agent!r:.80}: no configuration file was found, agentrail init writes one"
                ]
            )
        return None
    from agentrail.blueprints.builder import build_blueprint, build_coding
    from agentrail.blueprints.configuration import read_configuration

    read = read_configuration(os.environ, cwd=where, trust_project=files.trust_project, files=found)
    configuration = read.check()
    if coding:
        made = build_coding(configuration.settings, skills=configuration.read_skills)
        return CommandSetup(configuration=configuration, agent=None, blueprint=made, is_coding=True)
    default = configuration.settings.default_agent
    name = default.value if agent is None and default is not None else agent
    return CommandSetup(
        configuration=configuration,
        agent=name,
        blueprint=build_blueprint(configuration.settings, name, skills=configuration.read_skills),
    )


def with_agent(setup: CommandSetup, agent: str) -> CommandSetup:
    if agent == setup.agent:
        return setup
    from agentrail.blueprints.builder import build_blueprint

    configuration = setup.configuration
    made = build_blueprint(configuration.settings, agent, skills=configuration.read_skills)
    return CommandSetup(configuration=configuration, agent=agent, blueprint=made)


def keep_rules(config: Path | None, cwd: Path | None, rules: tuple[str, ...]) -> str:
    """Save "always" rules for a directory and return the location, or an empty text if they cannot be saved."""
    from agentrail.blueprints.saved_permissions import keep_allowed  # same reason

    where = Path.cwd() if cwd is None else cwd.resolve()
    kept = keep_allowed(rules, os.environ, cwd=where, config=config)
    return "" if kept is None else kept.shown


def write_notice(setup: CommandSetup | None) -> None:
    if setup is not None and setup.configuration.notice is not None:
        write_error(f"{setup.configuration.notice}.")


def model_of_files(setup: CommandSetup | None, environ: Mapping[str, str]) -> "ChosenModel | None":
    """Return the model that files name, unless a variable overrides it."""
    if setup is None or environ.get(MODEL_VARIABLE):
        return None
    from agentrail.app import ChosenModel

    said = setup.said("model")
    return None if said is None else ChosenModel(model=said.value, why=str(said.place))


def options_of_files(
    setup: CommandSetup | None, model: str, environ: Mapping[str, str], *, may_bypass: bool = False
) -> dict[str, Any]:
    if setup is None:
        return {}
    from agentrail.blueprints.builder import provider_options

    return {
        **setup.blueprint.override(may_bypass=may_bypass).options(),
        "provider_opts": provider_options(setup.configuration.settings, model, environ),
    }
