"""Agents of Markdown files, from the file to what their session may do (12.1, 12.2)."""

import pytest

import agentrail
from agentrail.blueprints.building import build_blueprint
from agentrail.blueprints.configuration import read_configuration
from agentrail.errors import OptionError
from agentrail.testing.models import FunctionModel, calls, says

LEAD = """---
description: Leads.
agents: [scout]
tools: task, read_file, write_file
permissions:
  mode: accept_edits
  allow: [task]
---

You lead.
"""
SCOUT = """---
description: Looks.
max_turns: 4
plugins: [OutputFilter]
permissions:
  deny: [write_file, "read_file(*.pem)"]
budget:
  max_total_tokens: 100000
---

You look.
"""


@pytest.fixture
def project(tmp_path):
    """A project of two agents."""
    folder = tmp_path / "proj" / ".agentrail" / "agents"
    folder.mkdir(parents=True)
    (folder / "lead.md").write_text(LEAD)
    (folder / "scout.md").write_text(SCOUT)
    (tmp_path / "proj" / "a.pem").write_text("SECRET")
    (tmp_path / "proj" / "a.txt").write_text("TEXT")
    return tmp_path / "proj"


async def test_an_agent_of_a_file_works_and_may_what_both_files_allow(project):
    """Its prompt, plugins, permissions and turns hold; its leader's guards are there, and what it denies its leader may."""
    read = read_configuration({"HOME": str(project.parent)}, cwd=project, trust_project=True).check()
    lead = build_blueprint(read.settings, "lead")
    (scout,) = lead.options()["agents"]
    assert (scout.max_turns, scout.budget.max_total_tokens) == (4, 100_000)
    offered = []

    def answer(request):
        offered.append((request.system.splitlines()[-1], request.tools.names))
        if request.system.endswith("You look."):
            if len(request.messages) == 1:
                return calls(
                    ("read_file", {"path": "a.pem"}),
                    ("read_file", {"path": "a.txt"}),
                    ("write_file", {"path": "b.txt", "content": "x"}),
                )
            return says(" | ".join(one.text for one in request.messages[-1].results))
        match len(request.messages):
            case 1:
                return calls(("task", {"description": "Look.", "subagent_type": "scout"}))
            case 3:
                return calls(("write_file", {"path": "c.txt", "content": "x"}))
        return says(request.messages[2].results[0].text)

    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(
            lead, model=FunctionModel(answer), working_dir=project, sandbox="local"
        )
        said = (await session.ask("go")).split(" | ")
    assert "denies it" in said[0]
    assert "TEXT" in said[1]
    assert "denies it" in said[2]
    assert not (project / "b.txt").exists()
    assert (project / "c.txt").read_text() == "x"
    assert offered[0] == ("You lead.", ("read_file", "task", "write_file"))
    assert offered[1] == ("You look.", ("read_file",))


def test_faults_of_an_agent_are_said_with_its_line(project):
    """Rules that cannot be read, a plugin that there is not, an option of a leader: all at once (12.11)."""
    path = project / ".agentrail" / "agents" / "scout.md"
    path.write_text(SCOUT.replace("write_file,", '"shell(",').replace("OutputFilter", "OutputFilters"))
    read = read_configuration({"HOME": str(project.parent)}, cwd=project, trust_project=True)
    with pytest.raises(OptionError) as refused:
        build_blueprint(read.check().settings, "lead")
    said = "\n".join(refused.value.faults)
    assert "scout.md:6: agents.scout.permissions.deny[0]" in said
    assert "did you mean 'OutputFilter'" in said
