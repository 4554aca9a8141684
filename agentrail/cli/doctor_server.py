"""Checks of `agentrail doctor` beyond a single run: extras, open files, MCP servers, nodes, clock, readers of events. None starts anything."""

import re
import resource
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib import metadata
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

import trio
from attrs import frozen

from agentrail import outside
from agentrail.abc.store import OwedStore, Store, StoredSession
from agentrail.cli.store_access import Owners
from agentrail.config.host_limits import Limits
from agentrail.config.settings import LIMITS_PREFIX, Settings
from agentrail.distribution import NAME, install_command
from agentrail.sandboxes.programs import find_program
from agentrail.telemetry.reader import events_behind

CheckVerdict: TypeAlias = Literal["good", "absent", "bad"]

CHECK_SECONDS: Final = 10.0
"""Time limit of each check."""
_CONNECT_SECONDS: Final = 3.0
_EXTRA: Final = re.compile(r"([\w.-]+).*; extra == ['\"]([\w-]+)['\"]")
_OF_DEVELOPERS: Final = frozenset({"dev", "docs", "test"})
_SPARE_FILES: Final = 256
_CLOCK_MS: Final = 1_000
_MANY_BEHIND: Final = 10_000


@frozen(kw_only=True)
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
    """Run a check. If it takes too long, return a finding that says so."""
    with trio.move_on_after(CHECK_SECONDS):
        return await check()
    text = f"no result within {CHECK_SECONDS:g} s"
    return (Finding(name=name, verdict="bad", text=text, remedy="look at its disk or network"),)


async def in_thread(name: str, check: Callable[[], Sequence[Finding]]) -> Sequence[Finding]:
    return await within_limit(name, lambda: outside.offload(check, abandon_on_cancel=True))


# --- what is installed and configured


def look_at_extras(
    settings: Settings | None, missing_of: Callable[[], dict[str, list[str]]] | None = None
) -> tuple[Finding, ...]:
    """Report the installed extras, and those that a configured feature needs."""
    missing = (missing_of or _missing_packages)()
    there = ", ".join(name for name, packages in missing.items() if not packages) or "none"
    needed = {} if settings is None else dict(_needed_extras(settings))
    return (
        Finding(name="extras", verdict="good", text=f"installed: {there}"),
        *(
            Finding(
                name="extras",
                verdict="bad" if is_for_runs else "absent",
                text=f"{name} is needed for {feature}; missing: {', '.join(missing[name])}",
                remedy=f"install it: {install_command(name)}",
            )
            for name, (feature, is_for_runs) in needed.items()
            if missing.get(name)
        ),
    )


def _missing_packages() -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for requirement in metadata.requires(NAME) or ():
        match = _EXTRA.match(requirement)
        if match is not None and match[2] not in _OF_DEVELOPERS:
            found[match[2]] += [] if _is_installed(match[1]) else [match[1]]
    return dict(found)


def _is_installed(package: str) -> bool:
    return next(iter(metadata.distributions(name=package)), None) is not None


def _needed_extras(settings: Settings) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Yield extras with the feature that needs them, and whether a run needs it too."""
    protocols = settings.host["protocols"].value if "protocols" in settings.host else ()
    if settings.host:
        yield "gateway", ("[host]", False)
    for name in {"a2a", "mcp"} & {getattr(one, "value", one) for one in protocols}:
        yield name, (f"the protocol {name}", False)
    if settings.embedder:
        yield "embeddings", ("[embedder]", True)
    if settings.telemetry:
        yield "otel", ("[telemetry]", True)


def look_at_open_files(settings: Settings | None, soft: int | None = None) -> tuple[Finding, ...]:
    """Compare the limit of open files with the sessions and streams that a server accepts."""
    if settings is None or not settings.host:
        return ()
    given = {name: said.value for name, said in settings.host.items()}
    names = ("max_streams", "max_sessions_per_principal")
    wanted = _SPARE_FILES + sum(
        given.get(f"{LIMITS_PREFIX}{name}", getattr(Limits(), name)) for name in names
    )
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if soft is None else soft
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return (
            Finding(name="open files", verdict="good", text=f"{allowed} allowed, {wanted} may be needed"),
        )
    return (
        Finding(
            name="open files",
            verdict="absent",
            text=f"only {allowed} allowed, and {' and '.join(names)} may need {wanted}",
            remedy="raise it: LimitNOFILE= of the service, or ulimit -n; or lower the limits in [host]",
        ),
    )


async def look_at_mcp_servers(settings: Settings | None) -> tuple[Finding, ...]:
    """Check that the programs of MCP servers exist, and that their addresses accept connections. No message is sent."""
    found = []
    for name, said in ({} if settings is None else settings.mcp).items():
        form = said.value
        fault = await _fault_of_address(form.url) if form.url else _fault_of_program(form.command)
        text = "its program exists" if not form.url else "its address accepts connections"
        remedy = None if fault is None else f"agentrail mcp check {name} shows more"
        verdict: CheckVerdict = "good" if fault is None else "absent"
        found.append(Finding(name=f"MCP server {name}", verdict=verdict, text=fault or text, remedy=remedy))
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


# --- a store that is open


def look_at_activity(store: Store, sessions: Sequence[StoredSession]) -> Iterator[Finding]:
    """Report the nodes of a store, the clock, and how far the readers of its events are behind."""
    alive = Owners.of(store).alive
    nodes = ", ".join(f"{one.id} {'alive' if one.id in alive else 'gone'}" for one in store.nodes())
    yield Finding(name="nodes", verdict="good", text=nodes or "no process has sessions")
    ahead_ms = max((one.written_at_ms for one in sessions), default=0) - int(outside.wall() * 1000)
    shift_ms = store.now_ms() - int(outside.wall() * 1000)
    if max(ahead_ms, abs(shift_ms)) < _CLOCK_MS:
        yield Finding(name="clock", verdict="good", text="agrees with the store")
    else:
        text = f"the store's clock differs by {shift_ms / 1000:.1f} s, its newest record by {ahead_ms / 1000:.1f} s"
        yield Finding(
            name="clock", verdict="absent", text=text, remedy="synchronise the clocks, such as with NTP"
        )
    for name, behind in (events_behind(store, sessions) if isinstance(store, OwedStore) else {}).items():
        verdict: CheckVerdict = "good" if behind < _MANY_BEHIND else "absent"
        remedy = None if verdict == "good" else "look at the server's log: its warnings name the reason"
        yield Finding(name=f"reader {name}", verdict=verdict, text=f"{behind} events behind", remedy=remedy)
