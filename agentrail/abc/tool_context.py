"""The context of a tool call: its session, and the services that it can use."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeVar, overload

import trio
from attrs import field, frozen

from agentrail import outside
from agentrail.abc.background import BackgroundCommands
from agentrail.abc.knowledge import Knowledge
from agentrail.abc.notes import Notes
from agentrail.abc.process import ProcessOptions, ToolProcess
from agentrail.abc.recall import Memories
from agentrail.abc.sandbox import Sandbox
from agentrail.core.protocol.tool_questions import Resumption
from agentrail.core.values.question_forms import fault_of_form, fault_of_url
from agentrail.errors import ChildRefused, ProcessRefused, ToolContractError
from agentrail.events import Todo
from agentrail.frozen import EMPTY, MAX_LEVELS, frozen_json, frozen_value
from agentrail.messages import CallId, JsonObject, JsonValue, SessionId
from agentrail.otp.child_specs import is_seconds

T = TypeVar("T")

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    # A strict type checker then accepts a plain `ToolContext`. The default is never used at runtime.
    D = TypeVarWithDefault("D", default=Any)
else:
    D = TypeVar("D")

MAX_PAYLOAD_BYTES: Final = 64 << 10
MAX_CLEANUP_SECONDS: Final = 2.0
"""Time limit for the clean-up of a stopped tool, in seconds."""


def _publish_nothing(name: str, payload: JsonValue) -> None:
    """Drop an event, in a context created by hand."""


def _detach_nothing(text: str, details: JsonValue) -> None:
    """Drop an early result, in a context created by hand."""


class RunInThread(Protocol):
    """Runs a synchronous function in a worker thread."""

    async def __call__(self, function: Callable[[], T], *, abandonable: bool) -> T:
        """Run the function. Cancellation abandons an abandonable thread."""
        ...


@frozen(kw_only=True)
class ChildRequest:
    """A tool's request for a child session.

    Attributes:
        prompt: Task of the child.
        system_prompt: System prompt of the child, or None for the parent's.
        tools: Names of the parent's tools that the child gets, or None for all.
        max_turns: Turn limit, or None for the parent's.
        agent: The parent's agent that does the work, or None for one configured like the parent.
        model: Model as `provider:name`, or None for the parent's.
    """

    prompt: str
    system_prompt: str | None = None
    tools: Iterable[str] | None = None
    max_turns: int | None = None
    agent: str | None = None
    model: str | None = None


class OpenProcess(Protocol):
    """Opens a process that ends with the call."""

    async def __call__(self, argv: tuple[str, ...], options: ProcessOptions, /) -> ToolProcess:
        """Open the process."""
        ...


@frozen(kw_only=True)
class UserQuestion:
    """A tool's question to the user.

    Attributes:
        question: Text of the question.
        options: Answers to choose from. Empty: any text.
        timeout_seconds: Time limit for the answer. None: the rest of the call's time.
        schema: Schema of a form, which is answered with an object. None: the answer is a text.
        url: An address to show to the user.
    """

    question: str
    options: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    schema: JsonObject | None = None
    url: str | None = None


class AskQuestion(Protocol):
    """Shows a question to the user."""

    async def __call__(self, question: UserQuestion, /) -> str | JsonObject | None:
        """Wait for the answer. None if none came in time."""
        ...


class RunSession(Protocol):
    """Runs a child session for the call."""

    async def __call__(self, request: ChildRequest, /) -> str:
        """Run the child and return its last text."""
        ...


async def _open_nothing(argv: tuple[str, ...], _options: ProcessOptions) -> ToolProcess:
    await trio.lowlevel.checkpoint()
    message = f"{argv[0]} was not started: this context was created by hand, so no tool call owns the process"
    raise ProcessRefused(message, code="unsupported")


async def _answer_nothing(_question: UserQuestion) -> None:
    await trio.lowlevel.checkpoint()


async def _run_nothing(_request: ChildRequest) -> str:
    await trio.lowlevel.checkpoint()
    message = "this context was created by hand: it has no session that could start another"
    raise ChildRefused(message)


async def _run_in_any_thread(function: Callable[[], T], *, abandonable: bool) -> T:
    return await outside.offload(function, abandon_on_cancel=abandonable)


@frozen(kw_only=True)
class ToolContext(Generic[D]):
    """Context of one tool call: frozen values from when the call started.

    `ctx: ToolContext[Pool]` types `ctx.deps`. A session without such a value does not start.

    Attributes:
        session_id: Id of the call's session, unique in its scope.
        scope: Scope of the session, such as a tenant, or empty.
        group_id: Group of the session, or None.
        path: Session ids from the root down to this session.
        call_id: Id of the call.
        operation_id: Idempotency key, equal for all attempts.
        traceparent: The call's span as a W3C `traceparent`, equal for all attempts, for requests that continue the trace. Empty outside a session.
        attempt: Number of the attempt, from 1.
        fence: Session id and epoch, which rises with each new owner of the session. A system that remembers the highest epoch of each session can
            refuse a lower one: its caller was stalled, and another node has taken the session over. Epoch 0 without a store.
        arguments: Arguments as stored, for `reconcile`: a tool may modify its own.
        working_dir: Root of the file tools.
        open_sandbox: Opens `ctx.sandbox`.
        model: The model string of the request.
        turn: Turn of the cycle, from 1.
        tools: Names of the session's (after a handover, the new agent's) tools, sorted.
        agents: Name and description of each agent that the session can delegate to.
        agent_tools: For each agent with tools of its own, their names, sorted.
        prompt_mode: Sections in the system prompt: `full`, `task`, `minimal` or `none`.
        last_reply: Reply of the previous cycle, empty if there was none.
        total_tokens: Tokens used by the session so far.
        cost_usd: Cost so far, in US dollars, or None if a price is unknown.
        todos: The model's todo list.
        memory: Values kept between calls, set by `UpdateContext(key="memory", …)`.
        user_data: The application's own data.
        deps: Live object from the application, such as a pool, passed through unchanged. Never in a state, journal, event or text.
        memories: Memories of this session's owner across sessions. None without supervisor `memories` or an owner in `user_data`.
        notes: The session's working notes, outside its workspace, or None.
        knowledge: Knowledge bases that the owner may read, or None without supervisor `knowledge`.
        deadline: Time of the timeout on Trio's clock, infinite without one.
        progress: Publishes `ToolProgress` for `report_progress`.
        event: Publishes `PluginEvent` for `emit`.
        detached: Called by `detach`.
        commands: Background commands started by `shell`.
        run_in_thread: Runs a function in a tool thread.
        process: Called by `open_process`.
        question: Called by `ask_user`.
        child: Called by `run_session`.
        resumption: The answer to the `ToolQuestion` that the call's last run returned. None in its first run.
    """

    session_id: SessionId
    scope: str = ""
    group_id: str | None = None
    path: tuple[SessionId, ...] = ()
    call_id: CallId
    operation_id: str
    traceparent: str = ""
    attempt: int = 1
    fence: tuple[SessionId, int] = (SessionId(""), 0)
    arguments: JsonObject = field(default=EMPTY, converter=frozen_json)
    working_dir: str
    open_sandbox: "Callable[[], Sandbox]"
    model: str
    turn: int
    tools: tuple[str, ...] = ()
    agents: tuple[tuple[str, str], ...] = ()
    agent_tools: Mapping[str, tuple[str, ...]] = field(factory=dict)
    prompt_mode: Literal["full", "task", "minimal", "none"] = "full"
    last_reply: str = ""
    total_tokens: int = 0
    cost_usd: float | None = None
    todos: tuple[Todo, ...] = ()
    memory: JsonValue = field(default=None, converter=frozen_value)
    user_data: JsonObject = field(converter=frozen_json)
    deps: D = field(default=None, repr=False, eq=False)
    memories: Memories | None = field(default=None, repr=False, eq=False)
    notes: Notes | None = field(default=None, repr=False, eq=False)
    knowledge: Knowledge | None = field(default=None, repr=False, eq=False)
    deadline: float
    progress: Callable[[str], None]
    event: Callable[[str, JsonValue], None] = _publish_nothing
    detached: Callable[[str, JsonValue], None] = _detach_nothing
    commands: BackgroundCommands = field(factory=BackgroundCommands, repr=False, eq=False)
    run_in_thread: RunInThread = _run_in_any_thread
    process: OpenProcess = _open_nothing
    question: AskQuestion = _answer_nothing
    child: RunSession = _run_nothing
    resumption: Resumption | None = None

    @property
    def depth(self) -> int:
        """Number of ancestor sessions, 0 for a root."""
        return max(len(self.path) - 1, 0)

    @property
    def sandbox(self) -> "Sandbox":
        """The sandbox for files and commands, opened on first use.

        Raises:
            SandboxError: The working directory cannot be opened.
        """
        return self.open_sandbox()

    def report_progress(self, text: str) -> None:
        """Report progress to subscribers. No effect after the call. Callable from a worker thread."""
        self.progress(text)

    def emit(self, name: str, payload: JsonValue = None) -> None:
        """Publish a `PluginEvent`. No effect after the call. Callable from a worker thread.

        Args:
            name: Name of the event, chosen by the tool.
            payload: JSON of at most 64 KiB, at most 128 levels deep.

        Raises:
            ToolContractError: Your move: the payload is not JSON, or too large.
        """
        try:
            text = json.dumps(payload, allow_nan=False)
            frozen = frozen_value(json.loads(text))
        except RecursionError:  # includes `TooDeep`
            message = f"the payload of {name!r} is nested more deeply than {MAX_LEVELS} levels: flatten it"
            raise ToolContractError(message) from None
        except (TypeError, ValueError) as error:
            message = f"the payload of {name!r} is not JSON: {error}"
            raise ToolContractError(message) from None
        if len(text.encode()) > MAX_PAYLOAD_BYTES:
            message = f"the payload of {name!r} has {len(text.encode()):,} bytes, at most {MAX_PAYLOAD_BYTES:,} are allowed"
            raise ToolContractError(message)
        self.event(name, frozen)

    def detach(self, text: str, details: JsonValue = None) -> None:
        """Return a result now and continue in the background. Callable from a worker thread.

        The session continues without the call, which then has no slot or timeout. No steer or ordinary abort stops it.

        It ends when the tool returns, whose text becomes a note before the next turn. `abort(kill_tools="all")`, `abort_tool` and the end or restart of the
        session stop it. It never runs again. A ninth such call in a session is stopped.

        Its processes end with it. From now on it can neither ask the user nor start child sessions.

        Args:
            text: Result of the call, for the model.
            details: JSON for events and user interfaces.

        Raises:
            ToolContractError: Your move: the call has a result or working child sessions, or text or details are invalid.
        """
        self.detached(text, details)

    async def open_process(
        self,
        argv: Sequence[str],
        *,
        workdir: str = ".",
        env: Mapping[str, str] | None = None,
        errors: Literal["merged", "dropped"] = "merged",
        timeout_seconds: float | None = None,
    ) -> ToolProcess:
        """Open a process in the sandbox, confined like its commands.

        When the call ends, even by ignored cancellation, it and its descendants get `SIGTERM`, after two seconds `SIGKILL`, and are reaped.

        Args:
            argv: Program and arguments. No shell interprets them.
            workdir: Initial directory, below the root.
            env: Environment variables in addition to those of every command.
            errors: Destination of standard error: `merged` into standard output, or `dropped`.
            timeout_seconds: Expected run time in seconds, which sets the CPU time limit. None: the rest of the call's time.

        Raises:
            ToolContractError: Your move: no program, or an argument with a NUL.
            ProcessRefused: The sandbox runs no processes, or could not start this one. `code` is that of the `Refusal`.

        Cancellation: A started process is stopped.
        """
        words = tuple(argv)
        if not words or not words[0] or any("\0" in word for word in words):
            message = f"open_process takes a program and its arguments, without NUL characters; got {words!r}"
            raise ToolContractError(message)
        left = self.seconds_left() if timeout_seconds is None else timeout_seconds
        options = ProcessOptions(
            workdir=workdir,
            env=dict(env or {}),
            errors=errors,
            timeout_seconds=ProcessOptions().timeout_seconds if math.isinf(left) else left,
        )
        return await self.process(words, options)

    async def run_session(  # noqa: PLR0913 - what a child may have that its session has not
        self,
        prompt: str,
        *,
        system_prompt: str | None = None,
        tools: Iterable[str] | None = None,
        max_turns: int | None = None,
        agent: str | None = None,
        model: str | None = None,
    ) -> str:
        """Run a child session, which ends with the call, and return its last text.

        It inherits working directory, sandbox, model, tools, plugins and user data, unless its agent has its own, but not the conversation. Its events appear
        here as `SubagentEvent`. It may use all of the remaining budget, or waits until another child returns some.

        Args:
            prompt: Task of the child, all it sees of this conversation.
            system_prompt: Replaces the system prompt.
            tools: Names of tools of this session, or of the agent if it has its own. None: all.
            max_turns: Turn limit, or None for this session's. The smaller of it and the agent's counts.
            agent: An agent in `ctx.agents`, or None for a copy of this session.
            model: Model as `provider:name`, or None for the session's or agent's.

        Raises:
            ChildRefused: Your move: no budget, a tree too deep, or too many children for this session's tools.
            OptionError: Your move: unknown agent or tool, or an invalid argument.
            ModelNotFound, Authentication: Your move: unknown model, or no key for it.
            CycleFailed, CycleAborted: The child ended without an answer, or the calling tool call ended.
            PromptError: Your move: an empty or too long prompt.

        Cancellation: The child is aborted and stopped before it propagates.
        """
        return await self.child(
            ChildRequest(
                prompt=prompt,
                system_prompt=system_prompt,
                tools=tools,
                max_turns=max_turns,
                agent=agent,
                model=model,
            )
        )

    @overload
    async def ask_user(
        self,
        question: str,
        options: Iterable[str] = (),
        *,
        timeout_seconds: float | None = 300.0,
        schema: None = None,
        url: str | None = None,
    ) -> str | None: ...
    @overload
    async def ask_user(
        self,
        question: str,
        options: Iterable[str] = (),
        *,
        timeout_seconds: float | None = 300.0,
        schema: JsonObject,
        url: str | None = None,
    ) -> JsonObject | None: ...
    async def ask_user(
        self,
        question: str,
        options: Iterable[str] = (),
        *,
        timeout_seconds: float | None = 300.0,
        schema: JsonObject | None = None,
        url: str | None = None,
    ) -> str | JsonObject | None:
        """Ask the user and wait for the answer in this process. Return a `ToolQuestion` if the question must survive a restart.

        Publishes `AskUser`. Answer it with `session.respond` or `session.decline`.

        Args:
            question: Text of the question.
            options: Answers to choose from. Other text is still accepted.
            timeout_seconds: Time limit in seconds. None: the rest of the call's time.
            schema: Schema of a form: a flat JSON Schema object of at most 50 fields, each a text, number, boolean, choice (`enum`, or `oneOf` of `const` and
                `title`) or list of choices (`array`, with `enum` or `anyOf` in its `items`).
            url: An address to show to the user, `https://…`. It is never opened automatically.

        Returns:
            The text, or a copy of the form's object with defaults filled in and empty fields omitted. None if no answer came in time.

        Raises:
            ToolContractError: Your move: an empty question, or an invalid time limit, form or address.
            QuestionDeclined: The user declined to answer. Propagated, its text becomes the result.
            CycleAborted: The cycle or this call was stopped.

        Cancellation: The question is withdrawn when the call ends.
        """
        if not question.strip():
            message = "ask_user takes a question; got an empty one"
            raise ToolContractError(message)
        if timeout_seconds is not None and not is_seconds(timeout_seconds, above_zero=True):
            message = f"ask_user waits for a time above 0 s, or None; got {timeout_seconds!r}"
            raise ToolContractError(message)
        fault = None if schema is None else fault_of_form(schema)
        fault = f"schema {fault}" if fault is not None else None if url is None else fault_of_url(url)
        listed = tuple(options)
        if fault is None and schema is not None and listed:
            fault = (
                "takes either options or a schema: to use both, make the options a choice field of the form"
            )
        if fault is not None:
            message = f"ask_user: {fault if fault.startswith(('schema', 'takes')) else f'url {fault}'}"
            raise ToolContractError(message)
        return await self.question(
            UserQuestion(
                question=question, options=listed, timeout_seconds=timeout_seconds, schema=schema, url=url
            )
        )

    @contextmanager
    def cleanup_scope(self, seconds: float = MAX_CLEANUP_SECONDS) -> Iterator[trio.CancelScope]:
        """Shield the clean-up of a stopped tool in `finally`, for up to two seconds.

        Args:
            seconds: Time limit. Beyond two seconds, a stopped call counts as stuck.

        Raises:
            ToolContractError: Your move: `seconds` is invalid or exceeds two.

        Cancellation: Only the end of `seconds` cancels it.
        """
        if not 0 < seconds <= MAX_CLEANUP_SECONDS:
            message = (
                f"cleanup_scope takes a time above 0 and up to {MAX_CLEANUP_SECONDS:g} s; got {seconds!r}"
            )
            raise ToolContractError(message)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds) as scope:
            yield scope

    def seconds_left(self) -> float:
        """Return the remaining seconds: 0 after the timeout, infinite without one."""
        return max(self.deadline - outside.monotonic(), 0.0)

    def check_cancelled(self) -> None:
        """Raise if the call was stopped. For functions in worker threads.

        Raises:
            trio.Cancelled: The call was stopped. Let it propagate.
        """
        outside.check_cancelled()
