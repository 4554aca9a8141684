"""Agents of Markdown files, from the file to what their session may do (12.1, 12.2)."""

import pytest

from agentrail.blueprints.builder import build_blueprint
from agentrail.blueprints.configuration import read_configuration
from agentrail.errors import OptionError

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
