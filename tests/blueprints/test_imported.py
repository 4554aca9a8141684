"""Files of other programs, beside ours: read on request, narrowed like ours, and what is not read is named once."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentrail.blueprints.builder import build_blueprint, faults_of_building
from agentrail.blueprints.configuration import read_configuration
from agentrail.blueprints.system_prompt import fill_in
from agentrail.config.imported_agents import literal_prompt
from agentrail.errors import OptionError
from agentrail.plugins.permission_policy import LISTS

# One file of each tool, in the form that its vendor documents:
# - https://code.claude.com/docs/en/sub-agents and .../skills and .../settings and .../slash-commands
# - https://developers.openai.com/codex/subagents, https://github.com/openai/codex/blob/main/docs/prompts.md
# - https://geminicli.com/docs/cli/custom-commands
FILES = {
    ".claude/agents/code-reviewer.md": """---
name: code-reviewer
description: Expert code review specialist. Use PROACTIVELY after code changes: quality, security.
tools: Read, Grep, Glob, Bash
disallowedTools: Bash
model: sonnet
maxTurns: 12
permissionMode: dontAsk
skills:
  - review-checklist
color: purple
hooks:
  PreToolUse:
    - matcher: "Bash"
---

You are a senior code reviewer.
""",
    ".codex/agents/explorer.toml": '''name = "explorer"
description = "Read-only codebase explorer."
model = "gpt-5.4-mini"
model_reasoning_effort = "medium"
sandbox_mode = "read-only"
developer_instructions = """
Stay in exploration mode.
"""
nickname_candidates = ["Atlas"]
''',
    ".claude/skills/review-checklist/SKILL.md": """---
description: What to look at in a review.
argument-hint: [file]
allowed-tools: Read Grep
model: opus
---
Look at names first.
""",
    ".claude/settings.json": """{
  "permissions": {
    "allow": ["Bash(npm run lint)", "Bash(python *)", "Bash(git * main)"],
    "ask": ["Bash(git push:*)"],
    "deny": ["Read(./.env)", "Read(/secrets/**)", "WebFetch", "Bash(curl:*)"],
    "defaultMode": "acceptEdits",
    "additionalDirectories": ["../docs/"]
  },
  "hooks": {}
}
""",
    ".claude/settings.local.json": '{"permissions": {"deny": ["Bash(rm:*)", "NotebookEdit"]}}',
}
TOML = """[import]
agents = ["claude", "codex"]
permissions = ["claude"]
[skills]
import = ["claude"]
[models]
sonnet = "anthropic:claude-sonnet-4-5"
"""
REFUSED = [
    ".claude/agents/code-reviewer.md:11: color: is not read",
    ".claude/agents/code-reviewer.md:12: hooks: is not read",
    ".claude/settings.json:3: permissions.allow: 'Bash(git * main)' is refused: a star in the middle matches nothing; write out the command",
    ".claude/settings.json:7: permissions.additionalDirectories: is not read",
    ".claude/settings.json:9: hooks: is not read",
    ".claude/settings.local.json:1: permissions.deny: 'NotebookEdit' is ignored: there is no such tool",
    ".codex/agents/explorer.toml:3: model: 'gpt-5.4-mini' is ignored: map it to a model in [models]",
    ".codex/agents/explorer.toml:4: model_reasoning_effort: is not read",
    ".codex/agents/explorer.toml:9: nickname_candidates: is not read",
]


@pytest.fixture
def place(tmp_path):
    """A project with files of other programs, and a home beside it."""
    (tmp_path / "home").mkdir()
    for name, text in FILES.items():
        write(tmp_path / "proj" / name, text)
    write(tmp_path / "proj" / "agentrail.toml", TOML)
    return tmp_path / "proj"


def write(path: Path, text: str) -> None:
    """Write a file, with the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def read(place, **given):
    return read_configuration(
        {"HOME": str(place.parent / "home")}, cwd=place, **{"trust_project": True, **given}
    )


def policies(found):
    return [
        {name: tuple(rule.value for rule in getattr(one, name)) for name in LISTS}
        for one in found.settings.policies
    ]


@pytest.mark.blueprint("G-027")
def test_one_file_of_each_tool_becomes_the_blueprint_that_is_written_here(place):
    """G-027: agents, skills and permissions; each refused field is named once."""
    found = read(place).check()
    assert faults_of_building(found.settings, skills=found.read_skills) == ()
    reviewer = build_blueprint(found.settings, "code-reviewer", skills=found.read_skills)
    assert reviewer.description.startswith(
        "Expert code review specialist. Use PROACTIVELY after code changes: quality"
    )
    options = reviewer.options()
    assert [one.name for one in options["tools"]] == ["read_file", "grep", "glob"]
    assert (options["model"], options["max_turns"]) == ("anthropic:claude-sonnet-4-5", 12)
    assert (
        options["system_prompt"]
        == "You are a senior code reviewer.\n\n# review-checklist\n\nLook at names first."
    )
    assert [one.mode.value for one in reviewer.permissions if one.mode] == ["dont_ask", "accept_edits"]
    explorer = build_blueprint(found.settings, "explorer", skills=found.read_skills)
    assert explorer.options()["system_prompt"] == "Stay in exploration mode."
    assert "model" not in explorer.options()
    assert (explorer.permissions[0].mode.value, explorer.permissions[0].deny[0].value) == (
        "plan",
        "exit_plan",
    )
    assert policies(found) == [
        {"deny": ("shell(rm:*)",), "ask": (), "allow": ()},
        {
            "deny": ("read_file(./.env)", "read_file(./secrets/**)", "web_fetch", "shell(curl:*)"),
            "ask": ("shell(git push:*)",),
            "allow": ("shell(npm run lint)", "shell(python *)"),
        },
    ]
    said = [str(one) for one in found.notes]
    stars = [one for one in said if "asks where it did not there" in one]
    assert sorted(set(said) - set(stars)) == REFUSED
    assert len(said) == len(set(said))
    (star,) = stars
    assert "shell(python *)" in star
    (skill,) = [one for one in found.read_skills().skills if one.scope != "built_in"]
    assert (skill.name, skill.text.allowed, skill.text.argument_hint) == (
        "review-checklist",
        ("read_file", "grep"),
        "[file]",
    )
    assert [str(one) for one in skill.warnings] == [
        ".claude/skills/review-checklist/SKILL.md:5: model: model is not read"
    ]


def test_commands_are_found_and_what_is_wrong_with_one_is_told(place):
    """12.15: by their paths, the project's first; each with what is not read, and one that is none with its reason."""
    write(place / "agentrail.toml", '[import]\ncommands = ["claude", "codex", "gemini"]\n')
    write(place.parent / "home" / ".agentrail" / "agentrail.toml", '[import]\ncommands = ["claude"]\n')
    write(place.parent / "home" / ".claude" / "commands" / "mine.md", "Mine.")
    write(place / ".claude" / "commands" / "git" / "commit.md", "---\nmodel: opus\n---\nCommit $ARGUMENTS.")
    write(place / ".codex" / "prompts" / "review.md", "Review $1.")
    write(place / ".gemini" / "commands" / "git" / "fix.toml", 'prompt = "Fix {{args}}"\n')
    found = read(place).check()
    assert [(one.name, one.origin) for one in found.commands] == [
        ("git:commit", "claude"),
        ("review", "codex"),
        ("git:fix", "gemini"),
        ("mine", "claude"),
    ]
    assert [str(one) for one in found.notes] == [".claude/commands/git/commit.md:1: model is not read"]
    assert ".gemini/commands/git/fix.toml" in [one.key for one in found.files.project]
    write(place / ".gemini" / "commands" / "git" / "fix.toml", "prompt =")
    write(place / ".codex" / "prompts" / "review.md", "---\na: *b\n---\n")
    (place / ".claude" / "commands" / "git" / "commit.md").write_bytes(b"\xff")
    wrong = read(place)
    assert [one.name for one in wrong.commands] == ["mine"]
    assert wrong.faults == ()
    assert [str(one).partition(": ")[0] for one in wrong.notes if "is left out" in str(one)] == [
        ".claude/commands/git/commit.md:1",
        ".codex/prompts/review.md:1",
        ".gemini/commands/git/fix.toml:1",
    ]


def test_nothing_is_read_unless_it_is_asked_for(place):
    """And by the project nothing of the user's, and the other way round."""
    write(place / "agentrail.toml", "")
    assert read(place).settings.agents == {}
    write(place.parent / "home" / ".claude" / "agents" / "mine.md", "---\nname: mine\ndescription: x\n---\n")
    write(place.parent / "home" / ".agentrail" / "agentrail.toml", '[import]\nagents = ["claude"]\n')
    assert list(read(place).settings.agents) == ["mine"]


def test_files_of_other_programs_are_trusted_and_narrowed_like_ours(place):
    """12.1: until they are, `allow` and wider modes do not count, and no model of theirs; they are among the files that are hashed."""
    found = read(place, trust_project=False)
    granted = [str(one) for one in found.not_granted]
    assert "models.sonnet (agentrail.toml:7)" in granted
    assert "allow shell(python *) (.claude/settings.json:3)" in granted
    assert "the mode accept_edits (.claude/settings.json:6)" in granted
    assert policies(found)[1]["allow"] == ()
    assert policies(found)[1]["deny"][0] == "read_file(./.env)"
    assert "model" not in found.settings.agents["code-reviewer"].values
    assert [one.key for one in found.files.project] == [
        "agentrail.toml",
        *sorted(one for one in FILES if "SKILL" not in one and "settings" not in one),
        ".claude/settings.local.json",
        ".claude/settings.json",
    ]


def test_a_rule_that_cannot_be_said_here_is_left_out_by_name(place):
    """The others stay."""
    write(
        place / ".claude" / "settings.json",
        '{"permissions": {"deny": ["Read(a/../b)", "Read(x)", "Bash(a && b *)"], "ask": ["Grep(a/**b)"]}}',
    )
    found = read(place).check()
    assert policies(found)[1] == {"deny": ("read_file(x)",), "ask": (), "allow": ()}
    said = [
        str(one) for one in found.notes if "settings.json" in str(one) and "is not read: deny" in str(one)
    ]
    assert len(said) == 2


WRONG_FILES = {
    ".claude/agents/README.md": "# Our agents\n",
    ".claude/agents/twice.md": "---\nname: code-reviewer\ndescription: x\n---\n",
    ".claude/agents/ours.md": "---\nname: ours\ndescription: x\n---\n",
    ".claude/agents/lost.md": "---\nname: lost\ndescription: x\ntools: Task(nobody)\n---\n",
    ".claude/agents/itself.md": "---\nname: itself\ndescription: x\ntools: Task(itself)\n---\n",
    ".claude/agents/circle.md": "---\nname: circle\ndescription: x\ntools: Task(ours)\n---\n",
    ".claude/agents/open.md": "---\nname: [\n",
    ".codex/agents/bad.toml": "{{{",
    ".claude/commands/bad.md": "---\n[\n",
    ".gemini/commands/bad.toml": "description = 1\n",
}


@pytest.mark.parametrize("name", [*WRONG_FILES, "bytes", "long", "link"])
def test_one_wrong_file_of_another_program_is_left_out_and_named(place, name):
    """With its line, in the notes; all other agents are there, and nothing stops."""
    write(
        place / "agentrail.toml",
        '[agents.ours]\nprompt = "x"\nagents = ["circle"]\n[agents.circle2]\n[import]\nagents = ["claude", "codex"]\ncommands = ["claude", "gemini"]\n'
        if name.endswith("circle.md")
        else '[agents.ours]\nprompt = "x"\n[import]\nagents = ["claude", "codex"]\ncommands = ["claude", "gemini"]\n',
    )
    before = {*read(place).settings.agents}
    path = place / (name if "/" in name else ".claude/agents/bad.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "link":
        path.symlink_to(place / "agentrail.toml")
    else:
        path.write_bytes({"bytes": b"\xff", "long": b"x" * 70_000}.get(name) or WRONG_FILES[name].encode())
    found = read(place)
    shown = path.relative_to(place).as_posix()
    assert any(str(one).startswith(f"{shown}:") and "is left out" in str(one) for one in found.notes), (
        found.notes
    )
    assert {*found.settings.agents} == before
    if not name.endswith("circle.md"):  # then ours names one that there is not, which is ours to mend
        assert found.faults == ()


@pytest.mark.parametrize("data", [b"{{{", b"\xff"])
def test_permissions_that_cannot_be_read_are_a_fault(place, data):
    """What they deny would be allowed, if the file were left out."""
    write(place / ".claude/settings.json", "")
    (place / ".claude/settings.json").write_bytes(data)
    assert any(str(one).startswith(".claude/settings.json:1: ") for one in read(place).faults)


@given(st.text(alphabet="$\\{}aH_ [@", max_size=30))
def test_a_body_of_another_program_stands_for_itself(text):
    """`${HOME}`, `$${HOME}` and `${FILES[@]}` are no values of ours."""
    assert fill_in(literal_prompt(text), {}) == (text, [])


def test_crowds_are_refused(place, monkeypatch):
    """12.1: they are hashed, and read, one by one."""
    monkeypatch.setattr("agentrail.blueprints.config_discovery.MAX_AGENT_FILES", 0)
    with pytest.raises(OptionError, match="has 1 agents: expected at most 0"):
        read(place)
