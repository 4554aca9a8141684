"""Encode a session's state as JSON and decode it: its state, its configuration, its tools, its plugins with their states. Pure.

Each is one document, which begins with `codec`, the version of its outline, and `kind`. A field added later gets a
default, and older documents are read with it. Any other change needs another version. A document of a newer version
is refused as a whole.

Code is not stored. A plugin is stored as its name, version, options and origin, and the reader supplies the plugin
of that name. States of another version are passed to `migrate` as the stored JSON, because their old class may no
longer exist. Tools are stored as their specs. The reader also supplies the way to call handlers (`Stack.ask`).

Shared values are written once: the specs of tools, which every open call refers to, are in a list of their own.

The form of fields follows from their annotations (`shapes`), and `state_shapes` has the special forms. The same
state gives the same bytes in every process. The order of a mapping is part of it: requests are made in that order,
and if there are too many entries the first one is dropped.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeVar, cast

import msgspec

from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.state import SessionConfig, SessionState
from agentrail.core.session.state_shapes import (
    NO_PLUGINS,
    PLUGINS,
    SHAPES,
    SPECS,
    Reading,
    Resolve,
    Stacked,
    Writing,
    unwritable,
)
from agentrail.core.stack.loaded_stack import Ask, PluginStates, Stack, call_handler as plainly
from agentrail.core.values.toolbox import Toolbox
from agentrail.core.wire.json_text import read_json
from agentrail.core.wire.shapes import Misfit, Shape, brief_of, expected_kind, step_down, written
from agentrail.errors import CodecError
from agentrail.structs import decoder_of

CODEC_VERSION: Final = 1
"""Version of the outline: the head of a document, and the special forms in it."""

DocumentKind: TypeAlias = Literal["config", "toolbox", "stack", "session_state"]

T = TypeVar("T")

_BEGUN: Final = ("session_state", "begun")

# --- the documents


def encode_config(config: SessionConfig) -> bytes:
    """Encode the configuration of a session.

    Raises:
        CodecError: Your move: it contains something that is not JSON, such as an object in `user_data`; or ours.
    """
    return _write("config", SessionConfig, config)


def decode_config(text: bytes | str) -> SessionConfig:
    """Decode the output of `encode_config`.

    Raises:
        CodecError: Your move: the text is not such a document, or is one of a newer version.
    """
    return cast("SessionConfig", _read_all("config", SessionConfig, text, Reading()))


def encode_toolbox(tools: Toolbox) -> bytes:
    """Encode the specs of tools, with the generations of their changes. Their code is not stored.

    Raises:
        CodecError: Ours: a schema is not JSON.
    """
    return _write("toolbox", Toolbox, tools)


def decode_toolbox(text: bytes | str) -> Toolbox:
    """Decode the output of `encode_toolbox`.

    Raises:
        CodecError: Your move: the text is not such a document, or is one of a newer version.
    """
    return cast("Toolbox", _read_all("toolbox", Toolbox, text, Reading()))


def encode_stack(stack: Stack, states: PluginStates) -> bytes:
    """Encode the plugins of a session, in order, and the state of each.

    Raises:
        CodecError: A plugin author's: a state that JSON cannot represent.
    """
    return _write("stack", Stacked, Stacked(plugins=stack, states=states))


def decode_stack(text: bytes | str, resolve: Resolve, *, ask: Ask = plainly) -> tuple[Stack, PluginStates]:
    """Decode the output of `encode_stack`.

    Args:
        text: One document.
        resolve: Returns the plugin of each record.
        ask: How handlers are called.

    Raises:
        CodecError: Your move: the text is not such a document, or is one of a newer version.
        PluginError: Your move: a plugin is missing, cannot be loaded, or does not accept the state of another
            version.
    """
    found = cast("Stacked", _read_all("stack", Stacked, text, Reading(resolve, ask)))
    return found.plugins, found.states


def encode_session(state: SessionState, *, begun: tuple[EffectId, ...] | None = None) -> bytes:
    """Encode the state of a session.

    Args:
        state: The session.
        begun: For a session that is not at rest: its open effects that may have begun, for `begun_in`. None writes
            nothing about them. Readers that do not know this part refuse a document that has it.

    Returns:
        UTF-8 JSON, as long as the state is large, and the same for equal states in every process.

    Raises:
        CodecError: It contains something that JSON cannot represent: half of a surrogate pair, a number that is not
            finite, an object. The error has its path. It came with a signal, and no journal could store it either.
    """
    return _write("session_state", SessionState, state, {} if begun is None else {"begun": begun})


def begun_in(text: bytes | str) -> tuple[EffectId, ...]:
    """Return the open effects that may have begun, as written by `encode_session`. Empty if it wrote none."""
    try:
        return _BEGUN_READER.decode(text).begun
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"no session_state: {error}; pass what was written as session_state"
        raise CodecError(message, path="$.begun") from error


class _Begun(msgspec.Struct, frozen=True, gc=False):
    begun: tuple[EffectId, ...] = ()


_BEGUN_READER: Final = decoder_of(_Begun)


def decode_session(text: bytes | str, resolve: Resolve = NO_PLUGINS, *, ask: Ask = plainly) -> SessionState:
    """Decode the output of `encode_session`: an equal state, from which the session continues as it would have.

    Args:
        text: One document.
        resolve: Returns the plugin of each record.
        ask: How handlers are called.

    Raises:
        CodecError: Your move: the text is not such a document, or is one of a newer version. Nothing is half read.
        PluginError: Your move: a plugin is missing, cannot be loaded, or does not accept the state of another
            version.
    """
    return cast("SessionState", _read_all("session_state", SessionState, text, Reading(resolve, ask)))


class CodelessState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The parts of a session's state that are decoded without the code of its plugins."""

    config: SessionConfig
    tools: Toolbox
    plugins: tuple[PluginRecord, ...]


def decode_codeless(text: bytes | str) -> CodelessState:
    """Decode these parts of the output of `encode_session`.

    Raises:
        CodecError: Your move: the text is not such a document, or is one of a newer version.
    """
    kind: Final = "session_state"
    reading = Reading()

    def parts(document: dict[str, Any]) -> CodelessState:
        state = step_down(kind, expected_kind, dict, document.get(kind))
        data = step_down(kind, step_down, "data", expected_kind, dict, state.get("data"))
        part = partial(step_down, kind, step_down, "data", _part, data)
        return CodelessState(
            config=part("config", SHAPES.of(SessionConfig), reading),
            tools=part("tools", SHAPES.of(Toolbox), reading),
            plugins=_part(document, "plugins", PLUGINS, reading),
        )

    return _read(kind, text, reading, parts)


def _write(
    kind: DocumentKind, hint: Any, value: object, more: Mapping[str, object] = MappingProxyType({})
) -> bytes:
    writing = Writing()
    try:
        content = SHAPES.of(hint).encode(value, writing)
        head = {"codec": CODEC_VERSION, "kind": kind, "tools": writing.specs, "plugins": writing.plugins}
        try:
            return written({**head, **more, kind: content})
        except UnicodeEncodeError:  # half of a surrogate pair, and msgspec does not report where
            raise unwritable(content) from None
    except (Misfit, RecursionError) as error:
        what = f"no {kind} that can be stored"
        advice = "remove its source, because no journal can hold it either"
        raise _codec_error(what, error, advice) from error


def _codec_error(what: str, error: Misfit | RecursionError, advice: str, news: str = "") -> CodecError:
    # Not where it is raised: a name there for the handled error, whose traceback refers to that frame, would be a cycle.
    misfit = error if isinstance(error, Misfit) else Misfit(f"nested too deeply: {error}")
    advice = news if misfit.is_news and news else advice
    return CodecError(f"{what}: at {misfit.path}: {misfit.fault}; {advice}", path=misfit.path)


def _read_all(kind: DocumentKind, hint: Any, text: bytes | str, reading: Reading) -> object:
    def everything(document: dict[str, Any]) -> object:
        step_down("plugins", reading.restore, _part(document, "plugins", PLUGINS, reading))
        return _part(document, kind, SHAPES.of(hint), reading)

    return _read(kind, text, reading, everything)


def _read(kind: DocumentKind, text: bytes | str, reading: Reading, parts: Callable[[dict[str, Any]], T]) -> T:
    try:
        document = expected_kind(dict, read_json(text))
        _check_head(document, kind)
        reading.specs = _part(document, "tools", SPECS, reading)
        return parts(document)
    except (Misfit, RecursionError) as error:
        what, advice = f"no {kind}", f"pass what was written as {kind}"
        raise _codec_error(what, error, advice, news="it may come from a newer version") from error


def _check_head(document: dict[str, Any], kind: DocumentKind) -> None:
    version = document.get("codec")
    if type(version) is int and version > CODEC_VERSION:
        message = f"it is of version {brief_of(version)}, and this version reads up to {CODEC_VERSION}"
        _refuse("codec", message, is_news=True)
    if type(version) is not int or version < 1:
        message = f"expected a version >= 1, got {brief_of(version)}"
        _refuse("codec", message)
    if document.get("kind") != kind:
        message = f"expected {kind!r}, got {brief_of(document.get('kind'))}"
        _refuse("kind", message)
    for name in document:
        if name not in {"codec", "kind", "tools", "plugins", kind} and (kind, name) != _BEGUN:
            message = "unknown part of a document"
            _refuse(name, message, is_news=True)


def _part(document: dict[str, Any], name: str, shape: Shape, reading: Reading) -> Any:
    if name not in document:
        message = f"the part {name!r} is missing"
        raise Misfit(message)
    return step_down(name, shape.decode, document[name], reading)


def _refuse(place: str, message: str, *, is_news: bool = False) -> NoReturn:
    raise Misfit(message, is_news=is_news).at(place)
