"""The command `agentrail`: one file per command, and what they share.

- `run.py`, `chat.py`, `doctor.py`, `plugins.py`, `check_plugins.py`: the commands. `commands.py` knows their names, and imports
  the one that is wanted.
- `chat_command.py` is how a chat begins, before `chat.py` is imported, which holds the conversation.
- `choices.py`: what `run` and `chat` are told; `options.py`: what that comes to; `typed_options.py`: what `--opt` says. `exits.py`: exit codes, and errors as
  sentences. `logs.py`: what of the log a person sees.
- `rendering.py`: events as text, without any I/O. `screen.py`, `lines.py`: what is written, and what is typed.
- `interrupts.py`: what Ctrl-C does.

    $ agentrail run "List the Python files here and say what each is for"

Nothing is decided here that a session could decide; a program of yours needs nothing from this room.
"""

import signal
import sys
from typing import TYPE_CHECKING

from agentrail.search_path import leave_out_current

if TYPE_CHECKING:
    from agentrail.cli.commands import app as app


def main() -> None:
    """Run the command with the arguments of the process, and exit with its code."""
    leave_out_current()
    try:
        # Not at the top: it takes a tenth of a second, and Ctrl-C in that time must not print a traceback either.
        from agentrail.tuning import no_looks

        with no_looks():
            from agentrail.cli.commands import run_command_line

        code = run_command_line(sys.argv[1:])
    except* KeyboardInterrupt:
        code = 130
    # All is done and decided: Ctrl-C during the interpreter's own end could only print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def __getattr__(name: str) -> object:
    """Resolve `app`, the tree of commands, on first use."""
    if name != "app":
        message = f"module 'agentrail.cli' has no attribute {name!r}"
        raise AttributeError(message)
    from agentrail.cli.commands import app

    return app
