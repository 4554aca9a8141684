"""The commands of a chat whose session lives on a server: what is run there, and what is said of other sessions."""

import pytest

from agentrail.cli.chat_switch import GoTo
from agentrail.cli.remote_chat import registry_of, switch_far
from agentrail.commands import CommandAnswer, CommandDesk, CommandRow
from agentrail.errors import CommandError
from agentrail.messages import SessionId
from agentrail.wire.rows import SessionSummary


def row(name, source="project"):
    return CommandRow(name=name, description="It.", arguments="", source=source, available=True)


class FarAway:
    session_id = SessionId("s-1")

    def __init__(self, *others):
        self.others = others

    async def sessions(self, limit):
        return tuple(SessionSummary(session_id=one, agent_id="desk", phase="idle") for one in self.others)[
            :limit
        ]

    async def knows_session(self, session_id):
        return session_id in self.others


async def test_what_only_the_server_knows_is_asked_of_it():
    """Its tools and its own commands, also those of a newer one; names that are none are left out; the rest is done here."""
    ran = []

    async def run(call):
        ran.append((call.name, call.text))
        return CommandAnswer(lines=("from there",))

    mine, built_in = row("git:commit"), (row("quit", "built in"), row("newer", "built in"))
    rows = [mine, *built_in, row("../etc"), mine]
    registry = registry_of(rows, run)
    desk = CommandDesk(session=FarAway(), at_terminal=True)
    for name in ("tools", "agents", "skills", "memory", "git:commit", "newer"):
        assert (await registry.run(name, "x", desk)).lines == ("from there",)
    assert ran[-2:] == [("git:commit", "x"), ("newer", "x")]
    assert (await registry.run("quit", "", desk)).leaves
    assert [one.name for one in registry.commands if one.source == "project"] == ["git:commit"]
    assert len(ran) == 6


async def test_from_one_session_of_a_server_to_another():
    """`/clear` begins one, `/sessions` lists, `/resume` goes to the one before or to one that is named; what is not there is refused here."""
    far = FarAway("s-1", "s-2", "s-3")
    assert await switch_far("clear", "", far) == GoTo()
    assert await switch_far("resume", "", far) == GoTo(session=SessionId("s-2"))
    assert await switch_far("resume", "s-3", far) == GoTo(session=SessionId("s-3"))
    for text, said in (("s-1", "this is session s-1"), ("s-9", "no session 's-9' of yours")):
        with pytest.raises(CommandError, match=said):
            await switch_far("resume", text, far)
    with pytest.raises(CommandError, match="no other session"):
        await switch_far("resume", "", FarAway("s-1"))
    assert len(await switch_far("sessions", "", far)) == 4
