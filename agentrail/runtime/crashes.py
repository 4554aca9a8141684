"""The edge of ports that await: what a provider or a sandbox raises that it may not raise becomes data about a crash.

What it may raise, cancellations, and what is nobody's bug (a `KeyboardInterrupt`) travel on as they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentrail.errors import ErrorInfo
from agentrail.runtime.tool_runner import decide_what_travels, describe_crash


class Crashed(Exception):
    """A port raised what it may not raise.

    Attributes:
        error: What it was, as data; no exception is kept.
    """

    def __init__(self, error: ErrorInfo) -> None:
        """Take what is known."""
        super().__init__(error.message)
        self.error = error


@contextmanager
def crash_edge(decide: Callable[[Exception], ErrorInfo], *known: type[Exception]) -> Iterator[None]:
    """Stand around code of a port.

    Args:
        decide: Says what a crash means.
        *known: What the port may raise; it passes.

    Raises:
        Crashed: The port's author's move.
    """
    try:
        yield
    except known:
        raise
    except Exception as error:  # noqa: BLE001 - the edge of a port: its bug ends one request, not the session
        raise Crashed(decide(error)) from None
    except BaseExceptionGroup as group:
        raise decide_what_travels(group) from None


def decide_provider_crash(model: str, error: Exception) -> ErrorInfo:
    """Say what a provider raised that it may not raise: text only, and whose bug it is."""
    message = (
        f"the provider of {model} crashed ({describe_crash(error)}): "
        "this is a bug in the provider, please report it"
    )
    return ErrorInfo(code="provider_crashed", message=message)


def decide_sandbox_crash(path: str, error: Exception) -> ErrorInfo:
    """Say what a sandbox raised over a file: its refusals are values, so this is its bug."""
    message = (
        f"the sandbox crashed over {path!r} ({describe_crash(error)}): "
        "this is a bug in the sandbox, please report it"
    )
    return ErrorInfo(code="sandbox_crashed", message=message)
