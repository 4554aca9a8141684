"""`agentrail store`: commands for a whole store instead of one session. They are implemented in `sessions_command`."""

from typing import Final

from cyclopts import App

app: Final = App(name="store", result_action="return_value")
app.command(
    "agentrail.cli.sessions_command:backup",
    name="backup",
    help="Copy the whole store to a new file, also while a process writes it; the same as `sessions backup`.",
)
