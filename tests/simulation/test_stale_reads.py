"""Reads at an owner that may have lost its session: it does not answer from memory."""

from functools import partial

import trio

from agentrail.errors import AgentrailError
from agentrail.remote.link import open_links
from agentrail.remote.remote_session import RemoteSession
from agentrail.testing.simulation.chatty_model import chatty_model
from agentrail.testing.simulation.life import run
from agentrail.testing.simulation.people import Person

LEASE = 10.0
STATUS_EVERY = 0.5
CUT_AT, PROMPT_AT, MENDED_AT = 12.0, 28.0, 40.0


def lived(fault):
    """Let a session rest on node 0, hit that node, and prompt through node 1. Return the answers of each node to status, with their times."""
    answers = []

    def scenario(world):
        world.profile("shop", model=chatty_model(calls=0, trouble=0))
        world.serve(idle_after=300.0)
        world.inhabit("person-0", Person(world, 0, 0, "shop", (60.0, 60.0), ("nothing",)).live)

        def dial(index, within_seconds):
            headers = [(b"authorization", b"Bearer person-0")]
            return world.network.dial(f"node-{index}", headers=headers, within_seconds=within_seconds)

        async def read(index):
            await trio.sleep(CUT_AT - 2)
            while trio.current_time() < MENDED_AT + LEASE:
                try:
                    async with open_links(partial(dial, index)) as links:
                        while trio.current_time() < MENDED_AT + LEASE:
                            asked_at = trio.current_time()
                            status = await RemoteSession(links, "s0").status()
                            answers.append((index, asked_at, status.last_seq))
                            await trio.sleep(STATUS_EVERY)
                except AgentrailError as error:
                    answers.append((index, trio.current_time(), error.code))
                    await trio.sleep(STATUS_EVERY)

        async def prompt():
            await trio.sleep_until(CUT_AT)
            fault(world)
            await trio.sleep_until(PROMPT_AT)
            async with open_links(partial(dial, 1)) as links:
                await RemoteSession(links, "s0").prompt("more please", client_id="more")
            await trio.sleep_until(MENDED_AT)
            world.heal()

        for index in range(2):
            world.inhabit(f"reader-{index}", partial(read, index))
        world.inhabit("prompter", prompt)

    report = run(scenario, 3, nodes=2, hours=0.018, given={})
    assert report.broken is None, report.broken
    return answers


def test_an_owner_that_is_cut_off_from_the_store_answers_no_reads_after_a_lease():
    """Up to then it does, from memory, since no other node can own the session. Afterwards another one answers."""
    answers = lived(lambda world: world.store.go_away(MENDED_AT - CUT_AT, place="node-0"))
    own = [(at, answer) for index, at, answer in answers if index == 0]
    assert [answer for at, answer in own if CUT_AT < at < CUT_AT + 0.6 * LEASE]
    assert all(isinstance(answer, int) for at, answer in own if at < CUT_AT + 0.6 * LEASE)
    assert {answer for at, answer in own if CUT_AT + LEASE < at < MENDED_AT} == {"store_unavailable"}
    assert {answer for index, at, answer in answers if at > MENDED_AT + 2} == {max_of(answers)}
    assert max_of(answers) in [answer for index, at, answer in answers if index == 1 and at < MENDED_AT]


def test_an_owner_that_stood_still_for_two_leases_answers_from_the_store():
    """What reaches it while it stands still is asked of the new owner when it continues, although its memory is still there."""
    answers = lived(lambda world: world.stop(0, 2 * LEASE))
    after = [answer for index, at, answer in answers if index == 0 and at > CUT_AT]
    assert max_of(answers) in after
    known = [answer for index, at, answer in answers if index == 0 and at > PROMPT_AT + 2]
    assert set(known) <= {max_of(answers), "store_unavailable"}


def max_of(answers):
    """Return the number of the last event that any node has shown."""
    return max(answer for _, _, answer in answers if isinstance(answer, int))
