"""The calls that are one row each: a method and its row say the same, and each argument is checked by its type."""

import inspect

import msgspec
import pytest

from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.errors import OptionError
from agentrail.remote.remote_session import RemoteSession
from agentrail.runtime.session_calls import SessionCalls, check_arguments
from agentrail.runtime.session_handle import Session
from agentrail.wire.operations import OPERATIONS
from tests.thinned import each

# What a method looks at before its row does.
DECIDED = {"settings": PromptSettings(temperature=0.5)}

BY_NAME = {one.name: one for one in OPERATIONS}


def of_row(operation):
    fields = {
        one.name: inspect.Parameter.empty if one.required else one.default
        for one in msgspec.structs.fields(operation.takes)
    }
    return fields | dict.fromkeys(operation.local)


def of_method(name):
    parameters = list(inspect.signature(getattr(SessionCalls, name)).parameters.values())[1:]
    return {one.name: one.default for one in parameters}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
async def test_a_method_its_row_and_its_signal_take_the_same(operation):
    """Without this a slip in `**given` is seen at run time only; each argument is given by name, with its own value."""
    names, told = of_row(operation), {}
    assert of_method(operation.name) == names
    assert operation.owner is None or operation.owner in names

    class Heard(SessionCalls):
        async def _call(self, operation, **given):
            told[operation] = given

    given = {name: DECIDED.get(name, object()) for name in names}
    await getattr(Heard(), operation.name)(**given)
    assert told == {operation: given}

    if operation.signal is None:  # a method in its place, in the handle of this process
        do = getattr(Session, f"_do_{operation.name}")
        assert set(inspect.signature(do).parameters) - {"self"} == set(names)
    else:
        operation.signal(at_ms=1, signal_id="s-1", **dict.fromkeys(names))


def test_each_method_has_a_row():
    """And each row its method, in both handles; these are no copies, so a signature and a docstring are written once."""
    methods = {name for name in vars(SessionCalls) if not name.startswith("_")}
    assert methods == set(BY_NAME)
    assert len(BY_NAME) == len(OPERATIONS)
    for name in BY_NAME:
        assert getattr(Session, name) is getattr(SessionCalls, name)
        assert getattr(RemoteSession, name) is getattr(SessionCalls, name) or name in vars(RemoteSession)


@each(
    ("name", "given", "faults"),
    [
        (
            "reject",
            {"approval_id": None, "user": " "},
            [
                "approval_id is None: expected a text",
                "user is ' ': expected 1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..', or None",
            ],
        ),
        (
            "rewind",
            {"to": "1", "turn": 2, "force": True},
            [
                "to is '1': expected a whole number >= 1",
                "a number ('1') and a turn (2) are both given: give one of them",
                "force applies only to files: give files=True too",
            ],
        ),
        (
            "abort",
            {"kill_tools": ["all"], "wait": None, "ref": 2},
            [
                "kill_tools is ['all']: expected 'killable', 'all' or 'none'",
                "wait is None: expected True or False",
                "ref is 2: expected a text, or None",
            ],
        ),
    ],
)
def test_each_fault_is_named(name, given, faults):
    """All of them at once, in the order of the arguments."""
    whole = {**of_row(BY_NAME[name]), **given}
    with pytest.raises(OptionError) as caught:
        check_arguments(BY_NAME[name], whole)
    assert list(caught.value.faults) == faults
