"""Why no connection came about: what lies behind the exception of the HTTP library, and the advice that each cause gets.

The library gives one class to a host without a name, a port without a server and a certificate that is not trusted. What they
are stands in its causes, which are the standard library's. No HTTP library enters this file.
"""

import ssl
from collections.abc import Iterator
from socket import gaierror
from typing import Final

from agentrail.errors.advice import Advice

_MAX_CAUSES: Final = 100

_CAUSES: Final[tuple[tuple[type[BaseException], Advice], ...]] = (
    (ssl.SSLCertVerificationError, Advice.CERTIFICATE),  # the special before the general: it is an SSLError
    (ssl.SSLError, Advice.NO_TLS),
    (gaierror, Advice.NO_SUCH_HOST),
    (ConnectionRefusedError, Advice.REFUSED),
)


def why_unreachable(error: BaseException) -> Advice:
    """Say what is in the way of a connection, by the first cause in the table that is there."""
    found = tuple(causes_of(error))
    for kind, advice in _CAUSES:
        if any(isinstance(cause, kind) for cause in found):
            return advice
    return Advice.UNREACHABLE


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and all that led to it, also where several attempts failed side by side; not for ever."""
    waiting, seen = [error], {id(error)}
    while waiting and len(seen) <= _MAX_CAUSES:
        current = waiting.pop()
        yield current
        inside = current.exceptions if isinstance(current, BaseExceptionGroup) else ()
        for cause in (current.__cause__, current.__context__, *inside):
            if cause is not None and id(cause) not in seen:
                seen.add(id(cause))
                waiting.append(cause)
