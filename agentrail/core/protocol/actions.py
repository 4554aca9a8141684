"""What a plugin may answer: the actions, what it may ask for, and which hook accepts which action, as data.

Values only; how the answers of several plugins combine stands in `pipeline.py`. Every action carries the plugin's next
state. All take `emits`, and on `BeforeRequest` `context`, which sets or removes named sections of the system prompt.

They are Structs and not attrs classes: five plugins that listen to every hook make forty of them in a cycle. `Emit`
alone is attrs, because it can be written in three ways.
"""

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar, get_args, get_origin, overload

import msgspec
from attrs import frozen

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
from agentrail.events.plugins import Announcement
from agentrail.events.values import PERMISSION_OPTIONS, PermissionOption
from agentrail.frozen import not_json
from agentrail.messages import JsonObject, Message, ToolResult

S_co = TypeVar("S_co", covariant=True)

Emitted: TypeAlias = tuple[str, object] | Announcement
"""The name and the payload of a `PluginEvent`, the payload JSON; or one of the events that plugins publish as they are."""


# --- what may be asked for


class ReadFile(msgspec.Struct, frozen=True, gc=False):
    """Read a file of the workspace; answered by `FileText`.

    Attributes:
        path: Relative to the working directory.
    """

    path: str


class WriteFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Write a file of the workspace; answered by `FileWritten`.

    Attributes:
        path: Relative to the working directory; folders are made.
        text: Its content.
        append: Whether it goes behind what is there.
    """

    path: str
    text: str
    append: bool = False


class CallModel(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Ask a model one question, outside of the conversation; answered by `ModelAnswer`.

    Attributes:
        prompt: The question.
        system: Its system prompt, or None.
        model: A model string; None for the session's own.
        max_output_tokens: Of the answer.
    """

    prompt: str
    system: str | None = None
    model: str | None = None
    max_output_tokens: int = 1_000


class Search(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Look into the session's memory; answered by `Found`.

    Attributes:
        query: In words.
        max_entries: How many are wanted.
        tags: Only what has all of these.
    """

    query: str
    max_entries: int = 3
    tags: tuple[str, ...] = ()


class KeepMemory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Keep something for later sessions of the same user; answered by `MemoryKept`.

    Attributes:
        entry_id: As of `MemoryEntry`: with the same one, a request that is made again keeps one memory and not two.
        text: What is kept; 8 KiB of UTF-8 at most.
        tags: What it is about.
        max_entries: Of those with all of these tags so many are kept, 1 to 1,000; the oldest go. None for all.
    """

    entry_id: str
    text: str
    tags: tuple[str, ...] = ()
    max_entries: int | None = None


class ReadNotes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Look at the index of the session's working notes; answered by `NotesIndex`."""


class WriteNotes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Put facts behind a topic of the session's working notes; answered by `NotesIndex`. The same again changes nothing.

    Attributes:
        topic: One line, 1 to 64 characters.
        facts: One sentence each.
        dedupe: Whether what stands under any topic already is left out.
    """

    topic: str
    facts: tuple[str, ...]
    dedupe: bool = True


INSTRUCTION_NAMES: Final = ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md")
"""What files for agents are called. No other name is read above the working directory."""


class ReadInstructions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Read the files for agents of several directories, one of each; answered by `InstructionsFound`.

    Attributes:
        names: Of `INSTRUCTION_NAMES`; in each directory the first one that says something counts.
        below: Directories of the workspace, relative to the working directory. Empty: the user's own directory, and those
            from the root of the repository down to the working directory.
    """

    names: tuple[str, ...]
    below: tuple[str, ...] = ()


Wanted: TypeAlias = (
    ReadFile | WriteFile | CallModel | Search | ReadInstructions | KeepMemory | ReadNotes | WriteNotes
)


# --- the actions


class Hints(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the session heeds on one hook and nowhere else. Of several plugins the last one that says something counts.

    Attributes:
        pause_ms: On `OnToolError`: how long to wait before the call is made again; None for the session's own pause.
        cache_points: On `BeforeRequest`: where the vendor's prompt cache should end, for vendors that want to be told:
            positions of messages, and `system` for all that stands before them.
    """

    pause_ms: int | None = None
    cache_points: tuple[CachePoint, ...] | None = None


NO_HINTS: Final = Hints()
HINTED_ON: Final[Mapping[str, Hook]] = MappingProxyType(
    {"pause_ms": OnToolError, "cache_points": BeforeRequest}
)
"""The one hook on which each hint means something."""


class _Said(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What every action takes.

    Attributes:
        emits: Names and payloads of `PluginEvent`s.
        context: On `BeforeRequest`: sections of the system prompt by their keys; None removes one.
        hints: What the session heeds on one hook and nowhere else.
    """

    emits: tuple[Emitted, ...] = ()
    context: Mapping[str, str | None] | None = None
    hints: Hints | None = None


class Continue(_Said, Generic[S_co], frozen=True, gc=False):
    """Go on.

    Attributes:
        state: The plugin's next state, as in every action.
    """

    state: S_co


class Intervene(_Said, Generic[S_co], frozen=True, gc=False):
    """Inject a prompt; the agent goes on. Those of several plugins are joined, in the order in which they were asked.

    Attributes:
        prompt: What to say, not empty.
    """

    prompt: str
    state: S_co


class Abort(_Said, Generic[S_co], frozen=True, gc=False):
    """Stop the cycle; later plugins are not asked. On some hooks less is refused: the text, the update, the session.

    Attributes:
        reason: Why.
    """

    reason: str
    state: S_co


class Skip(_Said, Generic[S_co], frozen=True, gc=False):
    """Later plugins are not asked, and the session goes on as if no plugin had acted."""

    state: S_co


class BlockTool(_Said, Generic[S_co], frozen=True, gc=False):
    """This call is not run; the others of its batch are. Later plugins are not asked.

    Attributes:
        reason: What the model reads.
    """

    reason: str
    state: S_co


class ReplaceToolArgs(_Said, Generic[S_co], frozen=True, gc=False):
    """Other arguments for this call: all of them, not a difference. Later plugins see these; the last one wins.

    Attributes:
        arguments: A JSON object.
    """

    arguments: JsonObject
    state: S_co


class SwitchModel(_Said, Generic[S_co], frozen=True, gc=False):
    """Another model from now on; the last one wins.

    Attributes:
        model: A model string.
        provider_opts: Options of its provider; None keeps those of before.
    """

    model: str
    state: S_co
    provider_opts: JsonObject | None = None


class ReplaceToolResult(_Said, Generic[S_co], frozen=True, gc=False):
    """What the model will see instead of this result; the raw one stays in the journal. The last one wins.

    Attributes:
        result: A result, of which call and name are kept as they were; or its text alone, beside which details and pictures
            stay. What is not to be seen in them goes with a result that has none.
    """

    result: ToolResult | str
    state: S_co


class ReplaceResponse(_Said, Generic[S_co], frozen=True, gc=False):
    """Other words in place of what the model said, in the history and in what is answered; the last one wins.

    Its calls and its thinking stay. What was streamed by then was seen, and cannot be taken back.

    Attributes:
        text: What it said instead, not empty.
    """

    text: str
    state: S_co


class ReplaceMessages(_Said, Generic[S_co], frozen=True, gc=False):
    """Other messages for this one request, or for the summary of this compaction; the conversation stays as it is.

    Later plugins see these; the last one wins. The request is what they say for all its attempts, and the next one is
    made of the conversation again.

    Attributes:
        messages: All of them, not a difference; such as a conversation can be: one at least, each call answered by the
            message behind it. Those that were shown may stand among them.
    """

    messages: Sequence[Message]
    state: S_co


FORMER_APPROVAL_SECONDS: Final = 120.0
"""The deadline that `Permissions` and `HumanApproval` had of their own before the session's was the only one."""


class RequireApproval(_Said, Generic[S_co], frozen=True, gc=False):
    """This call waits for a person; later plugins are not asked.

    Attributes:
        hint: What the person is told.
        expires_seconds: How long it may wait; None for the session's own, 0 for ever.
        permission_options: The answers that the person may give; all unless said otherwise. A call that does not offer
            `always` is asked about in spite of every rule.
        former_expires_seconds: What `expires_seconds` was where it is None, in journals of the time when the plugin had a deadline of its
            own; None for no difference.
    """

    hint: str
    state: S_co
    expires_seconds: float | None = None
    permission_options: tuple[PermissionOption, ...] = PERMISSION_OPTIONS
    former_expires_seconds: float | None = None


class ResolveApproval(_Said, Generic[S_co], frozen=True, gc=False):
    """The prompt was a decision on a call that waits: it is carried out, and the prompt goes no further.

    Attributes:
        approval_id: Which.
        decision: `approve`, `reject` or `always`.
    """

    approval_id: str
    decision: Literal["approve", "reject", "always"]
    state: S_co


class Request(_Said, Generic[S_co], frozen=True, gc=False):
    """Ask the session to do what a pure function cannot; the answer comes as `RequestDone` with the same tag.

    Attributes:
        effect: What to do.
        tag: The plugin's own name for it.
        wait: Whether this hook waits for the answer, and for what the plugin then says. Only the hooks of `CAN_WAIT` do;
            on others the answer is `RequestFailed` at once, with the code `cannot_wait`.
    """

    effect: Wanted
    tag: str
    state: S_co
    wait: bool = False


@frozen(init=False)
class Emit(Generic[S_co]):
    """Publish plugin events and go on: `Emit("name", payload, state)`, one pair and the state, or a list of pairs.

    Attributes:
        events: Names and payloads.
        emits: More of them.
    """

    events: tuple[Emitted, ...]
    state: S_co  # type: ignore[misc]  # attrs' own `__attrs_init__` takes it, which is called below and nowhere else
    emits: tuple[Emitted, ...]
    context: Mapping[str, str | None] | None
    hints: ClassVar[None] = None  # who only publishes says no more; `Continue` takes both

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
        """Take one pair, several, or a name and a payload; then the state."""
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
"""An action is named by its class."""

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
"""Accepted, these stop the rest: plugins further down are not asked."""


# --- which hook accepts which action


class Treatment(enum.Enum):
    """What becomes of an action on a hook."""

    ACCEPTED = "✓"
    """It is carried out."""
    IGNORED = "–"
    """The pipeline goes on, and `ActionIgnored` is published; nothing is raised."""
    COLLECTED = "collected, not applied"
    """Kept in the outcome for a look at it, and reported as ignored."""


Y, N, C = Treatment.ACCEPTED, Treatment.IGNORED, Treatment.COLLECTED

_COLUMNS: Final[tuple[ActionType, ...]] = (
    *(Continue, Emit, Intervene, Abort, Skip, BlockTool, ReplaceToolArgs, SwitchModel, RequireApproval),
    *(ReplaceToolResult, ReplaceResponse, ReplaceMessages, ResolveApproval, Request),
)


def _row(*cells: Treatment) -> Mapping[ActionType, Treatment]:
    # A new action needs a new column: a row that is too short fails when this is imported.
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
    # What a hook waited for is judged by the row of that hook; this one is for answers that no hook waited for.
    RequestDone:             _row(N,    N,    N,   N,    N,      N,     N,      N,         N,       N,       N,       Y),
})
# fmt: on


CAN_WAIT: Final[frozenset[Hook]] = frozenset({BeforePrompt, AfterToolBatch, BeforeFinish})
"""The hooks on which `Request(wait=True)` holds the session: nothing has begun there, or all calls are answered, or all is done, so nothing
hangs in between meanwhile. Elsewhere a request is out, calls are open, or a caller is owed an answer in this very step."""


def malformed(action: Any, shown: Sequence[Message] = ()) -> str | None:
    """Say what is wrong with what an action carries; None for a sound one. The state is not looked at.

    Nothing checks a Struct when it is made, and what a plugin says may come from a model or a file.
    """
    fault = _fault_of_extras(action)
    if fault is not None:
        return fault
    match action:
        case RequireApproval(hint=text, permission_options=options) if _is_words(text):
            return fault_of_options(options)
        case (
            Intervene(prompt=text) | Abort(reason=text) | BlockTool(reason=text) | RequireApproval(hint=text)
        ):
            return None if _is_words(text) else f"needs words to say, got {text!r}"
        case ReplaceToolArgs(arguments=arguments):
            return not_json(arguments) if _is_object(arguments) else f"needs a JSON object, got {arguments!r}"
        case ReplaceToolResult(result=said) | ReplaceResponse(text=said):
            text = said.text if isinstance(said, ToolResult) else said
            if isinstance(said, ToolResult) and said.images and (fault := fault_of_images(said.images)):
                return fault
            return None if _is_words(text) else f"needs a text that is not empty, got {text!r}"
        case ReplaceMessages(messages=messages):
            return fault_of_messages(messages, shown)
        case SwitchModel(model=model):
            return None if _is_words(model) else f"needs a model string, got {model!r}"
        case ResolveApproval(decision=decision):
            known = ("approve", "reject", "always")
            return None if decision in known else f"decision is one of {', '.join(known)}, got {decision!r}"
        case Request():
            return _fault_of_wanted(action.effect)
        case _:
            return None


def fault_of_options(options: object) -> str | None:
    """Say what is wrong with the answers that a person may give; None for a sound tuple of them."""
    listed = options if isinstance(options, tuple) else ()
    if listed and all(one in PERMISSION_OPTIONS for one in listed) and len(set(listed)) == len(listed):
        return None
    return f"permission_options is a tuple of one or more of {', '.join(PERMISSION_OPTIONS)}, each once; got {options!r}"


def emitted_events(action: Action[Any]) -> tuple[Any, ...]:
    """Give all that an action wants published, in order."""
    return (*action.events, *action.emits) if isinstance(action, Emit) else action.emits


def _fault_of_wanted(wanted: Any) -> str | None:
    if not isinstance(wanted, Wanted):
        return f"asks for {wanted!r}, which sessions do not do"
    if not isinstance(wanted, ReadInstructions):
        return None
    names: Any = wanted.names
    below: Any = wanted.below
    if not isinstance(names, tuple) or not names or not all(name in INSTRUCTION_NAMES for name in names):
        known = ", ".join(INSTRUCTION_NAMES)
        return f"asks for the instructions {names!r:.200}: names is a tuple of one or more of {known}"
    if not isinstance(below, tuple) or not all(isinstance(one, str) and one for one in below):
        return f"asks for instructions below {below!r:.200}: below is a tuple of paths of directories"
    return None


def _fault_of_extras(action: Any) -> str | None:
    emits: Any = action.emits
    if not isinstance(emits, tuple):
        return f"emits is a tuple of pairs of name and payload; got {emits!r}"
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
        return f"context is a mapping from keys to texts; got {sections!r}"
    if all(isinstance(key, str) and isinstance(text, str | None) for key, text in sections.items()):
        return None
    return f"context is text, or None, under keys that are text; got {sections!r}"


def _fault_of_hints(hints: Any) -> str | None:
    if hints is None:
        return None
    if not isinstance(hints, Hints):
        return f"hints is a p.Hints(…); got {hints!r}"
    pause_ms: Any = hints.pause_ms
    if pause_ms is not None and not _is_whole(pause_ms):
        return f"hints.pause_ms is a number of milliseconds, 0 or more; got {pause_ms!r}"
    points: Any = hints.cache_points
    if points is None or (
        isinstance(points, tuple) and all(point == "system" or _is_whole(point) for point in points)
    ):
        return None
    return f"hints.cache_points is a tuple of positions of messages, and 'system'; got {points!r}"


def _is_whole(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_words(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)
