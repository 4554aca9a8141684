"""`agentrail prompt show`: the initial system prompt of an agent, section by section. Calls no model and starts nothing."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cyclopts import App

from agentrail.blueprints.blueprint import Blueprint
from agentrail.blueprints.system_prompt import OWN_KEY, PromptSection, join_prompt
from agentrail.cli.config_setup import (
    AgentOption,
    CommandSetup,
    ConfigFiles,
    model_of_files,
    read_setup,
    write_notice,
)
from agentrail.cli.exit_codes import Exit
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.stdio import without_controls
from agentrail.cli.text_output import print_text
from agentrail.core.policy.request_context import fixed_tokens_of
from agentrail.core.values.toolbox import Toolbox

app: Final = App(name="prompt", result_action="return_value")


@app.command(
    name="show",
    help="""Print the system prompt of an agent: each section with its source and its approximate tokens.

    The mode and the sections of plugins follow while a session runs. Only replacements from `prompt.replace` are shown of
    these; the console's context panel shows all. Exit codes: 0 printed, 2 wrong usage or configuration.""",
)
def show_prompt(
    *,
    agent: AgentOption = None,
    files: ConfigFiles = ConfigFiles(),  # noqa: B008 - frozen
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    setup = read_setup(files, agent)
    write_notice(setup)
    blueprint = Blueprint() if setup is None else setup.blueprint
    chosen = model_of_files(setup, os.environ)
    given = {} if chosen is None else {"model": chosen.model}
    sections = blueprint.prompt_sections(given)
    replaced = blueprint.replaced_sections(given)
    lines = [*tell_prompt(sections, source_of_own(setup)), *tell_replaced(replaced)]
    return print_text(without_controls("\n".join(lines)))


def source_of_own(setup: CommandSetup | None) -> str | None:
    """Return the location of an agent's own prompt, by file and line, or None if no file has one."""
    said = None if setup is None else setup.said("prompt")
    if said is None:
        return None
    return str(said.place) if said.value.file is None else f"{said.value.file}, {said.place}"


def tell_prompt(sections: Sequence[PromptSection], own: str | None) -> Iterator[str]:
    if not sections:
        yield "there is no system prompt"
        return
    for section in sections:
        source = own if section.key == OWN_KEY and own is not None else section.source
        yield f"--- {section.key} ({source}), about {section.tokens} tokens"
        yield section.text
        yield ""
    total = fixed_tokens_of(join_prompt(sections), Toolbox())
    yield f"--- {len(sections)} section{'s' if len(sections) > 1 else ''}, about {total} tokens"


def tell_replaced(replaced: Mapping[str, str]) -> Iterator[str]:
    for key, text in replaced.items():
        tokens = fixed_tokens_of(text, Toolbox())
        yield ""
        if text:
            yield f"--- {key} (prompt.replace, in place of what a plugin adds while a session runs), about {tokens} tokens"
            yield text
        else:
            yield f"--- {key} (prompt.replace): what a plugin adds while a session runs is left out"
