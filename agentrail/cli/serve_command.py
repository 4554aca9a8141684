"""`agentrail serve`: serve an application over HTTP until a signal. `agentrail.gateway` contains the application."""

import importlib.util
import inspect
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import trio
from attrs import evolve
from cyclopts import Parameter

from agentrail.actors.deferred_error import Kept
from agentrail.blueprints.builder import import_name
from agentrail.blueprints.configuration import Configuration
from agentrail.cli.config_setup import ConfigFiles
from agentrail.cli.ctrl_c import stop_signals
from agentrail.cli.demo_server import demo_directory, make_demo_application
from agentrail.cli.exit_codes import Exit
from agentrail.cli.host_config import (
    default_profile,
    faults_of_host,
    make_profiles,
    named_telemetry,
    options_of_host,
)
from agentrail.cli.log_output import send_logs_to_stderr
from agentrail.cli.node_processes import check_nodes, plan_processes, private_directory
from agentrail.cli.serve_nodes import NODE_VARIABLE, ServedNodes, end_with_parent
from agentrail.cli.serve_options import (
    NODE_FLAGS,
    SERVE_VARIABLES,
    ServeFlags,
    ServeOptions,
    decide_serving,
    fault_of_host,
    fault_of_port,
    flag_of,
    metrics_address,
    node_options,
)
from agentrail.cli.stdio import write_all, write_error
from agentrail.cli.storage_options import DEFAULT_STORE, STORE_VARIABLE, directory_of
from agentrail.config.key_filter import shown_address
from agentrail.distribution import install_command
from agentrail.errors import AgentrailError, OptionError
from agentrail.gateway.authorization import LOOPBACK_NAMES, is_loopback
from agentrail.gateway.tokens import Tokens, read_token_file
from agentrail.gc_settings import many_sessions
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.exits import keep
from agentrail.otp.guarded_calls import takes
from agentrail.runtime.crashes import log_crash
from agentrail.stores.data_directory import DATA_VARIABLE
from agentrail.stores.store_names import path_of_store
from agentrail.stores.store_urls import PRIVATE

if TYPE_CHECKING:
    import ssl

    from starlette.applications import Starlette

    from agentrail.gateway.app import ServedHost
    from agentrail.gateway.authorization import CallerCheck
    from agentrail.gateway.request_parser import AsgiApp
    from agentrail.gateway.serving import ConnectionLimits
    from agentrail.telemetry.metrics import Metrics

DRAIN_DELAY_SECONDS: Final = 5.0
"""Time that a public server keeps accepting after a stop signal, in seconds, so that load balancers notice."""

TOKEN_VARIABLE: Final = "AGENTRAIL_TOKEN"  # noqa: S105 - a variable's name
"""The variable that may hold a token for the printed console link."""

DEMO_WORDS: Final = (
    "this is the demo: three profiles on a model without intelligence. It runs no command, sends nothing anywhere, needs no key, "
    "and its prices are pretended; a tool and two plugins fail at times, so that there is something to see. All of it is gone when it ends."
)
"""The notice before a demo is served."""

_NEEDED: Final = ("hypercorn", "starlette")
_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared, not bound


_USUAL: Final = ServeFlags()


def serve_application(
    application: Annotated[
        str | None,
        Parameter(
            help="The application, as package.module:NAME, made by create_app. Default: a profile for each agent of "
            "the configuration, or one, `default`, with the model and the tools that agentrail run would use; sessions are kept."
        ),
    ] = None,
    /,
    *,
    flags: ServeFlags = _USUAL,
    files: ConfigFiles = ConfigFiles(),  # noqa: B008 - frozen
) -> Exit:
    send_logs_to_stderr(debug=flags.debug)
    node_of = os.environ.pop(NODE_VARIABLE, None)  # not for the tools of this process
    try:
        check_extra()
        if flags.metrics is not None:
            check_extra("prometheus_client", of="metrics")
        configuration, options = decide_all(flags, files, application)
        if options.nodes is not None:
            return serve_nodes(flags, files, options, configuration, application)
        if node_of is None and options.store is not None:
            path_of_store(options.store, Path())  # before the profiles are judged for it
        options = evolve(options, node_of=node_of)
        tokens = None if options.token_file is None else read_token_file(options.token_file)
        app = None if application is None else find_application(application)
        with many_sessions(collect=False):  # imports, and the files that were read
            if options.demo:
                serve_demo(options)
            elif application is None:
                trio.run(serve_until_signal, None, options, tokens, configuration)
            else:
                run_application(application, partial(trio.run, serve_until_signal, app, options, tokens))
    except _ApplicationFailed as failed:
        log_crash(f"{failed}: {describe_bug(failed.error)}", failed.error, keep)
        return Exit.FAILED
    return Exit.DONE


def decide_all(
    flags: ServeFlags, files: ConfigFiles, application: str | None
) -> tuple[Configuration, ServeOptions]:
    """Read the applicable files and decide the address, after reporting an untrusted project. The demo reads no file."""
    if flags.demo:
        options = decide_serving(flags, {})
        check_options(options, application)
        return Configuration(), options
    configuration = files.read()
    wrong = (*configuration.faults, *faults_of_host(configuration.settings))
    faults = [str(fault) for fault in wrong]
    host, environ = configuration.settings.host, {**os.environ}
    if application is not None:  # it has its own setting for the store
        host = {name: said for name, said in host.items() if name != "data_dir"}
        environ.pop(DATA_VARIABLE, None)
    options = ServeOptions()
    try:
        options = decide_serving(flags, environ, host)
        check_options(options, application)
    except OptionError as error:
        faults += error.faults
    if faults:
        raise OptionError([*dict.fromkeys(faults)])  # a fault of the port in a file is found twice
    return configuration, options


def serve_nodes(
    flags: ServeFlags,
    files: ConfigFiles,
    options: ServeOptions,
    configuration: Configuration,
    application: str | None,
) -> Exit:
    """Start the processes of `--nodes`, and serve until a signal."""
    host = configuration.settings.host
    named = host.get("store")
    store = options.store or os.environ.get(STORE_VARIABLE) or (named and named.value)
    check_nodes(options, store, application=application, advertise=options.advertise or "advertise" in host)
    check_extra("psycopg", of="postgres")
    from agentrail.stores.postgres_private import free_ports

    count = options.nodes or 0
    ports = tuple(range(options.port, options.port + count)) if options.port else free_ports(count)
    private = private_directory(directory_of(options.data_dir)) if store == PRIVATE else None
    return trio.run(ServedNodes(plan_processes(flags, files, ports), private, os.environ).run)


def serve_demo(options: ServeOptions) -> None:
    exported = named_telemetry(None, os.environ)
    with demo_directory() as directory:
        write_error(DEMO_WORDS)
        if exported:
            write_error("its spans are exported, because variables OTEL_EXPORTER_OTLP_* name a collector.")
        trio.run(run_server, make_demo_application(directory, metrics=find_metrics(), **exported), options)


def run_application(name: str, run: Callable[[], object]) -> None:
    """Run the operator's own application. An error that it raises is reported as its own, and not as a bug of ours."""
    try:
        run()
    except AgentrailError:
        raise
    except Exception as error:
        raise _ApplicationFailed(name, error) from error


def check_extra(*needed: str, of: str = "gateway") -> None:
    missing = [name for name in needed or _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise OptionError([f"{' and '.join(missing)} {are} not installed: {install_command(of)}"])


def check_options(options: ServeOptions, application: str | None) -> None:
    """Reject contradictory options, and those that would admit strangers, as far as possible without loading an application."""
    faults = []
    for name, fault in (("port", fault_of_port(options.port)), ("host", fault_of_host(options.host))):
        if fault is not None:
            faults.append(f"{options.said_by(name)} {fault}")
    if (options.certfile is None) != (options.keyfile is None):
        faults.append("--certfile and --keyfile belong together: give both, or none")
    if application is None and options.token_file is None and not is_local(options.host):
        faults.append(needs_token(options.host))
    if application is not None and options.data_dir is not None:
        faults.append("--data-dir is for serving without an application: yours has `data_dir` of create_app")
    if application is not None or options.demo:
        faults += [
            f"{flag_of(name)} is for serving without an application: yours has `{name}` of create_app"
            for name in NODE_FLAGS
            if getattr(options, name) is not None
        ]
    # Those of a file are for the profiles of the files.
    named = options.why.get("protocol") in {flag_of("protocol"), SERVE_VARIABLES["protocol"]}
    if named and application is not None:
        faults.append("--protocol is for serving without an application: yours has `protocols` of create_app")
    if named and options.demo:
        faults.append("--demo speaks all protocols that need no extra: leave out --protocol")
    if options.metrics is not None:
        metrics_address(options.metrics)
    if options.demo:
        faults += _faults_of_demo(options, application)
    OptionError.raise_for(faults)


def _faults_of_demo(options: ServeOptions, application: str | None) -> list[str]:
    faults = []
    if application is not None:
        faults.append(f"--demo serves an application of its own: leave out --demo, or {application!r}")
    if options.data_dir is not None:
        faults.append("--demo keeps nothing: leave out --data-dir")
    if options.token_file is not None or not is_local(options.host):
        faults.append("--demo is for this machine alone: leave out --token-file and --host")
    return faults


def needs_token(host: str) -> str:
    """Explain why a server is not started, and how to fix it."""
    return (
        f"others reach --host {shown_address(host)}, so calls need a token: give --token-file FILE "
        "(`agentrail token new --token-file FILE` makes one), or `auth` to create_app"
    )


def is_local(host: str) -> bool:
    """Return whether an address is reachable only from this machine. An unknown name may resolve to any address."""
    return host.lower() == "localhost" or is_loopback(host)


async def make_default_application(
    options: ServeOptions,
    configuration: Configuration,
    *,
    has_tokens: bool = False,
    agent: str | None = None,
    **more: Any,
) -> "Starlette":
    """Create an application from the files: a profile for each agent, or one named `default`, same as for `agentrail run`."""
    from agentrail.blueprints.command_files import read_commands
    from agentrail.blueprints.joined_commands import join_commands
    from agentrail.gateway.app import create_app

    settings = configuration.settings
    served = await make_profiles(configuration, os.environ, only=agent)
    for one in served:
        of = "" if len(served) == 1 else f"profile {one.profile.id}: "
        write_error(f"{of}model {one.chosen.model} ({one.chosen.why})")
    commands = read_commands(os.environ, trust_project=configuration.trust_project)
    given = {
        "store": DEFAULT_STORE,
        "drain_delay": 0.0 if is_local(options.host) else DRAIN_DELAY_SECONDS,
        **options_of_host(settings),
        **({"protocols": options.protocol} if options.protocol else {}),
        **more,
    }
    if os.environ.get(STORE_VARIABLE) and "store" not in more:
        given["store"] = os.environ[STORE_VARIABLE]
    given |= node_options(options, given)
    return create_app(
        profiles=[one.profile for one in served],
        default_profile=None if agent else default_profile(settings),
        data_dir=options.data_dir,
        commands=join_commands(
            commands, skills={one.profile.id: one.skills for one in served}, imported=configuration.commands
        ),
        is_for_several=has_tokens,
        **given,
    )


def host_of(app: object) -> "ServedHost | None":
    """Return the host of an application made by `create_app`, or None for any other."""
    from agentrail.gateway.app import ServedHost

    found = getattr(getattr(app, "state", None), "host", None)
    return found if isinstance(found, ServedHost) else None


def forgets_webhooks(app: "AsgiApp") -> bool:
    """Return whether an application made by `create_app` sends webhooks but does not store pending ones."""
    served = host_of(app)
    if served is None or served.options.webhooks is None:
        return False
    return served.options.supervisor is None and served.options.store in (None, "memory:")


def exports_nothing(app: "AsgiApp", environ: Mapping[str, str]) -> bool:
    """Return whether variables name a collector that an application made by `create_app` does not use."""
    served = host_of(app)
    if served is None or served.options.supervisor is not None or served.options.telemetry is not None:
        return False
    return any(environ.get(f"OTEL_EXPORTER_OTLP_{name}ENDPOINT") for name in ("", "TRACES_"))


def admit_more(callers: "CallerCheck | None", options: ServeOptions, tokens: Tokens | None) -> None:
    is_asked = tokens is not None or options.allowed_host or options.allowed_origin
    if callers is None and is_asked:
        message = (
            "--token-file, --allowed-host and --allowed-origin are for an application that create_app made"
        )
        raise OptionError([message])
    if callers is not None:
        callers.admit_more(
            auth=tokens,
            hosts=(*own_names(options.host), *options.allowed_host),
            origins=(*options.allowed_origin, *own_origins(options)) if options.allowed_origin else (),
        )
    if not is_local(options.host) and (callers is None or not callers.rules.needs_token):
        raise OptionError([needs_token(options.host)])


def own_names(host: str) -> tuple[str, ...]:
    return () if host in _ANY_ADDRESS else (f"[{host}]" if ":" in host else host,)


def own_origins(options: ServeOptions) -> tuple[str, ...]:
    scheme = "http" if options.certfile is None else "https"
    names = dict.fromkeys((*LOOPBACK_NAMES, *own_names(options.host)))
    usual = {"http": 80, "https": 443}[scheme]
    at = "" if options.port == usual else f":{options.port}"
    return tuple([f"{scheme}://{name}{at}" for name in names])


async def serve_until_signal(
    app: "AsgiApp | None",
    options: ServeOptions,
    tokens: Tokens | None,
    configuration: Configuration | None = None,
) -> None:
    served = app
    if served is None:
        read = configuration or Configuration()
        metrics = find_metrics()
        served = await make_default_application(options, read, has_tokens=tokens is not None, metrics=metrics)
    host = host_of(served)
    admit_more(None if host is None else host.gateway.callers, options, tokens)
    if forgets_webhooks(served):
        write_error("pending webhooks end with this process: give create_app a store to keep them.")
    if app is not None and exports_nothing(app, os.environ):
        write_error(
            "no spans are exported, though OTEL_EXPORTER_OTLP_* is set: use create_app(telemetry=OpenTelemetry())."
        )
    await run_server(served, options)


async def run_server(app: "AsgiApp", options: ServeOptions) -> None:
    """Serve until a signal: the first lets calls and streams finish, a second one does not wait for them."""
    from agentrail.gateway.serving import followed_tls

    async with followed_tls(options.certfile, options.keyfile) as tls:
        await _serve_until_signal(app, options, tls)
    write_error("stopped.")


async def _serve_until_signal(app: "AsgiApp", options: ServeOptions, tls: "ssl.SSLContext | None") -> None:
    from agentrail.gateway.serving import addresses_of, open_listeners, serve_app, show_address

    scrape = None if options.metrics is None else await open_scrape(app, *metrics_address(options.metrics))
    listeners = await open_listeners(options.host, options.port)
    scheme = "http" if tls is None else "https"
    shown = [f"{scheme}://{show_address(*address)}" for address in addresses_of(listeners)]
    with trio.open_signal_receiver(signal.SIGINT, *stop_signals()) as signals:
        told = partial(_tell, shown, options, console_link_of(app, shown[0]))
        stop = partial(
            wait_stop, signals, drain_of(app), told, lambda one: write_error(f"{say_stopping(one, app)}.")
        )
        failure = Kept()
        async with trio.open_nursery() as nursery:
            if options.node_of is not None:
                nursery.start_soon(end_with_parent)
            if scrape is not None:
                nursery.start_soon(serve_app, *scrape, trio.sleep_forever)
            with failure:
                await serve_app(app, listeners, stop, tls=tls, limits=limits_for(app))
            nursery.cancel_scope.cancel(reason="the server was stopped")
        failure.release()


def find_metrics() -> "Metrics | None":
    """Return new metrics if their extra is installed."""
    if importlib.util.find_spec("prometheus_client") is None:
        return None
    from agentrail.telemetry.metrics import Metrics

    return Metrics()


async def open_scrape(app: "AsgiApp", host: str, port: int) -> "tuple[Starlette, list[trio.SocketListener]]":
    """Return an application for the metrics of another one, and its listeners."""
    from agentrail.gateway.metrics_routes import scrape_application
    from agentrail.gateway.serving import addresses_of, open_listeners, show_address

    served = host_of(app)
    if served is None or served.options.metrics is None:
        raise OptionError(["--metrics: this application has none, use create_app(metrics=Metrics())"])
    served.gateway.callers.admit_more(hosts=own_names(host))
    listeners = await open_listeners(host, port, flags="--metrics")
    write_error(f"metrics http://{show_address(*addresses_of(listeners)[0])}/metrics")
    return scrape_application(served.gateway), listeners


def limits_for(app: "AsgiApp") -> "ConnectionLimits":
    from agentrail.gateway.serving import USUAL_LIMITS

    served = host_of(app)
    if served is None:
        return USUAL_LIMITS
    seconds = served.options.shutdown_timeout
    grace, cut = min(USUAL_LIMITS.grace_seconds, seconds / 10), min(USUAL_LIMITS.cut_seconds, seconds / 30)
    return evolve(USUAL_LIMITS, grace_seconds=grace, cut_seconds=cut)


def drain_of(app: "AsgiApp") -> Callable[[], Awaitable[None]] | None:
    found = getattr(getattr(app, "state", None), "drain", None)
    return found if callable(found) else None


def say_stopping(number: int, app: object) -> str:
    """Describe why a server stops and what it waits for, so that it does not seem to hang."""
    name = signal.Signals(number).name
    host = host_of(app)
    if host is None:
        return f"{name}: stopping"
    delay = (
        f"requests are served for another {host.drain_delay:g} s, so that balancers notice; then "
        if host.drain_delay
        else ""
    )
    return (
        f"{name}: stopping; {delay}new requests are refused, and running ones have {host.options.drain_timeout:g} s to finish. "
        "A second signal exits at once"
    )


async def wait_stop(
    signals: AsyncIterator[int],
    drain: Callable[[], Awaitable[None]] | None,
    tell: Callable[[], None],
    tell_stopping: Callable[[int], None] = lambda _: None,
) -> bool:
    """Announce the server, wait for a signal, and let the application drain until a second one. Return whether it has drained."""
    tell()
    tell_stopping(await anext(signals))
    if drain is None:
        return True
    has_drained = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_at_next, signals, nursery.cancel_scope)
        await drain()
        has_drained = True
        nursery.cancel_scope.cancel(reason="drained")
    return has_drained


async def _cancel_at_next(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    await anext(signals)
    scope.cancel(reason="a second signal")


def console_link_of(app: "AsgiApp", address: str) -> str | None:
    """Return the console URL of an application made by `create_app`, or None if it has no console."""
    served = host_of(app)
    if served is None or not served.gateway.has_console:
        return None
    link = f"{address}{served.base_path}/console/"
    token = os.environ.get(TOKEN_VARIABLE, "")
    needs_one = served.gateway.callers.rules.needs_token
    return f"{link}#token={quote(token, safe='')}" if needs_one and token and os.isatty(2) else link


def _tell(shown: list[str], options: ServeOptions, console: str | None = None) -> None:
    if not is_local(options.host) and options.certfile is None:
        write_error("calls and tokens are not encrypted: give --certfile and --keyfile, or put TLS in front.")
    if options.host in _ANY_ADDRESS and not options.allowed_host:
        write_error("only this machine's own name is accepted: give --allowed-host NAME.")
    if console is not None:
        write_error(f"console {console}")
    write_all(1, "".join(f"{address}\n" for address in shown).encode())


# --- the application of a name, and why it cannot be loaded


class _ApplicationFailed(Exception):
    def __init__(self, name: str, error: BaseException) -> None:
        super().__init__(f"the application {name} failed")
        self.error = error


def find_application(name: str) -> "AsgiApp":
    """Find an application by its name, in a module of the current directory or an installed one."""
    advice = ": assign the result of create_app to {!r} there"
    found = import_name(name, str(Path.cwd()), example="app", advice=advice)
    fault = fault_of_application(found)
    if fault is not None:
        raise OptionError([f"expected an ASGI application, such as create_app makes, and {name} is {fault}"])
    return found  # type: ignore[no-any-return]  # whether it is one shows when it is called


def fault_of_application(found: Any) -> str | None:
    """Return why this cannot be an ASGI application, or None if it may be one."""
    if not callable(found) or isinstance(found, type):
        return type(found).__name__
    if takes(found, ("scope", "receive", "send")):
        return None
    if not inspect.isfunction(found):
        return f"{type(found).__name__}, which does not accept scope, receive and send"
    return "a function with other arguments: if it returns an application, assign the result to a name and pass that name"
