"""Agents of other programs, read."""

import pytest

from agentrail.config.imported_agents import read_claude_agent, read_codex_agent
from agentrail.config.schema import AgentForm, PermissionsForm, PromptForm

TOOLS = frozenset({"read_file", "grep", "shell", "edit_file", "write_file", "task"})


def claude(head, body="You review.", **given):
    models = {"sonnet": "anthropic:claude-sonnet-4-5"}
    return read_claude_agent("r.md", f"---\n{head}---\n{body}", models=models, tools=TOOLS, **given)


def codex(text):
    return read_codex_agent("r.toml", text, models={"gpt-5": "openai:gpt-5"})


def told(faults):
    return [str(fault) for fault in faults]


def test_an_agent_of_claude_code_is_read():
    """12.15: each field that we have, with its line."""
    found = claude(
        "name: reviewer\ndescription: Reviews.\ntools: Read, Grep, Bash, Agent(scout, helper)\nmodel: sonnet\nmaxTurns: 7\n"
        "skills: [a, b]\npermissionMode: acceptEdits\nbackground: true\n",
        scope="user",
        folder="/home/me",
    )
    assert (found.faults, found.notes) == ((), ())
    assert found.form.agents == {
        "reviewer": AgentForm(
            description="Reviews.",
            prompt=PromptForm(text="You review."),
            tools=("read_file", "grep", "shell", "task"),
            agents=("scout", "helper"),
            model="anthropic:claude-sonnet-4-5",
            max_turns=7,
            skills_in_prompt=("a", "b"),
            permissions=PermissionsForm(mode="accept_edits"),
            background=True,
        )
    }
    assert (found.scope, found.folder) == ("user", "/home/me")
    assert found.place("agents", "reviewer", "tools", 1).line == 4
    assert found.place("agents", "reviewer", "permissions", "mode").line == 8


def test_disallowed_tools_are_left_out_or_denied():
    """Out of a list of tools they go; where all are inherited a rule denies them, as one with a pattern always does."""
    listed = claude("name: a\ndescription: b\ntools: [Read, Bash]\ndisallowedTools: Bash, Read(.env)\n")
    assert listed.form.agents["a"].tools == ("read_file",)
    assert listed.form.agents["a"].permissions == PermissionsForm(deny=("read_file(.env)",))
    every = claude("name: a\ndescription: b\ndisallowedTools: [Write, Odd]\n")
    assert every.form.agents["a"].tools is None
    assert every.form.agents["a"].permissions.deny == ("edit_file", "write_file")
    assert told(every.notes) == ["r.md:4: disallowedTools: Odd is ignored: there is no such built-in tool"]


def test_each_field_that_is_not_read_is_named_once():
    """12.15: also a mode that allows more than a file may, a model without a name here, and tools that there are not."""
    found = claude(
        "name: a\ndescription: b\ntools: Read, WebSearch, Bash(git:*), mcp__x__y\nmodel: opus\npermissionMode: bypassPermissions\n"
        "hooks:\n  a: b\nmcpServers: [x]\nmemory: user\nisolation: worktree\neffort: high\ncolor: red\n"
    )
    assert found.form.agents == {
        "a": AgentForm(description="b", prompt=PromptForm(text="You review."), tools=("read_file",))
    }
    assert told(found.notes) == [
        "r.md:4: tools: WebSearch is ignored: there is no such built-in tool",
        "r.md:4: tools: Bash(git:*) is ignored: there is no such built-in tool",
        "r.md:4: tools: mcp__x__y is ignored: there is no such built-in tool",
        "r.md:5: model: 'opus' is ignored: map it to a model in [models]",
        "r.md:6: permissionMode: 'bypassPermissions' is refused: expected one of default, acceptEdits, plan, dontAsk",
        "r.md:7: hooks: is not read",
        "r.md:9: mcpServers: is not read",
        "r.md:10: memory: is not read",
        "r.md:11: isolation: is not read",
        "r.md:12: effort: is not read",
        "r.md:13: color: is not read",
    ]


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("description: b\n", ["r.md:1: name: expected a text, got nothing"]),
        ("name: a b\n", ["r.md:1: description: expected a text", "r.md:2: name: expected a name of 1 to 64"]),
        ("name: a\ndescription: [x]\n", ["r.md:3: description: expected a text, got a list"]),
        (
            "name: a\ndescription: b\nmaxTurns: 0\n",
            ["r.md:4: maxTurns: expected a whole number >= 1, got '0'"],
        ),
        ("name: a\ndescription: b\nmaxTurns: many\n", ["maxTurns: expected a whole number"]),
        ("name: a\ndescription: b\nbackground: 1\n", ["background: expected true or false"]),
        ("name: a\ndescription: b\ntools: Bash(a\n", ["tools: there is a '(' without a ')', in 'Bash(a'"]),
        ("name: a\ndescription: b\ntools: [[a]]\n", ["tools: expected names, got a list"]),
        ("a: *b\n", ["r.md:2: anchors and aliases are not supported"]),
    ],
)
def test_a_wrong_file_is_told_and_gives_no_agent(head, said):
    """All faults, each with its line."""
    found = claude(head)
    assert found.form.agents == {}
    assert len(found.faults) == len(said)
    for fault, expected in zip(told(found.faults), said, strict=True):
        assert expected in fault


def test_an_agent_of_codex_is_read():
    """12.15: `read-only` is as `plan` without a way out of it."""
    found = codex(
        'name = "scout"\ndescription = "Looks."\ndeveloper_instructions = """\nLook.\n"""\nmodel = "gpt-5"\nsandbox_mode = "read-only"\n'
    )
    assert (found.faults, found.notes) == ((), ())
    assert found.form.agents == {
        "scout": AgentForm(
            description="Looks.",
            prompt=PromptForm(text="Look."),
            model="openai:gpt-5",
            permissions=PermissionsForm(mode="plan", deny=("exit_plan",)),
        )
    }
    assert found.place("agents", "scout", "permissions").line == 7
    rest = codex(
        'name = "a"\ndescription = "b"\ndeveloper_instructions = "c"\nsandbox_mode = "workspace-write"\nnickname_candidates = ["x"]\n'
    )
    assert rest.form.agents["a"].permissions is None
    assert told(rest.notes) == [
        "r.toml:4: sandbox_mode: 'workspace-write' is ignored: only read-only is supported",
        "r.toml:5: nickname_candidates: is not read",
    ]


def test_a_wrong_file_of_codex_is_told():
    """No TOML, or without what is needed."""
    assert "this is not TOML" in told(codex("name =").faults)[0]
    assert "at most 32 levels" in told(codex("a = " + "[" * 50 + "]" * 50).faults)[0]
    missing = codex('name = "a"\n')
    assert [fault.place.dotted for fault in missing.faults] == ["developer_instructions", "description"]
    assert missing.form.agents == {}
