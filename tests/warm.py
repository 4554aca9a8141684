"""An interpreter that has imported what some tests need in a process of their own, and forks for each of them.

A run is a process of its own all the same, with its own descriptors, directory and environment: only the half second in which
a fresh interpreter imports the same modules for the hundredth time is left out, and the tenth in which it is taken apart, where
the request does not ask for that. What happens while it imports is for tests that start a fresh one. `forked` talks to it.
"""

import gc
import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

MAX_REQUEST_BYTES: Final = 150_000


def main(descriptor: int, *, imports: Sequence[str], frozen: bool) -> None:
    """Serve one run after the other until nobody asks any more; in a forked child, be the module that was asked for."""
    asked = socket.socket(fileno=descriptor)
    for name in imports:
        import_module(name)
    if frozen:  # what is here already is nobody's garbage, and no run need look at it
        gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, MAX_REQUEST_BYTES, 3)
        if not request:
            return
        pid = os.fork()
        if not pid:
            asked.close()
            wanted = json.loads(request)
            _become(wanted, descriptors)
            if wanted["to_the_end"]:
                runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)
                return
            _run_and_leave(wanted["module"])
        for one in descriptors:
            os.close(one)
        asked.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        asked.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Take the descriptors, directory, environment and arguments of the run, and a session of its own if it asks for one."""
    if request["session"]:
        os.setsid()
        # With a terminal of its own, which may be closed: also where the tests run under `nohup`.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for number, one in enumerate(descriptors):
        os.dup2(one, number)
        os.close(one)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    sys.path[0] = request["cwd"]


def _run_and_leave(module: str) -> NoReturn:
    """Run the module, as `python -m` does, and leave as soon as it has ended."""
    code = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as leaving:
        code = _code_of(leaving)
    except BaseException:  # noqa: BLE001 - as the interpreter prints what nobody caught
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)  # to take the interpreter apart takes longer than most runs


def _code_of(leaving: SystemExit) -> int:
    """Say with which code it leaves, and print what is none, as the interpreter does."""
    match leaving.code:
        case None:
            return 0
        case int(code):
            return code
        case text:
            sys.stderr.write(f"{text}\n")
            return 1


if __name__ == "__main__":
    main(int(sys.argv[1]), frozen=sys.argv[2] == "frozen", imports=sys.argv[3:])
