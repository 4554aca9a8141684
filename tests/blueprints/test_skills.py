"""Skills on disk, in sessions, and as slash commands beside those of other programs."""

import errno
import os
from typing import Any

import attrs
import pytest
import trio

import agentrail
from agentrail.blueprints import Blueprint, read_skills
from agentrail.blueprints.builder import build_blueprint, faults_of_building
from agentrail.blueprints.configuration import read_configuration
from agentrail.blueprints.joined_commands import join_commands
from agentrail.blueprints.skill_discovery import (
    MAX_SKILL_DIRECTORIES,
    SkillSource,
    SkillUse,
    find_sources,
    read_one,
    read_source,
    with_skill_plugins,
)
from agentrail.commands import CommandDesk, CommandRegistry, SlashCommand
from agentrail.config.imported_commands import read_markdown_command
from agentrail.config.skill_file import MAX_SKILL_BYTES
from agentrail.config.skill_set import LeftOutSkill, SkillSet
from agentrail.errors import CommandError, OptionError
from agentrail.events import SkillClosed, SkillOpened, ToolBlocked
from agentrail.plugins import HumanApproval, Permissions, SkillGuard
from agentrail.runtime.agent import Agent
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin


def put(place, name, head="", body="Do it.", **files):
    directory = place / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About {name}.\n{head}---\n{body}")
    for file, text in files.items():
        (directory / f"{file}.md").write_text(text)
    return directory


def names(found):
    """Each skill and its source, without those that come along."""
    return [(one.name, one.source) for one in found.skills if one.scope != "built_in"]


def why(found):
    return {one.name: one.why for one in found.left_out}


@pytest.fixture
def home(tmp_path):
    """A home with a repository, and a working directory in that."""
    (tmp_path / "home" / "proj" / "deep").mkdir(parents=True)
    (tmp_path / "home" / "proj" / ".git").mkdir()
    return tmp_path / "home"


# --- reading


def test_a_directory_that_is_a_link_to_itself_is_left_out_with_the_reason(tmp_path):
    """One that became so after it was listed; following it was an error of Python."""
    (tmp_path / "loop").symlink_to("loop")
    source = SkillSource(directory=tmp_path, shown="here", scope="blueprint")
    left_out = read_one(source, "loop")
    assert isinstance(left_out, LeftOutSkill)
    assert left_out.why == f"it cannot be read: {os.strerror(errno.ELOOP)}"


def test_what_is_wrong_is_left_out_with_the_reason(tmp_path):
    """12.11: without front matter, with a bad name, too large, a link outside; never a crash, and the others go on."""
    put(tmp_path, "good")
    put(tmp_path, "Bad-Name")
    (put(tmp_path, "bare") / "SKILL.md").write_text("no head")
    (put(tmp_path, "large") / "SKILL.md").write_text("x" * (MAX_SKILL_BYTES + 1))
    (put(tmp_path, "huge") / "SKILL.md").write_text("---\na: " + "x" * 10_000_000)
    (put(tmp_path, "bytes") / "SKILL.md").write_bytes(b"---\nname: \xff\n---\n")
    (put(tmp_path, "outside") / "link").symlink_to(tmp_path / "good" / "SKILL.md")
    (put(tmp_path, "linked") / "SKILL.md").rename(tmp_path / "linked" / "real.md")
    (tmp_path / "linked" / "SKILL.md").symlink_to("real.md")
    (put(tmp_path, "pipe") / "SKILL.md").unlink()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    (tmp_path / "empty").mkdir()
    found = read_skills(tmp_path)
    assert [one.name for one in found.skills] == ["good"]
    said = why(found)
    assert sorted(said) == ["Bad-Name", "bare", "bytes", "huge", "large", "linked", "outside"]
    assert "SKILL.md:2: name: expected 1 to 64 of a-z 0-9 -" in said["Bad-Name"]
    assert "bare/SKILL.md:1: expected front matter" in said["bare"]
    assert "expected at most 64 KiB, got 64" in said["large"]
    assert "expected at most 64 KiB, got 9765" in said["huge"]
    assert "expected UTF-8" in said["bytes"]
    assert "it is a symbolic link" in said["linked"]
    assert said["outside"] == "link is a symbolic link that leads outside: replace it with the file itself"


def test_directories_that_cannot_be_read(tmp_path, monkeypatch):
    """A source that is none, that has too much, or that may not be read; a skill that is gone in this moment."""
    monkeypatch.setattr("agentrail.blueprints.skill_discovery.MAX_SKILL_DIRECTORIES", 1)
    put(tmp_path, "a")
    put(tmp_path, "b")
    assert "it has 2 skills: expected at most 1" in why(read_skills(tmp_path))[""]
    assert MAX_SKILL_DIRECTORIES == 1_000
    monkeypatch.undo()
    monkeypatch.setattr("agentrail.blueprints.skill_discovery.MAX_SOURCE_BYTES", 10)
    assert why(read_skills(tmp_path)) == {
        "b": "the skills before it already have over 256 MiB: remove some files"
    }
    monkeypatch.undo()

    def fail(*_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("agentrail.blueprints.skill_discovery.find_skill_files", fail)
        assert why(read_skills(tmp_path)) == dict.fromkeys("ab", "it cannot be read: Permission denied")
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.iterdir", fail)
        assert why(read_skills(tmp_path)) == {"": "it cannot be read: Permission denied"}


def test_what_was_read_is_kept_but_not_for_ever(tmp_path, monkeypatch):
    """The oldest goes first."""
    monkeypatch.setattr("agentrail.blueprints.skill_discovery._KEPT", 1)
    for name in ("a", "b"):
        put(tmp_path, name)
    first, second = read_skills(tmp_path).skills, read_skills(tmp_path).skills
    assert first == second
    assert first[0] is not second[0]


# --- sources


def test_later_sources_win(home):
    """12.4: the user's, then the project's from its root down, then those that were named; in each what was written for us."""
    deep = home / "proj" / "deep"
    for place in (home, home / "proj", deep):
        for owner in (".agents", ".agentrail", ".claude"):
            put(place / owner / "skills", "same")
    put(home / "named", "same")
    put(home / ".agents" / "skills", "only")

    def found(**given):
        return [one.shown for one in find_sources(cwd=deep, home=home, **given)]

    assert found() == [
        "built in",
        *("~/.agents/skills", "~/.agentrail/skills"),
        *("~/proj/.agents/skills", "~/proj/.agentrail/skills", ".agents/skills", ".agentrail/skills"),
    ]
    with_all = found(directories=[(home / "named", "user")], import_user=True, import_project=True)
    assert (with_all[1], with_all[4], with_all[-1]) == (
        "~/.claude/skills",
        "~/proj/.claude/skills",
        "~/named",
    )
    assert found(import_project=True).count("~/.claude/skills") == 0
    read = read_configuration({"HOME": str(home)}, cwd=deep).read_skills()
    assert names(read) == [("only", "~/.agents/skills"), ("same", ".agentrail/skills")]
    assert why(read)["same"] == "the one of .agentrail/skills replaces it"
    assert [one.shown for one in find_sources(cwd=home, home=home)][1:] == [
        ".agents/skills",
        ".agentrail/skills",
    ]
    assert len(find_sources(cwd=home / "elsewhere", home=None)) == 3


def test_a_projects_skills_are_read_where_they_lie(tmp_path):
    """A link would lead a project's skill out of it; the user's own may be one."""
    put(tmp_path / "real", "a")
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / "skills").symlink_to(tmp_path / "real")
    project = SkillSource(directory=tmp_path / ".agents" / "skills", shown="s", scope="project", is_own=False)
    assert "it is a symbolic link" in why(read_source(project))["skills"]
    own = SkillSource(directory=tmp_path / ".agents" / "skills", shown="s", scope="user")
    assert [one.name for one in read_source(own).skills] == ["a"]
    (tmp_path / "real" / "b").symlink_to(put(tmp_path / "other", "b"))
    inside = SkillSource(directory=tmp_path / "real", shown="s", scope="project", is_own=False)
    assert why(read_source(inside)) == {
        "b": "it is a symbolic link, and a project's skills must be real directories"
    }
    assert [one.name for one in read_source(own).skills] == ["a", "b"]


def test_files_say_which_skills_count(home):
    """`disable` of both files counts; directories from the file that names them; imports beside the file that asks for them."""
    put(home / ".agents" / "skills", "one")
    put(home / ".agents" / "skills", "two")
    put(home / ".claude" / "skills", "mine")
    put(home / "proj" / ".claude" / "skills", "theirs")
    put(home / "proj" / "shared", "shared")
    (home / ".agentrail").mkdir()
    (home / ".agentrail" / "agentrail.toml").write_text('[skills]\ndisable = ["one"]\ntools = "ignore"\n')
    toml = '[skills]\ndisable = ["two"]\ndirectories = ["shared"]\nimport = ["claude"]\ntools = "restrict"\n'
    (home / "proj" / "agentrail.toml").write_text(toml)

    def read(**given):
        return read_configuration({"HOME": str(home)}, cwd=home / "proj", **given)

    trusted = read(trust_project=True)
    assert names(trusted.read_skills()) == [("shared", "shared"), ("theirs", ".claude/skills")]
    untrusted = read()
    assert names(untrusted.read_skills()) == [("theirs", ".claude/skills")]
    assert [str(one) for one in untrusted.not_granted] == ["skills.directories shared (agentrail.toml:3)"]
    assert untrusted.settings.skills["tools"].value == "restrict"


# --- those that come along

BUILT_IN = ["write-a-skill", "write-agents-md"]


# --- agents of files


def test_agents_name_their_skills(home):
    """By name, or all; the capability is all of them too; without either none are read."""
    put(home / "proj" / ".agents" / "skills", "a")
    put(home / "proj" / ".agents" / "skills", "b")
    (home / "proj" / "agentrail.toml").write_text(
        '[agents.one]\nskills = ["a"]\n[agents.all]\ncapabilities = ["skills"]\n[agents.none]\nskills = []\n'
        '[agents.told]\nprompt = "Be kind."\nskills_in_prompt = ["b"]\n[agents.short]\nskills_in_prompt = ["b"]\n'
    )
    read = read_configuration({"HOME": str(home)}, cwd=home / "proj", trust_project=True).check()

    def built(name, **given):
        return build_blueprint(read.settings, name, **given)

    def skills(name):
        use = built(name, skills=read.read_skills).skills
        return None if use is None else ([one.name for one in use.skills.skills], use.tools)

    assert (skills("one"), skills("all"), skills("none"), skills(None)) == (
        (["a"], "restrict"),
        (["a", "b", *BUILT_IN], "restrict"),
        ([], "restrict"),
        None,
    )
    assert built("told", skills=read.read_skills).options()["system_prompt"] == "Be kind.\n\n# b\n\nDo it."
    assert built("short", skills=read.read_skills).options()["system_prompt"] == "# b\n\nDo it."
    with pytest.raises(OptionError, match="agent 'one': there is no skill 'a': the skills are: none"):
        built("one")


def test_a_skill_that_there_is_not_is_refused_when_built(home):
    """12.11: naming the agent, with the nearest; all of them at once."""
    put(home / "proj" / ".agents" / "skills", "pdf-forms")
    (home / "proj" / "agentrail.toml").write_text(
        '[agents.one]\nskills = ["pdf-form"]\n[agents.two]\nskills_in_prompt = [\n"zzz"]\n'
    )
    read = read_configuration({"HOME": str(home)}, cwd=home / "proj", trust_project=True).check()
    first, second = map(str, faults_of_building(read.settings, skills=read.read_skills))
    assert first.startswith(
        "agentrail.toml:2: agents.one.skills[0]: agent 'one': there is no skill 'pdf-form': did you mean 'pdf-forms'?"
    )
    assert second.startswith(
        "agentrail.toml:5: agents.two.skills_in_prompt[0]: agent 'two': there is no skill 'zzz': the skills are: pdf-forms"
    )


# --- blueprints and sessions


def test_a_blueprint_with_skills_has_their_tools_and_guards(tmp_path):
    """And what it had of those guards keeps its options; an agent of another one has that one's."""
    put(tmp_path, "a", "allowed-tools: Bash(git *) Read\n", more="x")
    put(tmp_path, "b")
    skills = read_skills(tmp_path)
    made = Blueprint("x", description="x", tools=builtin("read_file")).with_skills(skills)
    assert [one.name for one in made.options()["tools"]] == ["read_file", "skill", "skill_search"]
    with pytest.raises(OptionError, match="skills is 'all': expected SkillUse"):
        Blueprint("x", skills="all")
    guard, (_, listed) = made.options()["plugins"]
    assert guard[1] == {"skills": {"a": ("shell(git *)", "read_file"), "b": None}, "denied": {}}
    assert listed == {"skills": {"a": "About a.", "b": "About b."}}
    assert Blueprint("x").with_skills(read_skills(tmp_path / "none")).options() == {}
    own = [
        (SkillGuard, {"skills": {"mine": ("grep",), "b": ("glob",)}, "active": ["mine"]}),
        (Permissions, {"pure_tools": ["x"], "skills": {"b": ("y",)}}),
        HumanApproval,
    ]
    approve = made.with_skills(skills, tools="approve")
    guarded, permitted, asks, _ = with_skill_plugins(own, approve.skills)
    assert guarded[1] == {
        "skills": {"a": None, "b": ("glob",), "mine": ("grep",)},
        "active": ["mine"],
        "denied": {},
    }
    assert permitted[1] == {
        "pure_tools": ["x", "skill", "skill_search"],
        "skills": {"a": ("shell(git *)", "read_file"), "b": ("y",)},
    }
    assert asks is HumanApproval
    stranger = SkillSet(skills=tuple(attrs.evolve(one, is_trusted=False) for one in skills.skills))
    use = SkillUse(skills=stranger, tools="approve")
    permitted, guarded, _ = with_skill_plugins([Permissions], use)
    assert guarded[1]["skills"]["a"] == ("shell(git *)", "read_file")
    assert "skills" not in permitted[1]


@pytest.mark.blueprint("G-012")
async def test_while_a_skill_is_open_only_its_tools_run(tmp_path):
    """G-012: from the result of the call on, in the middle of the cycle; after the cycle all run again. Its files are read below `/skills/`."""
    put(tmp_path, "notes", "allowed-tools: Grep\n", "Look into the notes.", more="one\ntwo\n")
    write, grep = RecordingTool(name="write_file"), RecordingTool(name="grep")
    systems = []
    turns = iter(
        [
            calls(("write_file", {})),
            calls(("skill", {"name": "notes"})),
            calls(("write_file", {}), ("grep", {}), ("read_file", {"path": "/skills/notes/more.md"})),
            says("done"),
            calls(("write_file", {})),
            says("again"),
        ]
    )

    def answer(request):
        systems.append(request.system or "")
        return next(turns)

    blueprint = Blueprint("x", model=FunctionModel(answer), tools=[write, grep]).with_skills(
        read_skills(tmp_path)
    )
    with trio.fail_after(60):
        async with agentrail.open_supervisor() as supervisor:
            session = await supervisor.start_session(blueprint)
            async with session.subscribe(after=0, kinds=[SkillOpened, SkillClosed, ToolBlocked]) as events:
                assert await session.ask("Go") == "done"
                opened, blocked, closed = [await anext(events) for _ in range(3)]
                assert await session.ask("Go on") == "again"
            results = [
                result for message in await session.messages() for result in getattr(message, "results", ())
            ]
    assert (type(opened), opened.name, len(opened.digest)) == (SkillOpened, "notes", 64)
    assert (type(blocked), type(closed), closed.name) == (ToolBlocked, SkillClosed, "notes")
    assert (len(write.calls), len(grep.calls)) == (2, 1)
    assert results[1].text.startswith("Look into the notes.")
    assert "'write_file' is not a tool of the active skills (notes). Tools: grep." in results[2].text
    assert results[4].text == "1\tone\n2\ttwo"
    assert all("- notes: About notes." in one for one in systems)


@pytest.mark.blueprint("G-012")
async def test_with_approve_its_tools_run_unasked_and_a_denied_one_does_not(tmp_path, autojump_clock):
    """G-012: where the source is trusted; what `deny` says wins, and the skill itself never asks."""
    put(tmp_path, "notes", "allowed-tools: Write Edit\n")
    write, edit = RecordingTool(name="write_file"), RecordingTool(name="edit_file")
    model = ScriptedModel(
        [
            calls(("skill", {"name": "notes"})),
            calls(("write_file", {"path": "x"}), ("edit_file", {"path": "x"})),
            says("done"),
        ]
    )
    blueprint = Blueprint(
        "x", model=model, tools=[write, edit], plugins=[(Permissions, {"deny": ["edit_file"]})]
    ).with_skills(read_skills(tmp_path), tools="approve")
    with trio.fail_after(10):
        async with agentrail.open_supervisor() as supervisor:
            session = await supervisor.start_session(blueprint)
            assert await session.ask("Go") == "done"
    assert (len(write.calls), len(edit.calls)) == (1, 0)


@pytest.mark.parametrize("is_a_blueprint", [True, False])
async def test_an_agent_has_skills_of_its_own(tmp_path, is_a_blueprint):
    """12.2: they are listed to it, opened, read and held to; those of its session are not its, and nothing asks a person to open one."""
    put(tmp_path / "lead", "plans", "allowed-tools: Grep\n", "Plan.", more="secret")
    put(tmp_path / "scout", "paths", "allowed-tools: Grep\n", "Look below.", more="one\n")
    write, grep = RecordingTool(name="write_file"), RecordingTool(name="grep")
    systems = []
    turns = iter(
        [
            calls(("task", {"description": "Look.", "subagent_type": "scout"})),
            calls(("skill", {"name": "plans"}), ("read_file", {"path": "/skills/plans/more.md"})),
            calls(("skill", {"name": "paths"})),
            calls(("write_file", {}), ("grep", {}), ("read_file", {"path": "/skills/paths/more.md"})),
            says("found"),
            says("done"),
        ]
    )

    def answer(request):
        systems.append(request.system or "")
        seen.extend(one.text for one in getattr(request.messages[-1], "results", ()))
        return next(turns)

    seen = []
    own = SkillUse(skills=read_skills(tmp_path / "scout"))
    said = {"name": "scout", "description": "Looks."}
    scout = Blueprint(**said, skills=own) if is_a_blueprint else Agent(**said, skills=own)
    lead = Blueprint(
        "lead",
        model=FunctionModel(answer),
        tools=[*builtin("read_file", "task"), write, grep],
        plugins=[
            (
                Permissions,
                {"allow": ["task", "write_file", "grep"], "pure_tools": ["read_file"]},
            )
        ],
        agents=[scout],
    )
    for leader in (lead.with_skills(read_skills(tmp_path / "lead")), lead):
        options = leader.options()
        rules = next(one[1] for one in options["plugins"] if one[0] is Permissions)
        assert set(rules["pure_tools"]) == {"read_file", "skill", "skill_search"}
    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(lead.with_skills(read_skills(tmp_path / "lead")))
        assert await session.ask("Go") == "done"
    assert ("plans" in systems[0], "plans" in systems[1], "- paths: About paths." in systems[1]) == (
        True,
        False,
        True,
    )
    assert "There is no skill 'plans'" in seen[0]
    assert "There is no skill 'plans'" in seen[1]
    assert "Look below." in seen[2]
    assert "'write_file' is not a tool of the active skills (paths)" in seen[3]
    assert seen[5].startswith("1\tone")
    assert (len(write.calls), len(grep.calls)) == (0, 1)


def test_an_agent_without_any_skill_has_none_of_its_session(tmp_path):
    """`skills: []` of an agent is said, and not the same as nothing said; `read_file` is again what it was."""
    put(tmp_path, "a", more="x")
    lead = Blueprint("lead", tools=builtin("read_file")).with_skills(read_skills(tmp_path)).options()
    tools, plugins = SkillUse(skills=SkillSet()).equip(lead["tools"], lead["plugins"])
    assert tools == builtin("read_file")
    assert [one[0] for one in plugins] == [SkillGuard]
    none = Blueprint("lead").with_skills(read_skills(tmp_path)).options()["tools"]
    assert [one.name for one in none] == ["skill", "skill_search", "read_file"]
    assert SkillUse(skills=SkillSet()).equip(none, ()) == ((), ())


SESSION: Any = object()  # no command here asks it anything
DESK = CommandDesk(session=SESSION, at_terminal=True)


def of_claude(name, text):
    return read_markdown_command("claude", f"{name}.md", text)


async def answered(registry, line):
    return await registry.run_line(line, DESK)


async def test_a_skill_is_opened_by_its_name(tmp_path):
    """12.4: what is typed behind it is what it is asked to do; `/skills` lists those of the session, or says that it has none."""
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
    assert join_commands(CommandRegistry()).commands == CommandRegistry().commands
    none = join_commands(CommandRegistry(), skills=read_skills())
    assert (await answered(none, "/skills")).lines == (
        "this session has no skills: name them for its agent, as in skills = ['*']",
    )


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
    for agent, lines in (
        ("critic", ["notes", "review"]),
        ("plain", ["this session has no skills"]),
    ):
        answer = await registry.run_line("/skills", CommandDesk(session=SESSION, agent=agent))
        assert [line.partition(":")[0] for line in answer.lines] == lines


async def test_the_project_wins_over_a_skill_and_a_skill_over_other_programs(tmp_path):
    """Of one name there is one command; of two files of other programs the first is the project's."""
    put(tmp_path, "review")
    put(tmp_path, "notes")

    async def run(_call):
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
