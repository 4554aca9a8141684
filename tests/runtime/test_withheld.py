"""Where secrets come from that a session knows; and what else leaves the process: the log, and exports (AT-154)."""

import gc
import logging

import pytest
import structlog

from agentrail.abc import Secret
from agentrail.abc.held_secrets import keys_in, secrets_held_by, secrets_in_variables
from agentrail.core.values.secret_scrubber import REPLACEMENT as SAID
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.errors import OptionError
from agentrail.logs import Logger
from agentrail.runtime.session_export import leaving_export
from agentrail.runtime.tree_secrets import (
    MAX_VALUES,
    Withheld,
    handles_in,
    has_handle,
    knowing,
    known_secrets,
    without_known,
)
from agentrail.sandboxes.local import LocalSandbox
from agentrail.testing.faults import FaultPlan
from agentrail.testing.models import FunctionModel, says
from tests.thinned import each

KEY = "sk-canary-of-this-file"

pytestmark = pytest.mark.at(154)


# --- where they are found


@each(
    "options",
    [
        {"api_key": KEY},
        {"api_key": Secret(KEY)},
        {"extra": [{"deep": (Secret(KEY),)}]},
        {"headers": {"Authorization": f"Bearer {KEY}"}},
        {"headers": {"X-Api-Key": KEY, "Accept": "application/json", "gone-token": None}},
        {"base_url": f"https://me:{KEY}@example.org/v1"},
    ],
)
def test_options_of_a_provider_hold_keys_in_known_places(options):
    """The key, headers that let a request in, and a password in an address; each alone, as it may be repeated."""
    assert KEY in [secret.reveal() for secret in keys_in(options)]
    withheld = Withheld()
    withheld.learn_options(options)
    assert withheld.replaced(f"it is {KEY}, application/json") == f"it is {SAID}, application/json"
    assert KEY not in repr(withheld)


@each("options", [{}, {"base_url": "http://[", "headers": 7, "api_key": len}, {"api_key": None}])
def test_options_that_hold_none_make_nothing_known(options):
    """Also those that are wrong, which another place says."""
    withheld = Withheld()
    withheld.learn_options(options)
    withheld.learn({})
    withheld.learn({"key": Secret("short")})
    assert withheld.known is None
    assert withheld.replaced("short") == "short"
    assert withheld.in_value(options) is options


def test_an_adapter_says_what_it_holds():
    """In `secrets`; what is no tuple of texts, or raises, says nothing."""

    class Broken:
        @property
        def secrets(self):
            raise ValueError

    class Holds:
        secrets = (KEY, Secret("another-canary"), 7)

    assert secrets_held_by(Holds()) == (KEY, "another-canary")
    assert secrets_held_by(Broken()) == secrets_held_by(object()) == secrets_held_by(logging) == ()
    withheld = Withheld()
    withheld.learn_from(object())
    assert withheld.known is None
    withheld.learn_from(Holds())
    known = withheld.known
    withheld.learn_from(Holds())
    assert withheld.known is known
    model = FunctionModel(lambda _: says("ok"))
    assert secrets_held_by(FaultPlan(1).model(model)) == ()


def test_a_sandbox_holds_what_commands_are_given(tmp_path):
    """A `Secret`, or what a name speaks of; others are words that texts are full of."""
    env = {
        "GITHUB_TOKEN": KEY,
        "MODE": "production",
        "OTHER": Secret("another-canary"),
        "GIT_AUTHOR_NAME": "John Smith",
    }
    assert secrets_in_variables(env) == (KEY, "another-canary")
    assert LocalSandbox(tmp_path, env=env).secrets == (KEY, "another-canary")
    assert LocalSandbox(tmp_path).secrets == ()


@pytest.mark.check
def test_of_keys_that_change_the_newest_are_remembered():
    """Else a session of a year would look for thousands."""
    withheld = Withheld()
    for number in range(MAX_VALUES + 5):
        withheld.learn({"key": Secret(f"rotated-{number:05}")})
    assert withheld.replaced("rotated-00004 rotated-00005") == f"rotated-00004 {SAID}"


def test_the_same_values_are_looked_for_by_one():
    """Ten thousand sessions with one key make its forms once; when they are gone, nothing is left."""
    one, other = Withheld(), Withheld()
    for withheld in (one, other):
        withheld.learn({"key": Secret(KEY)})
    assert one.known is other.known
    del one, other, withheld
    gc.collect()
    assert without_known(KEY) == KEY


def test_data_becomes_handles():
    """All that is written of a `Secret` is that there was one; data without any is the very one."""
    data = {"key": Secret(KEY), "deep": [{"a": (1, Secret(KEY))}], "x": None}
    assert handles_in(data) == {"key": SAID, "deep": [{"a": [1, SAID]}], "x": None}
    assert has_handle(handles_in(data)["deep"])
    plain = {"a": [1, {"b": ("c",)}]}
    assert handles_in(plain) is plain
    assert not has_handle(plain)


def test_tools_are_told_of_without_secrets():
    """What a model reads of them; a list without any is the very one."""
    withheld = Withheld()
    plain = Toolbox([ToolSpec(name="a", description="b", parameters={"type": "object"})])
    assert withheld.in_tools(plain) is plain
    withheld.learn({"key": Secret(KEY)})
    assert withheld.in_tools(plain) is plain
    told = Toolbox(
        [ToolSpec(name="a", description=f"with {KEY}", parameters={"type": "object", "title": KEY})]
    )
    (spec,) = withheld.in_tools(told)
    assert (spec.description, spec.parameters["title"]) == (f"with {SAID}", SAID)


# --- what leaves the process


def test_no_record_of_the_log_holds_what_any_session_knows(caplog):
    """Whatever part of agentrail writes it; in its words, its fields, its traceback."""

    class Shy:
        def __repr__(self):
            raise ValueError

    with knowing([KEY]):
        Logger("agentrail.test").warning("saw %s", KEY, key=KEY, deep=[KEY], count=7, shy=Shy() and 8)
        Logger("agentrail.test").error("bug", exception=f"Traceback\nValueError: {KEY}")
        (warned, failed) = [record.getMessage() for record in caplog.records]
        structlog.configure(processors=[structlog.processors.KeyValueRenderer()])
        try:
            with structlog.testing.capture_logs() as heard:
                Logger("agentrail.test").warning("saw", deep={"k": KEY}, shy=Shy(), count=7)
        finally:
            structlog.reset_defaults()
    assert warned == f"saw {SAID} key='{SAID}' deep=\"['{SAID}']\" count=7 shy=8"
    assert failed == f"bug\nTraceback\nValueError: {SAID}"
    assert KEY not in repr(heard[0]["deep"])
    assert heard[0]["count"] == 7


def test_an_export_is_looked_at_once_more():
    """What was recorded before it was known as a secret: it is replaced, or not exported where nothing can be replaced."""
    data = f"it is {KEY}".encode()
    assert leaving_export(data, is_exact=True) is data
    with knowing([KEY]):
        assert leaving_export(data, is_exact=False) == f"it is {SAID}".encode()
        assert leaving_export(b"x", is_exact=True) == b"x"
        with pytest.raises(OptionError, match="export without content, or as markdown"):
            leaving_export(data, is_exact=True)
    assert known_secrets(()) is not None
