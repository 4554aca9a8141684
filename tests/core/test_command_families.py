"""What "always" allows: the commands that are like the one that a person saw, and nothing else (3.6)."""

import pytest

from agentrail.core.session.rules import family_of


@pytest.mark.parametrize(
    ("command", "family"),
    [
        ("ls", "ls"),
        ("ls -la src", "ls"),
        ("git status --short", "git status"),
        ("git push", "git push"),
        ("ls; rm -rf /", "ls; rm -rf /"),
        ("ls | xargs rm", "ls | xargs rm"),
        ("echo $HOME", "echo $HOME"),
        ("python -c 'print(1)'", "python -c 'print(1)'"),
        ("./ls", "./ls"),
        ("A=1 ls", "A=1 ls"),
        ("ls 'unclosed", "ls 'unclosed"),
        ("", ""),
        ("   ", "   "),
    ],
)
def test_a_family_is_a_program_or_the_line_itself(command, family):
    """A plain command is like all of its program; a line that could run anything is like nothing but itself."""
    assert family_of({"command": command}) == family


@pytest.mark.parametrize("arguments", [{}, {"path": "a"}, {"command": 3}, {"command": ["ls"]}])
def test_a_call_that_runs_no_command_has_no_family(arguments):
    """Then the rule is about the tool."""
    assert family_of(arguments) is None
