"""The ports: what a session needs from the world, and what an adapter has to be. No adapter enters this file.

A provider turns a request into a stream of chunks. A tool turns arguments into a result. A sandbox is where file tools
read and commands run. Each port has a `check_…` in `agentrail.testing` that any implementation can be held against.
"""

import hmac
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from types import MappingProxyType
from typing import Any, Final, Literal, NoReturn, Protocol, TypeAlias, TypeVar, get_args, runtime_checkable

import trio
from attrs import field, frozen

from agentrail.core.budget import Price
from agentrail.core.changes import Change
from agentrail.core.model_policy import ModelPolicy
from agentrail.core.request import Chunk, ModelRequest
from agentrail.core.toolbox import EffectClass
from agentrail.errors import ChildRefused, ProcessRefused, ToolContractError
from agentrail.events import Todo
from agentrail.messages import CallId, JsonObject, JsonValue, SessionId

T = TypeVar("T")

# --- secrets


class Secret:
    """A key or a password that shows itself to nobody who does not ask by name.

    Printing, formatting and logging give `Secret(…)`; pickling and copying into JSON fail, so that no cache and no report
    holds it by accident. Taken wherever a provider takes a key.

    >>> key = Secret("sk-live-1234")
    >>> print(f"{key} {key!r}")
    Secret(…) Secret(…)
    >>> key.reveal()
    'sk-live-1234'
    """

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        """Take the value, a text.

        Raises:
            TypeError: Your move: this is no text. The message does not repeat it.
        """
        if not isinstance(value, str):
            message = (
                f"a secret is a text, got {type(value).__name__}: decode bytes first, call a function first"
            )
            raise TypeError(message)
        self._value = str(value)

    def reveal(self) -> str:
        """Give the value: where it is sent, and nowhere else."""
        return self._value

    def __repr__(self) -> str:
        """Show that there is one."""
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        """Show that there is one, whatever the format."""
        return repr(self)

    def __eq__(self, other: object) -> bool:
        """Two secrets are equal when their values are; how long the comparison takes says nothing about them."""
        if not isinstance(other, Secret):
            return NotImplemented
        mine, its = (one.encode("utf-8", "surrogatepass") for one in (self._value, other._value))
        return bool(hmac.compare_digest(mine, its))

    def __hash__(self) -> int:
        """Hash by the value."""
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled.

        Raises:
            TypeError: Always.
        """
        message = "a secret is not pickled: reveal() it where it is sent"
        raise TypeError(message)

    def __copy__(self) -> "Secret":
        """Give itself: it never changes."""
        return self

    def __deepcopy__(self, _memo: object) -> "Secret":
        """Give itself."""
        return self


# --- providers


@frozen(kw_only=True)
class Capabilities:
    """What a model can do and what it costs, as far as anybody knows.

    Attributes:
        context_window: Tokens; None when nobody knows.
        max_output_tokens: The most that it will write in one response; None when nobody knows.
        images: Whether it takes pictures.
        reasoning: Whether it can think aloud.
        price: The most that its tokens cost; None when nobody knows, and then never taken for 0.
    """

    context_window: int | None = None
    max_output_tokens: int | None = None
    images: bool = False
    reasoning: bool = False
    price: Price | None = None


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

        The iterator may have an attribute `pinged_at`, a time on Trio's clock or None: when the server last gave any sign
        of life. A stream that is silent but alive is reported as silent, and given up later.
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


@frozen(init=False)
class Effect:
    """A result that changes something in the session: `Effect(UpdateTodos(todos=…), text="Three left.")`.

    The session applies the changes in the very step that records the result, and not at all when the call was stopped.

    Attributes:
        changes: At least one of `agentrail.core.changes`, in the order in which they are applied.
        text: What the model reads.
        details: JSON for events and user interfaces, never for the model.
    """

    changes: tuple[Change, ...]
    text: str
    details: JsonValue

    def __init__(self, *changes: Change, text: str = "[effect applied]", details: JsonValue = None) -> None:
        """Take the changes.

        Raises:
            ToolContractError: Your move: there is none, or one that is none.
        """
        known = get_args(Change)
        wrong = next((change for change in changes if not isinstance(change, known)), None)
        if not changes or wrong is not None:
            names = ", ".join(one.__name__ for one in known)
            came = "none" if not changes else f"a value of type {type(wrong).__name__}"
            message = (
                f"Effect takes changes, one or more of {names}; got {came}: return Ok where nothing changes"
            )
            raise ToolContractError(message)
        self.__attrs_init__(changes=changes, text=text, details=details)


ToolOutcome: TypeAlias = Ok | Error | Effect

MAX_PAYLOAD_BYTES: Final = 64 << 10
MAX_RESULT_BYTES: Final = 1 << 20
MAX_CLEANUP_SECONDS: Final = 2.0
"""How long a tool that was stopped may clean up."""


def _nobody_hears(name: str, payload: JsonValue) -> None:
    """Take an event for nobody, in a context that was made by hand."""


@frozen
class Done:
    """What `reconcile` found: the operation took effect.

    Attributes:
        result: What the call is answered with.
    """

    result: ToolOutcome


@frozen
class NotDone:
    """What `reconcile` found: nothing of the operation took effect, so it may be run again."""


@frozen
class Unknown:
    """What `reconcile` found: nothing that would tell."""


Reconciled: TypeAlias = Done | NotDone | Unknown


class RunInThread(Protocol):
    """Runs a plain function in a worker thread."""

    async def __call__(self, function: Callable[[], T], *, abandonable: bool) -> T:
        """Run it, and give what it returns; a cancellation leaves an abandonable one behind."""
        ...


@frozen(kw_only=True)
class ChildRequest:
    """What a tool wants from a session of its own.

    Attributes:
        prompt: What it is to do.
        system_prompt: Instead of that of the session above; None for the same.
        tools: The names of those tools of the session above that it has; None for all.
        max_turns: How many turns it has; None for as many as the session above.
    """

    prompt: str
    system_prompt: str | None = None
    tools: tuple[str, ...] | None = None
    max_turns: int | None = None


@frozen(kw_only=True)
class ProcessOptions:
    """How a process is opened.

    Attributes:
        workdir: Where it begins.
        env: Variables that it sees besides those that every command sees.
        errors: Where its standard error goes: `merged` into its output, or `dropped`.
        timeout_seconds: How much time it may need; its limit of processor time follows from that.
    """

    workdir: str = "."
    env: Mapping[str, str] = MappingProxyType({})
    errors: Literal["merged", "dropped"] = "merged"
    timeout_seconds: float = 600.0


class ToolProcess(Protocol):
    """A process that was opened in a sandbox, with a pipe to it and one from it."""

    @property
    def pid(self) -> int:
        """Its number on this machine; where it is confined, that of the first process around it."""
        ...

    @property
    def stdin(self) -> trio.abc.SendStream:
        """What it reads; close it to let it read the end."""
        ...

    @property
    def stdout(self) -> trio.abc.ReceiveStream:
        """What it prints. Read it: a full pipe stops it."""
        ...

    async def wait(self) -> int:
        """Wait for its end, and give its exit code; minus the number of the signal that ended it, where it is known.

        Cancellation: Only the waiting ends.
        """
        ...

    async def stop(self) -> None:
        """End it and all that it started: `SIGTERM`, two seconds, `SIGKILL`; reaped, pipes closed. Again if you like.

        Cancellation: Shielded and bounded by about five seconds.
        """
        ...


@frozen(kw_only=True)
class ToolListing:
    """To whom a tool describes itself, where its description is a function.

    Attributes:
        session_id: The session whose list of tools is made.
        model: The model string that it begins with.
        working_dir: The root of the file tools.
        user_data: The application's own data.
        is_unconfined: Whether it is known that its commands run with the user's rights.
    """

    session_id: SessionId
    model: str
    working_dir: str
    user_data: Mapping[str, JsonValue]
    is_unconfined: bool = False


class OpenProcess(Protocol):
    """Opens a process that ends with the call."""

    async def __call__(self, argv: tuple[str, ...], options: ProcessOptions, /) -> ToolProcess:
        """Open it."""
        ...


class AskUser(Protocol):
    """Puts a question before the user."""

    async def __call__(
        self, question: str, options: tuple[str, ...], timeout_seconds: float | None, /
    ) -> str | None:
        """Wait for the answer; None when none came in time."""
        ...


class RunSession(Protocol):
    """Lets a session of its own work for the call."""

    async def __call__(self, request: ChildRequest, /) -> str:
        """Give its last text."""
        ...


async def _open_nothing(argv: tuple[str, ...], _options: ProcessOptions) -> ToolProcess:
    await trio.lowlevel.checkpoint()
    message = (
        f"{argv[0]} was not started: this context was made by hand, and no call of a session owns the process"
    )
    raise ProcessRefused(message, code="unsupported")


async def _ask_nobody(
    _question: str, _options: tuple[str, ...], _timeout_seconds: float | None
) -> str | None:
    await trio.lowlevel.checkpoint()
    return None


async def _run_nothing(_request: ChildRequest) -> str:
    await trio.lowlevel.checkpoint()
    message = "there is no session to be above another one: this context was made by hand"
    raise ChildRefused(message)


async def _run_in_any_thread(function: Callable[[], T], *, abandonable: bool) -> T:
    return await trio.to_thread.run_sync(function, abandon_on_cancel=abandonable)


@frozen(kw_only=True)
class ToolContext:
    """Who asks, and where: values as they were when the call started.

    Attributes:
        session_id: The session that the call belongs to.
        group_id: The group of the session, or None.
        path: The chain of sessions from the root to this one.
        call_id: The call.
        operation_id: The idempotency key: the same for all attempts at one call.
        attempt: 1 for the first.
        arguments: What the call was made with; for `reconcile`, which is given nothing but the id.
        working_dir: The root of the file tools.
        open_sandbox: Gives the sandbox; `ctx.sandbox` asks it.
        model: The model string of the request.
        turn: Which turn of the cycle, from 1.
        total_tokens: What the session used so far.
        cost_usd: What that cost; None when a price is unknown.
        todos: The list that the model keeps of its work.
        memory: What the tools of the session keep between their calls, set by `UpdateContext(key="memory", …)`.
        user_data: The application's own data.
        deadline: When the timeout strikes, on Trio's clock; infinite without one.
        progress: Where `report_progress` goes; publishes `ToolProgress`.
        event: Where `emit` goes; publishes `PluginEvent`.
        run_in_thread: Runs a plain function in one of the threads for tools.
        process: Where `open_process` goes.
        question: Where `ask_user` goes; in a context that was made by hand nobody answers.
        child: Where `run_session` goes.
    """

    session_id: SessionId
    group_id: str | None = None
    path: tuple[SessionId, ...] = ()
    call_id: CallId
    operation_id: str
    attempt: int = 1
    arguments: JsonObject = MappingProxyType({})
    working_dir: str
    open_sandbox: "Callable[[], Sandbox]"
    model: str
    turn: int
    total_tokens: int = 0
    cost_usd: float | None = None
    todos: tuple[Todo, ...] = ()
    memory: JsonValue = None
    user_data: Mapping[str, JsonValue]
    deadline: float
    progress: Callable[[str], None]
    event: Callable[[str, JsonValue], None] = _nobody_hears
    run_in_thread: RunInThread = _run_in_any_thread
    process: OpenProcess = _open_nothing
    question: AskUser = _ask_nobody
    child: RunSession = _run_nothing

    @property
    def depth(self) -> int:
        """How many sessions stand above this one; 0 for one that nobody else started."""
        return max(len(self.path) - 1, 0)

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

    def emit(self, name: str, payload: JsonValue = None) -> None:
        """Publish a `PluginEvent`; after the call ended it does nothing. Callable from a worker thread.

        Args:
            name: Your own name for it.
            payload: JSON, of at most 64 KiB.

        Raises:
            ToolContractError: Your move: it is no JSON, or too much of it.
        """
        try:
            text = json.dumps(payload, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"the payload of {name!r} is not JSON: {error}"
            raise ToolContractError(message) from None
        if len(text.encode()) > MAX_PAYLOAD_BYTES:
            message = f"the payload of {name!r} has {len(text.encode()):,} bytes, at most {MAX_PAYLOAD_BYTES:,} are taken"
            raise ToolContractError(message)
        self.event(name, json.loads(text))

    async def open_process(
        self,
        argv: Sequence[str],
        *,
        workdir: str = ".",
        env: Mapping[str, str] | None = None,
        errors: Literal["merged", "dropped"] = "merged",
    ) -> ToolProcess:
        """Open a process in the sandbox, confined as its commands are. It ends with the call, whatever ends that.

        Then, or when the call is stopped, it and all that it started get `SIGTERM`, two seconds later `SIGKILL`, and are
        reaped; also when the tool itself does not hear that it is stopped.

        Args:
            argv: The program and its arguments; no shell reads them.
            workdir: Where it begins, below the root.
            env: Variables that it sees besides those that every command sees.
            errors: Where its standard error goes: `merged` into its output, or `dropped`.

        Raises:
            ToolContractError: Your move: no program, or an argument with a NUL.
            ProcessRefused: The sandbox runs no processes, or could not start this one; `code` is as of `Refusal`.

        Cancellation: What has been started by then is stopped.
        """
        words = tuple(argv)
        if not words or not words[0] or any("\0" in word for word in words):
            message = f"open_process takes a program and its arguments, without a NUL; got {words!r}"
            raise ToolContractError(message)
        left = self.seconds_left()
        options = ProcessOptions(
            workdir=workdir,
            env=dict(env or {}),
            errors=errors,
            timeout_seconds=ProcessOptions().timeout_seconds if math.isinf(left) else left,
        )
        return await self.process(words, options)

    async def run_session(
        self,
        prompt: str,
        *,
        system_prompt: str | None = None,
        tools: Iterable[str] | None = None,
        max_turns: int | None = None,
    ) -> str:
        """Let a session below this one work, and give its last text. It ends with the call.

        It inherits as a child of `task` does: working directory, sandbox, model, tools, plugins and user data; not the
        conversation. What it publishes appears on this session as `SubagentEvent`.

        Args:
            prompt: What it is to do; it knows nothing else.
            system_prompt: Instead of that of this session.
            tools: Names, of the tools that this session has; None for all of them.
            max_turns: How many turns it has; None for as many as this session.

        Raises:
            ChildRefused: Your move: the session has a budget, of which no share can be reserved for a child; or sessions
                stand too deep above one another already.
            OptionError: Your move: a tool that this session has not, or a number of turns that is none.
            CycleFailed, CycleAborted: How it ended, without an answer.
            PromptError: Your move: an empty prompt, or one that is too long.

        Cancellation: The session is aborted with all that it runs, and stopped, before the cancellation travels on.
        """
        names = None if tools is None else tuple(tools)
        return await self.child(
            ChildRequest(prompt=prompt, system_prompt=system_prompt, tools=names, max_turns=max_turns)
        )

    async def ask_user(
        self, question: str, options: Iterable[str] = (), *, timeout_seconds: float | None = 300.0
    ) -> str | None:
        """Ask the user, and wait for the answer in this process. Where it must outlive a restart, use the tool `ask_user`.

        Publishes `AskUser`, and is answered with `session.respond`.

        Args:
            question: What you need to know.
            options: What can be chosen; the answer may be another text all the same.
            timeout_seconds: How long to wait; None: as long as the call may take.

        Returns:
            The answer; None when nobody gave one in time.

        Raises:
            ToolContractError: Your move: an empty question, or a time that is none.
            CycleAborted: The cycle was aborted, or this call stopped: nobody will answer.

        Cancellation: The question is withdrawn when the call ends.
        """
        if not question.strip():
            message = "ask_user takes a question; got an empty one"
            raise ToolContractError(message)
        if timeout_seconds is not None and not 0 < timeout_seconds < math.inf:
            message = f"ask_user waits for a time above 0 s, or None; got {timeout_seconds!r}"
            raise ToolContractError(message)
        return await self.question(question, tuple(options), timeout_seconds)

    @contextmanager
    def cleanup_scope(self, seconds: float = MAX_CLEANUP_SECONDS) -> Iterator[trio.CancelScope]:
        """Shield the clean-up of a tool that was stopped, in `finally`: what is awaited inside is not cut, for two seconds.

        Args:
            seconds: How long it may take; two at most, because after that a call that was stopped counts as stuck.

        Raises:
            ToolContractError: Your move: a time that is longer, or none.

        Cancellation: It ends after `seconds`, and by nothing else.
        """
        if not 0 < seconds <= MAX_CLEANUP_SECONDS:
            message = (
                f"cleanup_scope takes a time above 0 and up to {MAX_CLEANUP_SECONDS:g} s; got {seconds!r}"
            )
            raise ToolContractError(message)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds) as scope:
            yield scope

    def seconds_left(self) -> float:
        """Say how long the call may still take; 0 when its time is up, infinite without a timeout."""
        if trio.lowlevel.in_trio_run():
            now = trio.current_time()
        else:  # a tool in a worker thread
            now = trio.from_thread.run_sync(trio.current_time)
        return max(self.deadline - now, 0.0)

    def check_cancelled(self) -> None:
        """Raise when the call was stopped: for functions in worker threads, which nobody can stop from outside.

        Raises:
            trio.Cancelled: It was. Let it travel.
        """
        trio.from_thread.check_cancelled()


@runtime_checkable
class Tool(Protocol):
    """A function that the model may call. `@agentrail.tool` makes one; a class with these members is one.

    Members that it may have besides, each with what holds without it:

    - `max_retries: int | None` (None): how often a call that raised is made again; None for what its effect class and the
      session say. For a `once` tool a number says that raising means that nothing happened.
    - `reconcile(operation_id, ctx)`, `async`: required of `reconcilable`; says `Done(result)`, `NotDone()` or `Unknown()`.
    - `polling: bool` (False): repeats are its nature, so nobody looks for loops.
    - `max_result_bytes: int` (1 MiB): of a longer text the middle is left out.
    - `label(arguments)` (the name): short text for people.
    - `answered_by` (`"code"`): `"user"` for a tool whose calls are questions; it is never executed.
    - `threaded: bool` (False): whether it works in a thread; none begins where too many are left behind.
    """

    @property
    def name(self) -> str:
        """`[A-Za-z0-9_-]{1,64}`, unique in a session."""
        ...

    @property
    def description(self) -> str | Callable[[ToolListing], str]:
        """What the model reads; or a function that writes it, called when the tool is given to a session."""
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

    Not `SandboxError`: that is the exception for a sandbox that cannot be made.

    Attributes:
        code: `file_not_found`, `permission_denied`, `is_directory`, `invalid_path`; ours are also `too_large`, `not_text`,
            `changed`, `no_space`, `timeout`, `unsupported`, `io_error`, `invalid_edit`, `old_not_found`,
            `old_not_unique`, `invalid_pattern`, `invalid_command` and `not_started`. Another sandbox may have its own.
        message: Fit for the model; never shows a path outside the sandbox.
    """

    code: str
    message: str


@frozen(kw_only=True)
class ReadResult:
    """Lines of a text file.

    Attributes:
        text: The lines that were asked for, with their ends as they are in the file, without a byte order mark.
        total_lines: Of the file; an end of line at its very end begins no other line.
        size_bytes: Of the file.
        error: Why there is no text, else None.
    """

    text: str = ""
    total_lines: int = 0
    size_bytes: int = 0
    error: Refusal | None = None


@frozen(kw_only=True)
class WriteResult:
    """A file that was written.

    Attributes:
        is_new: Whether there was none before.
        total_lines: Of the file.
        size_bytes: Of the file.
        sha256: Of its bytes, in hexadecimal: two writes of one content have the same.
        sha256_before: Of the bytes that were replaced; None when there were none, or too many to read.
        error: Why nothing was written, else None.
    """

    is_new: bool = False
    total_lines: int = 0
    size_bytes: int = 0
    sha256: str = ""
    sha256_before: str | None = None
    error: Refusal | None = None


@frozen(kw_only=True)
class EditResult:
    """A file in which a text was replaced.

    Attributes:
        replacements: How often.
        diff: Unified, of at most 4 KB; a last line says where it was cut.
        sha256: Of the new bytes, in hexadecimal.
        sha256_before: Of the old bytes.
        error: Why nothing was changed, else None.
    """

    replacements: int = 0
    diff: str = ""
    sha256: str = ""
    sha256_before: str | None = None
    error: Refusal | None = None


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
class ListResult:
    """What is in a directory.

    Attributes:
        entries: Directories first, then by name.
        error: Why it could not be listed, else None.
    """

    entries: tuple[DirectoryEntry, ...] = ()
    error: Refusal | None = None


@frozen(kw_only=True)
class GrepOptions:
    """How to search.

    Attributes:
        include: Only files that fit this pattern, as of `glob`; one without `/` is about the name alone.
        context_lines: How many lines before and after each match.
        max_results: How many matching lines at most.
        ignore_case: Whether `a` finds `A`.
    """

    include: str | None = None
    context_lines: int = 2
    max_results: int = 50
    ignore_case: bool = False


@frozen(kw_only=True)
class GrepLine:
    """A line that matches, or one beside it.

    Attributes:
        path: Of its file, from the root of the sandbox.
        number: From 1.
        text: Without its end.
        is_match: False for context.
    """

    path: str
    number: int
    text: str
    is_match: bool = True


@frozen(kw_only=True)
class GrepResult:
    """What a search found.

    Attributes:
        lines: By file, then by number.
        searched_files: How many files were looked through.
        truncated: Whether there are more matches.
        error: Why there was no search, else None.
    """

    lines: tuple[GrepLine, ...] = ()
    searched_files: int = 0
    truncated: bool = False
    error: Refusal | None = None


@frozen(kw_only=True)
class GlobResult:
    """What has a name that fits.

    Attributes:
        paths: From the root of the sandbox, sorted; directories end with `/`.
        truncated: Whether there are more.
        error: Why there was no search, else None.
    """

    paths: tuple[str, ...] = ()
    truncated: bool = False
    error: Refusal | None = None


@frozen(kw_only=True)
class FileBytes:
    """A file on its way into a sandbox.

    Attributes:
        path: Where it belongs.
        content: All of it.
    """

    path: str
    content: bytes


@frozen(kw_only=True)
class Transfer:
    """What became of one file of an upload or a download.

    Attributes:
        path: As it was given.
        content: Of a download that worked, else None.
        size_bytes: How much was moved.
        error: Why nothing was moved, else None.
    """

    path: str
    content: bytes | None = None
    size_bytes: int = 0
    error: Refusal | None = None


@frozen(kw_only=True)
class ExecuteOptions:
    """How to run a command.

    Attributes:
        workdir: Where it begins.
        timeout_seconds: After this time it is stopped, with all that it started.
        output_name: What the file with the whole output is called, without directory and ending, should the output be
            too long to be shown; minted when None.
    """

    workdir: str = "."
    timeout_seconds: float = 30.0
    output_name: str | None = None


@frozen(kw_only=True)
class ExecuteResult:
    """What a command did.

    Attributes:
        output: Standard output and error in their real order; undecodable bytes are U+FFFD. Of much the beginning and
            the end, with a note between them.
        exit_code: None when a signal ended it, when it was stopped, or when it never ran.
        signal: Its number, when one ended it.
        duration_ms: From start to end.
        truncated: Whether a part of the output is not in `output`.
        output_path: The file that has all of it, when it is truncated.
        stopped_processes: How many processes it left running, which were stopped.
        timed_out: Whether the time was up.
        written_protected: Protected paths that it made or changed and that could not be kept from it.
        error: Why it was not run, else None.
    """

    output: str = ""
    exit_code: int | None = None
    signal: int | None = None
    duration_ms: int = 0
    truncated: bool = False
    output_path: str | None = None
    stopped_processes: int = 0
    timed_out: bool = False
    written_protected: tuple[str, ...] = ()
    error: Refusal | None = None


class Sandbox(Protocol):
    """One port for files and commands, local or remote.

    Paths are relative to a root. An expected failure is the `error` of a result; exceptions are bugs or cancellation.
    `agentrail.testing.check_sandbox` holds any implementation against this.
    """

    @property
    def capabilities(self) -> frozenset[str]:
        """What it can, of `execute` and `snapshot`; without it the answer is `unsupported`."""
        ...

    async def read(self, path: str, *, offset: int = 1, limit: int | None = None) -> ReadResult:
        """Read a text file, from line `offset` on, `limit` lines or all. Past the end is no error, but empty."""
        ...

    async def write(self, path: str, content: str) -> WriteResult:
        """Replace a whole file or make it, with the directories above it. A crash leaves the old one or the new one."""
        ...

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> EditResult:
        """Replace the one occurrence of a text, or all. Line ends, byte order mark and mode stay as they are."""
        ...

    async def exists(self, path: str) -> bool:
        """Tell whether there is a file or directory; False for every path that would be refused."""
        ...

    async def list_dir(self, path: str) -> ListResult:
        """List a directory; links are shown, not followed."""
        ...

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> GrepResult:
        """Search text files for a regular expression, below a directory or in a file."""
        ...

    async def glob(self, pattern: str, path: str) -> GlobResult:
        """Find files and directories by `* ** ? [a-z] {a,b}`, at most 500."""
        ...

    async def upload(self, files: Sequence[FileBytes]) -> tuple[Transfer, ...]:
        """Write files as bytes; each has its own answer, in order, and no failure stops the others."""
        ...

    async def download(self, paths: Sequence[str]) -> tuple[Transfer, ...]:
        """Read files as bytes; each has its own answer, in order, and no failure stops the others."""
        ...

    async def execute(self, command: str, options: ExecuteOptions) -> ExecuteResult:
        """Run a shell command with closed input.

        Cancelling it ends all that it started, grandchildren included, before the cancellation travels on.
        """
        ...

    async def aclose(self) -> None:
        """Let go of what it holds; again if you like. Nothing may be under way."""
        ...


class SnapshotSandbox(Sandbox, Protocol):
    """A sandbox with the capability `snapshot`."""

    async def snapshot(self) -> str:
        """Keep all files as they are now.

        Returns:
            What to call that state.
        """
        ...

    async def restore(self, snapshot_id: str) -> Refusal | None:
        """Make all files what they were.

        Returns:
            None; or why nothing was changed: `file_not_found` for a state that was never kept.
        """
        ...


@runtime_checkable
class ProcessSandbox(Protocol):
    """A sandbox in which a process can be opened that is talked to while it runs; not every one with `execute` is."""

    def open_process(
        self, argv: Sequence[str], options: ProcessOptions
    ) -> AbstractAsyncContextManager[ToolProcess]:
        """Open a process; leaving the block stops it and all that it started, shielded and bounded.

        Raises:
            ProcessRefused: It is not started.
        """
        ...


ResolveProvider: TypeAlias = Callable[[str, Mapping[str, Any]], Provider]
"""Turns a model string and provider options into a provider; raises `ModelNotFound`, `Authentication`, `OptionError`."""
