"""Values of a wrong type, given where several are expected."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from agentrail.blueprints import read_skills
from agentrail.errors import AgentrailError
from agentrail.gateway import TokenEntry, Tokens
from agentrail.host import HostOptions, Principal
from agentrail.tools import builtin
from agentrail.web.rules import WebRules

FIVE: Any = 5  # what no type checker would let through
TEXT: Any = "com"
LIST: Any = ["bash"]


def principal(scopes: Any) -> Principal:
    return Principal(tenant_id="a", user_id="u", scopes=scopes)


def entry(**given: Any) -> TokenEntry:
    return TokenEntry(digest=b"x" * 32, tenant_id="a", **given)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: HostOptions(profiles=FIVE), "profiles is 5: expected a sequence"),
        (lambda: HostOptions(plugins=FIVE, store="postgres://u@h/d"), "plugins is 5: expected a sequence"),
        (lambda: HostOptions(session_plugins=FIVE), "session_plugins is 5: expected a sequence"),
        (lambda: principal(None), "scopes is None: expected a set of texts"),
        (lambda: principal("use"), "scopes is 'use': expected a set of texts"),
        (lambda: principal([["use"]]), "scopes is [['use']]: expected a set of texts"),
        (lambda: entry(scopes=FIVE), "scopes is 5: expected a set of texts"),
        (lambda: entry(expires_at=math.nan), "`expires_at` is nan: expected seconds since 1970"),
        (lambda: entry(expires_at="2030"), "`expires_at` is '2030': expected seconds since 1970"),
        (lambda: Tokens(FIVE), "there is no token: create one with `agentrail token new`"),
        (lambda: WebRules(allow=FIVE), "5 is given for domains: expected a list of them"),
        (lambda: WebRules(block=TEXT), "'com' is given for domains: expected a list of them"),
        (lambda: WebRules(ports=FIVE), "5 is given for ports: expected a list of them"),
        (lambda: WebRules(proxy=FIVE), "the proxy is not an address"),
        (lambda: builtin(FIVE), "no built-in tool is named 5"),
        (lambda: builtin(LIST), "no built-in tool is named ['bash']"),
        (lambda: read_skills(None), "directories has None: expected paths"),  # type: ignore[arg-type]  # on purpose
    ],
)
def test_a_value_of_a_wrong_type_is_refused_where_it_is_written(
    make: Callable[[], object], fault: str
) -> None:
    """With the library's own error, and not with Python's for a value that has no items or no hash."""
    with pytest.raises(AgentrailError) as caught:
        make()
    assert fault in str(caught.value)
