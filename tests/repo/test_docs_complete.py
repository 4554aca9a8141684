"""What a user can meet has its line in the reference."""

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import get_args

import attrs
import msgspec
import pytest

import agentrail.actors
import agentrail.cli
from agentrail.cli.serve_options import ServeFlags
from agentrail.core.protocol.effects import Effect
from agentrail.core.protocol.signals import Signal
from agentrail.errors import AgentrailError
from agentrail.events import KINDS, Event
from agentrail.gateway.app import OWN_OPTIONS, ROUTES
from agentrail.gateway.error_responses import ERROR_ANSWERS
from agentrail.gateway.socket_calls import socket_commands
from agentrail.gateway.sse_frames import DoneReason
from agentrail.host.host_options import HostOptions
from agentrail.host.quotas import Limits
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.wire.server_frames import CloseCode
from scripts import api_pages
from scripts.generate_docs import ACTOR_SECTIONS, fields_in
from scripts.names_pages import public_names
from tests.thinned import each

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def names_in_the_reference() -> set[str]:
    """Every name that some page of the reference sets in code type."""
    pages = (path.read_text(encoding="utf-8") for path in REFERENCE.rglob("*.md"))
    spans = (span for page in pages for span in re.findall(r"`([^`\n]+)`", page))
    return {word for span in spans for word in re.findall(r"[A-Za-z_][\w-]*", span)}


def error_classes(root: type[AgentrailError]) -> Iterator[type[AgentrailError]]:
    """An error and everything below it in the tree."""
    yield root
    for below in root.__subclasses__():
        yield from error_classes(below)


def command_names() -> set[str]:
    """The commands, without the options that every command has."""
    return {name for name in agentrail.cli.app if not name.startswith("-")}


UNIONS = {"event": Event, "signal": Signal, "effect": Effect}


@pytest.mark.parametrize("kind", UNIONS)
def test_every_member_of_a_closed_union_is_documented(kind):
    """Each event, signal and effect has its line under docs/reference."""
    members = {member.__name__ for member in get_args(UNIONS[kind])}
    assert members, f"{kind} is no union: the test would prove nothing"
    assert sorted(members - names_in_the_reference()) == []


@each("event", get_args(Event))
def test_every_field_of_an_event_is_described(event):
    """Each field has its sentence in the docstring, which the page and the schema are made from, and no other has one."""
    described = [name for name, _ in fields_in(event)]
    assert described == [field.name for field in msgspec.structs.fields(event) if field.name != "meta"]


def test_every_public_error_is_documented():
    """Each error that a user can catch has its line under docs/reference."""
    public = {
        error.__name__
        for error in error_classes(AgentrailError)
        if error.__module__.startswith("agentrail.errors.")
    }
    assert len(public) > 1
    assert sorted(public - names_in_the_reference()) == []


def test_every_command_is_documented():
    """Each command has its row in the reference of the command, which counts them, and a section."""
    names = command_names()
    assert sorted(names - rows_of("cli.md")) == []
    text = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    tens, ones = (
        {"twenty": 20, "thirty": 30},
        ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
    )
    ((ten, one),) = re.findall(r"^`agentrail` has (\w+)-(\w+) commands\.", text, re.MULTILINE)
    assert len(names) == tens[ten] + ones.index(one)
    described = set(
        re.findall(r"`(?:agentrail )?([\w-]+)`", "".join(re.findall(r"^## .*$", text, re.MULTILINE)))
    )
    assert sorted(names - described - ALIASES) == []


ALIASES = {"replay", "store"}
"""Commands that are another one by a shorter name."""


def test_every_name_of_the_door_of_actors_is_documented():
    """What `agentrail.actors` gives stands on its page, once; its errors stand on the page of errors."""
    shown = [name for names in ACTOR_SECTIONS.values() for name in names.split()]
    errors = {error.__name__ for error in error_classes(AgentrailError)}
    assert sorted(shown) == sorted({*agentrail.actors.__all__} - errors)


def rows_of(page: str) -> set[str]:
    """What stands in backticks at the beginning of a row of a table, or of a heading."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    first = re.findall(r"^(?:\| (?:\d+ \| )?\[?|#+ |\*\*)`([^`]+)`", text, re.MULTILINE)
    codes = re.findall(r"^\| \d+ \| (`[^|]+) \|", text, re.MULTILINE)  # of one status, with one remedy
    return {*first, *(code for cell in codes for code in re.findall(r"`([^`]+)`", cell))}


SERVED = {
    "routes": ("routes.md", {f"{one.method} {one.path.replace(':path', '')}" for one in ROUTES}),
    "codes": ("routes.md", {row.code or code for code, row in ERROR_ANSWERS.items()}),
    "reasons": ("wire.md", set(get_args(DoneReason))),
    "commands": ("wire.md", set(socket_commands(ROUTES))),
    "frames": (
        "wire.md",
        {
            "hello",
            "subscribe",
            "unsubscribe",
            "ping",
            "welcome",
            "subscribed",
            "reply",
            "event",
            "pong",
            "lag",
            "closing",
        },
    ),
    "events": ("wire.md", set(KINDS.values())),
    "options": (
        "server-options.md",
        {*OWN_OPTIONS, *(one.name for one in attrs.fields(HostOptions) if one.init)},
    ),
    "limits": ("server-options.md", {one.name for one in attrs.fields(Limits)}),
    "options of serve": (
        "server-options.md",
        {f"--{one.name.replace('_', '-')}" for one in attrs.fields(ServeFlags)},
    ),
}


@pytest.mark.parametrize("what", SERVED)
def test_what_a_server_has_stands_in_its_reference(what):
    """Routes, codes, frames, closing codes, options: none is left out."""
    page, wanted = SERVED[what]
    assert wanted
    assert sorted(wanted - rows_of(page)) == []


def test_every_code_of_a_close_is_documented():
    """Over the socket."""
    text = (REFERENCE / "wire.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| (\d{4}) \|", text, re.MULTILINE)) == {f"{code.value}" for code in CloseCode}


def names_of(sections: Mapping[str, str]) -> list[str]:
    """What stands on a page, in any order."""
    return sorted(name for names in sections.values() for name in names.split())


def test_every_call_of_a_session_and_a_supervisor_is_documented():
    """Each member for callers stands on the page of its class, once, with what it does."""
    supervisor = api_pages.public_names(SessionSupervisor)
    assert names_of(api_pages.SESSION) == sorted(api_pages.public_names(Session))
    assert names_of(api_pages.SUPERVISOR) == sorted(supervisor)
    for kind, names in api_pages.GIVEN.items():
        shown = {name for name in names.split() if not name.startswith("_")}
        assert shown == api_pages.public_names(kind) - api_pages.OF_A_SUBSCRIPTION, kind


@pytest.mark.parametrize("page", ["session-api.md", "supervisor-api.md"])
def test_what_the_pages_of_calls_link_to_is_there(page):
    """Each name in the list at the top has its heading."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    headings = set(re.findall(r"^### `(\w+)`$", text, re.MULTILINE))
    links = re.findall(r"\]\(#(\w+)\)", text)
    assert links
    assert set(links) <= headings


def test_every_public_name_and_method_has_a_docstring():
    """The linter asks no docstring of an internal name, so this asks one of each public class, function, method and property."""
    for one in public_names():
        thing = getattr(import_module(one.module), one.name)
        ours = inspect.isroutine(thing) or inspect.isclass(thing)
        if not ours or not thing.__module__.startswith("agentrail"):
            continue
        assert inspect.getdoc(thing), f"{one.module}.{one.name}"
        for name, member in inspect.getmembers(thing, inspect.isfunction) + inspect.getmembers(
            thing, inspect.isdatadescriptor
        ):
            code = member.fget if isinstance(member, property) else member
            if (
                not name.startswith("_")
                and inspect.isfunction(code)
                and code.__module__.startswith("agentrail")
            ):
                assert inspect.getdoc(member), f"{one.module}.{one.name}.{name}"
