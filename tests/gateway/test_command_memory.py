"""What is done under a name is done once, and what is remembered of it is bounded."""

import trio

from agentrail.gateway import idempotency
from agentrail.gateway.error_responses import error_answer
from agentrail.gateway.idempotency import CommandMemory
from agentrail.gateway.socket_frames import CommandFrame
from agentrail.host.identity import SessionOwner

ANN = SessionOwner("acme", "ann")


def abort(**fields):
    """A command."""
    return CommandFrame(name="abort", id=1, session_id="s", fields=fields, size=10)


async def test_what_was_refused_for_the_moment_is_tried_again():
    """429 and faults of ours are not what became of it; a refusal for good is."""
    memory, codes = CommandMemory(), ["too_many_requests", "internal", "approval_unknown", "never"]

    async def work():
        await trio.lowlevel.checkpoint()
        return error_answer(codes.pop(0), "no")

    async with trio.open_nursery() as nursery:
        found = [(await memory.do_once(ANN, abort(), "k", nursery, work)).code for _ in range(4)]
    assert found == ["too_many_requests", "internal", "approval_unknown", "approval_unknown"]


async def test_it_is_bounded_by_caller_and_by_size():
    """The oldest go; what is large is not kept at all."""
    memory = CommandMemory()

    async def work():
        await trio.lowlevel.checkpoint()
        return b"x" * 1_000

    async def large():
        await trio.lowlevel.checkpoint()
        return b"x" * (idempotency.MAX_KEPT_RESULT_BYTES + 1)

    async with trio.open_nursery() as nursery:
        for number in range(300):
            await memory.do_once(ANN, abort(), f"k{number}", nursery, work)
        await memory.do_once(ANN, abort(), "large", nursery, large)
    assert len(memory) == idempotency.MAX_KEPT_OF_EACH
    assert memory.size_bytes == 1_000 * len(memory)
