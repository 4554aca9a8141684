"""Slash commands at a terminal, and the same ones over HTTP (12.10)."""

import attrs
import pytest

from agentrail.commands import CommandDesk
from agentrail.commands.command_output import show_row
from agentrail.testing.models import ScriptedModel, says
from tests.cli.rig import run_in, write
from tests.commands.folders import commands_at, write_commands
from tests.gateway.web import serving
from tests.runtime.rig import on_bounded_time


@pytest.fixture
def place(tmp_path):
    """A project and a home with a command each."""
    return write_commands(tmp_path)


async def chat(place, *words, lines):
    typed = "".join(f"{line}\n" for line in (*lines, "/quit")).encode()
    return await run_in(place, "chat", "--model", "demo:fast", *words, stdin=typed)


@pytest.mark.blueprint("G-021")
@on_bounded_time
async def test_commands_of_three_sources_are_the_same_everywhere(place):
    """G-021: built in, of the project, of the user: in `/help` at a terminal, in `/help` of a host, and in `GET /commands`."""
    registry = commands_at(place)
    ran = await chat(place, lines=["/help"])
    async with serving(ScriptedModel([says("ok")]), commands=registry) as web:
        await web.chat(session_id="main")
        told = (await web.client.get("/commands", params={"session_id": "main"})).json()["commands"]
        helped = (await web.post("/commands/help", {"session_id": "main"})).json()["lines"]
    assert {row["source"] for row in told} == {"built in", "project", "user"}
    lines = [line for line in ran.err.splitlines() if line.startswith("/")]
    rows = registry.rows(CommandDesk(session=web, at_terminal=True))
    assert lines == [show_row(row) for row in rows]
    assert [line.partition(" [not here")[0] for line in helped] == lines
    listed = [
        attrs.asdict(row, filter=lambda one, _: one.name not in {"available", "why_not"}) for row in rows
    ]
    assert [{name: row[name] for name in listed[0]} for row in told] == listed
    assert [row["name"] for row in told if not row["available"]] == [
        *("steer", "approve", "edit", "reject", "answer", "decline"),
        *("clear", "sessions", "resume", "quit"),
    ]


async def test_a_chat_runs_commands_of_files(place):
    """One says its prompt, with the words behind it; one that cannot become a command is left out with its line; one that names no model is said by its name, and no other model is asked."""
    (place / "project" / ".agentrail" / "commands" / "help.md").write_text("Mine.")
    typed = ("/GIT:commit everything", "/thank you", "/cost", "/plan", "/gut:commit x", "/etc/hosts is mine")
    ran = await chat(place, "--tools", "none", lines=(*typed, "/quit", "never"))
    assert ran.code == 0
    assert "left out: .agentrail/commands/help.md: /help is built in: give the file another name" in ran.err
    assert "Commit everything." in ran.out
    assert "/thank takes no arguments" in ran.err
    assert "cost: $0.0000" in ran.err
    assert "there is no plan and there are no todos" in ran.err
    assert "there is no command /gut:commit: did you mean /git:commit?" in ran.err
    assert "/etc/hosts is mine" in ran.out
    assert "never" not in ran.out

    odd = place / "project" / ".agentrail" / "commands" / "odd.md"
    odd.write_text("---\nmodel: nonsense:x\n---\nSay it.")
    ran = await chat(place, "--tools", "none", "--trust-project", lines=["/odd"])
    assert ran.code == 0
    assert "error: /odd names the model nonsense:x: there is no provider 'nonsense'." in ran.err
    assert "Say it." not in ran.out


async def test_skills_of_the_agent_and_files_of_other_programs_are_commands_of_a_chat(place):
    """12.4, 12.15: by the files that the configuration names."""
    helps = '[agents.helper]\ndescription = "x"\nskills = ["*"]\n'
    write(place, f'version = 1\n[import]\ncommands = ["claude"]\n{helps}')
    skill = "---\nname: notes\ndescription: Keeps notes.\n---\nWrite them down."
    write(place, skill, "project/.agentrail/skills/notes/SKILL.md")
    write(place, "---\ndescription: Tidies up.\n---\nTidy $ARGUMENTS.", "project/.claude/commands/tidy.md")
    helper = ("--agent", "helper", "--trust-project")
    ran = await chat(place, *helper, lines=("/help", "/skills", "/tidy the attic"))
    assert ran.code == 0, ran.err
    for said in ("/notes", "Keeps notes.", "/tidy", "Tidies up.", "/git:commit", "notes: Keeps notes."):
        assert said in ran.out + ran.err, said
