"""A slash command as a value: what it is called, where it may be run, what it is given and what it answers."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, Protocol, Self, TypeAlias

from attrs import field, frozen

from agentrail.core.journal.branches import PastTurn
from agentrail.core.session.projection import Snapshot, Status
from agentrail.errors import OptionError
from agentrail.messages import Message, SessionId
from agentrail.otp.edges import is_async

CommandScope: TypeAlias = Literal["anywhere", "terminal"]
"""Where a command is run: also by a host, or only where a person sits at a terminal."""

COMMAND_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}(?::[a-z0-9][a-z0-9_-]{0,63}){0,7}")
_TYPED: Final = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_:-]*)(?:[ \t\n]+(.*))?", re.DOTALL)
_MAX_WORDS: Final = 1_024


class CommandSession(Protocol):
    """What commands ask of a session: the calls of its handle, here or over a connection."""

    @property
    def session_id(self) -> SessionId:
        """Which one."""
        ...

    async def status(self) -> Status:
        """Say how it stands."""
        ...

    async def snapshot(self) -> Snapshot:
        """Draw it."""
        ...

    async def messages(self) -> tuple[Message, ...]:
        """Give the conversation."""
        ...

    async def compact(self, reason: str | None = None) -> None:
        """Let a summary stand for its beginning."""
        ...

    async def switch_model(self, model: Any) -> None:
        """Ask another model from now on."""
        ...

    async def abort(self, reason: str | None = None) -> Any:
        """Stop the running cycle."""
        ...

    async def fork(self, *, turn: int | None = None) -> Self:
        """Begin another one that goes on from it."""
        ...

    async def rewind(self, *, turn: int | None = None) -> Any:
        """Go back."""
        ...

    async def turns(self) -> Sequence[PastTurn]:
        """Name the turns that it can go back to."""
        ...

    async def rules(self) -> Sequence[Any]:
        """Give what people always allow."""
        ...


@frozen(kw_only=True)
class CommandFacts:
    """What is known of a session that none of its answers has.

    Attributes:
        tools: What its model may call, by name.
        agents: Who may work for it, by name.
        sections: What its system prompt has behind its own text, by name, with tokens.
    """

    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    sections: tuple[tuple[str, int], ...] = ()


@frozen(kw_only=True)
class CommandRow:
    """A command as it is listed: the same at a terminal, in the console and over HTTP.

    Attributes:
        name: Without its slash.
        description: What it does.
        arguments: What may stand behind it; empty for nothing.
        source: Whose it is: `built in`, `project`, `user`, or what a blueprint or a skill says.
        available: Whether it can be run here and now.
        why_not: Why it cannot; None where it can.
    """

    name: str
    description: str
    arguments: str
    source: str
    available: bool
    why_not: str | None = None


@frozen(kw_only=True)
class CommandDesk:
    """From where a command is run.

    Attributes:
        session: With which session; None for none.
        rows: All commands, as they are listed there.
        facts: What is known of the session besides.
        tree: Draws what runs; None where that is not for this caller.
        at_terminal: Whether a person sits at one.
        agent: As which agent the session works; None where that is not known.
    """

    session: CommandSession | None = None
    rows: tuple[CommandRow, ...] = ()
    facts: CommandFacts = CommandFacts()
    tree: Callable[[], Awaitable[str]] | None = None
    at_terminal: bool = False
    agent: str | None = None


@frozen(kw_only=True)
class CommandCall:
    """A command that is run.

    Attributes:
        name: As it is called.
        text: What stands behind it, as it was typed.
        desk: From where.
    """

    name: str
    text: str
    desk: CommandDesk

    @property
    def session(self) -> CommandSession:
        """The session; a command that needs one is not run without."""
        assert self.desk.session is not None  # noqa: S101 - said by `why_not`
        return self.desk.session


@frozen(kw_only=True)
class CommandAnswer:
    """What came of a command.

    Attributes:
        lines: What is told to who asked, and to no one else.
        prompt: What the session is to be prompted with; None for nothing.
        model: Which model is to be asked from then on; None: the one that is.
        leaves: Whether the terminal is to be left.
    """

    lines: tuple[str, ...] = ()
    prompt: str | None = None
    model: str | None = None
    leaves: bool = False


RunCommand: TypeAlias = Callable[[CommandCall], Awaitable[CommandAnswer]]


@frozen(kw_only=True)
class SlashCommand:
    """A slash command.

    Attributes:
        name: `[a-z0-9_-]`, parts joined by `:`, without its slash.
        description: What it does, in a sentence.
        arguments: What may stand behind it, for people; empty for nothing.
        run: Does it. None: where it is typed it is done by who reads the lines, as leaving is.
        scope: Where it is run.
        needs_session: Whether it is about one.
        background: Whether it may be run while a cycle is at work.
        in_history: Whether what it says becomes part of the conversation.
        source: Whose it is.
        agent: As which agent a session has to work for it, or as one of which; None for any.

    Raises:
        OptionError: Your move: an invalid name, no `run`, or one that is not async.
    """

    name: str
    description: str
    arguments: str = ""
    run: RunCommand | None = field(default=None, repr=False)
    scope: CommandScope = "anywhere"
    needs_session: bool = True
    background: bool = True
    in_history: bool = False
    source: str = "blueprint"
    agent: str | tuple[str, ...] | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be."""
        faults = []
        given: Any = self.name
        if not isinstance(given, str) or not COMMAND_NAME.fullmatch(given):
            faults.append(
                f"the command {self.name!r:.80} has no name: expected a-z 0-9 _ -, parts joined by :"
            )
        if self.run is not None and not is_async(self.run):
            faults.append(
                f"run of the command {self.name!r:.80} is {self.run!r:.80}: expected an async function (`async def`)"
            )
        if self.run is None and self.scope == "anywhere":
            faults.append(f"the command {self.name!r:.80} does nothing: give it run")
        if faults:
            raise OptionError(faults)

    def why_not(self, desk: CommandDesk) -> str | None:
        """Say why it cannot be run from somewhere; None where it can."""
        if self.scope == "terminal" and not desk.at_terminal:
            return "only at a terminal, in agentrail chat"
        if self.needs_session and desk.session is None:
            return "needs a session"
        if self.agent is None:
            return None
        agents = (self.agent,) if isinstance(self.agent, str) else self.agent
        return None if desk.agent in agents else f"needs the agent {' or '.join(agents)}"

    def row(self, desk: CommandDesk) -> CommandRow:
        """List it."""
        why = self.why_not(desk)
        return CommandRow(
            name=self.name,
            description=self.description,
            arguments=self.arguments,
            source=self.source,
            available=why is None,
            why_not=why,
        )


@frozen(kw_only=True)
class TypedCommand:
    """A line that is a command.

    Attributes:
        name: As it was typed, in lower case.
        text: What stands behind it.
    """

    name: str
    text: str


def read_typed(line: str) -> TypedCommand | None:
    """Read a line as a command; None for other words, such as a path: `/etc/hosts is wrong`, or `//`.

    The name is read as a whole, without regard to case: `/Help` is `help`, and `/helper` is not.
    """
    found = _TYPED.fullmatch(line.strip())
    if found is None or len(found[1]) > _MAX_WORDS:
        return None
    return TypedCommand(name=found[1].lower(), text=(found[2] or "").strip())
