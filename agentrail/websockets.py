"""The only importer of trio-websocket, which comes with the extra `connect`.

`need_websockets` raises at the start of a call that needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from agentrail.distribution import install_command
from agentrail.errors import OptionError

if TYPE_CHECKING:
    from trio_websocket import (
        CloseReason,
        ConnectionClosed,
        ConnectionRejected,
        HandshakeError,
        WebSocketConnection,
        wrap_client_stream,
    )
    from wsproto.utilities import LocalProtocolError

_HOMES: Final = {
    "CloseReason": "trio_websocket",
    "ConnectionClosed": "trio_websocket",
    "ConnectionRejected": "trio_websocket",
    "HandshakeError": "trio_websocket",
    "LocalProtocolError": "wsproto.utilities",
    "WebSocketConnection": "trio_websocket",
    "wrap_client_stream": "trio_websocket",
}


__all__ = [
    "CloseReason",
    "ConnectionClosed",
    "ConnectionRejected",
    "HandshakeError",
    "LocalProtocolError",
    "WebSocketConnection",
    "need_websockets",
    "wrap_client_stream",
]


def need_websockets(what: str) -> None:
    try:
        import_module("trio_websocket")
    except ModuleNotFoundError as error:
        fault = f"{what} needs {error.name}, which is not installed: {install_command('connect')}"
        raise OptionError([fault]) from error


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'agentrail.websockets' has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
