"""`write_file`: what it says, and what it tells of the file for those who look for loops."""

import hashlib

from agentrail.abc import Error, Ok
from agentrail.core.policy.calls import FileChange, file_change_in
from agentrail.tools.write_file import write_file
from tests.tools.rig import StubSandbox, context


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_a_new_file_and_the_same_one_again():
    """Lines and bytes are counted, and whether the file is new is said."""
    sandbox = StubSandbox()
    text = "one\ntwo\n" * 600
    assert await write_file.execute({"path": "src/a.py", "content": text}, context(sandbox)) == Ok(
        text="Wrote 1,200 lines (4,800 bytes) to src/a.py (new file).",
        details={"file": {"path": "src/a.py", "sha256_before": None, "sha256_after": _sha(text)}},
    )
    assert await write_file.execute({"path": "./src/a.py", "content": "x"}, context(sandbox)) == Ok(
        text="Wrote 1 line (1 byte) to ./src/a.py.",
        details={"file": {"path": "src/a.py", "sha256_before": _sha(text), "sha256_after": _sha("x")}},
    )
    assert (await sandbox.read("src/a.py")).text == "x"


async def test_those_who_look_for_loops_can_read_the_details():
    """One path for every way to write it, and a file that was not there before differs from an empty one."""
    sandbox = StubSandbox({"b": ""})
    for path, before in (("./a", ""), ("b", _sha(""))):
        outcome = await write_file.execute({"path": path, "content": "x"}, context(sandbox))
        change = file_change_in(outcome.details)
        assert isinstance(change, FileChange)
        assert (change.path, change.after) == (path.removeprefix("./"), _sha("x"))
        assert (change.before == _sha("")) is bool(before)


async def test_what_a_sandbox_refuses_is_an_error():
    """In the sandbox's own words, and nothing is written."""
    sandbox = StubSandbox()
    outcome = await write_file.execute({"path": "../a", "content": "x"}, context(sandbox))
    assert isinstance(outcome, Error)
    assert not (await sandbox.exists("a"))
