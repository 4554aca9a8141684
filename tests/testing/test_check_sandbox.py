"""`check_sandbox` passes for our sandboxes, and names the rule that a broken one breaks."""

import tempfile

import pytest

from agentrail.sandboxes.composite import CompositeSandbox
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.check_sandbox import check_sandbox


async def test_a_directory_and_memory_keep_to_the_port(tmp_path):
    """`LocalSandbox`, on a real file system, and `MemorySandbox`, under the same rules."""
    await check_sandbox(lambda: LocalSandbox(tempfile.mkdtemp(dir=tmp_path)))
    await check_sandbox(MemorySandbox)


@pytest.mark.check
async def test_several_together_keep_to_the_port(tmp_path):
    """`CompositeSandbox`, whose default is either of them."""
    await check_sandbox(lambda: CompositeSandbox(MemorySandbox(), {}))
    await check_sandbox(lambda: CompositeSandbox(LocalSandbox(tempfile.mkdtemp(dir=tmp_path)), {}))
