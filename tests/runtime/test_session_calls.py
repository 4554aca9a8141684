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

# What a method looks at before its row does.
DECIDED = {"settings": PromptSettings(temperature=0.5)}

BY_NAME = {one.name: one for one in OPERATIONS}


def of_row(operation):
    """The arguments of a row, with their defaults."""
    fields = {
        one.name: inspect.Parameter.empty if one.required else one.default
        for one in msgspec.structs.fields(operation.takes)
    }
    return fields | dict.fromkeys(operation.local)


def of_method(name):
    """The arguments of a method, with their defaults."""
    parameters = list(inspect.signature(getattr(SessionCalls, name)).parameters.values())[1:]
    return {one.name: one.default for one in parameters}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_a_method_and_its_row_take_the_same(operation):
    """Without this a slip in `**given` is seen at run time only."""
    told = of_method(operation.name)
    assert told == of_row(operation)
    assert operation.owner is None or operation.owner in told


def test_each_method_has_a_row():
    """And each row its method, in both handles."""
    methods = {name for name in vars(SessionCalls) if not name.startswith("_")}
    assert methods == set(BY_NAME)
    assert len(BY_NAME) == len(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
async def test_each_method_gives_its_row_all_its_arguments(operation):
    """By name, and each its own value."""
    told = {}

    class Heard(SessionCalls):
        async def _call(self, operation, **given):
            told[operation] = given

    given = {name: DECIDED.get(name, object()) for name in of_method(operation.name)}
    await getattr(Heard(), operation.name)(**given)
    assert told == {operation: given}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_a_signal_takes_what_its_row_takes(operation):
    """A row without one has a method in its place, in the handle of this process."""
    names = of_row(operation)
    if operation.signal is None:
        do = getattr(Session, f"_do_{operation.name}")
        assert set(inspect.signature(do).parameters) - {"self"} == set(names)
    else:
        operation.signal(at_ms=1, signal_id="s-1", **dict.fromkeys(names))


@pytest.mark.parametrize(
    ("name", "given", "faults"),
    [
        ("decline", {"ref": 3}, ["ref is 3: expected a text"]),
        ("decline", {"ref": "q", "reason": 4}, ["reason is 4: expected a text"]),
        ("reject", {"approval_id": "a", "auto_resume": 1}, ["auto_resume is 1: expected True or False"]),
        (
            "reject",
            {"approval_id": None, "user": " "},
            [
                "approval_id is None: expected a text",
                "user is ' ': expected 1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..', or None",
            ],
        ),
        (
            "approve",
            {"approval_id": "a", "kind": "twice", "arguments": 1},
            [
                "kind is 'twice': expected 'once' or 'always'",
                "arguments is 1: expected a dict, or None for those of the call",
            ],
        ),
        (
            "respond",
            {"ref": "q", "response": 1.5},
            ["response is 1.5: expected a text, which of the options, from 0, or a dict for a form"],
        ),
        (
            "rewind",
            {"to": "1", "turn": 2, "force": True},
            [
                "to is '1': expected a whole number from 1",
                "a number ('1') and a turn (2) are given: give one of them",
                "force is about files: give files=True too",
            ],
        ),
        (
            "go_on",
            {"client_id": "", "via": "a b", "digest": "0"},
            [
                "client_id is '': expected a text of 1 to 256 characters",
                "via is 'a b': expected a name such as 'http', 1 to 32 of a-z 0-9 . _ -, or None",
                "digest is '0': expected a SHA-256 in hexadecimal, 64 of 0-9 a-f, or None",
            ],
        ),
        (
            "journal",
            {"after": -1, "limit": True},
            [
                "after is -1: expected a whole number from 0",
                "limit is True: expected a whole number from 1 to 10000",
            ],
        ),
        (
            "abort",
            {"kill_tools": ["all"], "wait": None, "ref": 2},
            [
                "kill_tools is ['all']: expected 'killable', 'all' or 'none'",
                "wait is None: expected True or False",
                "ref is 2: expected a text",
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


def test_both_handles_have_the_same_methods():
    """Not copies of them: a signature and a docstring are written once."""
    for name in BY_NAME:
        assert getattr(Session, name) is getattr(SessionCalls, name)
        assert getattr(RemoteSession, name) is getattr(SessionCalls, name) or name in vars(RemoteSession)
