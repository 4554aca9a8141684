"""The processes of `agentrail serve --nodes`: which are started, and what the end of one means. Plain functions, which start nothing."""

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
from attrs import evolve, frozen

from agentrail.cli.config_setup import ConfigFiles
from agentrail.cli.exit_codes import Exit
from agentrail.cli.serve_options import ServeFlags, ServeOptions, fault_of_port, flag_of
from agentrail.errors import OptionError
from agentrail.otp.child_specs import Backoff
from agentrail.otp.restarts import admit_restart, has_recovered, wait_before_restart
from agentrail.stores.store_urls import PRIVATE, is_shared_store, shown_store

MAX_PROCESSES: Final = 64

MAX_PROCESS_RESTARTS: Final = 5
"""Maximum restarts of one process within `RESTART_PERIOD_SECONDS`. One more ends all."""

RESTART_PERIOD_SECONDS: Final = 60.0

PROCESS_BACKOFF: Final = Backoff(initial_seconds=0.2, maximum_seconds=10.0)

_CONNECTIONS: Final = 5
_SPARE_CONNECTIONS: Final = 20


@frozen(kw_only=True)
class NodeProcess:
    """One process, which is a node.

    Attributes:
        arguments: Arguments of the command `agentrail`.
    """

    number: int
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"node {self.number}"


@frozen(kw_only=True)
class ProcessHistory:
    """Earlier ends of a process.

    Attributes:
        restarts: Times of the restarts within `RESTART_PERIOD_SECONDS`.
        in_a_row: Restarts since it last ran for long enough.
    """

    restarts: tuple[float, ...] = ()
    in_a_row: int = 0


def check_nodes(options: ServeOptions, store: object, *, application: str | None, advertise: object) -> None:
    """Reject options that contradict `--nodes`, and a store that nodes cannot share.

    Raises:
        OptionError: Your move: the message names each option.
    """
    OptionError.raise_for([*_faults_of_nodes(options, store, application, advertise)])


def _faults_of_nodes(
    options: ServeOptions, store: object, application: str | None, advertise: object
) -> Iterator[str]:
    count = options.nodes or 0
    if not 1 <= count <= MAX_PROCESSES:
        yield f"--nodes is {options.nodes}: expected 1 to {MAX_PROCESSES}"
    elif options.port and fault_of_port(options.port + count - 1):
        yield f"--port is {options.port}: {count} nodes need as many ports from there"
    if application is not None:
        yield "--nodes is for serving without an application: start yours once for each node, each with its own `advertise` of create_app"
    elif options.demo:
        yield "--demo serves one process that keeps nothing: leave out --nodes"
    elif not (isinstance(store, str) and is_shared_store(store)):
        given = "none is named" if store is None else f"store is {shown_store(str(store))!r:.100}"
        yield f"--nodes needs a store that they share, but {given}: --store {PRIVATE} starts a PostgreSQL here, --store postgres://USER@HOST/DATABASE uses yours"
    if advertise:
        yield "--nodes gives each node an address of its own: leave out --advertise"
    if options.metrics is not None:
        yield "--metrics is one address, and --nodes are several processes: read /metrics of each node"


def plan_processes(flags: ServeFlags, files: ConfigFiles, ports: tuple[int, ...]) -> tuple[NodeProcess, ...]:
    """Return a process for each port. Its options are those of the command."""
    return tuple(
        NodeProcess(number=number, arguments=("serve", *_arguments_of(flags, files), f"--port={port}"))
        for number, port in enumerate(ports, 1)
    )


def _arguments_of(flags: ServeFlags, files: ConfigFiles) -> Iterator[str]:
    given: dict[str, Any] = attrs.asdict(files, recurse=False) | attrs.asdict(flags, recurse=False)
    for name in given.keys() - {"nodes", "port"}:
        for value in given[name] if isinstance(given[name], tuple) else (given[name],):
            if value is True:
                yield flag_of(name)
            elif value is not None and value is not False:
                yield f"{flag_of(name)}={value}"


def settings_of_server(count: int) -> Mapping[str, str]:
    """Return the settings of a private PostgreSQL for so many nodes."""
    return {"max_connections": str(max(100, count * _CONNECTIONS + _SPARE_CONNECTIONS))}


def private_directory(data_directory: Path) -> Path:
    """Return the directory of the private PostgreSQL. Its socket needs an absolute path."""
    return data_directory.absolute() / "postgres"


def decide_restart(  # noqa: PLR0913 - facts about one end
    history: ProcessHistory, *, code: int, has_served: bool, ran_seconds: float, now: float, draw: float
) -> tuple[ProcessHistory, float | Exit]:
    """Return the wait before a restart, or the exit code with which all processes end.

    Args:
        history: Earlier ends of the process.
        code: Exit code, negative for a signal.
        has_served: Whether it answered calls, in any of its lives. Otherwise wrong usage is not repeated.
        ran_seconds: Time from its start to its end.
        now: Time of its end, on the clock of `history`.
        draw: Random number from 0 to 1.
    """
    if code == Exit.USAGE and not has_served:
        return history, Exit.USAGE
    restarts, is_admitted = admit_restart(history.restarts, now, MAX_PROCESS_RESTARTS, RESTART_PERIOD_SECONDS)
    if not is_admitted:
        return history, Exit.FAILED
    in_a_row = 0 if has_recovered(PROCESS_BACKOFF, ran_seconds) else history.in_a_row
    after = evolve(history, restarts=restarts, in_a_row=in_a_row + 1)
    return after, wait_before_restart(PROCESS_BACKOFF, in_a_row, draw)


def describe_end(name: str, code: int, decision: float | Exit) -> str:
    """Describe the end of a process, and what follows."""
    ended = (
        f"{name} was ended by {signal.Signals(-code).name}" if code < 0 else f"{name} ended with code {code}"
    )
    if not isinstance(decision, Exit):
        return f"{ended}: it starts again in {decision:.1f} s"
    if decision is Exit.USAGE:
        return f"{ended} before it answered: stopping all"
    return (
        f"{ended}, more than {MAX_PROCESS_RESTARTS} times within {RESTART_PERIOD_SECONDS:g} s: stopping all"
    )
