"""The port of a tool source: a server or process whose tools come and go while sessions run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import trio

from agentrail.abc.tool import Tool
from agentrail.core.values.source_prompt import SourcePrompt
from agentrail.events import ToolSourceState


@runtime_checkable
class ToolServer(Protocol):
    """Options of a tool source, such as `agentrail.tools.mcp.McpServer`. They open nothing."""

    @property
    def name(self) -> str:
        """Name of the source, unique in its supervisor or session."""
        ...


class ToolListener(Protocol):
    """A session that uses a source. It is called in the event loop and must not wait."""

    @property
    def working_dir(self) -> str:
        """The session's workspace."""
        ...

    def tools_changed(self, attach: Sequence[Tool], detach: Sequence[str]) -> None:
        """Replace tools of the source. A running call keeps the tool it started with.

        A rule of the user covers a tool only while its attribute `comes_from` stays the same.
        """
        ...

    def state_changed(self, state: ToolSourceState, reason: str | None) -> None:
        """Report the source's state to the users of the session."""
        ...

    async def wait_attached(self) -> None:
        """Wait until the session has the tools, for a few seconds at most."""
        ...


class UserLogin(Protocol):
    """The login of one principal at a source, through pages that a host serves.

    Attributes:
        server: Name of the source.
        owner: The principal, as the owner of its sessions.
        user: Who asked for it, for people.
    """

    server: str
    owner: str
    user: str

    def takes(self, ticket: str) -> bool:
        """Whether this is the ticket of the link that was given to the principal."""
        ...

    async def begin(self, cookie: str) -> str:
        """Begin, for the browser with this cookie. Return where it has to go, or nothing if that failed."""
        ...

    def awaits(self, state: str, cookie: str) -> bool:
        """Whether this is the answer that is expected, from the browser that began."""
        ...

    async def end(self, answer: Mapping[str, str]) -> str | None:
        """Take the answer, once. Return why the login failed, or None."""
        ...


class ToolSource(Protocol):
    """A source, run by one supervised actor and shared by the sessions that joined it.

    Attributes:
        state: As last reported, with its `reason`.
        prompts: Prompts that it offers to users, as last listed.
        instructions: Section of the system prompt of its sessions, or None.
        settled: Set while it is known whether the present life, or the last one, came to be ready.
        is_required: Whether no session may begin without it.
        is_eager: Whether it is started before a session uses it.
        user_login: The login of its principal, if a host serves pages for it.
        sharing: Whether all sessions share it, those of one principal, or none: each session has a source of its own.
    """

    state: ToolSourceState
    reason: str | None
    prompts: tuple[SourcePrompt, ...]
    instructions: str | None
    settled: trio.Event
    is_required: bool
    is_eager: bool
    user_login: UserLogin | None
    sharing: Literal["supervisor", "principal", "session"]

    @property
    def name(self) -> str:
        """Same as in the options."""
        ...

    async def serve(self) -> None:
        """Run one life: connect, list the tools, follow their changes.

        Any exception means that the source was lost. Its supervisor calls `serve` again after a delay.

        Cancellation: The source is closed, within a few seconds.
        """
        ...

    def restart(self) -> None:
        """End the present life, if there is one. Its supervisor begins another."""
        ...

    def park(self) -> None:
        """Detach all tools: the supervisor gave up after too many losses."""
        ...

    def serve_logins(self, address: str, owner: str) -> None:
        """Let its principal log in at pages below this address. Called once, before it is started."""
        ...

    def forget_login(self) -> None:
        """Delete the stored login of its principal, if there is one. Blocks. It is not running then.

        Raises:
            OSError: It could not be deleted.
        """
        ...

    def join(self, listener: ToolListener) -> Callable[[], None]:
        """Add a session, which gets the present tools at once. Returns a function that removes it."""
        ...


class MakeToolSource(Protocol):
    """Creates the source of a server's options. It starts nothing."""

    def __call__(self, server: ToolServer, owner: str = "", /) -> ToolSource:
        """Create it, for one principal if `owner` is not empty."""
        ...
