"""The tools `skill` and `skill_search`, and the files of skills in `read_file`."""

import hashlib
import os
import random

import pytest
from attrs import evolve
from hypothesis import example, given, settings, strategies as st

from agentrail.abc import Error, Ok
from agentrail.config.skill_file import SkillText
from agentrail.config.skill_set import Skill, SkillSet
from agentrail.errors import ChildRefused
from agentrail.testing.check_tool import check_tool
from agentrail.tools import builtin
from agentrail.tools.skill import MountedReadFile, SkillSearch, SkillTool, mount_skills, prompt_of_skill
from agentrail.tools.skill_files import (
    MAX_SKILL_FILES,
    MAX_SKILL_LEVELS,
    MAX_SKILL_TREE_BYTES,
    SkillFileFault,
    find_skill_files,
    hash_skill_file,
    read_skill_file,
)
from tests.tools.rig import CTX, StubSandbox, context

FILES = {
    "SKILL.md": b"---\n---\nDo it.",
    "docs/a.md": b"one\ntwo\nthree\n",
    "b.bin": b"\xff\xfe",
    "empty.txt": b"",
}


@pytest.fixture
def place(tmp_path):
    """A directory of skills with one skill, and a secret beside it."""
    for name, data in FILES.items():
        path = tmp_path / "skills" / "pdf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "skills" / "secret.txt").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "skills"


def skill(name="pdf", *, directory="", files=(), **text):
    said = SkillText(**{"name": name, "description": f"About {name}.", "instructions": "Do it.", **text})
    return Skill(text=said, directory=directory, files=tuple(files), digest="d" * 64, source="here")


def on_disk(place, name="pdf", **text):
    directory = str(place / name)
    files = [hash_skill_file(directory, one) for one in find_skill_files(directory)]
    return skill(name, directory=directory, files=files, **text)


def opener(*skills, **given):
    """The tool `skill`."""
    return SkillTool(skills=SkillSet(skills=skills), **given)


async def test_skills_are_found_by_words_and_opened_by_name():
    """Those that the model may open; an unknown one is answered with the nearest. The user opens one by its name, or has it in the prompt as it stands."""
    skills = (skill(), skill("mail"), skill("mine", for_model=False))
    tool = opener(*skills)
    assert (await tool.execute({"name": "pfd"}, CTX)).text == "There is no skill 'pfd'. Did you mean 'pdf'?"
    assert "Look with skill_search." in (await tool.execute({"name": "zzz"}, CTX)).text
    mine = await tool.execute({"name": "mine"}, CTX)
    assert isinstance(mine, Error)
    assert "for the user to open" in mine.text

    search = SkillSearch(skills=SkillSet(skills=skills))
    assert (await search.execute({"query": "about"}, CTX)).text == "- pdf: About pdf.\n- mail: About mail."
    none = await search.execute({"query": "mine"}, CTX)
    assert none.text == "None of the 2 skills has these words. Try others, or continue without a skill."
    assert search.label({"query": "x"}) == "Look for a skill: x"

    told = "Open the skill 'pdf' with the tool `skill`, and do what it says."
    assert prompt_of_skill(skill(), "  ") == told
    assert prompt_of_skill(skill(), " page 3 ") == f"{told}\n\npage 3"
    assert prompt_of_skill(skill(for_model=False), "page 3") == "Do it.\n\npage 3"


def asked(answer="done"):
    """A context whose sub-agents answer this, and what they were asked."""
    requests = []

    async def child(request):
        requests.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return evolve(CTX, child=child, tools=("read_file", "shell", "write_file")), requests


async def test_a_skill_that_delegates_is_worked_by_a_sub_agent():
    """12.4: eight turns, the task as its prompt, its answer as the result; nothing is opened here."""
    ctx, requests = asked()
    tool = opener(skill(delegates=True))
    found = await tool.execute({"name": "pdf", "task": "read x"}, ctx)
    assert (found.text, found.details) == ("done", {"delegated": "pdf", "digest": "d" * 64})
    (request,) = requests
    given = (request.prompt, request.system_prompt, request.tools, request.max_turns)
    assert given == ("read x", "Do it.", None, 8)
    without = await tool.execute({"name": "pdf"}, ctx)
    assert (type(without), len(requests)) == (Error, 1)
    ctx, _ = asked("")
    assert (await tool.execute({"name": "pdf", "task": "x"}, ctx)).text == "[It ended without an answer.]"
    ctx, _ = asked(ChildRefused("no depth is left"))
    assert "no depth is left" in (await tool.execute({"name": "pdf", "task": "x"}, ctx)).text


async def test_a_skill_that_names_an_agent_is_a_task_of_that_agent():
    """12.15: with its own prompt and tools, of which the skill takes some away; where there is no such agent the general one works by it."""
    ctx, requests = asked()
    named = opener(skill(delegates=True, agent="scout", disallowed=("look",)))
    without = await named.execute({"name": "pdf", "task": "x"}, ctx)
    known = evolve(ctx, agents=(("scout", "Looks."),), agent_tools={"scout": ("look", "point")})
    found = await named.execute({"name": "pdf", "task": "read x"}, known)
    assert [(one.agent, one.prompt, one.system_prompt, one.tools) for one in requests] == [
        (None, "x", "Do it.", ("read_file", "shell", "write_file")),
        ("scout", "Do it.\n\nThe task: read x", None, ("point",)),
    ]
    assert ("agent" in without.details, found.details["agent"]) == (False, "scout")


async def test_a_sub_agent_has_the_tools_of_the_skill():
    """A rule with a pattern gives it none: nothing would hold it to the pattern."""
    both = {"allowed": ("shell", "write_file"), "disallowed": ("write_file",)}
    for text, mode, tools in (
        ({"allowed": ("read_file", "shell(git *)")}, "restrict", ("read_file",)),
        ({"allowed": ("shell",)}, "restrict", ("read_file", "shell")),
        ({"allowed": ("shell",)}, "ignore", None),
        ({"allowed": ("shell",)}, "approve", None),
        ({"disallowed": ("shell(rm *)",)}, "restrict", ("read_file", "write_file")),
        (both, "restrict", ("read_file", "shell")),
    ):
        ctx, requests = asked()
        tool = opener(skill(delegates=True, **text), tools=mode)
        await tool.execute({"name": "pdf", "task": "x"}, ctx)
        assert requests[0].tools == tools


async def test_they_keep_the_contract_of_tools(place):
    """`check_tool`, of all three."""
    skills = SkillSet(skills=(on_disk(place),))
    for tool, arguments in (
        (SkillTool(skills=skills), {"name": "pdf"}),
        (SkillSearch(skills=skills), {"query": "pdf"}),
        (MountedReadFile(skills=skills), {"path": "/skills/pdf/docs/a.md"}),
    ):
        await check_tool(tool, arguments, CTX)


def mounted(*skills, inner=True):
    """`read_file` with the files of these."""
    return MountedReadFile(skills=SkillSet(skills=skills), inner=builtin("read_file")[0] if inner else None)


async def test_files_of_skills_are_read_below_the_mount(place):
    """In pages as any file; everything else is for the tool behind it."""
    tool = mounted(on_disk(place))
    ctx = context(StubSandbox({"x.txt": "mine\n"}))
    assert (await tool.execute({"path": "/skills/pdf/docs/a.md"}, ctx)).text == "1\tone\n2\ttwo\n3\tthree"
    page = await tool.execute({"path": "/skills/pdf/docs/a.md", "offset": 2, "limit": 1}, ctx)
    assert page.text == "2\ttwo\n[Lines 2-2 of 3. Continue with offset=3.]"
    assert (await tool.execute({"path": "/skills/pdf/empty.txt"}, ctx)).text == "[The file is empty.]"
    assert (await tool.execute({"path": "x.txt"}, ctx)).text == "1\tmine"
    assert "is not text" in (await tool.execute({"path": "/skills/pdf/b.bin"}, ctx)).text
    assert (tool.label({"path": "x"}), tool.label({"path": "/skills/pdf"})) == ("Read x", "Read /skills/pdf")
    assert tool.description.endswith("Files of skills are below /skills/, as `skill` lists them.")
    assert tool.parameters == builtin("read_file")[0].parameters


async def test_a_name_that_is_not_listed_and_a_file_that_has_changed_are_not_read(place):
    """Links, `..` and absolute names lead nowhere; what the model reads is what the id stands for, and no link in its place is followed."""
    tool = mounted(on_disk(place), inner=False)
    for path, said in (
        ("/skills", "There is no skill ''"),
        ("/skills/other/x", "There is no skill 'other'"),
        ("/skills/pdf", "has no file ''. Its files"),
        ("/skills/pdf/no.md", "has no file 'no.md'"),
        ("/skills/pdf/../secret.txt", "has no file '../secret.txt'"),
        ("/skills/pdf//etc/passwd", "has no file '/etc/passwd'"),
        ("/skills/pdf/docs", "has no file 'docs'"),
        ("/etc/passwd", "Only files of skills are read here"),
    ):
        found = await tool.execute({"path": path}, CTX)
        assert isinstance(found, Error)
        assert said in found.text

    call = {"path": "/skills/pdf/docs/a.md"}
    path = place / "pdf" / "docs" / "a.md"
    path.write_text("other")
    assert "has changed since the skill was read" in (await tool.execute(call, CTX)).text
    path.unlink()
    path.symlink_to(place / "secret.txt")
    assert "its path contains a symbolic link" in (await tool.execute(call, CTX)).text


def test_read_file_is_mounted_where_skills_have_files(place):
    """In the place of the one that there is, or as one that reads nothing else."""
    tools = builtin("glob", "read_file")
    assert mount_skills(tools, SkillSet(skills=(skill(),))) == tools
    skills = SkillSet(skills=(on_disk(place),))
    assert [type(one).__name__ for one in mount_skills(tools, skills)] == ["FunctionTool", "MountedReadFile"]
    assert mount_skills(tools[:1], skills)[1].inner is None

    alone = MountedReadFile(skills=skills)
    assert (alone.label({"path": "x"}), alone.effect_class, alone.timeout_seconds) == ("Read x", "pure", None)
    inner = mount_skills(tools, skills)[1]
    limits = ("timeout_seconds", "max_result_bytes", "max_retries")
    for member in (*limits, "killable", "effect_class", "wants_deps"):
        assert getattr(inner, member) == getattr(tools[1], member)
    assert not hasattr(inner, "reconcile")

    class Described:
        name, description, parameters = "read_file", staticmethod(lambda listing: f"for {listing}"), {}

        async def execute(self, arguments, ctx):
            return Ok(text="x")

    (made,) = mount_skills((Described(),), skills)
    assert (made.effect_class, made.killable) == ("once", True)
    for member, value, came in (("effect_class", "reconcilable", "once"), ("answered_by", "client", None)):
        other = Described()
        setattr(other, member, value)
        (kept,) = mount_skills((other,), skills)
        assert kept is other if came is None else kept.effect_class == came
    for member, value, usual in (
        ("polling", True, False),
        ("threaded", True, False),
        ("comes_from", "x", None),
    ):
        other = Described()
        setattr(other, member, value)
        (kept,) = mount_skills((other,), skills)
        assert (getattr(kept, member), getattr(made, member)) == (value, usual)
    assert made.description("me").startswith("for me Files of skills")


@pytest.mark.blueprint("G-011")
def test_files_are_listed_and_read_beneath_the_directory_alone(place):
    """G-011: a link that leads outside leaves the skill out, one that leads inside is no file of it."""
    pdf = place / "pdf"
    (pdf / "inside").symlink_to(pdf / "docs")
    (pdf / "again.md").symlink_to("docs/a.md")
    os.mkfifo(pdf / "pipe")
    assert [one.path for one in find_skill_files(str(pdf))] == sorted(FILES)
    outside = ("../secret.txt", "docs/../../secret.txt", "/etc/passwd")
    for path in ("inside/a.md", "again.md", "pipe", "docs", *outside, "", ".", "a\0b", "gone"):
        with pytest.raises(SkillFileFault):
            read_skill_file(str(pdf), path, most=1_000)
    with pytest.raises(SkillFileFault, match="over 3 bytes"):
        read_skill_file(str(pdf), "docs/a.md", most=3)
    (place / "linked").symlink_to(pdf)
    with pytest.raises(SkillFileFault, match="its path contains a symbolic link"):
        read_skill_file(str(place / "linked"), "docs/a.md", most=100)
    for target in ("../secret.txt", "/etc", "../../skills-of-others"):
        (pdf / "out").symlink_to(target)
        with pytest.raises(SkillFileFault, match="out is a symbolic link that leads outside"):
            find_skill_files(str(pdf))
        (pdf / "out").unlink()


def test_too_much_is_refused(place):
    """Files, bytes, levels."""
    pdf = place / "pdf"
    with (pdf / "big").open("wb") as file:
        file.truncate(MAX_SKILL_TREE_BYTES + 1)
    with pytest.raises(SkillFileFault, match="over 32 MiB"):
        find_skill_files(str(pdf))
    (pdf / "big").unlink()
    for number in range(MAX_SKILL_FILES):
        (pdf / f"{number}").touch()
    with pytest.raises(SkillFileFault, match="over 500 files"):
        find_skill_files(str(pdf))
    deep = place / "deep" / "/".join("d" * (MAX_SKILL_LEVELS + 1))
    deep.mkdir(parents=True)
    with pytest.raises(SkillFileFault, match="more than 8 levels"):
        find_skill_files(str(place / "deep"))


# All that could lead elsewhere: names that are there, links, climbing, roots, nothing, and what no file can be called.
PARTS = (
    *("", ".", "..", "docs", "a.md", "inside", "out", "etc", "passwd", "secret.txt", "pdf", "SKILL.md"),
    *("~", "\0", "a\nb", "é"),
)


LEADS = ("", "/", "//", "./", "/skills/pdf/")


def leads_nowhere(path, planted):
    """Whether a path gives a listed file with its bytes, or a fault."""
    directory, known = planted
    try:
        data = read_skill_file(directory, path, most=1 << 16)
    except (SkillFileFault, UnicodeEncodeError):
        return True
    return hashlib.sha256(data).hexdigest() == known.get(path)


@pytest.mark.blueprint("G-011")
@settings(max_examples=200, deadline=None)
@given(parts=st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=6), lead=st.sampled_from(LEADS))
@example(parts=["..", "secret.txt"], lead="")
def test_no_name_leads_out_of_a_skill(parts, lead, planted):
    """G-011: with links planted behind the listing."""
    assert leads_nowhere(lead + "/".join(parts), planted)


@pytest.mark.blueprint("G-011")
def test_ten_thousand_names_lead_nowhere(planted):
    """G-011: drawn by a seed of the run."""
    drawn = random.Random(random.getrandbits(32))  # noqa: S311 - pytest-randomly seeds it, and says the seed
    for _ in range(10_000):
        path = drawn.choice(LEADS) + "/".join(drawn.choices(PARTS, k=drawn.randint(0, 6)))
        assert leads_nowhere(path, planted), path


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A skill with links out of it, and the hashes of its files."""
    place = tmp_path_factory.mktemp("planted")
    (place / "secret.txt").write_text("secret")
    (place / "pdf" / "docs").mkdir(parents=True)
    (place / "pdf" / "SKILL.md").write_text("x")
    (place / "pdf" / "docs" / "a.md").write_text("y")
    directory = str(place / "pdf")
    known = {one.path: hash_skill_file(directory, one).digest for one in find_skill_files(directory)}
    (place / "pdf" / "inside").symlink_to("docs")
    (place / "pdf" / "out").symlink_to("..")
    (place / "pdf" / "docs" / "secret.txt").symlink_to("../../secret.txt")
    (place / "pdf" / "etc").symlink_to("/etc")
    return directory, known
