"""Child specs and flags: what is legal, what is filled in, and the code of each refusal."""

import functools
import math
from typing import Any

import pytest

from agentrail.errors import InvalidSpec
from agentrail.otp.child_specs import (
    Arguments,
    Backoff,
    ChildSpec,
    StartRecipe,
    SupervisorFlags,
    check_child_specs,
)

NOT_CALLABLE: Any = 7


async def serve(*args):
    """Stand for a child."""


def refusal_of(make):
    """Return what `make` is refused with."""
    with pytest.raises(InvalidSpec) as caught:
        make()
    return caught.value


@pytest.mark.scenario("S-013", "S-015", "S-012")
@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ({}, "missing_id", "an empty mapping"),
        ({"start": serve}, "missing_id", "'start'"),
        ({"id": "x"}, "missing_start", "'id'"),
        ({"id": None, "start": serve}, "missing_id", "None"),
        ({"id": [], "start": serve}, "missing_id", "hashable"),
        ({"id": "x", "start": "serve"}, "invalid_start", "'serve'"),
        ({"id": "x", "start": refusal_of}, "invalid_start", "refusal_of"),
        ({"id": "x", "start": StartRecipe(NOT_CALLABLE)}, "invalid_start", "7"),
        ({"id": "x", "start": serve, "restart": "always"}, "invalid_restart", "'transient'"),
        ({"id": "x", "start": serve, "restart": ["permanent"]}, "invalid_restart", "'transient'"),
        ({"id": "x", "start": serve, "significant": 1}, "invalid_significant", "True or False"),
        ({"id": "x", "start": serve, "kind": "woker"}, "invalid_kind", "'worker'"),
        ({"id": "x", "start": serve, "shutdown_seconds": -1}, "invalid_shutdown", "-1"),
        ({"id": "x", "start": serve, "shutdown_seconds": math.nan}, "invalid_shutdown", "nan"),
        ({"id": "x", "start": serve, "shutdown_seconds": math.inf}, "invalid_shutdown", "'infinity'"),
        ({"id": "x", "start": serve, "shutdown_seconds": None}, "invalid_shutdown", "None"),
        ({"id": "x", "start": serve, "shutdown_seconds": True}, "invalid_shutdown", "True"),
        ({"id": "x", "start": serve, "start_timeout_seconds": 0}, "invalid_start_timeout", "above 0"),
        (
            {"id": "x", "start": serve, "start_timeout_seconds": "brutal_kill"},
            "invalid_start_timeout",
            "brutal",
        ),
        ({"id": "x", "start": serve, "shutdown": 3}, "unknown_field", "'shutdown_seconds'"),
        ("x", "invalid_spec", "'x'"),
    ],
)
def test_bad_spec(spec, code, words):
    """Each fault has a code of its own, and the message says what came and what is allowed."""
    refusal = refusal_of(lambda: check_child_specs([{"id": "good", "start": serve}, spec]))
    assert refusal.code == code
    assert words in str(refusal)


@pytest.mark.scenario("S-015")
def test_fields_are_checked_in_their_order():
    """The first fault is the one that is told, and each spec is checked before all are compared."""
    bad = {"id": "x", "start": 1, "restart": 2, "significant": 3, "kind": 4, "shutdown_seconds": "5"}
    right = {
        "start": serve,
        "restart": "transient",
        "significant": False,
        "kind": "worker",
        "shutdown_seconds": 5,
    }
    told = []
    for name, value in right.items():
        told.append(refusal_of(lambda: check_child_specs([bad])).field)
        bad[name] = value
    assert told == list(right)
    assert refusal_of(lambda: check_child_specs([bad, bad, {"start": serve}])).code == "missing_id"


@pytest.mark.scenario("S-012", "S-017", "S-018", "S-020")
def test_what_depends_on_the_neighbours_and_the_flags():
    """Without flags a significant child needs only to be able to end; with them a supervisor that minds."""
    transient = ChildSpec("x", serve, "transient", significant=True)
    assert check_child_specs([transient]) == (transient,)
    for auto_shutdown, legal in (("never", False), ("any_significant", True), ("all_significant", True)):
        flags = SupervisorFlags("one_for_one", auto_shutdown=auto_shutdown)
        if legal:
            assert check_child_specs([transient], flags=flags) == (transient,)
        else:
            refusal = refusal_of(functools.partial(check_child_specs, [transient], flags=flags))
            assert refusal.code == "bad_significant"
            assert "auto_shutdown" in str(refusal)
        permanent = ChildSpec("x", serve, significant=True)
        refusal = refusal_of(functools.partial(check_child_specs, [permanent], flags=flags))
        assert refusal.code == "bad_significant"
        assert "permanent" in str(refusal)
    assert "'x'" in str(refusal_of(lambda: check_child_specs([transient, transient])))
    for count in (0, 2):
        specs = [ChildSpec(number, serve) for number in range(count)]
        refusal = refusal_of(functools.partial(check_child_specs, specs, flags=SupervisorFlags("dynamic")))
        assert refusal.code == "one_template"
        assert str(count) in str(refusal)


def test_arguments_are_copied_as_far_as_they_are_containers():
    """Built-in containers, however deep, each once, and also one that contains itself; other objects are shared."""

    class Mine(list):
        pass

    shared, mine, names = object(), Mine([1]), {"a"}
    knot = [shared, mine, names, names, bytearray(b"x"), ({"k": [1]},)]
    knot.append(knot)
    arguments = Arguments((knot,), {"again": knot})
    copied = arguments.copied()
    (copy,) = copied.positional
    assert copy is not knot
    assert copy[-1] is copy
    assert copied.keyword["again"] is copy
    assert copy[0] is shared
    assert copy[1] is mine
    assert copy[2] is copy[3]
    assert copy[2] is not names
    assert copy[:6] == knot[:6]
    copy[5][0]["k"].append(2)
    assert knot[5] == ({"k": [1]},)


ALLOWED = {
    "strategy": "one of 'one_for_one', ",
    "intensity": "an integer >= 0",
    "period_seconds": "finite seconds above 0",
    "auto_shutdown": "one of 'never', ",
    "backoff": "a Backoff",
}


@pytest.mark.scenario("S-016")
@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ({"strategy": "one_for_none"}, "invalid_strategy"),
        ({"strategy": None}, "invalid_strategy"),
        *(({"intensity": value}, "invalid_intensity") for value in (-1, math.inf, True, 1.0, "1", None)),
        *(
            ({"period_seconds": value}, "invalid_period")
            for value in (0, -1, math.inf, math.nan, 1e306, True, "5")
        ),
        ({"auto_shutdown": "always"}, "invalid_auto_shutdown"),
        ({"backoff": 1.0}, "invalid_backoff"),
        *(({"max_children": n, "strategy": "dynamic"}, "invalid_max_children") for n in (0, True, 1.5)),
        ({"max_children": 5}, "invalid_max_children"),
        ({"stuck_after_seconds": -1}, "invalid_stuck_after"),
        ({"stop_within_seconds": 0}, "invalid_stop_within"),
        ({"intensity_per": "family", "strategy": "dynamic"}, "invalid_intensity_per"),
        ({"intensity_per": "child"}, "invalid_intensity_per"),
    ],
)
def test_bad_flags(flags, code):
    """Each flag has a code of its own; the message has the flag, what came, and what is allowed."""
    refusal = refusal_of(lambda: SupervisorFlags(**{"strategy": "one_for_one", **flags}))
    field = next(iter(flags))
    assert (refusal.code, refusal.field) == (code, field)
    assert f"{field} is {flags[field]!r}: expected {ALLOWED.get(field, '')}" in str(refusal)


@pytest.mark.scenario("S-016")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("initial_seconds", 0),
        ("initial_seconds", "1"),
        ("initial_seconds", [1]),
        ("maximum_seconds", 0.1),
        ("maximum_seconds", "1"),
        ("maximum_seconds", math.inf),
        ("factor", 0.5),
        ("factor", math.nan),
        ("jitter", -0.1),
        ("jitter", 1.1),
        ("reset_after_seconds", -1),
    ],
)
def test_bad_back_off(field, value):
    """A wait is finite, does not shrink, and is not longer by more than itself."""
    refusal = refusal_of(lambda: Backoff(**{field: value}))
    assert (refusal.code, refusal.field) == ("invalid_backoff", field)
