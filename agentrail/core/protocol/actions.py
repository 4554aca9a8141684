"""The actions that a plugin may return, the requests it may make, and which hook accepts which action, as data."""

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar, get_args, get_origin, overload

import msgspec
from attrs import frozen
from msgspec.structs import replace

from agentrail.core.protocol.hooks import (
    AfterResponse,
    AfterTool,
    AfterToolBatch,
    AfterTurn,
    BeforeCompact,
    BeforeFinish,
    BeforePluginOptsUpdate,
    BeforePrompt,
    BeforeRequest,
    BeforeSteering,
    BeforeTool,
    Hook,
    OnToolError,
    RequestDone,
    SessionEnding,
    SessionStarted,
)
from agentrail.core.protocol.request import CachePoint
from agentrail.core.values.history import fault_of_images, fault_of_messages
from agentrail.events.plugin_events import Announcement
from agentrail.events.values import PERMISSION_OPTIONS, PermissionOption
from agentrail.frozen import not_json
from agentrail.messages import JsonObject, Message, ToolResult
from agentrail.otp.child_specs import is_whole
from agentrail.structs import converter_of

S_co = TypeVar("S_co", covariant=True)

Emitted: TypeAlias = tuple[str, object] | Announcement
"""The name and the JSON payload of a `PluginEvent`, or one of the events that plugins publish unchanged."""


# --- requests


class ReadFile(msgspec.Struct, frozen=True, gc=False):
    """Read a file of the workspace. Answered by `FileText`.

    Attributes:
        path: Relative to the working directory.
    """

    path: str


class WriteFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Write a file of the workspace. Answered by `FileWritten`.

    Attributes:
        path: Relative to the working directory. Missing folders are created.
        text: Its content.
        append: Whether the text is appended to the file.
    """

    path: str
    text: str
    append: bool = False


class CallModel(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Ask a model one question, outside of the conversation. Answered by `ModelAnswer`.

    Attributes:
        prompt: The question.
        system: Its system prompt, or None.
        model: A model string. None for the session's own.
        max_output_tokens: Limit of the answer.
    """

    prompt: str
    system: str | None = None
    model: str | None = None
    max_output_tokens: int = 1_000


class Search(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Search the session's memory. Answered by `Found`.

    Attributes:
        query: Words to search for.
        max_entries: Maximum number of results.
        tags: Return only entries that have all of these.
    """

    query: str
    max_entries: int = 3
    tags: tuple[str, ...] = ()


class KeepMemory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Store a memory for later sessions of the same user. Answered by `MemoryKept`.

    Attributes:
        entry_id: Same as in `MemoryEntry`. A repeated request with the same id keeps one memory, not two.
        text: Its text, at most 8 KiB of UTF-8.
        tags: Its topics.
        max_entries: How many entries with all of these tags are kept, 1 to 1,000. The oldest are removed. None
            keeps all.
    """

    entry_id: str
    text: str
    tags: tuple[str, ...] = ()
    max_entries: int | None = None


class ReadNotes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Read the index of the session's working notes. Answered by `NotesIndex`."""


class WriteNotes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Add facts to a topic of the session's working notes. Answered by `NotesIndex`. Known facts change nothing.

    Attributes:
        topic: One line, 1 to 64 characters.
        facts: One sentence each.
        dedupe: Whether facts that are already noted under any topic are left out.
    """

    topic: str
    facts: tuple[str, ...]
    dedupe: bool = True


INSTRUCTION_NAMES: Final = ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md")
"""Names of instruction files for agents. Above the working directory, no other file is read."""


class ReadInstructions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Read the instruction files for agents of several directories, one of each. Answered by `InstructionsFound`.

    Attributes:
        names: Some of `INSTRUCTION_NAMES`. In each directory, the first file that is not empty counts.
        below: Directories of the workspace, relative to the working directory. Empty: the user's own directory, and
            those from the root of the repository down to the working directory.
    """

    names: tuple[str, ...]
    below: tuple[str, ...] = ()


Wanted: TypeAlias = (
    ReadFile | WriteFile | CallModel | Search | ReadInstructions | KeepMemory | ReadNotes | WriteNotes
)
_CONVERTERS: Final = {kind: converter_of(kind) for kind in get_args(Wanted)}


# --- the actions


class Hints(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Hints to the session, each for one hook only. If several plugins give one, the last wins.

    Attributes:
        pause_ms: On `OnToolError`: how long to wait before the call is retried, in milliseconds. None for the
            session's own pause.
        cache_points: On `BeforeRequest`: where the vendor's prompt cache should end, if the vendor supports cache marks.
            Positions of messages, and `system` for everything before them.
    """

    pause_ms: int | None = None
    cache_points: tuple[CachePoint, ...] | None = None


NO_HINTS: Final = Hints()
HINTED_ON: Final[Mapping[str, Hook]] = MappingProxyType(
    {"pause_ms": OnToolError, "cache_points": BeforeRequest}
)
"""The one hook for which each hint is meant."""


class _Said(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Arguments of every action.

    Attributes:
        emits: Names and payloads of `PluginEvent`s.
        context: On `BeforeRequest`: sections of the system prompt by their keys. None removes one.
        hints: Hints to the session, each for one hook only.
    """

    emits: tuple[Emitted, ...] = ()
    context: Mapping[str, str | None] | None = None
    hints: Hints | None = None


class Continue(_Said, Generic[S_co], frozen=True, gc=False):
    """Continue without a change.

    Attributes:
        state: The plugin's next state, as in every action.
    """

    state: S_co


class Intervene(_Said, Generic[S_co], frozen=True, gc=False):
    """Inject a prompt, and let the agent continue. Prompts of several plugins are joined, in the order of the stack.

    Attributes:
        prompt: The text, not empty.
    """

    prompt: str
    state: S_co


class Abort(_Said, Generic[S_co], frozen=True, gc=False):
    """Stop the cycle. Later plugins are not asked. Some hooks refuse less: the text, the update or the session.

    Attributes:
        reason: Why.
    """

    reason: str
    state: S_co


class Skip(_Said, Generic[S_co], frozen=True, gc=False):
    """Ask no later plugin, and continue as if no plugin had acted."""

    state: S_co


class BlockTool(_Said, Generic[S_co], frozen=True, gc=False):
    """Do not run this call. The other calls of its batch run. Later plugins are not asked.

    Attributes:
        reason: The text that the model reads.
    """

    reason: str
    state: S_co


class ReplaceToolArgs(_Said, Generic[S_co], frozen=True, gc=False):
    """Replace all arguments of this call, not a difference. Later plugins see the new ones, and the last one wins.

    Attributes:
        arguments: A JSON object.
    """

    arguments: JsonObject
    state: S_co


class SwitchModel(_Said, Generic[S_co], frozen=True, gc=False):
    """Use another model from now on. The last one wins.

    Attributes:
        model: A model string.
        provider_opts: Options of its provider. None keeps the current ones.
    """

    model: str
    state: S_co
    provider_opts: JsonObject | None = None


class ReplaceToolResult(_Said, Generic[S_co], frozen=True, gc=False):
    """Show the model another result for this call. The original stays in the journal. The last one wins.

    Attributes:
        result: A result, whose call id and name are ignored, or only its text, which keeps details and pictures. To
            remove those, return a result without them.
    """

    result: ToolResult | str
    state: S_co


class ReplaceResponse(_Said, Generic[S_co], frozen=True, gc=False):
    """Replace the text of the response, in the history and in the answer. The last one wins.

    Its calls and its thinking stay. Text streamed before was visible and cannot be withdrawn.

    Attributes:
        text: The new text, not empty.
    """

    text: str
    state: S_co


class ReplaceMessages(_Said, Generic[S_co], frozen=True, gc=False):
    """Send other messages with this one request, or summarise others in this compaction. The conversation stays as it is.

    Later plugins see these, and the last one wins. All attempts at the request use them, and the next request is
    made of the conversation again.

    Attributes:
        messages: All of them, not a difference. They must form a valid conversation: at least one message, and each
            call answered by the next message. Messages that the plugin was shown may be reused.
    """

    messages: Sequence[Message]
    state: S_co


FORMER_APPROVAL_SECONDS: Final = 120.0
"""Deadline that `Permissions` and `HumanApproval` had before the session's deadline became the only one."""


class RequireApproval(_Said, Generic[S_co], frozen=True, gc=False):
    """Hold this call until the user decides. Later plugins are not asked.

    Attributes:
        hint: The text shown to the user.
        expires_seconds: How long it may wait. None for the session's own deadline, 0 to wait indefinitely.
        permission_options: The answers that the user may give, by default all. A call that does not offer `always`
            is asked about in spite of every rule.
        former_expires_seconds: The effective `expires_seconds` in journals of the time when the plugin had a
            deadline of its own, if `expires_seconds` is None. None for no difference.
    """

    hint: str
    state: S_co
    expires_seconds: float | None = None
    permission_options: tuple[PermissionOption, ...] = PERMISSION_OPTIONS
    former_expires_seconds: float | None = None


class ResolveApproval(_Said, Generic[S_co], frozen=True, gc=False):
    """Use the prompt as the decision on a pending call. The prompt itself does not start a cycle.

    Attributes:
        approval_id: The pending approval.
        decision: `approve`, `reject` or `always`.
    """

    approval_id: str
    decision: Literal["approve", "reject", "always"]
    state: S_co


class Request(_Said, Generic[S_co], frozen=True, gc=False):
    """Ask the session for work that a pure function cannot do. The answer comes as `RequestDone` with the same tag.

    Attributes:
        effect: The work.
        tag: The plugin's own name for it.
        wait: Whether this hook waits for the answer, and for the plugin's reaction to it. Only the hooks of
            `CAN_WAIT` can wait. On others the answer is `RequestFailed` at once, with the code `cannot_wait`.
    """

    effect: Wanted
    tag: str
    state: S_co
    wait: bool = False


@frozen(init=False)
class Emit(Generic[S_co]):
    """Publish plugin events and continue: `Emit("name", payload, state)`, one pair and the state, or a list of pairs.

    Attributes:
        events: Names and payloads.
        emits: More of them.
    """

    events: tuple[Emitted, ...]
    state: S_co  # type: ignore[misc]  # attrs' own `__attrs_init__` takes it, which is called below and nowhere else
    emits: tuple[Emitted, ...]
    context: Mapping[str, str | None] | None
    hints: ClassVar[None] = None  # `Continue` takes both

    @overload
    def __init__(
        self,
        events: Emitted | Sequence[Emitted],
        state: S_co,
        /,
        *,
        emits: tuple[Emitted, ...] = (),
        context: Mapping[str, str | None] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        payload: object,
        state: S_co,
        /,
        *,
        emits: tuple[Emitted, ...] = (),
        context: Mapping[str, str | None] | None = None,
    ) -> None: ...
    def __init__(
        self,
        *said: Any,
        emits: tuple[Emitted, ...] = (),
        context: Mapping[str, str | None] | None = None,
    ) -> None:
        """Accept one pair, several pairs, or a name and a payload, followed by the state."""
        match said:
            case (str() as name, payload, state):
                events: tuple[Any, ...] = ((name, payload),)
            case ((str(), _) as one, state):
                events = (one,)
            case (one, state) if isinstance(one, Announcement):
                events = (one,)
            case (list() | tuple() as pairs, state):
                events = tuple(pairs)
            case _:
                message = f"Emit takes (name, payload) or a list of such pairs, and a state; it got {len(said)} values"
                raise TypeError(message)
        self.__attrs_init__(events, state, emits, context)


ActionType: TypeAlias = type[Any]
"""An action type, identified by its class."""

Action: TypeAlias = (
    Continue[S_co]
    | Emit[S_co]
    | Intervene[S_co]
    | Abort[S_co]
    | Skip[S_co]
    | BlockTool[S_co]
    | ReplaceToolArgs[S_co]
    | SwitchModel[S_co]
    | RequireApproval[S_co]
    | ReplaceToolResult[S_co]
    | ReplaceResponse[S_co]
    | ReplaceMessages[S_co]
    | ResolveApproval[S_co]
    | Request[S_co]
)

ACTIONS: Final[tuple[ActionType, ...]] = tuple(get_origin(member) for member in get_args(Action))
SHORT_CIRCUITS: Final[frozenset[ActionType]] = frozenset(
    {Abort, Skip, BlockTool, RequireApproval, ResolveApproval}
)
"""Accepted actions of these types end the hook: later plugins are not asked."""


# --- which hook accepts which action


class Treatment(enum.Enum):
    """Treatment of an action by a hook."""

    ACCEPTED = "✓"
    """It is carried out."""
    IGNORED = "–"
    """It is ignored, and `ActionIgnored` is published. Nothing is raised, and the pipeline continues."""
    COLLECTED = "collected, not applied"
    """Kept in the outcome for inspection, and reported as ignored."""


Y, N, C = Treatment.ACCEPTED, Treatment.IGNORED, Treatment.COLLECTED

_COLUMNS: Final[tuple[ActionType, ...]] = (
    *(Continue, Emit, Intervene, Abort, Skip, BlockTool, ReplaceToolArgs, SwitchModel, RequireApproval),
    *(ReplaceToolResult, ReplaceResponse, ReplaceMessages, ResolveApproval, Request),
)


def _row(*cells: Treatment) -> Mapping[ActionType, Treatment]:
    # A new action needs a new column: a row that is too short fails at import.
    return MappingProxyType(dict(zip(_COLUMNS, (Y, Y, *cells), strict=True)))


# fmt: off
MATRIX: Final[Mapping[Hook, Mapping[ActionType, Treatment]]] = MappingProxyType({
    #                            Inter- Abort Skip Block Replace Switch Require Replace    Replace  Replace  Resolve  Request
    #                            vene              Tool  Args    Model  Approval ToolResult Response Messages Approval
    SessionStarted:          _row(N,    Y,    N,   N,    N,      N,     N,      N,         N,       N,       N,       Y),
    SessionEnding:           _row(N,    N,    N,   N,    N,      N,     N,      N,         N,       N,       N,       N),  # no caller is left to answer
    AfterTurn:               _row(N,    N,    N,   N,    N,      N,     N,      N,         N,       N,       N,       Y),
    BeforePrompt:            _row(Y,    Y,    Y,   N,    N,      N,     N,      N,         N,       N,       Y,       Y),
    BeforeRequest:           _row(Y,    Y,    Y,   N,    N,      Y,     N,      N,         N,       Y,       N,       Y),
    AfterResponse:           _row(Y,    Y,    Y,   N,    N,      Y,     N,      N,         Y,       N,       N,       Y),
    BeforeTool:              _row(N,    Y,    Y,   Y,    Y,      N,     Y,      N,         N,       N,       N,       Y),
    OnToolError:             _row(N,    Y,    Y,   N,    N,      C,     N,      N,         N,       N,       N,       Y),
    AfterTool:               _row(Y,    Y,    N,   N,    N,      Y,     N,      Y,         N,       N,       N,       Y),
    AfterToolBatch:          _row(Y,    Y,    N,   N,    N,      Y,     N,      N,         N,       N,       N,       Y),
    BeforeFinish:            _row(Y,    Y,    N,   N,    N,      N,     N,      N,         N,       N,       N,       Y),
    BeforeCompact:           _row(N,    N,    Y,   N,    N,      N,     N,      N,         N,       Y,       N,       Y),
    BeforeSteering:          _row(Y,    Y,    N,   N,    N,      N,     N,      N,         N,       N,       N,       Y),
    BeforePluginOptsUpdate:  _row(N,    Y,    Y,   N,    N,      N,     N,      N,         N,       N,       N,       N),  # decided at once, at idle
    # The result of a hook that waited is judged by the row of that hook. This row is for all other answers.
    RequestDone:             _row(N,    N,    N,   N,    N,      N,     N,      N,         N,       N,       N,       Y),
})
# fmt: on


CAN_WAIT: Final[frozenset[Hook]] = frozenset({BeforePrompt, AfterToolBatch, BeforeFinish})
"""The hooks on which `Request(wait=True)` holds the session.

At these points nothing has started, all calls are answered, or all work is done, so nothing is left hanging. On
other hooks a request is out, calls are open, or a caller is owed an answer in this step.
"""


def malformed(action: Any, shown: Sequence[Message] = ()) -> str | None:
    """Return the defect of an action's content, or None if it is sound. The state is not checked.

    A Struct does not check its fields, and a plugin's text may come from a model or a file.
    """
    fault = _fault_of_extras(action)
    if fault is not None:
        return fault
    match action:
        case RequireApproval(hint=text, permission_options=options) if _is_words(text):
            seconds: Any = action.expires_seconds
            # Infinity and limits before all time have a meaning, NaN has none.
            is_limit = seconds is None or (isinstance(seconds, int | float) and (seconds < 0 or seconds >= 0))
            fault = f"expires_seconds must be a number, 0 to wait indefinitely; got {seconds!r}"
            return fault_of_options(options) if is_limit else fault
        case (
            Intervene(prompt=text) | Abort(reason=text) | BlockTool(reason=text) | RequireApproval(hint=text)
        ):
            return None if _is_words(text) else f"needs a text that is not blank, got {text!r}"
        case ReplaceToolArgs(arguments=arguments):
            return not_json(arguments) if _is_object(arguments) else f"needs a JSON object, got {arguments!r}"
        case ReplaceToolResult(result=said) | ReplaceResponse(text=said):
            text = said.text if isinstance(said, ToolResult) else said
            if isinstance(said, ToolResult) and (
                fault := fault_of_images(said.images) or not_json(said.details, "details")
            ):
                return fault
            return None if _is_words(text) else f"needs a text that is not empty, got {text!r}"
        case ReplaceMessages(messages=messages):
            return fault_of_messages(messages, shown)
        case SwitchModel(provider_opts=options) if options is not None and not _is_object(options):
            return f"provider_opts must be a mapping, got {options!r}"
        case SwitchModel(model=model):
            return None if _is_words(model) else f"needs a model string, got {model!r}"
        case ResolveApproval(approval_id=approval_id, decision=decision):
            is_text, known = isinstance(approval_id, str), ("approve", "reject", "always")
            if not is_text:
                return f"needs the id of an approval as text, got {approval_id!r}"
            fault = f"decision must be one of {', '.join(known)}, got {decision!r}"
            return None if decision in known else fault
        case Request(tag=tag):
            is_text = isinstance(tag, str)
            return _fault_of_wanted(action.effect) if is_text else f"needs a text as its tag, got {tag!r}"
        case _:
            return None


def fault_of_options(options: object) -> str | None:
    listed = options if isinstance(options, tuple) else ()
    if listed and all(one in PERMISSION_OPTIONS for one in listed) and len(set(listed)) == len(listed):
        return None
    return f"permission_options must be a tuple of one or more of {', '.join(PERMISSION_OPTIONS)}, each once; got {options!r}"


_AS_THEY_ARE: Final = frozenset({"state", "emits", "context", "hints", "messages", "images"})


def with_plain_texts(value: Any) -> Any:
    """Return a sound action with texts that a journal can hold.

    A text of a subclass, such as the markup of a template engine, becomes a `str`. Lone surrogates become U+FFFD.
    """
    match value:
        case str() if type(value) is not str or not value.isascii():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case Mapping():
            return {with_plain_texts(name): with_plain_texts(item) for name, item in value.items()}
        case list() | tuple():
            return tuple(map(with_plain_texts, value))
        case msgspec.Struct():
            names = [name for name in value.__struct_fields__ if name not in _AS_THEY_ARE]
            plain = {name: with_plain_texts(getattr(value, name)) for name in names}
            return replace(value, **plain)
        case _:
            return value


def emitted_events(action: Action[Any]) -> tuple[Any, ...]:
    return (*action.events, *action.emits) if isinstance(action, Emit) else action.emits


def _fault_of_wanted(wanted: Any) -> str | None:
    if not isinstance(wanted, Wanted):
        return f"asks for {wanted!r}, which sessions do not support"
    if isinstance(wanted, ReadInstructions):
        return _fault_of_instructions(wanted.names, wanted.below)
    try:
        _CONVERTERS[type(wanted)](msgspec.structs.asdict(wanted))
    except msgspec.ValidationError as error:
        return f"asks for an invalid {type(wanted).__name__}: {error}"
    return None


def _fault_of_instructions(names: Any, below: Any) -> str | None:
    if not isinstance(names, tuple) or not names or not all(name in INSTRUCTION_NAMES for name in names):
        known = ", ".join(INSTRUCTION_NAMES)
        return f"asks for the instructions {names!r:.200}: names must be a tuple of one or more of {known}"
    if not isinstance(below, tuple) or not all(isinstance(one, str) and one for one in below):
        return f"asks for instructions below {below!r:.200}: below must be a tuple of directory paths"
    return None


def _fault_of_extras(action: Any) -> str | None:
    emits: Any = action.emits
    if not isinstance(emits, tuple):
        return f"emits must be a tuple of (name, payload) pairs; got {emits!r}"
    for pair in emitted_events(action):
        match pair:
            case _ if isinstance(pair, Announcement):
                continue
            case (str(), payload):
                fault = not_json(payload)
                if fault is not None:
                    return f"emits what cannot be published: {fault}"
            case _:
                return f"emits {pair!r}, expected a name and a payload"
    fault = _fault_of_hints(action.hints)
    if fault is not None:
        return fault
    sections: Any = {} if action.context is None else action.context
    if not isinstance(sections, Mapping):
        return f"context must be a mapping from keys to texts; got {sections!r}"
    if all(isinstance(key, str) and isinstance(text, str | None) for key, text in sections.items()):
        return None
    return f"context must map text keys to text or None; got {sections!r}"


def _fault_of_hints(hints: Any) -> str | None:
    if hints is None:
        return None
    if not isinstance(hints, Hints):
        return f"hints must be p.Hints(…); got {hints!r}"
    pause_ms: Any = hints.pause_ms
    if pause_ms is not None and not is_whole(pause_ms, at_least=0):
        return f"hints.pause_ms must be a number of milliseconds >= 0; got {pause_ms!r}"
    points: Any = hints.cache_points
    if points is None or (
        isinstance(points, tuple)
        and all(point == "system" or is_whole(point, at_least=0) for point in points)
    ):
        return None
    return f"hints.cache_points must be a tuple of message positions and 'system'; got {points!r}"


def _is_words(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)
