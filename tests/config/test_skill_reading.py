"""One `SKILL.md`."""

import pytest

from agentrail.config.skill_file import read_skill

HEAD = "name: pdf\ndescription: Reads PDFs.\n"


def read(head, body="Do it.", **given):
    """Read a file with this head, in a directory `pdf`."""
    return read_skill("pdf/SKILL.md", given.pop("directory", "pdf"), f"---\n{head}---\n{body}", **given)


def told(faults):
    """As a person reads them."""
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
        "pdf/SKILL.md:4: allowed-tools: there is no tool 'Nope' here: it means nothing"
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
        ("name: &a pdf\ndescription: *a\n", ["pdf/SKILL.md:2: anchors and aliases are not read"]),
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
    assert "YAML refuses this line" in told(found.warnings)[1]
    ran = read(HEAD, body="First.\nNow: !`git status`\n")
    assert "!`git status`" in ran.text.instructions
    assert told(ran.warnings) == [
        "pdf/SKILL.md:6: a command in the text is not run: the model reads it as it stands"
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
    of_agent = "agent: where a session has no agent 'Explore', the general sub-agent works by it"
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


@pytest.mark.parametrize(
    ("head", "directory", "said"),
    [
        ("description: x\n", "Not A Name", "has no name, and that of its directory is none"),
        (
            HEAD + "user-invocable: perhaps\n",
            "pdf",
            "user-invocable: expected true or false, got the text 'perhaps'",
        ),
    ],
)
def test_faults_of_claude_codes_fields(head, directory, said):
    """As of the open ones."""
    assert said in told(read(head, directory=directory, dialect="claude").faults)[0]


def test_another_context_means_nothing():
    """A warning, and the session itself works by the skill."""
    found = read(HEAD + "context: inline\n", dialect="claude")
    assert not found.text.delegates
    assert "context is fork or left out" in told(found.warnings)[0]
