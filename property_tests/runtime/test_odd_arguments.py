"""Through the public door: whatever stands where an argument is expected, no other error than one of agentrail comes out."""

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any, Final

import pytest
import trio
from hypothesis import given, settings, strategies as st
from trio.testing import MockClock

import agentrail
from agentrail.errors import AgentrailError
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, says


class Unprintable:
    """An object of somebody else's, with a bug."""

    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __repr__


async def _coroutine_function(*_: object, **__: object) -> object:
    """Nothing awaits it."""


DEEP: Final[Any] = reduce(lambda inner, _: [inner], range(5_000), list[Any]())
ODD: Final[Mapping[str, Any]] = {
    "nothing": None,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "-1": -1,
    "0": 0,
    "2**64": 2**64,
    "10**400": 10**400,
    "10**5000": 10**5_000,
    "a list with it": [10**5_000],
    "empty": "",
    "surrogate": "\ud800",
    "null character": "a\0b",
    "bytes": b"x",
    "true": True,
    "a class": int,
    "an object": object(),
    "a huge list": [0] * 50_000,
    "a deep list": DEEP,
    "a coroutine function": _coroutine_function,
    "unprintable": Unprintable(),
    "a list with that": [Unprintable()],
    "a dict": {"a": math.nan},
    "a set": {1},
    "an exception": ValueError("x"),
}

KEYWORDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "agentrail.Agent": {"name": "a", "description": "d"},
    "agentrail.Capability": {"name": "a"},
    "agentrail.Ok": {"text": "a"},
    "agentrail.Error": {"text": "a"},
    "agentrail.SessionOptions": {"model": "demo:"},
    "agentrail.open_session": {"model": "demo:"},
    "agentrail.connect": {"url": "http://127.0.0.1:1"},
    "SessionSupervisor.start_session": {"model": "demo:"},
    "SessionSupervisor.newest": {"filters": None},
}
"""Sound arguments besides the odd one. Others are those of `SOUND`, by the name of the parameter."""

SOUND: Final[Mapping[str, Any]] = {
    "approval_id": "a1",
    "before": 1,
    "call_id": "c1",
    "client_id": "i1",
    "content": "Hi",
    "message": "a",
    "name": "n",
    "number": 1,
    "outcome": agentrail.Ok(text="a"),
    "plugin": "p",
    "ref": "r1",
    "response": "a",
    "rule_id": "r1",
    "seq": 1,
    "session": "s-1",
    "session_id": "s-1",
    "source": "mcp:a",
    "state": "ready",
    "text": "Hi",
    "what": agentrail.AgentEnd,
    "model": "demo:",
}

BY_HAND: Final = frozenset({
    "change_owed",  # parts of a host: they are called by agentrail alone, with arguments of its own
    "check_revive",
    "describe_profiles",
    "end_forgotten",
    "look_at_nodes",
    "stop_all",
    "take_allowance",
    "take_moved",
})  # fmt: skip

FUNCTIONS: Final = (
    "Agent",
    "Blueprint",
    "Budget",
    "Capability",
    "Error",
    "Ok",
    "PromptSettings",
    "SessionOptions",
    "connect",
    "decode_event",
    "encode_event",
    "import_messages",
    "open_session",
    "tool",
)
"""Constructors of events and messages are not among them: like all msgspec Structs, they are checked where they are used."""


def methods_of(kind: type) -> dict[str, inspect.Signature]:
    found = {name: value for name, value in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}
    return {
        name: inspect.signature(value)
        for name, value in found.items()
        if name not in BY_HAND and len(inspect.signature(value).parameters) > 1
    }


def odd_calls(
    draw: Any, signature: inspect.Signature, sound: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Draw one parameter and its odd value. The required others are sound."""
    parameters = [one for one in signature.parameters.values() if one.name != "self"]
    odd, value = draw(st.sampled_from(parameters)), ODD[draw(st.sampled_from(sorted(ODD)))]
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for one in parameters:
        if one is odd:
            given = value
        elif one.name in sound:
            given = sound[one.name]
        elif one.default is inspect.Parameter.empty and one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}:
            given = SOUND.get(one.name, "x")
        else:
            continue
        if one.kind is one.VAR_KEYWORD:
            named["odd"] = given
        elif one.kind in {one.POSITIONAL_ONLY, one.VAR_POSITIONAL}:
            positional.append(given)
        else:
            named[one.name] = given
    return positional, named


async def use(call: Callable[[], Any]) -> None:
    """Call it, await it, and enter what it opens. Only errors of agentrail may come out, with a text."""
    try:
        with trio.move_on_after(5):
            found = call()
            found = await found if inspect.isawaitable(found) else found
            if hasattr(found, "__aenter__"):
                async with found as opened:
                    if hasattr(opened, "__anext__"):
                        await anext(opened, None)
    except AgentrailError as error:
        str(error).encode("utf-8", "backslashreplace")


@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data())
def test_an_odd_argument_of_a_function_is_refused_by_an_error_of_agentrail(name, data):
    """Or taken, where it means something; a constructor and a decorator, too."""
    function = getattr(agentrail, name)
    sound = KEYWORDS.get(f"agentrail.{name}", {})
    positional, named = odd_calls(data.draw, inspect.signature(function), sound)
    trio.run(use, partial(function, *positional, **named), clock=MockClock(autojump_threshold=0.05))


@pytest.mark.parametrize(
    "kind", [agentrail.Session, agentrail.SessionSupervisor], ids=lambda kind: kind.__name__
)
@settings(max_examples=60)
@given(data=st.data())
def test_an_odd_argument_of_a_method_is_refused_and_the_session_goes_on(kind, data):
    """Whatever it is given, another session of the supervisor answers, and nothing was restarted."""
    signatures = methods_of(kind)
    name = data.draw(st.sampled_from(sorted(signatures)))
    sound = KEYWORDS.get(f"{kind.__name__}.{name}", {})
    positional, named = odd_calls(data.draw, signatures[name], sound)

    async def main() -> None:
        async with agentrail.open_supervisor(store=MemoryStore()) as supervisor:
            model = FunctionModel(lambda *_: says("fine"))
            session = await supervisor.start_session(model=model, session_id="s-1")
            bystander = await supervisor.start_session(model=model)
            owner = session if kind is agentrail.Session else supervisor
            await use(partial(getattr(owner, name), *positional, **named))
            assert await bystander.ask("Hi") == "fine"
            assert supervisor.statistics().restarts == 0

    trio.run(main, clock=MockClock(autojump_threshold=0.05))
