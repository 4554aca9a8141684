"""Values of a wrong type, given where several are expected."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from agentrail.abc import MemoryOwner
from agentrail.blueprints import SkillUse, read_skills
from agentrail.commands import CommandAnswer, CommandCall, SlashCommand
from agentrail.errors import AgentrailError
from agentrail.evals import Judge
from agentrail.gateway import TokenEntry, Tokens
from agentrail.gateway.serving import ConnectionLimits
from agentrail.host import HostOptions, Principal
from agentrail.sandboxes.command_runner import CommandLimits
from agentrail.sandboxes.composite import CompositeSandbox
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.sandboxes.remote.client import RemoteSandbox
from agentrail.sandboxes.remote.container import ContainerLimits, ContainerSandbox
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.tools import builtin
from agentrail.tools.client import ClientTool
from agentrail.tools.mcp import McpServer
from agentrail.tools.task import TaskTool
from agentrail.web.rules import WebRules

FIVE: Any = 5  # what no type checker would let through
TEXT: Any = "com"
LIST: Any = ["bash"]


async def greet(call: CommandCall) -> CommandAnswer:
    return CommandAnswer(lines=(call.text,))


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
        (lambda: Tokens(FIVE), "entries is of type int: expected a sequence, each TokenEntry(…)"),
        (lambda: WebRules(allow=FIVE), "5 is given for domains: expected a list of them"),
        (lambda: WebRules(block=TEXT), "'com' is given for domains: expected a list of them"),
        (lambda: WebRules(ports=FIVE), "5 is given for ports: expected a list of them"),
        (lambda: WebRules(proxy=FIVE), "the proxy is not an address"),
        (lambda: Principal(tenant_id=FIVE, user_id="u"), "tenant_id is 5: expected a text"),
        (lambda: HostOptions(files_are_shared=FIVE), "files_are_shared is 5: expected True or False"),
        (
            lambda: HostOptions(environ=FIVE),
            "environ is of type int: expected a mapping, each a text, or None",
        ),
        (lambda: SlashCommand(name="a", description=FIVE, run=greet), "description is 5: expected a text"),
        (lambda: CommandAnswer(lines=TEXT), "lines is 'com': expected a sequence, each a text"),
        (lambda: Judge(rubric=FIVE, model="demo:"), "rubric is 5: expected a text"),
        (lambda: McpServer("a", command=["b"], cwd=FIVE), "cwd is 5: expected a path"),
        (lambda: McpServer("a", command=["b"], pins="\0"), "pins is '\\x00': expected a path"),
        (lambda: MemoryOwner(user=FIVE), "user is 5: expected a text"),
        (lambda: SkillUse(skills=FIVE), "skills is 5: expected SkillSet(…)"),
        (lambda: WebRules(inside=FIVE), "inside is 5: expected AllowedPlaces(…)"),
        (lambda: WebRules(robots=TEXT), "robots is 'com': expected True or False"),
        (lambda: ConnectionLimits(idle_seconds=math.nan), "idle_seconds is nan: expected finite seconds"),
        (lambda: ConnectionLimits(backlog=True), "backlog is True: expected a whole number >= 1"),
        (lambda: ClientTool(name=FIVE, description="d", parameters={}), "name is 5: expected a text"),
        (
            lambda: ClientTool(name="c", description="d", parameters=FIVE),
            "parameters is 5: expected a mapping",
        ),
        (lambda: TaskTool(max_depth=0), "max_depth is 0: expected a whole number >= 1"),
        (lambda: TaskTool(timeout_seconds=-1), "timeout_seconds is -1: expected finite seconds above 0"),
        (lambda: LocalSandbox(FIVE), "root is 5: expected a path"),
        (lambda: LocalSandbox(".", protected=TEXT), "protected is 'com': expected a sequence, each a text"),
        (lambda: LocalSandbox(".", readable=TEXT), "readable is 'com': expected a sequence, each a text"),
        (lambda: LocalSandbox(".", virtual_mode=FIVE), "virtual_mode is 5: expected True or False"),
        (lambda: LocalSandbox(".", limits=FIVE), "limits is 5: expected CommandLimits(…), or None"),
        (
            lambda: CommandLimits(max_memory_bytes=-1),
            "max_memory_bytes is -1: expected a whole number from 1 to",
        ),
        (lambda: CommandLimits(max_file_bytes=2**63), "expected a whole number from 1 to 2**63 - 1"),
        (lambda: MemorySandbox(FIVE), "files is 5: expected a mapping"),
        (lambda: CompositeSandbox(MemorySandbox(), FIVE), "routes is 5: expected a mapping"),
        (lambda: ContainerSandbox("i", skills=FIVE), "skills is 5: expected a path, without NUL"),
        (
            lambda: ContainerSandbox("i", working_dir="a\0"),
            "working_dir is 'a\\x00': expected a path, without NUL",
        ),
        (lambda: ContainerSandbox("i", program="a\0"), "program is 'a\\x00': expected a path, without NUL"),
        (lambda: ContainerSandbox("i", limits=FIVE), "limits is 5: expected ContainerLimits(…)"),
        (lambda: ContainerLimits(cpus=0), "cpus is 0: expected a number from 0.01 to 1,000,000"),
        (lambda: ContainerLimits(cpus=-1), "cpus is -1: expected a number from 0.01"),
        (lambda: ContainerLimits(cpus=float("inf")), "cpus is inf: expected a number from 0.01"),
        (lambda: ContainerLimits(memory_bytes=2**63), "expected a whole number from 1 to 2**63 - 1"),
        (lambda: ContainerLimits(processes=10**30), "expected a whole number from 1 to 2**63 - 1"),
        (lambda: RemoteSandbox("http://127.0.0.1:1", token=FIVE), "token is of type int: expected a text"),
        (lambda: SqliteStore("a.db", read_only=TEXT), "read_only is 'com': expected True or False"),
        (lambda: SqliteStore("a.db", lease_ms=-1), "lease_ms is -1: expected a whole number >= 0"),
        (lambda: MemoryStore(now_ms=FIVE), "now_ms is 5: expected a function, or None"),
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
