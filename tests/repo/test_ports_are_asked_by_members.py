"""Whether an object offers a port is asked with `offers`: from Python 3.12 on, `isinstance` finds no member of a `__getattr__`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrail.abc import store

ROOT = Path(__file__).parents[2]
PORTS = {name for name, one in vars(store).items() if getattr(one, "_is_protocol", False)}


def asked_by_class(source: str) -> Iterator[int]:
    """Yield the lines that ask `isinstance` for a port."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, classes]):
                if PORTS & {one.id for one in ast.walk(classes) if isinstance(one, ast.Name)}:
                    yield node.lineno


def test_the_rule_finds_what_it_is_for():
    """Also in a union and in a tuple."""
    source = "isinstance(a, OwedStore)\nisinstance(a, Store | None)\nisinstance(a, (int, Store))\nisinstance(a, int)"
    assert [*asked_by_class(source)] == [1, 2, 3]


@pytest.mark.parametrize("room", ["runtime", "host", "gateway", "stores", "cli", "testing"])
def test_no_port_of_a_store_is_asked_by_class(room):
    """A store that wraps another one, with `__getattr__`, is known by each Python."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "agentrail" / room).rglob("*.py"))
        for line in asked_by_class(path.read_text())
    ]
    assert found == []
