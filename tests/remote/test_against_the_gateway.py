"""A client against the gateway itself, over real connections: what a handle in this process gives, this one gives too."""

import agentrail
from agentrail.events import AgentStart, MessageDelta
from agentrail.host.payloads import Principal
from tests.gateway.web import serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time

TOKENS = {
    "ann": Principal(tenant_id="acme", user_id="ann"),
    "bob": Principal(tenant_id="acme", user_id="bob"),
}


def auth(headers):
    """Know some tokens."""
    return TOKENS.get(headers.get("authorization", "").removeprefix("Bearer "))


def url_of(web):
    """The address of a server."""
    host, port = web.address
    return f"http://{host}:{port}"


@on_bounded_time
async def test_it_talks():
    """Ask, run, stream, messages, status, snapshot: as of a session in this process."""
    async with serving(answering("One.", "Two.", "Three."), auth=auth) as web:
        async with agentrail.connect(url_of(web), "ann", agent_id="desk") as session:
            assert await session.ask("Hi") == "One."
            reply = await session.run("Again")
            assert (reply.text, reply.turns, len(reply.messages)) == ("Two.", 1, 2)
            said = ""
            async with session.stream("More") as cycle:
                async for event in cycle:
                    said += event.delta if isinstance(event, MessageDelta) else ""
            assert said == cycle.reply.text == "Three."
            assert len(await session.messages()) == 6
            assert (await session.status()).phase == "idle"
            snapshot = await session.snapshot()
            assert len(snapshot.last_messages) == 6
            assert await session.collect_reply() == "Three."
            assert (await session.wait_for(AgentStart)).ref == cycle.ref
