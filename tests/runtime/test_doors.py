"""One tool never ends another session: nor does a plugin, a provider, a sandbox or what a plugin asked for."""

import pytest
import trio

from tests.runtime.doors import DOORS, PLAIN, TOOLS, Raises, open_torn, says_ok

NURSERIES = {"nursery_of_a_tool", "tool_that_is_killed"}
# What Trio itself does with them: a scope that is cancelled catches every cancellation, also an old one; and a nursery of
# the tool's own prints what its tasks raise, so that a `__repr__` that raises ends the run before anybody can catch it.
CAUGHT = {("a kept cancellation", door) for door in (*NURSERIES, "clean_up_of_a_tool")}
TRIOS_OWN = {(error, door) for error in PLAIN if error.startswith("unprintable") for door in NURSERIES}
SINGLE = {
    "SystemExit": (lambda: SystemExit("usage"), TOOLS),
    "a group": (lambda: BaseExceptionGroup("", [PLAIN["a kept cancellation"](), ValueError("x")]), TOOLS[:1]),
}


@pytest.mark.at(31)
@pytest.mark.parametrize("door", DOORS)
async def test_what_is_raised_at_a_door_ends_there(door, caplog):
    """The call gets an error, the session goes on, and the next session does not notice; a tool cannot exit, as argparse does."""
    errors = {name: make for name, make in PLAIN.items() if (name, door) not in CAUGHT | TRIOS_OWN}
    errors |= {name: make for name, (make, doors) in SINGLE.items() if DOORS[door] in doors}
    with trio.fail_after(60):
        for name, make in errors.items():
            caplog.clear()
            raises = Raises(make)
            async with open_torn(raises) as supervisor:
                bystander = await supervisor.start_session(model=says_ok())
                await DOORS[door](supervisor, raises)
                assert await bystander.ask("go") == "ok", name
                assert supervisor.statistics().restarts == 0, name
            assert raises.times, name
            told = [record for record in caplog.records if record.levelname == "ERROR"]
            assert told or door == "description_of_a_tool", name  # of which its caller is told
