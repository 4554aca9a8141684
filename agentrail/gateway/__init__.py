"""HTTP for a host: routes, responses, streams, access control. Adds no behaviour to sessions. This is the public entry point.

    app = create_app(profiles=[AgentProfile(id="desk", name="Desk", options=SessionOptions(model="demo:"))])

Names are imported on first use. Only `create_app` and `routes` need Starlette, which is in the extra `gateway`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from agentrail.distribution import install_command

if TYPE_CHECKING:
    from agentrail.gateway.app import (
        ServedHost as ServedHost,
        create_app as create_app,
        routes as routes,
    )
    from agentrail.gateway.authorization import Authenticate as Authenticate
    from agentrail.gateway.tokens import (
        TokenEntry as TokenEntry,
        Tokens as Tokens,
        read_token_file as read_token_file,
    )

_HOMES: Final = {
    "Authenticate": "authorization",
    "ServedHost": "app",
    "TokenEntry": "tokens",
    "Tokens": "tokens",
    "create_app": "app",
    "read_token_file": "tokens",
    "routes": "app",
}

__all__ = ["Authenticate", "ServedHost", "TokenEntry", "Tokens", "create_app", "read_token_file", "routes"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'agentrail.gateway' has no attribute {name!r}"
        raise AttributeError(message)
    try:
        value: object = getattr(import_module(f"agentrail.gateway.{home}"), name)
    except ModuleNotFoundError as error:
        message = f"{name} needs {error.name}, which is not installed: {install_command('gateway')}"
        raise ModuleNotFoundError(message, name=error.name) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
