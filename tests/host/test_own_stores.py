"""A host gives its sessions memories and knowledge: by name, by each user, and never twice."""

import pytest

from agentrail.errors import OptionError
from agentrail.host.agent_profiles import AgentProfile
from agentrail.host.host_options import HostOptions
from agentrail.runtime.session_options import SessionOptions
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.testing.supervisors import open_nameless

PROFILE = AgentProfile(id="main", name="Main", options=SessionOptions(model="demo:fast"))


async def test_a_supervisor_that_is_open_has_its_own():
    """What would be ignored is refused."""
    async with open_nameless() as supervisor:
        with pytest.raises(
            OptionError, match="memories, notes, knowledge or an embedder are given, and so is supervisor"
        ):
            HostOptions(profiles=[PROFILE], supervisor=supervisor, memories=InMemoryRecall())
