"""`agentrail run` cannot ask the user: a call that needs an approval is refused at once, unless `--approve` names its tool; a question is declined."""

import pytest
import trio

from agentrail.cli.run_command import is_pre_approved
from tests.cli.test_config import run_in, write

ASKS = 'version = 1\n[defaults]\nplugins = [{ use = "HumanApproval" }]\n'
GIVEN = ("--trust-project", "--model", "demo:fast", "--tools", "shell", "--shell-fallback", "unconfined")


@pytest.fixture
def place(tmp_path):
    """A project, and a home directory beside it."""
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("more", "is_run"),
    [((), False), (("--approve", "edit_file"), False), (("--approve", "sh*, edit_file"), True)],
)
async def test_a_call_that_needs_an_approval_is_refused_at_once_or_approved(place, more, is_run):
    """No deadline runs, and the message names the option and the chat."""
    write(place, ASKS, "project/agentrail.toml")
    with trio.fail_after(60):
        ended = await run_in(place, "run", 'shell "touch made"', *GIVEN, *more)
    assert ended.code == 0
    assert (place / "project" / "made").exists() == is_run
    assert ("--approve shell approves it; `agentrail chat` asks you" in ended.err) != is_run
    assert ("Rejected by the user: no user can be asked in this run" in ended.out) != is_run


async def test_a_list_without_names_is_refused(place):
    """As of the chat."""
    with trio.fail_after(60):
        ended = await run_in(place, "run", "Hi", "--model", "demo:fast", "--approve", "shell,,")
    assert ended.code == 2
    assert "--approve is 'shell,,'" in ended.err


def test_names_are_patterns():
    """`*` stands for all; without the option there are none."""
    assert [
        is_pre_approved("shell", one) for one in (None, "shell", "sh*", "*", "edit_file, shell", "hell")
    ] == [
        False,
        True,
        True,
        True,
        True,
        False,
    ]
