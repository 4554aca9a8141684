"""Rules for tool calls that need no plugin: lookup, parsing, validation, and the detection of loops.

Each refusal is a text for the model. docs/explanation/tools.md lists the gates after these (plugins, approvals) in
order.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from agentrail.core.values.history import GrowingSet
from agentrail.core.values.toolbox import Toolbox, parse_arguments
from agentrail.errors.name_guesses import near_name
from agentrail.frozen import canonical_json
from agentrail.messages import AssistantMessage, CallId, JsonObject, JsonValue, Message, StopReason, ToolCall

CUT_OFF: Final = "Not run: the call was cut off by the output limit. Send less in one call."
WITHHELD: Final = "Not run: this was the last turn of the task. Answer with what you have."

_MAX_NAME_SHOWN: Final = 200
_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Passed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The call may run."""

    arguments: JsonObject


class Refused(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The call does not run.

    Attributes:
        text: The text for the model: the fault and the remedy.
    """

    text: str
    unknown: bool = False


ValidatedCall: TypeAlias = Passed | Refused


def validate_call(
    call: ToolCall, tools: Toolbox, stop_reason: StopReason, *, withheld: bool
) -> ValidatedCall:
    if withheld:
        return Refused(text=WITHHELD)
    spec = tools.get(call.name)
    if spec is None:
        return Refused(text=_unknown(call.name, tools), unknown=True)
    parsed = parse_arguments(call.malformed or "") if call.arguments is None else call.arguments
    if call.malformed == "":  # the response ended before the first argument
        parsed = CUT_OFF
    if isinstance(parsed, str):
        return Refused(text=CUT_OFF if stop_reason == "max_tokens" else parsed)
    arguments = spec.with_defaults(parsed)
    faults = spec.faults(arguments)
    if faults:
        return Refused(text=f'Invalid arguments for "{call.name}": {"; ".join(faults)}')
    return Passed(arguments=arguments)


def settle_call_ids(
    calls: tuple[ToolCall, ...], used: GrowingSet[CallId], prefix: str
) -> tuple[tuple[CallId, ...], GrowingSet[CallId]]:
    """Return an id for each call that is unique in the session.

    A vendor's id is kept if possible. If it is empty, too long, has invalid characters or was used before, it is
    replaced by one made of `prefix` and the position, which is the same on a replay.
    """
    settled: list[CallId] = []
    for position, call in enumerate(calls, start=1):
        call_id = call.call_id
        if not _CALL_ID.fullmatch(call_id) or call_id in used:
            call_id = CallId(f"call_{prefix}_{position}")
            while call_id in used:  # a vendor whose ids look like ours
                call_id = CallId(f"{call_id}_")
        used = used.added(call_id)
        settled.append(call_id)
    return tuple(settled), used


def call_ids_of(messages: Iterable[Message]) -> GrowingSet[CallId]:
    used: GrowingSet[CallId] = GrowingSet()
    for message in messages:
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            used = used.added(call.call_id)
    return used


def hash_arguments(arguments: JsonObject) -> str:
    """Return the SHA-256 of the canonical arguments (UTF-8 JSON, sorted keys, no spaces), hexadecimal."""
    return hashlib.sha256(canonical_json(arguments)).hexdigest()


def operation_id_of(session_id: str, ordinal: int, name: str, arguments_hash: str) -> str:
    """Return the id of an operation, which tells a retry of a call from another call with the same arguments."""
    return hashlib.sha256(f"{session_id}\0{ordinal}\0{name}\0{arguments_hash}".encode()).hexdigest()[:32]


def _unknown(name: str, tools: Toolbox) -> str:
    if not tools.names:
        return f'Unknown tool "{name}". There are no tools in this session: answer without.'
    # The name may be a megabyte long.
    name = name if len(name) <= _MAX_NAME_SHOWN else f"{name[:_MAX_NAME_SHOWN]}…"
    guess = near_name(name, tools.names, ' Did you mean "{}"?')
    return f'Unknown tool "{name}".{guess} Tools: {", ".join(tools.names)}.'


# Loop detection: a model repeats a call, or edits a file back and forth.  *The same call* has the same tool,
# arguments and result. Repetitions count while only `pure` and failed calls are between them. Any other
# successful call may have changed something, so all other counts restart. *Back and forth* is a write that
# restores a content that the file had earlier in this cycle. The model first gets a note. Later the cycle
# ends.  A history is kept for one cycle and is bounded. A tool reports its change to a file in the `details`
# of its result, as read by `file_change_in`: arguments alone do not show the previous content of a file.

LoopType: TypeAlias = Literal["repeat_pattern", "file_loop_warn", "file_loop_abort"]

REPEATS_TO_WARN: Final = 3
REPEATS_TO_ABORT: Final = 6
RETURNS_TO_WARN: Final = 2
RETURNS_TO_ABORT: Final = 4

MAX_KEYS: Final = 256
MAX_FILES: Final = 64
MAX_CONTENTS: Final = 32

REPEAT_NOTE: Final = (
    "[{name} was called {count} times in a row with the same arguments and gave the same result each time. Calling it "
    "again will not change that: try something else, or say what you need.]"
)
FILE_NOTE: Final = (
    "[Your edits have brought {name} back to an earlier content {count} times. Do not edit it to and fro: decide which "
    "version is right, or say what keeps you from it.]"
)

_MISSING: Final = ""
"""Content of a file that does not exist."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A change to a file by a successful call.

    Attributes:
        before: Hash of its previous content. Empty if it did not exist.
    """

    path: str
    before: str
    after: str


class CallSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call with its result. A refusal is a result too.

    Attributes:
        is_error: Whether it failed, or never ran.
    """

    name: str
    arguments_hash: str
    text: str
    is_error: bool = False
    is_pure: bool = False
    polling: bool = False
    change: FileChange | None = None


class FileSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The contents of a file in this cycle.

    Attributes:
        contents: Hashes of its contents, the current one last, each once.
        returns: How often a write restored one of them.
    """

    contents: tuple[str, ...]
    returns: int = 0


class LoopHistory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The calls of a cycle, for loop detection. The mappings are never changed.

    Attributes:
        repeats: How often each call was repeated, by its key, the latest last.
        files: The contents of each file, the latest last.
    """

    repeats: Mapping[str, int] = {}
    files: Mapping[str, FileSeen] = {}


class Loop(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A newly detected loop. The first three fields are those of the event `LoopDetected`."""

    type: LoopType
    name: str
    count: int
    aborts: bool

    @property
    def text(self) -> str:
        note = REPEAT_NOTE if self.type == "repeat_pattern" else FILE_NOTE
        return note.format(name=self.name, count=self.count)


def watched(watch: LoopHistory, calls: Sequence[CallSeen]) -> tuple[LoopHistory, tuple[Loop, ...]]:
    repeats, files = dict(watch.repeats), dict(watch.files)
    loops: list[Loop] = []
    for call in calls:
        if call.polling:
            continue
        loops += _repeated(repeats, call)
        if call.change is not None and not call.is_error:
            loops += _returned(files, call.change)
    return LoopHistory(repeats=repeats, files=files), tuple(loops)


def file_change_in(details: JsonValue) -> FileChange | None:
    match details:
        case {
            "file": {"path": str(path), "sha256_before": str() | None as before, "sha256_after": str(after)}
        }:
            return FileChange(path=path, before=before or _MISSING, after=after)
        case _:
            return None


def _repeated(repeats: dict[str, int], call: CallSeen) -> list[Loop]:
    key = _key_of(call)
    count = repeats.pop(key, 0) + 1
    if not call.is_pure and not call.is_error:
        repeats.clear()  # something may have changed, so an earlier call may have another result now
    repeats[key] = count  # last, so that the oldest entry is removed when there are too many
    _keep_newest(repeats, MAX_KEYS)
    if count not in {REPEATS_TO_WARN, REPEATS_TO_ABORT}:
        return []
    return [Loop(type="repeat_pattern", name=call.name, count=count, aborts=count == REPEATS_TO_ABORT)]


def _returned(files: dict[str, FileSeen], change: FileChange) -> list[Loop]:
    seen = files.pop(change.path, None) or FileSeen(contents=(change.before,))
    is_back = change.after in seen.contents and change.after != change.before
    others = tuple(content for content in seen.contents if content != change.after)
    now = FileSeen(contents=(*others, change.after)[-MAX_CONTENTS:], returns=seen.returns + is_back)
    files[change.path] = now
    _keep_newest(files, MAX_FILES)
    if not is_back or now.returns not in {RETURNS_TO_WARN, RETURNS_TO_ABORT}:
        return []
    aborts = now.returns == RETURNS_TO_ABORT
    kind: LoopType = "file_loop_abort" if aborts else "file_loop_warn"
    return [Loop(type=kind, name=change.path, count=now.returns, aborts=aborts)]


def _key_of(call: CallSeen) -> str:
    result = hashlib.sha256(call.text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{call.name}\0{call.arguments_hash}\0{result}"


def _keep_newest(entries: "dict[str, int] | dict[str, FileSeen]", most: int) -> None:
    while len(entries) > most:
        del entries[next(iter(entries))]
