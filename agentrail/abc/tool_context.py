"""The context of a tool call: its session, and the services that it can use. This module contains no tool."""

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
from agentrail.core.values.question_forms import fault_of_form, fault_of_url
from agentrail.errors import ChildRefused, ProcessRefused, ToolContractError
from agentrail.events import Todo
from agentrail.frozen import EMPTY, MAX_LEVELS, frozen_json, frozen_value
from agentrail.messages import CallId, JsonObject, JsonValue, SessionId

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
        """Run the function and return its result. Cancellation abandons an abandonable thread."""
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
        """Wait for the answer. Return None if none came in time."""
        ...


class RunSession(Protocol):
    """Runs a child session for the call."""

    async def __call__(self, request: ChildRequest, /) -> str:
        """Run the child and return its last text."""
        ...


async def _open_nothing(argv: tuple[str, ...], _options: ProcessOptions) -> ToolProcess:
    await trio.lowlevel.checkpoint()
    message = (
        f"{argv[0]} was not started: this context was made by hand, and no call of a session owns the process"
    )
    raise ProcessRefused(message, code="unsupported")


async def _answer_nothing(_question: UserQuestion) -> None:
    await trio.lowlevel.checkpoint()


async def _run_nothing(_request: ChildRequest) -> str:
    await trio.lowlevel.checkpoint()
    message = "there is no session to be above another one: this context was made by hand"
    raise ChildRefused(message)


async def _run_in_any_thread(function: Callable[[], T], *, abandonable: bool) -> T:
    return await outside.offload(function, abandon_on_cancel=abandonable)


@frozen(kw_only=True)
class ToolContext(Generic[D]):
    """Context of one tool call: values as they were when the call started, deeply frozen.

    A tool annotated with `ctx: ToolContext[Pool]` gets `ctx.deps` of that type. A session without such a value is not
    started.

    Attributes:
        session_id: Id of the call's session.
        group_id: Group of the session, or None.
        path: Session ids from the root down to this session.
        call_id: Id of the call.
        operation_id: Idempotency key: the same for all attempts at one call.
        attempt: Number of the attempt, from 1.
        arguments: Arguments of the call as the session stores them. Meant for `reconcile`, which otherwise gets only the id:
            a tool may modify the arguments it is passed.
        working_dir: Root of the file tools.
        open_sandbox: Opens the sandbox. Used by `ctx.sandbox`.
        model: The model string of the request.
        turn: Turn of the cycle, from 1.
        tools: Names of the session's tools, sorted. After a handover, those of the new agent.
        agents: Name and description of each agent that the session can delegate to.
        agent_tools: For each agent with tools of its own, their names, sorted.
        prompt_mode: Sections in the system prompt: `full`, `task`, `minimal` or `none`.
        last_reply: Reply of the previous cycle, empty if there was none.
        total_tokens: Tokens used by the session so far.
        cost_usd: Cost so far, in US dollars, or None if a price is unknown.
        todos: The model's todo list.
        memory: Values that the session's tools keep between calls, set by `UpdateContext(key="memory", …)`.
        user_data: The application's own data.
        deps: Live object from the application, such as a pool or a client, passed through unchanged. It never appears in a
            state, journal, event or text.
        memories: Memories across sessions that belong to this session's owner. None if the supervisor has no `memories`, or
            `user_data` names no owner.
        notes: The session's working notes, `NOTES.md` outside its workspace, or None if it has none.
        knowledge: Knowledge bases that the session's owner may read. None if the supervisor has no `knowledge`.
        deadline: Time of the timeout, on Trio's clock, infinite if there is none.
        progress: Called by `report_progress`. Publishes `ToolProgress`.
        event: Called by `emit`. Publishes `PluginEvent`.
        detached: Called by `detach`.
        commands: The session's background commands, started by `shell`.
        run_in_thread: Runs a synchronous function in one of the tool threads.
        process: Called by `open_process`.
        question: Called by `ask_user`. In a context created by hand, no answer comes.
        child: Called by `run_session`.
    """

    session_id: SessionId
    group_id: str | None = None
    path: tuple[SessionId, ...] = ()
    call_id: CallId
    operation_id: str
    attempt: int = 1
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

    @property
    def depth(self) -> int:
        """Number of ancestor sessions, 0 for a root."""
        return max(len(self.path) - 1, 0)

    @property
    def sandbox(self) -> "Sandbox":
        """The sandbox for files and commands. It opens when the first tool of a session uses it.

        Raises:
            SandboxError: The working directory can no longer be opened.
        """
        return self.open_sandbox()

    def report_progress(self, text: str) -> None:
        """Report progress to subscribers. Does nothing once the call has ended. Callable from a worker thread."""
        self.progress(text)

    def emit(self, name: str, payload: JsonValue = None) -> None:
        """Publish a `PluginEvent`. Does nothing once the call has ended. Callable from a worker thread.

        Args:
            name: Name of the event, chosen by the tool.
            payload: JSON of at most 64 KiB, nested at most 128 levels deep.

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
            message = f"the payload of {name!r} has {len(text.encode()):,} bytes, at most {MAX_PAYLOAD_BYTES:,} are taken"
            raise ToolContractError(message)
        self.event(name, frozen)

    def detach(self, text: str, details: JsonValue = None) -> None:
        """Return a result now and continue in the background. Callable from a worker thread.

        The model reads the result, and the session continues without the call. The call then takes no slot and has no
        timeout, and no steer or ordinary abort stops it.

        It ends when the tool returns. The model reads the returned text as a note before its next turn. It is also stopped by
        `abort(kill_tools="all")`, by `abort_tool`, and when the session ends or restarts. It is never run again. A session
        can have at most eight such calls. The ninth is stopped.

        Its processes, including those opened later, end with it. From now on it can neither ask the user nor start child
        sessions.

        Args:
            text: Result of the call, for the model.
            details: JSON for events and user interfaces.

        Raises:
            ToolContractError: Your move: the call already has a result, child sessions work for it, or text or details are
                invalid.
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
        """Open a process in the sandbox, confined like its commands. The process ends with the call, however the call ends.

        When the call ends or is stopped, the process and its descendants get `SIGTERM`, two seconds later `SIGKILL`, and are
        reaped. This also happens if the tool ignores its cancellation.

        Args:
            argv: Program and arguments. No shell interprets them.
            workdir: Initial directory, below the root.
            env: Extra environment variables, in addition to those of every command.
            errors: Destination of standard error: `merged` into standard output, or `dropped`.
            timeout_seconds: Expected run time in seconds, from which the CPU time limit is derived. None: the rest of the
                call's time.

        Raises:
            ToolContractError: Your move: no program, or an argument with a NUL.
            ProcessRefused: The sandbox runs no processes, or could not start this one. `code` is the code of the `Refusal`.

        Cancellation: A process that has already started is stopped.
        """
        words = tuple(argv)
        if not words or not words[0] or any("\0" in word for word in words):
            message = f"open_process takes a program and its arguments, without a NUL; got {words!r}"
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
        """Run a child session and return its last text. The child ends with the call.

        It inherits like a child of `task`: working directory, sandbox, model, tools, plugins and user data, unless its agent
        has its own. It does not inherit the conversation. Its events appear on this session as `SubagentEvent`. Under a
        budget, it may use all of the remaining amount, or waits until another child returns some.

        Args:
            prompt: Task of the child, which sees nothing else of this conversation.
            system_prompt: Replaces the system prompt of this session or of the agent.
            tools: Names of tools of this session, or of the agent if it has its own, or None for all of them.
            max_turns: Turn limit, or None for this session's. If the agent has a limit too, the smaller one counts.
            agent: Name of an agent in `ctx.agents`, or None for one configured like this session.
            model: Model as `provider:name`, or None for that of this session or of the agent. Its provider is resolved as for
                a model switch.

        Raises:
            ChildRefused: Your move: the budget is spent, the tree is too deep, or too many children work for this session's
                tools.
            OptionError: Your move: an unknown agent or tool, an invalid turn limit, or an argument of the wrong type.
            ModelNotFound, Authentication: Your move: unknown model, or no key for it.
            CycleFailed, CycleAborted: The child ended without an answer. Aborted also if the calling tool call ended.
            PromptError: Your move: an empty prompt, or one that is too long.

        Cancellation: The child and all its work are aborted and stopped before the cancellation propagates.
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
        """Ask the user and wait for the answer in this process. If the question must survive a restart, use the tool `ask_user`.

        Publishes `AskUser`. Answer it with `session.respond` or `session.decline`.

        Args:
            question: Text of the question.
            options: Answers to choose from. The user may still answer with other text.
            timeout_seconds: Time limit in seconds. None: the rest of the call's time.
            schema: Schema of a form: a flat JSON Schema object of at most 50 fields, each a text, number, boolean or choice
                (`enum`, or `oneOf` of `const` and `title`). Only valid answers are returned.
            url: An address to show to the user, `https://…`. It is never opened automatically.

        Returns:
            The answer: a text, or for a form a copy of the object with defaults filled in and empty fields omitted. None if
            the user did not answer in time.

        Raises:
            ToolContractError: Your move: an empty question, or an invalid time limit, form or address.
            QuestionDeclined: The user declined to answer. If the tool lets it propagate, its text becomes the result.
            CycleAborted: The cycle was aborted or this call was stopped, so no answer will come.

        Cancellation: The question is withdrawn when the call ends.
        """
        if not question.strip():
            message = "ask_user takes a question; got an empty one"
            raise ToolContractError(message)
        if timeout_seconds is not None and not 0 < timeout_seconds < math.inf:
            message = f"ask_user waits for a time above 0 s, or None; got {timeout_seconds!r}"
            raise ToolContractError(message)
        fault = None if schema is None else fault_of_form(schema)
        fault = f"schema {fault}" if fault is not None else None if url is None else fault_of_url(url)
        listed = tuple(options)
        if fault is None and schema is not None and listed:
            fault = "takes options or a schema: make the options a choice among the fields of the form"
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
        """Shield the clean-up of a stopped tool, in `finally`. Awaits inside the scope are not cancelled for up to two seconds.

        Args:
            seconds: Time limit, at most two seconds: after that, a stopped call counts as stuck.

        Raises:
            ToolContractError: Your move: `seconds` is invalid or longer than two.

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
        """Return the call's remaining time in seconds: 0 after the timeout, infinite without one."""
        return max(self.deadline - outside.monotonic(), 0.0)

    def check_cancelled(self) -> None:
        """Raise if the call was stopped. For functions in worker threads, which cannot be cancelled from outside.

        Raises:
            trio.Cancelled: The call was stopped. Let it propagate.
        """
        outside.check_cancelled()
