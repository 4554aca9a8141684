"""What a tool is given for one call: whom it works for, and all that it may ask of its session. No tool enters this file."""

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
from agentrail.core.values.forms import fault_of_form, fault_of_url
from agentrail.errors import ChildRefused, ProcessRefused, ToolContractError
from agentrail.events import Todo
from agentrail.frozen import EMPTY, MAX_LEVELS, frozen_json, frozen_value
from agentrail.messages import CallId, JsonObject, JsonValue, SessionId

T = TypeVar("T")

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    # So that a plain `ToolContext` is no hole for a strict type checker; at run time it is never looked at.
    D = TypeVarWithDefault("D", default=Any)
else:
    D = TypeVar("D")

MAX_PAYLOAD_BYTES: Final = 64 << 10
MAX_CLEANUP_SECONDS: Final = 2.0
"""How long a tool that was stopped may clean up."""


def _publish_nothing(name: str, payload: JsonValue) -> None:
    """Drop an event, in a context that was made by hand."""


def _detach_nothing(text: str, details: JsonValue) -> None:
    """Drop an answer, in a context that was made by hand."""


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
        agent: Which of the agents of the session above works; None for one that has what that session has.
        model: Which model it asks, as `provider:name`; None for that of the session above.
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
        """Open it."""
        ...


@frozen(kw_only=True)
class UserQuestion:
    """What a tool wants to know from the user.

    Attributes:
        question: In words.
        options: What can be chosen; empty: any text.
        timeout_seconds: How long to wait; None: as long as the call may take.
        schema: A form, whose answer is an object; None: the answer is a text.
        url: An address that the user is to be shown.
    """

    question: str
    options: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    schema: JsonObject | None = None
    url: str | None = None


class AskQuestion(Protocol):
    """Puts a question before the user."""

    async def __call__(self, question: UserQuestion, /) -> str | JsonObject | None:
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
    """Who asks, and where: values as they were when the call started, frozen all the way down.

    A tool that says `ctx: ToolContext[Pool]` has `ctx.deps` of that type, and a session without one is not started.

    Attributes:
        session_id: The session that the call belongs to.
        group_id: The group of the session, or None.
        path: The chain of sessions from the root to this one.
        call_id: The call.
        operation_id: The idempotency key: the same for all attempts at one call.
        attempt: 1 for the first.
        arguments: What the call was made with, as the session keeps it; a tool writes to what it is given. For `reconcile`, which is given nothing but the id.
        working_dir: The root of the file tools.
        open_sandbox: Gives the sandbox; `ctx.sandbox` asks it.
        model: The model string of the request.
        turn: Which turn of the cycle, from 1.
        tools: The names of the tools that the session has, sorted; those of the agent that it was handed over to.
        agents: The agents that may work for the session: of each its name, and its description.
        agent_tools: By the name of an agent that has tools of its own, the names of these, sorted.
        prompt_mode: Which sections the system prompt has: `full`, `task`, `minimal` or `none`.
        last_reply: What the cycle before this one answered; empty where there was none, or where it ended without an answer.
        total_tokens: What the session used so far.
        cost_usd: What that cost; None when a price is unknown.
        todos: The list that the model keeps of its work.
        memory: What the tools of the session keep between their calls, set by `UpdateContext(key="memory", …)`.
        user_data: The application's own data.
        deps: What the application gave its session to work with, such as a pool or a client: a live object, as it was given. In no
            state, journal, event or text.
        memories: What is remembered across sessions, of the owner of this one and of no other; None where the supervisor was given no
            `memories`, or `user_data` does not say whose they would be.
        notes: The working notes of the session, `NOTES.md` outside of its workspace; None where it has none.
        knowledge: The knowledge bases that the owner of the session may read; None where the supervisor was given no `knowledge`.
        deadline: When the timeout strikes, on Trio's clock; infinite without one.
        progress: Where `report_progress` goes; publishes `ToolProgress`.
        event: Where `emit` goes; publishes `PluginEvent`.
        detached: Where `detach` goes.
        commands: What runs in the background of the session, begun by `shell`.
        run_in_thread: Runs a plain function in one of the threads for tools.
        process: Where `open_process` goes.
        question: Where `ask_user` goes; in a context that was made by hand there is no answer.
        child: Where `run_session` goes.
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
        """How many sessions stand above this one; 0 for one that no other session started."""
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
            payload: JSON, of at most 64 KiB, nested at most 128 levels deep.

        Raises:
            ToolContractError: Your move: it is no JSON, or too much of it.
        """
        try:
            text = json.dumps(payload, allow_nan=False)
            frozen = frozen_value(json.loads(text))
        except RecursionError:  # `TooDeep` is one
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
        """Answer the call now, and go on in the background. Callable from a worker thread.

        The model reads the answer, and the session goes on without the call: it takes no slot and has no timeout any more, no steer
        and no ordinary abort stops it. It ends when the tool returns, of which the model reads the text as a note in front of its next
        turn; or when it is stopped: by `abort(kill_tools="all")`, by `abort_tool`, with the session, and by a restart of that. Nothing
        runs it again. At most eight calls of a session may go on so; the ninth is stopped.

        Processes that it has opened, and opens from now on, end with it. No question of its own reaches the user any more, and it has
        no sessions of its own.

        Args:
            text: What the model reads as the result of the call.
            details: JSON for events and user interfaces.

        Raises:
            ToolContractError: Your move: it is answered already, sessions work for it, or the text or the details are none.
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
        """Open a process in the sandbox, confined as its commands are. It ends with the call, whatever ends that.

        Then, or when the call is stopped, it and all that it started get `SIGTERM`, two seconds later `SIGKILL`, and are
        reaped; also when the tool itself does not hear that it is stopped.

        Args:
            argv: The program and its arguments; no shell reads them.
            workdir: Where it begins, below the root.
            env: Variables that it sees besides those that every command sees.
            errors: Where its standard error goes: `merged` into its output, or `dropped`.
            timeout_seconds: How much time it may need, of which its limit of processor time is made; None: as long as the call has.

        Raises:
            ToolContractError: Your move: no program, or an argument with a NUL.
            ProcessRefused: The sandbox runs no processes, or could not start this one; `code` is as of `Refusal`.

        Cancellation: What has been started by then is stopped.
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
        """Let a session below this one work, and give its last text. It ends with the call.

        It inherits as a child of `task` does: working directory, sandbox, model, tools, plugins and user data, where its agent has
        none of its own; not the conversation. What it publishes appears on this session as `SubagentEvent`. Under a budget it is lent all that is left,
        or waits until another child gives something back.

        Args:
            prompt: What it is to do; it knows nothing else.
            system_prompt: Instead of that of this session, or of the agent.
            tools: Names, of the tools that this session has, or the agent, where that has its own; None for all of them.
            max_turns: How many turns it has; None for as many as this session. Of an agent with a number of its own the smaller one counts.
            agent: The name of the agent that works, as in `ctx.agents`; None for one that has what this session has.
            model: Which model it asks, as `provider:name`; None for that of this session, or of the agent. Its provider is found as for a switch of models.

        Raises:
            ChildRefused: Your move: nothing of the budget is left for it; sessions stand too deep above one another already; or too
                many work for tools of this session.
            OptionError: Your move: an agent or a tool that this session has not, a number of turns that is none, or an argument of another type.
            ModelNotFound, Authentication: Your move: there is no such model, or no key for it.
            CycleFailed, CycleAborted: How it ended, without an answer; aborted too when the call that asks is over.
            PromptError: Your move: an empty prompt, or one that is too long.

        Cancellation: The session is aborted with all that it runs, and stopped, before the cancellation travels on.
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
        """Ask the user, and wait for the answer in this process. Where it must outlive a restart, use the tool `ask_user`.

        Publishes `AskUser`, and is answered with `session.respond`, or `session.decline`.

        Args:
            question: What you need to know.
            options: What can be chosen; the answer may be another text all the same.
            timeout_seconds: How long to wait; None: as long as the call may take.
            schema: A form instead: JSON Schema of a flat object of at most 50 fields, each a text, a number, a flag or a choice
                (`enum`, or `oneOf` of `const` and `title`). No answer reaches you that does not fit it.
            url: An address that the user is to be shown, `https://…`; nothing is opened by itself.

        Returns:
            The answer: a text; of a form the object, a copy of your own, with its defaults filled in and what was left empty left
            out. None when the user gave none in time.

        Raises:
            ToolContractError: Your move: an empty question, a time that is none, a form or an address that cannot be.
            QuestionDeclined: The user does not want to answer. A tool that lets it travel is answered with these words.
            CycleAborted: The cycle was aborted, or this call stopped: no answer will come.

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
        return max(self.deadline - outside.monotonic(), 0.0)

    def check_cancelled(self) -> None:
        """Raise when the call was stopped: for functions in worker threads, which cannot be stopped from outside.

        Raises:
            trio.Cancelled: It was. Let it travel.
        """
        outside.check_cancelled()
