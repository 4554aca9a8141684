"""What the command line becomes, before anything is started."""

import pytest

from agentrail.cli.run_setup import decide_prompt, decide_tools
from agentrail.errors import OptionError, PromptError


def test_tools_are_found_by_name():
    """Names with commas between them, blanks and repetitions forgiven; `none` is none."""
    assert [tool.name for tool in decide_tools("shell, list_dir,shell")] == ["shell", "list_dir"]
    assert decide_tools("none") == ()


@pytest.mark.parametrize("text", ["", ",", "shell,"])
def test_tools_without_a_name_are_refused(text):
    """An empty name is a slip, and never means all tools."""
    with pytest.raises(OptionError, match="expected names with commas between them"):
        decide_tools(text)


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
