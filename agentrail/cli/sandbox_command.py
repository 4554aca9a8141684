"""`agentrail sandbox`: serve workspaces of this machine over HTTP with a token. `agentrail.gateway.sandboxes` is the server."""

import contextlib
import hashlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import trio
from attrs import frozen
from cyclopts import App, Parameter

from agentrail.cli.ctrl_c import Interrupts, stop_signals
from agentrail.cli.exit_codes import Exit
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.serve_command import check_extra, is_local
from agentrail.cli.serve_options import DEFAULT_HOST
from agentrail.cli.stdio import write_all, write_error
from agentrail.config.key_filter import shown_address
from agentrail.errors import OptionError
from agentrail.gateway.authorization import LOCAL
from agentrail.gateway.tokens import TokenEntry, Tokens, read_token_file
from agentrail.sandboxes.bubblewrap import Network
from agentrail.sandboxes.fallback import ShellFallback
from agentrail.sandboxes.remote.operations import SANDBOX_PORT, SANDBOX_TOKEN_VARIABLE, TOKEN, TOKEN_WORDS

if TYPE_CHECKING:
    import ssl

    from agentrail.gateway.sandboxes.app import SandboxApp

app: Final = App(name="sandbox", result_action="return_value")


@Parameter(name="*")
@frozen(kw_only=True)
class SandboxOptions:
    host: Annotated[
        str, Parameter(help="The address to listen on. Any but this machine's own needs TLS.")
    ] = DEFAULT_HOST
    port: Annotated[int, Parameter(help="The port; 0 picks a free one.")] = SANDBOX_PORT
    socket: Annotated[Path | None, Parameter(help="A Unix socket to listen on, in place of an address.")] = (
        None
    )
    token_file: Annotated[
        Path | None,
        Parameter(
            help=f"File of the clients' tokens; agentrail token new creates them. Default: the token of {SANDBOX_TOKEN_VARIABLE}."
        ),
    ] = None
    certfile: Annotated[Path | None, Parameter(help="A certificate, for TLS.")] = None
    keyfile: Annotated[Path | None, Parameter(help="Its key.")] = None
    insecure: Annotated[
        bool,
        Parameter(
            help="Listen on another address than this machine's own without TLS: token and files can be read on the way."
        ),
    ] = False
    shell_fallback: Annotated[
        ShellFallback,
        Parameter(
            help="How to treat commands that bubblewrap cannot confine: refuse them, or run them unconfined, with the "
            "rights of the server's user, in containers."
        ),
    ] = "refuse"
    network: Annotated[
        Network, Parameter(help="Network access of confined commands: none, or the same as the host.")
    ] = "none"
    once: Annotated[bool, Parameter(help="End when the first workspace has ended; for containers.")] = False
    idle_seconds: Annotated[
        float | None, Parameter(help="End after this time without requests. Default: never.")
    ] = None
    debug: Debug = False


_USUAL: Final = SandboxOptions()


@app.command(
    name="serve",
    help=f"""Serve workspaces of this machine: files and commands, for sessions elsewhere that say sandbox="http://host:port".

    Each client gets a new, empty directory, deleted when it leaves, or thirty seconds after its last request. Paths and commands are
    judged here, as LocalSandbox judges them. The token is read from {SANDBOX_TOKEN_VARIABLE} or a file. The address is printed on stdout when
    requests are answered. Ctrl-C or SIGTERM ends it, with all workspaces.

    Exit codes: 0 stopped, 1 it failed, 2 wrong usage.""",
)
def serve_sandboxes(*, options: SandboxOptions = _USUAL) -> Exit:
    send_logs_to_stderr(debug=options.debug)
    check_extra()
    check_sandbox_options(options)
    trio.run(serve_sandboxes_until_signal, options, tokens_for(options, os.environ))
    return Exit.DONE


def check_sandbox_options(options: SandboxOptions) -> None:
    """Reject contradictory options, and those that would expose traffic."""
    faults = []
    if (options.certfile is None) != (options.keyfile is None):
        faults.append("--certfile and --keyfile belong together: give both, or none")
    is_reached = options.socket is None and not is_local(options.host)
    if is_reached and options.certfile is None and not options.insecure:
        faults.append(
            f"others reach --host {shown_address(options.host)}, and without TLS they read the token and all files on the way: give --certfile and "
            "--keyfile, or --insecure where the network between is yours alone"
        )
    if options.socket is not None and options.certfile is not None:
        faults.append("--socket is for this machine alone: leave out --certfile and --keyfile")
    if options.idle_seconds is not None and not 0 < options.idle_seconds < float("inf"):
        faults.append(f"--idle-seconds is {options.idle_seconds:g}: expected a number above 0")
    OptionError.raise_for(faults)


def tokens_for(options: SandboxOptions, environ: Mapping[str, str]) -> Tokens:
    if options.token_file is not None:
        return read_token_file(options.token_file)
    token = environ.get(SANDBOX_TOKEN_VARIABLE, "")
    if not TOKEN.fullmatch(token):
        what = "is not set" if not token else "is no token"
        message = f"{SANDBOX_TOKEN_VARIABLE} {what}: give it {TOKEN_WORDS}, such as `agentrail token new` makes, or give --token-file FILE"
        raise OptionError([message])
    digest = hashlib.sha256(token.encode()).digest()
    return Tokens([TokenEntry(digest=digest, tenant_id=LOCAL, user_id=LOCAL)])


async def serve_sandboxes_until_signal(options: SandboxOptions, tokens: Tokens) -> None:
    from agentrail.gateway.sandboxes.app import SandboxApp
    from agentrail.gateway.sandboxes.lease_directories import open_local_workspace
    from agentrail.gateway.serving import followed_tls

    workspaces = partial(open_local_workspace, shell_fallback=options.shell_fallback, network=options.network)
    served = SandboxApp(tokens, workspaces, is_for_one=options.once, idle_seconds=options.idle_seconds)
    async with followed_tls(options.certfile, options.keyfile) as tls:
        await _serve_until_signal(served, options, tls)
    write_error("stopped.")


async def _serve_until_signal(
    served: "SandboxApp", options: SandboxOptions, tls: "ssl.SSLContext | None"
) -> None:
    from agentrail.gateway.serving import addresses_of, open_listeners, serve_app, show_address

    if options.socket is not None:
        listeners = [await open_socket(options.socket)]
        shown = [f"unix:{options.socket}"]
    else:
        listeners = await open_listeners(options.host, options.port)
        scheme = "http" if tls is None else "https"
        shown = [f"{scheme}://{show_address(*address)}" for address in addresses_of(listeners)]
    with trio.open_signal_receiver(signal.SIGINT, *stop_signals()) as signals:
        stop = partial(_wait_stop, signals, served, shown)
        try:
            await serve_app(served, listeners, stop, tls=tls)
        finally:
            if options.socket is not None:
                with contextlib.suppress(OSError):
                    options.socket.unlink()


async def open_socket(path: Path) -> trio.SocketListener:
    """Listen on a Unix socket that only this user may open."""
    made = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            await made.bind(str(path))
        finally:
            os.umask(before)
        made.listen(1_024)
    except OSError as error:
        made.close()
        raise OptionError([f"cannot listen on the socket {str(path)!r}: {error.strerror or error}"]) from None
    return trio.SocketListener(made)


async def _wait_stop(signals: AsyncIterator[int], served: "SandboxApp", shown: list[str]) -> None:
    """Print the addresses, then wait for a signal, or until no client needs the server any more."""
    write_all(1, "".join(f"{address}\n" for address in shown).encode())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Interrupts(nursery.cancel_scope.cancel).receive, signals)
        await served.wait_done()
        nursery.cancel_scope.cancel(reason="no client needs it any more")
