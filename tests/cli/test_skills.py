"""`agentrail skills`, and skills in `config check` and `trust`."""

import pytest

from tests.cli.rig import run_in, write

SKILL = "---\nname: pdf\ndescription: Reads: PDFs\nlicense: MIT\nallowed-tools: Read Odd\nmetadata:\n  mode: delegate\n---\nDo it.\n\x1b[31mNow."


@pytest.fixture
def place(place):
    """A project with a skill, and a home directory beside it."""
    write(place, SKILL, "project/.agents/skills/pdf/SKILL.md")
    return place


async def test_skills_are_listed_with_what_is_left_out_and_shown(place):
    """Name, description, source, and the reason; what one says, its files and its id, and nothing that a terminal obeys. Files that are wrong are told with their lines."""
    ran = await run_in(place, "skills", "show", "pdf")
    assert ran.code == 0
    for said in (
        "description    Reads: PDFs",
        "license        MIT",
        "tools          read_file",
        "delegates      to a sub-agent",
        "there is no tool 'Odd' here",
        "file           SKILL.md",
        "Do it.\n\\x1b[31mNow.",
    ):
        assert said in ran.out
    gone = await run_in(place, "skills", "show", "pfd")
    assert (gone.code, "there is no skill 'pfd': did you mean 'pdf'?" in gone.err) == (2, True)

    write(place, "x", "home/.agents/skills/bad/SKILL.md")
    write(place, f"---\nname: long\ndescription: {'x' * 150}\n---\nx", "home/.agents/skills/long/SKILL.md")
    ran = await run_in(place, "skills", "list")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith(f"long{' ' * 23}{'x' * 100}…  (user, ")
    assert lines[1].endswith("Reads: PDFs  (project, .agents/skills)")
    assert [line.split()[0] for line in lines[2:4]] == ["write-a-skill", "write-agents-md"]
    assert lines[2].endswith("(built_in, built in)")
    assert lines[5] == "left out:"
    assert "SKILL.md:1: expected front matter" in lines[6]
    (place / "project" / ".agents" / "skills" / "pdf" / "SKILL.md").unlink()
    for name in ("bad", "long"):
        (place / "home" / ".agents" / "skills" / name / "SKILL.md").unlink()
    disabled = '[skills]\ndisable = ["write-a-skill", "write-agents-md"]\n'
    write(place, disabled)
    assert "there are no skills here" in (await run_in(place, "skills", "list")).out

    write(place, "[skills]\nimprt = 1\n")
    for words in (("list",), ("show", "pdf"), ("check",)):
        ran = await run_in(place, "skills", *words)
        assert (ran.code, ran.out) == (2, "")
        assert "agentrail.toml:2: skills.imprt: unknown key, did you mean 'import'" in ran.err


async def test_skills_are_held_against_the_format(place):
    """Each fault with its line, all of them; what is only odd is a warning."""
    ran = await run_in(place, "skills", "check")
    assert (ran.code, ran.out) == (
        0,
        "pdf: well (.agents/skills)\nwrite-a-skill: well (built in)\nwrite-agents-md: well (built in)\n",
    )
    assert "warning: .agents/skills/pdf/SKILL.md:3: this line is not YAML" in ran.err
    write(place, "---\nname: Bad\nlicense: [a]\n---\nx", "project/x/bad/SKILL.md")
    ran = await run_in(place, "skills", "check", "x/bad", ".agents/skills/pdf")
    assert (ran.code, ran.out) == (1, "pdf: well (.agents/skills)\n")
    assert "x/bad/SKILL.md:1: has no description" in ran.err
    assert "x/bad/SKILL.md:2: name: expected 1 to 64" in ran.err
    assert "x/bad/SKILL.md:3: license: expected a text, got a list" in ran.err
    gone = await run_in(place, "skills", "check", "nowhere")
    assert (gone.code, gone.err) == (2, "agentrail: nowhere has no SKILL.md.\n")
    write(place, "---\ndescription: x\n---\nx", "project/x/mine/SKILL.md")
    assert (await run_in(place, "skills", "check", "x/mine")).code == 1
    assert (await run_in(place, "skills", "check", "--claude", "x/mine")).code == 0


async def test_trust_and_check_know_skills_and_files_of_others(place):
    """A skill is trusted by its id; what is not read of other programs' files is named."""
    write(place, '[import]\nagents = ["claude"]\n[skills]\ntools = "approve"\n')
    write(place, "---\nname: a\ndescription: b\ncolor: red\n---\nx", "project/.claude/agents/a.md")
    checked = await run_in(place, "config", "check")
    assert (checked.code, "not read: .claude/agents/a.md:4: color: is not read" in checked.err) == (0, True)
    assert "skills.tools = approve" in checked.err.splitlines()[0]
    trusted = await run_in(place, "trust")
    assert "agentrail.toml, .claude/agents/a.md, .agents/skills/pdf/ (" in trusted.out
    assert "(project, trusted)" in (await run_in(place, "skills", "show", "pdf")).out
    checked = await run_in(place, "config", "check")
    assert "[skills]\n  tools                      approve" in checked.out
    assert "[import]\n  agents                     claude" in checked.out
    assert "[agents.a] (project, .claude/agents/a.md:1)" in checked.out
    assert (await run_in(place, "trust", "--forget")).code == 0
