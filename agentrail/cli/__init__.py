"""The command `agentrail`: one file per command, and the modules they share.

`command_tree.py` lists the commands and imports only the requested one. `chat_command.py` starts a chat before
`chat_session.py`, which holds the conversation, is imported.

    $ agentrail run "List the Python files here and say what each is for"

Decisions that a session can make are not made here. A program that embeds agentrail needs nothing from this package.
"""

import signal
import sys
from typing import TYPE_CHECKING

from agentrail.search_path import leave_out_current

if TYPE_CHECKING:
    from agentrail.cli.command_tree import app as app


def main() -> None:
    try:
        leave_out_current()
        # Not at the top: the import takes 0.1 s, and Ctrl-C in that time must not print a traceback either.
        from agentrail.gc_settings import no_looks, rare_looks

        rare_looks()
        with no_looks():
            from agentrail.cli.command_tree import run_command_line

        code = run_command_line(sys.argv[1:])
    except* KeyboardInterrupt:
        code = 130
    # The work is done: Ctrl-C while the interpreter shuts down could only print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from agentrail.gc_settings import no_last_look

    no_last_look()
    sys.exit(code)


def __getattr__(name: str) -> object:
    if name != "app":
        message = f"module 'agentrail.cli' has no attribute {name!r}"
        raise AttributeError(message)
    from agentrail.cli.command_tree import app

    return app
