"""Checks of `agentrail doctor` beyond a single run: extras, open files, MCP servers, nodes, clock, readers of events. None starts anything."""

import re
import resource
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

import trio
from attrs import frozen

from agentrail import outside
from agentrail.abc.store import OwedStore, Store, StoredSession
from agentrail.cli.host_config import named_telemetry
from agentrail.cli.store_access import Owners
from agentrail.config.host_limits import Limits
from agentrail.config.settings import LIMITS_PREFIX, Settings
from agentrail.core.values.port_members import offers
from agentrail.distribution import NAME, install_command
from agentrail.errors import OptionError
from agentrail.sandboxes.programs import find_program
from agentrail.telemetry.reader import events_behind

CheckVerdict: TypeAlias = Literal["good", "absent", "bad"]

ONE_CHECK_SECONDS: Final = 10.0
"""Time limit of each check."""
_CONNECT_SECONDS: Final = 3.0
_EXTRA: Final = re.compile(r"([\w.-]+).*; extra == ['\"]([\w-]+)['\"]")
_OF_DEVELOPERS: Final = frozenset({"dev", "docs", "test"})
_SPARE_FILES: Final = 256
_CLOCK_MS: Final = 1_000
_MANY_BEHIND: Final = 10_000


@frozen
class Finding:
    """The result of one check.

    Attributes:
        text: The result. Never the value of a variable.
    """

    name: str
    verdict: CheckVerdict
    text: str
    remedy: str | None = None


async def within_limit(name: str, check: Callable[[], Awaitable[Sequence[Finding]]]) -> Sequence[Finding]:
    with trio.move_on_after(ONE_CHECK_SECONDS):
        return await check()
    text = f"no result within {ONE_CHECK_SECONDS:g} s"
    return (Finding(name, "bad", text, "look at its disk or network"),)


async def in_thread(name: str, check: Callable[[], Sequence[Finding]]) -> Sequence[Finding]:
    return await within_limit(name, lambda: outside.offload(check, abandon_on_cancel=True))


def look_at_extras(
    settings: Settings | None, missing: Mapping[str, Sequence[str]] | None = None
) -> Iterator[Finding]:
    """Report the installed extras, and missing packages of those that a configured feature needs."""
    missing = _missing_packages() if missing is None else missing
    there = ", ".join(name for name, packages in missing.items() if not packages)
    yield Finding("extras", "good", f"installed: {there or 'none'}")
    for name, feature in () if settings is None else _needed_extras(settings):
        if missing.get(name):
            text = f"{feature} needs {name}, which lacks {', '.join(missing[name])}"
            remedy = f"install it: {install_command(name)}"
            verdict: CheckVerdict = "absent" if feature == "[host]" else "bad"  # a run works without a server
            yield Finding("extras", verdict, text, remedy)


def _missing_packages() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for requirement in metadata.requires(NAME) or ():
        match = _EXTRA.match(requirement)
        if match is not None and match[2] not in _OF_DEVELOPERS:
            is_there = any(metadata.distributions(name=match[1]))
            found.setdefault(match[2], []).extend([] if is_there else [match[1]])
    return found


def _needed_extras(settings: Settings) -> list[tuple[str, str]]:
    served = settings.host["protocols"].plain if "protocols" in settings.host else ()
    wanted = (
        ("gateway", "[host]", settings.host),
        ("a2a", "[host]", "a2a" in served),
        ("mcp", "[host]", "mcp" in served),
        ("mcp", "[mcp]", settings.mcp),
        ("embeddings", "[embedder]", settings.embedder),
        ("otel", "[telemetry]", settings.telemetry),
    )
    return [(name, feature) for name, feature, is_wanted in wanted if is_wanted]


def look_at_telemetry(settings: Settings | None, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check the variables and the table that name a collector. Commands that run sessions refuse faulty ones."""
    try:
        if named_telemetry(settings, environ):
            yield Finding("telemetry", "good", "spans of sessions are exported")
    except OptionError as error:
        remedy = "correct it, or unset it to export nothing"
        yield Finding("telemetry", "bad", str(error), remedy)


def look_at_open_files(settings: Settings | None, soft: int | None = None) -> Iterator[Finding]:
    """Compare the limit of open files with the sessions and streams that a server accepts."""
    if settings is not None and settings.host:
        given, usual = {name: said.value for name, said in settings.host.items()}, Limits()
        streams = given.get(f"{LIMITS_PREFIX}max_streams", usual.max_streams)
        sessions = given.get(f"{LIMITS_PREFIX}max_sessions_per_principal", usual.max_sessions_per_principal)
        wanted = _SPARE_FILES + streams + sessions
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if soft is None else soft
        is_enough = allowed == resource.RLIM_INFINITY or allowed >= wanted
        text = f"{allowed} allowed; max_streams and max_sessions_per_principal may need {wanted}"
        remedy = "raise LimitNOFILE= of the service, or ulimit -n; or lower these limits in [host]"
        if is_enough:
            yield Finding("open files", "good", text)
        else:
            yield Finding("open files", "absent", text, remedy)


async def look_at_mcp_servers(settings: Settings | None) -> tuple[Finding, ...]:
    """Check that the programs of MCP servers exist, and that their addresses accept connections. No message is sent."""
    found: list[Finding] = []
    for name, said in ({} if settings is None else settings.mcp).items():
        form = said.value
        fault = await _fault_of_address(form.url) if form.url else _fault_of_program(form.command)
        text = fault or ("its address accepts connections" if form.url else "its program exists")
        remedy = f"agentrail mcp check {name} connects to it"
        verdict: CheckVerdict = "absent" if fault else "good"
        found.append(Finding(f"MCP server {name}", verdict, text, remedy if fault else None))
    return tuple(found)


def _fault_of_program(command: Sequence[str]) -> str | None:
    program = command[0]
    if "/" in program:  # relative to the directory of its file, which `mcp check` knows
        return None
    return None if find_program(program) else f"{program!r} is not on PATH"


async def _fault_of_address(url: str) -> str | None:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with trio.fail_after(_CONNECT_SECONDS):
            stream = await trio.open_tcp_stream(parts.hostname or "", port)
            await stream.aclose()
    except (OSError, trio.TooSlowError) as error:
        return f"{parts.hostname}:{port} cannot be reached directly: {str(error) or 'no answer'}"
    return None


def look_at_activity(store: Store, sessions: Sequence[StoredSession]) -> Iterator[Finding]:
    """Report the nodes of a store, the clock, and how far the readers of its events are behind."""
    alive = Owners.of(store).alive
    nodes = ", ".join(f"{one.id} {'alive' if one.id in alive else 'gone'}" for one in store.nodes())
    yield Finding("nodes", "good", nodes or "no process has sessions")
    ahead_ms = max((one.written_at_ms for one in sessions), default=0) - int(outside.wall() * 1000)
    shift_ms = store.now_ms() - int(outside.wall() * 1000)
    if max(ahead_ms, abs(shift_ms)) < _CLOCK_MS:
        yield Finding("clock", "good", "agrees with the store")
    else:
        text = f"the store's clock differs by {shift_ms / 1000:.1f} s, its newest record by {ahead_ms / 1000:.1f} s"
        yield Finding("clock", "absent", text, "synchronise the clocks, such as with NTP")
    for name, behind in (events_behind(store, sessions) if offers(store, OwedStore) else {}).items():
        verdict: CheckVerdict = "good" if behind < _MANY_BEHIND else "absent"
        remedy = None if verdict == "good" else "look at the server's log: its warnings name the reason"
        yield Finding(f"reader {name}", verdict, f"{behind} events behind", remedy)
