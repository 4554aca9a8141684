"""`agentrail prompt show`: each section with where it comes from, and its tokens (12.3)."""

import pytest

from agentrail.cli.command_tree import run_command_line
from agentrail.cli.exit_codes import Exit

FILE = """\
version = 1
default_agent = "coder"
[defaults]
model = "demo:fast"
[agents.coder]
capabilities = ["ask"]
plugins = ["Permissions", "MemoryLoader"]
prompt = { file = "p.md", replace = { base = "Instead.", mode = "For ${who}.", agent_memory = "" } }
user_data = { prompt = { who = "Ada" } }
[agents.plain]
prompt = "You look."
[agents.broken]
prompt = "For ${nobody}."
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A project of the user's own, in a home of its own."""
    home = tmp_path / "home"
    (home / ".agentrail").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("AGENTRAIL_CONFIG", raising=False)
    monkeypatch.delenv("AGENTRAIL_MODEL", raising=False)
    monkeypatch.chdir(home)
    return home / ".agentrail"


def show(*arguments):
    return run_command_line(["prompt", "show", *arguments])


def test_each_section_is_shown_with_its_source_and_its_tokens(place, capfd):
    """A comment at the head of a file is not there; nor is a control character."""
    (place / "agentrail.toml").write_text(FILE, encoding="utf-8")
    (place / "p.md").write_text("<!-- for people -->\nHello ${who}\x1b[2J.\n", encoding="utf-8")
    assert show() is Exit.DONE
    out, err = capfd.readouterr()
    assert err == ""
    heads = [line for line in out.splitlines() if line.startswith("---")]
    assert heads[0] == "--- base (prompt.replace, in place of built in), about 2 tokens"
    assert heads[1].startswith("--- ask (capability ask, built in), about 23")
    assert heads[2] == "--- blueprint (p.md, .agentrail/agentrail.toml:8), about 4 tokens"
    assert heads[3].startswith("--- 3 sections, about 2")
    assert (
        heads[4]
        == "--- mode (prompt.replace, in place of what a plugin adds while a session runs), about 2 tokens"
    )
    assert "\nFor Ada.\n" in out
    assert heads[5:] == [
        "--- agent_memory (prompt.replace): what a plugin adds while a session runs is left out"
    ]
    assert "Hello Ada[2J." in out
    assert "for people" not in out
    assert show("--agent", "plain") is Exit.DONE
    assert capfd.readouterr().out.startswith(
        "--- blueprint (.agentrail/agentrail.toml:11), about 3 tokens\nYou look.\n"
    )


def test_without_files_it_is_the_base_prompt(place, capfd):
    """An agent that there is not, and a value that there is not, are said; exit code 2, as of all commands."""
    assert show() is Exit.DONE
    assert capfd.readouterr().out.startswith("--- base (built in), about 9")
    assert show("--agent", "x") is Exit.USAGE
    assert "there is no agent 'x'" in capfd.readouterr().err
    (place / "agentrail.toml").write_text(FILE.replace('"p.md"', '"no.md"'), encoding="utf-8")
    assert show() is Exit.USAGE
    assert "agentrail.toml:8" in capfd.readouterr().err
    assert show("--agent", "broken") is Exit.USAGE
    assert "${nobody} has no value" in capfd.readouterr().err
    (place / "agentrail.toml").write_text('[defaults]\nprompt = ""\n', encoding="utf-8")
    assert show() is Exit.DONE
    assert capfd.readouterr().out == "there is no system prompt\n"
