"""No method of `Session` is forgotten: each is one of `RemoteSession`, and a command of the socket, or is on a list with its reason."""

import inspect

import pytest

from agentrail.remote.remote_session import NotRemoteCalls, RemoteSession
from agentrail.runtime.session_handle import Session

# What is said over a network only.
REMOTE_ONLY = {
    "wait_for_request": "request",
    "cancel_request": "cancel",
    "commands": "commands",
    "run_command": "run_command",
    "sessions": "sessions",
    "knows_session": "status",
}


def public(kind):
    """The public names of a class."""
    return {name for name in dir(kind) if not name.startswith("_")}


def refused():
    """The names that raise `NotRemote`."""
    return public(NotRemoteCalls)


def test_every_method_of_a_session_is_one_of_a_remote_session():
    """And there are no others but those that ask for a request."""
    assert public(Session) - public(RemoteSession) == set()
    assert public(RemoteSession) - public(Session) == set(REMOTE_ONLY)
    assert refused() <= public(Session)


@pytest.mark.parametrize("name", sorted(public(Session) - refused() - {"fork"}))
def test_what_can_be_said_there_can_be_said_here(name):
    """Each parameter has its name, its kind and its default; what does not travel is refused where it is given."""
    there, here = getattr(Session, name), getattr(RemoteSession, name)
    if isinstance(there, property):
        assert isinstance(here, property)
        return
    told, heard = (
        {one.name: (one.kind, one.default) for one in inspect.signature(call).parameters.values()}
        for call in (there, here)
    )
    assert told == heard
