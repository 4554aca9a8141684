"""Calls of the model store as lines of the log: their arguments by name, their session, and a sentence for people."""

import inspect
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from agentrail.abc.store import Append, ManyTaker, OwedStore, SharedSecret, Store
from agentrail.testing.simulation.facts import StoreCall

_PORTS: Final = (Store, OwedStore, SharedSecret, ManyTaker)


def named_arguments(name: str, args: Sequence[Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a method of the store by parameter name."""
    return dict(zip(_parameters(name), args, strict=False)) | options


@cache
def _parameters(name: str) -> tuple[str, ...]:
    method = next(getattr(port, name) for port in _PORTS if hasattr(port, name))
    return tuple(inspect.signature(method).parameters)[1:]


def sessions_of_call(call: StoreCall) -> tuple[str, ...]:
    """Return the ids of the sessions that a call is about."""
    match call.arguments:
        case {"batch": batch}:
            return tuple(one.session for one in batch)
        case {"wanted": wanted}:
            return tuple(one.root for one in wanted)
        case {"opening": opening}:
            return (opening.session,)
        case {"snapshot": snapshot}:
            return (snapshot.session,)
        case {"session": session} | {"root": session}:
            return (session,)
        case _:
            return ()


def session_of(call: StoreCall) -> str:
    """Return the id of the only session that a call is about, or an empty string."""
    sessions = tuple(dict.fromkeys(sessions_of_call(call)))
    return sessions[0] if len(sessions) == 1 else ""


def sentence_of(call: StoreCall) -> str:
    """Return a call and its answer as people read them."""
    answers = call.answer if isinstance(call.answer, tuple) else (call.answer,)
    about = (
        [_numbered(one) for one in call.arguments["batch"]]
        if call.name == "append"
        else sessions_of_call(call)
    )
    said = " ".join([call.name, ", ".join(about)]).strip()
    refused = [type(one).__name__ for one in answers if isinstance(one, Exception)]
    return (
        said + (f": {', '.join(refused)}" if refused else "") + (f" ({call.trouble})" if call.trouble else "")
    )


def _numbered(append: Append) -> str:
    numbers = dict.fromkeys((append.records[0].seq, append.records[-1].seq))
    return f"{append.session}/{'-'.join(map(str, numbers))}"
