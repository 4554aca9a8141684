"""`agentrail skills`: list, show and check skills. Starts nothing and calls no model."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter

from agentrail.blueprints.configuration import read_configuration
from agentrail.blueprints.skill_discovery import SkillSource, no_such_skill, read_one
from agentrail.cli.config_setup import ConfigFiles
from agentrail.cli.exit_codes import Exit
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.stdio import write_error
from agentrail.cli.text_output import print_text
from agentrail.config.key_filter import in_one_line
from agentrail.config.skill_file import SkillDialect
from agentrail.config.skill_set import LeftOutSkill, Skill, SkillSet
from agentrail.errors import OptionError
from agentrail.tools.skill import SKILL_FILE
from agentrail.tools.tool_text import printable

app: Final = App(name="skills", result_action="return_value")

_WIDTH: Final = 26
_DESCRIPTION: Final = 100

_USUAL: Final = ConfigFiles()


@app.command(
    name="list",
    help="""List the skills that apply here with their sources, and the excluded ones with the reason.

    Exit codes: 0 listed, 2 the configuration files cannot be read.""",
)
def list_skills(*, files: ConfigFiles = _USUAL, debug: Debug = False) -> Exit:
    send_logs_to_stderr(debug=debug)
    return print_text("\n".join(_listed(_read(files))))


@app.command(
    name="show",
    help="""Show a skill's instructions, files and id.

    Exit codes: 0 shown, 2 there is no such skill, or the configuration files cannot be read.""",
)
def show_skill(
    name: Annotated[str, Parameter(help="The name of the skill, as shown by skills list.")],
    *,
    files: ConfigFiles = _USUAL,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    found = _read(files)
    skill = found.find(name)
    if skill is None:
        raise OptionError([no_such_skill(name, [one.name for one in found.skills])])
    return print_text("\n".join(_shown(skill)))


@app.command(
    name="check",
    help="""Hold skills against the format, and say each fault with its line. Without a directory: all skills that apply here.

    Exit codes: 0 all is well, 1 something is wrong, 2 there is no such directory, or the configuration files cannot be read.""",
)
def check_skills(
    *directories: Annotated[Path, Parameter(help="The directory of a skill, which contains its SKILL.md.")],
    claude: Annotated[
        bool, Parameter(help="Read the directories as Claude Code does, which has fields of its own.")
    ] = False,
    files: ConfigFiles = _USUAL,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    if not directories:
        return _judged(_read(files))
    missing = [one for one in directories if not (one / SKILL_FILE).exists()]
    OptionError.raise_for([f"{one} has no {SKILL_FILE}" for one in missing])
    found = [_read_directory(one, is_claude=claude) for one in directories]
    skills = tuple(one for one in found if isinstance(one, Skill))
    left_out = tuple(one for one in found if isinstance(one, LeftOutSkill))
    return _judged(SkillSet(skills=skills, left_out=left_out))


def _read_directory(directory: Path, *, is_claude: bool) -> Skill | LeftOutSkill:
    at = directory.absolute()
    dialect: SkillDialect = "claude" if is_claude else "open"
    source = SkillSource(directory=at.parent, shown=str(directory.parent), scope="blueprint", dialect=dialect)
    return read_one(source, at.name)


def _read(files: ConfigFiles) -> SkillSet:
    read = read_configuration(os.environ, config=files.config, trust_project=files.trust_project)
    return read.check().read_skills()


def _judged(found: SkillSet) -> Exit:
    for skill in found.skills:
        for warning in skill.warnings:
            write_error(f"warning: {warning}")
    wrong = [one for one in found.left_out if one.faults or not one.why.startswith(_NO_FAULT)]
    for left_out in wrong:
        for fault in left_out.faults or (f"{left_out.source}/{left_out.name}: {left_out.why}",):
            write_error(in_one_line(str(fault)))
    done = (
        print_text("\n".join(f"{one.name}: well ({one.source})" for one in found.skills))
        if found.skills
        else Exit.DONE
    )
    return Exit.FAILED if wrong else done


_NO_FAULT: Final = ("that of ", "it is disabled")


def _listed(found: SkillSet) -> Iterator[str]:
    if not found.skills:
        yield "there are no skills here: write one in .agentrail/skills/NAME/SKILL.md"
    for one in found.skills:
        text = one.description
        shown = text if len(text) <= _DESCRIPTION else f"{text[:_DESCRIPTION]}…"
        yield f"{one.name:<{_WIDTH}} {shown}  ({one.scope}, {in_one_line(one.source)})"
    if found.left_out:
        yield ""
        yield "left out:"
    for left_out in found.left_out:
        yield f"  {in_one_line(left_out.name):<{_WIDTH}} {in_one_line(left_out.why)}  ({in_one_line(left_out.source)})"


def _shown(skill: Skill) -> Iterator[str]:
    text = skill.text
    rows = {
        "name": skill.name,
        "id": skill.digest,
        "source": f"{skill.source} ({skill.scope}, {'trusted' if skill.is_trusted else 'not trusted'})",
        "description": skill.description,
        "license": text.license,
        "compatibility": text.compatibility,
        "metadata": ", ".join(f"{key}: {value}" for key, value in text.metadata.items()),
        "tools": "all" if text.allowed is None else ", ".join(text.allowed) or "none",
        "not with": ", ".join(text.disallowed),
        "delegates": "to a sub-agent" if text.delegates else "",
        "not read": ", ".join(text.others),
    }
    for key, value in rows.items():
        if value:
            yield f"{key:<14} {in_one_line(value, 1_200)}"
    for warning in skill.warnings:
        yield f"{'warning':<14} {warning}"
    for file in skill.files:
        yield f"{'file':<14} {in_one_line(file.path)} ({file.size:,} bytes)"
    yield ""
    yield from map(printable, text.instructions.split("\n"))
