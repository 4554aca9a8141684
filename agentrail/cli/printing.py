"""What a command that ends with a text does with it."""

from agentrail.cli.exits import Exit
from agentrail.cli.output import OutputClosed, OutputFailed, write_all, write_error
from agentrail.config.keys import hide_keys


def print_text(text: str) -> Exit:
    """Write a text and a line's end to stdout, without what looks like a key."""
    try:
        write_all(1, f"{hide_keys(text)}\n".encode("utf-8", "replace"))
    except (OutputFailed, OutputClosed) as error:
        return end_without_output(error)
    return Exit.DONE


def end_without_output(error: OutputFailed | OutputClosed) -> Exit:
    """Say how a command ends whose output cannot be written; on stderr why, unless its reader has read enough and knows."""
    if isinstance(error, OutputFailed):
        write_error(f"{error}.")
    return Exit.FAILED
