"""Running tool calls of one incarnation: their contexts, their progress reports, and the signals of their outcomes."""

import contextlib
import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

import msgspec
import trio
from attrs import define, field
from msgspec.structs import replace

from agentrail.abc import (
    MAX_RESULT_BYTES,
    BackgroundCommands,
    ChildRequest,
    Done,
    Error,
    NotDone,
    Ok,
    ProcessOptions,
    Sandbox,
    Tool,
    ToolContext,
    ToolOutcome,
    ToolProcess,
    ToolQuestion,
    ToolUpdate,
    Unknown,
    UserQuestion,
    effect_class_of,
)
from agentrail.abc.versions import VersionedSandbox
from agentrail.core.journal.file_changes import FILES_EVENT
from agentrail.core.policy.calls import hash_arguments
from agentrail.core.protocol.effects import RunTool, SpawnChild
from agentrail.core.protocol.signals import (
    LateValue,
    ToolAnsweredEarly,
    ToolAsked,
    ToolEmitted,
    ToolFinished,
    ToolProgressed,
    ToolWantsChild,
)
from agentrail.core.protocol.tool_changes import Change
from agentrail.core.session.batch import ARGUMENTS_CHANGED
from agentrail.core.session.state import SessionData
from agentrail.core.stack.loaded_stack import Member, attempt_as
from agentrail.core.values.foreign_calls import Raised
from agentrail.core.values.port_members import offers
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import (
    AgentrailError,
    ChildRefused,
    CycleAborted,
    ErrorInfo,
    QuestionDeclined,
    ToolContractError,
)
from agentrail.frozen import MAX_LEVELS, frozen_json, frozen_value, thawed, too_large
from agentrail.logs import CALL_TRACE
from agentrail.messages import Image, JsonObject, JsonValue, SessionId
from agentrail.otp.child_specs import is_seconds
from agentrail.otp.crash_text import describe_bug, describe_crash, words_of
from agentrail.otp.guarded_calls import leaves
from agentrail.outside import jitter, way_back
from agentrail.runtime.arguments import decide_child
from agentrail.runtime.call_processes import Processes
from agentrail.runtime.crashes import (
    TRAVELS_FROM_A_TOOL,
    PortCrashed,
    TaskGroup,
    crash_edge,
    log_crash,
    what_travels,
)
from agentrail.runtime.error_scrubber import without_secrets
from agentrail.runtime.model_lookup import facts_of, provide_model
from agentrail.runtime.pending_calls import PendingCalls
from agentrail.runtime.ports import ChildUsage, ChildWork, Ports, finished_child
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_journal import FileNotes, KeptJournal, NotingKeeper
from agentrail.runtime.tool_threads import TOO_MANY
from agentrail.runtime.tree_secrets import Withheld
from agentrail.structs import picked_fields

# --- Link targets: a call that was judged by the name of a file is also judged by the file itself.

_BROKEN: Final = "Not run: the plugin that judges where its path leads is broken."
_RAISED: Final = object()


async def refusal_of_links(
    known: SessionData, effect: RunTool, working_dir: str, open_sandbox: Callable[[], Sandbox]
) -> str | None:
    for member in known.stack.following:
        path = _asked(known, member, "path_of", effect.name, effect.arguments)
        if path is None:
            continue
        if not isinstance(path, str):
            return _BROKEN
        find: Callable[[str], Awaitable[str | None]] | None = getattr(open_sandbox(), "leads_to", None)
        end = None if find is None else await find(path)
        if end is None:
            continue
        below = end if end.startswith("/") else f"{working_dir.rstrip('/')}/{end}"
        given = (known.plugin_states[member.name], effect.name, effect.arguments, working_dir, below)
        refused = _asked(known, member, "refusal_of_end", *given)
        if refused is not None:
            return refused if isinstance(refused, str) else _BROKEN
    return None


def _asked(known: SessionData, member: Member, method: str, *args: Any) -> object:
    """Call a plugin. If it raises, the call does not run."""
    said = attempt_as(known.stack.ask, getattr(member.plugin, method), *args)
    return _RAISED if isinstance(said, Raised) else said


# --- Progress of a running tool: at most ten reports a second. Faster ones are merged.

MIN_PAUSE_SECONDS: Final = 0.1
MAX_PROGRESS_BYTES: Final = 4_096


@define(eq=False)
class Progress:
    _send: Callable[[str], None]
    _waiting: list[str] = field(init=False, factory=list)
    _next_at: float = field(init=False, default=0.0)

    def say(self, text: str, at_seconds: float) -> float | None:
        self._waiting.append(text)
        if at_seconds >= self._next_at:
            self._next_at = at_seconds + MIN_PAUSE_SECONDS
            self.flush()
            return None
        return self._next_at if len(self._waiting) == 1 else None

    def flush(self, at_seconds: float | None = None) -> None:
        """Send the pending texts as one. If there is too much, only the end: it shows how far the call is."""
        if at_seconds is not None:
            self._next_at = at_seconds + MIN_PAUSE_SECONDS
        if self._waiting:
            merged = "\n".join(self._waiting).encode("utf-8", "replace")
            self._waiting.clear()
            self._send(merged[-MAX_PROGRESS_BYTES:].decode("utf-8", "ignore"))


# One tool call in its own cancel scope: whatever the tool returns or raises, it has exactly one outcome.
#
# Plain functions decide on the outcome; `run_tool` awaits the tool and calls them.

MAX_CRASH_CHARACTERS: Final = 1000
_OUTCOME_UNKNOWN: Final = "[Outcome unknown: an attempt failed, and whether it took effect cannot be found out. Check before repeating.]"

LEASE_OVER: Final = "[Outcome unknown: this was stopped because the store of the session could not be reached. Check before repeating.]"

_OUTCOMES: Final = (Ok, Error, ToolUpdate, ToolQuestion)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a call.

    Attributes:
        misfit: Why the tool, which has another schema since the call was checked, cannot take its arguments.
    """

    tool: Tool
    context: ToolContext
    timeout_seconds: float
    withheld: Withheld = msgspec.field(default_factory=Withheld)
    refusal: Callable[[], Awaitable[str | None]] | None = None
    misfit: str | None = None

    def without_secrets(self, text: str) -> str:
        return without_secrets(self.withheld.replaced(text), self.context.user_data)


class AttemptEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an attempt.

    Attributes:
        crashed: Whether it raised, so that it may be retried.
        late: The tool's result although it had been stopped or had timed out.
    """

    text: str
    is_error: bool = False
    details: JsonValue = None
    changes: tuple[Change, ...] = ()
    crashed: bool = False
    late: "AttemptEnd | None" = None
    images: tuple[Image, ...] = ()
    ran: bool = True
    asks: ToolQuestion | None = None


async def run_tool(effect: RunTool, attempt: Attempt, scope: trio.CancelScope) -> AttemptEnd:
    if hash_arguments(effect.arguments) != effect.arguments_hash:
        return AttemptEnd(text=ARGUMENTS_CHANGED, is_error=True, ran=False)
    arguments: JsonObject = thawed(effect.arguments)
    late: AttemptEnd | None = None
    try:
        with scope:
            refused = None if attempt.refusal is None else await attempt.refusal()
            returned: object = None
            if refused is None and effect.attempt > 1:
                returned = await _reconcile(effect, attempt)
            if refused is None and returned is None:
                refused = attempt.misfit
            if refused is not None:
                return AttemptEnd(
                    text=clean_text(attempt.withheld.replaced(refused)), is_error=True, ran=False
                )
            if returned is None:
                returned = await attempt.tool.execute(arguments, attempt.context)
            ended = decide_outcome(attempt, returned)
            if not scope.cancel_called:
                return ended
            late = ended
        return decide_timeout(attempt, late=late)
    except BaseException as error:  # noqa: ASYNC103 - the edge of a tool: its crash is a result, and siblings are not affected
        leaving = what_travels(error, TRAVELS_FROM_A_TOOL)
        if leaving is error:
            raise
        if leaving is not None:
            raise leaving from None  # noqa: ASYNC104 - decided by `what_travels`
        declined = decide_declined(error)
        if declined is not None:
            return declined  # noqa: ASYNC104 - decided by `what_travels`
        log_tool_crash(effect.name, attempt, error)
        return decide_crash(effect.name, error, attempt)  # noqa: ASYNC104 - decided by `what_travels`


async def _reconcile(effect: RunTool, attempt: Attempt) -> ToolOutcome | None:
    tool = attempt.tool
    reconcile = getattr(tool, "reconcile", None)
    if effect_class_of(tool) != "reconcilable" or reconcile is None:
        return None
    match found := await reconcile(effect.operation_id, attempt.context):
        case Done(result=result):
            return result
        case NotDone():
            return None
        case Unknown():
            return Error(text=_OUTCOME_UNKNOWN)
        case _:
            kind = type(found).__name__
            message = f"reconcile of tool {tool.name!r} returned {kind}, expected Done(result), NotDone() or Unknown()"
            raise ToolContractError(message)


def decide_outcome(attempt: Attempt, returned: object) -> AttemptEnd:
    tool = attempt.tool
    if not isinstance(returned, _OUTCOMES):
        kind = type(returned).__name__
        text = f'Tool "{tool.name}" is broken: execute returned {kind}, expected Ok, Error, ToolUpdate or ToolQuestion.'
        return AttemptEnd(text=text, is_error=True)
    max_bytes = getattr(tool, "max_result_bytes", MAX_RESULT_BYTES)
    text, images = returned.text, returned.images if isinstance(returned, Ok) else ()
    counted = "[1 image]" if len(images) == 1 else f"[{len(images)} images]"
    return AttemptEnd(
        # Before the middle is cut out: half of a secret would not be recognised.
        text=clean_text(
            text if attempt.withheld.known is None else attempt.withheld.replaced(text), max_bytes=max_bytes
        )
        or (counted if images else "[no output]"),
        is_error=isinstance(returned, Error | ToolQuestion),
        details=plain_details(tool.name, returned.details),
        changes=returned.changes if isinstance(returned, ToolUpdate) else (),
        images=images,
        asks=_checked_question(tool, returned) if isinstance(returned, ToolQuestion) else None,
    )


def _checked_question(tool: Tool, asked: ToolQuestion) -> ToolQuestion:
    seconds = asked.timeout_seconds
    if not asked.question.strip() or (seconds is not None and not is_seconds(seconds, above_zero=True)):
        message = f"tool {tool.name!r} returned a question without words, or with a time limit of {seconds!r}"
        raise ToolContractError(message)
    state = plain_details(tool.name, asked.state)
    return replace(asked, question=clean_text(asked.question), state=state)


def plain_details(name: str, details: object) -> JsonValue:
    if details is None:
        return None
    size = too_large(details)
    if size is not None:
        message = (
            f"tool {name!r} returned details of {size}: "
            "write them to a file, and give its path in the details"
        )
        raise ToolContractError(message)
    try:
        return frozen_value(json.loads(json.dumps(details, allow_nan=False)))
    except RecursionError:  # `TooDeep` is one
        message = (
            f"tool {name!r} returned details nested more deeply than {MAX_LEVELS} levels: "
            "flatten them, or write them to a file, and give its path in the details"
        )
        raise ToolContractError(message) from None
    except (TypeError, ValueError) as error:
        message = f"tool {name!r} returned details that are not JSON: {error}"
        raise ToolContractError(message) from None


def decide_crash(name: str, error: BaseException, attempt: Attempt) -> AttemptEnd:
    """Return the outcome of an exception: its type and message for the model, without a traceback or the application's secrets.

    A tool that exits the program, as argparse does on wrong input, has ended its call. This is an error rather than a crash,
    because the same input would end it again.
    """
    found = leaves(error)
    exited = all(isinstance(leaf, SystemExit) for leaf in found)
    said = "; ".join(decide_exit(leaf) for leaf in found) if exited else f"crashed: {describe_crash(error)}"
    text = attempt.without_secrets(f'Tool "{name}" {said}')
    return AttemptEnd(
        text=clean_text(text[:MAX_CRASH_CHARACTERS]),
        is_error=True,
        crashed=not exited and not isinstance(error, ToolContractError),
    )


def decide_declined(error: BaseException) -> AttemptEnd | None:
    """Return the outcome if the tool only passes on that the user declined to answer: not a crash, and no second attempt."""
    found = leaves(error)
    if not all(isinstance(leaf, QuestionDeclined) for leaf in found):
        return None
    return AttemptEnd(text=clean_text(str(found[0])), is_error=True)


def decide_exit(error: BaseException) -> str:
    said = words_of(error)
    is_status = not said or said == "None" or said.lstrip("-").isdigit()
    return f"exited with status {0 if said in {'', 'None'} else said}" if is_status else f"exited: {said}"


def log_tool_crash(name: str, attempt: Attempt, error: BaseException) -> None:
    context = attempt.context
    what = (
        f"tool {name!r} crashed in call {context.call_id} of session {context.session_id}, "
        f"attempt {context.attempt}"
    )
    log_crash(what, error, attempt.without_secrets)


def decide_timeout(attempt: Attempt, *, late: AttemptEnd | None = None) -> AttemptEnd:
    text = f"Timed out after {attempt.timeout_seconds:g} s."
    if effect_class_of(attempt.tool) not in {"pure", "idempotent"}:
        text = f"{text} It may have taken effect; check before repeating."
    return AttemptEnd(text=text, is_error=True, late=late)


def clean_text(text: str, *, max_bytes: int = MAX_RESULT_BYTES) -> str:
    """Make a text safe for every wire: no lone surrogates, no control characters, its middle cut out when it is too long."""
    if type(text) is str and len(text) <= max_bytes and text.isascii() and text.isprintable():
        return text  # like most single lines: nothing in it needs a check
    if len(text) > 2 * max_bytes:
        # Only the remaining part is checked. On ten megabytes each check would block every session, even in a thread:
        # a regular expression holds the interpreter. The omitted part is counted unchecked.
        size_bytes = len(text.encode("utf-8", "surrogatepass"))
        head, tail = (_cleaned(part).encode() for part in (text[:max_bytes], text[-max_bytes:]))
    else:
        cleaned = _cleaned(text)
        head = tail = cleaned.encode()
        size_bytes = len(head)
        if size_bytes <= max_bytes:
            return cleaned
    half = max_bytes // 2
    begin, end = head[:half].decode(errors="ignore"), tail[-half:].decode(errors="ignore")
    return f"{begin}\n[… {size_bytes - 2 * half:,} bytes left out …]\n{end}"


def _cleaned(text: str) -> str:
    return _CONTROL.sub("", _SURROGATE.sub("\ufffd", text))


T = TypeVar("T")

_CALL_IS_OVER: Final = "the calling tool call has ended"
_END_SESSIONS_WITHIN_SECONDS: Final = 4.5
"""Seconds, slightly more than a session takes at most to end."""


class BegunCall(msgspec.Struct, frozen=True, kw_only=True):
    effect: RunTool
    known: SessionData
    scope: trio.CancelScope


@define(eq=False, repr=False, weakref_slot=False)
class RunningCall:
    _calls: "ToolCallRunner"
    effect: RunTool
    known: SessionData
    ports: Ports
    _scope: trio.CancelScope
    _processes: Processes
    _child_usages: list[ChildUsage]
    _began_at_ms: int
    _way_back: Callable[..., object] = field(init=False, factory=way_back)
    # Created for the first report: most calls make none.
    _progress: Progress | None = field(init=False, default=None)
    _flushing: trio.CancelScope | None = field(init=False, default=None)
    _is_detached: bool = field(init=False, default=False)
    _is_over: bool = field(init=False, default=False)
    _sandbox: Sandbox | None = field(init=False, default=None)
    _sessions: dict[trio.CancelScope, trio.Event] = field(init=False, factory=dict)

    # --- members of the context

    def progress(self, text: object) -> None:
        # Refused here, in the tool: from a thread, the error would be raised in the event loop.
        if not isinstance(text, str):
            message = f"report_progress takes a text, got {type(text).__name__}"
            raise ToolContractError(message)
        self._in_trio(self._say, text)

    def event(self, name: object, payload: JsonValue) -> None:
        if not isinstance(name, str):
            message = f"emit takes a name, got {type(name).__name__}"
            raise ToolContractError(message)
        if name == FILES_EVENT:
            message = f"emit needs a name of your own; {name!r} is reserved for written files, choose another"
            raise ToolContractError(message)
        self._in_trio(self._emit, name, payload)

    def detach(self, text: object, details: JsonValue) -> None:
        if not isinstance(text, str):
            message = f"detach takes a text, got {type(text).__name__}"
            raise ToolContractError(message)
        if self._is_detached:
            message = "detach was already called: the call is answered and can only end"
            raise ToolContractError(message)
        if self._sessions:
            message = (
                "detach cannot be called while sub-agents of the call are running: wait until they have ended"
            )
            raise ToolContractError(message)
        plain = plain_details(self.effect.name, details)
        self._is_detached = True
        self._in_trio(self._detach, text, plain)

    def _detach(self, text: str, details: JsonValue) -> None:
        self._scope.deadline = math.inf
        self._processes.lift_deadlines()
        at_ms = now_ms()
        tool = self.ports.tools[self.effect.name, self.effect.generation]
        max_bytes = int(getattr(tool, "max_result_bytes", MAX_RESULT_BYTES))
        self._calls.task_group.deliver(
            ToolAnsweredEarly(
                at_ms=at_ms,
                effect_id=self.effect.effect_id,
                text=clean_text(self.ports.withheld.replaced(text), max_bytes=max_bytes) or "[no output]",
                details=details,
                started_at_ms=self._began_at_ms,
                ran_ms=max(at_ms - self._began_at_ms, 0),
            )
        )

    @property
    def fence(self) -> tuple[SessionId, int]:
        return self.ports.session_id, self._calls.epoch

    @property
    def deadline(self) -> float:
        """Time of the timeout, on Trio's clock. The tool is running, so the scope has been entered."""
        return self._scope.deadline

    @property
    def commands(self) -> BackgroundCommands:
        return self._calls.commands

    async def run_in_thread(self, function: Callable[[], T], *, abandonable: bool) -> T:
        threads = self.ports.threads
        return await threads.run(self.effect.name, self._scope, function, abandonable=abandonable)

    def open_sandbox(self) -> Sandbox:
        files = self._calls.files
        if files is None:
            return self.ports.workspace.open()
        if self._sandbox is None:
            sandbox, effect = self.ports.workspace.open(), self.effect
            deliver = self._calls.task_group.deliver
            keeper = NotingKeeper(files, deliver, effect.effect_id, effect.call_id, effect.name)
            self._sandbox = sandbox.kept_by(keeper) if offers(sandbox, VersionedSandbox) else sandbox
        return self._sandbox

    async def open_process(self, argv: tuple[str, ...], options: ProcessOptions) -> ToolProcess:
        return await self._processes.open(self.open_sandbox, self._scope, argv, options)

    async def ask_user(self, question: UserQuestion) -> str | JsonObject | None:
        pending_calls, deliver = self._calls.pending_calls, self._calls.task_group.deliver
        seconds = question.timeout_seconds
        asked = ToolAsked(
            at_ms=now_ms(),
            signal_id=pending_calls.mint(),
            effect_id=self.effect.effect_id,
            timeout_ms=None if seconds is None else round(seconds * 1000),
            **picked_fields(question, "question", "options", "schema", "url"),
        )
        answer = await pending_calls.ask(asked, lambda _: deliver(asked))
        return cast("str | JsonObject | None", thawed(answer))

    async def run_session(self, request: ChildRequest) -> str:
        wanted = decide_child(request)
        if self._is_over:
            raise CycleAborted(_CALL_IS_OVER)
        if self._is_detached:
            message = "the call is answered; its background work cannot start sessions"
            raise ChildRefused(message)
        with trio.CancelScope() as scope:  # first, to also end a session that waits for its budget
            gone = self._sessions[scope] = trio.Event()
            try:
                return await self._run_session(wanted)
            finally:
                del self._sessions[scope]
                gone.set()
        raise CycleAborted(_CALL_IS_OVER)

    async def _run_session(self, request: ChildRequest) -> str:
        calls = self._calls
        if request.model is not None:  # an unavailable model is reported before anything is lent
            facts_of(request.model, provide_model(request.model, self.ports))
        wish = ToolWantsChild(
            at_ms=now_ms(),
            signal_id=calls.pending_calls.mint(),
            effect_id=self.effect.effect_id,
            tools=None if request.tools is None else tuple(request.tools),
            **picked_fields(request, "prompt", "system_prompt", "max_turns", "agent", "model"),
        )
        effect = await calls.pending_calls.ask(
            wish, lambda _: calls.task_group.deliver(wish), unread=calls.give_back
        )
        work = ChildWork(effect=cast("SpawnChild", effect))
        usage = ChildUsage()
        self._child_usages.append(usage)
        started_at_ms = now_ms()
        outcome: ToolOutcome = Error(text="[Stopped]")
        try:
            outcome = await self.ports.run_child(work, self.ports, calls.task_group.deliver, usage)
        except AgentrailError as error:
            outcome = Error(text=clean_text(str(error)))
            raise
        finally:
            calls.task_group.deliver(finished_child(work.effect.effect_id, outcome, usage, started_at_ms))
        return outcome.text

    # --- the end of the call

    @property
    def has_sessions(self) -> bool:
        return bool(self._sessions)

    def close(self) -> None:
        self._is_over = True
        if self._flushing is not None:
            self._flushing.cancel(reason="the call has ended")
        if self._progress is not None:
            self._progress.flush()

    async def end_sessions(self) -> None:
        for scope in self._sessions:
            scope.cancel(reason="the call has ended")
        with trio.move_on_after(_END_SESSIONS_WITHIN_SECONDS, shield=True):
            for gone in tuple(self._sessions.values()):
                await gone.wait()

    def _in_trio(self, function: Callable[..., None], *args: Any) -> None:
        if trio.lowlevel.in_trio_run():
            function(*args)
        else:
            # An abandoned thread may outlive the run, when no session exists to receive its report.
            with contextlib.suppress(trio.RunFinishedError):
                self._way_back(function, *args)

    def _say(self, text: str) -> None:
        if self._progress is None:
            self._progress = Progress(self._send)
        flush_at = self._progress.say(text, trio.current_time())
        if flush_at is not None:
            scope = self._flushing = trio.CancelScope()
            self._calls.task_group.start_soon(self._flush, flush_at, scope, scope=scope, name="progress")

    async def _flush(self, at_seconds: float, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep_until(at_seconds)
            if self._progress is not None:
                self._progress.flush(at_seconds)

    def _send(self, text: str) -> None:
        effect_id = self.effect.effect_id
        self._calls.task_group.deliver(ToolProgressed(at_ms=now_ms(), effect_id=effect_id, text=text))

    def _emit(self, name: str, payload: JsonValue) -> None:
        effect_id = self.effect.effect_id
        self._calls.task_group.deliver(
            ToolEmitted(at_ms=now_ms(), effect_id=effect_id, name=name, payload=payload)
        )


class ContextOfCall(ToolContext):
    """Context of a running call. It looks up members when the tool uses them: most tools use none."""

    __slots__ = ("_call",)

    _call: RunningCall

    @classmethod
    def of(cls, call: RunningCall) -> ToolContext:
        context = cls.__new__(cls)
        _set(context, "_call", call)
        return context

    def __getattr__(self, name: str) -> Any:
        find = _MEMBERS.get(name)
        if find is None:
            message = f"{ToolContext.__name__!r} object has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=self)
        value = find(self._call)
        _set(self, name, value)
        return value


_set: Final = object.__setattr__

_MEMBERS: Final[Mapping[str, Callable[[RunningCall], object]]] = MappingProxyType(
    {
        **{
            name: attrgetter(f"effect.{name}")
            for name in (
                "path",
                "call_id",
                "operation_id",
                "attempt",
                "model",
                "turn",
                "total_tokens",
                "cost_usd",
                "todos",
                "resumption",
            )
        },
        **{name: attrgetter(f"ports.{name}") for name in ("session_id", "group_id", "working_dir", "deps")},
        "scope": attrgetter("ports.scope"),
        "fence": attrgetter("fence"),
        "traceparent": lambda call: call.ports.traces.of_call(call.known, call.effect.call_id),
        "tools": attrgetter("known.tools.names"),
        **{name: attrgetter(f"ports.own.{name}") for name in ("memories", "notes", "knowledge")},
        "agents": lambda call: tuple([(one.name, one.description) for one in call.known.config.agents]),
        "agent_tools": lambda call: MappingProxyType(
            {one.name: one.tools.names for one in call.known.config.agents if one.tools is not None}
        ),
        "prompt_mode": attrgetter("known.config.prompt_mode"),
        "last_reply": lambda call: "" if call.known.last is None else call.known.last.text,
        "arguments": lambda call: frozen_json(call.effect.arguments),
        "memory": lambda call: frozen_value(call.effect.memory),
        "user_data": lambda call: frozen_json(call.ports.user_data),
        **{
            name: attrgetter(name)
            for name in ("deadline", "progress", "event", "run_in_thread", "open_sandbox")
        },
        "process": attrgetter("open_process"),
        "detached": attrgetter("detach"),
        "commands": attrgetter("commands"),
        "question": attrgetter("ask_user"),
        "child": attrgetter("run_session"),
    }
)
"""Source of each member of a context."""


@define(eq=False, repr=False, weakref_slot=False)
class ToolCallRunner:
    ports: Ports
    pending_calls: PendingCalls
    task_group: TaskGroup
    _journal: KeptJournal | None = None
    # Created for the first tool that uses them.
    _commands: BackgroundCommands | None = field(init=False, default=None)

    @property
    def files(self) -> FileNotes | None:
        return None if self._journal is None else self._journal.files

    @property
    def epoch(self) -> int:
        return 0 if self._journal is None else self._journal.epoch

    @property
    def commands(self) -> BackgroundCommands:
        if self._commands is None:
            self._commands = BackgroundCommands()
        return self._commands

    async def run(
        self, began: BegunCall, processes: Processes, child_usages: list[ChildUsage]
    ) -> ToolFinished:
        started_at_ms = ended_at_ms = now_ms()
        effect, scope = began.effect, began.scope
        call: RunningCall | None = None
        ran_ms: int | None = None
        ended = self._decide_start(began)
        if not isinstance(ended, AttemptEnd):
            tool, timeout_seconds, misfit = ended
            # Relative to the entry of the scope, in this pass. Setting the deadline itself would cost half as much as the scope.
            scope.relative_deadline = max(timeout_seconds, 0.0)
            call = RunningCall(
                self, effect, began.known, self.ports, scope, processes, child_usages, started_at_ms
            )
            CALL_TRACE.set(partial(self.ports.traces.of_call, began.known, effect.call_id))
            attempt = Attempt(
                tool=tool,
                context=ContextOfCall.of(call),
                timeout_seconds=timeout_seconds,
                withheld=self.ports.withheld,
                refusal=self._refusal_of(began) if began.known.stack.following else None,
                misfit=misfit,
            )
            try:
                with self.pending_calls.inside():
                    ended = await run_tool(effect, attempt, scope)
                ended_at_ms = now_ms()
                if ended.ran:
                    ran_ms = max(ended_at_ms - started_at_ms, 0)
            finally:
                call.close()
                if call.has_sessions:
                    await call.end_sessions()  # noqa: ASYNC102 - shielded and bounded inside
                if processes.has_any:
                    await processes.aclose()  # noqa: ASYNC102 - shielded and bounded inside
            if call.has_sessions or processes.has_any:  # this may have taken a while
                ended_at_ms = now_ms()
        return ToolFinished(
            at_ms=ended_at_ms,
            effect_id=effect.effect_id,
            text=ended.text,
            is_error=ended.is_error,
            details=ended.details,
            started_at_ms=started_at_ms,
            crashed=ended.crashed,
            jitter=jitter() if ended.crashed else 0.0,
            changes=ended.changes,
            late=ended.late is not None,
            images=ended.images,
            ran_ms=ran_ms,
            asks=ended.asks,
            value=None
            if ended.late is None
            else LateValue(
                call_id=effect.call_id, name=effect.name, text=ended.late.text, is_error=ended.late.is_error
            ),
        )

    def may_repeat(self, effect: RunTool) -> bool:
        """Whether two nodes may execute a call at once."""
        return effect_class_of(self.ports.tools[effect.name, effect.generation]) in {"pure", "idempotent"}

    def _refusal_of(self, began: BegunCall) -> Callable[[], Awaitable[str | None]]:
        ports = self.ports
        return partial(refusal_of_links, began.known, began.effect, ports.working_dir, ports.workspace.open)

    def grant(self, effect: SpawnChild) -> None:
        assert effect.wish is not None  # noqa: S101 - otherwise it answers a call
        if not self.pending_calls.answer(effect.wish.signal_id, effect):
            self.give_back(effect)

    def give_back(self, effect: SpawnChild) -> None:
        outcome = Error(text="[Not started: nobody waited for it any more]")
        self.task_group.deliver_first(finished_child(effect.effect_id, outcome, ChildUsage(), now_ms()))

    def _decide_start(self, began: BegunCall) -> tuple[Tool, float, str | None] | AttemptEnd:
        ports, effect = self.ports, began.effect
        tool = ports.tools[effect.name, effect.generation]
        # Through a guard: a tool may be a foreign object, whose properties run foreign code.
        try:
            with crash_edge(_unreadable, scrub=self.task_group.scrub, about=effect.name):
                threaded = bool(getattr(tool, "threaded", False))
                own_seconds = getattr(tool, "timeout_seconds", None)
                checked = began.known.batch.find(effect.call_id)
                is_as_checked = checked and checked.spec and checked.spec.parameters == tool.parameters
                misfit = None if is_as_checked else _misfit(tool, effect)
        except PortCrashed as crashed:
            return AttemptEnd(text=clean_text(crashed.error.message), is_error=True)
        if threaded and ports.threads.is_full:
            return AttemptEnd(text=TOO_MANY, is_error=True)
        return tool, own_seconds or ports.tool_timeout_seconds, misfit


def _misfit(tool: Tool, effect: RunTool) -> str | None:
    """Return why a tool cannot take the arguments of a call that was checked against another schema, or None."""
    spec = ToolSpec(name=effect.name, description="", parameters=tool.parameters)
    faults = spec.faults(spec.with_defaults(effect.arguments))
    if not faults:
        return None
    doubt = " An earlier attempt may have taken effect." if effect.attempt > 1 or effect.resumption else ""
    return f'Not run: "{effect.name}" has changed since the call was checked, and its arguments no longer fit: {"; ".join(faults)}.{doubt}'


def _unreadable(name: str, error: BaseException) -> ErrorInfo:
    message = f'Tool "{name}" is broken: reading its description raises {describe_bug(error)}.'
    return ErrorInfo(code="tool_broken", message=message)
