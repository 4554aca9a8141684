"""Skills: one `SKILL.md` with its tools, and several together, of which one of a name counts."""

import pytest
from hypothesis import example, given, strategies as st

from agentrail.config.skill_file import SkillText, read_skill
from agentrail.config.skill_set import (
    MAX_SKILLS,
    LeftOutSkill,
    Skill,
    SkillSet,
    digest_of_skill,
    join_skills,
    search_skills,
)
from agentrail.config.tool_names import ToolListFault, split_tools


def skill(name, description="x", source="here"):
    return Skill(text=SkillText(name=name, description=description, instructions=""), source=source)


def test_later_sources_win_and_say_so():
    """The loser is told with the winner's place; a disabled one is gone, whoever has it."""
    found = join_skills(
        [
            SkillSet(skills=(skill("a", source="user"), skill("b")), left_out=(LeftOutSkill(name="x", source="user", why="bad"),)),
            SkillSet(skills=(skill("a", source="project"), skill("c"))),
        ],
        disabled=("c", "none"),
    )  # fmt: skip
    assert [(one.name, one.source) for one in found.skills] == [("a", "project"), ("b", "here")]
    assert [(one.name, one.why) for one in found.left_out] == [
        ("x", "bad"),
        ("a", "the one of project replaces it"),
        ("c", "it is disabled"),
    ]
    assert found.find("a").source == "project"
    assert found.find("z") is None
    assert [one.name for one in found.only(["b", "z"]).skills] == ["b"]
    assert found.only(["*"]).skills == found.skills


def test_more_than_two_hundred_are_left_out():
    """Each with the reason."""
    many = SkillSet(skills=tuple(skill(f"s{number:03}") for number in range(MAX_SKILLS + 3)))
    found = join_skills([many])
    assert (len(found.skills), len(found.left_out)) == (MAX_SKILLS, 3)
    assert "expected at most 200" in found.left_out[0].why


def test_words_find_skills():
    """Names count more than descriptions, beginnings of words count; without words the first ones."""
    skills = (
        skill("pdf-forms", "Fills in forms."),
        skill("tables", "Reads a PDF's tables."),
        skill("mail", "Über Post."),
    )
    assert [one.name for one in search_skills(skills, "PDF table")] == ["tables", "pdf-forms"]
    assert [one.name for one in search_skills(skills, "über")] == ["mail"]
    assert search_skills(skills, "nothing") == ()
    assert search_skills(skills, " - ") == skills


names = st.text(alphabet='ab"/,:[] ', min_size=1, max_size=4)


@given(one=st.dictionaries(names, names, max_size=3), other=st.dictionaries(names, names, max_size=3))
@example(one={"ab": "c"}, other={"a": "bc"})
def test_an_id_is_of_these_files_and_no_others(one, other):
    """Two sets of files have one id only where they are equal, whatever their names are; the order does not count."""
    assert (digest_of_skill(one) == digest_of_skill(other)) == (one == other)
    assert digest_of_skill(dict(reversed(one.items()))) == digest_of_skill(one)


HEAD = "name: pdf\ndescription: Reads PDFs.\n"


def read(head, body="Do it.", **given):
    """Read a file with this head, in a directory `pdf`."""
    return read_skill("pdf/SKILL.md", given.pop("directory", "pdf"), f"---\n{head}---\n{body}", **given)


def told(faults):
    return [str(fault) for fault in faults]


def test_a_skill_says_what_the_format_has():
    """What it does not know it keeps."""
    found = read(
        HEAD
        + "license: MIT\ncompatibility: needs git\nmetadata:\n  author: me\n  version: 1.0\nmodel: x\ncontext: fork\n"
    )
    assert (found.faults, found.warnings) == ((), ())
    text = found.text
    assert (text.name, text.description, text.instructions) == ("pdf", "Reads PDFs.", "Do it.")
    assert (text.license, text.compatibility, dict(text.metadata)) == (
        "MIT",
        "needs git",
        {"author": "me", "version": "1.0"},
    )
    assert dict(text.others) == {"model": "x", "context": "fork"}
    assert (text.allowed, text.delegates, text.for_model, text.for_user) == (None, False, True, True)
    assert read(HEAD + "metadata:\n  mode: delegate\n").text.delegates
    assert read(HEAD + "metadata:\n  mode: delegate\n  agent: scout\n").text.agent == "scout"
    assert read(HEAD + "metadata:\n").faults == ()


@pytest.mark.blueprint("G-028")
def test_allowed_tools_come_in_three_ways_and_mean_one_thing():
    """G-028: as text, as a list, and with a pattern in parentheses."""
    ways = (
        "allowed-tools: Bash(git:*) Read\n",
        "allowed-tools: Bash(git:*), Read\n",
        "allowed-tools: [Bash(git:*), Read]\n",
        "allowed-tools:\n- Bash(git:*)\n- Read\n",
        "allowed-tools: shell(git:*) read_file\n",
    )
    assert {read(HEAD + way).text.allowed for way in ways} == {("shell(git:*)", "read_file")}
    assert read(HEAD + "allowed-tools: ''\n").text.allowed == ()


def test_a_tool_that_nobody_knows_restricts_nothing():
    """It is a warning; the others stay, and where there are none, all tools run."""
    found = read(HEAD + "allowed-tools: Read Nope\n")
    assert found.text.allowed == ("read_file",)
    assert told(found.warnings) == [
        "pdf/SKILL.md:4: allowed-tools: there is no tool 'Nope' here: it is ignored"
    ]
    assert read(HEAD + "allowed-tools: Nope\n").text.allowed is None


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("description: x\n", ["pdf/SKILL.md:1: has no name: write one"]),
        ("name: pdf\n", ["pdf/SKILL.md:1: has no description: write one"]),
        ("name: ' '\ndescription: ' '\n", ["2: name: expected a name, got none", "3: description: expected a description, got none"]),
        ("name: Pdf\ndescription: x\n", ["2: name: expected 1 to 64 of a-z 0-9 -"]),
        ("name: a--b\ndescription: x\n", ["2: name: expected 1 to 64"]),
        ("name: -a\ndescription: x\n", ["2: name: expected 1 to 64"]),
        (f"name: {'a' * 65}\ndescription: x\n", ["2: name: expected 1 to 64"]),
        ("name: other\ndescription: x\n", ["2: name: expected the name of its directory, 'pdf', got 'other'"]),
        ("name: [pdf]\ndescription: {a: b}\n", ["2: name: expected a text, got a list", "3: description: expected a text, got a table"]),
        (f"name: pdf\ndescription: {'x' * 1_025}\n", ["3: description: expected at most 1,024 characters, got 1,025"]),
        (HEAD + f"compatibility: {'x' * 501}\n", ["4: compatibility: expected at most 500 characters"]),
        (HEAD + "metadata: x\n", ["4: metadata: expected a table of texts"]),
        (HEAD + "metadata:\n  a: [b]\n", ["5: metadata.a: expected a text, got a list"]),
        (HEAD + "allowed-tools: Bash(git\n", ["4: allowed-tools[0]: there is a '(' without a ')'"]),
        (HEAD + "allowed-tools: [[a]]\n", ["4: allowed-tools[0]: expected names of tools, got a list"]),
        (HEAD + "allowed-tools: {a: b}\n", ["4: allowed-tools[0]: expected names of tools"]),
        ("name: &a pdf\ndescription: *a\n", ["pdf/SKILL.md:2: anchors and aliases are not supported"]),
    ],
)  # fmt: skip
def test_all_faults_are_said_with_their_lines(head, said):
    """12.11: and there is no text then."""
    found = read(head)
    assert found.text is None
    assert len(found.faults) == len(said)
    for fault, expected in zip(told(found.faults), said, strict=True):
        assert expected in fault


def test_what_is_odd_is_a_warning():
    """A line that YAML refuses, no instructions, and commands that would be run elsewhere."""
    found = read("name: pdf\ndescription: use: so\n", body="")
    assert found.text.description == "use: so"
    assert [fault.place.line for fault in found.warnings] == [1, 3]
    assert "write them below" in told(found.warnings)[0]
    assert (
        "this line is not YAML: it was read as if its value were quoted; add the quotes"
        in told(found.warnings)[1]
    )
    ran = read(HEAD, body="First.\nNow: !`git status`\n")
    assert "!`git status`" in ran.text.instructions
    assert told(ran.warnings) == [
        "pdf/SKILL.md:6: a command in the text is not run: the model reads it as text"
    ]


def test_claude_code_has_fields_of_its_own():
    """12.15: without a name the directory's; what is not read is named once."""
    found = read(
        "description: x\nargument-hint: [file] [page]\ndisable-model-invocation: true\nuser-invocable: no\ncontext: fork\n"
        "agent: Explore\ndisallowed-tools: Bash(rm:*), Write\nhooks:\n  a: b\nmodel: opus\neffort: high\nshell: bash\nother: x\n",
        dialect="claude",
    )
    assert told(found.faults) == []
    text = found.text
    assert (text.name, text.argument_hint, text.agent) == ("pdf", "[file] [page]", "Explore")
    assert (text.for_model, text.for_user, text.delegates) == (False, False, True)
    assert text.disallowed == ("shell(rm:*)", "edit_file", "write_file")
    assert sorted(text.others) == ["effort", "hooks", "model", "other", "shell"]
    said = told(found.warnings)
    of_agent = "agent: where a session has no agent 'Explore', the general sub-agent follows it"
    assert sum(of_agent in one for one in said) == 1
    for name in ("effort", "hooks", "model", "shell"):
        assert sum(f"{name}: {name} is not read" in one for one in said) == 1
    plain = read("description: x\n", dialect="claude")
    assert (plain.text.for_model, plain.text.for_user, plain.text.delegates, plain.text.allowed) == (
        True,
        True,
        False,
        None,
    )


def test_odd_fields_of_claude_code():
    """Faults are as of the open ones; another context is a warning, and the session itself works by the skill."""
    for head, directory, said in (
        ("description: x\n", "Not A Name", "has no name, and its directory's name is invalid:"),
        (HEAD + "user-invocable: perhaps\n", "pdf", "user-invocable: expected true or false, got the text"),
    ):
        assert said in told(read(head, directory=directory, dialect="claude").faults)[0]
    found = read(HEAD + "context: inline\n", dialect="claude")
    assert not found.text.delegates
    assert "context must be fork or omitted, got" in told(found.warnings)[0]


def test_a_list_in_one_text_is_taken_apart():
    """Blanks or commas; in parentheses both belong to the pattern."""
    text = "Read, Grep  Bash(git log *)\nTask(a, b),mcp__github"
    assert split_tools(text) == ("Read", "Grep", "Bash(git log *)", "Task(a, b)", "mcp__github")
    assert split_tools("  ") == ()
    for wrong in ("Bash(git", "Bash)git("):
        with pytest.raises(ToolListFault, match="without a"):
            split_tools(wrong)


@given(st.lists(st.sampled_from(("Read", "Bash(git:*)", "Bash(a, b)", "mcp__x")), max_size=5))
def test_a_text_and_a_list_say_the_same(tools):
    """Whichever way they are written."""
    for between in (" ", ",", ", ", "\n"):
        assert split_tools(between.join(tools)) == tuple(tools)
