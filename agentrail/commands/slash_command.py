"""A slash command as a value: its name, where it can run, its input and its answer."""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Literal, Protocol, Self, TypeAlias

from attrs import field, frozen

from agentrail.core.journal.turn_index import PastTurn
from agentrail.core.session.views import Snapshot, Status
from agentrail.errors import OptionError
from agentrail.messages import Message, SessionId
from agentrail.otp.field_rules import CheckedFields, checks_arguments, faults_of_fields
from agentrail.otp.guarded_calls import is_async, repr_of
from agentrail.structs import picked_fields

CommandScope: TypeAlias = Literal["anywhere", "terminal"]
"""Where a command can run: everywhere, including in a host, or only at a user's terminal."""

COMMAND_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}(?::[a-z0-9][a-z0-9_-]{0,63}){0,7}")
_TYPED: Final = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_:-]*)(?:[ \t\n]+(.*))?", re.DOTALL)
_MAX_WORDS: Final = 1_024


class CommandSession(Protocol):
    """The session of a command: the calls of its handle, local or over a connection."""

    @property
    def session_id(self) -> SessionId:
        """Its id."""
        ...

    async def status(self) -> Status:
        """Return its status."""
        ...

    async def snapshot(self) -> Snapshot:
        """Return a snapshot for display."""
        ...

    async def messages(self) -> tuple[Message, ...]:
        """Return the conversation."""
        ...

    async def compact(self, reason: str | None = None) -> None:
        """Replace the start of the conversation by a summary."""
        ...

    async def switch_model(self, model: Any) -> None:
        """Use another model from now on."""
        ...

    async def abort(self, reason: str | None = None) -> Any:
        """Stop the running cycle."""
        ...

    async def fork(self, *, turn: int | None = None) -> Self:
        """Start another session that continues from this one."""
        ...

    async def rewind(self, *, turn: int | None = None) -> Any:
        """Go back to the end of a turn."""
        ...

    async def turns(self) -> Sequence[PastTurn]:
        """List the turns that it can go back to."""
        ...

    async def rules(self) -> Sequence[Any]:
        """Return the rules for calls that are always allowed, and the breakpoints."""
        ...

    async def break_on(self, tool: str = "*") -> None:
        """Stop calls of a tool for an approval."""
        ...

    async def unbreak(self, tool: str = "*") -> None:
        """End a breakpoint."""
        ...


@frozen(kw_only=True)
class CommandFacts:
    """Facts about a session that none of its calls returns.

    Attributes:
        tools: The tools that its model may call, by name.
        agents: The agents that may work for it, by name.
        sections: The sections of its system prompt after its own text, by name, with tokens.
    """

    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    sections: tuple[tuple[str, int], ...] = ()


@frozen(kw_only=True)
class CommandRow:
    """A command in a list: the same at a terminal, in the console and over HTTP.

    Attributes:
        name: Without its slash.
        description: The command's purpose.
        arguments: A hint for its arguments, or empty for none.
        source: Its origin: `built in`, `project`, `user`, or the name given by a blueprint or a skill.
        available: Whether it can run here and now.
        why_not: Why it cannot run, or None if it can.
    """

    name: str
    description: str
    arguments: str
    source: str
    available: bool
    why_not: str | None = None


@frozen(kw_only=True)
class CommandDesk:
    """The place where a command is run.

    Attributes:
        session: The session, or None.
        rows: All commands, as they are listed there.
        facts: Further facts about the session.
        tree: Draws the running work, or None if this caller must not see it.
        at_terminal: Whether the caller is a user at a terminal.
        agent: The agent that the session works as, or None if unknown.
    """

    session: CommandSession | None = None
    rows: tuple[CommandRow, ...] = ()
    facts: CommandFacts = CommandFacts()
    tree: Callable[[], Awaitable[str]] | None = None
    at_terminal: bool = False
    agent: str | None = None


@frozen(kw_only=True)
class CommandCall:
    """A call of a command.

    Attributes:
        name: The command's name.
        text: Its arguments, as typed.
        desk: The place where it is run.
    """

    name: str
    text: str
    desk: CommandDesk

    @property
    def session(self) -> CommandSession:
        """The session. A command that needs one is not run without it."""
        assert self.desk.session is not None  # noqa: S101 - checked by `why_not`
        return self.desk.session


@frozen(kw_only=True)
class CommandAnswer(CheckedFields):
    """The result of a command.

    Attributes:
        lines: Output for the caller only.
        prompt: The prompt to send to the session, or None.
        model: The model to use from then on, or None to keep the current one.
        leaves: Whether to leave the terminal.
    """

    lines: tuple[str, ...] = ()
    prompt: str | None = None
    model: str | None = None
    leaves: bool = False


_BY_TYPE: Final = ("description", "arguments", "scope", "needs_session", "background", "in_history", "agent")
RunCommand: TypeAlias = Callable[[CommandCall], Awaitable[CommandAnswer]]


@frozen(kw_only=True)
class SlashCommand:
    """A slash command.

    Attributes:
        name: `[a-z0-9_-]`, parts joined by `:`, without its slash.
        description: The command's purpose, in a sentence.
        arguments: A hint for its arguments, shown to users, or empty for none.
        run: The function of the command. None if the reader of the typed lines handles it, as for leaving.
        scope: Where it can run.
        needs_session: Whether it needs a session.
        background: Whether it may run while a cycle is running.
        in_history: Whether its text becomes part of the conversation.
        source: Its origin.
        agent: The agent that the session must work as, or a tuple of accepted agents. None for any.

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
        """Validate the fields."""
        OptionError.raise_for([*self._faults()])

    def _faults(self) -> Iterator[str]:
        given: Any = self.name
        shown = f"the command {repr_of(given):.80}"
        if not isinstance(given, str) or not COMMAND_NAME.fullmatch(given):
            yield f"{shown} has no name: expected a-z 0-9 _ -, parts joined by :"
        if self.run is not None and not is_async(self.run):
            yield f"run of {shown} is {repr_of(self.run):.80}: expected an async function (`async def`)"
        if self.run is None and self.scope == "anywhere":
            yield f"{shown} does nothing: give it run"
        yield from (f"{fault}, for {shown}" for fault in faults_of_fields(self, SlashCommand, *_BY_TYPE))

    def why_not(self, desk: CommandDesk) -> str | None:
        """Return why it cannot run in this place, or None if it can."""
        if self.scope == "terminal" and not desk.at_terminal:
            return "only at a terminal, in agentrail chat"
        if self.needs_session and desk.session is None:
            return "needs a session"
        if self.agent is None:
            return None
        agents = (self.agent,) if isinstance(self.agent, str) else self.agent
        return None if desk.agent in agents else f"needs the agent {' or '.join(agents)}"

    def row(self, desk: CommandDesk) -> CommandRow:
        """Return its entry in a list."""
        why = self.why_not(desk)
        own = picked_fields(self, "name", "description", "arguments", "source")
        return CommandRow(**own, available=why is None, why_not=why)


@frozen(kw_only=True)
class TypedCommand:
    """A typed command.

    Attributes:
        name: As typed, in lower case.
        text: Its arguments.
    """

    name: str
    text: str


@checks_arguments
def read_typed(line: str) -> TypedCommand | None:
    """Parse a line as a command. Return None for any other text, such as a path: `/etc/hosts is wrong`, or `//`.

    The whole name is compared, ignoring case: `/Help` is `help`, and `/helper` is not.
    """
    found = _TYPED.fullmatch(line.strip())
    if found is None or len(found[1]) > _MAX_WORDS:
        return None
    return TypedCommand(name=found[1].lower(), text=(found[2] or "").strip())
