"""Slash commands of other programs, as values."""

import pytest
from hypothesis import given, strategies as st

from agentrail.config.imported_commands import (
    CommandFault,
    ImportedCommand,
    expand_command,
    read_gemini_command,
    read_markdown_command,
)
from agentrail.errors import CommandError


@pytest.mark.blueprint("G-027")
def test_a_command_of_claude_code():
    """G-027: directories are joined by `:`; what would be run or read stays as text, and is named once."""
    text = (
        "---\ndescription: Commits.\nargument-hint: [message]\nallowed-tools: Bash(git:*)\nmodel: opus\n---\n"
        "Status: !`git status`\nSee @docs/commits.md and mail a@b.c.\nCommit $0 with $ARGUMENTS[1], all: $ARGUMENTS.\n"
    )
    command = read_markdown_command("claude", "git/commit.md", text)
    assert (command.name, command.description, command.argument_hint) == (
        "git:commit",
        "Commits.",
        "[message]",
    )
    assert command.notes == (
        "allowed-tools is not read",
        "model is not read",
        "commands in it are not run: they remain text",
        "files in it are not opened: they remain text",
    )
    expanded = expand_command(command, "'a b' c")
    assert expanded.endswith("mail a@b.c.\nCommit a b with c, all: 'a b' c.")
    assert "!`git status`" in expanded


def test_numbers_begin_where_the_file_means_it():
    """At 0 now, at 1 in older files, which have $1 and no $0; that is said."""
    old = read_markdown_command("claude", "a.md", "$1 and $2")
    assert (old.first, expand_command(old, "x y")) == (1, "x and y")
    assert old.notes == ("it has $1 but no $0: arguments are counted from 1",)
    new = read_markdown_command("claude", "a.md", "$0 and $1 and $2")
    assert (new.first, new.notes, expand_command(new, "x y")) == (0, (), "x and y and ")
    assert read_markdown_command("claude", "a.md", "$2").first == 0
    assert expand_command(ImportedCommand(name="a", prompt="[$0]", origin="codex", first=1), "x") == "[]"


@pytest.mark.blueprint("G-027")
def test_a_prompt_of_codex():
    """G-027: counted from 1; `$$` is a dollar; a hint is written in two ways."""
    for hint in ("argument_hint", "argument-hint"):
        text = f"---\ndescription: Reviews.\n{hint}: FILE\n---\nReview $1 for $$5. !`x` @y"
        command = read_markdown_command("codex", "review.md", text)
        assert (command.name, command.argument_hint, command.notes) == ("review", "FILE", ())
        assert expand_command(command, "a.py b.py") == "Review a.py for $5. !`x` @y"


@pytest.mark.blueprint("G-027")
def test_a_command_of_gemini():
    """G-027: TOML with a prompt; `{{args}}` and nothing else is a place."""
    command = read_gemini_command(
        "git/fix.toml",
        'description = "Fixes."\nprompt = """Fix {{args}} for $1. !{ls} @{a.md}"""\nother = 1\n',
    )
    assert (command.name, command.description) == ("git:fix", "Fixes.")
    assert command.notes == (
        "other is not read",
        "commands in it are not run: they remain text",
        "files in it are not opened: they remain text",
    )
    assert expand_command(command, "it") == "Fix it for $1. !{ls} @{a.md}"


def test_arguments_without_a_place_stand_behind():
    """Nothing that was typed is lost; without arguments nothing is added, and quotes that do not end are words."""
    for command in (
        read_markdown_command("claude", "a.md", "Do $$ {{args}}"),
        read_gemini_command("a.toml", 'prompt = "Do $1"'),
    ):
        assert expand_command(command, "it's") == f"{command.prompt}\n\nit's"
        assert expand_command(command, " ") == command.prompt
    assert expand_command(read_markdown_command("claude", "a.md", "$0 $1"), "it's so") == "it's so"


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: read_gemini_command("a.toml", "prompt ="), "this is not TOML"),
        (lambda: read_gemini_command("a.toml", 'description = "x"'), "it has no prompt"),
        (lambda: read_gemini_command("a.toml", "prompt = 1"), "prompt: expected a text, got 1"),
        (lambda: read_markdown_command("claude", "a.md", "---\na: *b\n---\n"), "line 2: anchors"),
        (
            lambda: read_markdown_command("codex", "a.md", "---\ndescription: {a: b}\n---\n"),
            "description: expected a text",
        ),
    ],
)
def test_a_wrong_file_is_no_command(read, said):
    """And says why."""
    with pytest.raises(CommandFault, match=said):
        read()


@given(st.text(alphabet="$01ARGUMENTS[]{}a ", max_size=30), st.sampled_from(("claude", "codex", "gemini")))
def test_what_is_put_in_is_not_looked_at_again(arguments, origin):
    """An argument that looks like a place is text."""
    prompt = "<{{args}}>" if origin == "gemini" else "<$ARGUMENTS>"
    command = ImportedCommand(name="a", prompt=prompt, origin=origin)
    assert expand_command(command, arguments) == f"<{arguments}>"


def test_an_expansion_that_grows_too_long_is_refused():
    """Its length is known before it is joined, so it costs no memory."""
    command = ImportedCommand(name="a", prompt="$ARGUMENTS" * 10_000, origin="claude")
    with pytest.raises(CommandError, match=r"/a would become a prompt of \d[\d,]+ characters"):
        expand_command(command, "x" * 1_000_000)
