"""Slash commands of a host: those that a message of a user is, and those that are called by their name. Whose session it is, the host says."""

from typing import Any

from attrs import evolve

from agentrail.commands import (
    CommandAnswer,
    CommandDesk,
    CommandFacts,
    CommandRegistry,
    CommandRow,
    read_typed,
)
from agentrail.host.carrying import HostParts
from agentrail.host.identity import SessionOwner, profile_of_session
from agentrail.host.payloads import ChatRequest, HandledResponse
from agentrail.messages import SessionId
from agentrail.outside import current
from agentrail.runtime.glancing import names_for_commands
from agentrail.runtime.handle import Session
from agentrail.runtime.knowing import SessionFacts


class OwnedSession:
    """The session of a caller, as commands see it: its forks are the caller's too, and count as theirs."""

    def __init__(self, session: Session, parts: HostParts, owner: SessionOwner) -> None:
        """Stand in front of a session."""
        self._session, self._parts, self._owner = session, parts, owner

    def __getattr__(self, name: str) -> Any:
        """Give what the session itself does."""
        return getattr(self._session, name)

    async def fork(self, *, turn: int | None = None) -> "OwnedSession":
        """Begin one that goes on from it; as of `Host.fork_session`."""
        fork_id = SessionId(f"s-{current().ids(9)}")
        sessions = self._parts.sessions
        fork, _ = await sessions.fork(self._owner, self._session.session_id, fork_id, at=None, turn=turn)
        return OwnedSession(fork, self._parts, self._owner)


class CommandsOfHost:
    """The commands of a host.

    Attributes:
        registry: All that there are.
        are_read: Whether messages of users are looked at: a host that was given none takes them as they are.
    """

    def __init__(self, given: CommandRegistry | None, parts: HostParts) -> None:
        """Take what the host was opened with."""
        self.registry: CommandRegistry = given or CommandRegistry()
        self.are_read: bool = given is not None
        self._parts = parts

    async def take(
        self, request: ChatRequest, owner: SessionOwner, facts: SessionFacts | None
    ) -> ChatRequest | HandledResponse:
        """Carry a message out that is a command; another one, and what a command wants said, goes on.

        Raises:
            UnknownCommand, CommandError: The caller's move: there is none, or it takes something else.
            Exception: As of what it does with the session.
        """
        typed = read_typed(request.message) if self.are_read else None
        if typed is None:
            return request
        command = self.registry.find(typed.name)  # before a session is woken for it
        # What begins a session is said by no agent yet, but it is known by which one it will be heard.
        desk = CommandDesk(agent=request.agent_id or None) if facts is None else await self.desk(owner, facts)
        answer = await self.registry.run(command.name, typed.text, desk)
        if answer.prompt is None:
            return HandledResponse({"command": command.name, "lines": list(answer.lines)})
        if answer.model is not None and desk.session is not None:
            await desk.session.switch_model(answer.model)
        return evolve(request, message=answer.prompt)

    async def run(
        self, name: str, text: str, owner: SessionOwner, facts: SessionFacts | None
    ) -> CommandAnswer:
        """Run a command that is called by its name; a prompt that it gives is not sent.

        Raises:
            Exception: As of `take`.
        """
        command = self.registry.find(name)
        return await self.registry.run(command.name, text, await self.desk(owner, facts))

    async def rows(self, owner: SessionOwner, facts: SessionFacts | None) -> tuple[CommandRow, ...]:
        """List all commands, as they stand for a caller and a session."""
        return self.registry.rows(await self.desk(owner, facts))

    async def desk(self, owner: SessionOwner, facts: SessionFacts | None) -> CommandDesk:
        """Say from where a caller runs commands.

        Raises:
            Exception: As of `HostSessions.open`.
        """
        if facts is None:
            return CommandDesk()
        session = await self._parts.sessions.open(facts, owner)
        tools, agents, sections = names_for_commands(session)
        agent = (await session.status()).agent or profile_of_session(facts.user_data)
        return CommandDesk(
            session=OwnedSession(session, self._parts, owner),
            facts=CommandFacts(tools=tools, agents=agents, sections=sections),
            agent=agent,
        )
