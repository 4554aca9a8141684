"""`write_file`: what it says, and what it tells of the file for those who look for loops."""

from agentrail.abc import Error
from agentrail.tools.write_file import write_file
from tests.tools.rig import StubSandbox, context


async def test_what_a_sandbox_refuses_is_an_error():
    """In the sandbox's own words, and nothing is written."""
    sandbox = StubSandbox()
    outcome = await write_file.execute({"path": "../a", "content": "x"}, context(sandbox))
    assert isinstance(outcome, Error)
    assert not (await sandbox.exists("a"))
