"""What the command line becomes, before anything is started."""

import pytest

from agentrail.app import ChosenModel
from agentrail.cli.choices import ALL_TOOLS, Choices
from agentrail.cli.command_options import decide_prompt, decide_session, decide_tools
from agentrail.errors import OptionError, PromptError, ToolDefinitionError
from agentrail.tools import builtin


def test_tools_are_found_by_name():
    """Names with commas between them, blanks and repetitions forgiven; `none` is none."""
    assert [tool.name for tool in decide_tools("shell, list_dir,shell")] == ["shell", "list_dir"]
    assert decide_tools("none") == ()


@pytest.mark.parametrize("text", ["", ",", "shell,"])
def test_tools_without_a_name_are_refused(text):
    """An empty name is a slip, and never means all tools."""
    with pytest.raises(OptionError, match="expected names with commas between them"):
        decide_tools(text)


def test_an_unknown_tool_gets_the_nearest_name():
    """The message says which tools there are."""
    with pytest.raises(
        ToolDefinitionError, match=r"Did you mean 'read_file'.*list_dir, python, read_file, recall"
    ):
        decide_tools("readfile")


def test_the_session_gets_what_was_chosen(tmp_path):
    """Every option of the command arrives in the options of the session."""
    choices = Choices(
        base_url="http://localhost:1/v1",
        cwd=tmp_path,
        tools="none",
        system="Be brief.",
        max_turns=3,
        max_retries=1,
    )
    options = decide_session(choices, ChosenModel(model="openai-chat:x", why="--model"))
    assert options.model == "openai-chat:x"
    assert options.provider_opts == {"base_url": "http://localhost:1/v1"}
    assert options.working_dir == tmp_path
    assert options.tools == ()
    assert options.system_prompt == "Be brief."
    assert options.max_turns == 3
    assert options.max_retries == 1


def test_without_options_only_reading_is_offered():
    """`shell` must be asked for, and then commands are refused where they cannot be confined."""
    options = decide_session(Choices(), ChosenModel(model="demo:", why=""))
    assert [tool.name for tool in options.tools] == ["list_dir", "read_file"]
    assert options.provider_opts == {}
    assert Choices().shell_fallback == "refuse"


def test_the_prompt_is_the_argument_or_what_was_piped():
    """Bytes that are no UTF-8 become U+FFFD instead of an error."""
    assert decide_prompt("hello ", None) == "hello "
    assert decide_prompt(None, b" hello \xff\n") == "hello \ufffd"


@pytest.mark.parametrize(
    ("argument", "piped", "words"),
    [
        (None, None, "no prompt was given"),
        ("", None, "the prompt is empty"),
        (" \n", None, "the prompt is empty"),
        (None, b"\n", "the prompt is empty"),
        ("hello", b"hello", "there are two prompts"),
    ],
)
def test_a_prompt_of_nothing_is_refused(argument, piped, words):
    """Nothing, blanks, an empty pipe and two prompts are said to be what they are."""
    with pytest.raises(PromptError, match=words):
        decide_prompt(argument, piped)


def test_the_help_names_the_tools_that_there_are():
    """They are written out, because the first prompt does not wait for the tools to be imported."""
    assert ", ".join(tool.name for tool in builtin()) == ALL_TOOLS
