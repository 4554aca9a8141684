"""What the command line becomes, before anything is started."""

import pytest

from agentrail.cli.run_setup import decide_prompt, decide_tools
from agentrail.errors import OptionError, PromptError


def test_tools_are_found_by_name():
    """Names with commas between them, blanks and repetitions forgiven; `none` is none; an empty name is a slip, and never means all tools."""
    assert [tool.name for tool in decide_tools("shell, list_dir,shell")] == ["shell", "list_dir"]
    assert decide_tools("none") == ()
    for text in ("", ",", "shell,"):
        with pytest.raises(OptionError, match="expected names with commas between them"):
            decide_tools(text)


def test_the_prompt_is_the_argument_or_what_was_piped():
    """Bytes that are no UTF-8 become U+FFFD; nothing, blanks, an empty pipe and two prompts are said to be what they are."""
    assert decide_prompt("hello ", None) == "hello "
    assert decide_prompt(None, b" hello \xff\n") == "hello \ufffd"
    for argument, piped, words in (
        (None, None, "no prompt was given"),
        ("", None, "the prompt is empty"),
        (" \n", None, "the prompt is empty"),
        (None, b"\n", "the prompt is empty"),
        ("hello", b"hello", "there are two prompts"),
    ):
        with pytest.raises(PromptError, match=words):
            decide_prompt(argument, piped)
