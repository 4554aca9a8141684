"""What a user can meet has its line in the reference."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

import agentrail.actors
import agentrail.cli
from agentrail.core.protocol.effects import Effect
from agentrail.core.protocol.signals import Signal
from agentrail.errors import AgentrailError
from agentrail.events import Event
from scripts.generate_docs import ACTOR_SECTIONS, fields_in

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


@pytest.mark.parametrize("event", get_args(Event), ids=lambda event: event.__name__)
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
    """Each command has its line under docs/reference."""
    assert command_names()
    assert sorted(command_names() - names_in_the_reference()) == []


def test_every_name_of_the_door_of_actors_is_documented():
    """What `agentrail.actors` gives stands on its page, once; its errors stand on the page of errors."""
    shown = [name for names in ACTOR_SECTIONS.values() for name in names.split()]
    errors = {error.__name__ for error in error_classes(AgentrailError)}
    assert sorted(shown) == sorted({*agentrail.actors.__all__} - errors)
