"""`agentrail run` cannot ask the user: a call that needs an approval is refused at once, unless `--approve` names its tool; a question is declined."""

import trio

from agentrail.cli.run_command import is_pre_approved
from tests.cli.test_config import run_in, write

ASKS = 'version = 1\n[defaults]\nplugins = [{ use = "HumanApproval" }]\n'
GIVEN = ("--trust-project", "--model", "demo:fast", "--tools", "shell", "--shell-fallback", "unconfined")


async def test_a_call_that_needs_an_approval_is_refused_at_once_or_approved(place):
    """No deadline runs, and the message names the option and the chat; a list without names is refused, as of the chat."""
    write(place, ASKS, "project/agentrail.toml")
    for more, is_run in (
        ((), False),
        (("--approve", "edit_file"), False),
        (("--approve", "sh*, edit_file"), True),
    ):
        with trio.fail_after(60):
            ended = await run_in(place, "run", 'shell "touch made"', *GIVEN, *more)
        assert ended.code == 0
        assert (place / "project" / "made").exists() == is_run
        assert ("--approve shell approves it; `agentrail chat` asks you" in ended.err) != is_run
        assert ("Rejected by the user: no user can be asked in this run" in ended.out) != is_run
    with trio.fail_after(60):
        ended = await run_in(place, "run", "Hi", "--model", "demo:fast", "--approve", "shell,,")
    assert (ended.code, "--approve is 'shell,,'" in ended.err) == (2, True)


def test_names_are_patterns():
    """`*` stands for all; without the option there are none."""
    assert all(is_pre_approved("shell", one) for one in ("shell", "sh*", "*", "edit_file, shell"))
    assert not any(is_pre_approved("shell", one) for one in (None, "hell"))
