"""`agentrail token`: create tokens for callers of `agentrail serve`. A token is shown once, and only its digest is stored."""

import os
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter

from agentrail import outside
from agentrail.cli.exit_codes import Exit
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.stdio import write_all, write_error
from agentrail.errors import OptionError
from agentrail.gateway.authorization import LOCAL
from agentrail.gateway.tokens import NewToken, fault_of_mode, make_token, read_token_file

app: Final = App(name="token", result_action="return_value")


@app.command(
    help="""Create a token, print it once, and print the lines to add to the token file.

    With --token-file the lines are added there, to a file created for you alone if there is none. The token is the
    first line of stdout. Exit codes: 0 created, 2 wrong usage."""
)
def new(  # noqa: PLR0913 - each is an option
    tenant: Annotated[
        str, Parameter(help="The tenant of the token. Without one, it is the user local of the tenant local.")
    ] = "",
    user: Annotated[
        str, Parameter(help="The user of the token. Without one, each call names its user.")
    ] = "",
    *,
    scopes: Annotated[
        str,
        Parameter(
            help="Its permissions, comma-separated: use (work with sessions), inspect (read everything of the tenant), "
            "decide (answer its pending approvals), metrics (read the metrics of all tenants)."
        ),
    ] = "use",
    days: Annotated[
        float | None, Parameter(help="Days until it expires; omit it for a token that never expires.")
    ] = None,
    token_file: Annotated[Path | None, Parameter(help="The file to add it to.")] = None,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
    if not tenant and not user:
        # Same as without any token, so that a server can add one and keep its sessions.
        tenant = user = LOCAL
    elif not tenant:
        raise OptionError(["a user is one of a tenant: agentrail token new TENANT USER"])
    made = make_token(tenant, user, scopes=wanted, days=days, now=outside.wall())
    if token_file is not None:
        add_to_file(token_file, made)
    write_all(1, show_new(made, token_file).encode())
    if token_file is not None:
        write_error(f"added to {token_file}; the token is shown only once.")
    return Exit.DONE


def add_to_file(path: Path, made: NewToken) -> None:
    """Append an entry to a token file, created with access for its owner only."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        with os.fdopen(os.open(path, flags, 0o600), "ab", buffering=0) as file:
            fault = fault_of_mode(os.fstat(file.fileno()), os.geteuid())
            if fault is not None:
                raise OptionError([f"the token file {f'{path}'!r} {fault}"])
            if before := file.tell():
                read_token_file(path)  # with a fault before it, the entry would admit no caller
            entry = (b"\n" if before else b"") + made.lines.encode()
            if file.write(entry) < len(entry):  # half an entry would admit no caller either
                file.truncate(before)
                raise OptionError([f"the token file {f'{path}'!r} does not fit on its disk"])
    except OSError as error:
        why = f"{error.strerror}"
        if isinstance(error, FileNotFoundError):
            why = f"there is no directory {f'{path.parent}'!r}; create it first"
        message = f"the token file {f'{path}'!r} cannot be written: {why}"
        raise OptionError([message]) from None


def show_new(made: NewToken, token_file: Path | None) -> str:
    """Return the output for a new token: the token on the first line, and only there."""
    if token_file is not None:
        return f"{made.token}\n"
    return (
        f"{made.token}\n\n"
        "# It is shown only once. Add these lines to a file that only you can read (chmod 600),\n"
        "# and start the server with agentrail serve --token-file FILE:\n"
        f"{made.lines}"
    )
