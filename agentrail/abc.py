"""The ports: what a session needs from the world, and what an adapter has to be. No adapter enters this file.

A provider turns a request into a stream of chunks. A tool turns arguments into a result. A sandbox is where file tools
read and commands run. Each port has a `check_…` in `agentrail.testing` that any implementation can be held against.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias, runtime_checkable

from attrs import field, frozen

from agentrail.core.model_policy import ModelPolicy
from agentrail.core.request import Chunk, ModelRequest
from agentrail.core.toolbox import EffectClass
from agentrail.messages import CallId, JsonObject, JsonValue, SessionId

# --- providers


@frozen(kw_only=True)
class Capabilities:
    """What a model can do, as far as anybody knows.

    Attributes:
        context_window: Tokens; None when nobody knows.
        max_output_tokens: Tokens; None when nobody knows.
        images: Whether it takes pictures.
        reasoning: Whether it can think aloud.
    """

    context_window: int | None = None
    max_output_tokens: int | None = None
    images: bool = False
    reasoning: bool = False


@runtime_checkable
class Provider(Protocol):
    """One wire format, one vendor or server. It decides nothing: no retry, no fallback, no budget."""

    name: str

    def capabilities(self, model: str) -> Capabilities:
        """Say what is known of a model, by the name that the vendor knows."""
        ...

    def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request: pure, and a join of parts that are encoded already."""
        ...

    def open_stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Open the stream of one response.

        The iterator ends after exactly one `Completed`, or raises exactly one `ProviderError`. Leaving the block, by
        whatever way, closes the connection; cancelling is never turned into an error. Nothing is retried inside, and
        no nursery or cancel scope is held across a `yield`.
        """
        ...


def model_policy_of(provider: Provider) -> ModelPolicy:
    """Say what a session is to decide by when it talks to this provider; the defaults where it says nothing.

    Not a member of the port: a provider decides nothing, and one that is written in a test should not have to say it.
    """
    policy = getattr(provider, "model_policy", None)
    return policy if isinstance(policy, ModelPolicy) else ModelPolicy()


ResolveProfile: TypeAlias = Callable[[str], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Called with a profile's name when a request is sent, sync or async; gives options that come over the profile's."""


@frozen(kw_only=True)
class Profile:
    """What a name stands for.

    Attributes:
        name: What stands behind `registry:`.
        provider: Such as `openai-chat`.
        opts: Options of that provider. Never shown: keys are among them.
        resolve: May give more of them, when a request is sent.
    """

    name: str
    provider: str
    opts: Mapping[str, Any] = field(repr=False)
    resolve: ResolveProfile | None = field(default=None, repr=False)


class ProviderProfiles(Protocol):
    """The named profiles of a supervisor, `registry:<profile>:<model>`; see `agentrail.providers.profiles`."""

    def register(
        self,
        name: str,
        *,
        provider: str = "openai-chat",
        opts: Mapping[str, Any] | None = None,
        resolve: ResolveProfile | None = None,
    ) -> None:
        """Give a name to a provider with options."""
        ...

    def unregister(self, name: str) -> None:
        """Forget a name; the next request that asks for it fails."""
        ...

    def list(self) -> tuple[Profile, ...]:
        """Give all profiles, by name."""
        ...


# --- tools


@frozen(kw_only=True)
class Ok:
    """A result.

    Attributes:
        text: What the model reads.
        details: JSON for events and user interfaces, never for the model.
    """

    text: str
    details: JsonValue = None


@frozen(kw_only=True)
class Error:
    """A failure that the model may correct: it says what went wrong and what to do next.

    Attributes:
        text: What the model reads.
        details: JSON for events and user interfaces, never for the model.
    """

    text: str
    details: JsonValue = None


ToolOutcome: TypeAlias = Ok | Error


@frozen(kw_only=True)
class ToolContext:
    """Who asks, and where: values as they were when the call started.

    Attributes:
        session_id: The session that the call belongs to.
        call_id: The call.
        operation_id: The idempotency key: the same for all attempts at one call.
        attempt: 1 for the first.
        working_dir: The root of the file tools.
        open_sandbox: Gives the sandbox; `ctx.sandbox` asks it.
        model: The model string of the request.
        turn: Which turn of the cycle, from 1.
        user_data: The application's own data.
        deadline: When the timeout strikes, on Trio's clock; infinite without one.
        progress: Where `report_progress` goes; publishes `ToolProgress`.
    """

    session_id: SessionId
    call_id: CallId
    operation_id: str
    attempt: int = 1
    working_dir: str
    open_sandbox: "Callable[[], Sandbox]"
    model: str
    turn: int
    user_data: Mapping[str, JsonValue]
    deadline: float
    progress: Callable[[str], None]

    @property
    def sandbox(self) -> "Sandbox":
        """Where files are read and commands run. Opened when the first tool of a session asks for it.

        Raises:
            SandboxError: The working directory cannot be opened any more.
        """
        return self.open_sandbox()

    def report_progress(self, text: str) -> None:
        """Tell subscribers how far the call is; after the call ended it does nothing. Callable from a worker thread."""
        self.progress(text)


@runtime_checkable
class Tool(Protocol):
    """A function that the model may call. `@agentrail.tool` makes one; a class with these members is one."""

    @property
    def name(self) -> str:
        """`[A-Za-z0-9_-]{1,64}`, unique in a session."""
        ...

    @property
    def description(self) -> str:
        """What the model reads."""
        ...

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema, draft 2020-12, outermost `"type": "object"`."""
        ...

    @property
    def killable(self) -> bool:
        """Whether a steer or a default abort may stop it."""
        ...

    @property
    def effect_class(self) -> EffectClass:
        """What it promises about being run twice."""
        ...

    @property
    def timeout_seconds(self) -> float | None:
        """Per attempt; None for the session's own."""
        ...

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Run one call whose arguments are as the schema says.

        Raising is a crash of the tool, which is contained; being cancelled is being stopped, and clean-up in `finally`
        has two seconds.
        """
        ...


# --- sandboxes


@frozen(kw_only=True)
class Refusal:
    """Why a sandbox did not do what it was asked. A value, because expected failures are no exceptions.

    Attributes:
        code: `file_not_found`, `permission_denied`, `is_directory`, `invalid_path`, `too_large`, `not_text`,
            `timeout`, `unsupported`.
        message: Fit for the model; never shows a path outside the sandbox.
    """

    code: str
    message: str


@frozen(kw_only=True)
class FileText:
    """The text of a file.

    Attributes:
        text: All of it, without a byte order mark.
        size_bytes: Of the file.
    """

    text: str
    size_bytes: int


@frozen(kw_only=True)
class DirectoryEntry:
    """One name in a directory.

    Attributes:
        name: Without its directory.
        kind: `dir`, `file` or `link`; `other` for pipes, sockets and devices.
        size_bytes: Of a file, else 0.
        target: Of a link, else None.
    """

    name: str
    kind: str
    size_bytes: int = 0
    target: str | None = None


@frozen(kw_only=True)
class CommandResult:
    """What a command did.

    Attributes:
        output: Standard output and error in their real order; undecodable bytes are U+FFFD.
        exit_code: None when a signal ended it or it was stopped.
        signal: Its number, when one ended it.
        duration_ms: From start to end.
        left_out_bytes: How much of the output is not in `output`.
        stopped_processes: How many processes it left running, which were stopped.
        timed_out: Whether the time was up.
    """

    output: str
    exit_code: int | None
    signal: int | None = None
    duration_ms: int
    left_out_bytes: int = 0
    stopped_processes: int = 0
    timed_out: bool = False


class Sandbox(Protocol):
    """One port for files and commands. Expected failures are a `Refusal`; exceptions are bugs or cancellation."""

    async def read_text(self, path: str) -> FileText | Refusal:
        """Read a text file below the root."""
        ...

    async def list_dir(self, path: str) -> tuple[DirectoryEntry, ...] | Refusal:
        """List a directory below the root: directories first, then by name."""
        ...

    async def execute(self, command: str, *, workdir: str, within_seconds: float) -> CommandResult | Refusal:
        """Run a shell command in a process group of its own.

        Cancelling it ends the whole group, grandchildren included, before the cancellation travels on.
        """
        ...


ResolveProvider: TypeAlias = Callable[[str, Mapping[str, Any]], Provider]
"""Turns a model string and provider options into a provider; raises `ModelNotFound`, `Authentication`, `OptionError`."""
