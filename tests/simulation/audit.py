"""What a block of code opens outside of the process: files, sockets, threads, processes."""

import sys
import threading
from contextlib import contextmanager

from agentrail.testing.seams import wrapped

REAL = {
    *("open", "os.mkdir", "os.rename", "os.remove", "os.chmod", "os.truncate", "os.listdir", "os.scandir"),
    *("socket.__new__", "socket.connect", "socket.getaddrinfo"),
    *("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system", "pty.spawn"),
}

_blocks: list[list[tuple[str, ...]]] = []


def _hear(event, args):
    if _blocks and event in REAL and not _is_module(event, args):
        _blocks[-1].append((event, *map(repr, args[:2])))


def _is_module(event, args):
    """Whether the interpreter looks for a module, or shows a line of one."""
    if event == "open" and str(args[0]).endswith(".py"):
        return True
    frame = sys._getframe(2)  # noqa: SLF001 - the public ways read the files that they show
    while frame is not None and "importlib" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None


sys.addaudithook(_hear)  # for ever: there is no way to remove one


@contextmanager
def opened():
    """Collect what is opened in the block, but modules."""

    def noting(start):
        def noted(thread):
            _blocks[-1].append(("thread", thread.name))
            return start(thread)

        return noted

    seen = []
    _blocks.append(seen)
    try:
        with wrapped([(threading.Thread, "start", noting)]):  # Python 3.11 has no event for threads
            yield seen
    finally:
        _blocks.remove(seen)


@contextmanager
def nothing_real():
    """Hold that nothing is opened in the block."""
    with opened() as seen:
        yield
    assert seen == []
