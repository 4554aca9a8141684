"""The address and callers of `agentrail serve`, from the command line, the environment and files, by precedence."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import attrs
from attrs import field, frozen
from cyclopts import Parameter

from agentrail.cli.log_output import Debug
from agentrail.config.key_filter import shown_address
from agentrail.config.settings import Sourced
from agentrail.errors import OptionError
from agentrail.stores.data_directory import DATA_VARIABLE, expand_home
from agentrail.stores.store_urls import is_shared_store

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8700

NO_FLAG: Final = "the default"
"""The source of a default value."""

_MAX_PORT: Final = 65_535
_PORT_DIGITS: Final = 9
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_REACHED: Final = MappingProxyType({"0.0.0.0": DEFAULT_HOST, "::": "::1"})  # noqa: S104 - compared, not bound


@Parameter(name="*")
@frozen(kw_only=True)
class ServeFlags:
    """The command line of a server. None or an empty tuple means "not set".

    Attributes:
        host: The address to listen on.
        port: The port. 0 picks a free one.
        token_file: File of the tokens that admit callers.
        allowed_host: Additional names that callers may use for the server.
        allowed_origin: Origins of pages that may call it.
        protocol: Names of the protocols to speak, without an application of one's own.
        certfile: For TLS.
        keyfile: For TLS.
        data_dir: Where sessions are stored, without an application of one's own.
        demo: Whether to serve the built-in demo.
        metrics: An address for metrics alone, without a token.
        store: Name of the store, without an application of one's own. Nodes share a `postgres://` database.
        durability: Whether requests to models may leave before their record.
        advertise: Address under which the other nodes of a shared store reach this one.
        lease: Seconds after which other nodes may take the sessions of a silent node.
        node_ca: File with the certificates that sign those of the nodes.
        nodes: Number of processes to start, each a node of the store.
        debug: Whether to show a crash with its traceback.
    """

    host: Annotated[
        str | None,
        Parameter(
            help=f"The address to listen on. Any but this machine's own needs a token. Default: as configured, otherwise {DEFAULT_HOST}."
        ),
    ] = None
    port: Annotated[
        int | None,
        Parameter(help=f"The port; 0 picks a free one. Default: as configured, otherwise {DEFAULT_PORT}."),
    ] = None
    token_file: Annotated[
        Path | None, Parameter(help="File of the callers' tokens; agentrail token new creates them.")
    ] = None
    allowed_host: Annotated[
        tuple[str, ...], Parameter(help="An additional name of the server; repeatable.", negative=())
    ] = ()
    allowed_origin: Annotated[
        tuple[str, ...],
        Parameter(
            help="An origin whose pages may call it, such as https://app.example; repeatable.", negative=()
        ),
    ] = ()
    protocol: Annotated[
        tuple[str, ...],
        Parameter(
            help="A protocol to speak, such as mcp or a2a; repeatable. Default: as configured, otherwise all that need no extra.",
            negative=(),
        ),
    ] = ()
    certfile: Annotated[Path | None, Parameter(help="A certificate, for TLS.")] = None
    keyfile: Annotated[Path | None, Parameter(help="Its key.")] = None
    data_dir: Annotated[
        Path | None,
        Parameter(
            help="The directory of the sessions, without an application of your own. Default: the usual one."
        ),
    ] = None
    demo: Annotated[
        bool,
        Parameter(
            help="Serve three running profiles on the built-in demo model, offline and without a key, to explore in the console."
        ),
    ] = False
    metrics: Annotated[
        str | None,
        Parameter(
            name="--metrics",
            help="HOST:PORT, or a port of this machine, that serves /metrics alone, without a token.",
        ),
    ] = None
    store: Annotated[
        str | None,
        Parameter(
            help="The store of the sessions: sqlite:PATH, or postgres://USER@HOST/DATABASE for several nodes. Default: as configured, otherwise sqlite:."
        ),
    ] = None
    durability: Annotated[
        Literal["grouped", "strict"] | None,
        Parameter(
            help="What waits for the disk: with strict, requests to models too. Default: as configured, otherwise grouped."
        ),
    ] = None
    advertise: Annotated[
        str | None,
        Parameter(
            help="The URL at which other nodes of the store reach this one, such as http://10.0.0.7:8700. Default: as configured, otherwise the port on this machine."
        ),
    ] = None
    lease: Annotated[
        float | None,
        Parameter(
            help="Seconds, 3 to 60, after which other nodes take the sessions of a silent one. The same for all. Default: as configured, otherwise 15."
        ),
    ] = None
    node_ca: Annotated[
        Path | None,
        Parameter(help="File with the certificates that sign those of the nodes, for --advertise https://…"),
    ] = None
    nodes: Annotated[
        int | None,
        Parameter(
            help="Start so many processes, each a node on a port of its own from --port on. --store postgres: starts a PostgreSQL for them, in the data directory."
        ),
    ] = None
    debug: Debug = False


NODE_FLAGS: Final = ("store", "durability", "advertise", "lease", "node_ca")
"""Options of `create_app` that are also flags, for serving without an application."""


@frozen(kw_only=True)
class ServeOptions(ServeFlags):
    """The address and callers of an application: flags, completed by variables, files and defaults.

    Attributes:
        host: The address to listen on.
        port: The port. 0 picks a free one.
        node_of: In a process of `--nodes`, the URL of its private PostgreSQL, or an empty text for a named store. Otherwise None.
        why: The source of each option by name: a flag, a variable, or a file with its line. Options at their default
            are missing.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    node_of: str | None = None
    why: Mapping[str, str] = field(default=_NOTHING, eq=False)

    def said_by(self, name: str) -> str:
        return self.why.get(name, flag_of(name))


SERVE_KEYS: Final[Mapping[str, str]] = {
    "host": "host",
    "port": "port",
    "token_file": "token_file",
    "allowed_host": "allowed_hosts",
    "allowed_origin": "allowed_origins",
    "protocol": "protocols",
    "certfile": "certfile",
    "keyfile": "keyfile",
    "data_dir": "data_dir",
}
"""The options of `ServeOptions` that files also set, each with its key in `[host]`."""

SERVE_VARIABLES: Final[Mapping[str, str]] = {
    **{name: f"AGENTRAIL_{key.upper()}" for name, key in SERVE_KEYS.items()},
    "data_dir": DATA_VARIABLE,
}
"""The variable of each option. Lists are separated by commas."""

_LISTS: Final = frozenset({"allowed_host", "allowed_origin", "protocol"})
PATHS: Final = frozenset({"token_file", "certfile", "keyfile", "data_dir"})


def flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def decide_serving(
    flags: ServeFlags, environ: Mapping[str, str], said: Mapping[str, Sourced] = _NOTHING
) -> ServeOptions:
    values: dict[str, Any] = {
        name: getattr(flags, name) for name in ("demo", "metrics", "nodes", *NODE_FLAGS)
    }
    why: dict[str, str] = {}
    faults: list[str] = []
    for name, key in SERVE_KEYS.items():
        flag = getattr(flags, name)
        if flag not in (None, ()):
            values[name], why[name] = flag, flag_of(name)
        elif environ.get(SERVE_VARIABLES[name]):
            why[name] = SERVE_VARIABLES[name]
            try:
                values[name] = _read_variable(name, environ[SERVE_VARIABLES[name]])
            except ValueError:
                faults.append(
                    f"{SERVE_VARIABLES[name]} is {environ[SERVE_VARIABLES[name]]!r:.40}: expected 0 to {_MAX_PORT}"
                )
        elif key in said:
            one, why[name] = said[key], f"{said[key].place}: host.{key}:"
            try:
                values[name] = Path(one.folder) / expand_home(one.value) if name in PATHS else one.plain
            except OptionError as error:
                faults += [f"{why[name]} {fault}" for fault in error.faults]
    OptionError.raise_for(faults)
    return ServeOptions(**values, why=why)


def node_options(options: ServeOptions, configured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `create_app` about its store and its node: flags, then files.

    A node of a shared store without an address gets that of its port on this machine. Nodes of a private PostgreSQL share its files.

    Raises:
        OptionError: It has none: the port is not known yet.
    """
    given = {name: value for name in NODE_FLAGS if (value := getattr(options, name)) is not None}
    if options.node_of:
        given |= {"store": options.node_of, "files_are_shared": True}
    store = given.get("store", configured.get("store"))
    has_address = given.get("advertise") or configured.get("advertise")
    if has_address or not isinstance(store, str) or not is_shared_store(store):
        return given
    if options.port == 0:
        fault = "--advertise is missing: nodes that share a store call each other, and with --port 0 the address is not known; give both"
        raise OptionError([fault])
    scheme = "http" if options.certfile is None else "https"
    host = _REACHED.get(options.host, options.host)
    return {**given, "advertise": f"{scheme}://{f'[{host}]' if ':' in host else host}:{options.port}"}


def metrics_address(text: str) -> tuple[str, int]:
    """Parse the value of `--metrics`. A port alone is one of this machine."""
    address = f"{DEFAULT_HOST}:{text}" if text.isdecimal() else text
    try:
        found = urlsplit(f"//{address}")
        if found.hostname and found.port is not None and found.netloc == address and "@" not in address:
            return found.hostname, found.port
    except ValueError:  # not a port, or half of a bracket
        pass
    fault = f"--metrics is {shown_address(text)!r:.100}: expected HOST:PORT, such as 127.0.0.1:9464"
    raise OptionError([fault])


def fault_of_port(port: int) -> str | None:
    """Return the fault of a port. The system would silently use its remainder."""
    if 0 <= port <= _MAX_PORT:
        return None
    return f"{port} is not a port: expected 0 to {_MAX_PORT}, 0 for one that is free"


def fault_of_host(host: str) -> str | None:
    """Return the fault of an address, as far as known without a system call."""
    if host not in {"*", ""}:
        return None
    return f"{host!r} is not an address: 0.0.0.0 means every address of this machine"


def show_serving(options: ServeOptions) -> str:
    usual = attrs.asdict(ServeOptions(), recurse=False)
    shown = []
    for name, key in SERVE_KEYS.items():
        value = getattr(options, name)
        if value != usual[name] or name in options.why or name in {"host", "port"}:
            text = ", ".join(value) if name in _LISTS else str(value)
            source = options.why.get(name, NO_FLAG).removesuffix(f": host.{key}:")  # its key precedes it
            shown.append(f"{key} {text} ({source})")
    return "; ".join(shown)


def _read_variable(name: str, text: str) -> Any:
    if name in _LISTS:
        return tuple([part.strip() for part in text.split(",") if part.strip()])
    if name in PATHS:
        return expand_home(text, SERVE_VARIABLES[name])
    if name != "port":
        return text
    if not text.isascii() or not text.isdecimal() or len(text) > _PORT_DIGITS:
        raise ValueError(text)
    return int(text)
