"""Limits of callers over several nodes: messages are counted once for all of them (docs: server options)."""

import pytest
import trio

from agentrail.gateway.path_endpoint import Gateway
from agentrail.host.identity import SessionOwner
from agentrail.host.quotas import Limits
from agentrail.runtime.session_clock import now_ms
from agentrail.stores.memory import MemoryStore
from tests.host.hosting import ANN, EVE, answering
from tests.host.test_several_nodes import nodes
from tests.runtime.rig import on_virtual_time

LIMITS = Limits(messages_per_minute=60, messages_burst=10, calls_per_minute=60, calls_burst=10)


def gateways(machines):
    return [Gateway(callers=None, limits=LIMITS, host=machine.host) for machine in machines]


async def count(doors, owner, operation):
    """Draw 300 times within a minute, through all nodes in turn."""
    allowed = []
    for number in range(300):
        draw = await doors[number % len(doors)].draw(owner, operation)
        allowed.append(draw.is_allowed)
        assert draw.is_allowed == (draw.retry_after_seconds == 0)
        assert 0 <= draw.left < LIMITS.messages_burst
        await trio.sleep(0.2)
    return sum(allowed)


@pytest.mark.machine(13)
@on_virtual_time
async def test_messages_are_limited_for_all_nodes_together():
    """60 a minute and the burst through three nodes, not 180. Other users and other calls do not count."""
    store = MemoryStore(now_ms=now_ms, is_shared=True)
    async with nodes(store, answering(), answering(), answering()) as machines:
        doors = gateways(machines)
        owner = SessionOwner.of(ANN)
        assert 60 <= await count(doors, owner, "prompt") <= 60 + LIMITS.messages_burst
        assert (await doors[0].draw(SessionOwner.of(EVE), "prompt")).left == LIMITS.messages_burst - 1
        assert await count(doors, owner, "read") > 2 * 60


@on_virtual_time
async def test_a_node_whose_store_is_away_counts_messages_alone():
    """A node whose store is away counts messages alone."""
    store = MemoryStore(now_ms=now_ms, is_shared=True)
    async with nodes(store, answering()) as machines:
        (door,) = gateways(machines)
        machines[0].is_dead = True
        draws = [await door.draw(SessionOwner.of(ANN), "prompt") for _ in range(LIMITS.messages_burst + 1)]
        assert [draw.is_allowed for draw in draws] == [True] * LIMITS.messages_burst + [False]
