"""A named pipe in the place of a file, with a writer, so that a reader who waits for it fails and does not hang."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread


@contextmanager
def pipe_at(path: Path, data: bytes = b"") -> Iterator[None]:
    os.mkfifo(path)

    def write() -> None:
        with suppress(BrokenPipeError), path.open("wb") as file:  # waits for a reader
            file.write(data)

    writer = Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # if nobody has read it
        writer.join()
        os.close(reader)
