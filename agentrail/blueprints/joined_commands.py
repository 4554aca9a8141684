"""Slash commands from skills and other programs' files, added to a registry."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from agentrail.blueprints.blueprint import Blueprint
from agentrail.blueprints.skill_discovery import SkillUse
from agentrail.commands import CommandAnswer, CommandCall, CommandRegistry, SlashCommand
from agentrail.commands.built_in import built_in_commands
from agentrail.commands.slash_command import COMMAND_NAME
from agentrail.config.imported_commands import ImportedCommand, expand_command
from agentrail.config.skill_set import NO_SKILLS, Skill, SkillSet
from agentrail.tools.skill import prompt_of_skill

_BUILT_IN: Final = frozenset(one.name for one in built_in_commands())


SkillsOfAgents: TypeAlias = SkillSet | Mapping[str, SkillSet]
"""The skills of one session, or of each agent by name, as on a server."""


def skills_of_session(blueprint: Blueprint, agent: str | None) -> SkillsOfAgents | None:
    """Return the skills of a session and of each agent it may be handed to, or None."""
    own = NO_SKILLS if blueprint.skills is None else blueprint.skills.skills
    found = {agent or "": own}
    for one in blueprint.options().get("agents", ()):
        if one.handoff and isinstance(one.skills, SkillUse):
            found[one.name] = one.skills.skills
        elif one.handoff:  # an agent without tools keeps the session's, including `skill`
            found[one.name] = own if one.tools is None else NO_SKILLS
    if len(found) > 1 and any(one.skills for one in found.values()):
        return found
    return None if blueprint.skills is None else own


def commands_of_skills(skills: SkillsOfAgents) -> tuple[SlashCommand, ...]:
    """Return a command `/name` for each skill that users may open.

    Equal names of several agents share a command, which opens the current agent's skill.
    """
    if isinstance(skills, SkillSet):
        return tuple(_of_skill(one.name, {None: one}) for one in skills.skills if one.text.for_user)
    by_name: dict[str, dict[str | None, Skill]] = {}
    for agent, found in skills.items():
        for one in found.skills:
            if one.text.for_user:
                by_name.setdefault(one.name, {})[agent] = one
    return tuple(_of_skill(name, of_agents) for name, of_agents in by_name.items())


def commands_of_programs(found: Iterable[ImportedCommand]) -> tuple[SlashCommand, ...]:
    """Return a command for each file of another program, without executing or opening its contents."""
    return tuple(_of_program(one) for one in found if COMMAND_NAME.fullmatch(one.name.lower()))


def join_commands(
    registry: CommandRegistry,
    *,
    skills: SkillsOfAgents | None = None,
    imported: Sequence[ImportedCommand] = (),
) -> CommandRegistry:
    """Add commands. Precedence: existing names, then skills, then files of other programs."""
    of_skills = () if skills is None else commands_of_skills(skills)
    of_programs = commands_of_programs(reversed(imported))
    unnamed = [one.name for one in imported if not COMMAND_NAME.fullmatch(one.name.lower())]
    known = {one.name for one in registry.commands} - _BUILT_IN
    joined = {one.name: one for one in (*of_programs, *of_skills)}
    taken = sorted(joined.keys() & _BUILT_IN)
    left_out = (
        *(f"/{name} of {joined[name].source} is built in: give it another name" for name in taken),
        *(
            f"/{name:.80} of another program cannot be typed: expected a name of a-z 0-9 _ -"
            for name in unnamed
        ),
    )
    new = [one for name, one in joined.items() if name not in known and name not in _BUILT_IN]
    made = registry.with_commands(*new, left_out=left_out)
    return made if skills is None else made.replacing(_list_skills(made, skills))


def _of_skill(name: str, of_agents: Mapping[str | None, Skill]) -> SlashCommand:
    first = next(iter(of_agents.values()))

    async def run(call: CommandCall) -> CommandAnswer:  # noqa: RUF029 - a command's work, which is awaited
        return CommandAnswer(prompt=prompt_of_skill(of_agents.get(call.desk.agent, first), call.text))

    agents = tuple([agent for agent in of_agents if agent is not None])
    return SlashCommand(
        name=name,
        description=first.text.description,
        arguments=first.text.argument_hint or "[what to do]",
        run=run,
        needs_session=False,  # its message may start the session
        in_history=True,
        source="skill",
        agent=agents or None,
    )


def _of_program(command: ImportedCommand) -> SlashCommand:
    async def run(call: CommandCall) -> CommandAnswer:  # noqa: RUF029 - as above
        return CommandAnswer(prompt=expand_command(command, call.text))

    return SlashCommand(
        name=command.name.lower(),
        description=command.description or f"a prompt of {command.origin}",
        arguments=command.argument_hint,
        run=run,
        in_history=True,
        source=command.origin,
    )


def _list_skills(registry: CommandRegistry, skills: SkillsOfAgents) -> SlashCommand:
    async def run(call: CommandCall) -> CommandAnswer:  # noqa: RUF029 - as above
        own = skills if isinstance(skills, SkillSet) else skills.get(call.desk.agent or "", NO_SKILLS)
        lines = tuple(f"{one.name}: {one.text.description}" for one in own.skills)
        return CommandAnswer(
            lines=lines or ("this session has no skills: name them for its agent, as in skills = ['*']",)
        )

    built_in = registry.find("skills")
    return SlashCommand(
        name=built_in.name,
        description=built_in.description,
        run=run,
        needs_session=built_in.needs_session,
        source=built_in.source,
    )
