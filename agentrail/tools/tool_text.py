"""Format of names, lines and counts in the answers of file tools. Pure."""

from typing import Final

MAX_TEXT_BYTES: Final = 50_000
"""Maximum text returned by a reading tool at once, in bytes."""

MAX_LINE_CHARACTERS: Final = 2_000


def printable(name: str) -> str:
    """Escape characters that would break the line or affect a terminal. File names may contain anything but "/"."""
    if name.isprintable():
        return name
    escapes = {
        ord(c): c.encode("unicode_escape").decode("ascii") for c in sorted(set(name)) if not c.isprintable()
    }
    return name.translate(escapes)  # in C: a model may pass a name of a megabyte


def cut_line(line: str) -> str:
    line = line.removesuffix("\r")  # the model sees and writes "\n" only
    if len(line) <= MAX_LINE_CHARACTERS:
        return line
    return (
        f"{line[:MAX_LINE_CHARACTERS]} [… {len(line) - MAX_LINE_CHARACTERS:,} more characters in this line]"
    )


def size_in_text(line: str) -> int:
    return len(line.encode("utf-8", "surrogatepass")) + 1


def counted(count: int, noun: str) -> str:
    """Format a count: `1 line`, `1,200 lines`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
