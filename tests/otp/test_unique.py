"""Copies and pickles of what there is one of: sessions, supervisors, actors, addresses, secrets."""

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from agentrail.abc import Secret
from agentrail.actors import SupervisorFlags, open_supervisor
from tests.runtime.rig import open_over, saying


@dataclasses.dataclass
class Order:
    about: Any


def _is_its_own_copy(unique, advice):
    assert copy.copy(unique) is copy.deepcopy(unique) is dataclasses.asdict(Order(unique))["about"] is unique
    with pytest.raises(TypeError, match=rf"cannot be pickled: {advice}"):
        pickle.dumps(unique)


async def test_a_session_and_its_supervisor():
    """A record of an application that holds a session can be copied; a pickle of it is refused with advice."""
    async with open_over(None) as sessions:
        session = await sessions.start_session(model=saying("hi"))
        for one in (sessions, session, session.agents):
            _is_its_own_copy(one, "keep its id, and look it up")
        assert await copy.deepcopy(session).ask("hello") == "hi"


async def test_an_actor_and_its_address():
    """A handle and an address are kept in the state of other actors, which may be copied."""
    async with open_supervisor(SupervisorFlags("one_for_one"), []) as root:
        for one in (root, root.address("child")):
            _is_its_own_copy(one, "keep its id, and look it up")


def test_a_secret():
    """A secret in the options of an application stays the secret, and is in no pickle."""
    _is_its_own_copy(Secret("sk-live-1"), r"reveal\(\) it")
