"""The prompt of a command and what was typed become one text, and nothing else happens (12.10)."""

import re
import shlex
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail.commands import expand_prompt
from agentrail.commands.slash_command import read_typed
from agentrail.commands.template import MAX_PROMPT_CHARACTERS, MAX_TYPED_CHARACTERS
from agentrail.errors import CommandError, OptionError

ROWS = [
    ("Do $ARGUMENTS.", "this and  that", "Do this and  that."),
    ("$1-$2-$3", "a 'b c'", "a-b c-"),
    (r"\$1 costs $1", "me", "$1 costs me"),
    ("$ARGUMENTS $ARGUMENTS", "", " "),
    ("$1$10$2", "1 2 3 4 5 6 7 8 9 ten", "1ten2"),
    ("$0 $ARGUMENTSX $ARGUMENTS[0] $x ${1} $$1", "a", "$0 $ARGUMENTSX $ARGUMENTS[0] $x ${1} $a"),
    ("!`rm -rf /` @/etc/passwd $(id) $ARGUMENTS", "x", "!`rm -rf /` @/etc/passwd $(id) x"),
    ("no places", "", "no places"),
    ("$1", "don\\'t", "don't"),
]


def test_what_becomes_of_a_prompt():
    """Words as a shell splits them, a missing one is empty; no command is run and no file is opened, whatever stands there."""
    for template, text, wanted in ROWS:
        assert expand_prompt(template, text) == wanted
    # The second backslash takes the dollar, and nothing is left to be put in.
    with pytest.raises(CommandError, match="takes no arguments"):
        expand_prompt(r"\\$1", "a")
    assert expand_prompt(r"\\$1", "") == r"\$1"


@given(st.text(max_size=20), st.text(max_size=20))
def test_what_is_put_in_is_looked_at_no_more(before, text):
    """Who types a place sees just that place."""
    plain = re.sub(r"[\\$]", "", before)
    assert expand_prompt(f"{plain} $ARGUMENTS {plain}", text) == f"{plain} {text} {plain}"
    quoted = shlex.quote(text)
    if text:
        assert expand_prompt("<$1>", quoted) == f"<{text}>"


def test_what_cannot_be_put_in_is_refused():
    """A quote that does not end, words where none are taken, and more than fits; nothing is cut."""
    with pytest.raises(CommandError, match="close the quote"):
        expand_prompt("$1", "don't", name="fix")
    assert expand_prompt("$ARGUMENTS", "don't") == "don't"
    with pytest.raises(CommandError, match="/fix takes no arguments"):
        expand_prompt("Fix it.", "now", name="fix")
    with pytest.raises(CommandError, match="at most 65,536 characters"):
        expand_prompt("$ARGUMENTS", "x" * (MAX_TYPED_CHARACTERS + 1))
    template = "$ARGUMENTS " * 10_000
    with pytest.raises(CommandError, match="would become a prompt of"):
        expand_prompt(template, "x" * MAX_TYPED_CHARACTERS)
    assert len(expand_prompt(template, "x" * 80)) <= MAX_PROMPT_CHARACTERS


WRONG: Any = 5


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda: expand_prompt(WRONG, ""), "template is 5: expected a text"),
        (lambda: expand_prompt("", WRONG), "text is 5: expected a text"),
        (lambda: read_typed(WRONG), "line is 5: expected a text"),
    ],
)
def test_an_argument_that_is_not_a_text_is_named(call, fault):
    """With an error of ours."""
    with pytest.raises(OptionError, match=fault):
        call()
