"""`agentrail serve`: puts an application behind HTTP, until it is told to stop. What the application does stands in `agentrail.gateway`.

What the command line may not ask for is decided before anything is opened: an address that others reach needs a token.
"""

import importlib.util
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import trio
from attrs import evolve, frozen
from cyclopts import Parameter

from agentrail.cli.application import ApplicationFailed, find_application
from agentrail.cli.demo_server import demo_directory, make_demo_application
from agentrail.cli.exits import Exit, describe_error
from agentrail.cli.logs import Debug, send_logs_to_stderr
from agentrail.cli.options import Choices, choose_for, decide_session
from agentrail.cli.output import OutputClosed, OutputFailed, write_all, write_error
from agentrail.cli.stored import DEFAULT_STORE
from agentrail.errors import AgentrailError, OptionError
from agentrail.gateway.access import LOOPBACK_NAMES, is_loopback
from agentrail.gateway.tokens import Tokens, read_token_file
from agentrail.otp.exits import keep
from agentrail.otp.leaving import describe_bug
from agentrail.runtime.crashes import log_crash
from agentrail.tuning import many_sessions

if TYPE_CHECKING:
    from agentrail.gateway.callers import CallerCheck
    from agentrail.gateway.incoming import AsgiApp
    from agentrail.gateway.serving import ConnectionLimits

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8700

DRAIN_DELAY_SECONDS: Final = 5.0
"""How long a server that others reach goes on when it is told to stop, so that balancers notice."""

TOKEN_VARIABLE: Final = "AGENTRAIL_TOKEN"  # noqa: S105 - the name of one
"""What may hold a token for the link to the console that is printed."""

DEMO_WORDS: Final = (
    "this is the demo: three profiles on a model without intelligence. It runs no command, sends nothing anywhere, needs no key, "
    "and its prices are pretended; a tool and two plugins fail at times, so that there is something to see. All of it is gone when it ends."
)
"""What is said before a demo is served."""

_NEEDED: Final = ("hypercorn", "starlette")
_MAX_PORT: Final = 65_535
_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - to tell it, and not to bind it


@Parameter(name="*")
@frozen(kw_only=True)
class ServeOptions:
    """Where an application is served, and who may call it.

    Attributes:
        host: The address to listen on.
        port: Its port; 0 for one that is free.
        token_file: Lists the tokens that let callers in.
        allowed_host: What else the server may be called by.
        allowed_origin: Of which pages may call it.
        certfile: For TLS.
        keyfile: For TLS.
        data_dir: Where sessions are kept, without an application of one's own.
        demo: Whether the built-in demo is served.
        debug: Whether a crash is shown with its traceback.
    """

    host: Annotated[
        str, Parameter(help="The address to listen on. Any but this machine's own needs a token.")
    ] = DEFAULT_HOST
    port: Annotated[int, Parameter(help="Its port; 0 for one that is free.")] = DEFAULT_PORT
    token_file: Annotated[
        Path | None,
        Parameter(
            help="Lists the tokens that let callers in; agentrail token new makes them.", show_default=False
        ),
    ] = None
    allowed_host: Annotated[
        tuple[str, ...],
        Parameter(
            help="A name that the server may be called by, besides its address; as often as you like.",
            negative=(),
            show_default=False,
        ),
    ] = ()
    allowed_origin: Annotated[
        tuple[str, ...],
        Parameter(
            help="An origin whose pages may call it, such as https://app.example; as often as you like.",
            negative=(),
            show_default=False,
        ),
    ] = ()
    certfile: Annotated[Path | None, Parameter(help="A certificate, for TLS.", show_default=False)] = None
    keyfile: Annotated[Path | None, Parameter(help="Its key.", show_default=False)] = None
    data_dir: Annotated[
        Path | None,
        Parameter(
            help="The directory that sessions are kept in, without an application of your own. Without it: the usual one.",
            show_default=False,
        ),
    ] = None
    demo: Annotated[
        bool,
        Parameter(
            help="Serve three profiles at work on the built-in demo model, offline and without a key, to look at in the console.",
            negative=(),
        ),
    ] = False
    debug: Debug = False


_USUAL: Final = ServeOptions()


def serve_application(
    application: Annotated[
        str | None,
        Parameter(
            help="What to serve, as package.module:NAME, where NAME is what create_app made. Without it: one profile, "
            "`default`, with the model and the tools that agentrail run would use; its sessions are kept."
        ),
    ] = None,
    /,
    *,
    options: ServeOptions = _USUAL,
) -> Exit:
    """Serve an application; see `commands.py` for the help."""
    send_logs_to_stderr(debug=options.debug)
    try:
        check_extra()
        check_options(options, application)
        tokens = None if options.token_file is None else read_token_file(options.token_file)
        app = None if application is None else find_application(application)
        with many_sessions():
            if options.demo:
                serve_demo(options)
            elif application is None:
                trio.run(serve_until_signal, None, options, tokens)
            else:
                run_application(application, partial(trio.run, serve_until_signal, app, options, tokens))
    except ApplicationFailed as failed:
        log_crash(f"{failed}: {describe_bug(failed.error)}", failed.error, keep)
        return Exit.FAILED
    except AgentrailError as error:
        write_error(describe_error(error))
        return Exit.USAGE
    except OutputFailed as error:
        write_error(f"{error}.")
        return Exit.FAILED
    except OutputClosed:
        return Exit.FAILED
    return Exit.DONE


def serve_demo(options: ServeOptions) -> None:
    """Serve the demo until a signal; nothing of it is left behind.

    Raises:
        OptionError: As of `run_server`.
    """
    with demo_directory() as directory:
        write_error(DEMO_WORDS)
        trio.run(run_server, make_demo_application(directory), options)


def run_application(name: str, run: Callable[[], object]) -> None:
    """Run an application of the operator's own: what it raises is told as that, and not as a bug of ours.

    Raises:
        ApplicationFailed: Its author's move: a plugin that cannot start, say.
        AgentrailError: What says itself whose move it is.
    """
    try:
        run()
    except AgentrailError:
        raise
    except Exception as error:
        raise ApplicationFailed(name, error) from error


def check_extra() -> None:
    """Look for what the extra `gateway` brings.

    Raises:
        OptionError: It is not installed.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise OptionError([f'{" and ".join(missing)} {are} not installed: pip install "agentrail[gateway]"'])


def check_options(options: ServeOptions, application: str | None) -> None:
    """Refuse what cannot be, and what would let strangers in, as far as no application needs to be looked at for that.

    Raises:
        OptionError: The operator's move; all faults at once.
    """
    faults = []
    if not 0 <= options.port <= _MAX_PORT:  # the system would take the rest of a division
        faults.append(f"--port {options.port} is no port: expected 0 to {_MAX_PORT}, 0 for one that is free")
    if (options.certfile is None) != (options.keyfile is None):
        faults.append("--certfile and --keyfile belong together: give both, or none")
    if options.host in {"*", ""}:
        faults.append(f"--host {options.host!r} is no address: 0.0.0.0 stands for all of this machine")
    if application is None and options.token_file is None and not is_local(options.host):
        faults.append(needs_token(options.host))
    if application is not None and options.data_dir is not None:
        faults.append("--data-dir is for serving without an application: yours has `data_dir` of create_app")
    if options.demo:
        faults += _faults_of_demo(options, application)
    if faults:
        raise OptionError(faults)


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
    """Say why a server is not started, and what to do."""
    return (
        f"others reach --host {host}, so calls need a token: give --token-file FILE "
        "(`agentrail token new --token-file FILE` makes one), or `auth` to create_app"
    )


def is_local(host: str) -> bool:
    """Say whether an address is reached from this machine alone. A name that is none of the usual ones may lead anywhere."""
    return host.lower() == "localhost" or is_loopback(host)


async def make_default_application(options: ServeOptions) -> "AsgiApp":
    """Make an application of one profile, `default`, with the model and the tools that `agentrail run` would use.

    Raises:
        OptionError, ModelNotFound: The operator's move: as of `choose_for`.
    """
    from agentrail.blueprints.command_files import read_commands
    from agentrail.gateway.app import create_app
    from agentrail.host.profiles import AgentProfile

    choices = Choices()
    chosen = await choose_for(choices, os.environ)
    write_error(f"model {chosen.model} ({chosen.why})")
    profile = AgentProfile(id="default", name="Default", options=decide_session(choices, chosen))
    return create_app(
        profiles=[profile],
        store=DEFAULT_STORE,
        data_dir=options.data_dir,
        commands=read_commands(os.environ),
        drain_delay=0.0 if is_local(options.host) else DRAIN_DELAY_SECONDS,
    )


def caller_check_of(app: "AsgiApp") -> "CallerCheck | None":
    """Give who may call an application that `create_app` made; None for another one."""
    from agentrail.gateway.callers import CallerCheck

    found = getattr(getattr(app, "state", None), "caller_check", None)
    return found if isinstance(found, CallerCheck) else None


def forgets_webhooks(app: "AsgiApp") -> bool:
    """Say whether an application that `create_app` made tells ends to receivers, and keeps what it owes them nowhere."""
    from agentrail.gateway.app import ServedHost

    served = getattr(getattr(app, "state", None), "host", None)
    if not isinstance(served, ServedHost) or served.options.webhooks is None:
        return False
    options = served.options
    return options.supervisor is None and options.store in (None, "memory:")


def admit_more(callers: "CallerCheck | None", options: ServeOptions, tokens: Tokens | None) -> None:
    """Let in what the command line says, besides what the application was made with.

    Raises:
        OptionError: The operator's move: others would reach the server, and need no token; or the application takes no such options.
    """
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
    """Say by which name a server may be called that listens there; none follows from all addresses of a machine."""
    return () if host in _ANY_ADDRESS else (f"[{host}]" if ":" in host else host,)


def own_origins(options: ServeOptions) -> tuple[str, ...]:
    """Say of which origin the server's own pages are."""
    scheme = "http" if options.certfile is None else "https"
    names = dict.fromkeys((*LOOPBACK_NAMES, *own_names(options.host)))
    usual = {"http": 80, "https": 443}[scheme]
    at = "" if options.port == usual else f":{options.port}"
    return tuple([f"{scheme}://{name}{at}" for name in names])


async def serve_until_signal(app: "AsgiApp | None", options: ServeOptions, tokens: Tokens | None) -> None:
    """Serve an application, or the default one, to callers that the command line lets in too.

    Raises:
        OptionError: As of `make_default_application`, `admit_more` and `run_server`.
    """
    served = await make_default_application(options) if app is None else app
    admit_more(caller_check_of(served), options, tokens)
    if forgets_webhooks(served):
        write_error("webhooks that are owed end with this process: give create_app a store to keep them.")
    await run_server(served, options)


async def run_server(app: "AsgiApp", options: ServeOptions) -> None:
    """Serve until a signal: the first lets calls and streams end, a second one does not wait for them.

    Raises:
        OptionError: The address or the certificate cannot be used.
    """
    from agentrail.gateway.serving import addresses_of, open_listeners, serve_app, show_address, tls_context

    tls = None
    if options.certfile is not None and options.keyfile is not None:
        tls = tls_context(options.certfile, options.keyfile)
    listeners = await open_listeners(options.host, options.port)
    scheme = "http" if tls is None else "https"
    shown = [f"{scheme}://{show_address(*address)}" for address in addresses_of(listeners)]
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        told = partial(_tell, shown, options, console_link_of(app, shown[0]))
        stop = partial(
            wait_stop, signals, drain_of(app), told, lambda one: write_error(f"{say_stopping(one, app)}.")
        )
        await serve_app(app, listeners, stop, tls=tls, limits=limits_for(app))
    write_error("stopped.")


def limits_for(app: "AsgiApp") -> "ConnectionLimits":
    """Give connections a part of the time that an application has to shut down, where that is a short one."""
    from agentrail.gateway.app import ServedHost
    from agentrail.gateway.serving import USUAL_LIMITS

    served = getattr(getattr(app, "state", None), "host", None)
    if not isinstance(served, ServedHost):
        return USUAL_LIMITS
    seconds = served.options.shutdown_timeout
    grace, cut = min(USUAL_LIMITS.grace_seconds, seconds / 10), min(USUAL_LIMITS.cut_seconds, seconds / 30)
    return evolve(USUAL_LIMITS, grace_seconds=grace, cut_seconds=cut)


def drain_of(app: "AsgiApp") -> Callable[[], Awaitable[None]] | None:
    """Give what lets the calls and streams of an application end, where it has that."""
    found = getattr(getattr(app, "state", None), "drain", None)
    return found if callable(found) else None


def say_stopping(number: int, app: object) -> str:
    """Say why a server stops, and what is waited for: a person at the terminal would else think that it hangs."""
    name = signal.Signals(number).name
    host = getattr(getattr(app, "state", None), "host", None)
    drain_timeout = getattr(getattr(host, "options", None), "drain_timeout", None)
    if host is None or drain_timeout is None:
        return f"{name}: stopping"
    delay = (
        f"all goes on for {host.drain_delay:g} s, so that balancers notice; then " if host.drain_delay else ""
    )
    return (
        f"{name}: stopping; {delay}no new request is taken, and what runs has {drain_timeout:g} s to end. "
        "A second one does not wait"
    )


async def wait_stop(
    signals: AsyncIterator[int],
    drain: Callable[[], Awaitable[None]] | None,
    tell: Callable[[], None],
    tell_stopping: Callable[[int], None] = lambda _: None,
) -> None:
    """Tell that calls are answered, wait for a signal, and let the application drain until a second one."""
    tell()
    tell_stopping(await anext(signals))
    if drain is None:
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_at_next, signals, nursery.cancel_scope)
        await drain()
        nursery.cancel_scope.cancel(reason="drained")


async def _cancel_at_next(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    await anext(signals)
    scope.cancel(reason="a second signal")


def console_link_of(app: "AsgiApp", address: str) -> str | None:
    """Give the address of the console of an application that `create_app` made, for a browser; None where it has none.

    A token that calls need stands behind the `#`, which browsers send nowhere: the one of AGENTRAIL_TOKEN, if a person reads this at a
    terminal. A file of tokens has their digests alone, and what goes into a log is kept.
    """
    from agentrail.gateway.app import ServedHost

    served = getattr(getattr(app, "state", None), "host", None)
    if not isinstance(served, ServedHost) or not served.gateway.has_console:
        return None
    link = f"{address}{served.base_path}/console/"
    token = os.environ.get(TOKEN_VARIABLE, "")
    needs_one = served.gateway.callers.rules.needs_token
    return f"{link}#token={quote(token, safe='')}" if needs_one and token and os.isatty(2) else link


def _tell(shown: list[str], options: ServeOptions, console: str | None = None) -> None:
    if not is_local(options.host) and options.certfile is None:
        write_error("calls and tokens are not encrypted: give --certfile and --keyfile, or put TLS in front.")
    if options.host in _ANY_ADDRESS and not options.allowed_host:
        write_error("no other name than this machine's own is answered: give --allowed-host NAME.")
    if console is not None:
        write_error(f"console {console}")
    write_all(1, "".join(f"{address}\n" for address in shown).encode())
