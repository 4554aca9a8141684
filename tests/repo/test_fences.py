"""Every program and every command on a page is run by something, or it is said why not; `tests/pages.py` is the list."""

import json
import re
import tomllib

import pytest

from agentrail.commands.markdown import CommandFile, read_command
from agentrail.commands.slash_command import SlashCommand
from agentrail.config.config_file import read_agent, read_permissions, read_toml
from agentrail.config.skill_file import read_skill
from tests.consoles import steps_in
from tests.pages import NOT_PLAYED, PAGES, ROOT, RUN_BY, SHOWN_ONLY, Fence, fences_of

FENCES = [one for page in PAGES for one in fences_of(page)]


def is_run_by_sybil(fence: Fence) -> bool:
    """Whether its pattern finds it: it reads README and docs, but for the programs, which need the wheel."""
    is_read = fence.page != "CONTRIBUTING.md" and not fence.page.startswith("docs/examples/")
    return fence.kind == "python" and is_read and not fence.is_skipped


def faults_of(fences: list[Fence]) -> list[str]:
    """Fences that nothing runs, and that nothing is said of."""
    return [
        f"{one.page}: ```{one.kind}: {one.body[:60]!r}"
        for one in fences
        if one.kind not in {*SHOWN_ONLY, "console"}  # commands are all played, but for those of the list
        and not is_run_by_sybil(one)
        and one.kind not in RUN_BY.get(one.page, {})
    ]


def test_each_program_of_a_page_is_run_by_something():
    """By Sybil, or by the test that the list names."""
    assert len(FENCES) > 300
    assert faults_of(FENCES) == []


def test_a_program_that_nothing_runs_is_seen():
    """One that is skipped, one that Sybil does not read, one in another language."""
    fences = [
        Fence("README.md", "python", "a = 1\n"),
        Fence("README.md", "python", "b = 1\n", is_skipped=True),
        Fence("docs/examples/tides/README.md", "python", "c = 1\n"),
        Fence("docs/how-to/deploy.md", "", "d = 1\n"),
        Fence("docs/how-to/deploy.md", "text", "e\n"),
    ]
    assert [one.rpartition(": ")[2] for one in faults_of(fences)] == [
        r"'b = 1\n'",
        r"'c = 1\n'",
        r"'d = 1\n'",
    ]


def test_what_the_list_names_is_there():
    """Its pages have such fences, and what runs them is a file with a test of that name."""
    kinds = {(one.page, one.kind) for one in FENCES}
    for page, run_by in RUN_BY.items():
        for kind, test in run_by.items():
            assert (page, kind) in kinds
            path, _, name = test.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8") or not name, test


def test_what_is_not_played_stands_on_its_page():
    """A line of the list that is about no command any more hides none."""
    for page, left in NOT_PLAYED.items():
        commands = [
            step.command for one in fences_of(page) if one.kind == "console" for step in steps_in(one.body)
        ]
        assert [begin for begin in left if not any(one.startswith(begin) for one in commands)] == [], page


# --- files that pages show


def toml_of_pages():
    """Configuration files on pages, but for those of the page of the command, which are of other kinds."""
    return [one for one in FENCES if one.kind == "toml" and one.page != "docs/reference/cli.md"]


@pytest.mark.parametrize("fence", toml_of_pages(), ids=lambda one: f"{one.page}-{one.body.splitlines()[0]}")
def test_a_configuration_on_a_page_is_taken(fence):
    """Each key is one that there is, with a value of its kind."""
    assert [str(one) for one in read_toml("agentrail.toml", fence.body).faults] == []


def test_what_the_page_of_the_command_shows_of_files_is_taken():
    """Tokens, rules of permissions, an event of a hook; the commands that read the last two are played."""
    fences = {
        one.body.split()[0]: one.body
        for one in fences_of("docs/reference/cli.md")
        if one.kind in {"toml", "json"}
    }
    assert sorted(fences) == ["[[token]]", "mode", '{"hook":']
    (token,) = tomllib.loads(fences["[[token]]"])["token"]
    assert token.keys() == {"digest", "tenant", "user", "scopes", "expires"}
    assert read_permissions("permissions.toml", fences["mode"]).faults == ()
    assert json.loads(fences['{"hook":'])["hook"] == "BeforeTool"


def heads_on(page: str) -> list[str]:
    """Files with a head that a page shows as text."""
    return [
        re.split(r"^(?=---$)", one.body, maxsplit=1, flags=re.MULTILINE)[1]
        for one in fences_of(page)
        if "---\n" in one.body
    ]


def test_files_with_a_head_on_pages_are_taken():
    """An agent, a skill and a slash command in Markdown."""
    (agent,) = heads_on("docs/how-to/configure-agents.md")
    assert read_agent("reviewer.md", "reviewer", agent).faults == ()
    (skill,) = heads_on("docs/how-to/use-skills.md")
    read = read_skill("SKILL.md", "release", skill)
    assert (read.faults, read.warnings) == ((), ())
    (command,) = heads_on("docs/how-to/write-slash-commands.md")
    file = CommandFile(name="commit.md", path="git/commit.md", data=command.encode(), source="project")
    assert isinstance(read_command(file), SlashCommand)
