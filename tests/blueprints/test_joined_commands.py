"""Slash commands that skills and files of other programs bring."""

from typing import Any

import pytest

from agentrail.blueprints import read_skills
from agentrail.blueprints.joined_commands import join_commands
from agentrail.commands import CommandDesk, CommandRegistry, SlashCommand
from agentrail.config.imported_commands import read_markdown_command
from agentrail.errors import CommandError
from tests.blueprints.test_skills import put

SESSION: Any = object()  # no command here asks it anything
DESK = CommandDesk(session=SESSION, at_terminal=True)


def of_claude(name, text):
    """A command as Claude Code has it."""
    return read_markdown_command("claude", f"{name}.md", text)


async def answered(registry, line):
    """What a line comes to."""
    return await registry.run_line(line, DESK)


async def test_a_skill_is_opened_by_its_name(tmp_path):
    """12.4: what is typed behind it is what it is asked to do; `/skills` lists those of the session."""
    put(tmp_path, "notes")
    registry = join_commands(CommandRegistry(), skills=read_skills(tmp_path))
    answer = await answered(registry, "/Notes the second week")
    assert (
        answer.prompt
        == "Open the skill 'notes' with the tool `skill`, and do what it says.\n\nthe second week"
    )
    assert (await answered(registry, "/skills")).lines == ("notes: About notes.",)
    (row,) = [one for one in registry.rows(DESK) if one.name == "notes"]
    assert (row.source, row.available) == ("skill", True)


async def test_on_a_server_a_skill_is_opened_by_who_has_it(tmp_path):
    """Of one name each agent opens its own; sessions of the others read that they cannot, and a message may begin with it (12.4, 12.10)."""
    put(tmp_path / "one", "notes")
    put(tmp_path / "one", "draft")
    put(tmp_path / "two", "notes")
    put(tmp_path / "two", "review")
    of_agents = {"scribe": read_skills(tmp_path / "one"), "critic": read_skills(tmp_path / "two")}
    registry = join_commands(CommandRegistry(), skills={**of_agents, "plain": read_skills()})
    for agent in of_agents:
        begins = await registry.run_line("/notes today", CommandDesk(agent=agent))
        assert begins.prompt.startswith("Open the skill 'notes'")
        assert begins.prompt.endswith("today")
    with pytest.raises(CommandError, match="/review cannot be run here: needs the agent critic"):
        await registry.run_line("/review", CommandDesk(session=SESSION, agent="scribe"))
    with pytest.raises(CommandError, match="needs the agent scribe or critic"):
        await registry.run_line("/notes", CommandDesk(session=SESSION, agent="plain"))
    for agent, lines in (("critic", ["notes", "review"]), ("plain", ["this session has no skills"])):
        answer = await registry.run_line("/skills", CommandDesk(session=SESSION, agent=agent))
        assert [line.partition(":")[0] for line in answer.lines] == lines


async def test_without_skills_nothing_changes():
    """A session that has none keeps the command that says so."""
    assert join_commands(CommandRegistry()).commands == CommandRegistry().commands
    none = join_commands(CommandRegistry(), skills=read_skills())
    assert (await answered(none, "/skills")).lines == ("this session has no skills",)


async def test_the_project_wins_over_a_skill_and_a_skill_over_other_programs(tmp_path):
    """Of one name there is one command; of two files of other programs the first is the project's."""
    put(tmp_path, "review")
    put(tmp_path, "notes")

    async def run(_call):
        """Do nothing."""
        raise AssertionError

    own = SlashCommand(name="review", description="The project's.", run=run, source="project")
    found = [
        of_claude("review", "Theirs."),
        of_claude("notes", "Theirs."),
        of_claude("tidy", "First."),
        of_claude("tidy", "Second."),
    ]
    joined = join_commands(CommandRegistry().with_commands(own), skills=read_skills(tmp_path), imported=found)
    assert {one.name: joined.find(one.name).source for one in (own, *found)} == {
        "review": "project", "notes": "skill", "tidy": "claude"
    }  # fmt: skip
    assert (await answered(joined, "/tidy")).prompt == "First."
