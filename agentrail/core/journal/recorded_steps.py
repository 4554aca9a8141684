"""A step in a record: its decisions, as one short line for each effect, and the body of its signal. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from math import copysign
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias, assert_never

import msgspec
from msgspec import NODEFAULT, Raw
from msgspec.structs import fields

from agentrail.core.journal.record import HEARD
from agentrail.core.protocol import effects as asked
from agentrail.core.protocol.effects import Effect, Publish
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ChunksArrived, Signal
from agentrail.core.session.recorded_calls import DIGITS as _DIGITS, name_in_outline as _word
from agentrail.core.wire.codec import SIGNAL_KINDS, decode_signal, encode_event, encode_signal
from agentrail.errors import CodecError
from agentrail.events import Event
from agentrail.messages import AssistantBlock, AssistantMessage, TokenUsage, ToolCall

# Bodies of records that are signals: as short as possible, and decoded to the same signal. Pure.  A record
# has its own kind and time, so its body does not repeat them. Fields with their default are omitted, also
# inside of the common parts of signals: an answer of a model, its calls, its usage. So a default must keep
# its current meaning for good. In version 1 a body was the whole signal as written by `encode_signal`. Those
# are still read. Other modules define records and decide which signals become one.

_OF_THE_RECORD: Final = frozenset({"at_ms"})
"""Fields of a signal that its record has, in addition to its kind."""


def encode_signal_body(signal: Signal) -> bytes:
    try:
        return _encoder.encode(_SIGNALS[type(signal)](signal))
    except UnicodeEncodeError:  # half of a surrogate pair: use the replacement of that codec
        mended = decode_signal(encode_signal(signal))
        return _encoder.encode(_SIGNALS[type(mended)](mended))


def decode_signal_body(kind: str, at_ms: int, body: bytes) -> Signal:
    """Decode the output of `encode_signal_body`, or the whole signal of a body of version 1."""
    if body.startswith(_WHOLE):
        signal = decode_signal(body)
        if SIGNAL_KINDS[type(signal)] != _TAGS.get(kind):
            said = f"not a signal: at $.kind: expected that of a {kind!r:.60} record, got {SIGNAL_KINDS[type(signal)]!r}"
            raise CodecError(said, path="$.kind")
        return signal
    head = _HEADS.get(kind)
    if head is None:
        message = f"not a signal: at $.kind: Invalid value {kind!r:.60}; it may come from a newer version"
        raise CodecError(message, path="$.kind")
    return decode_signal(head + str(at_ms).encode() + (b"}" if body == b"{}" else b"," + body[1:]))


def whole_body(kind: str, at_ms: int, body: bytes) -> bytes:
    """Return a body with all fields of its record and all defaults, same as `encode_signal`. Others stay unchanged."""
    return encode_signal(decode_signal_body(kind, at_ms, body)) if kind in _HEADS else body


_TAGS: Final[Mapping[str, str]] = MappingProxyType(
    {kind: kind for kind in SIGNAL_KINDS.values()} | {HEARD: SIGNAL_KINDS[ChunksArrived]}
)
_WHOLE: Final = b'{"kind":'
"""The beginning of bodies of version 1, and of no other: the tag of a signal comes first, and no field has that name."""

_HEADS: Final[Mapping[str, bytes]] = MappingProxyType(
    {kind: b'{"kind":"%b","at_ms":' % tag.encode() for kind, tag in _TAGS.items()}
)
"""Prefix that is added again when a body is decoded."""


# --- short forms


def _short_float(value: Any) -> Any:
    """Return the one zero object that is omitted, for any other zero except -0.0, which is not the default."""
    return _ZERO if value == 0.0 and copysign(1.0, value) > 0 else value


# Not typed as a number: compiled code makes a new object each time it passes one on.
_ZERO: Final[Any] = float()  # noqa: UP018 - a literal would replace the name


def _short_blocks(blocks: Any) -> Any:
    return [_short_call(block) if type(block) is ToolCall else block for block in blocks]


def _short_event(event: Event) -> Raw:
    return Raw(encode_event(event))


def _short_of(kind: type[msgspec.Struct], *, left_out: frozenset[str] = frozenset(), is_tagged: bool) -> Any:
    """Return a function that makes the short form of the values of a class."""
    # msgspec omits a field only if it holds the very object of the default, or for all fields of a class. So
    # the values are copied into a class of the same fields that omits only defaults that are always one
    # object.
    own = [field for field in fields(kind) if field.name not in left_out]
    config = kind.__struct_config__
    tag: Any = {"tag_field": config.tag_field, "tag": config.tag} if is_tagged else {}
    twin: Any = msgspec.defstruct(
        f"_Short{kind.__name__}",
        [(field.encode_name, Any, _default_of(field)) for field in own],
        omit_defaults=True,
        gc=False,
        **tag,
    )
    how = {place: _HOW[field.type] for place, field in enumerate(own) if field.type in _HOW}
    read = _reader([field.name for field in own])
    if not how:
        return lambda value: twin(*read(value))

    def short(value: Any) -> Any:
        given = list(read(value))
        for place, one in how.items():
            given[place] = one(given[place])
        return twin(*given)

    return short


def _reader(names: list[str]) -> Callable[[Any], Any]:
    match names:
        case []:
            return lambda _: ()
        case [name]:
            one = attrgetter(name)
            return lambda value: (one(value),)
        case _:
            return attrgetter(*names)


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    """Return the default that is omitted, or a placeholder if the field is always written."""
    default = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if type(default) is float and default == 0.0:
        return _ZERO
    is_one_object = default is None or default in ((), "") or type(default) is bool
    # Small numbers are one object each in CPython. Strings and values of classes are not.
    is_small = type(default) is int and 0 <= default <= _MOST_KEPT
    return default if is_one_object or is_small else _ALWAYS


_ALWAYS: Final = object()
_MOST_KEPT: Final = 256

_encoder: Final = msgspec.json.Encoder()

_HOW: Final[dict[Any, Callable[[Any], Any]]] = {
    float: _short_float,
    float | None: _short_float,
    Event: _short_event,
    tuple[AssistantBlock, ...]: _short_blocks,
}
"""Short forms by the annotation of a field."""

_short_call: Final = _short_of(ToolCall, is_tagged=True)
_HOW[TokenUsage] = _short_of(TokenUsage, is_tagged=False)
_HOW[AssistantMessage] = _short_of(AssistantMessage, is_tagged=True)

_SIGNALS: Final[Mapping[type[Signal], Callable[[Any], Any]]] = MappingProxyType(
    {kind: _short_of(kind, left_out=_OF_THE_RECORD, is_tagged=False) for kind in SIGNAL_KINDS}
)


_BEGUN: Final = re.compile(
    r"^(?:start_stream|run_tool|spawn_child|resume_child|start_agent|ask_host|tell_host|run_plugin_request"
    r"|gather_context) (\S+)",
    re.MULTILINE,
)
"""The lines of effects that begin work. The second word is the effect id."""


def outline(effects: Iterable[Effect]) -> str:
    lines: list[str] = []
    first = last = 0  # the current range of committed events, 0 for none
    for effect in effects:
        if isinstance(effect, Publish):
            meta = effect.event.meta
            if meta is None or meta.ephemeral:
                continue
            first, last = first or meta.seq, meta.seq
            continue
        if first:
            lines.append(_published(first, last))
            first = 0
        lines.append(_line_of(effect))
    if first:
        lines.append(_published(first, last))
    return "\n".join(lines)


def effects_named(does: str) -> frozenset[EffectId]:
    """Return the effects that began according to a record: they may have run when the process stopped."""
    return frozenset(map(EffectId, _BEGUN.findall(does)))


_PUBLISHED: Final = re.compile(r"^publish (\d+)", re.MULTILINE)


def first_event_in(does: str) -> int | None:
    """Return the number of the first event that a record published, or None."""
    found = _PUBLISHED.search(does)
    return None if found is None else int(found[1])


_OPERATION: Final = re.compile(
    r"^(start_stream \S+|run_tool \S+ \S+|spawn_child .*|resume_child \S+|start_agent .*|prompt_agent .*"
    r"|run_plugin_request \S+ (?:WriteFile|WriteNotes|KeepMemory|CallModel))(?: op=\S* (args=\S+))?",
    re.MULTILINE,
)


def operations_in(does: str) -> tuple[str, ...]:
    """Return the operations that an outline starts: requests, tools with their arguments, agents, and writes of plugins."""
    return tuple([" ".join(filter(None, line)) for line in _OPERATION.findall(does)])


def operation_id_in(operation: str) -> EffectId:
    return EffectId(operation.split(" ", 2)[1])


def _published(first: int, last: int) -> str:
    return f"publish {first}" if first == last else f"publish {first}-{last}"


_Lined: TypeAlias = (
    asked.StartStream
    | asked.Awaited
    | asked.Cancel
    | asked.ResumeChild
    | asked.PromptAgent
    | asked.CloseAgent
    | asked.KillTools
    | asked.SetProviderOpts
    | asked.ReplyToCaller
    | asked.Refuse
    | asked.End
)


def _line_of(effect: _Lined) -> str:
    match effect:
        case asked.RunTool(effect_id=effect_id, name=name, operation_id=operation, arguments_hash=arguments):
            again = f" attempt={effect.attempt}" if effect.attempt > 1 else ""
            return f"run_tool {effect_id} {_word(name)} op={operation[:_DIGITS]} args={arguments[:_DIGITS]}{again}"
        case asked.StartStream(request=request):
            return f"start_stream {request.attempt} model={_word(request.model)} messages={len(request.messages)}"
        case asked.ReplyToCaller():
            return "reply"
        case asked.Refuse(error=error):
            return f"refuse {type(error).__name__}"
        case asked.SetTimer(effect_id=effect_id, at_ms=at_ms):
            return f"set_timer {effect_id} {at_ms}"
        case asked.ClearTimer(effect_id=effect_id):
            return f"clear_timer {effect_id}"
        case asked.CancelStream(effect_id=effect_id):
            return f"cancel_stream {effect_id}"
        case asked.KillTools(effect_ids=effect_ids):
            return " ".join(("kill_tools", *effect_ids))
        case asked.SpawnChild(effect_id=effect_id, agent=agent):
            return f"spawn_child {effect_id} {_word(agent)}"
        case asked.ResumeChild(effect_id=effect_id, child_ids=child_ids):
            return " ".join(("resume_child", effect_id, *map(_word, child_ids)))
        case asked.StartAgent(effect_id=effect_id, name=name, agent=agent):
            return f"start_agent {effect_id} {_word(name)} {_word(agent)}"
        case asked.PromptAgent(effect_id=effect_id):
            return f"prompt_agent {effect_id}"
        case asked.CloseAgent(effect_id=effect_id):
            return f"close_agent {effect_id}"
        case asked.AskHost(effect_id=effect_id, name=name):
            return f"ask_host {effect_id} {_word(name)}"
        case asked.TellHost(effect_id=effect_id, name=name):
            return f"tell_host {effect_id} {_word(name)}"
        case asked.RunPluginRequest(effect_id=effect_id, wanted=wanted, refused=refused):
            answered = "" if refused is None else f" refused={_word(refused.code)}"
            return f"run_plugin_request {effect_id} {type(wanted).__name__}{answered}"
        case asked.CancelPluginRequest(effect_id=effect_id):
            return f"cancel_plugin_request {effect_id}"
        case asked.GatherContext(effect_id=effect_id, messages=messages):
            return f"gather_context {effect_id} messages={len(messages)}"
        case asked.SetProviderOpts(model=model):  # the options contain keys
            return f"set_provider_opts model={_word(model)}"
        case asked.Teardown(effect_id=effect_id, stopped=stopped):
            return " ".join(("teardown", effect_id, *stopped))
        case asked.End():
            return "end"
        case _ as never:
            assert_never(never)
